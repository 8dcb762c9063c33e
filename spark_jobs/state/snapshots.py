"""Snapshots: the committed versions of a state, each one JSON document that names every file it needs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from spark_jobs.errors import ConflictError, StateError
from spark_jobs.state.storage import Storage

FORMAT_VERSION = 1
_FOLDER = "snapshots"


@dataclass(frozen=True, slots=True)
class DataFile:
    """One immutable file of the state. ``kind`` and ``owner`` mean something to who wrote it, not to this room."""

    path: str
    kind: str
    owner: str
    load: int
    size: int
    sha256: str
    rows: int
    first_row_id: int | None = None


@dataclass(frozen=True, slots=True)
class Load:
    """A load that was applied."""

    number: int
    load_id: str
    fingerprint: str
    inserted: int
    deleted: int
    verdict: str
    """The path of its verdict within the state."""
    files: list[DataFile] = field(default_factory=list)
    """What was written for people about this load: its violations and violating rows."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One committed, immutable version of the state of a table."""

    number: int
    parent: int | None
    table: str
    created_at: str = ""
    load_id: str = ""
    constraints: Mapping[str, Any] = field(default_factory=dict)
    """The constraint set that was in force, as its mapping."""
    constraints_fingerprint: str = ""
    schema: Mapping[str, str] = field(default_factory=dict)
    """The columns that are kept, with their Spark types."""
    rows: int = 0
    totals: Mapping[str, int] = field(default_factory=dict)
    """How many violations each constraint has, by its name."""
    loads: list[Load] = field(default_factory=list)
    files: list[DataFile] = field(default_factory=list)

    def find_load(self, load_id: str) -> Load | None:
        """The load of this id, if it was applied."""
        return next((one for one in self.loads if one.load_id == load_id), None)

    def files_of(self, kind: str, owner: str = "") -> list[DataFile]:
        """The files of one kind and owner, oldest first."""
        return [one for one in self.files if one.kind == kind and one.owner == owner]


def read_current(storage: Storage) -> Snapshot | None:
    """The newest snapshot, or ``None`` for a state in which nothing was committed yet."""
    names = [name for name in storage.names(_FOLDER) if name.endswith(".json")]
    return _read(storage, max(names)) if names else None


def commit(storage: Storage, snapshot: Snapshot) -> Snapshot:
    """Make a snapshot the newest one, wholly or not at all; ``ConflictError`` when its number is taken."""
    dated = replace(snapshot, created_at=datetime.now(UTC).isoformat(timespec="seconds"))
    name = f"{snapshot.number:020d}.json"
    document = {"format_version": FORMAT_VERSION, **asdict(dated)}
    try:
        storage.create(f"{_FOLDER}/{name}", json.dumps(document, ensure_ascii=False, indent=1).encode())
    except FileExistsError as error:
        winner = _read(storage, name)
        raise ConflictError(
            f"Load '{snapshot.load_id}' was not committed: load '{winner.load_id}' was committed to {storage.uri} at "
            f"the same time, as snapshot {winner.number}.",
            hint="Run the load again; it will be checked on top of the other one.",
        ) from error
    except OSError as error:
        raise StateError(f"The state {storage.uri} cannot be written: {error}.") from error
    return dated


def _read(storage: Storage, name: str) -> Snapshot:
    path = f"{_FOLDER}/{name}"
    try:
        document = dict(json.loads(storage.read(path)))
        version = document.pop("format_version")
        if version == FORMAT_VERSION:
            return _from_document(document)
    except (ValueError, KeyError, TypeError) as error:
        raise StateError(
            f"{storage.locate(path)} is not a snapshot: {error!r}.", hint="Restore the file, or rebuild the state."
        ) from error
    raise StateError(
        f"The state {storage.uri} has format {version}; this version reads format {FORMAT_VERSION}.",
        hint="Upgrade airflow-dc-provider.",
    )


def _from_document(document: dict[str, Any]) -> Snapshot:
    loads = [Load(**{**one, "files": [DataFile(**file) for file in one["files"]]}) for one in document.pop("loads")]
    files = [DataFile(**one) for one in document.pop("files")]
    return Snapshot(**document, loads=loads, files=files)
