"""Pointwise order dependencies are those of the definition on marked attributes, exact and approximate."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.discovery import searching
from dc_engine.discovery.approximate import Bounds, allowed_pairs
from dc_engine.discovery.classes import Spend
from dc_engine.discovery.enumerating import approximately, enumerator
from dc_engine.discovery.hitting import minimal_hitting_sets
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.pointwise import Family
from dc_engine.discovery.problem import problem_of
from dc_engine.discovery.terms import EQUALITY, SIX
from tests.discovery.marked import forbidden_by, minimal_pods, terms_in
from tests.discovery.test_approximate import ERRORS, broken, counted
from tests.discovery.test_hitting import patterns_of, terms_of
from tests.discovery.test_keeping import rule_of

CELLS = st.integers(0, 2)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[dict[str, Any]], dict[str, bool], Layout]:
    """Rows, which columns are ordered, and how their patterns look; a column is compared with another one perhaps."""
    names = ["a", "b", "c"][: draw(st.integers(1, 3))]
    cells = {name: CELLS | st.none() if draw(st.booleans()) else CELLS for name in names}
    rows = draw(st.lists(st.fixed_dictionaries(cells), max_size=6))
    ordered = {name: draw(st.integers(0, 3)) > 0 for name in names}
    ops: dict[tuple[str, str], Any] = {(name, name): SIX if ordered[name] else EQUALITY for name in names}
    if len(names) > 1 and draw(st.booleans()):
        ops |= {("a", "b"): SIX, ("b", "a"): ()}
    return rows, ordered, Layout(terms_of(ops, rows))


@given(tables(), st.none() | st.integers(1, 3))
def test_pods_are_those_of_the_definition(table, max_terms):
    rows, ordered, layout = table
    found = enumerator(layout, ["pod"], max_terms)(patterns_of(layout, rows))
    boxes = found.sets["pod"]
    forbidden = {forbidden_by(rule_of(layout.terms, box)) for box in boxes}
    assert len(forbidden) == len(boxes), "each once"
    most = len(ordered) if max_terms is None else max_terms
    assert forbidden == {one for one in minimal_pods(ordered, rows) if terms_in(one) <= most}
    assert found.bound is None


@given(tables(), ERRORS)
def test_pods_that_few_pairs_violate(table, error):
    rows, ordered, layout = table
    rows = rows[:5]
    patterns, pairs = counted(layout, rows)
    found = approximately(layout, ["pod"], patterns, pairs, Bounds(error))
    allowed = allowed_pairs(error, len(rows) * (len(rows) - 1) // 2)
    rules = {box: rule_of(layout.terms, box) for box in found.sets["pod"]}
    assert {forbidden_by(rule) for rule in rules.values()} == minimal_pods(ordered, rows, allowed)
    assert len(rules) == len(found.sets["pod"])
    assert {box: broken(rule, rows) for box, rule in rules.items()} == found.violations["pod"]


def test_a_search_that_is_stopped_has_all_up_to_some_number_of_terms():
    rows = [{name: int(cell) for name, cell in zip("abcde", line, strict=True)} for line in _numbers(40, 5)]
    layout = Layout(terms_of({(name, name): SIX for name in "abcde"}, rows))
    patterns = patterns_of(layout, rows)
    all_of_them = enumerator(layout, ["pod"], None)(patterns).sets["pod"]
    some = enumerator(layout, ["pod"], None, lambda: Spend(len(all_of_them) // 2))(patterns)
    assert some.bound is not None
    assert some.stopped == "sets"
    assert some.sets["pod"] == enumerator(layout, ["pod"], some.bound)(patterns).sets["pod"]
    assert 0 < len(some.sets["pod"]) < len(all_of_them)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("trial", [0, 50_000])
def test_choosing_a_weaker_literal_first_finds_what_trying_all_of_them_does(seed, trial, monkeypatch):
    monkeypatch.setattr(searching, "_FEW_POINTS", 0)
    monkeypatch.setattr(searching, "_TRIAL", trial)
    rows = [dict(zip("abcdefg", line, strict=True)) for line in _numbers(50, 7, seed).tolist()]
    layout = Layout(terms_of({(name, name): SIX for name in "abcdefg"}, rows))
    family = Family(layout.terms)
    problem = replace(problem_of(layout, patterns_of(layout, rows), family.literals), bars=family.bars)
    found = minimal_hitting_sets(replace(problem, stronger=family.stronger), threads=2).sets
    every = minimal_hitting_sets(problem, threads=2).sets
    assert len(found) == len(every) > 1_000
    assert set(found) == set(every)


def _numbers(rows: int, columns: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 6, (rows, columns))
