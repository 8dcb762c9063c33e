"""An index without a key lies in the order of a column, and a load reads of it only what may violate with its rows."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.scaled import Reads, counted_reads, pay_table
from dc_engine.constraints.files import load_constraints
from dc_engine.constraints.model import Column, Constraint, ConstraintSet, Op, Predicate
from dc_engine.detection.codes import whole
from dc_engine.detection.compact import merges_of
from dc_engine.detection.encode import with_hash
from dc_engine.detection.hashing import even_ranges
from dc_engine.detection.order import TIES, places
from dc_engine.detection.partners import Partners
from dc_engine.detection.plan import Group, IndexPlan, Plan
from dc_engine.detection.planning import make_plan
from dc_engine.detection.runs import HASH, ROW_IDS, ROWS, Runs, write_run
from dc_engine.sizes import other_sizes
from dc_engine.state.files import DataFile
from dc_engine.state.storage import Storage
from tests.detection.engine import Engine
from tests.detection.oracle import compare, predicate_holds
from tests.detection.strategies import Kind
from tests.detection.test_screen import ORDERED, PLAIN, values

Rows = list[dict[str, Any]]
_numbers = itertools.count()


@st.composite
def keyless(draw: st.DrawFn) -> tuple[dict[str, Kind], Constraint, list[Rows], Rows]:
    """A rule of inequalities alone, the rows of some runs, and those of a load."""
    kinds = {name: draw(st.sampled_from(PLAIN)) for name in ("a", "b")}
    kinds["c"] = kinds["a"]
    pairs = st.sampled_from([("a", "a"), ("b", "b"), ("a", "c"), ("c", "a")])
    chosen = draw(st.lists(pairs, min_size=1, max_size=3, unique=True))
    body = tuple(Predicate(Column("t", x), draw(st.sampled_from(ORDERED)), Column("s", y)) for x, y in chosen)
    if draw(st.booleans()):
        body = (*body, Predicate(Column("t", "b"), Op.NE, Column("s", "b")))
    row = st.fixed_dictionaries({name: st.none() | values(kind) for name, kind in kinds.items()})
    runs = draw(st.lists(st.lists(row, min_size=1, max_size=9), min_size=1, max_size=3))
    return kinds, Constraint("rule", "deny", (body,)), runs, draw(st.lists(row, max_size=4))


def planned(kinds: dict[str, Kind], rule: Constraint) -> tuple[Plan, Group, IndexPlan]:
    plan = make_plan(ConstraintSet("made_up", (), (rule,)), {name: kind.spark for name, kind in kinds.items()})
    return plan, plan.groups[0], plan.groups[0].indexes[0]


def table_of(kinds: dict[str, Kind], index: IndexPlan, rows: Rows) -> pa.Table:
    arrays = {name: pa.array([row[name] for row in rows], kinds[name].arrow) for name in index.columns}
    return with_hash(index, pa.table(arrays))[0]


def written(storage: Storage, kinds: dict[str, Kind], index: IndexPlan, runs: list[Rows]) -> list[DataFile]:
    """A run for each list of rows: an entry for each row, every third takes it away."""
    files, ids = [], itertools.count(1)
    for load, rows in enumerate(runs, start=1):
        entries = table_of(kinds, index, rows)
        signs = [1 if place % 3 else -1 for place in range(len(rows))]
        entries = entries.append_column(ROWS, pa.array(signs, pa.int64()))
        entries = entries.append_column(ROW_IDS, pa.array([[next(ids)] for _ in rows], pa.list_(pa.int64())))
        files += write_run(storage, index, load, entries)
    return files


def sums(entries: pa.Table, columns: tuple[str, ...]) -> Counter[str]:
    """How many rows each projection has."""
    found: Counter[str] = Counter()
    for row in entries.to_pylist() if entries.num_columns else ():
        found[repr([row[name] for name in columns]).replace("-0.0", "0.0")] += row[ROWS]
    return Counter({name: count for name, count in found.items() if count})


@given(case=keyless(), parts=st.integers(1, 3), group=st.integers(1, 3))
def test_whatever_violates_with_a_row_is_found_and_of_each_projection_all_or_nothing(
    case: tuple[dict[str, Kind], Constraint, list[Rows], Rows], parts: int, group: int
) -> None:
    kinds, rule, runs, new = case
    _, planned_group, index = planned(kinds, rule)
    assert index.ordered
    storage = Storage(f"memory://ordered/{next(_numbers)}")
    with other_sizes(ordered_group=group, run_bytes=200):
        stored = Runs(storage, written(storage, kinds, index, runs))
    bodies = [one for body in planned_group.constraints[0].bodies for one in (body, body.swapped)]
    partners = Partners(table_of(kinds, index, new), bodies, planned_group.classes)
    tables = [stored.find_partners(index, partners, within).entries for within in stored.ranges(parts)]
    found = pa.concat_tables([one for one in tables if one.num_columns] or [pa.table({})])
    everything = sums(stored.find(index.columns, None, None).entries, index.columns)
    kept = sums(found, index.columns)
    assert all(everything[name] == count for name, count in kept.items())

    def holds(t: dict[str, Any], s: dict[str, Any]) -> bool:
        return all(predicate_holds(one, t, s, "ignore") for one in rule.bodies[0])

    for row in itertools.chain(*runs):
        if any(holds(row, other) or holds(other, row) for other in new):
            stored_row = table_of(kinds, index, [row]).append_column(ROWS, pa.array([1], pa.int64()))
            (name,) = sums(stored_row, index.columns)
            assert kept[name] == everything[name]


@given(case=keyless(), tasks=st.integers(1, 3), piece=st.integers(1, 5))
def test_runs_are_merged_in_any_number_of_tasks_and_lose_nothing(
    case: tuple[dict[str, Kind], Constraint, list[Rows], Rows], tasks: int, piece: int
) -> None:
    kinds, rule, runs, _ = case
    plan, _, index = planned(kinds, rule)
    storage = Storage(f"memory://ordered/{next(_numbers)}")
    with other_sizes(ordered_group=2, run_bytes=200):
        files = written(storage, kinds, index, runs)
    entries = sum(file.rows for file in files)
    with other_sizes(merged_entries=max(1, entries // tasks), merged_piece=piece):
        parts = [merge.run(storage) for merge in merges_of(plan, index, files)]
    merged = [file for part in parts for file in part]
    before, after = (Runs(storage, some).find(index.columns, None, None).entries for some in (files, merged))
    assert sums(before, index.columns) == sums(after, index.columns)
    edges = [file.bounds for file in merged if file.bounds]
    assert all(one[1] < other[0] for one, other in itertools.pairwise(edges))


@pytest.mark.parametrize("kind", PLAIN, ids=lambda kind: kind.spark)
@given(data=st.data())
def test_places_are_in_the_order_of_the_values_and_nulls_come_first(kind: Kind, data: st.DataObject) -> None:
    drawn = data.draw(st.lists(st.none() | values(kind), min_size=2, max_size=8))
    rule = Constraint("rule", "deny", ((Predicate(Column("t", "a"), Op.LT, Column("s", "a")),),))
    (name, family) = planned({"a": kind}, rule)[2].then_by or ("", "")
    array = pa.array(drawn, kind.arrow)
    held, found = array.to_pylist(), places(array, family).tolist()
    assert name == "a"
    assert not any(place & int(TIES) for place in found)
    for (one, own), (other, its) in itertools.product(zip(held, found, strict=True), repeat=2):
        if one is None or (other is not None and compare(one, other) <= 0):
            assert own <= its


@given(lows=st.lists(st.integers(-9, 9), max_size=12), parts=st.integers(1, 6), data=st.data())
def test_ranges_cover_everything_once_and_have_about_as_much_each(
    lows: list[int], parts: int, data: st.DataObject
) -> None:
    entries = data.draw(st.lists(st.integers(1, 5), min_size=len(lows), max_size=len(lows)))
    found = even_ranges(np.array(lows, np.int64), np.array(entries, np.int64), parts)
    assert 1 <= len(found) <= parts
    assert (found[0][0], found[-1][1]) == (-(2**63), 2**63 - 1)
    assert all(one[1] + 1 == other[0] for one, other in itertools.pairwise(found))
    at = Counter(lows)
    heaviest = max((sum(e for low, e in zip(lows, entries, strict=True) if low == one) for one in at), default=0)
    for low, high in found:
        inside = sum(e for one, e in zip(lows, entries, strict=True) if low <= one <= high)
        assert inside <= sum(entries) / parts + 2 * heaviest


def test_the_place_of_an_index_depends_on_its_order_and_not_on_that_of_one_with_a_key() -> None:
    one, other = (IndexPlan.on((), ("integer",) * 2, ("a", "b"), (name, "integer")) for name in "ab")
    assert one.id != other.id != IndexPlan.on((), ("integer",) * 2, ("a", "b")).id
    keyed = [IndexPlan.on(("a",), ("integer",), ("a", "b"), by) for by in (None, ("b", "integer"))]
    assert keyed[0].id == keyed[1].id


def test_equal_values_still_differ_in_place() -> None:
    index = IndexPlan.on((), ("integer",) * 2, ("a", "b"), ("a", "integer"))
    rows = pa.table({"a": [7] * 1_000, "b": range(1_000)})
    hashes = with_hash(index, rows)[1]
    assert len(np.unique(hashes)) > 900
    assert len(np.unique(hashes & ~TIES)) == 1
    assert whole(with_hash(index, rows)[0].column(HASH)).to_pylist() == hashes.tolist()


def read_by_a_load(rows: int) -> Reads:
    """What a load of 20 rows reads of an index of nearly clean data."""
    rule = {"name": "pay", "deny": "t.salary > s.salary and t.rate < s.rate"}
    rules = load_constraints({"version": 1, "table": "pay", "constraints": [rule]})
    engine = Engine(rules, {"salary": "bigint", "rate": "bigint"})
    engine.load(pay_table(rows, seed=7).drop_columns("id"))
    with counted_reads() as reads:
        engine.load(pay_table(20, seed=7, first_id=10**9).drop_columns("id"))
    return reads


def test_a_load_on_nearly_clean_data_reads_about_a_row_group_for_each_of_its_rows() -> None:
    with other_sizes(screened_entries=0, ordered_group=128):
        small, large = read_by_a_load(20_000), read_by_a_load(80_000)
    assert small.groups <= 25
    assert large.groups <= 25
