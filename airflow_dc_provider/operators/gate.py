"""The gate: one task that applies a load to the table's state, and lets the DAG go on or not."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from airflow.providers.common.compat.sdk import AirflowSkipException, Asset

from airflow_dc_provider.arguments import (
    check_choice,
    check_constraints,
    check_folder,
    check_load_is_named,
    check_question,
    constraint_source,
    is_open,
    load_name,
    settled,
)
from airflow_dc_provider.assets import check_asset, gated, with_alias
from airflow_dc_provider.exceptions import DcViolationError, DcViolationRetryError, engine_errors_told
from airflow_dc_provider.links.review import VerdictLink
from airflow_dc_provider.mapping import LOAD_OF_THE_RUN, check_mapping, is_known_later
from airflow_dc_provider.operators.base import DcSparkOperator
from airflow_dc_provider.outcomes import ON_INVALIDATED, ON_VIOLATION, Outcome, lets_pass, outcome_of
from dc_engine.constraints.files import load_constraints, load_text, to_mapping
from dc_engine.constraints.reading import read_text
from dc_engine.errors import StateError
from dc_engine.request import Approval, Request

# What only a running task needs is imported by it: every parse of a DAG file would pay for it otherwise.
if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import BaseOperatorLink, Context
    from airflow.sdk.definitions.mappedoperator import OperatorPartial

    from dc_engine.constraints.model import ConstraintSet
    from dc_engine.verdict import Decided, Verdict

_THEN = {
    "pass": "The gate stays open.",
    "warn": "The gate stays open.",
    "skip": "The gate is skipped, and the tasks behind it with it.",
    "ask": "A person is asked whether the gate opens.",
}


class DcGateOperator(DcSparkOperator):
    """
    Check a load against the rules of its table and all rows loaded before; fail when it breaks a rule, or loses a
    dependency that people pinned.

    Also takes everything that ``SparkSubmitOperator`` takes, except the application and its arguments.

    :param constraints: The constraint file (a relative path starts in the DAG file's folder), or its content
        as a mapping. (templated)
    :param changes: Where the load's rows are: ``path`` (with ``format``, ``options``, ``schema``), ``table`` or
        ``sql``, and ``where``. (templated)
    :param state: The folder of the table's state: an absolute path or an fsspec URI. (templated)
    :param load_id: The load's permanent name. The same name with the same rows gives the stored verdict, with
        other rows it replaces the earlier attempt. By default the DAG run's id, with the map index of a mapped
        task; no two mapped gates may share one for the same state. (templated)
    :param on_violation: What a broken rule of severity error means for the task. ``fail`` closes the gate, ``warn``
        only reports it. ``skip`` skips the task, and with it those behind it (as their trigger rules say). ``ask``
        parks the task, without a slot, until a person approves the load or rejects it; losing a dependency that would
        close the gate asks too.
    :param response_timeout: With ``ask``, how long to wait for an answer: after that the load is rejected.
    :param assigned_users: With ``ask``, who may answer, each ``{"id": ..., "name": ...}``; by default all who may
        answer questions of the DAG.
    :param notifiers: With ``ask``, notifiers that tell people that they are asked.
    :param asset: The asset that the load belongs to. It gets an event with the summary of the verdict when the load
        passed or was approved, and only then. Do not name it in ``outlets``.
    :param on_invalidated: What losing a watched dependency means for the task, whatever ``on_violation`` says.
        ``severity``: what the constraint file says (``error`` closes the gate, ``warn`` is only reported). ``fail``
        closes the gate, ``warn`` and ``ignore`` leave it open, with a warning in the log or without.
    :param table: Where the whole table is, as it was before this load, in the form of ``changes``: needed once,
        when a new rule reads columns that the state does not have. (templated)
    :param rejected_load: ``keep``: the rows of a load that fails are in the table, so they stay in the state.
        ``discard``: they never reach the table, so the state is left as it was.
    :param missing_deletes: What to do with deletes of rows that are not there: ``error`` or ``ignore``.
    :param duplicate_keys: ``error``, or ``replace``: an insert of a key that is present replaces its row.
    :param quarantine: A folder for the load's violating rows and the clean rest, as two Parquet folders.
        (templated)
    :param engine: Where the load is processed: ``spark``: by Spark's workers; ``local``: in Spark's driver;
        ``auto``: in the driver when it is small.
    :param max_wait_seconds: How long to keep trying while others commit to the same state first; 0: try once.
    :param state_conn_id: The Airflow connection with the credentials of the state's filesystem.
    :param conn_id: The Spark connection.
    :param max_listed: The most violations to list, per rule and load; counts are always exact.
    :param max_samples: The most examples in the verdict, per rule.
    :param mask: Columns whose values must not appear in verdict, samples and logs. (templated)
    :param retry_on_violation: Let Airflow retry a closed gate: something else may fix the data meanwhile.
    """

    template_fields: Sequence[str] = (
        "constraints",
        "changes",
        "load_id",
        "table",
        "quarantine",
        "mask",
        *DcSparkOperator.template_fields,
    )
    operator_extra_links: ClassVar[tuple[BaseOperatorLink, ...]] = (VerdictLink(),)
    template_fields_renderers: ClassVar[dict[str, str]] = {"constraints": "yaml", "changes": "json", "table": "json"}
    answer: ClassVar[str] = "verdict"
    _verdict: Verdict | None = None
    """What the task found, for lineage."""

    def __init__(
        self,
        *,
        constraints: str | Mapping[str, Any],
        changes: Mapping[str, Any],
        state: str,
        load_id: str = LOAD_OF_THE_RUN,
        on_violation: str = "fail",
        on_invalidated: str | None = "severity",
        response_timeout: timedelta | None = None,
        assigned_users: Sequence[Mapping[str, str]] = (),
        notifiers: Sequence[Any] = (),
        asset: Asset | None = None,
        table: Mapping[str, Any] | None = None,
        rejected_load: str = "keep",
        missing_deletes: str = "error",
        duplicate_keys: str = "error",
        quarantine: str | None = None,
        engine: str = "auto",
        max_listed: int = 10_000,
        max_samples: int = 20,
        mask: Sequence[str] = (),
        retry_on_violation: bool = False,
        name: str = "dc_gate",
        **kwargs: Any,
    ) -> None:
        if isinstance(asset, Asset):
            kwargs["outlets"] = with_alias(kwargs.get("outlets"), asset)
        super().__init__(state=state, name=name, **kwargs)
        self.constraints = constraints
        self.changes = changes
        self.load_id = load_id
        self.on_violation = on_violation
        self.on_invalidated = on_invalidated
        self.response_timeout = response_timeout
        self.assigned_users = assigned_users
        self.notifiers = notifiers
        self.asset = asset
        self.table = table
        self.rejected_load = rejected_load
        self.missing_deletes = missing_deletes
        self.duplicate_keys = duplicate_keys
        self.quarantine = quarantine
        self.engine = engine
        self.max_listed = max_listed
        self.max_samples = max_samples
        self.mask = mask
        self.retry_on_violation = retry_on_violation
        self._rules: ConstraintSet | None = None
        self._check_what_is_known()

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

    @classmethod
    def partial(cls, **kwargs: Any) -> OperatorPartial:
        """The gate with some of its arguments, to be mapped over others."""
        from airflow_dc_provider.operators.partial import GatePartial

        if isinstance(asset := kwargs.get("asset"), Asset):
            kwargs["outlets"] = with_alias(kwargs.get("outlets"), asset)
        made = super().partial(**kwargs)
        made._expand_called = True  # the one below is expanded instead
        return GatePartial(operator_class=cls, kwargs=made.kwargs, params=made.params)

    def after_rendering(self) -> None:
        """Read the rules, and show them in place of their file's name."""
        with engine_errors_told():
            source = constraint_source(self, self.constraints)
            if isinstance(source, str):
                self.constraints = read_text(source)
                self._rules = load_text(self.constraints, source)
            else:
                import yaml

                self._rules = load_constraints(source)
                self.constraints = yaml.safe_dump(_plain_lists(source), sort_keys=False, allow_unicode=True)

    def _request(self, context: Context) -> Request:
        """The request, once everything is rendered; constraints go by value, so Spark needs no constraint file."""
        with engine_errors_told():
            if self.has_dag():
                # As written in the DAG file: this task's own is rendered.
                check_mapping(self.dag.get_task(self.task_id), lambda value: value.resolve(context))
            check_folder("state", self.state)
            if self.quarantine is not None:
                check_folder("quarantine", self.quarantine)
            rules = self._rules or load_constraints(constraint_source(self, self.constraints))
            return Request.from_mapping({**self._document(), "constraints": to_mapping(rules)})

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:  # noqa: ARG002
        """What Airflow's OpenLineage provider asks for when the task has ended, however it did."""
        if self._verdict is None:
            return None
        from airflow_dc_provider.lineage import gate_lineage

        return gate_lineage(self.changes, self._verdict)

    def _document(self) -> dict[str, Any]:
        return {
            "state": self.state,
            "load_id": load_name(self.load_id),
            "changes": self.changes,
            "constraints": self.constraints,
            "max_listed": self.max_listed,
            "max_samples": self.max_samples,
            "mask": self.mask,
            "rejected_load": self.rejected_load,
            "missing_deletes": self.missing_deletes,
            "duplicate_keys": self.duplicate_keys,
            "table": self.table,
            "quarantine": self.quarantine,
            "engine": self.engine,
            "max_wait_seconds": self.max_wait_seconds,
        }

    def _check_what_is_known(self) -> None:
        """At DAG parse: refuse what rendering cannot make right."""
        check_choice("on_violation", self.on_violation, ON_VIOLATION)
        if self.on_invalidated is not None:
            check_choice("on_invalidated", self.on_invalidated, ON_INVALIDATED)
        check_question(self.on_violation, self.response_timeout, self.assigned_users, self.notifiers)
        check_asset(self.asset)
        check_mapping(self)
        check_load_is_named(self.load_id)
        if self.quarantine is not None and not is_open(self.quarantine):
            check_folder("quarantine", self.quarantine)
        later: dict[str, Any] = {"changes": settled(self.changes), "table": settled(self.table)}
        if is_open(self.load_id):
            later["load_id"] = "later"
        for name, stand_in in (("state", "later"), ("constraints", "later"), ("quarantine", "later"), ("mask", ())):
            if is_known_later(getattr(self, name)):
                later[name] = stand_in
        Request.from_mapping({**self._document(), **later})
        check_constraints(self, self.constraints)


def _plain_lists(value: Any) -> Any:
    """A mapping as YAML writes it: no tuples, no other kinds of mapping."""
    if isinstance(value, Mapping):
        return {str(name): _plain_lists(one) for name, one in value.items()}
    return [_plain_lists(one) for one in value] if isinstance(value, list | tuple) else value
