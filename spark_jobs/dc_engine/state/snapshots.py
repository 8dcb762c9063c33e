"""Snapshots: the committed versions of a state, each one small JSON document that names every file it needs.

Old loads are in files of their own (``loads.py``), so a snapshot does not grow with the history.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from dc_engine.errors import ConflictError, StateError, capital
from dc_engine.state.files import Action, DataFile, FileKind, data_file
from dc_engine.state.loads import Load, Loads, load_from
from dc_engine.state.storage import Storage

FORMAT_VERSION = 1
_FOLDER = "snapshots"
_NAME = re.compile(r"\d{20}\.json")
NEWEST = f"{_FOLDER}/newest"
"""A hint, for folders with very many snapshots: the number of a recent one, perhaps not the newest."""
_BEYOND = (*range(2, 33), *(2**power for power in range(6, 20)))
"""How far beyond the last consecutive number to look for more."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One committed, immutable version of the state of a table."""

    number: int
    parent: int | None
    table: str
    created_at: str = ""
    load_id: str = ""
    """The load that it brought in or took out; empty for maintenance."""
    action: Action = Action.APPLY
    """What made it."""
    last_change: int = 0
    """The newest snapshot in which rows or constraints changed: this one, unless it is maintenance."""
    constraints: Mapping[str, Any] = field(default_factory=dict)
    """The constraint set that was in force, as its mapping."""
    schema: Mapping[str, str] = field(default_factory=dict)
    """The columns that are kept, with their Spark types."""
    rows: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What is known about all rows, for each maintained thing: ``violations`` has the total of each constraint."""
    facts_before: Mapping[str, Any] = field(default_factory=dict)
    """The same without the load of ``last_change``, so that it can be taken out again at no cost."""
    mask: list[str] = field(default_factory=list)
    """Columns whose values are not to be shown, as the newest load asked."""
    recent: list[Load] = field(default_factory=list)
    """The newest records of loads, in the order of the history; all others are in files."""
    files: list[DataFile] = field(default_factory=list)

    def loads(self, storage: Storage, cache: dict[str, list[Load]] | None = None) -> Loads:
        """All loads of the history; ``cache`` keeps what was read of them, for the next snapshot."""
        return Loads(storage, self.recent, self.files_of(FileKind.LOADS), {} if cache is None else cache)

    def files_of(self, kind: FileKind, owner: str | None = None) -> list[DataFile]:
        """The files of one kind (and owner), oldest first."""
        return [one for one in self.files if one.kind is kind and owner in (None, one.owner)]

    @property
    def described(self) -> str:
        """How messages name what made this snapshot."""
        return f"load '{self.load_id}'" if self.action is Action.APPLY else f"{self.action} {self.load_id}".strip()


def advance(
    current: Snapshot,
    after: Snapshot,
    action: Action,
    *,
    load_id: str = "",
    changed: bool = True,
    facts_before: Mapping[str, Any] | None = None,
) -> Snapshot:
    """The one way to the next snapshot: ``after`` says what is in it, this function sets what it follows.

    ``changed`` says whether rows or constraints changed. ``facts_before`` are the facts without the load that it
    brings, when that load has files of its own and can be taken out again at no cost.
    """
    number = current.number + 1
    last_change, before = current.last_change, current.facts_before
    if changed:
        last_change, before = number, after.facts if facts_before is None else facts_before
    return replace(
        after,
        number=number,
        parent=current.number or None,
        action=action,
        load_id=load_id,
        last_change=last_change,
        facts_before=before,
    )


def with_loads(snapshot: Snapshot, *loads: Load) -> Snapshot:
    """The snapshot with records of loads added, or replacing older ones."""
    places = {one.place for one in loads}
    recent = [*(one for one in snapshot.recent if one.place not in places), *loads]
    return replace(snapshot, recent=sorted(recent, key=lambda one: one.place))


def without_load(snapshot: Snapshot, load: Load) -> Snapshot:
    """The snapshot of a history without a load."""
    if snapshot.files_of(FileKind.LOADS):  # one of them may have its record, which has to be hidden
        return with_loads(snapshot, Load(load.number, load.place, load.load_id, gone=True))
    return replace(snapshot, recent=[one for one in snapshot.recent if one.place != load.place])


def snapshot_numbers(storage: Storage) -> list[int]:
    """The numbers of all snapshots that are there, oldest first."""
    return sorted(int(name[:-5]) for name in storage.names(_FOLDER) if _NAME.fullmatch(name))


def snapshot_path(number: int) -> str:
    """Where a snapshot is within the state."""
    return f"{_FOLDER}/{number:020d}.json"


def newest_number(storage: Storage) -> int | None:
    """The number of the newest snapshot: on a disk searched for from the hint on, else from a listing of the folder.

    A hint may be a little old. If there is a gap between it and the newest, somebody removed snapshots, and the folder
    is listed.
    """
    number = _hint(storage) if storage.is_local else None
    if number is not None and _is_there(storage, number):
        while _is_there(storage, number + 1):
            number += 1
        if not any(_is_there(storage, number + step) for step in _BEYOND):
            return number
    numbers = snapshot_numbers(storage)
    return numbers[-1] if numbers else None


def _hint(storage: Storage) -> int | None:
    if storage.size(NEWEST) is None:
        return None
    text = storage.read(NEWEST)
    return int(text) if text.isdigit() and len(text) <= 20 else None


def _is_there(storage: Storage, number: int) -> bool:
    return storage.size(snapshot_path(number)) is not None


def read_current(storage: Storage) -> Snapshot | None:
    """The newest snapshot, or ``None`` for a state in which nothing was committed yet."""
    number = newest_number(storage)
    return read_snapshot(storage, number) if number is not None else None


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
            f"{capital(snapshot.described)} may not have been committed: snapshots after {snapshot.parent or 0} of "
            f"{storage.uri} came and were removed in the meantime.",
            hint="Run it again; it will be checked on top of the newest one.",
        )
    storage.hint(NEWEST, str(snapshot.number).encode())
    return dated


def _is_in_force(storage: Storage, snapshot: Snapshot) -> bool:
    """Whether a snapshot that was created is the newest one, or was until others followed it.

    Its name may have been free only because a vacuum had removed a snapshot of that number. Vacuum removes older
    ones first, so while the parent is there that cannot have happened.
    """
    if snapshot.parent and storage.size(snapshot_path(snapshot.parent)) is not None:
        return True
    newest = snapshot_numbers(storage)[-1]
    if newest == snapshot.number:
        return True
    mine = {one.load_id: one.verdict for one in snapshot.recent if one.number == snapshot.number}
    known = read_snapshot(storage, newest).loads(storage)
    return any((found := known.find(load_id)) and found.verdict == verdict for load_id, verdict in mine.items())


def _conflict(storage: Storage, snapshot: Snapshot, winner: Snapshot) -> ConflictError:
    return ConflictError(
        f"{capital(snapshot.described)} was not committed: {winner.described} was committed to {storage.uri} at "
        f"the same time, as snapshot {winner.number}.",
        hint="Run it again; it will be checked on top of the other one.",
    )


def to_bytes(snapshot: Snapshot) -> bytes:
    """The document of a snapshot, as it is stored."""
    document = {name: getattr(snapshot, name) for name in snapshot.__slots__}
    document["recent"] = [one.to_dict() for one in snapshot.recent]
    document["files"] = [one.to_dict() for one in snapshot.files]
    sealed = {"format_version": FORMAT_VERSION, "checksum": _checksum(document), **document}
    return json.dumps(sealed, ensure_ascii=False).encode()


def _checksum(document: Mapping[str, Any]) -> str:
    """The checksum of a snapshot's facts, however they are laid out."""
    text = json.dumps(document, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def read_snapshot(storage: Storage, number: int) -> Snapshot:
    """One snapshot, whole or not at all: a damaged one is an error that names the file."""
    path = snapshot_path(number)
    try:
        document = dict(json.loads(storage.read(path)))
        version = document.pop("format_version")
        if version == FORMAT_VERSION:
            if document.pop("checksum") != _checksum(document):
                raise ValueError("its checksum does not match, so it was altered")
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
    recent = [load_from(one) for one in document.pop("recent")]
    files = [data_file(one) for one in document.pop("files")]
    return Snapshot(**{**document, "action": Action(document["action"])}, recent=recent, files=files)
