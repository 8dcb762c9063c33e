"""Remove files that no kept snapshot needs.

Safe whatever the clock says and whoever is at work: vacuum commits a snapshot of its own *after* it has
listed the files and *before* it removes any. A gate that began earlier can no longer commit on what it read and does
its work again; one that begins later writes files that are not on the list. The grace time only spares gates at work
from having to do so.

On a full disk there is no space for that commit. Then old snapshots go first, and the files that only they name: no
gate can need those. A gate on an older snapshot can no longer commit, one on the current snapshot takes names from
it, and what a gate has written so far was never named. Leftovers need the commit: they may be a running gate's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from dc_engine.errors import NoSpaceError, StateError, counted
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
    to_bytes,
)
from dc_engine.state.storage import Listed, Storage

_FOLDERS = frozenset({"snapshots", "runs", "waiting", *(kind.folder for kind in FileKind)})
"""The folders of a state; whatever else lies beside them is somebody else's."""
_EXCHANGED = timedelta(days=1)
"""How long an exchange folder is kept at least: the request for this vacuum is in one."""


@dataclass(slots=True)
class Vacuumed:
    """What vacuum did."""

    snapshot: int
    files: list[str] = field(default_factory=list)
    bytes: int = 0
    snapshots: int = 0
    young: int = 0
    """Files that nobody needs, left because they are young."""

    def remove(self, storage: Storage, files: Iterable[Listed]) -> None:
        """Remove files: old snapshots first, so that a snapshot that is there always has all of its files.

        Older ones go before newer ones: while a snapshot is there, so is the next one, and nobody can take its number.
        """
        for file in sorted(files, key=lambda one: (not one.path.startswith("snapshots/"), one.path)):
            storage.remove(file.path)
            self.files.append(file.path)
            self.bytes += file.size
            self.snapshots += file.path.startswith("snapshots/") and file.path.endswith(".json")


def vacuum(storage: Storage, current: Snapshot, *, keep: int, before: datetime) -> Vacuumed:
    """Keep the newest snapshots, those written after ``before``, and what they need; remove the rest if it is older."""
    listed = [file for file in storage.files() if file.path.split("/")[0] in _FOLDERS]
    young = {file.path for file in listed if _is_young(file, before)}
    numbers = snapshot_numbers(storage)
    first = min([*numbers[-keep:], *(number for number in numbers if snapshot_path(number) in young)])
    kept = [number for number in numbers if number >= first]
    needed = {NEWEST, *(snapshot_path(number) for number in kept)}
    read: dict[str, list[Load]] = {}  # snapshots share the files of their old loads
    for number in kept:
        mine = current if number == current.number else None
        needed |= _names_of(storage, number, read, mine)
    unneeded = [file for file in listed if file.path not in needed and file.path not in young]
    done = Vacuumed(current.number, young=len(young - needed))
    if not unneeded:
        return done
    done.snapshot = current.number + 1
    own = advance(current, current, Action.VACUUM, changed=False)
    try:
        commit(storage, own)
    except NoSpaceError:
        done.remove(storage, _without_commit(storage, unneeded, [number for number in numbers if number < first]))
        _commit_in_freed(storage, own, done)
    gone = set(done.files)
    done.remove(storage, [file for file in unneeded if file.path not in gone])
    return done


def _names_of(storage: Storage, number: int, read: dict[str, list[Load]], snapshot: Snapshot | None = None) -> set[str]:
    """What a snapshot names: nothing if another vacuum has just removed it."""
    try:
        files = needed_files(storage, snapshot or read_snapshot(storage, number), read)
        return {file.path for file in files}
    except StateError:
        if storage.size(snapshot_path(number)) is not None:
            raise
        return set()


def _without_commit(storage: Storage, unneeded: list[Listed], old: list[int]) -> list[Listed]:
    """What may go before the commit: old snapshots, what only they name, and old exchange folders."""
    named = {snapshot_path(number) for number in old}
    read: dict[str, list[Load]] = {}
    for number in old:
        try:
            named |= _names_of(storage, number, read)
        except StateError:  # a damaged one: what it named goes with the leftovers
            continue
    return [file for file in unneeded if file.path in named or file.path.startswith("runs/")]


def _commit_in_freed(storage: Storage, own: Snapshot, done: Vacuumed) -> None:
    try:
        commit(storage, own)
    except NoSpaceError as error:
        raise NoSpaceError(
            f"{error.message} Vacuum has freed {counted(done.bytes, 'byte')} ({counted(len(done.files), 'file')}, "
            f"{counted(done.snapshots, 'old snapshot')} among them); to go on it needs {len(to_bytes(own)):,} bytes "
            "for its snapshot.",
            hint="Free that much and run it again; a smaller keep_snapshots or grace_hours lets more go.",
        ) from error


def _is_young(file: Listed, before: datetime) -> bool:
    least = min(before, datetime.now(UTC) - _EXCHANGED) if file.path.startswith("runs/") else before
    return file.modified is not None and file.modified > least
