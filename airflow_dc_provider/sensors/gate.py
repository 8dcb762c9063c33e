"""A gate that waits: while its load breaks a rule, for the load's data to be mended."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowSkipException

from airflow_dc_provider.exceptions import DcViolationError, engine_errors_told
from airflow_dc_provider.operators.gate import DcGateOperator
from airflow_dc_provider.outcomes import lets_pass
from airflow_dc_provider.sensors.base import WORTH_DEFERRING, raise_for
from dc_engine.request import check_number

# What only a running task needs is imported by it: every parse of a DAG file would pay for it otherwise.
if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

_NOT_TAKEN = ("on_violation", "retry_on_violation")


class DcGateSensor(DcGateOperator):
    """
    Check a load as the gate does and, while it breaks a rule, wait until its data is mended and check it again.

    The job is submitted when the load's files are there, and again whenever they have changed and then rest for one
    ``poke_interval``: names, sizes and times of change are looked at, not the rows. Changes that are a ``table`` or
    ``sql`` have no files to look at: for them the job is submitted again after each ``poke_interval``.

    Takes everything that ``DcGateOperator`` takes, but for what to do on a violation: it waits.

    :param poke_interval: Seconds, or a ``timedelta``, from one look at the files to the next.
    :param timeout: Seconds, or a ``timedelta``, after which to give up: the task then fails with what is still wrong.
    :param soft_fail: Skip the task then, and what comes after it.
    :param deferrable: Wait in the triggerer and take no slot meanwhile; otherwise in the task.
    :param changes_conn_id: The Airflow connection with the credentials of the filesystem where the changes are.
    """

    def __init__(
        self,
        *,
        poke_interval: float | timedelta = 60,
        timeout: float | timedelta = 7 * 24 * 3600,
        soft_fail: bool = False,
        deferrable: bool = True,
        changes_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        for name in _NOT_TAKEN:
            if name in kwargs:
                raise ValueError(f"{type(self).__name__} waits when a load breaks a rule: leave '{name}' out.")
        super().__init__(**kwargs)
        self.poke_interval = _seconds("poke_interval", poke_interval)
        self.timeout = _seconds("timeout", timeout)
        self.soft_fail = soft_fail
        self.deferrable = deferrable
        self.changes_conn_id = changes_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Check the load, and again when its data has changed, until it passes or time is up."""
        with engine_errors_told():
            return self._check(context, time.time() + self.timeout, None)

    def resume(self, context: Context, event: Mapping[str, str], until: float, seen: str | None) -> dict[str, Any]:
        """Check the load again: its data has changed."""
        raise_for(event)
        with engine_errors_told():
            return self._check(context, until, seen)

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Give up when Airflow says that time is up."""
        from airflow.sdk.exceptions import TaskDeferralTimeout

        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except TaskDeferralTimeout:
            with engine_errors_told():
                raise self._time_is_up() from None

    def _check(self, context: Context, until: float, seen: str | None) -> dict[str, Any]:
        from airflow_dc_provider.looks import FilesLook
        from dc_engine.wording import MAX_TEXT, plain

        py_files = self.py_files
        while True:
            before = self._fingerprint()
            if before is None and self._path is not None:
                self.log.info("There is no file in %s yet.", plain(self._path, MAX_TEXT))
            elif before is None or before != seen:
                self._hook, self.py_files = None, py_files  # else the first job would be submitted again
                try:
                    return super().execute(context)
                except DcViolationError:
                    self.log.info("Waiting until %s.", plain(_awaited(self._path), MAX_TEXT))
                seen = before  # what changed while the job ran has changed since
            left = until - time.time()
            if left <= 0:
                raise self._time_is_up()
            if self.deferrable and left > WORTH_DEFERRING:
                self._defer(left, until, seen)
            changed = FilesLook(self._path, self.changes_conn_id, seen)
            while not changed() and time.time() < until:
                time.sleep(min(self.poke_interval, max(until - time.time(), 0)))

    def _defer(self, left: float, until: float, seen: str | None) -> None:
        from airflow_dc_provider.triggers.looking import DcChangesTrigger

        watched = {"path": self._path, "conn_id": self.changes_conn_id, "seen": seen}
        self.defer(
            trigger=DcChangesTrigger(**watched, poke_interval=self.poke_interval),
            method_name="resume",
            kwargs={"until": until, "seen": seen},
            timeout=timedelta(seconds=left),
        )

    @property
    def _path(self) -> str | None:
        return self.changes.get("path")

    def _fingerprint(self) -> str | None:
        """What the load's files are now, if it has files."""
        from airflow_dc_provider.credentials import state_access
        from airflow_dc_provider.landing import Landing

        if self._path is None:
            return None
        return Landing(self._path, state_access(self.changes_conn_id).options).fingerprint()

    def _time_is_up(self) -> Exception:
        """What is still wrong, from the state: the task that found it out may have been another process."""
        from airflow_dc_provider.brief import closed_lines
        from airflow_dc_provider.looks import VerdictLook
        from airflow_dc_provider.report import summary

        over = f"Time is up: the load was not mended within {self.timeout:g} seconds."
        verdict = VerdictLook(self.state, str(self.load_id), self.state_conn_id)()
        result = {}
        if verdict is not None and not lets_pass(verdict, self.on_invalidated):  # else its files are gone
            result = summary(verdict, self.state)
        message = "\n".join([over, *(closed_lines(result) if result else [f"No file came to {self._path}."])])
        self.log.error("%s", message)
        return AirflowSkipException(message) if self.soft_fail else DcViolationError(message, result)


def _awaited(path: str | None) -> str:
    if path is None:
        return "it is time to look again: changes without a path have no files to look at"
    return f"files in {path} have changed"


def _seconds(name: str, value: Any) -> float:
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    check_number(name, seconds, 0)
    return seconds
