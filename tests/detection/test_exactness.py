"""Every count equals brute force over all pairs of rows, for rules and tables of every kind, load after load."""

from __future__ import annotations

import random
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.constraints.contradiction import contradiction
from dc_engine.constraints.model import Column, Constraint, ConstraintSet, Op, Predicate
from dc_engine.constraints.normalise import normalise
from dc_engine.constraints.parser import parse_body
from dc_engine.detection.planning import make_plan
from dc_engine.detection.rows import LOAD_BITS
from dc_engine.maintained.judging import Findings
from dc_engine.sizes import SIZES, other_sizes
from tests.detection.engine import Engine, colliding
from tests.detection.oracle import pair_violates, row_violates, skipped_for_null, violations_by_row
from tests.detection.strategies import KINDS, Case, cases


@given(
    case=cases(),
    units=st.sampled_from([1, 1, 3]),
    cheap=st.booleans(),
    screened=st.booleans(),
    few_hashes=st.booleans(),
    chance=st.randoms(use_true_random=False),
)
def test_every_count_equals_brute_force_after_every_load(
    case: Case, units: int, cheap: bool, screened: bool, few_hashes: bool, chance: random.Random
) -> None:
    sizes = {"scanned_pairs": 10**9 if cheap else -1, "screened_entries": 0 if screened else 10**9}
    with other_sizes(**sizes), colliding() if few_hashes else nullcontext():
        _check(case, units, chance)


CROSS_RULES = [
    "t.c0 = s.c1",
    "t.c0 = s.c1 and t.c2 > s.c2",
    "t.c0 = s.c1 and t.c2 != s.c2",
    "t.c0 = s.c1 and t.c1 = s.c0",
    "t.c0 = s.c1 and t.c1 <= s.c0",
]


@st.composite
def crossed(draw: st.DrawFn) -> Case:
    """Blocks from equalities across columns: a row lies in one block as t and in another as s."""
    kinds = dict.fromkeys(["c0", "c1", "c2"], next(one for one in KINDS if one.spark == "int"))
    rows = st.lists(st.fixed_dictionaries(dict.fromkeys(kinds, st.integers(0, 3))), max_size=5)
    bodies = draw(st.lists(st.sampled_from(CROSS_RULES), min_size=1, max_size=3, unique=True))
    rules = tuple(Constraint(f"rule {n}", "deny", (parse_body(body),)) for n, body in enumerate(bodies))
    return Case(kinds, rules, tuple(draw(st.lists(rows, min_size=2, max_size=3))))


@given(case=crossed(), units=st.sampled_from([1, 3]), chance=st.randoms(use_true_random=False))
def test_so_do_counts_and_listings_of_rules_across_columns(case: Case, units: int, chance: random.Random) -> None:
    with other_sizes(screened_entries=0):
        _check(case, units, chance)


@st.composite
def dependent(draw: st.DrawFn) -> Case:
    """Rules that say what one key decides, and that it is unique: they share an index."""
    kinds = {name: draw(st.sampled_from(KINDS)) for name in ("k", "a", "b", "c")}
    bodies = ["t.k = s.k", *(f"t.k = s.k and t.{name} != s.{name}" for name in "abc"), "t.a = s.a and t.b != s.b"]
    chosen = draw(st.lists(st.sampled_from(bodies), min_size=2, max_size=4, unique=True))
    nulls = st.sampled_from(["ignore", "equal"])
    rules = tuple(
        Constraint(f"rule {n}", "deny", (parse_body(body),), nulls=draw(nulls)) for n, body in enumerate(chosen)
    )
    row = st.fixed_dictionaries({name: st.none() | st.sampled_from(kind.values[:3]) for name, kind in kinds.items()})
    return Case(kinds, rules, tuple(draw(st.lists(st.lists(row, max_size=5), min_size=2, max_size=3))))


@given(case=dependent(), units=st.sampled_from([1, 3]), chance=st.randoms(use_true_random=False))
def test_so_do_those_of_rules_that_share_an_index(case: Case, units: int, chance: random.Random) -> None:
    _check(case, units, chance)
    plan = make_plan(case.constraint_set, case.schema)
    keys = [index.key for index in plan.indexes.values()]
    assert len(set(keys)) == len(keys)
    assert sum(len(group.constraints) for group in plan.groups) == len(case.constraints)


def test_a_rule_that_asks_for_more_than_a_dependency_has_an_index_of_its_own() -> None:
    bodies = ["t.k = s.k and t.a != s.a", "t.k = s.k and t.b != s.b", "t.k = s.k and t.a < s.a and t.b > s.b"]
    bodies += ["t.k = s.k and t.a != s.a and t.c != s.c", "t.k = s.k and t.c != s.c and t.a = 1"]
    rules = tuple(Constraint(f"rule {n}", "deny", (parse_body(body),)) for n, body in enumerate(bodies))
    indexes = make_plan(ConstraintSet("made_up", (), rules), dict.fromkeys("kabc", "int")).indexes.values()
    assert sorted(index.columns for index in indexes) == [("a", "b", "k"), ("a", "c", "k")]


@st.composite
def without_equality(draw: st.DrawFn) -> Case:
    """Rules of inequalities between rows, on columns of any kind: one block each, stored in the order of a column."""
    kind = st.sampled_from([one for one in KINDS if "<" not in one.spark])
    kinds = {"c0": draw(kind), "c1": draw(kind)}
    kinds |= {"c2": kinds["c0"]}
    pair = st.sampled_from([("c0", "c0"), ("c0", "c0"), ("c1", "c1"), ("c1", "c1"), ("c0", "c2"), ("c2", "c0")])
    ops = st.sampled_from([Op.LT, Op.LE, Op.GT, Op.GE, Op.GT, Op.LT, Op.NE])
    predicate = st.builds(lambda op, names: Predicate(Column("t", names[0]), op, Column("s", names[1])), ops, pair)
    body = st.lists(predicate, min_size=1, max_size=3).map(tuple).filter(lambda one: contradiction(one) is None)
    bodies = draw(st.lists(body, min_size=1, max_size=2))
    rules = tuple(Constraint(f"rule {n}", "deny", (normalise(one),)) for n, one in enumerate(bodies))
    values = {name: st.sampled_from([*one.values, None]) for name, one in kinds.items()}
    return Case(kinds, rules, tuple(draw(st.lists(st.lists(st.fixed_dictionaries(values), max_size=12), max_size=4))))


@given(
    case=without_equality(),
    group=st.integers(1, 3),
    rows=st.sampled_from([2, 5, 99]),
    chance=st.randoms(use_true_random=False),
)
def test_so_do_those_of_rules_without_equality_however_their_index_is_cut(
    case: Case, group: int, rows: int, chance: random.Random
) -> None:
    with other_sizes(screened_entries=0, ordered_group=group, run_bytes=150, share_entries=5, sliced_rows=rows):
        _check(case, 1, chance)


@given(case=cases(), rows=st.integers(1, 3), screened=st.booleans(), chance=st.randoms(use_true_random=False))
def test_so_do_those_of_blocks_with_rows_for_several_units(
    case: Case, rows: int, screened: bool, chance: random.Random
) -> None:
    with other_sizes(screened_entries=0 if screened else 10**9, sliced_rows=rows, run_bytes=150):
        _check(case, 1, chance)


def test_a_block_with_half_of_the_rows_and_a_table_without_blocks_are_divided_among_units() -> None:
    """Each unit counts its own share of what they violate, and writes it; none has everything."""
    kinds = {name: next(one for one in KINDS if one.spark == "int") for name in ("k", "a", "b")}
    rules = ("t.k = s.k and t.a < s.a and t.b > s.b", "t.a < s.a and t.b > s.b")
    constraints = tuple(Constraint(f"rule {n}", "deny", (parse_body(one),)) for n, one in enumerate(rules))
    chance = random.Random(7)
    rows = [{"k": 0 if place % 2 else place, "a": place, "b": place - chance.randrange(5)} for place in range(200)]
    case = Case(kinds, constraints, (rows,))
    with other_sizes(sliced_rows=20):
        engine = Engine(case.constraint_set, case.schema)
        found = engine.load(case.table(rows))
        assert [one.new_violations for one in found] == [violations_by_row(one, [], rows)[0] for one in constraints]
        for group in engine.plan.groups:
            written = [file.rows for file in engine.index_files[group.indexes[0].id]]
            assert sum(written) == 200
            assert max(written) <= 100
            assert len(engine.spread[group.number].slices) >= 4


def _check(case: Case, units: int, chance: random.Random) -> None:
    """Each load deletes some of the rows that are there, then inserts its own."""
    engine = Engine(case.constraint_set, case.schema, units=units)
    alive: dict[int, dict[str, Any]] = {}
    for number, new in enumerate(case.loads, start=1):
        gone = [one for one in alive if chance.random() < 0.3]
        deleted = [alive.pop(one) for one in gone]
        old = list(alive.values())
        findings = engine.load(case.table(new), gone)
        alive |= {(number << LOAD_BITS) + place: row for place, row in enumerate(new)}
        for constraint, found in zip(case.constraints, findings, strict=True):
            assert found.removed_violations == violations_by_row(constraint, old, deleted)[0]
            expected, by_row = violations_by_row(constraint, old, new)
            assert found.new_violations == expected
            _check_row_ids(case, engine, found, alive)
            assert found.violating_rows == len(by_row)
            assert found.skipped_null_rows == sum(skipped_for_null(constraint, row) for row in new)
            assert _counts_by_row(engine, found, number) == by_row
            worst = sorted((one["violations"] for one in found.worst), reverse=True)
            assert worst == sorted(by_row.values(), reverse=True)[: engine.max_samples]
            _check_listing(case, engine, constraint, found, expected)


def _counts_by_row(engine: Engine, found, number: int) -> dict[int, int]:
    counts: dict[int, int] = {}
    for file in found.files:
        if file.kind == "violating_rows":
            for row in pq.read_table(engine.storage.open(file.path)).to_pylist():
                counts[row["row_id"] - (number << LOAD_BITS)] = row["violations"]
    return counts


def _check_row_ids(case: Case, engine: Engine, found: Findings, alive: Mapping[int, dict[str, Any]]) -> None:
    """Every row that is listed is there, and has the values that it is listed with."""
    for file in found.files:
        if file.kind != "violations":
            continue
        for row in pq.read_table(engine.storage.open(file.path)).to_pylist():
            for side in (one for one in "ts" if one in row):
                assert len(row[f"{side}_row_ids"]) == min(row[f"{side}_rows"], SIZES.listed_row_ids)
                for one in row[f"{side}_row_ids"]:
                    stored = case.table([alive[one]]).to_pylist()[0]
                    listed = {name: stored[name] for name in row[side]}
                    assert repr(listed).replace("-0.0", "0.0") == repr(row[side]).replace("-0.0", "0.0")


def _check_listing(case: Case, engine: Engine, constraint, found, expected: int) -> None:
    """Unbounded, the listed violations are exactly the new ones; each of them and each sample is a true one."""
    listed = [
        row
        for file in found.files
        if file.kind == "violations"
        for row in pq.read_table(engine.storage.open(file.path)).to_pylist()
    ]
    assert sum(row["pairs"] for row in listed) == expected
    missing = dict.fromkeys(case.kinds)
    for row in listed:
        if constraint.rows == 1:
            assert row_violates(constraint, {**missing, **row["t"]})
        else:
            assert pair_violates(constraint, {**missing, **row["t"]}, {**missing, **row["s"]})
            assert row["t_new"] or row["s_new"]
    for pair in found.samples:
        shown = [(f"{side}_row_ids", one["row_id"]) for side, one in pair.items()]
        assert any(all(row_id in row[ids] for ids, row_id in shown) for row in listed)
        assert len({row_id for _, row_id in shown}) == len(shown), "two rows, not one twice"
    assert bool(found.samples) == bool(expected)
