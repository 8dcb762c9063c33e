"""Approximate dependencies are those of the definition: every set is tried, every pair of rows is counted."""

from __future__ import annotations

import itertools
import time
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.discovery.approximate import (
    Bounds,
    allowed_pairs,
    approximate_dcs,
    approximate_fds,
    approximate_uniques,
)
from dc_engine.discovery.boxes import said
from dc_engine.discovery.classes import raw_dcs
from dc_engine.discovery.enumerating import approximately
from dc_engine.discovery.patterns import Layout
from tests.discovery import oracle
from tests.discovery.test_classes import agree, minimal, own_terms, plain_tables, subsets
from tests.discovery.test_hitting import patterns_of, rule_of, tables, terms_of

ERRORS = st.sampled_from([0, Fraction(1, 15), 0.1, 0.3, 0.5, 1])


def counted(layout: Layout, rows: list) -> tuple[np.ndarray, np.ndarray]:
    patterns = layout.canonical(patterns_of(layout, rows))
    distinct, pairs = np.unique(patterns, axis=0, return_counts=True) if len(patterns) else (patterns, np.zeros(0))
    return distinct, pairs.astype(np.int64)


def broken(rule: oracle.Rule, rows: list) -> int:
    """The unordered pairs that violate a rule, one way round or the other."""
    return sum(
        any(all(oracle.satisfies(one, *way) for one in rule) for way in ((t, s), (s, t)))
        for t, s in itertools.combinations(rows, 2)
    )


@given(tables(), ERRORS, st.none() | st.integers(0, 2))
def test_rules_that_few_pairs_violate(table, error, max_terms):
    rows, ops = table
    rows = rows[:5]
    layout = Layout(terms_of(ops, rows))
    patterns, pairs = counted(layout, rows)
    found = approximate_dcs(layout, patterns, pairs, Bounds(error, max_terms))
    bound = allowed_pairs(error, len(rows) * (len(rows) - 1) // 2)
    smallest = oracle.smallest(oracle.rules(ops), lambda one: broken(one, rows) <= bound)
    named = [rule_of(layout.terms, one) for one in found.sets]
    assert found.complete
    assert len(set(named)) == len(named)
    assert set(named) == {one for one in smallest if max_terms is None or len(one) <= max_terms}
    assert found.violations == [broken(one, rows) for one in named]


@given(plain_tables(), ERRORS)
def test_columns_on_which_few_pairs_agree_and_those_that_nearly_decide_another(rows, error):
    layout = own_terms(rows)
    patterns, pairs = counted(layout, rows)
    names = list(rows[0])
    couples = list(itertools.combinations(rows, 2))
    bound = allowed_pairs(error, len(couples))

    def compare(found, sides, wrong):
        errors = {one: sum(agree(sorted(one), t, s) for t, s in wrong) for one in sides}
        sets = [frozenset(names[number] for number in one) for one in found.sets]
        assert set(sets) == minimal([one for one, number in errors.items() if number <= bound])
        assert len(set(sets)) == len(sets)
        assert found.violations == [errors[one] for one in sets]
        assert found.pairs == len(couples)

    compare(approximate_uniques(layout, patterns, pairs, Bounds(error)), subsets(names), couples)
    for right, found in approximate_fds(layout, patterns, pairs, Bounds(error)).items():
        wrong = [(t, s) for t, s in couples if None not in (t[right], s[right]) and t[right] != s[right]]
        compare(found, subsets([name for name in names if name != right]), wrong)


@given(tables())
def test_without_errors_they_are_the_exact_ones(table):
    rows, ops = table
    layout = Layout(terms_of(ops, rows))
    patterns, pairs = counted(layout, rows)
    assert set(approximate_dcs(layout, patterns, pairs, Bounds(0)).sets) == set(raw_dcs(layout, patterns).sets)


def test_a_search_that_is_stopped_says_so():
    chance = np.random.default_rng(4)
    rows = [
        {name: int(value) for name, value in zip("abcd", line, strict=True)} for line in chance.integers(0, 9, (40, 4))
    ]
    layout = own_terms(rows)
    patterns, pairs = counted(layout, rows)
    everything = approximate_dcs(layout, patterns, pairs, Bounds(0.05))
    some = approximate_dcs(layout, patterns, pairs, Bounds(0.05, most=3))
    assert everything.complete
    assert (some.complete, some.stopped, len(some.sets)) == (False, "sets", 3)
    assert set(some.sets) < set(everything.sets)


def test_all_columns_together_have_the_time_that_is_given():
    chance = np.random.default_rng(4)
    names = [f"c{place}" for place in range(24)]
    rows = [
        {name: int(value) for name, value in zip(names, line, strict=True)} for line in chance.integers(0, 4, (80, 24))
    ]
    layout = own_terms(rows)
    patterns, pairs = counted(layout, rows)
    approximate_uniques(layout, patterns[:9], pairs[:9], Bounds(0.01))  # so that all is compiled
    before = time.process_time()
    found = approximately(layout, ("unique", "fd"), patterns, pairs, Bounds(0.01, end=time.monotonic() + 1))
    assert found.stopped == "seconds"
    assert time.process_time() - before < 12  # each of 25 searches alone would take longer than the second


@given(tables(), ERRORS, st.integers(0, 12))
def test_a_search_that_is_stopped_leaves_all_of_up_to_some_number_of_terms(table, error, most):
    rows, ops = table
    layout = Layout(terms_of(ops, rows))
    patterns, pairs = counted(layout, rows)
    classes = ("unique", "fd", "dc")
    everything = approximately(layout, classes, patterns, pairs, Bounds(error))
    some = approximately(layout, classes, patterns, pairs, Bounds(error, most=most))
    assert bool(some.stopped) == (some.bound is not None)
    kept = {name: set(boxes) for name, boxes in everything.sets.items()}
    if some.bound is not None:  # with 0, nothing was searched to its end
        kept = {
            name: {one for one in boxes if len(said(one)) <= some.bound and some.bound} for name, boxes in kept.items()
        }
    assert {name: set(boxes) for name, boxes in some.sets.items()} == kept
    for name, boxes in some.sets.items():
        assert all(some.violations[name][box] == everything.violations[name][box] for box in boxes)


def test_a_search_that_is_stopped_late_leaves_what_it_found_first():
    chance = np.random.default_rng(1)
    rows = [{f"c{place}": int(value) for place, value in enumerate(row)} for row in chance.integers(0, 3, (40, 9))]
    layout = own_terms(rows)
    patterns, pairs = counted(layout, rows)
    found = approximately(layout, ("unique",), patterns, pairs, Bounds(0.02, most=60))
    assert found.stopped == "sets"
    assert found.bound == 2
    later = approximately(layout, ("unique",), patterns, pairs, Bounds(0.02, most=200))
    assert later.bound is None or later.bound >= 4
