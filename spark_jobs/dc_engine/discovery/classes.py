"""The classes of dependencies, each found from patterns in its own sense of minimal: ``unique``, ``fd``, ``dc``.

A minimal ``fd`` need not be a minimal ``dc``: a more general rule of another form may imply it. So each class is
enumerated for itself, from the same patterns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from dc_engine.constraints.contradiction import contradiction
from dc_engine.constraints.model import Body, Column, Predicate
from dc_engine.constraints.normalise import normalise, swapped
from dc_engine.discovery.hitting import Hitting, Problem, deduplicated, minimal_hitting_sets, problem_of
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.terms import ALL, Outcome, Terms, op_of

Columns = frozenset[str]
DIFFERENT = Outcome.LESS | Outcome.GREATER


@dataclass(frozen=True, slots=True)
class Found:
    """The dependencies of one class: left sides for each right side (``unique`` has none), or bodies."""

    left: Mapping[str, list[Columns]] = field(default_factory=dict)
    bodies: list[Body] = field(default_factory=list)
    complete: bool = True


def uniques(layout: Layout, patterns: np.ndarray, *, max_columns: int | None = None) -> Found:
    """The smallest sets of columns on which no two rows agree."""
    names, differs, _ = _equalities(layout, patterns)
    found = _left_sides(names, differs, max_columns)
    return Found({"": _named(names, found)}, complete=found.complete)


def fds(layout: Layout, patterns: np.ndarray, *, max_columns: int | None = None) -> Found:
    """For each column the smallest sets of others that decide it; a constant one is decided by none."""
    names, differs, unequal = _equalities(layout, patterns)
    left, complete = {}, True
    for place, name in enumerate(names):
        others = [one for one in range(len(names)) if one != place]
        found = _left_sides([names[one] for one in others], differs[unequal[:, place]][:, others], max_columns)
        left[name] = _named([names[one] for one in others], found)
        complete &= found.complete
    return Found(left, complete=complete)


def _equalities(layout: Layout, patterns: np.ndarray) -> tuple[list[str], np.ndarray, np.ndarray]:
    """The columns that are compared with themselves; where ``=`` does not hold between them, and where ``!=`` does."""
    places = [place for place, term in enumerate(layout.terms.terms) if term.own]
    outcomes = [layout.outcomes(patterns, place) for place in places]
    empty = np.zeros((len(patterns), 0), bool)
    differs = np.stack([one != Outcome.EQUAL for one in outcomes], axis=1) if places else empty
    unequal = np.stack([one & int(DIFFERENT) != 0 for one in outcomes], axis=1) if places else empty
    return [layout.terms.terms[place].left for place in places], differs, unequal


def _left_sides(names: list[str], edges: np.ndarray, max_columns: int | None) -> Hitting:
    width = len(names)
    problem = deduplicated(Problem(edges, edges, np.arange(width), np.ones(width, np.int64)))
    return minimal_hitting_sets(_smallest(problem), max_terms=max_columns)


def _smallest(problem: Problem) -> Problem:
    """The problem without points that contain another: whatever hits the smaller one hits them."""
    points = problem.points[np.argsort(problem.points.sum(axis=1), kind="stable")]
    kept = np.zeros((0, points.shape[1]), bool)
    for one in points:
        if not (~kept | one).all(axis=1).any():
            kept = np.concatenate([kept, one[None, :]])
    return replace(problem, points=kept, vital=kept)


def _named(names: list[str], found: Hitting) -> list[Columns]:
    return [frozenset(names[one] for one in chosen) for chosen in found.sets]


def raw_dcs(layout: Layout, patterns: np.ndarray, *, max_terms: int | None = None) -> Hitting:
    """All minimal sets of literals: what is maintained."""
    return minimal_hitting_sets(problem_of(layout, patterns), max_terms=max_terms)


def shown_dcs(terms: Terms, raw: Iterable[frozenset[int]]) -> list[Body]:
    """What people see of them: one of each mirror pair, none that holds in every table, none that another implies.

    Where columns are compared with others, order is transitive, so that one may imply another although none of its
    predicates does by itself. Of several that imply each other the shortest is kept, the first by name among those.
    """
    bodies: dict[str, Body] = {}
    for chosen in raw:
        body = body_of(terms, chosen)
        ways = {str(way): way for way in (body, swapped(body))}
        text = min(ways)
        bodies.setdefault(text, ways[text])
    ordered = [bodies[text] for text in sorted(bodies, key=lambda text: (len(bodies[text]), text))]
    if all(term.own for term in terms.terms):
        return ordered
    possible = [body for body in ordered if contradiction(body) is None]
    kept: list[Body] = []
    for place, body in enumerate(possible):
        others = [*kept, *possible[place + 1 :]]
        stronger = [one for one in others if _implies(one, body)]
        if not any(one in kept or not _implies(body, one) for one in stronger):
            kept.append(body)
    return kept


def _implies(one: Body, other: Body) -> bool:
    """Whether a rule denies all that another does: where the other's body holds, so does its own, either way round."""
    return any(all(_follows(predicate, other) for predicate in way) for way in (one, swapped(one)))


def _follows(predicate: Predicate, body: Body) -> bool:
    return contradiction((*body, replace(predicate, op=predicate.op.negated))) is not None


def body_of(terms: Terms, chosen: Iterable[int]) -> Body:
    """The body that excludes some literals."""
    excluded: dict[int, Outcome] = {}
    for number in chosen:
        literal = terms.literals[number]
        excluded[literal.term] = excluded.get(literal.term, Outcome(0)) | literal.excludes
    predicates = []
    for place in sorted(excluded):
        term = terms.terms[place]
        predicates.append(Predicate(Column("t", term.left), op_of(ALL & ~excluded[place]), Column("s", term.right)))
    return normalise(tuple(predicates))
