"""Pointwise order dependencies: the class ``pod``.

``midterm >, final > -> grade >`` says that a row above another in both exams is above it in the grade. Its body is the
left side and the inverse of the right side: comparisons of columns with themselves, of which at most one is ``!=``. A
dependency is minimal when its box lies in no larger one *of this family*, which may well lie in a larger one of class
``dc``. So the family has literals of its own, one for each operator, that are searched for like any others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dc_engine.discovery.approximate import Bounds, approximate_sets
from dc_engine.discovery.bits import packed, truth_of
from dc_engine.discovery.boxes import Box, follow, turned
from dc_engine.discovery.classes import NO_LIMIT, Spend
from dc_engine.discovery.hitting import Hitting, minimal_hitting_sets
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.problem import Problem, points_of, problem_of, whole_of
from dc_engine.discovery.terms import ALL, SIX, Literal, Outcome, Terms

_LESS, _EQUAL, _GREATER = Outcome.LESS, Outcome.EQUAL, Outcome.GREATER
_DIFFERENT = _LESS | _GREATER


@dataclass(frozen=True)
class Family:
    """The bodies with at most one ``!=``, as sets of literals."""

    terms: Terms

    @cached_property
    def literals(self) -> tuple[Literal, ...]:
        """What may be excluded: of an ordered term what ``<=``, ``>=``, ``<``, ``>`` and ``!=`` exclude.

        ``=`` excludes what ``<=`` and ``>=`` do. Of a strict order equality is vital: without it the other would do.
        """
        ordered = (
            (_GREATER, _GREATER),
            (_LESS, _LESS),
            (_GREATER | _EQUAL, _EQUAL),
            (_LESS | _EQUAL, _EQUAL),
            (_EQUAL, _EQUAL),
        )
        unordered = ((_DIFFERENT, _DIFFERENT), (_EQUAL, _EQUAL))
        return tuple(
            Literal(place, excludes, vital)
            for place in sorted(self.terms.own.values())
            if self.terms.terms[place].ops
            for excludes, vital in (ordered if set(self.terms.terms[place].ops) == set(SIX) else unordered)
        )

    @cached_property
    def bars(self) -> np.ndarray:
        """Which literals do not go together: of a term all but ``<=`` and ``>=``, and any two with ``!=``."""
        together = {_LESS, _GREATER}
        return np.array(
            [
                [
                    one is not other
                    and (
                        (one.term == other.term and {one.excludes, other.excludes} != together)
                        or one.excludes == other.excludes == _EQUAL
                    )
                    for other in self.literals
                ]
                for one in self.literals
            ],
            bool,
        ).reshape(len(self.literals), len(self.literals))

    @cached_property
    def stronger(self) -> np.ndarray:
        """For ``<=`` and ``>=`` the strict order, by the places of their literals."""
        places = {(one.term, one.excludes & ~one.vital): place for place, one in enumerate(self.literals)}
        return np.array([places.get((one.term, one.excludes), -1) for one in self.literals], np.int64)

    def exactly(self, layout: Layout, patterns: np.ndarray, max_terms: int | None, spend: Spend = NO_LIMIT) -> Hitting:
        """All minimal sets."""
        problem = replace(problem_of(layout, patterns, self.literals), bars=self.bars, stronger=self.stronger)
        found = minimal_hitting_sets(
            problem, max_terms=max_terms, most=spend.most, seconds=spend.seconds, workers=spend.workers
        )
        return replace(found, sets=self._minimal(problem, found.sets))

    def _minimal(self, problem: Problem, sets: list[frozenset[int]]) -> list[frozenset[int]]:
        """The sets without those in which ``!=`` would do in the place of ``<`` or ``>``.

        A strict order is needed then where it excludes more than equality, and nothing else does.
        """
        from dc_engine.kernels.sets import needed

        truth, vital = truth_of(sets, len(self.literals)), problem.vital.copy()
        for number, one in enumerate(self.literals):
            if one.excludes & ~one.vital:
                unequal = next(place for place, other in enumerate(self.literals) if _is_unequal(other, one.term))
                vital[:, number] = problem.points[:, number] & ~problem.points[:, unequal]
        has_unequal = truth[:, [place for place, one in enumerate(self.literals) if _is_unequal(one)]].any(axis=1)
        whole = whole_of(replace(problem, vital=vital, bars=None, stronger=None), len(problem.most_of))
        good = has_unequal | needed(whole, packed(truth))
        return [one for one, stays in zip(sets, good.tolist(), strict=True) if stays]

    def approximately(
        self, layout: Layout, patterns: np.ndarray, pairs: np.ndarray, bounds: Bounds
    ) -> tuple[dict[Box, int], str]:
        """The largest boxes that few pairs of rows violate, with their numbers; and what stopped the search."""
        ways = (points_of(layout, some, self.literals) for some in (patterns, layout.mirrored(patterns)))
        one, mirror = (replace(problem, bars=self.bars) for problem in ways)
        found = approximate_sets(one, mirror, pairs, bounds)
        errors = dict(zip(map(tuple, self._table(found.sets).tolist()), found.violations, strict=True))
        boxes = self.boxes(found.sets)
        larger = follow(self.terms, boxes, [box for box in boxes if int(_DIFFERENT) in box])
        inside = {box for box, lies in zip(boxes, larger.tolist(), strict=True) if lies and int(_DIFFERENT) not in box}
        return {box: errors[box] for box in boxes if box not in inside}, found.stopped

    def boxes(self, sets: Sequence[frozenset[int]]) -> list[Box]:
        """The boxes that sets of literals exclude, one of each mirror pair."""
        table = self._table(sets)
        other = turned(table)
        first = (table != other).argmax(axis=1)[:, None]
        smaller = np.take_along_axis(table, first, 1) <= np.take_along_axis(other, first, 1)
        return [tuple(box) for box in np.unique(np.where(smaller, table, other), axis=0).tolist()]

    def _table(self, sets: Sequence[frozenset[int]]) -> np.ndarray:
        """Boxes as rows of a table."""
        truth = truth_of(sets, len(self.literals))
        table = np.full((len(sets), len(self.terms.terms)), int(ALL), np.uint8)
        for chosen, one in zip(truth.T, self.literals, strict=True):
            table[chosen, one.term] &= int(ALL & ~one.excludes)
        return table


def _is_unequal(one: Literal, term: int | None = None) -> bool:
    """Whether a literal is that of ``!=``, of some term."""
    return one.excludes == _EQUAL and term in (None, one.term)


def is_pod(box: Sequence[int]) -> bool:
    """Whether people see a box of the family as a ``pod``: bodies of equalities alone are ``unique``."""
    return any(mask not in (int(ALL), int(_EQUAL)) for mask in box)
