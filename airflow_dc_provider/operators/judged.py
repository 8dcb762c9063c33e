"""What a verdict means for a task: the gate opens or closes, is skipped, or asks a person."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from airflow.providers.common.compat.sdk import AirflowSkipException, Asset

from airflow_dc_provider.assets import gated
from airflow_dc_provider.exceptions import DcViolationError, DcViolationRetryError, engine_errors_told
from airflow_dc_provider.operators.base import DcSparkOperator
from airflow_dc_provider.outcomes import Outcome, lets_pass, outcome_of
from dc_engine.errors import StateError
from dc_engine.request import Approval, Request

# What only a running task needs is imported by it: every parse of a DAG file would pay for it otherwise.
if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from dc_engine.verdict import Decided, Verdict

_THEN = {
    "pass": "The gate stays open.",
    "warn": "The gate stays open.",
    "skip": "The gate is skipped, and the tasks behind it with it.",
    "ask": "A person is asked whether the gate opens.",
}


class DcJudgedOperator(DcSparkOperator):
    """Run the job that judges a load, and go on as its verdict says. Which load, and by which rules, a gate knows."""

    answer: ClassVar[str] = "verdict"
    changes: Mapping[str, Any]
    on_violation: str
    on_invalidated: str | None
    response_timeout: timedelta | None
    assigned_users: Sequence[Mapping[str, str]]
    notifiers: Sequence[Any]
    asset: Asset | None
    retry_on_violation: bool
    _verdict: Verdict | None = None
    """What the task found, for lineage."""

    @abstractmethod
    def _request(self, context: Context) -> Request:
        """What the job is asked to do, once everything is rendered."""

    def execute(self, context: Context) -> dict[str, Any]:
        """Submit the job, log what it found, and go on as the verdict and the arguments say."""
        request = self._request(context)
        verdict = self._apply(context, request)
        outcome = outcome_of(verdict, self.on_violation, self.on_invalidated)
        result = self._tell(context, verdict, outcome)
        if outcome == "ask":
            self._ask(context, verdict)
        return self._conclude(context, verdict, outcome, result)

    def after_answer(self, context: Context, event: dict[str, Any], load_id: str, snapshot: int) -> dict[str, Any]:
        """Go on after a person has answered: keep the decision in the state, and open or close the gate."""
        from airflow_dc_provider.asking import read_answer

        decided = read_answer(event, snapshot, first=context["ti"].try_number == 1)
        with engine_errors_told():
            verdict = self._decided(context, load_id, snapshot, decided)
        outcome: Outcome = "pass" if verdict.approved else "fail"
        return self._conclude(context, verdict, outcome, self._tell(context, verdict, outcome))

    def _apply(self, context: Context, request: Request) -> Verdict:
        from dc_engine.verdict import Verdict, masked

        document = self.run_job(context, request.to_dict(), job="apply_load")
        # A stored verdict may be from a time when less was masked.
        return masked(Verdict.from_dict(document), request.mask)

    def _tell(self, context: Context, verdict: Verdict, outcome: Outcome) -> dict[str, Any]:
        """Push the summary and log the verdict, what matters most last; before anything is raised, so that it stays."""
        from airflow_dc_provider.report import closing_lines, summary, violation_message, warning_message
        from dc_engine.reporting import verdict_lines

        self._verdict, result = verdict, summary(verdict, self.state)
        context["ti"].xcom_push(key="verdict", value=result)
        for part in ("violating", "clean"):
            if verdict.quarantine is not None:
                context["ti"].xcom_push(key=f"quarantine_{part}", value=verdict.quarantine[part])
        retried = self.retry_on_violation and verdict.decided is None
        if outcome == "fail":
            self._log_lines(logging.INFO, violation_message(verdict, self.state, retried=retried).splitlines())
        elif outcome != "pass" or verdict.discarded:
            self._log_lines(logging.WARNING, warning_message(verdict, _THEN[outcome]).splitlines())
        closing = closing_lines(verdict, retried=retried) if outcome == "fail" else []
        # One record: Airflow's log page keeps its lines together, and opens at its end.
        self._log_lines(logging.ERROR if closing else logging.INFO, [*verdict_lines(verdict, self.state), *closing])
        return result

    def _conclude(self, context: Context, verdict: Verdict, outcome: Outcome, result: dict[str, Any]) -> dict[str, Any]:
        """Open the gate, or close it."""
        from airflow_dc_provider.report import short_message

        if outcome == "fail":
            retried = self.retry_on_violation and verdict.decided is None
            raise (DcViolationRetryError if retried else DcViolationError)(short_message(verdict), result)
        if outcome == "skip":
            raise AirflowSkipException(short_message(verdict, "The gate is skipped, and what is behind it."))
        self._emit(context, verdict, result)
        return result

    def _emit(self, context: Context, verdict: Verdict, result: dict[str, Any]) -> None:
        """Tell consumers of the asset that the load passed."""
        if self.asset is not None and lets_pass(verdict, self.on_invalidated):
            context["outlet_events"][gated(self.asset)].add(self.asset, extra=result)

    def _ask(self, context: Context, verdict: Verdict) -> NoReturn:
        from airflow_dc_provider.asking import ask

        self.log.info("Waiting for a person to approve the load or reject it.")
        for notifier in self.notifiers:
            notifier(context)
        ask(
            context,
            verdict,
            self.state,
            method="after_answer",
            timeout=self.response_timeout,
            assigned_users=self.assigned_users,
        )

    def _decided(self, context: Context, load_id: str, snapshot: int, decided: Decided) -> Verdict:
        """The verdict with a decision, which is in the state then; a load that was discarded is applied once more."""
        from airflow_dc_provider.credentials import state_access
        from dc_engine.deciding import record_decision
        from dc_engine.state.storage import Storage
        from dc_engine.stored import read_verdict

        storage = Storage(self.state, state_access(self.state_conn_id).options)
        verdict = read_verdict(storage, load_id, self.mask or ())
        if not (verdict.discarded and decided.answer == "approved"):
            record_decision(storage, load_id, snapshot, decided, max_wait_seconds=self.max_wait_seconds)
            return replace(verdict, decided=decided)
        approved = Approval(snapshot, decided.by, decided.at, decided.reason)
        verdict = self._apply(context, replace(self._request(context), load_id=load_id, approved=approved))
        if not verdict.approved:
            raise StateError(
                f"Load '{load_id}' was approved, but it was applied again since: its rows were not let in.",
                hint="Run this task again: a person is asked about the verdict that is there now.",
            )
        return verdict

    def _log_lines(self, level: int, lines: Sequence[str]) -> None:
        from dc_engine.wording import wrapped

        self.log.log(level, "%s", wrapped(lines))

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:  # noqa: ARG002
        """What Airflow's OpenLineage provider asks for when the task has ended, however it did."""
        if self._verdict is None:
            return None
        from airflow_dc_provider.lineage import gate_lineage

        return gate_lineage(self.changes, self._verdict)
