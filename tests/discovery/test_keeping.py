"""Dependencies are found in tables of every type, and stay exact while rows come and go, in both stores."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.discovery.boxes import Box, said
from dc_engine.discovery.coded import Coded, encoded
from dc_engine.discovery.keeping import changed, found
from dc_engine.discovery.known import COUNTED, WITNESSED, Known, Turnover
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.space import CLASSES, Asked, Limits, Space, space_of, with_cross
from dc_engine.discovery.terms import Outcome, Terms, op_of
from dc_engine.sizes import other_sizes
from tests.discovery.marked import forbidden_by, minimal_pods
from tests.discovery.oracle import Rule, minimal_rules
from tests.discovery.test_search import WAYS

TYPES: dict[str, tuple[pa.DataType, Sequence[Any]]] = {
    "int": (pa.int32(), [0, 1, 2, -5]),
    "bigint": (pa.int64(), [0, 1, 2**40]),
    "double": (pa.float64(), [0.0, -0.0, math.nan, math.inf, 1.5]),
    "decimal(5,2)": (pa.decimal128(5, 2), [Decimal("1.00"), Decimal("-2.50"), Decimal("0.01")]),
    "string": (pa.string(), ["", "a", "b", "ä"]),
    "date": (pa.date32(), [date(2026, 1, 1), date(1, 1, 1)]),
    "boolean": (pa.bool_(), [True, False]),
}


@st.composite
def histories(draw: st.DrawFn) -> tuple[Space, list[tuple[Any, ...]], list[tuple[int, int, set[int]]]]:
    """A space, all rows that ever are there, and steps: which rows come (a range of them), and which of all go."""
    kinds = draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=3))
    nulls = draw(st.sampled_from(["ignore", "equal"]))
    types = {f"c{place}": kind for place, kind in enumerate(kinds)}
    space = space_of(Asked(nulls=nulls, classes=CLASSES), types, {})
    if len(kinds) > 1 and kinds[0] == kinds[1] and draw(st.booleans()):
        space = with_cross(space, [("c0", "c1")], both=draw(st.booleans()))
    cells = [
        st.sampled_from([*TYPES[kind][1], None]) if draw(st.booleans()) else st.sampled_from(TYPES[kind][1])
        for kind in kinds
    ]
    rows = draw(st.lists(st.tuples(*cells), max_size=9))
    cuts = sorted(draw(st.lists(st.integers(0, len(rows)), min_size=1, max_size=3)))
    steps = []
    for first, last in itertools.pairwise([0, *cuts, len(rows)]):
        gone = draw(st.sets(st.integers(0, max(first - 1, 0)))) if first else set()
        steps.append((first, last, gone))
    return space, rows, steps


def compared(value: Any) -> Any:
    """A value as Spark compares it: NaN equal to itself and greater than all numbers."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    return value.encode() if isinstance(value, str) else value


def rows_of(space: Space, rows: Sequence[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Rows for the brute force. Where NULL equals NULL it is one more value."""
    equal = space.nulls == "equal"
    return [
        {
            name: (value is not None, compared(value) if value is not None else 0)
            if equal
            else None
            if value is None
            else compared(value)
            for name, value in zip(space.columns, row, strict=True)
        }
        for row in rows
    ]


def coded(space: Space, rows: Sequence[tuple[Any, ...]], ids: np.ndarray) -> Any:
    columns = {
        name: pa.chunked_array([pa.array([row[place] for row in rows], TYPES[kind][0])])
        for place, (name, kind) in enumerate(space.columns.items())
    }
    return encoded(space, columns, ids)


def rule_of(terms: Terms, box: Box) -> Rule:
    named = [(terms.terms[place], op_of(Outcome(box[place]))) for place in said(box)]
    return frozenset((term.left, op.value, term.right) for term, op in named)


def check(space: Space, known: Known, rows: Sequence[tuple[Any, ...]]) -> None:
    """Every class is what its definition says, on these rows."""
    terms = space.terms(known.nullable)
    given = rows_of(space, rows)
    ops = {(term.left, term.right): term.ops for term in terms.terms if not term.first}
    assert {rule_of(terms, box) for box in known.sets["dc"]} == minimal_rules(ops, given)
    names = list(space.columns)
    if "pod" in known.sets:
        pods = minimal_pods({name: name in space.ordered for name in names}, given)
        assert {forbidden_by(rule_of(terms, box)) for box in known.sets["pod"]} == pods
    sides = [frozenset(some) for size in range(len(names) + 1) for some in itertools.combinations(names, size)]
    pairs = list(itertools.combinations(given, 2))
    keys = [one for one in sides if not any(agree(one, t, s) for t, s in pairs)]
    assert {frozenset(a for a, *_ in rule_of(terms, box)) for box in known.sets["unique"]} == minimal(keys)
    expected = set()
    for right in names:
        broken = [(t, s) for t, s in pairs if None not in (t[right], s[right]) and t[right] != s[right]]
        valid = [one for one in sides if right not in one and not any(agree(one, t, s) for t, s in broken)]
        expected |= {(one, right) for one in minimal(valid)}
    fds = [rule_of(terms, box) for box in known.sets["fd"]]
    assert {
        (frozenset(a for a, op, _ in one if op == "="), next(a for a, op, _ in one if op == "!=")) for one in fds
    } == expected
    assert known.bound is None
    assert not known.because


def differ(column: str, t: dict[str, Any], s: dict[str, Any]) -> bool:
    return None not in (t[column], s[column]) and t[column] != s[column]


def agree(columns: frozenset[str], t: dict[str, Any], s: dict[str, Any]) -> bool:
    return all(t[name] is not None and t[name] == s[name] for name in columns)


def minimal(sets: Sequence[frozenset[str]]) -> set[frozenset[str]]:
    return {one for one in sets if not any(other < one for other in sets)}


class History:
    """Rows that come and go, and what is known of those that are there."""

    def __init__(self, space: Space, rows: Sequence[tuple[Any, ...]], mode: str) -> None:
        self.space, self.rows, self.mode = space, rows, mode
        self.there = np.zeros(len(rows), bool)
        self.known: Known | None = None

    def coded(self, chosen: np.ndarray) -> Any:
        places = np.flatnonzero(chosen)
        return coded(self.space, [self.rows[place] for place in places], places * 7 + 3)

    def after(self, first: int, last: int, gone: set[int]) -> tuple[Known, list[tuple[Any, ...]]]:
        """What is known after a step, and the rows that are there."""
        before = self.there.copy()
        self.there[first:last] = True
        self.there[sorted(gone)] = False
        some = before | self.there
        if self.known is None:
            self.known = found(self.space, self.coded(self.there), self.mode)
        else:
            turnover = Turnover(self.coded(some), before[some], self.there[some])
            self.known = changed(self.space, self.known, turnover)
        return self.known, [row for row, alive in zip(self.rows, self.there, strict=True) if alive]


@given(histories(), st.sampled_from([COUNTED, WITNESSED]), WAYS, st.lists(st.booleans(), min_size=4, max_size=4))
def test_after_every_change_every_class_is_what_holds_then(history, mode, ways, switches):
    space, rows, steps = history
    history = History(space, rows, mode)
    with other_sizes(**ways):
        for step, switch in zip(steps, switches, strict=False):
            known, living = history.after(*step)
            check(space, known, living)
            if switch:
                other = COUNTED if known.mode == WITNESSED else WITNESSED
                known = history.known = found(space, history.coded(history.there), other, known.nullable)
                assert known.mode == other
                check(space, known, living)
            if known.mode == COUNTED:
                assert known.store.pairs.sum() == len(living) * (len(living) - 1) // 2


def test_nothing_is_asked_where_few_columns_have_decided_everything():
    columns = dict.fromkeys((f"c{place}" for place in range(30)), "int")
    codes = {name: np.random.default_rng(place).permutation(9) for place, name in enumerate(columns)}
    space = Space(columns, classes=("unique", "fd"), max_error=0.01)
    known = found(space, Coded(np.arange(9), codes), WITNESSED)
    assert {name: len(some) for name, some in known.sets.items()} == {"unique": 30, "fd": 30 * 29}
    assert known.bound is None


def test_a_bound_on_comparisons_leaves_all_of_up_to_so_many_and_says_so():
    rows = [(1, 1, 2), (1, 2, 2), (2, 1, 0), (2, 2, 2)]
    types = {"c0": "int", "c1": "int", "c2": "int"}
    whole = space_of(Asked(), types, {})
    everything = found(whole, coded(whole, rows, np.arange(4)))
    for most in (1, 2):
        space = space_of(Asked(limits=Limits(max_terms=most)), types, {})
        some = found(space, coded(space, rows, np.arange(4)))
        assert some.bound == most
        assert some.because == f"only dependencies of up to {most} comparisons are looked for"
        for name in space.classes:
            assert set(some.sets[name]) == {box for box in everything.sets[name] if len(said(box)) <= most}


def test_patterns_get_room_for_the_first_null_of_a_column():
    space = space_of(Asked(), {"c0": "int", "c1": "int"}, {})
    known = found(space, coded(space, [(1, 1), (2, 1)], np.arange(2)), WITNESSED)
    assert known.nullable == frozenset()
    table = coded(space, [(1, 1), (2, 1), (None, 2)], np.arange(3))
    after = changed(space, known, Turnover(table, np.array([True, True, False]), np.ones(3, bool)))
    assert after.nullable == {"c0"}
    assert Layout(space.terms(after.nullable)).slots != Layout(space.terms(known.nullable)).slots
    check(space, after, [(1, 1), (2, 1), (None, 2)])


ERRORS = st.sampled_from([0.05, 0.1, 0.3, 0.5])


@given(histories(), st.sampled_from([COUNTED, WITNESSED]), ERRORS)
def test_with_errors_allowed_keys_and_fds_are_the_smallest_that_few_pairs_violate(history, mode, error):
    space, rows, steps = history
    space = replace(space, classes=("unique", "fd"), max_error=error, cross=(), ordered=())
    history = History(space, rows, mode)
    for step in steps:
        known, living = history.after(*step)
        assert approximate_sides(space, known) == expected_sides(
            list(space.columns), rows_of(space, living), Fraction(str(error))
        )


Sides = dict[tuple[frozenset[str], str | None], int]


def approximate_sides(space: Space, known: Known) -> Sides:
    """Left and right sides that were found, each with its violating pairs."""
    terms, sides = space.terms(known.nullable), {}
    for box in [box for some in known.sets.values() for box in some]:
        rule = rule_of(terms, box)
        right = next((a for a, op, _ in rule if op == "!="), None)
        sides[frozenset(a for a, op, _ in rule if op == "="), right] = known.violations[
            "unique" if right is None else "fd"
        ][box]
    return sides


def expected_sides(names: Sequence[str], rows: Sequence[dict[str, Any]], error: Fraction) -> Sides:
    """The same by definition."""
    pairs = list(itertools.combinations(rows, 2))
    sides = [frozenset(some) for size in range(len(names) + 1) for some in itertools.combinations(names, size)]
    expected: Sides = {}
    for right in [None, *names]:
        broken = [(t, s) for t, s in pairs if right is None or differ(right, t, s)]
        counts = {one: sum(agree(one, t, s) for t, s in broken) for one in sides if right not in one}
        good = [one for one, number in counts.items() if number <= error * len(pairs)]
        expected |= {(one, right): counts[one] for one in minimal(good)}
    return expected
