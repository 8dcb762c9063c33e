"""The newest load of a history, which can be taken out at no cost."""

from __future__ import annotations

from dataclasses import replace

from dc_engine.state.files import FileKind
from dc_engine.state.loads import Load
from dc_engine.state.snapshots import Snapshot, without_load
from dc_engine.state.storage import Storage


def is_newest(storage: Storage, snapshot: Snapshot, load: Load) -> bool:
    """Whether nothing came after a load or changed since, and all that it wrote is in files of its own.

    It can then be taken out at no cost. A load that replaced another in the history has no runs of its own.
    """
    if load.number != snapshot.last_change:
        return False
    if not all(one.discarded for one in snapshot.loads(storage).since(load.place + 1)):
        return False
    runs = snapshot.files_of(FileKind.INDEX)  # every load writes one to each index
    owners = {file.owner for file in runs}
    own = {file.owner for file in runs if file.load == load.number}
    return (bool(own) and own == owners) or not (load.inserted or load.deleted)


def without_newest(snapshot: Snapshot, load: Load) -> Snapshot:
    """The snapshot as it was before its newest load."""
    return replace(
        without_load(snapshot, load),
        rows=snapshot.rows - load.inserted + load.deleted,
        facts=snapshot.facts_before,
        files=[one for one in snapshot.files if one.load != load.number or one.kind is FileKind.LOADS],
    )
