"""A search in threads finds what one thread does; one that is stopped says how far it came."""

from __future__ import annotations

import itertools
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.discovery import searching
from dc_engine.discovery.hitting import minimal_hitting_sets
from dc_engine.discovery.problem import Problem
from dc_engine.engines.work import searchers
from dc_engine.sizes import other_sizes
from tests.discovery.test_hitting import POINTS, brute_force, plain
from tests.inprocess import Session


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Problems of terms with one or two literals at a time, some of which are worth their while at some points only.

    Perhaps some do not go together, whatever their terms, and some are stronger than others.
    """
    kinds = draw(st.lists(st.sampled_from([(1, 1), (2, 1), (2, 2), (3, 2)]), min_size=1, max_size=4))
    term_of = np.repeat(np.arange(len(kinds)), [size for size, _ in kinds])
    width = len(term_of)
    rows = draw(st.lists(st.tuples(st.integers(1, 2**width - 1), st.integers(0, 2**width - 1)), max_size=14))
    points = np.array([[point >> v & 1 for v in range(width)] for point, _ in rows], bool).reshape(-1, width)
    vital = np.array([[point & worth >> v & 1 for v in range(width)] for point, worth in rows], bool).reshape(-1, width)
    vital = vital & points if draw(st.booleans()) else points
    bars = np.zeros((width, width), bool)
    for one, other in draw(st.lists(st.tuples(*[st.integers(0, width - 1)] * 2), max_size=6)):
        bars[one, other] = bars[other, one] = one != other
    stronger = np.full(width, -1)
    for term, kind in enumerate(kinds):
        if kind == (2, 2) and draw(st.booleans()):
            weak, strong = np.flatnonzero(term_of == term)
            points[:, strong] |= points[:, weak]
            vital = vital.copy()
            vital[:, weak], vital[:, strong] = points[:, weak], points[:, strong] & ~points[:, weak]
            bars[strong], stronger[weak] = bars[strong] | bars[weak], strong
            bars[strong, strong], bars[:, strong] = False, bars[strong]
            bars[weak, strong] = bars[strong, weak] = True
    most_of = np.array([most for _, most in kinds], np.int64)
    return Problem(
        points, vital, term_of, most_of, bars=bars if bars.any() else None, stronger=stronger if bars.any() else None
    )


def by_definition(problem: Problem, max_terms: int | None = None) -> set[frozenset[int]]:
    """All sets that hit every point, each literal of which is the only one to hit some point where it is vital."""
    width = problem.points.shape[1]
    found = set()
    for size in range(width + 1):
        for some in itertools.combinations(range(width), size):
            terms = problem.term_of[list(some)]
            within = (np.bincount(terms, minlength=len(problem.most_of)) <= problem.most_of).all()
            few = max_terms is None or len(set(terms.tolist())) <= max_terms
            hits = problem.points[:, list(some)]
            apart = problem.bars is None or not problem.bars[np.ix_(some, some)].any()
            if within and apart and few and hits.any(axis=1).all() and all(_needed(problem, some, v) for v in some):
                found.add(frozenset(some))
    return found


def _needed(problem: Problem, some: tuple[int, ...], literal: int) -> bool:
    alone = problem.points[:, list(some)].sum(axis=1) == 1
    return bool((alone & problem.points[:, literal] & problem.vital[:, literal]).any())


@given(problems(), st.none() | st.integers(1, 3), st.booleans(), st.sampled_from([0, 3, 50_000]))
def test_sets_are_those_of_the_definition_in_one_thread_and_in_two(problem, max_terms, threads, trial):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(searching, "_FEW_POINTS", 0)
        patch.setattr(searching, "_TRIAL", trial)
        found = minimal_hitting_sets(problem, max_terms=max_terms, threads=1 + threads)
    assert found.complete
    assert len(set(found.sets)) == len(found.sets)
    assert set(found.sets) == by_definition(problem, max_terms)


@given(POINTS, st.sampled_from(["sets", "nodes", "seconds"]), st.integers(0, 12), st.sampled_from([0, 3_000]))
def test_a_search_that_is_stopped_has_all_sets_of_up_to_so_many_terms(points, limit, number, few):
    problem = plain(points)
    limits = {"sets": {"most": number}, "nodes": {"max_nodes": number}, "seconds": {"seconds": number / 1e5}}[limit]
    everything = brute_force(problem.points) if points else {frozenset()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(searching, "_FEW_POINTS", few)
        patch.setattr(searching, "_TRIAL", 2)
        found = minimal_hitting_sets(problem, threads=2, **limits)
    if found.complete:
        assert set(found.sets) == everything
        assert found.complete_terms is None
    else:
        assert found.stopped == limit
        assert set(found.sets) == {one for one in everything if len(one) <= found.complete_terms}


def test_two_hundred_columns_with_a_bound():
    chance = np.random.default_rng(3)
    points = chance.random((3_500, 200)) < 0.6
    found = minimal_hitting_sets(plain(points.tolist()), max_terms=2, threads=2)
    assert found.complete
    assert all(points[:, list(one)].any(axis=1).all() for one in found.sets)
    missed = (~points).astype(np.int64)
    assert len(found.sets) == int(((missed.T @ missed == 0) & np.triu(np.ones((200, 200), bool), 1)).sum())
    some = points[:40]
    wide = minimal_hitting_sets(plain(some.tolist()), max_terms=3, threads=2)
    missed = ~some
    triples = [
        (a, b, c)
        for a, b in itertools.combinations(range(200), 2)
        if (pair := missed[:, a] & missed[:, b]).any()
        for c in np.flatnonzero(~(pair[:, None] & missed).any(axis=0)).tolist()
        if c > b and (missed[:, a] & missed[:, c]).any() and (missed[:, b] & missed[:, c]).any()
    ]
    assert {tuple(sorted(one)) for one in wide.sets if len(one) == 3} == set(triples)


CUTS = {"pairs_here": 0, "unit_pairs": 1, "search_jobs": 2}


@given(problems(), st.none() | st.integers(1, 3), st.integers(0, 4), st.integers())
def test_others_search_what_was_not_begun_in_time(problem, max_terms, seconds, seed):
    """The clock of the test goes on by a second whenever somebody looks at it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(searching, "_FEW_POINTS", 0)
        patch.setattr(searching, "_TRIAL", 0)
        alone = minimal_hitting_sets(problem, max_terms=max_terms, threads=1)
        patch.setattr(searching.time, "monotonic", itertools.count().__next__)
        with other_sizes(**CUTS, searched_seconds=seconds):
            workers = searchers(Session(random=Random(seed)))
            shared = minimal_hitting_sets(problem, max_terms=max_terms, threads=1, workers=workers)
    assert len(shared.sets) == len(alone.sets), "each once"
    assert set(shared.sets) == set(alone.sets)
    assert shared.complete
    assert set(shared.sets) == by_definition(problem, max_terms)


@given(POINTS, st.sampled_from(["sets", "nodes", "seconds"]), st.integers(0, 12))
def test_a_limit_also_ends_the_search_of_others(points, limit, number):
    problem = plain(points)
    limits = {"sets": {"most": number}, "nodes": {"max_nodes": number}, "seconds": {"seconds": number / 1e4}}[limit]
    everything = brute_force(problem.points) if points else {frozenset()}
    with pytest.MonkeyPatch.context() as patch, other_sizes(**CUTS, searched_seconds=0):
        patch.setattr(searching, "_FEW_POINTS", 0)
        patch.setattr(searching, "_TRIAL", 2)
        found = minimal_hitting_sets(problem, workers=searchers(Session()), **limits)
    if found.complete:
        assert set(found.sets) == everything
    else:
        assert found.stopped == limit
        assert set(found.sets) == {one for one in everything if len(one) <= found.complete_terms}
