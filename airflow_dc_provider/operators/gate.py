"""The gate: which load it judges by which rules, as a task of a DAG says it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import Asset

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
from airflow_dc_provider.assets import check_asset, with_alias
from airflow_dc_provider.exceptions import engine_errors_told
from airflow_dc_provider.links.review import VerdictLink
from airflow_dc_provider.mapping import LOAD_OF_THE_RUN, check_mapping, is_known_later
from airflow_dc_provider.operators.judged import DcJudgedOperator
from airflow_dc_provider.outcomes import ON_INVALIDATED, ON_VIOLATION
from dc_engine.constraints.files import load_constraints, load_text, to_mapping
from dc_engine.constraints.reading import read_text
from dc_engine.request import Request

# What only a running task needs is imported by it: every parse of a DAG file would pay for it otherwise.
if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import BaseOperatorLink, Context
    from airflow.sdk.definitions.mappedoperator import OperatorPartial

    from dc_engine.constraints.model import ConstraintSet


class DcGateOperator(DcJudgedOperator):
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
        *DcJudgedOperator.template_fields,
    )
    operator_extra_links: ClassVar[tuple[BaseOperatorLink, ...]] = (VerdictLink(),)
    template_fields_renderers: ClassVar[dict[str, str]] = {"constraints": "yaml", "changes": "json", "table": "json"}

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
