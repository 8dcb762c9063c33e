"""What the tasks raise: violations of the data on one side, failures of the tool on the other.

Retrying does not fix data, so a violation fails the task at once; a failure of the tool is retried as
the task asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

from dc_engine.errors import DcError


class DcViolationError(AirflowFailException):
    """A load broke a rule: the gate is closed, whatever ``retries`` says."""

    def __init__(self, message: str, summary: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.summary = summary or {}


class DcViolationRetryError(AirflowException):
    """A load broke a rule, and ``retry_on_violation`` asks to try again: the data may be fixed meanwhile."""

    def __init__(self, message: str, summary: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.summary = summary or {}


class DcStateError(AirflowFailException):
    """A state was verified and is not sound: trying again does not fix it."""

    def __init__(self, message: str, problems: list[str] | None = None) -> None:
        super().__init__(message)
        self.problems = problems or []


class DcGateError(AirflowException):
    """A task could not do its work: a connection, a program, the state or the request is at fault."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        self.message = message
        self.hint = hint
        super().__init__(f"{message}\nHint: {hint}" if hint else message)

    @classmethod
    def told(cls, message: str, hint: str = "") -> DcGateError:
        """The error with another part's message and hint, which may quote names and values: one line each."""
        from dc_engine.wording import MAX_MESSAGE, plain

        return cls(plain(message, MAX_MESSAGE), hint=plain(hint, MAX_MESSAGE))


@contextmanager
def engine_errors_told() -> Iterator[None]:
    """Raise the engine's errors as those of a task."""
    try:
        yield
    except DcError as error:
        raise DcGateError.told(error.message, error.hint) from None
