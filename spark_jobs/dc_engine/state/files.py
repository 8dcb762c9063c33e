"""The files of a state: which kinds there are, and what is known about each file.

A new kind is declared here and nowhere else: where it lies, and whether it is made again from the rows by a rebuild.
Vacuum, verify, describe, retract and compact go by these declarations; an unknown kind is an error.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dc_engine.errors import StateError


class FileKind(enum.StrEnum):
    """What a file holds. The value is its name in snapshots."""

    folder: str
    derived: bool
    """Whether a rebuild makes it again from the rows."""

    def __new__(cls, value: str, folder: str, derived: bool) -> FileKind:
        kind = str.__new__(cls, value)
        kind._value_ = value
        kind.folder, kind.derived = folder, derived
        return kind

    # named by the snapshot
    ROWS = "rows", "rows", False
    DELETES = "deletes", "deletes", False
    DEAD = "dead", "dead", False
    INDEX = "index", "index", True
    LOADS = "loads", "loads", False
    PATTERNS = "patterns", "patterns", True
    DEPENDENCIES = "dependencies", "dependencies", False
    CODES = "codes", "codes", True
    # named by the record of a load
    VERDICT = "verdict", "verdicts", False
    DECISION = "decision", "decisions", False
    VIOLATIONS = "violations", "violations", False
    VIOLATING_ROWS = "violating_rows", "violating_rows", False


_KINDS = {kind.value: kind for kind in FileKind}


class Action(enum.StrEnum):
    """What made a snapshot."""

    APPLY = "apply"
    DECIDE = "decide"
    RETRACT = "retract"
    COMPACT = "compact"
    VACUUM = "vacuum"
    REBUILD = "rebuild"
    DISCOVER = "discover"


@dataclass(frozen=True, slots=True)
class DataFile:
    """One immutable file of the state."""

    path: str
    kind: FileKind
    owner: str
    """The index, or the rule, that it belongs to."""
    load: int
    """The number of the one load that it belongs to; 0 when it belongs to several, or to none."""
    size: int
    sha256: str
    rows: int
    first_row_id: int | None = None
    bounds: tuple[int, int] | None = None
    """The smallest and largest sort key in it, so that a reader looking for others need not open it."""
    footer: str = ""
    """For a file that is read in parts: a checksum of the part that says where everything else is."""
    packed: tuple[int, int, int] | None = None
    """If that part is long: where a compressed copy of it begins, how long the copy is, and how long it is itself."""

    def to_dict(self) -> dict[str, Any]:
        """Its JSON form, without default values."""
        facts = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in facts.items() if value is not None and value != ""}


def data_file(document: Mapping[str, Any]) -> DataFile:
    """A file from its JSON form."""
    kind = _KINDS.get(document["kind"])
    if kind is None:
        raise StateError(
            f"The file {document.get('path')} is of a kind that this version does not know: {document['kind']!r}.",
            hint="A newer version wrote it: upgrade airflow-dc-provider.",
        )
    given: dict[str, Any] = {"owner": "", **document, "kind": kind}
    given |= {name: tuple(fact) for name, fact in given.items() if isinstance(fact, list)}
    return DataFile(**given)
