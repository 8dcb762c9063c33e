"""The branch: which tasks a verdict follows."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG
from airflow.sdk.exceptions import DownstreamTasksSkipped

from airflow_dc_provider.exceptions import DcGateError
from airflow_dc_provider.operators.branch import DcBranchOperator, followed
from dc_engine.verdict import Verdict
from tests.operators.conftest import LOST

FOLLOW = {"follow_if_pass": "publish", "follow_if_violated": ["quarantine", "tell"], "follow_if_invalidated": "review"}


@pytest.fixture
def branch(rules, state, fake_spark, ti):
    """A branch with a task behind it for everything that can be followed; what is skipped when it runs."""

    def skipped(**arguments: Any) -> set[str]:
        with DAG("d", schedule=None):
            given = {"task_id": "branch", "constraints": rules, "changes": {"path": "/landing"}, "state": str(state)}
            operator = DcBranchOperator(**{**given, "load_id": "one", **FOLLOW, **arguments})
            operator >> [EmptyOperator(task_id=name) for name in ("publish", "quarantine", "tell", "review")]
        ti.task, ti.map_index = operator, -1
        try:
            operator.execute({"ti": ti})
        except DownstreamTasksSkipped as told:
            return {name for name, _ in told.tasks}
        return set()

    return skipped


def lost(severity: str) -> dict[str, Any]:
    return {"invalidated": [{**LOST, "severity": severity}]}


class TestFollowing:
    def test_a_clean_load_follows_the_first(self, branch, fake_spark, passing, ti):
        fake_spark.answers(passing)
        assert branch() == {"quarantine", "tell", "review"}
        assert ti.pushed["return_value"] == ti.pushed["verdict"]
        assert ti.pushed["skipmixin_key"] == {"followed": ["publish"]}, "so that a cleared task is skipped again"

    def test_a_broken_rule_follows_the_second_and_does_not_fail(self, branch, fake_spark, failing, ti):
        fake_spark.answers(failing)
        assert branch() == {"publish", "review"}
        assert ti.pushed["verdict"]["decision"] == "fail"

    @pytest.mark.parametrize("severity", ["error", "warn"])
    def test_a_lost_dependency_follows_the_third(self, branch, fake_spark, passing, severity):
        decision = "fail" if severity == "error" else "warn"
        fake_spark.answers({**passing, "decision": decision, "dependencies": lost(severity)})
        assert branch() == {"publish", "quarantine", "tell"}
        assert branch(on_invalidated="ignore") == {"quarantine", "tell", "review"}

    def test_both_follow_both(self, branch, fake_spark, failing):
        fake_spark.answers({**failing, "dependencies": lost("error")})
        assert branch() == {"publish"}

    def test_what_is_not_named_follows_nothing(self, branch, fake_spark, failing):
        fake_spark.answers(failing)
        assert branch(follow_if_violated=None) == {"publish", "quarantine", "tell", "review"}


@pytest.mark.parametrize(
    ("severity", "apart", "kinds"),
    [
        ("error", True, ["invalidated"]),
        ("warn", True, ["invalidated"]),
        ("error", False, ["violated"]),
        ("warn", False, ["pass"]),
    ],
)
def test_losses_without_a_branch_of_their_own_count_as_the_gate_counts_them(passing, severity, apart, kinds):
    decision = "fail" if severity == "error" else "warn"
    verdict = Verdict.from_dict({**passing, "decision": decision, "dependencies": lost(severity)})
    assert followed(verdict, None, apart=apart) == kinds


def test_an_approved_load_passes(failing):
    approved = {"answer": "approved", "by": "Ada", "at": "noon", "reason": ""}
    assert followed(Verdict.from_dict({**failing, "decided": approved}), None, apart=True) == ["pass"]


class TestRefused:
    def test_a_task_that_is_not_there_before_spark_starts(self, branch, fake_spark):
        with pytest.raises(DcGateError, match=r"(?s)follow_if_pass has 'pubilsh', and the DAG 'd' .*'publish'\?"):
            branch(follow_if_pass="pubilsh")
        assert not fake_spark.was_called

    @pytest.mark.parametrize("argument", ["on_violation", "retry_on_violation", "response_timeout"])
    def test_what_says_how_a_gate_closes(self, branch, argument):
        with pytest.raises(ValueError, match=f"does not take '{argument}'"):
            branch(**{argument: "fail"})

    @pytest.mark.parametrize("given", [3, [3], {"publish": 1}, [None]])
    def test_what_is_no_id_of_a_task(self, branch, given):
        with pytest.raises(ValueError, match=r"follow_if_pass is .*, and must be the id of a task, or a list of ids"):
            branch(follow_if_pass=given)

    def test_a_branch_that_follows_nothing(self, branch):
        with pytest.raises(ValueError, match="follows nothing"):
            branch(follow_if_pass=None, follow_if_violated=[], follow_if_invalidated=())
