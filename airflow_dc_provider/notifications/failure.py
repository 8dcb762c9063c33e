"""A closed gate as a short message, sent by any of Airflow's notifiers.

The text goes into the template context, and the notifier's fields name it there: as a field itself it would be
rendered, and a name in the data that looks like a template would be run.
"""

from __future__ import annotations

import copy
import html
import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import BaseNotifier

from airflow_dc_provider.brief import closed_lines
from dc_engine.wording import MAX_TEXT, plain

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

_MOST = 4_000
"""Characters of a text: what the strictest of chats takes."""
_FIELDS = {
    "dc_subject": ("subject", "title"),
    "dc_html": ("html_content",),
    "dc_text": ("text", "body", "message"),
}
"""Which fields of a notifier take which text, if the user gave none."""


class DcFailureNotifier(BaseNotifier):
    """
    Tell people what a closed gate found, by another notifier: ``on_failure_callback=DcFailureNotifier(...)``.

    The message has counts and names, never a value of the data. It fills the fields for subject and text that the
    other notifier has and that were not given; where you write them yourself, use ``{{ dc_subject }}``, ``{{ dc_text
    }}`` and ``{{ dc_html }}``. A task that failed for another reason is told with its error.

    :param notifier: The notifier that sends: ``SmtpNotifier(to=...)``, ``SlackWebhookNotifier(...)``, ...
    """

    def __init__(self, notifier: BaseNotifier) -> None:
        super().__init__()
        if not isinstance(notifier, BaseNotifier):
            raise TypeError(f"DcFailureNotifier needs one of Airflow's notifiers, not {type(notifier).__name__}.")
        self.notifier = notifier

    def notify(self, context: Context) -> None:
        """Send the message."""
        # It is rendered in place, and may be shared by all tasks of a DAG.
        sender = copy.copy(self.notifier)
        arguments = inspect.signature(type(sender)).parameters
        for name, fields in _FIELDS.items():
            for field in fields:
                # What was not given is None, or some standard text of the notifier.
                not_given = (None, arguments[field].default) if field in arguments else (None,)
                if field in sender.template_fields and getattr(sender, field) in not_given:
                    setattr(sender, field, f"{{{{ {name} }}}}")
        sender({**context, **failure_texts(context)})


def failure_texts(context: Mapping[str, Any]) -> dict[str, str]:
    """What to tell about a failed task: ``dc_subject``, ``dc_text`` and ``dc_html``."""
    error = context.get("exception")
    summary = getattr(error, "summary", None)
    task = _task(context)
    if summary:
        subject = f"Gate closed: load {plain(summary.get('load_id'), 60)} of table {plain(summary.get('table'), 60)}"
        lines = closed_lines(summary)
    else:
        subject = f"Task failed: {task}"
        lines = [plain(line, MAX_TEXT) for line in _error(error).splitlines() if line.strip()]
    address = getattr(context.get("ti"), "log_url", None)
    last = ["", task, *([f"Log: {plain(address, MAX_TEXT)}"] if address else [])]
    room = _MOST - sum(len(line) + 1 for line in last)
    text = "\n".join(lines)
    text = text if len(text) <= room else f"{text[: room - 4]} ..."
    text = "\n".join([text, *last])
    return {"dc_subject": subject, "dc_text": text, "dc_html": f"<pre>{html.escape(text)}</pre>"}


def _task(context: Mapping[str, Any]) -> str:
    ti = context.get("ti")
    facts = [(what, getattr(ti, f"{what}_id", None)) for what in ("dag", "task", "run")]
    index = getattr(ti, "map_index", -1)
    facts.append(("map index", index if isinstance(index, int) and index >= 0 else None))
    return ", ".join(f"{what} {plain(value, 250)}" for what, value in facts if value is not None) or "unknown"


def _error(error: Any) -> str:
    return f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else str(error or "no error is known")
