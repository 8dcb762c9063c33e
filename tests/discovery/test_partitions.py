"""Classes of rows answer what rows by themselves do: all pairs are compared."""

from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.discovery import partitions
from dc_engine.discovery.partitions import Partitions, Question
from dc_engine.kernels import partitions as kernels

NULL = -1


@st.composite
def tables(draw: st.DrawFn) -> np.ndarray:
    """Codes of a few columns, some with NULLs; some with more rows than are sorted one by one."""
    rows, columns = draw(st.sampled_from([0, 1, 2, 5, 9, 80])), draw(st.integers(1, 4))
    values = st.sampled_from([st.integers(0, 1), st.integers(0, 9), st.integers(NULL, 2), st.integers(0, 100)])
    made = [draw(st.lists(draw(values), min_size=rows, max_size=rows)) for _ in range(columns)]
    for place in range(1, columns):
        if draw(st.booleans()):  # goes with another, mostly
            made[place] = [code // 2 if code > 0 else code for code in made[place - 1]]
    return np.array(made, np.int32).reshape(columns, rows)


@st.composite
def questions(draw: st.DrawFn, columns: int) -> Question:
    places = draw(st.permutations(range(columns)))
    size = draw(st.integers(0, min(2, columns)))
    context = draw(st.sets(st.sampled_from(places[size:]))) if places[size:] else set()
    return Question(frozenset(context), tuple(sorted(places[:size])), size == 2 and draw(st.booleans()))


def violates(codes: np.ndarray, question: Question, t: int, s: int) -> bool:
    """Whether two rows, one way round, are what a question says is not there."""
    if any(codes[place, t] != codes[place, s] or codes[place, t] < 0 for place in question.context):
        return False
    others = [(codes[place, t], codes[place, s]) for place in question.columns]
    if any(NULL in pair for pair in others):
        return False
    if len(others) < 2:
        return all(one != other for one, other in others)
    (a, b), (c, d) = others
    return bool(a < b and (c < d if question.descending else c > d))


def holds(codes: np.ndarray, question: Question, rows: list[int]) -> bool:
    return not any(violates(codes, question, t, s) for t, s in permutations(rows, 2))


def check(codes: np.ndarray, asked: list[Question], found: list[partitions.Pairs], new: np.ndarray) -> None:
    for question, (t, s) in zip(asked, found, strict=True):
        rows = list(range(codes.shape[1]))
        assert (len(t) == 0) == holds(codes, question, rows)
        for one, other in zip(t.tolist(), s.tolist(), strict=True):
            assert violates(codes, question, one, other) or violates(codes, question, other, one)
            assert new[one] or new[other]


@given(st.data())
def test_a_question_is_answered_by_pairs_that_violate_it_or_holds(data):
    codes = data.draw(tables())
    asked = data.draw(st.lists(questions(len(codes)), max_size=8))
    check(codes, asked, Partitions(codes).answers(asked), np.ones(codes.shape[1], bool))


@given(st.data())
def test_only_pairs_with_a_new_row_are_looked_at(data):
    codes = data.draw(tables())
    rows = codes.shape[1]
    new = np.array(data.draw(st.lists(st.booleans(), min_size=rows, max_size=rows)), bool)
    asked = data.draw(st.lists(questions(len(codes)), max_size=8))
    asked = [one for one in asked if holds(codes, one, np.flatnonzero(~new).tolist())]
    check(codes, asked, Partitions(codes, new).answers(asked), new)


@given(st.data())
def test_the_answer_does_not_depend_on_threads_nor_on_other_questions(data):
    codes = data.draw(tables())
    asked = data.draw(st.lists(questions(len(codes)), max_size=8))
    together = Partitions(codes, threads=3).answers(asked)
    for question, (t, s) in zip(asked, together, strict=True):
        ((alone_t, alone_s),) = Partitions(codes, threads=1).answers([question])
        assert t.tolist() == alone_t.tolist()
        assert s.tolist() == alone_s.tolist()


@given(st.data(), st.sampled_from([0, 1_000]))
def test_classes_are_sorted_one_by_one_or_all_at_once(data, few):
    codes = data.draw(tables())
    asked = data.draw(st.lists(questions(len(codes)), max_size=8))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partitions, "_FEW_ROWS", few)
        check(codes, asked, Partitions(codes).answers(asked), np.ones(codes.shape[1], bool))


@given(st.data())
def test_classes_are_those_rows_that_agree(data):
    codes = data.draw(tables())
    rows = codes.shape[1]
    order, starts = np.arange(rows, dtype=np.int32), np.array([0, rows], np.int32)
    kept = list(range(rows))
    for one in codes:
        order, starts = kernels.split(order, starts, one, int(one.max(initial=-1)) + 1)
    expected: dict[tuple[int, ...], list[int]] = {}
    for row in kept:
        if (codes[:, row] >= 0).all():
            expected.setdefault(tuple(codes[:, row]), []).append(row)
    found = [order[first:last].tolist() for first, last in pairwise(starts)]
    assert sorted(found) == sorted(some for some in expected.values() if len(some) > 1)
