"""Each class of dependencies is what its definition says, on small tables of every kind."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.constraints.model import Body, Column
from dc_engine.discovery import classes
from dc_engine.discovery.classes import fds, left_sides, raw_dcs, shown_dcs, uniques
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.terms import EQUALITY, INEQUALITIES, SIX, Term, Terms
from tests.discovery.oracle import HOLDS, Rule, minimal_rules
from tests.discovery.test_hitting import patterns_of, tables, terms_of

Row = Mapping[str, Any]


def agree(left: Sequence[str], t: Row, s: Row) -> bool:
    return all(t[name] is not None and t[name] == s[name] for name in left)


def minimal(sets: Sequence[frozenset[str]]) -> set[frozenset[str]]:
    return {one for one in sets if not any(other < one for other in sets)}


def subsets(names: Sequence[str]) -> list[frozenset[str]]:
    return [frozenset(some) for size in range(len(names) + 1) for some in itertools.combinations(names, size)]


@st.composite
def plain_tables(draw: st.DrawFn) -> list[dict[str, Any]]:
    names = ["a", "b", "c", "d"][: draw(st.integers(1, 4))]
    cells = draw(st.sampled_from([st.integers(0, 1), st.integers(0, 3), st.none() | st.integers(0, 2)]))
    return draw(st.lists(st.fixed_dictionaries(dict.fromkeys(names, cells)), min_size=1, max_size=8))


def own_terms(rows: Sequence[Row]) -> Layout:
    ops = {(name, name): SIX if place % 2 else EQUALITY for place, name in enumerate(rows[0])}
    return Layout(terms_of(ops, rows))


@given(plain_tables())
def test_unique_columns_are_the_smallest_on_which_no_two_rows_agree(rows):
    layout = own_terms(rows)
    found = uniques(layout, patterns_of(layout, rows))
    pairs = list(itertools.combinations(rows, 2))
    keys = [one for one in subsets(list(rows[0])) if not any(agree(sorted(one), t, s) for t, s in pairs)]
    assert not found.stopped
    assert set(found.left[""]) == minimal(keys)


@given(plain_tables())
def test_left_sides_are_the_smallest_that_decide_a_column(rows):
    layout = own_terms(rows)
    found = fds(layout, patterns_of(layout, rows))
    pairs = list(itertools.combinations(rows, 2))
    assert set(found.left) == set(rows[0])
    for right, left in found.left.items():
        broken = [(t, s) for t, s in pairs if None not in (t[right], s[right]) and t[right] != s[right]]
        sides = subsets([name for name in rows[0] if name != right])
        holding = [one for one in sides if not any(agree(sorted(one), t, s) for t, s in broken)]
        assert set(left) == minimal(holding)


def rule_of(body: Body) -> Rule:
    named = [(one.left, one.op, one.right) for one in body]
    assert all(left.row == "t" and isinstance(right, Column) and right.row == "s" for left, _, right in named)
    return frozenset((left.name, op.value, right.name) for left, op, right in named if isinstance(right, Column))


@given(tables())
def test_of_rules_on_own_columns_one_of_each_mirror_pair_is_shown(table):
    rows, ops = table
    own = {pair: some for pair, some in ops.items() if pair[0] == pair[1]}
    layout = Layout(terms_of(own, rows))
    shown = {rule_of(one) for one in shown_dcs(layout.terms, raw_dcs(layout, patterns_of(layout, rows)).sets)}
    raw = minimal_rules(own, rows)
    assert shown <= raw | {mirrored(one) for one in raw}
    assert {min(one, mirrored(one), key=sorted) for one in shown} == {
        min(one, mirrored(one), key=sorted) for one in raw
    }
    assert len({frozenset([one, mirrored(one)]) for one in shown}) == len(shown)


FLIPPED = {"<": ">", "<=": ">=", "=": "=", ">=": "<=", ">": "<", "!=": "!="}


def mirrored(rule: Rule) -> Rule:
    return frozenset((right, FLIPPED[op], left) for left, op, right in rule)


OPERANDS = [(row, name) for row in "ts" for name in "ab"]
VALUES = [dict(zip(OPERANDS, some, strict=True)) for some in itertools.product(range(4), repeat=len(OPERANDS))]


@cache
def denied(rule: Rule) -> int:
    """All values of two rows that a rule denies, as bits."""
    found = [all(HOLDS[op](one["t", left], one["s", right]) for left, op, right in rule) for one in VALUES]
    return sum(1 << place for place, denies in enumerate(found) if denies)


def implies(one: Rule, other: Rule) -> bool:
    """Whether the one, taken one way round, denies whatever the other does: all values are tried."""
    return any(not denied(other) & ~denied(way) for way in (one, mirrored(one)))


CROSS = st.sampled_from([SIX, INEQUALITIES, EQUALITY])


@st.composite
def crossed(draw: st.DrawFn) -> tuple[list[dict[str, Any]], Terms]:
    rows = draw(st.lists(st.fixed_dictionaries({"a": st.integers(0, 2), "b": st.integers(0, 2)}), max_size=5))
    own, cross = draw(CROSS), draw(CROSS)
    both = draw(st.booleans())
    ordered = set(cross) != set(EQUALITY)
    made = [Term(name, name, own, set(own) != set(EQUALITY)) for name in "ab"]
    made += [Term("a", "b", cross, ordered), Term("b", "a", cross if both else (), ordered)]
    return rows, Terms(tuple(made))


@given(crossed())
def test_with_column_pairs_what_is_shown_implies_all_and_nothing_twice(table):
    rows, terms = table
    layout = Layout(terms)
    ops = {(term.left, term.right): term.ops for term in terms.terms}
    raw = minimal_rules(ops, rows)
    shown = [rule_of(one) for one in shown_dcs(terms, raw_dcs(layout, patterns_of(layout, rows)).sets)]
    assert {min(one, mirrored(one), key=sorted) for one in shown} <= {
        min(one, mirrored(one), key=sorted) for one in raw
    }
    nothing = frozenset({("a", "<", "a"), ("a", ">", "a")})
    for one in raw:
        trivial = implies(nothing, one)
        assert trivial or any(implies(other, one) for other in shown), "what is left out follows from what is shown"
    for one in shown:
        assert not implies(nothing, one), "what holds in every table is not shown"
        assert not any(implies(other, one) for other in shown if other != one)


@given(st.integers(1, 6), st.data())
def test_left_sides_from_a_table_are_those_of_a_search(width, data):
    rows = data.draw(st.lists(st.lists(st.booleans(), min_size=width, max_size=width), max_size=12))
    differs = np.array(rows, bool).reshape(-1, width)
    right = data.draw(st.none() | st.integers(0, width - 1))
    if right is not None:
        differs = differs[differs[:, right]]
    bound = data.draw(st.none() | st.integers(0, 3))
    tabled = left_sides(differs, right, bound)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(classes, "TABLED", 0)
        searched = left_sides(differs, right, bound)
    sides = subsets([str(one) for one in range(width) if one != right])
    telling = [one for one in sides if all(any(row[int(name)] for name in one) for row in differs)]
    smallest = {frozenset(map(int, one)) for one in minimal(telling) if bound is None or len(one) <= bound}
    assert set(tabled.sets) == smallest
    assert set(searched.sets) == smallest


def test_left_sides_of_two_hundred_columns():
    chance = np.random.default_rng(9)
    differs = chance.random((2_000, 200)) < 0.9
    found = left_sides(differs, 0, 2)
    agree = (~differs).astype(np.int64)
    pairs = agree.T @ agree == 0
    assert {tuple(sorted(one)) for one in found.sets} == {(a, b) for a, b in np.argwhere(pairs).tolist() if 0 < a < b}
