"""Merged runs hold what they held apart, without what cancels out; large ones are not merged for some small ones."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.detection.compact import RunsMerge, _whole_runs, small_runs
from dc_engine.detection.encode import with_hash
from dc_engine.detection.hashing import range_of
from dc_engine.detection.plan import IndexPlan
from dc_engine.detection.runs import HASH, ROW_IDS, ROWS, find_entries, write_run
from dc_engine.sizes import other_sizes
from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.storage import Storage
from tests.detection.engine import colliding

INDEX = IndexPlan.on(("k",), ("string",), ("a", "k"), ("a", "integer"))
ORDERED = IndexPlan.on((), ("integer", "string"), ("a", "k"), ("a", "integer"))
TYPES = {"a": pa.int64(), "k": pa.string()}
_numbers = itertools.count()

Entry = tuple[str | None, int | None, int, list[int]]
"""The values of k and a, the sign of the entry, and the ids of its rows."""


def entries_of(entries: Sequence[Entry], index: IndexPlan = INDEX) -> pa.Table:
    values = {"a": [one[1] for one in entries], "k": [one[0] for one in entries]}
    table, _ = with_hash(index, pa.table({name: pa.array(own, TYPES[name]) for name, own in values.items()}))
    table = table.append_column(ROWS, pa.array([sign * len(ids) for _, _, sign, ids in entries], pa.int64()))
    return table.append_column(ROW_IDS, pa.array([ids for *_, ids in entries], pa.list_(pa.int64())))


def sums(storage: Storage, files: Sequence[DataFile]) -> Counter[tuple[str | None, int | None, int]]:
    """How often each row of each projection is added, minus how often it is taken away."""
    found: Counter[tuple[str | None, int | None, int]] = Counter()
    for row in find_entries(storage, files, ["k", "a"]).with_row_ids().to_pylist():
        for one in row[ROW_IDS]:
            found[row["k"], row["a"], one] += 1 if row[ROWS] > 0 else -1
    return found


ENTRY = st.tuples(
    st.sampled_from(["x", "y", "z", "", None]),
    st.sampled_from([0, 1, None]),
    st.sampled_from([1, 1, -1]),
    st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True),
)


@given(
    runs=st.lists(st.lists(ENTRY, min_size=1, max_size=6), min_size=1, max_size=4),
    few_hashes=st.booleans(),
    at_once=st.sampled_from([2, 100]),
    tasks=st.sampled_from([1, 1, 3]),
    index=st.sampled_from([INDEX, ORDERED]),
)
def test_merged_runs_add_up_to_what_they_did_before(
    runs: list[list[Entry]], few_hashes: bool, at_once: int, tasks: int, index: IndexPlan
) -> None:
    storage = Storage(f"memory://merging/{next(_numbers)}")
    with other_sizes(merged_piece=at_once), colliding() if few_hashes else nullcontext():
        files = [file for run in runs for file in write_run(storage, index, 1, entries_of(run, index))]
        merges = [RunsMerge(index, ("integer", "string"), tuple(files), n, tasks) for n in range(tasks)]
        merged = [file for merge in merges for file in merge.run(storage)]
    before = sums(storage, files)
    assert dict(sums(storage, merged)) == {row: times for row, times in before.items() if times}
    for file in merged:
        found = find_entries(storage, [file], [HASH]).with_row_ids()
        hashes = np.array(found.column(HASH))
        assert file.bounds == (hashes[0], hashes[-1])
        assert (hashes[1:] >= hashes[:-1]).all()
        rows, ids = found.column(ROWS).to_pylist(), found.column(ROW_IDS).to_pylist()
        assert [abs(one) for one in rows] == list(map(len, ids))


@given(runs=st.lists(st.sets(st.sampled_from("uvwxyz"), min_size=1), min_size=2, max_size=4))
def test_a_projection_of_several_runs_has_one_entry_when_they_are_merged(runs: list[set[str]]) -> None:
    storage = Storage(f"memory://merging/{next(_numbers)}")
    entries = [[(key, 1, 1, [number]) for key in sorted(keys)] for number, keys in enumerate(runs)]
    files = tuple(file for run in entries for file in write_run(storage, INDEX, 1, entries_of(run)))
    merged = RunsMerge(INDEX, ("integer", "string"), files).run(storage)
    found = find_entries(storage, merged, ["k"]).entries
    assert sorted(found.column("k").to_pylist()) == sorted(set.union(*runs))


def run(load: int, size: int, pieces: int = 1) -> list[DataFile]:
    """A run of so many bytes, in pieces by ranges of hashes."""
    cut = [range_of(one, pieces) for one in range(pieces)]
    sizes = {"size": size // pieces, "rows": size // pieces // 16}
    return [
        DataFile(f"{load}-{one}", FileKind.INDEX, "i", load, sha256="", bounds=(low + load, high - load), **sizes)
        for one, (low, high) in enumerate(cut)
    ]


@pytest.mark.parametrize("pieces", [1, 50, 400])
def test_a_large_run_is_not_written_again_for_some_small_ones(pieces: int) -> None:
    large, small = run(0, 600_000_000, pieces), [file for one in range(1, 18) for file in run(one, 40_000)]
    assert {file.load for file in small_runs([*large, *small])} == set(range(1, 18))
    assert small_runs([*large, *small[:15]]) == []


def test_a_run_of_a_size_with_the_small_ones_is_merged_with_all_of_its_pieces() -> None:
    larger, small = run(0, 2_000_000, 4), [file for one in range(1, 18) for file in run(one, 40_000)]
    assert sorted(file.path for file in small_runs([*larger, *small])) == sorted(f.path for f in [*larger, *small])


def test_many_small_pieces_of_a_large_load_are_merged_once() -> None:
    pieces = run(1, 20_000_000, 76)
    assert small_runs(pieces) == pieces
    assert small_runs(run(0, 20_000_000)) == []


@given(spans=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), max_size=12), sizes=st.randoms())
def test_pieces_of_one_run_never_hold_the_same_hash(spans: list[tuple[int, int]], sizes: Random) -> None:
    files = [replace(run(1, sizes.randrange(99))[0], bounds=(low, low + width)) for low, width in spans]
    for pieces in _whole_runs(files):
        held = sorted(file.bounds or (0, 0) for file in pieces)
        assert all(before[1] < after[0] for before, after in itertools.pairwise(held))
    assert sum(map(len, _whole_runs(files))) == len(files)
