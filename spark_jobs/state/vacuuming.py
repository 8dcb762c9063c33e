"""Remove files that no kept snapshot needs.

Safe whatever the clock says and whoever works at the same time: vacuum commits a snapshot of its own *after* it has
listed the files and *before* it removes any. A gate that began earlier can no longer commit on what it read and does
its work again; one that begins later writes files that are not on the list. The grace time only spares gates that are
at work from having to do so.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from spark_jobs.state.snapshots import Snapshot, commit, read_snapshot, snapshot_numbers, snapshot_path
from spark_jobs.state.storage import Listed, Storage

_FOLDERS = (
    "snapshots",
    "rows",
    "deletes",
    "dead",
    "index",
    "violations",
    "violating_rows",
    "verdicts",
    "runs",
    "waiting",
)
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
    needed = {snapshot_path(number) for number in kept}
    for number in kept:
        snapshot = current if number == current.number else read_snapshot(storage, number)
        needed.update(needed_files(snapshot))
    unneeded = [file for file in listed if file.path not in needed and file.path not in young]
    done = Vacuumed(current.number, young=len(young - needed))
    if not unneeded:
        return done
    done.snapshot = current.number + 1
    commit(storage, replace(current, number=done.snapshot, parent=current.number, load_id="", action="vacuum"))
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


def needed_files(snapshot: Snapshot) -> set[str]:
    """The paths of all files that a snapshot names."""
    files = [*snapshot.files, *(file for load in snapshot.loads for file in load.files)]
    return {file.path for file in files}
