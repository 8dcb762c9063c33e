"""The gate: one task that applies a load to the table's state, and lets the DAG go on or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_dc_provider.exceptions import DcGateError, DcViolationError, DcViolationRetryError
from airflow_dc_provider.mapping import LOAD_OF_THE_RUN, check_mapping, is_known_later
from airflow_dc_provider.operators.base import (
    DcSparkOperator,
    check_choice,
    check_folder,
    constraint_source,
    is_open,
    load_name,
    settled,
)
from dc_engine.constraints.files import load_constraints, to_mapping
from dc_engine.errors import DcError
from dc_engine.request import Request

# What only a running task needs is imported by it: every parse of a DAG file would pay for it otherwise.
if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context
    from airflow.sdk.definitions.mappedoperator import OperatorPartial

    from dc_engine.verdict import Decision, Verdict

_ON_VIOLATION = ("fail", "warn")
_OUTCOMES: dict[str, Decision] = {"fail": "fail", "warn": "warn", "ignore": "pass"}
_ON_INVALIDATED = ("severity", *_OUTCOMES)
_LATER = ("skip", "ask")


class DcGateOperator(DcSparkOperator):
    """
    Check a load against the rules of its table and all rows loaded before; fail when it breaks a rule, or loses a
    dependency that people pinned.

    Also takes everything that ``SparkSubmitOperator`` takes, except the application and its arguments.

    :param constraints: The constraint file (a relative path starts in the DAG file's folder), or its content
        as a mapping. (templated)
    :param changes: Where the load's rows are: ``path`` (with ``format`` and ``options``), ``table`` or
        ``sql``, and ``where``. (templated)
    :param state: The folder of the table's state: an absolute path or an fsspec URI. (templated)
    :param load_id: The load's permanent name. The same name with the same rows gives the stored verdict, with
        other rows it replaces the earlier attempt. By default the DAG run's id, with the map index of a mapped
        task; no two mapped gates may share one for the same state. (templated)
    :param on_violation: ``fail`` closes the gate on a broken rule of severity error, ``warn`` only reports it.
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
    template_fields_renderers: ClassVar[dict[str, str]] = {"constraints": "yaml", "changes": "json", "table": "json"}
    answer: ClassVar[str] = "verdict"

    def __init__(
        self,
        *,
        constraints: str | Mapping[str, Any],
        changes: Mapping[str, Any],
        state: str,
        load_id: str = LOAD_OF_THE_RUN,
        on_violation: str = "fail",
        on_invalidated: str | None = "severity",
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
        super().__init__(state=state, name=name, **kwargs)
        self.constraints = constraints
        self.changes = changes
        self.load_id = load_id
        self.on_violation = on_violation
        self.on_invalidated = on_invalidated
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
        self._check_what_is_known()

    def execute(self, context: Context) -> dict[str, Any]:
        """Submit the job, log what it found, and raise when the gate is closed."""
        from airflow_dc_provider.report import summary, verdict_lines, violation_message, warning_message
        from dc_engine.verdict import Verdict, masked

        request = self._request(context)
        document = self.run_job(context, request.to_dict(), job="apply_load")
        # A stored verdict may be from a time when less was masked.
        verdict = masked(Verdict.from_dict(document), request.mask)
        result = summary(verdict, request.state)
        # Before anything is raised: a failed task keeps what it has pushed.
        context["ti"].xcom_push(key="verdict", value=result)
        for part in ("violating", "clean"):
            if verdict.quarantine is not None:
                context["ti"].xcom_push(key=f"quarantine_{part}", value=verdict.quarantine[part])
        for line in verdict_lines(verdict, request.state):
            self.log.info("%s", line)
        outcome = outcome_of(verdict, self.on_violation, self.on_invalidated)
        if outcome == "fail":
            message = violation_message(verdict, request.state, retried=self.retry_on_violation)
            # Airflow's log page keeps the lines of a record, but runs those of an exception together.
            self.log.error("%s", message)
            raise (DcViolationRetryError if self.retry_on_violation else DcViolationError)(message, result)
        if outcome == "warn" or verdict.discarded:
            self.log.warning("%s", warning_message(verdict))
        return result

    @classmethod
    def partial(cls, **kwargs: Any) -> OperatorPartial:
        """The gate with some of its arguments, to be mapped over others."""
        from airflow_dc_provider.operators.partial import GatePartial

        made = super().partial(**kwargs)
        made._expand_called = True  # the one below is expanded instead
        return GatePartial(operator_class=cls, kwargs=made.kwargs, params=made.params)

    def _request(self, context: Context) -> Request:
        """The request, once everything is rendered; constraints go by value, so Spark needs no constraint file."""
        try:
            if self.has_dag():
                # As written in the DAG file: this task's own is rendered.
                check_mapping(self.dag.get_task(self.task_id), lambda value: value.resolve(context))
            check_folder("state", self.state)
            if self.quarantine is not None:
                check_folder("quarantine", self.quarantine)
            rules = to_mapping(load_constraints(constraint_source(self, self.constraints)))
            return Request.from_mapping({**self._document(), "constraints": rules})
        except DcError as error:
            raise DcGateError.told(error.message, error.hint) from None

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
        check_on_violation(self.on_violation)
        if self.on_invalidated is not None:
            check_choice("on_invalidated", self.on_invalidated, _ON_INVALIDATED)
        check_mapping(self)
        if self.quarantine is not None and not is_open(self.quarantine):
            check_folder("quarantine", self.quarantine)
        later: dict[str, Any] = {"changes": settled(self.changes), "table": settled(self.table)}
        if is_open(self.load_id):
            later["load_id"] = "later"
        for name, stand_in in (("state", "later"), ("constraints", "later"), ("quarantine", "later"), ("mask", ())):
            if is_known_later(getattr(self, name)):
                later[name] = stand_in
        Request.from_mapping({**self._document(), **later})
        if not is_open(self.constraints):
            source = constraint_source(self, self.constraints)
            if not isinstance(source, str) or Path(source).exists():
                load_constraints(source)


def outcome_of(verdict: Verdict, on_violation: str, on_invalidated: str | None) -> Decision:
    """What a verdict means for the task: ``fail`` closes the gate, ``warn`` is only reported."""
    from dc_engine.verdict import worst

    rules = worst({one.outcome for one in verdict.constraints})
    lost = {one.outcome for one in verdict.dependencies.invalidated if one.watched}
    if worst({rules, *lost}) != verdict.decision:  # for a reason that is not known here: it counts all the same
        rules = verdict.decision
    if rules == "fail" and on_violation == "warn":
        rules = "warn"
    if lost and on_invalidated not in (None, "severity"):
        lost = {_OUTCOMES[on_invalidated]}
    return worst({rules, *lost})


def check_on_violation(value: str) -> None:
    """Refuse a value that the gate does not have."""
    if value in _LATER:
        raise ValueError(f"on_violation='{value}' comes in a later version; today it is one of {_ON_VIOLATION}.")
    check_choice("on_violation", value, _ON_VIOLATION)
