"""The minimal hitting sets of a table's patterns are its minimal rules, whatever terms, operators and NULLs it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.constraints.model import Op
from dc_engine.discovery.hitting import minimal_hitting_sets
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.problem import Problem, deduplicated, problem_of
from dc_engine.discovery.terms import ALL, EQUALITY, INEQUALITIES, SIX, Outcome, Term, Terms, op_of
from tests.discovery.oracle import Rule, minimal_rules, rules

CELLS = st.none() | st.integers(0, 2)
OPS = st.sampled_from([SIX, EQUALITY, INEQUALITIES, (Op.EQ,), (Op.NE,), (Op.LT, Op.GT)])


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[dict[str, Any]], dict[tuple[str, str], Sequence[Op]]]:
    names = ["a", "b", "c"][: draw(st.integers(1, 3))]
    rows = draw(st.lists(st.fixed_dictionaries(dict.fromkeys(names, CELLS)), max_size=6))
    ops: dict[tuple[str, str], Sequence[Op]] = {(name, name): draw(OPS) for name in names}
    if len(names) > 1 and draw(st.booleans()):
        ops["a", "b"] = draw(OPS)
        ops["b", "a"] = draw(st.just(()) | OPS)
    return rows, ops


def terms_of(ops: Mapping[tuple[str, str], Sequence[Op]], rows: Sequence[Mapping[str, Any]]) -> Terms:
    nullable = frozenset(name for row in rows for name, value in row.items() if value is None)
    ordered = {pair: bool(set(some) - set(EQUALITY)) for pair, some in ops.items()}
    made = [Term(a, b, tuple(some), ordered[a, b] or ordered[b, a]) for (a, b), some in ops.items()]
    return Terms(tuple(made), nullable)


def patterns_of(layout: Layout, rows: Sequence[Mapping[str, Any]]) -> np.ndarray:
    """The patterns of all pairs of rows."""
    t, s = np.triu_indices(len(rows), 1)
    codes = {name: np.array([-1 if row[name] is None else row[name] for row in rows]) for name in (rows or [{}])[0]}
    if not len(t):
        return np.zeros((0, layout.words), np.uint64)
    terms = layout.terms.terms
    return layout.pack([codes[one.left][t] for one in terms], [codes[one.right][s] for one in terms])


def rule_of(terms: Terms, chosen: frozenset[int]) -> Rule:
    excluded: dict[int, Outcome] = {}
    for number in chosen:
        one = terms.literals[number]
        excluded[one.term] = excluded.get(one.term, Outcome(0)) | one.excludes
    named = [(terms.terms[place], op_of(ALL & ~some)) for place, some in excluded.items()]
    return frozenset((term.left, op.value, term.right) for term, op in named)


@given(tables())
def test_minimal_hitting_sets_are_the_minimal_rules(table):
    rows, ops = table
    layout = Layout(terms_of(ops, rows))
    found = minimal_hitting_sets(problem_of(layout, patterns_of(layout, rows)))
    assert found.complete
    named = [rule_of(layout.terms, one) for one in found.sets]
    assert len(set(named)) == len(named)
    assert set(named) == minimal_rules(ops, rows)


@given(tables())
def test_a_bound_on_terms_gives_all_of_up_to_so_many_terms(table):
    rows, ops = table
    layout = Layout(terms_of(ops, rows))
    problem = problem_of(layout, patterns_of(layout, rows))
    everything = [rule_of(layout.terms, one) for one in minimal_hitting_sets(problem).sets]
    for most in range(len(ops) + 1):
        some = minimal_hitting_sets(problem, max_terms=most).sets
        assert {rule_of(layout.terms, one) for one in some} == {one for one in everything if len(one) <= most}


@given(tables())
def test_patterns_are_the_same_after_two_exchanges_and_one_of_two_is_kept(table):
    rows, ops = table
    layout = Layout(terms_of(ops, rows))
    patterns = patterns_of(layout, rows)
    mirrored = layout.mirrored(patterns)
    assert (layout.mirrored(mirrored) == patterns).all()
    assert (patterns_of(layout, rows[::-1])[np.argsort(order_of_pairs(len(rows)))] == mirrored).all()
    assert (layout.canonical(patterns) == layout.canonical(mirrored)).all()


def order_of_pairs(rows: int) -> np.ndarray:
    """Where each pair of rows is when the rows are taken in the opposite order."""
    t, s = np.triu_indices(rows, 1)
    return np.lexsort((rows - 1 - t, rows - 1 - s)) if rows > 1 else np.zeros(0, np.int64)


POINTS = st.integers(1, 7).flatmap(
    lambda width: st.lists(st.lists(st.booleans(), min_size=width, max_size=width), max_size=12)
)


def brute_force(points: np.ndarray) -> set[frozenset[int]]:
    width = points.shape[1]
    sets = [frozenset(one for one in range(width) if number >> one & 1) for number in range(1 << width)]
    hitting = [one for one in sets if all(any(point[v] for v in one) for point in points)]
    return {one for one in hitting if not any(other < one for other in hitting)}


def plain(points: list[list[bool]]) -> Problem:
    width = len(points[0]) if points else 3
    bits = np.array(points, bool).reshape(len(points), width)
    return deduplicated(Problem(bits, bits, np.arange(width), np.ones(width, np.int64)))


@given(POINTS, st.integers(0, 5))
def test_a_search_that_stops_says_so_and_what_it_found_is_right(points, most):
    problem = plain(points)
    everything = brute_force(problem.points) if points else {frozenset()}
    found = minimal_hitting_sets(problem, most=most)
    assert set(found.sets) <= everything
    assert found.complete == (len(found.sets) == len(everything))
    assert len(found.sets) <= max(most, 1)


def test_more_literals_and_points_than_fit_a_word():
    chance = np.random.default_rng(11)
    points = chance.random((150, 130)) < 0.5
    found = minimal_hitting_sets(plain(points.tolist()), max_terms=3).sets
    assert all(points[:, list(one)].any(axis=1).all() for one in found)
    assert all(not points[:, list(one - {v})].any(axis=1).all() for one in found for v in one)
    pairs = np.array([points[:, a] | points[:, b] for a in range(130) for b in range(a + 1, 130)])
    triples = sum(
        int((points[:, c] | pair).all())
        for (a, b), pair in zip(np.argwhere(np.triu(np.ones((130, 130)), 1)), pairs, strict=True)
        for c in range(b + 1, 130)
    )
    assert len([one for one in found if len(one) == 3]) == triples


def test_the_oracle_knows_all_rules():
    assert len(set(rules({("a", "a"): SIX, ("b", "b"): EQUALITY}))) == 7 * 3
