"""Dependencies that hold but for a few pairs of rows, from all patterns and their numbers of pairs.

The error of a dependency is the share of the unordered pairs of rows that violate it, one way round or the other. It
holds approximately when its error is at most a bound, and is minimal when nothing of it can be left out: every literal,
taken away or made weaker, would let too many pairs through.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dc_engine.discovery.bits import packed, sets_of
from dc_engine.discovery.classes import equalities
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.problem import Problem, points_of
from dc_engine.discovery.searching import Limits

if TYPE_CHECKING:
    from dc_engine.kernels.errors import Items

_ROOM, _PATIENCE = 4_096, 256
_NO_LIMIT = 1 << 62

Error = float | Decimal | Fraction


@dataclass(frozen=True, slots=True)
class Approximate:
    """Sets of literals (or of columns by their numbers), each with the number of pairs of rows that violate it."""

    sets: list[frozenset[int]] = field(default_factory=list)
    violations: list[int] = field(default_factory=list)
    pairs: int = 0
    """All unordered pairs of rows."""
    complete: bool = True
    stopped: str = ""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is looked for: errors up to ``max_error``, so many terms or columns, so many sets, until a time."""

    max_error: Error
    max_terms: int | None = None
    most: int = 1_000_000
    end: float | None = None
    """By the clock that ``time.monotonic`` reads."""


def allowed_pairs(max_error: Error, pairs: int) -> int:
    """How many of the pairs may violate a dependency; 0.3 means three tenths exactly."""
    share = Fraction(str(max_error)) if isinstance(max_error, float | int) else Fraction(max_error)
    return math.floor(share * pairs)


def approximate_dcs(layout: Layout, patterns: np.ndarray, pairs: np.ndarray, bounds: Bounds) -> Approximate:
    """The minimal sets of literals; like the exact ones they come with their mirror images."""
    return approximate_sets(points_of(layout, patterns), points_of(layout, layout.mirrored(patterns)), pairs, bounds)


def approximate_uniques(layout: Layout, patterns: np.ndarray, pairs: np.ndarray, bounds: Bounds) -> Approximate:
    """The smallest sets of columns, numbered as ``equalities`` names them, on which few pairs of rows agree."""
    _, differs, _ = equalities(layout, patterns)
    return _columns(differs, pairs, bounds, int(pairs.sum()))


def approximate_fds(layout: Layout, patterns: np.ndarray, pairs: np.ndarray, bounds: Bounds) -> dict[str, Approximate]:
    """For each column the smallest sets of others of which few pairs of rows agree on all, but differ in the column."""
    names, differs, unequal = equalities(layout, patterns)
    result = {}
    for place, name in enumerate(names):
        broken = unequal[:, place]
        edges = differs[broken]
        edges[:, place] = False
        result[name] = _columns(edges, pairs[broken], bounds, int(pairs.sum()))
    return result


def _columns(differs: np.ndarray, pairs: np.ndarray, bounds: Bounds, total: int) -> Approximate:
    width = differs.shape[1]
    problem = Problem(differs, differs, np.arange(width), np.ones(width, np.int64))
    return approximate_sets(problem, problem, pairs, bounds, total)


def approximate_sets(
    one: Problem, mirror: Problem, pairs: np.ndarray, bounds: Bounds, total: int | None = None
) -> Approximate:
    """All minimal sets of two problems whose points belong together, line by line."""
    from dc_engine.kernels.errors import search, start

    total = int(pairs.sum()) if total is None else total
    bound, width = allowed_pairs(bounds.max_error, total), one.points.shape[1]
    if int(pairs.sum()) <= bound:
        return Approximate([frozenset()], [int(pairs.sum())], total)
    items = _items(one, mirror, pairs, bounds.max_terms, bound)
    if not width or not items.max_terms:
        return Approximate(pairs=total)
    limits, walk = Limits(bounds.most, _NO_LIMIT, bounds.end), start(items)
    found, errors = np.zeros((_ROOM, items.points.shape[2]), np.uint64), np.zeros(_ROOM, np.int64)
    sets: list[frozenset[int]] = []
    violations: list[int] = []
    while walk.state[0] >= 0 and not limits.stopped:
        number, nodes = search(items, walk, found, errors, _PATIENCE)
        sets += sets_of(found[:number], width)
        violations += errors[:number].tolist()
        limits.took(number, nodes)
    return Approximate(sets[: bounds.most], violations[: bounds.most], total, not limits.stopped, limits.stopped)


def _items(one: Problem, mirror: Problem, pairs: np.ndarray, max_terms: int | None, bound: int) -> Items:
    """Patterns and mirror images as the search needs them, those that look the same as one."""
    from dc_engine.kernels.errors import Items

    parts = [packed(some) for problem in (one, mirror) for some in (problem.points, problem.points & problem.vital)]
    lines, inverse = np.unique(np.concatenate(parts, axis=1), axis=0, return_inverse=True)
    sums = np.zeros(len(lines), np.int64)
    np.add.at(sums, inverse.ravel(), pairs.astype(np.int64))
    points, vital, turned, turned_vital = np.split(lines, 4, axis=1)
    terms = len(one.most_of)
    return Items(
        np.stack([points, turned], axis=1),
        np.stack([vital, turned_vital], axis=1),
        sums,
        one.term_of.astype(np.int64),
        one.most_of.astype(np.int64),
        packed(one.term_of[None, :] == np.arange(terms)[:, None]),
        terms if max_terms is None else min(max_terms, terms),
        bound,
        packed(np.zeros((len(one.term_of),) * 2, bool) if one.bars is None else one.bars),
    )
