"""Merge runs of an index: many small ones into few; a row that one of them adds and another takes away is gone."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from dc_engine.detection.codes import whole
from dc_engine.detection.hashing import range_of
from dc_engine.detection.plan import IndexPlan, Plan
from dc_engine.detection.resolve import added_up, identity_codes
from dc_engine.detection.runs import HASH, ROW_IDS, ROWS, find_entries, write_run
from dc_engine.errors import DcError
from dc_engine.state.snapshots import DataFile
from dc_engine.state.storage import Storage

MOST_RUNS = 16
"""How many runs of an index may hold the same hash before the gate itself merges them."""
_MERGED_ENTRIES = 524_288
_MERGED_BYTES = 64 * 2**20
"""So many bytes of files a task: what they hold in memory may be several times as much."""


@dataclass(frozen=True, slots=True)
class Merge:
    """One task: the entries of some runs in a range of hashes become one file."""

    index: IndexPlan
    families: tuple[str, ...]
    """In which family each column of the index compares."""
    files: tuple[DataFile, ...]
    within: tuple[int, int]


def depth(files: Sequence[DataFile]) -> int:
    """The largest number of files that can hold the same hash."""
    bounds = [file.bounds for file in files if file.bounds is not None]
    events = sorted([(low, 0) for low, _ in bounds] + [(high, 1) for _, high in bounds])
    steps = np.cumsum([1 if kind == 0 else -1 for _, kind in events])
    return int(steps.max(initial=0))


def small_runs(files: Sequence[DataFile]) -> list[DataFile]:
    """The runs worth merging, if there are too many: the smallest, up to one larger than all of them together."""
    chosen: list[DataFile] = []
    if depth(files) <= MOST_RUNS:
        return chosen
    size = 0
    for file in sorted(files, key=lambda one: one.size):  # few entries may have the ids of many rows
        if len(chosen) >= MOST_RUNS // 2 and file.size > size:
            break
        chosen.append(file)
        size += file.size
    return chosen if len(chosen) > 1 else []


def merges_of(plan: Plan, index: IndexPlan, files: Sequence[DataFile]) -> list[Merge]:
    """The tasks that merge some runs of an index, each of a bounded number of entries."""
    families = plan.families_of(index)
    rows, size = sum(file.rows for file in files), sum(file.size for file in files)
    tasks = math.ceil(max(rows / _MERGED_ENTRIES, size / _MERGED_BYTES, 1))
    return [Merge(index, families, tuple(files), range_of(task, tasks)) for task in range(tasks if files else 0)]


@dataclass(frozen=True, slots=True)
class Compact:
    """The function that Spark runs: the input rows say which merges are ours."""

    storage: Storage
    merges: tuple[Merge, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                try:
                    documents = self._merged(self.merges[number])
                except DcError as error:
                    documents = [{"kind": "error", **error.to_dict()}]
                texts = pa.array([json.dumps(one) for one in documents], pa.string())
                yield pa.RecordBatch.from_pydict({"document": texts})

    def _merged(self, merge: Merge) -> list[dict[str, Any]]:
        columns = [HASH, *merge.index.columns, ROW_IDS]
        found = find_entries(self.storage, merge.files, columns, within=merge.within).entries
        entries = merge_entries(merge, found) if found.num_columns else found
        files = write_run(self.storage, merge.index.id, 0, entries) if entries.num_rows else []
        return [{"kind": "run", "file": asdict(file)} for file in files]


def merge_entries(merge: Merge, entries: pa.Table) -> pa.Table:
    """The entries of several runs as those of one, by hash.

    A projection has one entry for the rows that they add, and one for those that they take away from other runs.
    """
    index = merge.index
    (codes,) = identity_codes([[whole(entries.column(name)) for name in index.columns]], merge.families)
    owner, ids, sums = added_up(codes, entries)
    signs, times = np.sign(sums), np.abs(sums)
    order = np.lexsort((ids, signs, owner))
    owner, ids, signs = (np.repeat(part[order], times[order]) for part in (owner, ids, signs))
    starts = np.flatnonzero(np.diff(owner, prepend=-1) | np.diff(signs, prepend=0))
    ends = np.append(starts, len(owner))
    distinct, first = np.unique(codes, return_index=True)
    first = first[np.searchsorted(distinct, owner[starts])]
    hashes = whole(entries.column(HASH)).to_numpy()[first]
    by_hash = np.argsort(hashes, kind="stable")
    chosen = entries.take(pa.array(first[by_hash]))
    facts = {HASH: pa.array(hashes[by_hash])} | {name: chosen.column(name) for name in index.columns}
    facts[ROWS] = pa.array((np.diff(ends) * signs[starts])[by_hash])
    lists = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(ids))
    facts[ROW_IDS] = lists.take(pa.array(by_hash))
    return pa.table(facts)
