"""The fewest rows to remove: every set of rows is tried."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import chain, combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.discovery.known import COUNTED, WITNESSED
from dc_engine.discovery.partitions import Question
from dc_engine.discovery.removal import Removals
from tests.discovery.oracle import Order
from tests.discovery.test_keeping import History, compared, histories
from tests.discovery.test_orders import order_of


@st.composite
def tables(draw: st.DrawFn, most_columns: int = 4, most_rows: int = 7) -> np.ndarray:
    rows, columns = draw(st.integers(0, most_rows)), draw(st.integers(1, most_columns))
    line = st.lists(st.integers(0, draw(st.integers(1, 5))), min_size=rows, max_size=rows)
    return np.array([draw(line) for _ in range(columns)], np.int32).reshape(columns, rows)


def holds(codes: np.ndarray, question: Question, rows: Sequence[int]) -> bool:
    """Whether no two rows violate it: by definition."""
    for t, s in combinations(rows, 2):
        if any(codes[place, t] != codes[place, s] for place in question.context):
            continue
        ways = [int(np.sign(codes[place, t] - codes[place, s])) for place in question.columns]
        if len(ways) == 1 and ways[0]:
            return False
        if len(ways) == 2 and ways[0] * ways[1] == (1 if question.descending else -1):
            return False
    return True


def fewest(codes: np.ndarray, question: Question) -> int:
    """The fewest rows without which it holds."""
    rows = range(codes.shape[1])
    return next(
        size
        for size in range(len(rows) + 1)
        if any(holds(codes, question, sorted(set(rows) - set(gone))) for gone in combinations(rows, size))
    )


def questions(columns: int) -> list[Question]:
    """All that can be asked."""
    found = []
    for size in (1, 2):
        for chosen in combinations(range(columns), size):
            others = [place for place in range(columns) if place not in chosen]
            for context in chain.from_iterable(combinations(others, width) for width in range(len(others) + 1)):
                found += [Question(frozenset(context), chosen, down) for down in (False, True)[:size]]
    return found


@given(tables(), st.data())
def test_the_rows_that_are_removed_are_as_few_as_possible_and_enough(codes, data):
    removals = Removals(codes)
    for question in data.draw(st.lists(st.sampled_from(questions(len(codes))), max_size=4)):
        gone = removals.rows(question).tolist()
        assert len(gone) == len(set(gone)) == fewest(codes, question)
        assert holds(codes, question, [row for row in range(codes.shape[1]) if row not in gone])


def expected(codes: np.ndarray, allowed: int, descending: bool, most: int | None = None) -> dict[Question, int]:
    """All that hold when so many rows go, and in no smaller context, and not because a column is constant then."""
    every = [one for one in questions(len(codes)) if descending or not one.descending]
    errors = {one: fewest(codes, one) for one in every}
    fine = {one for one in every if errors[one] <= allowed}

    def smaller(one: Question) -> bool:
        narrower = (one._replace(context=one.context - {place}) for place in one.context)
        return any(other in fine for other in narrower)

    def decided(one: Question) -> bool:
        if len(one.columns) == 1:
            return False
        return any(Question(one.context, (place,)) in fine for place in one.columns)

    return {
        one: errors[one]
        for one in fine
        if not smaller(one) and not decided(one) and (most is None or len(one.context) + len(one.columns) <= most)
    }


@given(tables(3, 6), st.integers(0, 3), st.booleans(), st.none() | st.integers(1, 3))
def test_what_is_found_is_what_holds_but_for_a_few_rows_and_in_no_smaller_context(codes, allowed, descending, most):
    found = Removals(codes).search(descending, allowed, most, 60)
    assert found.removed == expected(codes, allowed, descending, most)
    assert found.terms == min(len(codes), most or len(codes))


def test_a_row_is_removed_where_removing_the_one_with_most_swaps_first_would_cost_more():
    one = np.arange(8, dtype=np.int32)
    other = np.array([3, 4, 5, 0, 1, 2, 6, 7], np.int32)
    question = Question(frozenset(), (0, 1))
    removals = Removals(np.stack([one, other]))
    assert removals.rows(question).tolist() in ([0, 1, 2], [3, 4, 5])
    assert len(removals.rows(question._replace(descending=True))) == 6


def test_a_search_that_is_stopped_says_up_to_where_it_is_complete():
    codes = np.random.default_rng(0).integers(0, 5, (4, 50)).astype(np.int32)
    found = Removals(codes).search(True, 0, None, 0)
    assert (found.removed, found.terms) == ({}, 0)


def test_nothing_is_asked_where_smaller_contexts_have_decided_everything():
    codes = np.array([np.random.default_rng(place).permutation(9) for place in range(30)], np.int32)
    found = Removals(codes).search(False, 0, None, 60)
    assert {(len(one.context), len(one.columns)) for one in found.removed} == {(1, 1)}
    assert (len(found.removed), found.terms) == (30 * 29, 30)


@pytest.mark.parametrize("rows", [0, 1])
def test_without_two_rows_nothing_has_to_go(rows):
    codes = np.zeros((2, rows), np.int32)
    found = Removals(codes).search(False, 0, None, 60)
    assert found.removed == {Question(frozenset(), (0,)): 0, Question(frozenset(), (1,)): 0}


APPROXIMATE = st.sampled_from(
    [(COUNTED, ("od",)), (WITNESSED, ("od",)), (WITNESSED, ("unique", "fd", "od")), (COUNTED, ("fd", "od", "dc"))]
)


@given(histories(), APPROXIMATE, st.booleans(), st.sampled_from([0.1, 0.25, 0.5]))
def test_after_every_change_those_that_hold_but_for_a_few_rows_are_known(history, asked, descending, error):
    space, rows, steps = history
    mode, classes = asked
    space = replace(space, classes=classes, descending=descending, max_error=error, cross=())
    history = History(space, rows, mode)
    for step in steps:
        known, living = history.after(*step)
        codes = ranks(living, len(space.columns))
        allowed = math.floor(Fraction(str(error)) * len(living))
        names, terms = list(space.columns), space.terms(known.nullable)
        assert {order_of(terms, box): number for box, number in known.violations["od"].items()} == {
            as_order(names, one): number for one, number in expected(codes, allowed, descending).items()
        }
        assert set(known.sets["od"]) == set(known.violations["od"])


def ranks(rows: Sequence[tuple[Any, ...]], columns: int) -> np.ndarray:
    """The place of each value among those of its column, NULL before all others."""
    lines = []
    for place in range(columns):
        values = [(0,) if row[place] is None else (1, compared(row[place])) for row in rows]
        known = sorted(set(values))
        lines.append([known.index(value) for value in values])
    return np.array(lines, np.int32).reshape(columns, len(rows))


def as_order(names: Sequence[str], question: Question) -> Order:
    context, columns = (tuple(names[place] for place in sorted(some)) for some in (question.context, question.columns))
    if len(columns) == 1:
        return frozenset(context), columns[0], "", ""
    return frozenset(context), columns[0], columns[1], "down" if question.descending else "up"
