"""What errors may say when columns are masked: Spark and Arrow quote values, so only the kind of error is kept."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from pathlib import Path

from dc_engine.errors import DcError, UnexpectedError

_LEFT_OUT = "its text is left out, because it may quote values of masked columns"


def told(error: Exception, mask: Collection[str] = ()) -> str:
    """What an error says, without plans and stack traces; with a mask, what kind of error it is."""
    if mask:
        return f"{_kind(error)} ({_LEFT_OUT})."
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0].split(" SQLSTATE")[0].rstrip(" ;.") + "."


def _kind(error: Exception) -> str:
    """The condition by which Spark's documentation lists it, else its class."""
    condition = getattr(error, "getCondition", lambda: None)()
    return str(condition or type(error).__name__)


@contextlib.contextmanager
def without_values(mask: Collection[str]) -> Iterator[None]:
    """With a mask, let an unexpected error say where it happened, but no value that it may have read."""
    try:
        yield
    except DcError:
        raise
    except Exception as error:
        if not mask:
            raise
        last = error.__traceback__
        while last is not None and last.tb_next is not None:
            last = last.tb_next
        where = f" at {Path(last.tb_frame.f_code.co_filename).name}:{last.tb_lineno}" if last else ""
        raise UnexpectedError(f"The job failed with {told(error, mask)[:-1]}{where}.") from None
