"""Order dependencies in canonical form, from patterns: what is constant and what goes together where others agree.

``X: [] -> A`` says that rows that agree on X agree on A; ``X: A ~ B`` that of two rows that agree on X none has the
smaller A and the larger B (descending: the smaller of both). NULLs are values, the first of each column. One of the
second kind follows, and is left out, where X decides A or B: nothing has to be kept for when that ends, because the
patterns that end it bring all contexts back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations

import numpy as np

from dc_engine.discovery.bits import first_of_each, packed, sets_of, truth_of, unpacked
from dc_engine.discovery.boxes import Box, canonical
from dc_engine.discovery.classes import NO_LIMIT, TABLED, Spend, left_sides
from dc_engine.discovery.hitting import Hitting
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.problem import Contexts
from dc_engine.discovery.terms import ALL, Outcome, Terms
from dc_engine.threads import processors, side_by_side

Target = tuple[int, int, bool]
"""Two columns by their numbers, the first before the second, and whether one of them descends."""
Choose = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Which patterns, by the columns that differ and those that are less."""
_LESS, _EQUAL, _GREATER = (int(one) for one in (Outcome.LESS, Outcome.EQUAL, Outcome.GREATER))
_DIFFERENT = _LESS | _GREATER
_FEW, _AT_ONCE = 1_024, 16_384


@dataclass(frozen=True, slots=True)
class Ordered:
    """The dependencies. If it was stopped: all of up to so many terms."""

    boxes: list[Box] = field(default_factory=list)
    complete_terms: int | None = None
    stopped: str = ""


def orders(
    layout: Layout,
    patterns: np.ndarray,
    *,
    max_terms: int | None = None,
    spend: Spend = NO_LIMIT,
    within: Contexts | None = None,
) -> Ordered:
    """All minimal order dependencies of up to so many terms that some patterns leave."""
    signs = _Signs.of(layout, patterns, within)
    columns = range(signs.width)
    directions = (False, True) if layout.terms.descending else (False,)
    targets = [(one, other, down) for one, other in combinations(columns, 2) for down in directions]
    most, ends = len(columns) if max_terms is None else max_terms, _ending(spend)
    count = 1 if len(patterns) < _FEW else processors()
    left = side_by_side(lambda one: signs.deciding(one, most - 1, ends()), columns if most >= 1 else (), count)
    contexts = side_by_side(lambda one: signs.contexts(one, most - 2, ends()), targets if most >= 2 else (), count)
    stops = {one.bound + 1: one.stopped for one in left if one.bound is not None}
    stops |= {one.bound + 2: one.stopped for one in contexts if one.bound is not None}
    bound = min(stops, default=None)
    boxes = [box_of(layout.terms, side, {right: _DIFFERENT}) for right, found in enumerate(left) for side in found.sets]
    deciding = [packed(truth_of(found.sets, len(columns))) for found in left]
    for (one, other, down), found in zip(targets, contexts, strict=False):
        for side in _undecided(found.sets, np.concatenate([deciding[one], deciding[other]]), len(columns)):
            boxes.append(box_of(layout.terms, side, {one: _LESS, other: _LESS if down else _GREATER}))
    return Ordered(boxes, bound, "" if bound is None else stops[bound])


def _ending(spend: Spend) -> Callable[[], Spend]:
    """What may still be spent, by one of many searches, at the time it is called."""
    started, seconds = time.monotonic(), spend.seconds
    if seconds is None:
        return lambda: spend
    return lambda: replace(spend, seconds=max(seconds - (time.monotonic() - started), 0))


def _has_time(spend: Spend) -> bool:
    return spend.seconds is None or spend.seconds > 0


def _stopped(differs: bool) -> Hitting:
    """What is known without a search: whether it takes any column at all to hit the patterns in which rows differ."""
    return Hitting(complete=False, complete_terms=0, stopped="seconds") if differs else Hitting([frozenset()])


def _undecided(contexts: Sequence[frozenset[int]], sides: np.ndarray, columns: int) -> list[frozenset[int]]:
    """The contexts that contain none of some sides, given as bits."""
    from dc_engine.kernels.sets import missing  # numba

    if not contexts or not len(sides):
        return list(contexts)
    decided = missing(packed(~truth_of(contexts, columns)), sides)
    return [one for one, is_decided in zip(contexts, decided.tolist(), strict=True) if not is_decided]


def box_of(terms: Terms, context: Iterable[int], others: Mapping[int, int]) -> Box:
    """The box of rows that agree on a context and compare so in other columns, one of it and its mirror image."""
    places = list(terms.first.values())
    box = [int(ALL)] * len(terms.terms)
    for column in context:
        box[places[column]] = _EQUAL
    for column, outcomes in others.items():
        box[places[column]] = outcomes
    return canonical(terms, tuple(box))


@dataclass(frozen=True)
class _Signs:
    """Of each pattern the columns that differ and those in which t has less than s, as bits; each combination once."""

    width: int
    differs: np.ndarray
    less: np.ndarray
    within: Contexts | None = None

    @staticmethod
    def of(layout: Layout, patterns: np.ndarray, within: Contexts | None = None) -> _Signs:
        from dc_engine.kernels.contexts import signs  # numba

        slots = [layout.slots[place] for place in layout.terms.first.values()]
        words = np.array([slot.word for slot in slots], np.int64)
        shifts = np.array([slot.shift for slot in slots], np.uint64)
        differs, less = signs(patterns, words, shifts)
        if layout.terms.own:  # patterns may differ in what only other classes see
            once = first_of_each(np.concatenate([differs, less], axis=1))
            differs, less = differs[once], less[once]
        return _Signs(len(slots), differs, less, within)

    @cached_property
    def _bits(self) -> tuple[np.ndarray, np.ndarray]:
        """Both in one number each, where that has room for all columns."""
        return self.differs[:, 0].astype(np.int64), self.less[:, 0].astype(np.int64)

    @cached_property
    def _truth(self) -> tuple[np.ndarray, np.ndarray]:
        """Both as truth values, column by column."""
        differs, less = (np.ascontiguousarray(unpacked(one, self.width).T) for one in (self.differs, self.less))
        return differs, less

    @cached_property
    def _apart(self) -> tuple[np.ndarray, np.ndarray]:
        """For each two columns whether they go in opposite directions anywhere, and whether they go in the same."""
        differs, less = self._truth
        opposite, same = (np.zeros((self.width, self.width), np.float32) for _ in range(2))
        for start in range(0, differs.shape[1], _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            up = less[:, part].astype(np.float32)
            down = differs[:, part].astype(np.float32) - up
            opposite += up @ down.T
            same += up @ up.T + down @ down.T
        return opposite + opposite.T > 0, same > 0

    def deciding(self, column: int, most: int, spend: Spend) -> Hitting:
        """The smallest sets of up to so many columns that decide one."""
        if self.width <= TABLED:
            bits, _ = self._bits
            return _smallest(bits[bits >> column & 1 == 1], self.width, column, most)
        if not _has_time(spend):
            return _stopped(bool(self._truth[0][column].any()))
        return self._searched(lambda differs, _: differs[column], [column], most, spend)

    def contexts(self, target: Target, most: int, spend: Spend) -> Hitting:
        """The smallest sets of up to so many columns within which two others go together."""
        one, other, down = target
        if self.width <= TABLED:
            from dc_engine.kernels.contexts import opposed  # numba

            found = _smallest(opposed(*self._bits, one, other, down), self.width - 2, -1, most)
            return _renamed(found, np.delete(np.arange(self.width), [one, other]))
        if most == 0 or not self._apart[down][one, other]:
            return Hitting([] if self._apart[down][one, other] else [frozenset()])
        if not _has_time(spend):
            return _stopped(True)

        def swapped(differs: np.ndarray, less: np.ndarray) -> np.ndarray:
            return differs[one] & differs[other] & (less[one] ^ less[other] ^ down)

        return self._searched(swapped, [one, other], most, spend)

    def _searched(self, patterns: Choose, without: Sequence[int], most: int, spend: Spend) -> Hitting:
        """The smallest sets of columns, but for some, of which one differs in each of the patterns that are chosen."""
        names = np.delete(np.arange(self.width), without)
        apart = max(1, len(self.differs) // _FEW)
        for step in (apart, 1) if most == 1 else (1,):
            differs, less = (some[:, ::step] for some in self._truth)
            edges = differs[:, patterns(differs, less)][names].T
            if step > 1 and len(edges) and not edges.all(axis=0).any():  # a few refute most sets of one column
                return Hitting()
        within = self.within.among(names) if self.within else None
        return _renamed(left_sides(edges, None, most, spend, within), names)


def _renamed(found: Hitting, names: np.ndarray) -> Hitting:
    """Sets of other numbers."""
    return replace(found, sets=[frozenset(names[sorted(some)].tolist()) for some in found.sets])


def _smallest(edges: np.ndarray, columns: int, right: int, most: int) -> Hitting:
    """The smallest sets of columns that have one in common with each edge, given as bits."""
    from dc_engine.kernels.contexts import smallest_left_sides  # numba

    sides = smallest_left_sides(edges, columns, right, most)
    return Hitting(sets_of(sides.astype(np.uint64)[:, None], columns))
