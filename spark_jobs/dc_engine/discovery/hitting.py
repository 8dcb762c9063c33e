"""From patterns to the minimal sets of literals that hit all of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from dc_engine.discovery.patterns import Layout

_FIRST_ROOM = 4_096
_MOST_NODES = 1 << 62


@dataclass(frozen=True, slots=True)
class Problem:
    """Points to be hit, as rows of truth values, one for each literal; and what a literal is."""

    points: np.ndarray
    vital: np.ndarray
    """Where a literal that hits a point does what no weaker literal of its term would."""
    term_of: np.ndarray
    most_of: np.ndarray


@dataclass(frozen=True, slots=True)
class Hitting:
    """Minimal hitting sets, and whether they are all of them."""

    sets: list[frozenset[int]] = field(default_factory=list)
    nodes: int = 0
    complete: bool = True


def problem_of(layout: Layout, patterns: np.ndarray) -> Problem:
    """The points of some patterns and of their mirror images: which literals each of them satisfies.

    With a NULL in the way no predicate on a term holds, so that every literal of the term hits.
    """
    both = np.unique(np.concatenate([patterns, layout.mirrored(patterns)]), axis=0)
    literals = layout.terms.literals
    points = np.zeros((len(both), len(literals)), bool)
    vital = np.zeros_like(points)
    for place in range(len(layout.terms.terms)):
        mine = [number for number, one in enumerate(literals) if one.term == place]
        if not mine:
            continue
        outcomes = layout.outcomes(both, place)
        null = layout.involves_null(both, place)
        for number in mine:
            points[:, number] = null | (outcomes & int(literals[number].excludes) != 0)
            vital[:, number] = points[:, number] & (null | (outcomes & int(literals[number].vital) != 0))
            if literals[number].vital != literals[number].excludes:
                vital[:, number] &= ~null  # the weaker literal hits it too
    term_of = np.array([one.term for one in literals], np.int64)
    return deduplicated(Problem(points, vital, term_of, np.array(layout.terms.most, np.int64)))


def deduplicated(problem: Problem) -> Problem:
    """The same problem with each point once."""
    if not len(problem.points):
        return problem
    together = np.concatenate([problem.points, problem.vital], axis=1)
    kept = np.unique(together, axis=0)
    half = problem.points.shape[1]
    return Problem(kept[:, :half], kept[:, half:], problem.term_of, problem.most_of)


def minimal_hitting_sets(
    problem: Problem,
    *,
    max_terms: int | None = None,
    root: Iterable[int] = (),
    forbidden: Iterable[int] = (),
    most: int = 10_000_000,
    max_nodes: int = _MOST_NODES,
) -> Hitting:
    """All minimal hitting sets with all literals of ``root`` and none that is ``forbidden``."""
    from dc_engine.kernels import hitting as kernel  # numba

    points, literals = problem.points, problem.points.shape[1]
    first = np.array(sorted(root), np.int64)
    if not len(points):
        return Hitting([] if len(first) else [frozenset()])
    if not literals or not points.any(axis=1).all():
        return Hitting()  # a point that nothing hits
    allowed = np.ones(literals, bool)
    allowed[[*first, *forbidden]] = False
    terms = len(problem.most_of) if max_terms is None else max_terms
    if terms == 0:
        return Hitting()
    packed = kernel.Problem(
        _packed(points),
        _packed(points.T),
        _packed((problem.vital & points).T),
        problem.term_of,
        problem.most_of,
        _packed(problem.term_of[None, :] == np.arange(len(problem.most_of))[:, None]),
        min(terms, len(problem.most_of)),
    )
    room = min(most, _FIRST_ROOM)
    while True:
        found = np.zeros((room, packed.points.shape[1]), np.uint64)
        number, nodes, stopped = kernel.search(packed, first, _packed(allowed[None, :])[0], found, max_nodes)
        if not stopped or number < room or room >= most:
            return Hitting(_unpacked(found[:number], literals), nodes, not stopped)
        room = min(most, 16 * room)


def _packed(bits: np.ndarray) -> np.ndarray:
    """Rows of truth values as rows of words, the first value in the lowest bit."""
    rows, width = bits.shape
    padded = np.zeros((rows, -(-max(width, 1) // 64) * 64), bool)
    padded[:, :width] = bits
    return np.packbits(padded, axis=1, bitorder="little").view(np.uint64)


def _unpacked(words: np.ndarray, literals: int) -> list[frozenset[int]]:
    bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")[:, :literals]
    return [frozenset(np.flatnonzero(row).tolist()) for row in bits]
