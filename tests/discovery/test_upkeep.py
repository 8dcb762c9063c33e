"""Sets that are kept up are those of a search from scratch, whatever points come and go."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.discovery import upkeep
from dc_engine.discovery.hitting import minimal_hitting_sets
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.problem import Problem, problem_of
from dc_engine.discovery.upkeep import after_gone, after_new
from tests.discovery.test_hitting import patterns_of, tables, terms_of
from tests.discovery.test_searching import by_definition

BOUNDS = st.none() | st.integers(0, 3)


@st.composite
def changes(draw: st.DrawFn) -> tuple[Problem, np.ndarray]:
    """A table's problem, and which of its points were there before."""
    rows, ops = draw(tables())
    layout = Layout(terms_of(ops, rows))
    problem = problem_of(layout, patterns_of(layout, rows))
    before = draw(st.lists(st.booleans(), min_size=len(problem.points), max_size=len(problem.points)))
    return problem, np.array(before, bool)


def some_of(problem: Problem, there: np.ndarray) -> Problem:
    return replace(problem, points=problem.points[there], vital=problem.vital[there])


def check(changed: list[frozenset[int]] | None, after: set[frozenset[int]]) -> None:
    assert changed is not None
    assert len(set(changed)) == len(changed)
    assert set(changed) == after


@given(changes(), BOUNDS)
def test_after_points_came(change, max_terms):
    problem, there = change
    before = minimal_hitting_sets(some_of(problem, there), max_terms=max_terms).sets
    changed = after_new(before, problem, problem.points[~there], max_terms=max_terms)
    check(changed, set(minimal_hitting_sets(problem, max_terms=max_terms).sets))
    assert set(changed) == by_definition(problem, max_terms)


@given(changes(), BOUNDS, st.sampled_from([0, 400]))
def test_after_points_went(change, max_terms, many):
    problem, there = change
    rest = some_of(problem, there)
    before = minimal_hitting_sets(problem, max_terms=max_terms).sets
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(upkeep, "_MANY_GONE", many)
        changed = after_gone(before, rest, problem.points[~there], max_terms=max_terms)
    check(changed, set(minimal_hitting_sets(rest, max_terms=max_terms).sets))
    assert set(changed) == by_definition(rest, max_terms)


def test_many_sets_and_two_words_of_literals():
    chance = np.random.default_rng(5)
    points = np.unique(chance.random((60, 70)) < 0.5, axis=0)
    problem = Problem(points, points, np.arange(70), np.ones(70, np.int64))
    first = np.arange(len(points)) < 50
    old, new = (minimal_hitting_sets(one, max_terms=4).sets for one in (some_of(problem, first), problem))
    assert len(old) > 1_000
    check(after_new(old, problem, points[~first], max_terms=4), set(new))
    check(after_gone(new, some_of(problem, first), points[~first], max_terms=4), set(old))
    assert after_new(old, problem, points[~first], max_terms=4, most=10) is None
