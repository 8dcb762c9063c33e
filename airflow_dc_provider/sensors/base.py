"""What sensors have in common: they look once, and then wait in the triggerer or as Airflow's own sensors do."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import (
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
    BaseSensorOperator,
    conf,
)

from airflow_dc_provider.exceptions import DcGateError, engine_errors_told

# What only a running task needs is imported by it: every parse of a DAG file would pay for it otherwise.
if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context, PokeReturnValue

    from airflow_dc_provider.triggers.looking import LookTrigger

WORTH_DEFERRING = 10
"""Seconds. What is left below that is waited out in the task: it costs less than another process and, more important,
Airflow fails a task that runs again before the scheduler has noticed the end of the process that deferred it."""


class DcSensor(BaseSensorOperator):
    """
    Wait for something that a look at a state or at files shows.

    :param deferrable: Wait in the triggerer and take no slot meanwhile. The default is Airflow's ``[operators]
        default_deferrable``; otherwise ``mode`` says how to wait.
    """

    def __init__(
        self,
        *,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.deferrable = deferrable

    @abstractmethod
    def look(self, context: Context) -> PokeReturnValue:
        """Whether the wait is over, and with what result."""

    @abstractmethod
    def trigger(self) -> LookTrigger:
        """What waits in the triggerer until another look is worth while."""

    def poke(self, context: Context) -> PokeReturnValue:
        """Look once."""
        with engine_errors_told():
            return self.look(context)

    def execute(self, context: Context) -> Any:
        """Look, and wait if need be."""
        return self._wait(context, time.time() + self.timeout) if self.deferrable else super().execute(context)

    def resume(self, context: Context, event: Mapping[str, str], until: float) -> Any:
        """Look again: the trigger has news."""
        raise_for(event)
        return self._wait(context, until)

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """With ``soft_fail`` Airflow skips a task for any error; one of the tool stays an error, and is retried."""
        from airflow.sdk.exceptions import TaskDeferralError

        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except AirflowSkipException as skip:
            if self.soft_fail and isinstance(skip.__cause__, DcGateError | TaskDeferralError):
                raise skip.__cause__ from None
            raise

    def _wait(self, context: Context, until: float) -> Any:
        try:
            while True:
                found = self.poke(context)
                if found:
                    return found.xcom_value
                left = until - time.time()
                if left <= 0:
                    raise AirflowSensorTimeout(f"There was nothing for {self.timeout:g} seconds.")
                if left > WORTH_DEFERRING:
                    break
                time.sleep(min(self.poke_interval, left))
        except (AirflowFailException, AirflowSensorTimeout) as error:
            if self.soft_fail or self.never_fail:
                raise AirflowSkipException(str(error)) from error
            raise
        until_then = {"kwargs": {"until": until}, "timeout": timedelta(seconds=left)}
        return self.defer(trigger=self.trigger(), method_name="resume", **until_then)  # raises


def raise_for(event: Mapping[str, str]) -> None:
    """Raise the error that a trigger met, if it did."""
    if event["error"]:
        raise DcGateError.told(event["error"], event["hint"])
