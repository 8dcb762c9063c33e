"""Fewer, larger files: runs of indexes, rows, deletes and bitmaps of dead rows, merged when there are many.

What the newest load wrote stays apart, so that it can be taken out again at no cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dc_engine.changing import index_files
from dc_engine.detection.compact import (
    LinesMerge,
    Merge,
    RowsMerge,
    depth,
    in_groups,
    is_small,
    merges_of,
    small_files,
    small_runs,
)
from dc_engine.detection.dead import read_dead, write_dead
from dc_engine.detection.plan import Plan
from dc_engine.engines.base import Engine
from dc_engine.engines.work import compact
from dc_engine.state.drafts import Drafts
from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.snapshots import Snapshot
from dc_engine.state.storage import Storage


def compacted(
    engine: Engine, storage: Storage, snapshot: Snapshot, plan: Plan, drafts: Drafts, *, everything: bool = False
) -> Snapshot:
    """The snapshot with merged files: those of which there are too many, or all."""
    chosen: list[DataFile] = []
    merges: list[Merge] = []
    for index_id, files in index_files(snapshot, plan).items():
        apart = _settled(snapshot, files)
        many = depth(apart) > 1 or sum(map(is_small, apart)) > 1
        mine = (apart if many else []) if everything else small_runs(apart)
        chosen += mine
        merges += merges_of(plan, plan.indexes[index_id], mine)
    for kind, merge in ((FileKind.ROWS, RowsMerge), (FileKind.DELETES, LinesMerge)):
        settled = _settled(snapshot, snapshot.files_of(kind))
        for owner in sorted({file.owner for file in settled}):  # only files of the same columns
            mine = small_files([file for file in settled if file.owner == owner], everything=everything)
            for group in in_groups(mine):
                chosen += group
                merges.append(merge(group))
    merged = compact(engine, storage, merges)
    drafts += merged
    dead = small_files(_settled(snapshot, snapshot.files_of(FileKind.DEAD)), everything=everything)
    if dead:
        written = write_dead(storage, 0, read_dead(storage, dead))
        drafts += written
        chosen, merged = [*chosen, *dead], [*merged, *written]
    gone = {file.path for file in chosen}
    return replace(snapshot, files=[*(file for file in snapshot.files if file.path not in gone), *merged])


def _settled(snapshot: Snapshot, files: Sequence[DataFile]) -> list[DataFile]:
    return [file for file in files if file.load != snapshot.last_change or not file.load]
