"""What errors may say when columns are masked: Spark and Arrow quote values, so only the kind of error is kept."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from dc_engine.errors import DcError, UnexpectedError

_LEFT_OUT = "its text is left out, because it may quote values of masked columns"
_SAYS_NOTHING = re.compile(r"An error occurred while calling|An exception was thrown from the Python worker|<_")
"""How texts begin in which the cause comes later."""
_CAUSE = re.compile(r"^(?:Caused by)?: ([\w.$]+(?:Exception|Error): .+?)(?=^\t(?:at|\.\.\.) |\Z)", re.M | re.S)
"""What Java raised, outermost first, in the text of an error of Py4J or Spark Connect."""
_CLASS = re.compile(r"^\(?[a-z][\w$]*(?:\.[\w$]+)+(?:\) |: )")
_RAISED = re.compile(r"^(?:\w+\.)*\w+(?:Error|Exception): .+$", re.M)
"""What a Python worker raised."""
_DETAILS = re.compile(r'^\s*details = "(.+)"$', re.M)
"""What a Spark Connect server said, in the text of an error of gRPC."""
_PYSPARK_QUOTES = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Loggers to which PySpark writes what an error says, by itself, when it makes the exception."""


def told(error: Exception, mask: Collection[str] = ()) -> str:
    """What an error says, without plans and stack traces; with a mask, what kind of error it is."""
    if mask:
        return f"{_kind(error)} ({_LEFT_OUT})."
    text = str(error).strip() or type(error).__name__
    head = text.splitlines()[0]
    causes = _DETAILS.findall(text) or _RAISED.findall(text)[:1] or _CAUSE.findall(text)
    if _SAYS_NOTHING.match(head) and causes:
        head, *causes = causes
    parts = [_sentence(head)]
    parts += [one for one in map(_sentence, causes[-1:]) if one and one not in parts[0]]
    return ": ".join(parts) + "."


def _sentence(text: str) -> str:
    return " ".join(_CLASS.sub("", text).split()).split(" SQLSTATE")[0].rstrip(" ;.")


def _kind(error: Exception) -> str:
    """The condition by which Spark's documentation lists it, else its class."""
    condition = getattr(error, "getCondition", lambda: None)()
    return str(condition or type(error).__name__)


@contextlib.contextmanager
def without_values(mask: Collection[str]) -> Iterator[None]:
    """With a mask, let an unexpected error say where it happened, but no value that it may have read."""
    try:
        with _pyspark_silent() if mask else contextlib.nullcontext():
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


@contextlib.contextmanager
def _pyspark_silent() -> Iterator[None]:
    """Keep PySpark from writing down errors by itself, for as long as this lasts: a session may outlive the job."""
    from pyspark.logger import PySparkLogger

    def nothing(_: logging.LogRecord) -> bool:
        return False

    loggers = [PySparkLogger.getLogger(name) for name in _PYSPARK_QUOTES]
    for one in loggers:
        one.addFilter(nothing)
    try:
        yield
    finally:
        for one in loggers:
            one.removeFilter(nothing)
