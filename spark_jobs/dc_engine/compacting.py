"""Fewer, larger files: index runs, rows, deletes and bitmaps of dead rows are merged when there are many.

What the newest load wrote stays apart, so that it can be taken out again at no cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dc_engine.detection.compact import LinesMerge, Merge, RowsMerge, in_groups, small_files
from dc_engine.detection.dead import read_dead, write_dead
from dc_engine.engines.work import compact
from dc_engine.maintained.base import Ground, Maintained
from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.snapshots import Snapshot


def compacted(
    ground: Ground, snapshot: Snapshot, things: Sequence[Maintained], *, everything: bool = False
) -> Snapshot:
    """The snapshot with merged files: kinds of which there are too many, or all."""
    settled = [file for file in snapshot.files if file.load != snapshot.last_change or not file.load]
    merges = [merge for one in things for merge in one.merges(settled, everything=everything)]
    merges += _merges_of_rows(settled, everything=everything)
    merged = compact(ground.engine, ground.storage, merges)
    ground.drafts.extend(merged)
    gone = {file.path for merge in merges for file in merge.files}
    dead = small_files([file for file in settled if file.kind is FileKind.DEAD], everything=everything)
    if dead:
        written = write_dead(ground.storage, 0, read_dead(ground.storage, dead))
        ground.drafts.extend(written)
        gone |= {file.path for file in dead}
        merged = [*merged, *written]
    return replace(snapshot, files=[*(file for file in snapshot.files if file.path not in gone), *merged])


def _merges_of_rows(files: Sequence[DataFile], *, everything: bool) -> list[Merge]:
    """How to merge files of rows and of deletes: only those of the same columns."""
    merges: list[Merge] = []
    for kind, merge in ((FileKind.ROWS, RowsMerge), (FileKind.DELETES, LinesMerge)):
        mine = [file for file in files if file.kind is kind]
        for owner in sorted({file.owner for file in mine}):
            small = small_files([file for file in mine if file.owner == owner], everything=everything)
            merges += [merge(group) for group in in_groups(small)]
    return merges
