"""Snapshots: the committed versions of a state, each one JSON document that names every file it needs."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from dc_engine.errors import ConflictError, StateError
from dc_engine.state.storage import Storage

FORMAT_VERSION = 1
_FOLDER = "snapshots"
_NAME = re.compile(r"\d{20}\.json")


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
    bounds: tuple[int, int] | None = None
    """The smallest and largest sort key in it, so that who looks for others need not open it."""
    footer: str = ""
    """A checksum of the part that says where everything else is, of a file that is read in parts."""


@dataclass(frozen=True, slots=True)
class Load:
    """A load that was applied. The order of a snapshot's loads is that of the history, whatever their numbers."""

    number: int
    load_id: str
    fingerprint: str
    inserted: int
    deleted: int
    verdict: str
    """The path of its verdict within the state."""
    files: list[DataFile] = field(default_factory=list)
    """What was written for people about this load: its violations and violating rows."""
    discarded: bool = False
    """Whether it was rejected, and only its verdict kept."""
    settled: bool = False
    """Whether its rows can no longer be told from those of other loads, because the state was built anew."""
    missing_deletes: str = "error"
    duplicate_keys: str = "error"
    key: list[str] = field(default_factory=list)
    """The key by which its deletes found their rows: nothing where that was the whole row."""
    mask: list[str] = field(default_factory=list)
    """The columns whose values were hidden in what was written about it."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One committed, immutable version of the state of a table."""

    number: int
    parent: int | None
    table: str
    created_at: str = ""
    load_id: str = ""
    """The load that it brought in or took out; nothing for maintenance."""
    action: str = "apply"
    """What made it: ``apply``, ``retract``, ``compact``, ``vacuum`` or ``rebuild``."""
    last_change: int = 0
    """The newest snapshot in which rows or constraints changed: this one, unless it is of maintenance."""
    constraints: Mapping[str, Any] = field(default_factory=dict)
    """The constraint set that was in force, as its mapping."""
    constraints_fingerprint: str = ""
    schema: Mapping[str, str] = field(default_factory=dict)
    """The columns that are kept, with their Spark types."""
    rows: int = 0
    totals: Mapping[str, int] = field(default_factory=dict)
    """How many violations each constraint has, by its name."""
    totals_before: Mapping[str, int] = field(default_factory=dict)
    """The same without the load of ``last_change``, so that it can be taken out again at no cost."""
    mask: list[str] = field(default_factory=list)
    """Columns whose values are not to be shown, as the newest load asked."""
    loads: list[Load] = field(default_factory=list)
    files: list[DataFile] = field(default_factory=list)

    def find_load(self, load_id: str) -> Load | None:
        """The load of this id, if it was applied."""
        return next((one for one in self.loads if one.load_id == load_id), None)

    def files_of(self, kind: str, owner: str = "") -> list[DataFile]:
        """The files of one kind and owner, oldest first."""
        return [one for one in self.files if one.kind == kind and one.owner == owner]

    @property
    def described(self) -> str:
        """How messages name what made this snapshot."""
        return f"load '{self.load_id}'" if self.action == "apply" else f"{self.action} {self.load_id}".strip()


def snapshot_numbers(storage: Storage) -> list[int]:
    """The numbers of all snapshots that are there, oldest first."""
    return sorted(int(name[:-5]) for name in storage.names(_FOLDER) if _NAME.fullmatch(name))


def snapshot_path(number: int) -> str:
    """Where a snapshot is within the state."""
    return f"{_FOLDER}/{number:020d}.json"


def read_current(storage: Storage) -> Snapshot | None:
    """The newest snapshot, or ``None`` for a state in which nothing was committed yet."""
    numbers = snapshot_numbers(storage)
    return read_snapshot(storage, numbers[-1]) if numbers else None


def commit(storage: Storage, snapshot: Snapshot) -> Snapshot:
    """Make a snapshot the newest one, wholly or not at all; ``ConflictError`` when another writer was first."""
    dated = replace(snapshot, created_at=datetime.now(UTC).isoformat(timespec="seconds"))
    data, path = to_bytes(dated), snapshot_path(snapshot.number)
    try:
        storage.create(path, data)
    except FileExistsError as error:
        if storage.read(path) == data:  # it is ours, and only the answer was lost
            return dated
        raise _conflict(storage, snapshot, read_snapshot(storage, snapshot.number)) from error
    if not _is_in_force(storage, snapshot):
        storage.remove(path)
        raise StateError(
            f"{_capital(snapshot.described)} was perhaps not committed: snapshots after {snapshot.parent or 0} of "
            f"{storage.uri} came and were removed while it was at work.",
            hint="Run it again; it will be checked on top of the newest one.",
        )
    return dated


def _is_in_force(storage: Storage, snapshot: Snapshot) -> bool:
    """Whether a snapshot that was created is the newest one, or was until others followed it.

    Its name may have been free only because a vacuum had removed a snapshot of that number. Vacuum removes the older
    one first, so while the parent is there that cannot be.
    """
    if snapshot.parent and storage.size(snapshot_path(snapshot.parent)) is not None:
        return True
    newest = snapshot_numbers(storage)[-1]
    if newest == snapshot.number:
        return True
    mine = {one.verdict for one in snapshot.loads if one.number == snapshot.number}
    return bool(mine & {one.verdict for one in read_snapshot(storage, newest).loads})


def _conflict(storage: Storage, snapshot: Snapshot, winner: Snapshot) -> ConflictError:
    return ConflictError(
        f"{_capital(snapshot.described)} was not committed: {winner.described} was committed to {storage.uri} at "
        f"the same time, as snapshot {winner.number}.",
        hint="Run it again; it will be checked on top of the other one.",
    )


def _capital(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"


def to_bytes(snapshot: Snapshot) -> bytes:
    """The document of a snapshot, as it is stored."""
    document = _facts(snapshot)
    document["loads"] = [{**_facts(one), "files": [_facts(file) for file in one.files]} for one in snapshot.loads]
    document["files"] = [_facts(file) for file in snapshot.files]
    sealed = {"format_version": FORMAT_VERSION, "checksum": _checksum(document), **document}
    return json.dumps(sealed, ensure_ascii=False, indent=1).encode()


def _checksum(document: Mapping[str, Any]) -> str:
    """The checksum of a snapshot's facts, however they are laid out."""
    text = json.dumps(document, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _facts(one: Snapshot | Load | DataFile) -> dict[str, Any]:
    """The fields of one object; unlike ``asdict`` it copies nothing, which counts with thousands of files."""
    return {name: getattr(one, name) for name in one.__slots__}


def read_snapshot(storage: Storage, number: int) -> Snapshot:
    """One snapshot, whole or not at all: a damaged one is an error that names the file."""
    path = snapshot_path(number)
    try:
        document = dict(json.loads(storage.read(path)))
        version = document.pop("format_version")
        if version == FORMAT_VERSION:
            if document.pop("checksum") != _checksum(document):
                raise ValueError("its checksum does not fit, so it was altered")
            if document["number"] != number:
                raise ValueError(f"it is a copy of snapshot {document['number']}")
            return _from_document(document)
    except (ValueError, KeyError, TypeError) as error:
        raise StateError(
            f"{storage.locate(path)} is not a snapshot: {error!r}.",
            hint="Restore the file from a copy; or remove it, and the snapshot before it is in force again.",
        ) from error
    raise StateError(
        f"The state {storage.uri} has format {version}; this version reads format {FORMAT_VERSION}.",
        hint="Upgrade airflow-dc-provider.",
    )


def _from_document(document: dict[str, Any]) -> Snapshot:
    loads = [Load(**{**one, "files": list(map(data_file, one["files"]))}) for one in document.pop("loads")]
    files = list(map(data_file, document.pop("files")))
    return Snapshot(**document, loads=loads, files=files)


def data_file(document: Mapping[str, Any]) -> DataFile:
    """A file from its JSON form."""
    bounds = document.get("bounds")
    return DataFile(**{**document, "bounds": tuple(bounds) if bounds is not None else None})
