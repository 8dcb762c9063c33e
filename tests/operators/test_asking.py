"""A gate that asks a person: what it shows, what an answer does, and what of it stays in the state."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from airflow.sdk.exceptions import AirflowSkipException, TaskAwaitingInput

from airflow_dc_provider.asking import MAX_REASON, markdown, question, read_answer, subject
from airflow_dc_provider.exceptions import DcGateError, DcViolationError
from dc_engine.apply_load import apply_load
from dc_engine.state.storage import Storage
from dc_engine.stored import read_verdict
from dc_engine.verdict import Decided, Verdict
from tests.inprocess import Session, Source
from tests.operators.conftest import LOST
from tests.operators.test_gate import losing  # noqa: F401  (a fixture)

AT = datetime(2026, 1, 3, 4, 5, 6, tzinfo=UTC)
ADA = {"id": "ada", "name": "Ada Lovelace"}


def answer(option: str = "Approve", **given: Any) -> dict[str, Any]:
    return {"chosen_options": [option], "params_input": given, "responded_at": AT, "responded_by_user": ADA}


TIMED_OUT = {**answer("Reject", reason=None, snapshot=3), "responded_by_user": None, "timedout": True}


@pytest.fixture
def asked(monkeypatch) -> list[dict[str, Any]]:
    """What Airflow was told to ask."""
    questions: list[dict[str, Any]] = []
    monkeypatch.setattr("airflow.sdk.execution_time.hitl.upsert_hitl_detail", lambda **given: questions.append(given))
    return questions


@pytest.fixture
def context(ti) -> dict[str, Any]:
    ti.id, ti.try_number = "an id", 1
    return {"ti": ti}


def broken_load(state: Path, rules: dict[str, Any], **more: Any) -> Verdict:
    """Apply a load that breaks a rule; its verdict."""
    table = pa.table({"id": [1, 2], "zip": ["1", "1"], "city": ["Berlin", "Berln"], "salary": [1.0, 2.0]})
    types = {"id": "bigint", "zip": "string", "city": "string", "salary": "double"}
    request = {"state": str(state), "load_id": "2026-01-03", "changes": {"path": "rows"}, "constraints": rules}
    return apply_load(Session(sources={"rows": Source(table, types)}), {**request, **more})


@pytest.fixture
def stored(state, rules) -> Verdict:
    """The verdict of a load in a state that breaks a rule."""
    return broken_load(state, rules)


class TestAsking:
    def test_a_broken_rule_parks_the_task_with_the_verdict_in_xcom(self, gate, fake_spark, context, failing, asked):
        fake_spark.answers(failing)
        with pytest.raises(TaskAwaitingInput) as parked:
            gate(on_violation="ask", response_timeout=timedelta(hours=2)).execute(context)
        assert (parked.value.method_name, parked.value.timeout) == ("after_answer", timedelta(hours=2))
        assert parked.value.kwargs == {"load_id": "2026-01-03", "snapshot": 3}
        assert context["ti"].pushed["verdict"]["decision"] == "fail"
        (one,) = asked
        assert (one["ti_id"], one["options"], one["defaults"]) == ("an id", ["Approve", "Reject"], ["Reject"])
        assert one["subject"] == "Load 2026-01-03 of table tax broke 1 of 2 rules. Let it pass?"
        assert "| zip\\_decides\\_city | error | 31 | 4 | 40 | 0 new violations |" in one["body"]
        assert "| city | Berln | Berlin |" in one["body"]
        assert one["params"]["snapshot"]["value"] == 3
        assert one["params"]["reason"]["schema"]["type"] == ["null", "string"], "a required field blocks the buttons"

    def test_a_lost_dependency_that_would_close_the_gate_asks_too(self, gate, fake_spark, context, losing, asked):  # noqa: F811
        fake_spark.answers(losing)
        with pytest.raises(TaskAwaitingInput):
            gate(on_violation="ask").execute(context)
        assert "zip \\-\\> state \\(error\\)\\, because row" in asked[0]["body"]
        fake_spark.answers({**losing, "decision": "fail"})
        assert gate(on_violation="ask", on_invalidated="warn").execute(context)["decision"] == "fail"

    def test_nobody_is_asked_about_a_load_that_passes_or_was_approved(self, gate, fake_spark, context, failing, capfd):
        approved = {"answer": "approved", "by": "Ada", "at": "noon", "reason": "a typo"}
        fake_spark.answers({**failing, "replayed": True, "decided": approved})
        result = gate(on_violation="ask").execute(context)
        assert result["decided"] == context["ti"].pushed["verdict"]["decided"] == approved
        assert capfd.readouterr().out.rpartition(" [airflow.task")[0].endswith("\nApproved by Ada at noon: a typo")

    def test_one_that_was_rejected_is_asked_about_again(self, gate, fake_spark, context, failing, asked):
        rejected = {"answer": "rejected", "by": "Ada", "at": "noon", "reason": ""}
        fake_spark.answers({**failing, "replayed": True, "decided": rejected})
        with pytest.raises(TaskAwaitingInput):
            gate(on_violation="ask").execute(context)

    def test_people_are_told_and_named(self, gate, fake_spark, context, failing, asked):
        told: list[Any] = []
        fake_spark.answers(failing)
        with pytest.raises(TaskAwaitingInput):
            gate(on_violation="ask", assigned_users=[ADA], notifiers=[told.append]).execute(context)
        assert asked[0]["assigned_users"] == [ADA]
        assert told == [context]

    def test_nothing_from_the_data_is_markup(self, failing):
        values = failing["constraints"][0]["samples"][0]["t"]["values"]
        values["city"] = "a|b [x](http://evil) <img src=x> **c** `d`\n# e"
        text = question(Verdict.from_dict(failing), "/state")
        (line,) = (line for line in text.splitlines() if "evil" in line)
        assert line.startswith("| city | a\\|b \\[x\\]\\(http\\:\\/\\/evil\\) \\<img")
        assert markdown("_*~") == "\\_\\*\\~"

    def test_masked_columns_are_masked_in_the_question_too(self, gate, fake_spark, context, failing, asked):
        fake_spark.answers(failing)
        with pytest.raises(TaskAwaitingInput):
            gate(on_violation="ask", mask=["city"]).execute(context)
        assert "Berl" not in asked[0]["body"]

    def test_a_question_of_many_rules_has_an_end(self, failing):
        first = failing["constraints"][0]
        failing["constraints"] = [{**first, "name": f"rule_{number}"} for number in range(300)]
        verdict = Verdict.from_dict(failing)
        assert "280 more broken rules" in question(verdict, "/state")
        assert len(question(verdict, "/state")) < 15_000
        assert subject(verdict).startswith("Load 2026-01-03 of table tax broke 300 of 300 rules.")


class TestAnswers:
    def test_approved(self):
        decided = read_answer(answer(reason=" a typo ", snapshot=3), 3, first=True)
        assert decided == Decided("approved", "Ada Lovelace (ada)", "2026-01-03T04:05:06+00:00", "a typo")

    @pytest.mark.parametrize("given", [{}, {"reason": None}, {"reason": ""}])
    def test_the_reason_is_optional(self, given):
        assert read_answer(answer("Reject", **given), 3, first=False).reason == ""

    def test_a_reason_that_no_file_can_hold_is_escaped(self):
        assert read_answer(answer("Reject", reason="\ud800 ü"), 3, first=True).reason == r"\ud800 ü"

    @pytest.mark.parametrize("reason", ["x" * (MAX_REASON + 1), 7, ["a"], {"a": 1}, True])
    def test_junk_for_a_reason_is_no_answer(self, reason):
        with pytest.raises(DcGateError, match="nothing was decided"):
            read_answer(answer(reason=reason), 3, first=True)

    @pytest.mark.parametrize("option", ["approve", "", "Maybe"])
    def test_an_unknown_option_is_no_answer(self, option):
        with pytest.raises(DcGateError, match="must be one of 'Approve' and 'Reject'"):
            read_answer(answer(option), 3, first=True)

    @pytest.mark.parametrize("given", [{"snapshot": 2}, {"snapshot": "3"}, {}])
    def test_an_approval_of_an_earlier_question_is_none_of_this_verdict(self, given):
        with pytest.raises(DcGateError, match=r"(?s)this try has that of snapshot 3: nothing.*with 3 in the field"):
            read_answer(answer(**given), 3, first=False)
        assert read_answer(answer("Reject", **given), 3, first=False).answer == "rejected"

    @pytest.mark.parametrize("event", [TIMED_OUT, {"error": "too late", "error_type": "timeout"}])
    def test_silence_rejects(self, event):
        decided = read_answer(event, 3, first=True)
        assert (decided.answer, decided.by) == ("rejected", "")


class TestAfterTheAnswer:
    def test_an_approval_opens_the_gate_and_stays_in_the_state(self, gate, state, stored, context, capfd):
        event = answer(reason="a typo", snapshot=stored.snapshot)
        result = gate(on_violation="ask").after_answer(context, event, "2026-01-03", stored.snapshot)
        decided = Decided("approved", "Ada Lovelace (ada)", "2026-01-03T04:05:06+00:00", "a typo")
        assert read_verdict(Storage(str(state)), "2026-01-03") == replace(stored, decided=decided, seconds=ANY)
        assert result["decided"]["by"] == "Ada Lovelace (ada)"
        assert context["ti"].pushed["verdict"] == result
        assert "Approved by Ada Lovelace (ada) at 2026-01-03T04:05:06+00:00: a typo" in capfd.readouterr().out

    @pytest.mark.parametrize("retry", [False, True])
    def test_a_rejection_fails_at_once_and_says_who(self, gate, state, stored, context, retry):
        with pytest.raises(
            DcViolationError, match=r"Rejected by Ada Lovelace \(ada\) at .*: no\. The gate is closed\."
        ):
            gate(on_violation="ask", retry_on_violation=retry).after_answer(
                context, answer("Reject", reason="no"), "2026-01-03", stored.snapshot
            )
        assert read_verdict(Storage(str(state)), "2026-01-03").decided.answer == "rejected"

    def test_a_time_out_rejects(self, gate, state, stored, context):
        with pytest.raises(DcViolationError, match="because nobody answered in time"):
            gate(on_violation="ask").after_answer(context, TIMED_OUT, "2026-01-03", stored.snapshot)
        assert read_verdict(Storage(str(state)), "2026-01-03").decided.by == ""

    def test_an_answer_about_rows_that_were_replaced_is_a_clear_error(self, gate, stored, context):
        with pytest.raises(DcGateError, match="was applied again since, with other rows"):
            gate(on_violation="ask").after_answer(context, answer(snapshot=7), "2026-01-03", 7)

    def test_an_answer_about_a_load_that_is_gone_is_a_clear_error(self, gate, stored, context):
        with pytest.raises(DcGateError, match="has no verdict of load 'gone'"):
            gate(on_violation="ask").after_answer(context, answer(), "gone", 1)

    def test_values_stay_masked(self, gate, stored, context, capfd):
        with pytest.raises(DcViolationError):
            gate(on_violation="ask", mask=["city"]).after_answer(
                context, answer("Reject"), "2026-01-03", stored.snapshot
            )
        assert "Berl" not in capfd.readouterr().out


class _Any:
    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


ANY: Any = _Any()


class TestSkipping:
    def test_a_broken_rule_skips_the_task(self, gate, fake_spark, context, failing, capfd):
        fake_spark.answers(failing)
        with pytest.raises(AirflowSkipException, match=r"zip_decides_city \(31 new violations\)\. The gate is skipped"):
            gate(on_violation="skip").execute(context)
        assert context["ti"].pushed["verdict"]["decision"] == "fail"
        assert "The gate is skipped, and the tasks behind it with it." in capfd.readouterr().out

    def test_a_lost_dependency_of_severity_error_still_fails_it(self, gate, fake_spark, context, failing, losing):  # noqa: F811
        fake_spark.answers({**failing, "dependencies": {"invalidated": [LOST]}})
        with pytest.raises(DcViolationError):
            gate(on_violation="skip").execute(context)
        assert gate(on_violation="skip", on_invalidated="warn")
        fake_spark.answers({**failing, "dependencies": {"invalidated": [LOST]}})
        with pytest.raises(AirflowSkipException):
            gate(on_violation="skip", on_invalidated="warn").execute(context)

    def test_a_clean_load_is_not_skipped(self, gate, fake_spark, context, passing):
        fake_spark.answers(passing)
        assert gate(on_violation="skip").execute(context)["decision"] == "pass"
