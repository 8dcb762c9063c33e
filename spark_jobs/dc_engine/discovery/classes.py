"""The classes of dependencies, each found from patterns in its own sense of minimal: ``unique``, ``fd``, ``dc``.

A minimal ``fd`` need not be a minimal ``dc``: a more general rule of another form may imply it. So each class is
enumerated for itself, from the same patterns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from dc_engine.constraints.model import Body, Column, Predicate
from dc_engine.discovery.bits import first_of_each, packed, sets_of
from dc_engine.discovery.closure import without_implied
from dc_engine.discovery.hitting import Hitting, minimal_hitting_sets
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.problem import Contexts, Problem, problem_of, whole_of
from dc_engine.discovery.spreading import Workers, nobody
from dc_engine.discovery.terms import ADMITS, ALL, Outcome, Terms
from dc_engine.threads import side_by_side

Columns = frozenset[str]


@dataclass(frozen=True, slots=True)
class Spend:
    """What a search may spend: sets, and seconds; and who takes a long one."""

    most: int = 10_000_000
    seconds: float | None = None
    workers: Workers = nobody


NO_LIMIT = Spend()
DIFFERENT = Outcome.LESS | Outcome.GREATER
_FEW = 256
"""From so many patterns on threads share the search."""
_AT_ONCE = 16_384
"""So many patterns stay in the cache while all terms are looked at."""
TABLED = 17
"""Of so many columns every set has a place in a table."""


@dataclass(frozen=True, slots=True)
class Found:
    """Left sides for each right side (``unique`` has none). If it was stopped: all of up to so many columns."""

    left: Mapping[str, list[Columns]] = field(default_factory=dict)
    complete_columns: int | None = None
    stopped: str = ""


def uniques(
    layout: Layout,
    patterns: np.ndarray,
    *,
    max_columns: int | None = None,
    spend: Spend = NO_LIMIT,
    contexts: Contexts | None = None,
) -> Found:
    """The smallest sets of columns on which no two rows agree."""
    names, differs, _ = equalities(layout, patterns)
    contexts = replace(contexts, of_keys=True) if contexts else None
    return _found({"": names}, [left_sides(differs, None, max_columns, spend, contexts)])


def fds(
    layout: Layout,
    patterns: np.ndarray,
    *,
    max_columns: int | None = None,
    spend: Spend = NO_LIMIT,
    contexts: Contexts | None = None,
) -> Found:
    """For each column the smallest sets of others that decide it; a constant one is decided by none."""
    names, differs, unequal = equalities(layout, patterns)
    distinct = first_of_each(np.concatenate([packed(differs), packed(unequal)], axis=1))
    differs, unequal = differs[distinct], unequal[distinct]

    def decide(place: int) -> Hitting:
        return left_sides(differs[unequal[:, place]], place, max_columns, spend, contexts)

    sides = side_by_side(decide, range(len(names)), 1 if len(differs) < _FEW else None)
    return _found(dict.fromkeys(names, names), sides)


def _found(names: Mapping[str, list[str]], sides: list[Hitting]) -> Found:
    """All left sides; where the search for one right side was stopped, those of all are cut to what it has."""
    bound = min((one.bound for one in sides if one.bound is not None), default=None)
    left = {
        right: [frozenset(mine[one] for one in some) for some in found.sets if bound is None or len(some) <= bound]
        for (right, mine), found in zip(names.items(), sides, strict=True)
    }
    return Found(left, bound, next((one.stopped for one in sides if not one.complete), ""))


def equalities(layout: Layout, patterns: np.ndarray) -> tuple[list[str], np.ndarray, np.ndarray]:
    """The columns that are compared with themselves; where ``=`` does not hold between them, and where ``!=`` does."""
    places = list(layout.terms.own.values())
    differs, unequal = (np.zeros((len(patterns), len(places)), bool) for _ in range(2))
    for start in range(0, len(patterns), _AT_ONCE):
        some = slice(start, start + _AT_ONCE)
        for number, place in enumerate(places):
            outcomes = layout.outcomes(patterns[some], place)
            differs[some, number] = outcomes != Outcome.EQUAL
            unequal[some, number] = outcomes & int(DIFFERENT) != 0
    return list(layout.terms.own), differs, unequal


def left_sides(
    differs: np.ndarray,
    right: int | None,
    max_columns: int | None = None,
    spend: Spend = NO_LIMIT,
    contexts: Contexts | None = None,
) -> Hitting:
    """The smallest sets of columns, by their numbers and without ``right``, one of which differs in each row.

    Of sets that are not among the contexts, if these are given, some are found and some are not.
    """
    from dc_engine.kernels.contexts import smallest_left_sides
    from dc_engine.kernels.packing import smallest_points

    width = differs.shape[1]
    if width <= TABLED:
        edges = np.unique(packed(differs)[:, 0].astype(np.int64))
        most = width if max_columns is None else max_columns
        found = smallest_left_sides(edges, width, -1 if right is None else right, most)
        return Hitting(sets_of(found.astype(np.uint64)[:, None], width))
    points = differs.copy()
    if right is not None:
        points[:, right] = False
    if max_columns in (0, 1) and len(points):
        everywhere = np.flatnonzero(points.all(axis=0)).tolist() if max_columns else []
        return Hitting([frozenset([one]) for one in everywhere])
    terms, most_of = np.arange(width), np.ones(width, np.int64)
    points = points[smallest_points(whole_of(Problem(points, points, terms, most_of), width))]
    problem = Problem(points, points, terms, most_of, contexts=contexts)
    return minimal_hitting_sets(problem, max_terms=max_columns, most=spend.most, seconds=spend.seconds, threads=1)


def raw_dcs(layout: Layout, patterns: np.ndarray, *, max_terms: int | None = None, spend: Spend = NO_LIMIT) -> Hitting:
    """All minimal sets of literals: what is maintained."""
    problem = problem_of(layout, patterns)
    return minimal_hitting_sets(
        problem, max_terms=max_terms, most=spend.most, seconds=spend.seconds, workers=spend.workers
    )


def shown_dcs(terms: Terms, raw: Iterable[frozenset[int]]) -> list[Body]:
    """What people see of them: one of each mirror pair, none that holds in every table, none that another implies.

    Where columns are compared with others, order is transitive, so that one may imply another although none of its
    predicates does by itself. Of several that imply each other the shortest is kept, the first by terms among those.
    """
    ways = {min(way := _excluded(terms, chosen), _turned(terms, way)) for chosen in raw}
    bodies = [_body(terms, way) for way in sorted(ways, key=lambda way: (len(way), way))]
    return bodies if all(term.own for term in terms.terms) else without_implied(bodies)


Excluded = tuple[tuple[int, int], ...]
"""The outcomes that a body excludes, term by term."""


def _excluded(terms: Terms, chosen: Iterable[int]) -> Excluded:
    excluded: dict[int, int] = {}
    for number in chosen:
        literal = terms.literals[number]
        excluded[literal.term] = excluded.get(literal.term, 0) | literal.excludes.value
    return tuple(sorted(excluded.items()))


def _turned(terms: Terms, excluded: Excluded) -> Excluded:
    """The same with t and s exchanged: less is greater then."""
    return tuple(sorted((terms.mirror[place], _TURNED[outcomes]) for place, outcomes in excluded))


_TURNED = {one: one & 2 | (one & 1) << 2 | one >> 2 for one in range(8)}


def _body(terms: Terms, excluded: Excluded) -> Body:
    predicates = []
    for place, outcomes in excluded:
        term = terms.terms[place]
        predicates.append(Predicate(Column("t", term.left), _LEFT[outcomes], Column("s", term.right)))
    return tuple(predicates)


_LEFT = {int(ALL & ~admitted): op for op, admitted in ADMITS.items()}
"""The operator that is left when outcomes are excluded."""
