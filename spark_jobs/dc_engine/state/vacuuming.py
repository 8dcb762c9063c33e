"""Remove files that no kept snapshot needs.

Safe whatever the clock says and whoever works at the same time: vacuum commits a snapshot of its own *after* it has
listed the files and *before* it removes any. A gate that began earlier can no longer commit on what it read and does
its work again; one that begins later writes files that are not on the list. The grace time only spares gates that are
at work from having to do so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from dc_engine.state.drafts import needed_files
from dc_engine.state.files import Action, FileKind
from dc_engine.state.loads import Load
from dc_engine.state.snapshots import (
    NEWEST,
    Snapshot,
    advance,
    commit,
    read_snapshot,
    snapshot_numbers,
    snapshot_path,
)
from dc_engine.state.storage import Listed, Storage

_FOLDERS = frozenset({"snapshots", "runs", *(kind.folder for kind in FileKind)})
"""What a state keeps its files in; whatever else lies in its folder is somebody else's."""
_EXCHANGED = timedelta(days=1)
"""How long the documents between Airflow and a job stay at least: the one that asked for this is among them."""


@dataclass(slots=True)
class Vacuumed:
    """What vacuum did."""

    snapshot: int
    files: list[str] = field(default_factory=list)
    bytes: int = 0
    snapshots: int = 0
    young: int = 0
    """Files that nobody needs, left for their age."""


def vacuum(storage: Storage, current: Snapshot, *, keep: int, before: datetime) -> Vacuumed:
    """Keep the newest snapshots, those last written after a time, and what they need; remove the rest that is older."""
    listed = [file for file in storage.files() if file.path.split("/")[0] in _FOLDERS]
    young = {file.path for file in listed if _is_young(file, before)}
    numbers = snapshot_numbers(storage)
    kept = {*numbers[-keep:], *(number for number in numbers if snapshot_path(number) in young)}
    needed = {NEWEST, *(snapshot_path(number) for number in kept)}
    cache: dict[str, list[Load]] = {}  # what is true of one snapshot's old loads is true of the next one's
    for number in kept:
        snapshot = current if number == current.number else read_snapshot(storage, number)
        needed.update(file.path for file in needed_files(storage, snapshot, cache))
    unneeded = [file for file in listed if file.path not in needed and file.path not in young]
    done = Vacuumed(current.number, young=len(young - needed))
    if not unneeded:
        return done
    done.snapshot = current.number + 1
    commit(storage, advance(current, current, Action.VACUUM, changed=False))
    # snapshots go first: one that is still there always has all of its files
    for file in sorted(unneeded, key=lambda one: (not one.path.startswith("snapshots/"), one.path)):
        storage.remove(file.path)
        done.files.append(file.path)
        done.bytes += file.size
        done.snapshots += file.path.startswith("snapshots/") and file.path.endswith(".json")
    return done


def _is_young(file: Listed, before: datetime) -> bool:
    least = min(before, datetime.now(UTC) - _EXCHANGED) if file.path.startswith("runs/") else before
    return file.modified is not None and file.modified > least
