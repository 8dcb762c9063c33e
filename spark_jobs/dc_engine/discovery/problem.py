"""What is to be hit, and by what: points and literals, from patterns, and as the search needs them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dc_engine.discovery.bits import first_of_each, packed, packed_columns
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.terms import Literal

if TYPE_CHECKING:
    from dc_engine.kernels.packing import Whole


@dataclass(frozen=True, slots=True)
class Contexts:
    """The sets of columns that may be on a left side, with all their subsets, as sums of marks of their columns.

    Different sets may have the same sum, if seldom: what is found has to be looked at again.
    """

    marks: np.ndarray
    sums: np.ndarray
    """In order."""
    of_keys: bool = False
    """Whether it is enough that a set without any one of its columns is among them."""

    @staticmethod
    def of(columns: int, sets: Iterable[Sequence[int]]) -> Contexts:
        """From sets of columns, by their numbers."""
        marks = np.random.default_rng(0).integers(1, 1 << 63, columns).astype(np.uint64)
        sums = (np.bitwise_xor.reduce(marks[list(one)], initial=np.uint64(0)) for one in sets)
        return Contexts(marks, np.unique(np.fromiter(sums, np.uint64)))

    def among(self, columns: np.ndarray) -> Contexts:
        """The same for some of the columns."""
        return replace(self, marks=self.marks[columns])


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


def whole_of(problem: Problem, max_terms: int) -> Whole:
    """A problem as the search needs it, for sets of up to so many terms."""
    from dc_engine.kernels.packing import Whole

    points, vital, term_of, contexts = problem.points, problem.vital, problem.term_of, problem.contexts
    rows, columns = packed(points), packed_columns(points)
    same, width = vital is points, len(term_of)
    barred = np.zeros((width, width), bool) if problem.bars is None else problem.bars.copy()
    up, down = (np.full(width, -1, np.int64) for _ in range(2))
    if problem.stronger is not None:
        up, weak = problem.stronger.astype(np.int64), np.flatnonzero(problem.stronger >= 0)
        down[up[weak]] = weak
        barred[weak, up[weak]] = False  # it may take its place
    return Whole(
        rows,
        rows if same else packed(vital) & rows,
        columns,
        columns if same else packed_columns(vital) & columns,
        term_of.astype(np.int64),
        problem.most_of.astype(np.int64),
        packed(term_of[None, :] == np.arange(len(problem.most_of))[:, None]),
        max_terms,
        packed(barred),
        up,
        down,
        bool((up >= 0).any()),
        np.zeros(0, np.uint64) if contexts is None else contexts.marks,
        np.zeros(0, np.uint64) if contexts is None else contexts.sums,
        contexts is not None and contexts.of_keys,
    )
