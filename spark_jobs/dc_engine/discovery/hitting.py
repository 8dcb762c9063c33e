"""From patterns to the minimal sets of literals that hit all of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dc_engine.discovery.bits import first_of_each, packed, sets_of
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.searching import Contexts, Limits, all_of, searched, whole_of
from dc_engine.discovery.spreading import Workers, nobody
from dc_engine.discovery.terms import Literal

_NO_LIMIT = 1 << 62


@dataclass(frozen=True, slots=True)
class Problem:
    """Points to be hit, as rows of truth values, one for each literal; and what a literal is."""

    points: np.ndarray
    vital: np.ndarray
    """Where a literal that hits a point does what no weaker literal of its term would."""
    term_of: np.ndarray
    most_of: np.ndarray
    weaker: np.ndarray | None = None
    """For each literal the one of its term that does part of what it does, or -1; without it there are none."""
    bars: np.ndarray | None = None
    """For each literal a row of truth values: those that are not chosen together with it; without it there are none."""
    stronger: np.ndarray | None = None
    """For each literal that is vital wherever it hits, one that hits all that it does, is vital where it hits more, and
    is barred by all that bar it; or -1. The search, which begins at no root, chooses the weaker one first."""
    contexts: Contexts | None = None
    """Sets that are to be found are among these; without them all are."""


@dataclass(frozen=True, slots=True)
class Hitting:
    """Minimal hitting sets, and whether they are all of them.

    A search that was stopped has all that use up to ``complete_terms`` terms, and no others.
    """

    sets: list[frozenset[int]] = field(default_factory=list)
    nodes: int = 0
    complete: bool = True
    complete_terms: int | None = None
    stopped: str = ""
    """What stopped it: ``sets``, ``nodes`` or ``seconds``."""

    @property
    def bound(self) -> int | None:
        """Up to how many terms they are all; nothing if they are."""
        return None if self.complete else self.complete_terms or 0


def problem_of(layout: Layout, patterns: np.ndarray, literals: Sequence[Literal] | None = None) -> Problem:
    """The points of some patterns and of their mirror images: which literals each of them satisfies."""
    both = np.concatenate([patterns, layout.mirrored(patterns)])
    return deduplicated(points_of(layout, both[first_of_each(both)], literals))


def points_of(layout: Layout, patterns: np.ndarray, literals: Sequence[Literal] | None = None) -> Problem:
    """Of each pattern a point: the literals that it satisfies, those of the terms unless others are given.

    With a NULL in the way no predicate on a term holds, so that every literal of the term hits.
    """
    literals = layout.terms.literals if literals is None else literals
    points = np.zeros((len(patterns), len(literals)), bool)
    vital = np.zeros_like(points)
    for place in range(len(layout.terms.terms)):
        mine = [number for number, one in enumerate(literals) if one.term == place]
        if not mine:
            continue
        outcomes = layout.outcomes(patterns, place)
        null = layout.involves_null(patterns, place)
        for number in mine:
            points[:, number] = null | (outcomes & int(literals[number].excludes) != 0)
            vital[:, number] = points[:, number] & (null | (outcomes & int(literals[number].vital) != 0))
            if literals[number].vital != literals[number].excludes:
                vital[:, number] &= ~null  # the weaker literal hits it too
    term_of = np.array([one.term for one in literals], np.int64)
    return Problem(points, vital, term_of, np.array(layout.terms.most, np.int64), _weaker(literals))


def _weaker(literals: Sequence[Literal]) -> np.ndarray:
    """For each literal the number of the one that its vital outcomes leave, or -1."""
    numbers = {(one.term, one.excludes): number for number, one in enumerate(literals)}
    return np.array([numbers.get((one.term, one.excludes & ~one.vital), -1) for one in literals], np.int64)


def deduplicated(problem: Problem) -> Problem:
    """The same problem with each point once."""
    kept = first_of_each(np.concatenate([packed(problem.points), packed(problem.vital)], axis=1))
    return replace(problem, points=problem.points[kept], vital=problem.vital[kept])


def minimal_hitting_sets(
    problem: Problem,
    *,
    max_terms: int | None = None,
    most: int = 10_000_000,
    max_nodes: int = _NO_LIMIT,
    seconds: float | None = None,
    threads: int | None = None,
    workers: Workers = nobody,
) -> Hitting:
    """All minimal hitting sets.

    When there are more than ``most`` sets, or ``max_nodes`` nodes or ``seconds`` do not do for all, the result has
    those of 1, 2, 3 ... terms, as far as they could be completed.
    """
    points = problem.points
    if not len(points):
        return Hitting([frozenset()])
    terms = len(problem.most_of) if max_terms is None else min(max_terms, len(problem.most_of))
    if not points.shape[1] or terms <= 0 or not points.any(axis=1).all():
        return Hitting()  # no literal may be chosen, or there is a point that nothing hits
    rest = problem.bars, problem.stronger, problem.contexts
    whole = whole_of(points, problem.vital, problem.term_of, problem.most_of, terms, *rest)
    end = None if seconds is None else time.monotonic() + seconds

    def attempt(limits: Limits, up_to: int) -> list[frozenset[int]]:
        some = whole._replace(max_terms=up_to)
        found = searched(some, all_of(some), limits, threads, workers)
        return [] if limits.stopped else sets_of(found, points.shape[1])

    # At first a third of what may be spent goes into all of them: mostly it does, and costs nothing more.
    limits = Limits(most, max_nodes // 3, None if seconds is None else time.monotonic() + seconds / 3)
    sets = attempt(limits, terms)
    if not limits.stopped:
        return Hitting(sets, limits.nodes)
    sets, done, stopped = [], 0, limits.stopped
    while done < terms - (stopped == "sets"):
        limits = Limits(most, max_nodes, end, nodes=limits.nodes)
        more = attempt(limits, done + 1)
        if limits.stopped:
            stopped = limits.stopped
            break
        sets, done = more, done + 1
    return Hitting(sets, limits.nodes) if done == terms else Hitting(sets, limits.nodes, False, done, stopped)
