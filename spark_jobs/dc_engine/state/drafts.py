"""Files that were written but not yet committed, and their commit."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace

from dc_engine.errors import ConflictError, DcError, NoSpaceError, UnfitStoreError
from dc_engine.sizes import SIZES
from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.loads import Load
from dc_engine.state.snapshots import Snapshot, commit
from dc_engine.state.storage import Storage


class Drafts(list[DataFile]):
    """Files that were written but not yet committed: they are removed when the work fails."""

    @contextlib.contextmanager
    def removed_on_failure(self, storage: Storage) -> Iterator[None]:
        """Remove them when the block fails; those of this process reach the disk beside its work."""
        try:
            with storage.syncing_beside():
                yield
        except BaseException:
            self.remove_all(storage)
            raise

    def commit(self, storage: Storage, snapshot: Snapshot) -> None:
        """Commit a snapshot, and remove those that it does not need.

        All are removed when it certainly was not committed. If in doubt they stay: it may have been committed.
        """
        archived = self._with_archive(storage, snapshot)
        storage.settle()  # what fails here fails before the commit
        written = Drafts(self)
        self.clear()
        try:
            commit(storage, archived)
        except (ConflictError, NoSpaceError, UnfitStoreError):
            written.remove_all(storage)
            raise
        needed = {file.path for file in archived.files}
        needed |= {file.path for load in snapshot.recent for file in load.files}
        Drafts(file for file in written if file.path not in needed).remove_all(storage)

    def remove_all(self, storage: Storage) -> None:
        """Remove them; what cannot be removed is left to vacuum: the failure that led here matters more."""
        for file in self:
            with contextlib.suppress(DcError):
                storage.remove(file.path)
        self.clear()

    def _with_archive(self, storage: Storage, snapshot: Snapshot) -> Snapshot:
        """The snapshot, with the records that it cannot hold moved to a file."""
        recent = snapshot.recent
        sizes = [len(json.dumps(one.to_dict())) for one in recent]
        if len(recent) <= SIZES.recent_loads and sum(sizes) <= SIZES.recent_bytes:
            return snapshot
        from dc_engine.state.archive import archived

        kept = 0
        while kept < SIZES.kept_loads and sum(sizes[-kept - 1 :]) <= SIZES.recent_bytes // 2:
            kept += 1
        last = len(recent) - kept
        # the load that this snapshot brings stays in it, so that the snapshot can be recognised
        new = [one for place, one in enumerate(recent) if place >= last or one.number == snapshot.number]
        old = [one for one in recent if one not in new]
        if not old:
            return snapshot
        files = archived(storage, snapshot.files_of(FileKind.LOADS), old)
        self += [one for one in files if one not in snapshot.files]
        others = [one for one in snapshot.files if one.kind is not FileKind.LOADS]
        return replace(snapshot, recent=new, files=[*others, *files])


def needed_files(storage: Storage, snapshot: Snapshot, cache: dict[str, list[Load]] | None = None) -> list[DataFile]:
    """All files that a snapshot names, itself or by the records of its loads."""
    loads = snapshot.loads(storage, cache).since()
    return [*snapshot.files, *(file for load in loads for file in load.files)]
