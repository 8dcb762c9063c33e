"""The search finds exactly the dependencies that hold, and keeps them exact when rows come and go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.discovery import cells
from dc_engine.discovery.boxes import Box, said
from dc_engine.discovery.cells import partners_of
from dc_engine.discovery.counting import violating_pairs
from dc_engine.discovery.enumerating import enumerator
from dc_engine.discovery.limits import steps
from dc_engine.discovery.newcomers import prover_of, violations_of
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.proving import Prover
from dc_engine.discovery.search import Settled, first_patterns, settle
from dc_engine.discovery.space import Limits, Space
from dc_engine.discovery.table import Shown, Table
from dc_engine.discovery.terms import SIX, Outcome, op_of
from dc_engine.sizes import other_sizes
from tests.discovery.oracle import Rule, minimal_rules, pairs, satisfies
from tests.discovery.test_hitting import CELLS, OPS, terms_of

Row = Mapping[str, Any]
WAYS = st.sampled_from(
    [
        {},
        {"few_pairs": 0, "counted_price": 0, "class_price": 0, "rows_in_cells": 0},
        {"few_pairs": 0, "counted_price": 1_000, "class_price": 0, "rows_in_cells": 0},
        {"few_pairs": 0, "counted_price": 1, "rows_in_cells": 0},
        {"few_pairs": 0, "counted_price": 1_000_000, "rows_in_cells": 0},
        {"few_pairs": 0, "key_price": 0, "cell_price": 0, "cells": 1},
        {"few_pairs": 0, "key_price": 0, "cell_price": 0, "cells": 3, "exhausted_pairs": 0},
    ]
)
"""Sizes by which small tables are looked at whole, by counting, in classes, by both, by keys, and in cells."""


@st.composite
def histories(draw: st.DrawFn) -> tuple[dict[tuple[str, str], Any], list[Row], list[Row], list[bool]]:
    """Operators for each term; rows, rows that come after them, and which of the first ones go."""
    names = ["a", "b", "c", "d"][: draw(st.integers(1, 4))]
    cells = draw(st.sampled_from([CELLS, st.integers(0, 1), st.integers(0, 4)]))
    rows = st.lists(st.fixed_dictionaries(dict.fromkeys(names, cells)), max_size=7)
    few = st.sampled_from([OPS, st.just(tuple(draw(OPS)))]) if len(names) > 3 else st.just(OPS)
    chosen = draw(few)
    ops: dict[tuple[str, str], Any] = {(name, name): draw(chosen) for name in names}
    if len(names) in (2, 3) and draw(st.booleans()):
        ops["a", "b"] = draw(OPS)
        ops["b", "a"] = draw(st.just(()) | OPS)
    first = draw(rows)
    return ops, first, draw(rows), draw(st.lists(st.booleans(), min_size=len(first), max_size=len(first)))


def table_of(layout: Layout, rows: Sequence[Row]) -> Table:
    names = {name for term in layout.terms.terms for name in (term.left, term.right)}
    return Table.of(layout, {name: np.array([_code(row[name]) for row in rows], np.int64) for name in names})


def _code(value: Any) -> int:
    return -1 if value is None else value


def rule_of(layout: Layout, box: Box) -> Rule:
    named = [(layout.terms.terms[place], op_of(Outcome(box[place]))) for place in said(box)]
    return frozenset((term.left, op.value, term.right) for term, op in named)


def dcs(layout: Layout, settled: Settled) -> set[Rule]:
    return {rule_of(layout, box) for box in settled.found.sets["dc"]}


ALL = ("unique", "fd", "dc")


@given(histories(), WAYS, st.booleans())
def test_what_is_found_is_what_holds(history, ways, sampled):
    ops, rows, *_ = history
    layout = Layout(terms_of(ops, rows))
    table = table_of(layout, rows)
    known = first_patterns(table) if sampled else Shown.of(layout)
    with other_sizes(**ways):
        settled = settle(Prover(table), known, enumerator(layout, ALL, None))
    assert dcs(layout, settled) == minimal_rules(ops, rows)


@given(histories(), WAYS)
def test_when_rows_come_and_go_what_is_found_is_what_holds_then(history, ways):
    ops, rows, more, gone = history
    layout = Layout(terms_of(ops, [*rows, *more]))
    table = table_of(layout, rows)
    with other_sizes(**ways):
        before = settle(Prover(table), Shown.of(layout), enumerator(layout, ALL, None))
        left = np.array([place for place, away in enumerate(gone) if not away], np.int64)
        place_of = np.full(len(rows), -1)
        place_of[left] = np.arange(len(left))
        live = (place_of[before.known.t] >= 0) & (place_of[before.known.s] >= 0)
        known = before.known.taken(np.flatnonzero(live))
        known = Shown(known.patterns, place_of[known.t], place_of[known.s])
        now = [*(rows[place] for place in left), *more]
        new = np.arange(len(now)) >= len(left)
        valid = [box for some in before.found.sets.values() for box in some]
        table = table_of(layout, now)
        provers = {"whole": Prover(table), "fresh": prover_of(table, new)}
        after = settle(known=known, enumerate_=enumerator(layout, ALL, None), valid=valid, **provers)
    assert dcs(layout, after) == minimal_rules(ops, now)
    fresh = settle(Prover(table), Shown.of(layout), enumerator(layout, ALL, None))
    assert {name: set(some) for name, some in after.found.sets.items()} == {
        k: set(v) for k, v in fresh.found.sets.items()
    }
    t, s = after.known.t, after.known.s
    assert (layout.canonical(table_of(layout, now).patterns(t, s)) == after.known.patterns).all(), "witnesses are right"


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("exhausted", [0, 100, 10_000])
def test_orders_that_a_few_new_rows_break_are_refined_as_from_scratch(seed, exhausted):
    chance = np.random.default_rng(seed)
    a, d = chance.integers(0, 9, 36), chance.integers(0, 4, 36)
    values = np.stack([a, a // 2, 9 - a, d])
    values[1:3, 28:] += chance.integers(0, 7, (2, 8))  # the last rows break what held between the others
    rows = [dict(zip("abcd", map(int, row), strict=True)) for row in values.T]
    layout = Layout(terms_of({(name, name): SIX for name in "abcd"}, rows))
    enumerate_ = enumerator(layout, ALL, 3)
    first, table = table_of(layout, rows[:28]), table_of(layout, rows)
    before = settle(Prover(first), Shown.of(layout), enumerate_)
    valid = [box for some in before.found.sets.values() for box in some]
    with other_sizes(few_pairs=0, key_price=0, cell_price=0, exhausted_pairs=exhausted):
        fresh = prover_of(table, np.arange(36) >= 28)
        after = settle(Prover(table), before.known, enumerate_, fresh=fresh, before=before.found.sets, valid=valid)
    again = settle(Prover(table), Shown.of(layout), enumerate_)
    assert {name: set(some) for name, some in after.found.sets.items()} == {
        name: set(some) for name, some in again.found.sets.items()
    }
    assert after.found.sets != before.found.sets


@given(histories(), st.data())
def test_pairs_in_a_box_are_counted_once(history, data):
    ops, rows, *_ = history
    layout = Layout(terms_of(ops, rows))
    box = tuple(
        data.draw(st.sampled_from([1, 2, 3, 4, 5, 6, 7]) if one.ordered else st.sampled_from([2, 5, 7]))
        for one in layout.terms.terms
    )
    rule = rule_of(layout, box)
    violating = sum(
        all(satisfies(one, t, s) for one in rule) or all(satisfies(one, s, t) for one in rule) for t, s in pairs(rows)
    )
    assert violating_pairs(table_of(layout, rows), box) == violating // 2


@given(histories(), st.sampled_from([{}, {"rows_in_cells": 0}, {"cells": 1}, {"counted_price": 0}]), st.data())
def test_pairs_with_new_rows_are_counted_where_others_do_not_violate(history, sizes, data):
    ops, rows, more, _ = history
    layout = Layout(terms_of(ops, [*rows, *more]))
    table, before = table_of(layout, [*rows, *more]), table_of(layout, rows)
    kinds = [st.sampled_from([1, 2, 3, 4, 5, 6, 7] if one.ordered else [2, 5, 7]) for one in layout.terms.terms]
    boxes = [box for box in data.draw(st.lists(st.tuples(*kinds), max_size=6)) if not violating_pairs(before, box)]
    with other_sizes(**sizes):
        found = violations_of(table, np.arange(table.rows) >= len(rows), boxes)
    assert found == [violating_pairs(table, box) for box in boxes]


@given(histories(), st.integers(1, 5), st.sampled_from([1, 5, 1_000]), st.data())
def test_a_partner_is_found_where_there_is_one(history, size, at_once, data):
    ops, rows, more, _ = history
    layout, everything = Layout(terms_of(ops, [*rows, *more])), [*rows, *more]
    table = table_of(layout, everything)
    kinds = [st.sampled_from([1, 2, 3, 4, 5, 6, 7] if one.ordered else [2, 5, 7]) for one in layout.terms.terms]
    boxes = data.draw(st.lists(st.tuples(*kinds), min_size=1, max_size=4))
    new = np.arange(len(rows), len(everything))
    asked = np.array(data.draw(st.lists(st.booleans(), min_size=len(boxes) * len(new), max_size=len(boxes) * len(new))))
    asked = asked.reshape(len(boxes), len(new)).astype(bool)
    among = np.flatnonzero([data.draw(st.booleans()) for _ in rows])
    with other_sizes(cells=size), pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells, "_ANSWERS", at_once)
        partners = partners_of(table, boxes, new, asked.__getitem__, among, 1_000)
    assert partners is not None
    found = np.full(asked.shape, -1)
    found[partners.boxes, partners.rows] = partners.partners
    for place, box in enumerate(boxes):
        for column, row in enumerate(new.tolist()):
            partners = [one for one in among.tolist() if lies_in(layout, box, everything, row, one)]
            assert found[place, column] in (partners if partners and asked[place, column] else [-1])


def lies_in(layout: Layout, box: Box, rows: Sequence[Row], one: int, other: int) -> bool:
    """Whether two rows lie in a box, either way round."""
    rule = rule_of(layout, box)
    ways = ((rows[one], rows[other]), (rows[other], rows[one]))
    return any(all(satisfies(part, *way) for part in rule) for way in ways)


def test_a_key_decides_boxes_without_looking_at_all_pairs():
    rows = [{"a": place % 50, "b": place % 50 + (place == 7), "c": place} for place in range(400)]
    ops = {(name, name): tuple(op_of(Outcome(mask)) for mask in (2, 5)) for name in "abc"}
    layout = Layout(terms_of(ops, rows))
    table = table_of(layout, rows)
    with other_sizes(few_pairs=0):
        prover = Prover(table)
        boxes = [(2, 5, 7), (2, 2, 5)]
        met = prover.look(prover.open(boxes))
    assert prover.open(boxes) == []
    assert prover.looked_at < prover.pairs / 10
    assert len(met) == 2, "rows that agree on a agree on b or not, and never on c"


@pytest.mark.parametrize("rows", [[], [{"a": 1}]])
def test_without_two_rows_everything_holds(rows):
    ops = {("a", "a"): tuple(op_of(Outcome(mask)) for mask in (2, 5))}
    layout = Layout(terms_of(ops, rows))
    settled = settle(Prover(table_of(layout, rows)), Shown.of(layout), enumerator(layout, ALL, None))
    assert settled.found.sets == {"unique": [(7,)], "fd": [(5,)], "dc": [(7,)]}


def test_a_search_of_many_columns_begins_with_the_shortest_dependencies():
    few, many = (Layout(Space(dict.fromkeys((f"c{one}" for one in range(some)), "int")).terms()) for some in (17, 18))
    assert steps(few, Limits()) == [4, 6, 8, 12, 16, 17]
    assert steps(many, Limits()) == [2, 3, 4, 6, 8, 12, 16, 18]
    assert steps(many, Limits(max_terms=3)) == [2, 3]
