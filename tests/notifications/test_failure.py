"""What people get when a gate closes: by mail, with Airflow's own notifier, from a real (local) mail server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from email.message import Message
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.smtp.notifications.smtp import SmtpNotifier
from airflow.sdk import BaseNotifier

from airflow_dc_provider.exceptions import DcGateError, DcViolationError
from airflow_dc_provider.notifications.failure import DcFailureNotifier, failure_texts
from tests.mailbox import body, mailbox

TI = SimpleNamespace(
    dag_id="tax", task_id="gate", run_id="r1", map_index=-1, log_url="https://airflow.example/dags/tax/runs/r1"
)


@pytest.fixture
def mails(monkeypatch) -> Iterator[list[Message]]:
    with mailbox() as box:
        monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", json.dumps(box.connection))
        yield box.mails


@pytest.fixture
def closed(gate, fake_spark, failing, ti):
    """The error of a gate that closed."""

    def close(**arguments: Any) -> DcViolationError:
        fake_spark.answers(failing)
        with pytest.raises(DcViolationError) as raised:
            gate(**arguments).execute({"ti": ti})
        return raised.value

    return close


class Told(BaseNotifier):
    """A notifier that says what it would send."""

    template_fields = ("text", "data")

    def __init__(self, text: str = "This is a default message", data: Any = None) -> None:
        super().__init__()
        self.text, self.data, self.sent = text, data, []

    def notify(self, context: Any) -> None:
        self.sent.append((self.text, self.data))


def test_a_closed_gate_sends_a_mail_that_says_what_is_broken(mails, closed):
    callback = DcFailureNotifier(SmtpNotifier(to="oncall@example.com"))
    callback({"exception": closed(), "ti": TI})
    (mail,) = mails
    assert mail["Subject"] == "Gate closed: load 2026-01-03 of table tax"
    assert mail["To"] == "oncall@example.com"
    text = body(mail)
    assert "broke 1 of 2 rules" in text
    assert "zip_decides_city  error                 31               4" in text
    assert "dag tax, task gate, run r1" in text
    assert "https://airflow.example/dags/tax/runs/r1" in text


def test_no_value_of_the_data_is_sent(mails, closed):
    DcFailureNotifier(SmtpNotifier(to="oncall@example.com"))({"exception": closed(), "ti": TI})
    assert not [value for value in ("Berln", "10115", "Hambrg") if value in mails[0].as_string() + body(mails[0])]


def test_it_can_be_sent_again_and_again_by_one_notifier():
    told = Told()
    callback = DcFailureNotifier(told)
    for load in ("one", "two"):
        summary = {"load_id": load, "table": "t", "constraints": {}, "state": "/s", "snapshot": 1}
        callback({"exception": DcViolationError("closed", summary), "ti": TI})
    assert [text.split()[1] for text, _ in told.sent] == ["one", "two"]


def test_what_the_user_writes_stays_and_may_use_the_texts(closed):
    told = Told(text="see {{ dc_subject }}", data={"blocks": ["{{ dc_text }}"]})
    DcFailureNotifier(told)({"exception": closed(), "ti": TI})
    ((text, data),) = told.sent
    assert text == "see Gate closed: load 2026-01-03 of table tax"
    assert data["blocks"][0].startswith("Load 2026-01-03 of table tax broke 1 of 2 rules.")


HOSTILE = "{{ 7 * 7 }}<script>alert(1)</script>\nForged: line"


def test_names_that_look_like_templates_markup_or_lines_are_shown_as_they_are(mails):
    rule = {"new_violations": 3, "violating_rows": 2, "passed": False, "severity": "error"}
    lost = [{"text": HOSTILE, "severity": "warn", "watched": True}]
    summary = {
        "load_id": HOSTILE,
        "table": HOSTILE,
        "constraints": {HOSTILE: rule},
        "dependencies": {"invalidated": lost},
        "state": HOSTILE,
        "snapshot": 3,
    }
    DcFailureNotifier(SmtpNotifier(to="oncall@example.com"))({"exception": DcViolationError("x", summary), "ti": TI})
    text = body(mails[0])
    assert "<script>" not in text
    assert "49" not in text
    assert "\nForged" not in text
    assert text.count("{{ 7 * 7 }}&lt;script&gt;") == 5


def test_however_much_is_broken_the_text_is_short():
    rule = {"new_violations": 3, "violating_rows": 2, "passed": False, "severity": "error"}
    lost = [{"text": "x" * 900, "severity": "warn", "watched": True}] * 900
    summary = {
        "load_id": "l" * 300,
        "table": "t" * 9000,
        "constraints": {f"{number}{'r' * 500}": rule for number in range(900)},
        "dependencies": {"invalidated": lost},
        "state": "/s" * 900,
        "snapshot": 3,
    }
    texts = failure_texts({"exception": DcViolationError("x", summary), "ti": TI})
    assert len(texts["dc_text"]) <= 4_000
    assert len(texts["dc_subject"]) < 200
    assert "and 890 more broken rules" in texts["dc_text"]
    assert texts["dc_text"].endswith("Log: https://airflow.example/dags/tax/runs/r1")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (DcGateError("There is no Spark.", hint="Start one."), "DcGateError: There is no Spark.\nHint: Start one."),
        (ValueError("y" * 9000), f"ValueError: {'y' * 400}"),
        ("killed", "killed"),
        (None, "no error is known"),
    ],
)
def test_a_task_that_fails_for_another_reason_is_told_with_its_error(error, told):
    texts = failure_texts({"exception": error, "ti": TI})
    assert texts["dc_subject"] == "Task failed: dag tax, task gate, run r1"
    assert texts["dc_text"].startswith(told)
    assert len(texts["dc_text"]) <= 4_000


def test_something_that_is_no_notifier_is_refused():
    with pytest.raises(TypeError, match="needs one of Airflow's notifiers, not str"):
        DcFailureNotifier("oncall@example.com")
