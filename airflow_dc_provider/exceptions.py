"""What a gate raises: violations of the data on one side, failures of the tool on the other.

Retrying does not mend data, so a violation fails the task at once; a failure of the tool is retried as
the task asks for.
"""

from __future__ import annotations

from typing import Any

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException


class DcViolationError(AirflowFailException):
    """A load broke a rule: the gate is closed, whatever ``retries`` says."""

    def __init__(self, message: str, summary: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.summary = summary or {}


class DcViolationRetryError(AirflowException):
    """A load broke a rule, and ``retry_on_violation`` asks to try again: the data may be mended meanwhile."""

    def __init__(self, message: str, summary: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.summary = summary or {}


class DcGateError(AirflowException):
    """The gate could not reach a verdict: a connection, a program, the state or the request is at fault."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        self.message = message
        self.hint = hint
        super().__init__(f"{message}\nHint: {hint}" if hint else message)
