"""Merge runs of an index: many small ones into few; a row that one adds and another takes away is gone."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Protocol

import numpy as np
import pyarrow as pa

from dc_engine.detection.codes import whole
from dc_engine.detection.documents import Written, as_batch, failed
from dc_engine.detection.hashing import Bounds, range_of
from dc_engine.detection.plan import IndexPlan, Plan
from dc_engine.detection.resolve import added_up, identity_codes, store_lines
from dc_engine.detection.rows import ROW_ID, read_rows, write_rows
from dc_engine.detection.runs import HASH, ROW_IDS, ROWS, Runs, write_run
from dc_engine.errors import DcError
from dc_engine.sizes import SIZES
from dc_engine.state.files import DataFile
from dc_engine.state.parquet import Reader
from dc_engine.state.storage import Storage

_FAR = 8
"""How many times as large as all smaller ones a run must be to stay out of their merge."""


class Merge(Protocol):
    """One task: some files become one, or a few when their values are long, or none when nothing is left of them."""

    @property
    def files(self) -> tuple[DataFile, ...]:
        """What is merged."""

    def run(self, storage: Storage) -> list[DataFile]:
        """Write what they become."""


@dataclass(frozen=True, slots=True)
class RunsMerge:
    """The entries of some runs of an index in some ranges of hashes."""

    index: IndexPlan
    families: tuple[str, ...]
    """In which family each column of the index compares."""
    files: tuple[DataFile, ...]
    task: int = 0
    tasks: int = 1
    """Which of how many parts of the entries this merges."""

    def run(self, storage: Storage) -> list[DataFile]:
        """See ``Merge``."""
        runs = Runs(storage, self.files)
        pieces = [piece for piece in map(partial(self._piece, runs), self._ranges(runs)) if piece.num_rows]
        return write_run(storage, self.index, 0, pa.concat_tables(pieces)) if pieces else []

    def _ranges(self, runs: Runs) -> Sequence[Bounds]:
        """The ranges of hashes that are ours, each of a bounded number of entries. All tasks find the same ones."""
        count = math.ceil(runs.entries / SIZES.merged_piece / self.tasks) * self.tasks
        every = runs.ranges(count) if self.index.ordered else [range_of(one, count) for one in range(count)]
        first, end = (len(every) * task // self.tasks for task in (self.task, self.task + 1))
        return every[first:end]

    def _piece(self, runs: Runs, within: Bounds) -> pa.Table:
        """What the entries of a part add up to: equal projections have equal hashes, so they are in the same part."""
        columns = [HASH, *self.index.columns, ROW_IDS]
        found = runs.find(columns, None, within)
        entries = found.entries
        if not entries.num_columns:
            return entries
        alone = _alone(entries, found.file)
        kept = entries.filter(pa.array(alone)).select([*columns[:-1], ROWS, ROW_IDS])
        return pa.concat_tables([kept, merge_entries(self, entries.filter(pa.array(~alone)))])


@dataclass(frozen=True, slots=True)
class RowsMerge:
    """Rows of several loads; each keeps its id."""

    files: tuple[DataFile, ...]

    def run(self, storage: Storage) -> list[DataFile]:
        """See ``Merge``."""
        names = [name for name in Reader(storage, self.files[0]).schema.names if name != ROW_ID]
        rows = pa.concat_tables(read_rows(storage, self.files, names)).select([ROW_ID, *names])
        return [write_rows(storage, rows)]


@dataclass(frozen=True, slots=True)
class LinesMerge:
    """Deletes of several loads."""

    files: tuple[DataFile, ...]

    def run(self, storage: Storage) -> list[DataFile]:
        """See ``Merge``."""
        readers = [Reader(storage, file) for file in self.files]
        lines = pa.concat_tables(one.read(range(len(one.group_starts) - 1), one.schema.names) for one in readers)
        return [store_lines(storage, 0, lines)]


def depth(files: Sequence[DataFile]) -> int:
    """The largest number of files that can hold the same hash."""
    bounds = [file.bounds for file in files if file.bounds is not None]
    events = sorted([(low, 0) for low, _ in bounds] + [(high, 1) for _, high in bounds])
    steps = np.cumsum([1 if kind == 0 else -1 for _, kind in events])
    return int(steps.max(initial=0))


def small_runs(files: Sequence[DataFile]) -> list[DataFile]:
    """The runs worth merging, if there are too many: the smallest, up to one far larger than all before it together.

    Too many: that hold the same hash, or that are small, whatever they hold. What is left is opened by every gate from
    now on, so it is better to merge a large one a little too often.
    """
    if depth(files) > SIZES.runs:
        runs = _whole_runs(files)
    elif sum(map(is_small, files)) > 2 * SIZES.runs:
        runs = [[file] for file in files if is_small(file)]
    else:
        return []
    chosen: list[DataFile] = []
    merged, size = 0, 0
    sizes = [sum(file.size for file in run) for run in runs]  # a few entries may have the ids of many rows
    for own, run in sorted(zip(sizes, runs, strict=True), key=lambda one: one[0]):
        if len(chosen) >= SIZES.merged_at_once or (merged >= max(SIZES.runs // 2, 2) and own > _FAR * size):
            break
        chosen += run
        merged, size = merged + 1, size + own
    return chosen if len(chosen) > 1 else []


def _whole_runs(files: Sequence[DataFile]) -> list[list[DataFile]]:
    """Files with those that they are pieces of one run with: no two of them can hold the same hash.

    A piece of a large load is no larger than some small loads together, and would be merged with them, and so would all
    the others, if each were looked at by itself.
    """
    runs: list[list[tuple[int, int, DataFile]]] = []
    for file in sorted(files, key=lambda one: -one.size):
        low, high = file.bounds or (0, 0)
        for run in runs:
            place = bisect_left(run, low, key=itemgetter(0))
            if (not place or run[place - 1][1] < low) and (place == len(run) or run[place][0] > high):
                break
        else:
            run, place = [], 0
            runs.append(run)
        run.insert(place, (low, high, file))
    return [[file for _, _, file in run] for run in runs]


def is_small(file: DataFile) -> bool:
    """Whether a run is far from the size at which runs are cut."""
    return file.rows < SIZES.merged_entries // 8 and file.size < SIZES.merged_bytes // 8


def small_files(files: Sequence[DataFile], *, everything: bool = False) -> list[DataFile]:
    """The files worth merging: when there are too many, the smallest, up to one larger than all before it together."""
    light = [file for file in files if file.size <= SIZES.light_file]
    if everything or len(light) <= SIZES.runs:
        return light if everything and len(light) > 1 else []
    chosen: list[DataFile] = []
    for file in sorted(light, key=lambda one: one.size):
        large = file.size > sum(one.size for one in chosen)
        if len(chosen) >= SIZES.merged_at_once or (len(chosen) >= max(SIZES.runs // 2, 2) and large):
            break
        chosen.append(file)
    return chosen


def in_groups(files: Sequence[DataFile]) -> list[tuple[DataFile, ...]]:
    """Files to be merged, in groups that each make one file of bounded size; a single file is left as it is."""
    groups: list[list[DataFile]] = []
    for file in files:
        if not groups or sum(one.size for one in groups[-1]) + file.size > SIZES.merged_files:
            groups.append([])
        groups[-1].append(file)
    return [tuple(group) for group in groups if len(group) > 1]


def merges_of(plan: Plan, index: IndexPlan, files: Sequence[DataFile]) -> list[RunsMerge]:
    """The tasks that merge some runs of an index, each of a bounded number of entries."""
    families = plan.families_of(index)
    rows, size = sum(file.rows for file in files), sum(file.size for file in files)
    tasks = math.ceil(max(rows / SIZES.merged_entries, size / SIZES.merged_bytes, 1))
    return [RunsMerge(index, families, tuple(files), task, tasks) for task in range(tasks if files else 0)]


@dataclass(frozen=True, slots=True)
class Compact:
    """The function that Spark runs: the input rows say which merges are ours."""

    storage: Storage
    merges: tuple[Merge, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                try:
                    yield as_batch([Written(file) for file in self.merges[number].run(self.storage)])
                except DcError as error:
                    yield as_batch([failed(error)])


def _alone(entries: pa.Table, files: np.ndarray) -> np.ndarray:
    """Which entries stay as they are: no other file has their hash, and no entry of it takes rows away.

    They are most where files of a large load are merged, each with its own range of hashes, or a small run with a large
    one; to add up their row ids would take ten times as long.
    """
    hashes = whole(entries.column(HASH)).to_numpy()
    order = np.argsort(hashes, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(hashes[order]) != 0))
    first, last = (one.reduceat(files[order], starts) for one in (np.minimum, np.maximum))
    adds = np.minimum.reduceat(whole(entries.column(ROWS)).to_numpy()[order], starts) > 0
    alone = np.empty(len(hashes), bool)
    alone[order] = np.repeat((first == last) & adds, np.diff(np.append(starts, len(hashes))))
    return alone


def merge_entries(merge: RunsMerge, entries: pa.Table) -> pa.Table:
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
