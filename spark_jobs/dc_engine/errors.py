"""Every error that a person may see: one base class, one sentence, one hint.

A ``DcError`` says what is wrong (naming file, column, constraint or load) and, as ``hint``, what to do about it.
Nothing else is caught and reworded: an unexpected exception stays a traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

_MAX_MESSAGE = 2_000


class DcError(Exception):
    """Base of all errors that say in a sentence what is wrong with the input, the state or the request."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        self.message = message
        self.hint = hint
        super().__init__(f"{message} Hint: {hint}" if hint else message)

    def to_dict(self) -> dict[str, Any]:
        """The error document's body."""
        return {"type": type(self).__name__, "message": self.message, "hint": self.hint}


class ConstraintError(DcError):
    """A constraint file, or one constraint in it, cannot be understood."""


class RequestError(DcError):
    """A request document cannot be understood."""


class ChangesError(DcError):
    """The changes of a load cannot be read."""


class SchemaError(DcError):
    """A column is missing, has changed its type, or cannot be compared."""


class StateError(DcError):
    """The state folder cannot be used: not writable, of another table, of a newer format, or damaged."""


class ConflictError(StateError):
    """Another writer committed first: this commit certainly did not happen."""


class NoSpaceError(StateError):
    """A file was certainly not written, because there is no space for it."""


class SparkError(DcError):
    """Spark cannot do the work: it is not there, has another version than the engine knows, or does not answer."""


class UnexpectedError(DcError):
    """An unforeseen error, in words that show no value of a masked column."""


class UnfitStoreError(StateError):
    """A filesystem cannot create files exclusively: nothing was committed to it, and nothing can be."""


def clipped(message: str) -> str:
    """A message of readable length, although it repeats what somebody gave."""
    return message if len(message) <= _MAX_MESSAGE else f"{message[:_MAX_MESSAGE]}... (cut here)."


def escaped(text: str) -> str:
    """A text on one line, unprintable characters escaped: quoted in a log, it cannot forge a line."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)


def capital(text: str) -> str:
    """A text as the beginning of a sentence."""
    return f"{text[:1].upper()}{text[1:]}"


def counted(number: int, thing: str, things: str = "") -> str:
    """``1 row``, ``2,000 rows``; ``things`` is an irregular plural."""
    return f"{number:,} {thing if number == 1 else things or f'{thing}s'}"


def did_you_mean(word: str, candidates: Iterable[str], *, otherwise: str = "") -> str:
    """A hint that names the nearest candidate; without one, lists them all."""
    names = sorted(set(candidates))
    by_folded = {name.casefold(): name for name in names}
    close = difflib.get_close_matches(word.casefold(), by_folded, n=1, cutoff=0.6)
    if close:
        return f"Did you mean '{by_folded[close[0]]}'?"
    if otherwise:
        return otherwise
    return f"Known here: {', '.join(names)}." if names else ""
