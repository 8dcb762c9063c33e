"""What tasks report to the driver, and how it travels: each document has a type here; one without is an error."""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from dc_engine import errors
from dc_engine.errors import DcError
from dc_engine.state.files import DataFile, data_file


class Effect(enum.StrEnum):
    """What becomes of pairs of rows that violate a constraint."""

    NEW = "new"
    """The load brings them."""
    REMOVED = "removed"
    """They go with rows that the load deletes."""
    BACK = "back"
    """They come when an earlier attempt of the load is undone."""
    AWAY = "away"
    """They go when an earlier attempt of the load is undone."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A task could not do its work."""

    type: str
    message: str
    hint: str

    @property
    def error(self) -> DcError:
        """The error, to be raised."""
        return getattr(errors, self.type)(self.message, hint=self.hint)


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of rows (or rows) that violate a constraint: changed rows with old ones, and with each other."""

    constraint: int
    effect: Effect
    with_old: int
    among_new_twice: int

    @property
    def twice(self) -> int:
        """Twice their number: pairs among changed rows are found from both ends."""
        return 2 * self.with_old + self.among_new_twice


@dataclass(frozen=True, slots=True)
class ViolatingRows:
    """How many rows of a load violate a constraint, the worst of them, and the file that has all of them."""

    constraint: int
    count: int
    worst: list[dict[str, int]]
    file: DataFile


@dataclass(frozen=True, slots=True)
class Listed:
    """Violations of a constraint that are shown, and the file of those that are listed."""

    constraint: int
    samples: list[dict[str, Any]]
    file: DataFile | None


@dataclass(frozen=True, slots=True)
class SkippedRows:
    """How many rows each constraint skipped because of a NULL."""

    rows: list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class TakenKeys:
    """Keys that a load inserts more than once, or while they are present, or that several rows have that come back.

    Some of them are named, and the rows that have them.
    """

    twice: int
    present: int
    back: int
    keys: list[dict[str, Any]]
    owners: list[int]


@dataclass(frozen=True, slots=True)
class Deleted:
    """What the deletes of a load found, and the file that records it."""

    file: DataFile
    deleted: int
    replaced: int
    missing: int
    named: list[dict[str, Any]]
    """Some that found no row."""


@dataclass(frozen=True, slots=True)
class Written:
    """A file that was written: a run of an index, or what several files were merged into."""

    file: DataFile


@dataclass(frozen=True, slots=True)
class Found:
    """Rows of the state that were found in the table: the file in which they are, and how many different ones."""

    file: DataFile
    rows: int


@dataclass(frozen=True, slots=True)
class Checked:
    """What is wrong with a file, and what it counts: its rows, and of an index the sum of their ids."""

    kind: str
    owner: str
    rows: int = 0
    ids: int = 0
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Spent:
    """How many seconds a unit took: to look up what the indexes hold, to count, to write new entries."""

    look_up: float
    count: float
    write: float


@dataclass(frozen=True, slots=True)
class Met:
    """What one of several units of a search met: patterns with two numbers each, an Arrow stream in base 64."""

    unit: int
    pairs: int
    """How many pairs of rows (or nodes of a search) were looked at."""
    stopped: str
    lines: str


@dataclass(frozen=True, slots=True)
class Brought:
    """How much there is in the columns of some rows, and a few of the rows: an Arrow stream in base 64."""

    rows: int
    values: dict[str, int]
    nbytes: dict[str, int]
    content: str


Document = (
    Failed
    | Pairs
    | ViolatingRows
    | Listed
    | SkippedRows
    | TakenKeys
    | Deleted
    | Written
    | Found
    | Checked
    | Spent
    | Met
    | Brought
)
_TYPES: dict[str, type[Document]] = {one.__name__: one for one in Document.__args__}


DOCUMENT_SCHEMA = "document string"
"""What the last step of a piece of work yields."""


def as_batch(documents: Iterable[Document]) -> pa.RecordBatch:
    """Documents as Spark takes them."""
    return pa.RecordBatch.from_pydict({"document": pa.array(map(to_text, documents), pa.string())})


def failed(error: DcError) -> Failed:
    """An error as a document."""
    return Failed(**error.to_dict())


def spent(documents: Iterable[Document]) -> dict[str, float]:
    """The seconds of all units together; several may have been at work at the same time."""
    found = [one for one in documents if isinstance(one, Spent)]
    return {name: round(sum(getattr(one, name) for one in found), 3) for name in ("look_up", "count", "write")}


def file_of(document: Document) -> DataFile | None:
    """The file that a document names, if it names one."""
    return getattr(document, "file", None)


def to_text(document: Document) -> str:
    """A document as it travels."""
    return json.dumps({"document": type(document).__name__, **asdict(document)})


def from_text(text: str | bytes) -> Document:
    """The inverse of ``to_text``; a document of an unknown type is an error."""
    facts: dict[str, Any] = json.loads(text)
    made = _TYPES.get(facts.pop("document"))
    if made is None:
        raise AssertionError(f"A task reports an unknown document: {text!r}")
    return made(**_read(facts))


def _read(facts: Mapping[str, Any]) -> dict[str, Any]:
    known = dict(facts)
    if known.get("file") is not None:
        known["file"] = data_file(known["file"])
    if "effect" in known:
        known["effect"] = Effect(known["effect"])
    return known
