"""The branch: the gate's job, and then the tasks that fit its verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import BranchMixIn

from airflow_dc_provider.arguments import is_open
from airflow_dc_provider.exceptions import DcGateError
from airflow_dc_provider.operators.gate import DcGateOperator
from airflow_dc_provider.outcomes import outcomes_of
from dc_engine.errors import did_you_mean

# What only a running task needs is imported by it: every parse of a DAG file would pay for it otherwise.
if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_dc_provider.outcomes import Outcome
    from dc_engine.verdict import Verdict

_OF_THE_GATE = ("on_violation", "retry_on_violation", "response_timeout", "assigned_users", "notifiers")
_FOLLOWED = ("follow_if_pass", "follow_if_violated", "follow_if_invalidated")


class DcBranchOperator(DcGateOperator, BranchMixIn):
    """
    Check a load as ``DcGateOperator`` does, and follow the tasks that fit the verdict; other tasks right behind
    this one are skipped, as Airflow's own branching does it.

    Takes what ``DcGateOperator`` takes, except what says how a gate closes (``on_violation`` and what belongs to it).
    Whatever the verdict, the task itself succeeds.

    :param follow_if_pass: The tasks (ids, or ids of task groups) to follow when no rule of severity error is broken and
        nothing of the below applies, or when a person approved the load before.
    :param follow_if_violated: Those to follow when a rule of severity error is broken beyond its tolerance.
    :param follow_if_invalidated: Those to follow when a watched dependency was lost, whatever its severity
        (``on_invalidated="ignore"`` leaves them out). A load that breaks a rule too follows both. Without this
        argument a loss that would close a gate counts as a violation, and any other does not count.
    """

    inherits_from_skipmixin: ClassVar[bool] = True

    def __init__(
        self,
        *,
        follow_if_pass: str | Sequence[str] | None = None,
        follow_if_violated: str | Sequence[str] | None = None,
        follow_if_invalidated: str | Sequence[str] | None = None,
        name: str = "dc_branch",
        **kwargs: Any,
    ) -> None:
        for given in _OF_THE_GATE:
            if kwargs.pop(given, None):
                raise ValueError(f"DcBranchOperator does not take '{given}': it never closes, it follows a branch.")
        super().__init__(name=name, on_violation="warn", **kwargs)
        self.follow_if_pass = follow_if_pass
        self.follow_if_violated = follow_if_violated
        self.follow_if_invalidated = follow_if_invalidated
        if not any(getattr(self, one) for one in _FOLLOWED):
            raise ValueError(f"DcBranchOperator follows nothing: give at least one of {', '.join(_FOLLOWED)}.")
        for one in _FOLLOWED:
            if not _are_ids(getattr(self, one)):
                raise ValueError(f"{one} is {getattr(self, one)!r}, and must be the id of a task, or a list of ids.")

    def execute(self, context: Context) -> dict[str, Any]:
        """Submit the job, log what it found, and follow the branch."""
        self._check_branches()
        return super().execute(context)

    def _conclude(self, context: Context, verdict: Verdict, outcome: Outcome, result: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        self._emit(context, verdict, result)
        if self.do_xcom_push:  # what is returned is lost when tasks are skipped
            context["ti"].xcom_push(key="return_value", value=result)
        self.do_branch(context, self._branches(verdict) or None)
        return result

    def _branches(self, verdict: Verdict) -> list[str]:
        """The tasks that a verdict follows."""
        kinds = followed(verdict, self.on_invalidated, apart=bool(self.follow_if_invalidated))
        return list(dict.fromkeys(one for kind in kinds for one in _ids(getattr(self, f"follow_if_{kind}"))))

    def _check_branches(self) -> None:
        """Refuse tasks that the DAG does not have, before Spark starts."""
        known = [*self.dag.task_ids, *filter(None, self.dag.task_group_dict)]
        for argument in _FOLLOWED:
            for one in _ids(getattr(self, argument)):
                if one not in known:
                    raise DcGateError(
                        f"{argument} has {one!r}, and the DAG '{self.dag.dag_id}' has no such task or task group.",
                        hint=did_you_mean(str(one), known),
                    )


def followed(verdict: Verdict, on_invalidated: str | None, *, apart: bool) -> list[str]:
    """Which of ``pass``, ``violated``, ``invalidated`` a verdict is; ``apart``: whether losses have a branch."""
    if verdict.approved:
        return ["pass"]
    rules, lost = outcomes_of(verdict, on_invalidated)
    kinds = ["violated"] if rules == "fail" or (lost == "fail" and not apart) else []
    kinds += ["invalidated"] if lost != "pass" and apart else []
    return kinds or ["pass"]


def _are_ids(given: Any) -> bool:
    if given is None or isinstance(given, str) or is_open(given):
        return True
    return isinstance(given, Sequence) and all(isinstance(one, str) for one in given)


def _ids(given: str | Sequence[str] | None) -> list[str]:
    return [] if given is None else [given] if isinstance(given, str) else list(given)
