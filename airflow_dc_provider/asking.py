"""Asking a person: what the question shows, and what an answer means.

Airflow shows the question as Markdown, so everything that comes from data or rules is escaped for it. Airflow checks
which option was chosen, but not what else was sent with it; and after a task was cleared it goes on showing the
first question of that task. So an answer says which verdict (by the number of its snapshot) it is about.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from airflow_dc_provider.exceptions import DcGateError
from dc_engine.errors import counted
from dc_engine.lost import lost_watched, sentence
from dc_engine.reporting import broke, facts_line, tolerated
from dc_engine.verdict import ConstraintVerdict, Decided, Verdict
from dc_engine.wording import MAX_TEXT, plain

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

APPROVE, REJECT = "Approve", "Reject"
MAX_REASON = 1_000
_MAX_RULES = 20
_MAX_EXAMPLES = 5
_PUNCTUATION = re.compile(f"([{re.escape(string.punctuation)}])")


def markdown(value: Any, width: int = MAX_TEXT) -> str:
    """A value as Markdown that shows just it: no markup, no link, no end of a table's cell."""
    return _PUNCTUATION.sub(r"\\\1", plain(value, width))


def subject(verdict: Verdict) -> str:
    """The headline of the question."""
    return f"{broke(verdict)} Let it pass?"


def question(verdict: Verdict, state: str) -> str:
    """What is broken and lost, as Markdown, and what an answer does."""
    kept = "its rows, which were discarded, come into the state" if verdict.discarded else "its rows stay in the state"
    rejected = (
        "they stay discarded" if verdict.discarded else "they stay in the state, until they are fixed or taken out"
    )
    parts = [markdown(facts_line(verdict, state), 4 * MAX_TEXT)]
    if verdict.broken:
        rules = verdict.broken[:_MAX_RULES]
        parts.append(
            _table(["rule", "severity", "new violations", "violating rows", "in all", "tolerated"], map(_rule, rules))
        )
        if len(verdict.broken) > len(rules):
            parts.append(f"... and {len(verdict.broken) - len(rules):,} more broken rules: see the log.")
    if lost := lost_watched(verdict):
        parts.append(f"**Lost:** {counted(len(lost), 'watched dependency', 'watched dependencies')}")
        parts.append("\n".join(f"- {markdown(sentence(one))}" for one in lost[:_MAX_RULES]))
    parts += [text for rule in verdict.broken[:_MAX_EXAMPLES] for text in _example(rule)]
    parts += [
        f"**Approve**: the gate opens, and {kept}. **Reject**: the task fails, and {rejected}.",
        f"This is the verdict of snapshot {verdict.snapshot}. If the task has run again since, Airflow still shows "
        "this first question: read the newest log, and answer with the snapshot that it names.",
    ]
    return "\n\n".join(parts)


def form(verdict: Verdict) -> dict[str, Any]:
    """The fields of the question's form."""
    from airflow.sdk import Param

    reason = Param(
        None,
        type=["null", "string"],
        maxLength=MAX_REASON,
        title="Reason",
        description="Why; it is kept in the state beside the verdict.",
    )
    about = Param(
        verdict.snapshot,
        type="integer",
        title="Snapshot",
        description="Which verdict this answer is about: change it only as the last line of the question says.",
    )
    return {"reason": reason.serialize(), "snapshot": about.serialize()}


def ask(
    context: Context,
    verdict: Verdict,
    state: str,
    *,
    method: str,
    timeout: timedelta | None,
    assigned_users: Sequence[Mapping[str, str]],
) -> NoReturn:
    """Park the task until a person has answered; it goes on with the operator's ``method``."""
    from airflow.sdk.exceptions import TaskAwaitingInput
    from airflow.sdk.execution_time.hitl import upsert_hitl_detail

    upsert_hitl_detail(
        ti_id=context["ti"].id,
        options=[APPROVE, REJECT],
        subject=subject(verdict),
        body=question(verdict, state),
        defaults=[REJECT],
        params=form(verdict),
        assigned_users=[dict(one) for one in assigned_users],
    )
    about = {"load_id": verdict.load_id, "snapshot": verdict.snapshot}
    raise TaskAwaitingInput(method_name=method, kwargs=about, timeout=timeout)


def read_answer(event: Mapping[str, Any], snapshot: int, *, first: bool) -> Decided:
    """What was decided about the verdict of a snapshot; ``first``: whether no earlier try can have asked."""
    if event.get("error_type") == "timeout" or event.get("timedout"):
        return Decided("rejected", at=_instant(event.get("responded_at")))
    if event.get("error"):
        raise DcGateError.told(f"Airflow could not ask: {event['error']}")
    chosen = event.get("chosen_options")
    given = event.get("params_input") or {}
    if chosen not in ([APPROVE], [REJECT]) or not isinstance(given, Mapping):
        raise DcGateError.told(f"The answer is {chosen!r}, and must be one of {APPROVE!r} and {REJECT!r}.")
    reason = given.get("reason") or ""
    if not isinstance(reason, str) or len(reason) > MAX_REASON:
        raise DcGateError.told(
            f"The answer's reason is {reason!r:.100}, and must be a text of at most {MAX_REASON:,} characters: nothing "
            "was decided.",
            "Clear this task, and answer again.",
        )
    about = given.get("snapshot", snapshot if first else None)
    if chosen == [APPROVE] and about != snapshot:
        raise DcGateError.told(
            f"The answer approves the verdict of snapshot {about!r:.30}, and this try has that of snapshot {snapshot}: "
            "nothing was decided.",
            "After a task was cleared, Airflow shows its first question again. Read the log of this try, clear the "
            f"task, and approve it with {snapshot} in the field 'Snapshot'.",
        )
    reason = reason.strip().encode(errors="backslashreplace").decode()  # JSON may hold what no file can
    answer: Any = "approved" if chosen == [APPROVE] else "rejected"
    return Decided(answer, _name(event.get("responded_by_user")), _instant(event.get("responded_at")), reason)


def _name(user: Any) -> str:
    """A person, by name and id."""
    known = user if isinstance(user, Mapping) else {}
    name, own = (str(known.get(key) or "") for key in ("name", "id"))
    both = f"{name} ({own})" if name and own and name != own else name or own
    return plain(both, MAX_TEXT) if both else "somebody whom Airflow does not name"


def _instant(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    return plain(value) if value else datetime.now().astimezone().isoformat(timespec="seconds")


def _rule(rule: ConstraintVerdict) -> list[str]:
    numbers = (f"{number:,}" for number in (rule.new_violations, rule.violating_rows, rule.total_violations))
    return [markdown(rule.name, 60), rule.severity, *numbers, tolerated(rule.tolerance)]


def _example(rule: ConstraintVerdict) -> list[str]:
    """What a rule says, and one violation of it, the two rows side by side."""
    says = f": {markdown(rule.description)}" if rule.description else ""
    parts = [f"**{markdown(rule.name, 60)}**{says}", markdown(rule.formula)]
    if rule.samples:
        sides = {name: side for name, side in rule.samples[0].items() if side}
        shown = {name: {**(side.get("row") or {}), **(side.get("values") or {})} for name, side in sides.items()}
        columns = dict.fromkeys(column for side in shown.values() for column in side)
        lines = ([markdown(column), *(_cell(side, column) for side in shown.values())] for column in columns)
        parts.append(_table(["example", *shown], lines))
    return parts


def _cell(side: Mapping[str, Any], column: str) -> str:
    return markdown(side[column]) if column in side else ""


def _table(header: Sequence[str], lines: Any) -> str:
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
