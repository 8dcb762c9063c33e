"""Changes of a table that cannot change its dependencies, or that change them in a way that is known beforehand."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from dc_engine.discover import discover
from dc_engine.sizes import other_sizes
from tests.discovery.brute import one_way, read_rule
from tests.discovery.oracle import Rule
from tests.discovery.tables import Table
from tests.inprocess import Session, Source

Row = Mapping[str, Any]
Sets = dict[str, set[Rule]]
FEW = settings(max_examples=max(15, settings().max_examples // 15))
CELLS = st.sampled_from([0, 1, 2, None])
ROWS = st.lists(st.fixed_dictionaries({"a": CELLS, "b": st.integers(0, 2), "c": CELLS}), min_size=2, max_size=9)
MODES = st.sampled_from(["counted", "witnessed"])
NULLS = st.sampled_from(["ignore", "equal"])
CLASSES = ["unique", "fd", "od", "dc"]
BY_KEYS = {"few_pairs": 0, "counted_price": 1_000_000}


def sets_of(rows: Sequence[Row], mode: str, names: Sequence[str] = "abc", **space: Any) -> Sets:
    """What is found in a table, each class by itself."""
    columns = {name: pa.array([row[name] for row in rows], pa.int64()) for name in names}
    session = Session(sources={"table": Source(pa.table(columns), dict.fromkeys(names, "bigint"))})
    asked = {"table": {"path": "table"}, "mode": mode, "view": "complete", "classes": CLASSES}
    with other_sizes(**BY_KEYS):
        answer = discover(session, {**asked, "space": {"columns": list(names), "descending": True, **space}})
    found: Sets = {name: set() for name in CLASSES}
    for one in answer["dependencies"]:
        found[one["class"]].add(read_rule(one["formula"]))
    return found


def renamed(sets: Sets, names: Mapping[str, str]) -> Sets:
    """The same of columns with other names."""
    return {
        kind: {one_way(frozenset((names[a], op, names[b]) for a, op, b in rule)) for rule in some}
        for kind, some in sets.items()
    }


@FEW
@given(ROWS, MODES, NULLS, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(rows, mode, nulls, random):
    other = random.sample(rows, len(rows))
    assert sets_of(other, mode, nulls=nulls) == sets_of(rows, mode, nulls=nulls)


@FEW
@given(ROWS, MODES, st.permutations("abc"))
def test_neither_do_the_order_and_the_names_of_columns(rows, mode, names):
    other = dict(zip("abc", names, strict=True))
    turned = [{other[name]: value for name, value in row.items()} for row in rows]
    assert sets_of(turned, mode, names) == renamed(sets_of(rows, mode), other)


@FEW
@given(ROWS, MODES, st.lists(st.integers(-(2**62), 2**62), min_size=3, max_size=3, unique=True))
def test_other_values_in_the_same_order_are_the_same(rows, mode, values):
    values = [*sorted(values)]
    other = [{name: None if value is None else values[value] for name, value in row.items()} for row in rows]
    assert sets_of(other, mode) == sets_of(rows, mode)


@FEW
@given(ROWS, MODES)
def test_values_in_the_opposite_order_turn_the_comparisons_of_their_column(rows, mode):
    other = [{**row, "b": -row["b"]} for row in rows]
    turned = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
    expected = {
        kind: {one_way(frozenset((a, turned.get(op, op) if a == "b" else op, c) for a, op, c in rule)) for rule in some}
        for kind, some in sets_of(rows, mode).items()
    }
    assert sets_of(other, mode) == expected


@FEW
@given(ROWS, MODES)
def test_counted_and_witnessed_are_the_same(rows, mode):
    assert sets_of(rows, "counted") == sets_of(rows, "witnessed")
    assert sets_of(rows, mode, cross=[["a", "c"]]) == sets_of(rows, "counted", cross=[["a", "c"]])


@FEW
@given(ROWS, MODES)
def test_rows_twice_end_just_the_rules_that_equal_rows_violate(rows, mode):
    whole = [{name: 0 if value is None else value for name, value in row.items()} for row in rows]
    before, after = sets_of(whole, mode), sets_of([*whole, *whole], mode)
    assert after["unique"] == set()
    assert after["fd"] == before["fd"]
    assert after["od"] == before["od"]
    different = {rule for rule in before["dc"] if any(op in ("<", ">", "!=") for _, op, _ in rule)}
    assert different == before["dc"] & after["dc"]
    assert all(any(op in ("<", ">", "!=") for _, op, _ in rule) for rule in after["dc"])


@FEW
@given(ROWS, MODES)
def test_a_copy_of_a_column_decides_it_and_is_decided_by_it(rows, mode):
    names = ["a", "b", "c", "d"]
    sets, before = sets_of([{**row, "d": row["b"]} for row in rows], mode, names), sets_of(rows, mode)
    for kind in ("unique", "fd"):
        assert {rule for rule in sets[kind] if not any(a == "d" for a, *_ in rule)} - _copies(sets[kind]) <= before[
            kind
        ]
    constant = frozenset({("b", "!=", "b")}) in before["fd"]
    assert (frozenset({("d", "=", "d"), ("b", "!=", "b")}) in sets["fd"]) is not constant
    swapped = {"a": "a", "b": "d", "c": "c", "d": "b"}
    assert renamed(sets, swapped) == sets


def _copies(rules: set[Rule]) -> set[Rule]:
    return {rule for rule in rules if {a for a, *_ in rule} >= {"b", "d"}}


@settings(max_examples=max(6, settings().max_examples // 50))
@given(ROWS, st.lists(st.integers(0, 9), max_size=3), MODES)
def test_it_does_not_matter_in_how_many_loads_rows_come(tmp_path_factory, rows, cuts, mode):
    folder: Path = tmp_path_factory.mktemp("loads")
    places = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    lines = [tuple(row.values()) for row in rows]
    table = Table(folder, "a b c")
    for number, (first, last) in enumerate(itertools.pairwise(places)):
        table.apply(str(number), *lines[first:last])
        if not number:
            table.discover(mode, classes=CLASSES, space={"columns": ["a", "b", "c"]})
    at_once = Table(folder / "once", "a b c")
    at_once.apply("1", *lines)
    at_once.discover(mode, classes=CLASSES, space={"columns": ["a", "b", "c"]})
    assert table.formulas == at_once.formulas


@settings(max_examples=max(6, settings().max_examples // 50))
@given(ROWS, ROWS, MODES, st.booleans())
def test_a_load_that_is_taken_out_again_leaves_what_was_there(tmp_path_factory, rows, more, mode, later):
    table = Table(tmp_path_factory.mktemp("retracted"), "a b c")
    table.apply("1", *(tuple(row.values()) for row in rows))
    table.discover(mode, classes=CLASSES, space={"columns": ["a", "b", "c"]})
    before, facts = table.formulas, table.facts
    table.apply("2", *(tuple(row.values()) for row in more))
    if later:
        table.apply("3")
    table.maintain("retract", load_id="2")
    assert table.formulas == before
    assert table.facts["valid"] == facts["valid"]
    if not later:
        assert table.facts == facts
    assert not table.problems
