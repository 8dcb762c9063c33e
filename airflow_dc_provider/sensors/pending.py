"""Waiting for loads that a table's state does not have yet, to hand them to mapped gates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import PokeReturnValue

from airflow_dc_provider.arguments import check_folder, is_open, settled
from airflow_dc_provider.sensors.base import DcSensor
from dc_engine.errors import RequestError
from dc_engine.request import read_source

# What only a running task needs is imported by it: every parse of a DAG file would pay for it otherwise.
if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_dc_provider.triggers.looking import DcPendingLoadTrigger


class DcPendingLoadSensor(DcSensor):
    """
    Wait for loads that the state does not have, and return them for mapped gates, in the order of their paths.

    The result is a list of ``{"load_id": ..., "changes": {"path": ..., ...}}``, as ``expand_kwargs`` takes it:
    ``DcGateOperator.partial(...).expand_kwargs(pending.output)``. A load that the state has was judged, whatever the
    verdict: it is not pending. What begins with ``_`` or ``.``, or is in a folder that does, is no load, as for Spark.

    Also takes everything that Airflow's sensors take: ``soft_fail`` skips when the ``timeout`` is over.

    :param path: The folder in which loads arrive: an absolute path or an fsspec URI. (templated)
    :param state: The folder of the table's state: an absolute path or an fsspec URI. (templated)
    :param pattern: A glob for the loads in that folder, files or folders: ``*``, ``*.csv``, ``year=*/day=*``.
        (templated)
    :param load_id_pattern: A regular expression that is searched for in the path below the folder; its one group is the
        load's id. What it does not find is no load. By default the id is the last part of the path, as it is.
        (templated)
    :param changes: What gates get besides the path: ``format``, ``options``, ``schema``, ``where``. (templated)
    :param marker: The file that a folder has once it is complete, such as ``_SUCCESS``; then only folders are loads.
    :param min_loads: How many to wait for.
    :param max_loads: The most to return; the next run takes more.
    :param changes_conn_id: The Airflow connection with the credentials of the filesystem where loads arrive.
    :param state_conn_id: The Airflow connection with the credentials of the state's filesystem.
    :param deferrable: Wait in the triggerer and take no slot meanwhile. The default is Airflow's ``[operators]
        default_deferrable``; otherwise ``mode`` says how to wait.
    """

    template_fields: Sequence[str] = ("path", "state", "pattern", "load_id_pattern", "changes")
    template_fields_renderers: ClassVar[dict[str, str]] = {"changes": "json"}

    def __init__(
        self,
        *,
        path: str,
        state: str,
        pattern: str = "*",
        load_id_pattern: str | None = None,
        changes: Mapping[str, Any] | None = None,
        marker: str | None = None,
        min_loads: int = 1,
        max_loads: int = 100,
        changes_conn_id: str | None = None,
        state_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.path = path
        self.state = state
        self.pattern = pattern
        self.load_id_pattern = load_id_pattern
        self.changes = changes
        self.marker = marker
        self.min_loads = min_loads
        self.max_loads = max_loads
        self.changes_conn_id = changes_conn_id
        self.state_conn_id = state_conn_id
        self._check_what_is_known()

    def look(self, context: Context) -> PokeReturnValue:  # noqa: ARG002
        """Look for loads."""
        from airflow_dc_provider.looks import PendingLook
        from dc_engine.wording import MAX_TEXT, plain

        self._check_what_is_known()
        found = PendingLook(**self._place())(self.max_loads)
        at_most = " or more" if len(found) == self.max_loads else ""
        places = (plain(self.path, MAX_TEXT), plain(self.state, MAX_TEXT))
        self.log.info("%d%s loads in %s are not in the state %s.", len(found), at_most, *places)
        loads = [{"load_id": one.load_id, "changes": {**(self.changes or {}), "path": one.path}} for one in found]
        return PokeReturnValue(is_done=len(found) >= self.min_loads, xcom_value=loads)

    def trigger(self) -> DcPendingLoadTrigger:
        """What waits in the triggerer."""
        from airflow_dc_provider.triggers.looking import DcPendingLoadTrigger

        return DcPendingLoadTrigger(min_loads=self.min_loads, poke_interval=self.poke_interval, **self._place())

    def _place(self) -> dict[str, Any]:
        names = ("path", "state", "pattern", "load_id_pattern", "marker", "changes_conn_id", "state_conn_id")
        return {name: getattr(self, name) for name in names}

    def _check_what_is_known(self) -> None:
        """At DAG parse what is known then, and all of it when the task runs."""
        from airflow_dc_provider.landing import Naming

        for name in ("path", "state"):
            if not is_open(getattr(self, name)):
                check_folder(name, getattr(self, name))
        patterns = {name: getattr(self, name) for name in ("pattern", "load_id_pattern")}
        Naming(marker=self.marker, **{name: one for name, one in patterns.items() if not is_open(one)})
        for name, least in (("min_loads", 1), ("max_loads", self.min_loads)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ValueError(f"{name} is {value!r}, and must be a whole number of at least {least}.")
        if self.changes is not None and not is_open(self.changes):
            if not isinstance(self.changes, Mapping):
                raise RequestError(
                    f"'changes' is {self.changes!r}, and must be a mapping of what gates get besides the path.",
                    hint='For instance {"format": "csv", "options": {"header": True}}.',
                )
            if "path" in self.changes:
                raise RequestError("'changes' has a path; the sensor puts in that of each load.", hint="Leave it out.")
            read_source("changes", {**settled(self.changes), "path": "later"})
