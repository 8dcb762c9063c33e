"""What a dependency is worth: how much there is in the data that could have violated it, and how short it is.

*Support* are the pairs of rows that satisfy all of a rule but its right side: they had to decide. Were the right side
independent of the rest, a known share of them would violate the rule; the more were to be expected, the less is it by
chance that there is none. A dependency that no pair could have violated is worth nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dc_engine.discovery.boxes import Box, equalities, said
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.spreading import nobody
from dc_engine.discovery.table import Table, pairs_of
from dc_engine.discovery.terms import Outcome

_ROWS = (50_000, 250_000)
"""Rows of which groups are counted; of larger tables some stand for all, unless they show nothing."""
_REMEMBERED = 5_000_000
"""So many rows of groups are held in memory."""
_PAIRED = 1_500
"""Rows of which all pairs are compared."""
_MOST = 3_000
"""So many dependencies of class ``dc`` are weighed, the shortest first; the others come after them."""
_SPREAD, _AMONG = 100, 1_000
"""So many places are filled by what says something else than the places before them, from so many of the best."""
_EQUAL, _NOT_EQUAL = int(Outcome.EQUAL), int(Outcome.LESS | Outcome.GREATER)


@dataclass(frozen=True, slots=True)
class Worth:
    """What is known about the worth of a dependency."""

    support: int | None
    """Pairs of rows that satisfy all but the right side, estimated in large tables; None if it was not weighed."""
    score: float
    expected: float = 0.0
    """Pairs that would violate it, were its right side independent of the rest; few of them: it may be chance."""


class Scales:
    """Weighs the dependencies of one table."""

    def __init__(self, table: Table, keys: Iterable[Box] = (), rows: int | None = None) -> None:
        """``keys`` are boxes of class ``unique``: on what contains one of them no two rows agree.

        ``rows`` is how many there are, if the table has only some of them.
        """
        self.rows = table.rows if rows is None else rows
        order = np.random.default_rng(0).permutation(table.rows)
        parts = [table.taken(np.sort(order[:rows])) for rows in _ROWS if rows < table.rows] + [table]
        self._groups = [_Groups(part) for part in parts]
        self.pairs = _pairs(self.rows)
        self._keys = [equalities(box) for box in keys]
        self._agreeing: dict[frozenset[int], float] = {}
        self._table = table

    @cached_property
    def _sample(self) -> _PairSample:
        """Made for classes of which pairs of rows have to be compared: of many columns that takes seconds."""
        return _PairSample(self._table)

    def weigh(self, kind: str, boxes: Sequence[Box]) -> dict[Box, Worth]:
        """The worth of each dependency of a class."""
        if kind == "unique":
            return {box: self._unique(box) for box in boxes}
        if kind == "fd":
            return {box: self._fd(box) for box in boxes}
        if kind == "od":
            return {box: self._fd(box) if _decides(box) else self._compatible(box) for box in boxes}
        shortest = set(sorted(boxes, key=lambda box: (len(said(box)), box))[:_MOST])
        return {box: self._dc(box) if box in shortest else Worth(None, 0.0) for box in boxes}

    def pairs_agreeing(self, places: Iterable[int]) -> float:
        """About how many pairs of rows agree on some terms, exactly in tables that are not large."""
        key = frozenset(places)
        if key not in self._agreeing:
            if any(one <= key for one in self._keys):
                pairs = 0.0
            else:
                pairs = next(filter(None, (part.share(key) for part in self._groups)), 0.0) * self.pairs
            self._agreeing[key] = pairs
        return self._agreeing[key]

    def _share(self, place: int) -> float:
        """The share of all pairs that agree on a term."""
        return self.pairs_agreeing([place]) / max(self.pairs, 1)

    def _unique(self, box: Box) -> Worth:
        places = said(box)
        if len(places) == 1:  # no pair agrees on it, and there is nothing else to compare: as good as the table is long
            return Worth(self.pairs, math.log10(1 + self.rows), self.rows)
        rest = {place: self.pairs_agreeing([one for one in places if one != place]) for place in places}
        expected = min((pairs * self._share(place) for place, pairs in rest.items()), default=0.0)
        score = math.log10(1 + expected) / max(len(places), 1)
        return Worth(round(min(rest.values(), default=0.0)), score, expected)

    def _fd(self, box: Box) -> Worth:
        left = equalities(box)
        support = self.pairs_agreeing(left)
        if not left:  # a constant column
            return Worth(round(support), math.log10(1 + self.rows) / 2, self.rows)
        (right,) = set(said(box)) - left
        expected = support * (1 - self._share(right))
        return Worth(round(support), math.log10(1 + expected) / len(said(box)), expected)

    def _compatible(self, box: Box) -> Worth:
        """Two columns that go together where others agree: of the pairs that do, half of those that differ may swap."""
        context, places = equalities(box), said(box)
        support = expected = self.pairs_agreeing(context)
        for place in set(places) - context:
            expected *= 1 - self._share(place)
        score = math.log10(1 + expected / 2) / (len(places) + 1 / 2)  # as for any rule with two orders
        return Worth(round(support), score, expected / 2)

    def _dc(self, box: Box) -> Worth:
        places = said(box)
        if not places:
            return Worth(0, 0.0)
        support, expected = self._sample.weigh(box, places, right_side(box))
        scale = self.pairs / max(self._sample.pairs, 1)
        orders = sum(box[place] not in (_EQUAL, _NOT_EQUAL) for place in places)
        score = math.log10(1 + expected * scale) / (len(places) + orders / 4)  # an order is harder to read
        return Worth(round(support * scale), score, expected * scale)


class _Groups:
    """Rows of a table that agree on some terms: found among those that agree on all of them but one, which are few."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._many = np.array([int(codes.max(initial=0)) for codes in table.left], np.int64)
        self._found: dict[tuple[int, ...], tuple[np.ndarray, np.ndarray]] = {}
        self._held = 0

    def share(self, key: frozenset[int]) -> float:
        """The share of all pairs that agree on some terms."""
        by_values = sorted(key, key=lambda place: (-self._many[place], place))  # many first: they leave few rows
        _, groups = self._of(tuple(by_values))
        sizes = np.bincount(groups)
        return float((sizes * (sizes - 1) // 2).sum()) / max(_pairs(self._table.rows), 1)

    def _of(self, key: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        """The rows that agree with another on all terms, and the number of the group of each."""
        if not key:
            return np.arange(self._table.rows), np.zeros(self._table.rows, np.int64)
        if key not in self._found:
            rows, groups = self._of(key[:-1])
            codes = self._table.left[key[-1]][rows]
            if len(codes) and codes.min() < 0:
                rows, groups, codes = (one[codes >= 0] for one in (rows, groups, codes))
            values = groups * (self._many[key[-1]] + 1) + codes
            order = np.argsort(values)
            first = np.concatenate([[True], values[order[1:]] != values[order[:-1]]])[: len(order)]
            numbers = np.cumsum(first) - 1
            several = (np.bincount(numbers) > 1)[numbers] if len(order) else first
            if self._held > _REMEMBERED:
                self._found, self._held = {}, 0
            self._found[key] = rows[order[several]], numbers[several]
            self._held += int(several.sum())
        return self._found[key]


def right_side(box: Box) -> int:
    """The term that a rule is read as deciding: the one with ``!=`` if there is one, else the last with an order."""
    places = said(box)
    unequal = [place for place in places if box[place] == _NOT_EQUAL]
    ordered = [place for place in places if place not in equalities(box)]
    return (unequal or ordered or places)[-1]


def spread(scores: Mapping[Box, float]) -> list[Box]:
    """Boxes best first, in which one that says little more than better ones counts for less: down to a fifth.

    That is one about the same terms as another or about what another decides, and an ``fd`` that follows from others;
    terms that decide each other are the same. So the top tells about the whole table, and not ten times about its
    most regular columns.
    """
    order = sorted(scores, key=lambda box: (-scores[box], len(said(box)), box))
    same = _same_terms(scores)
    left = {box: sum({1 << same.get(place, place) for place in said(box)}) for box in order[:_AMONG]}
    rights = {box: right_side(box) for box in left}
    worth = {box: scores[box] for box in left}
    first: list[Box] = []
    decided: list[tuple[frozenset[int], int]] = []
    while left and len(first) < _SPREAD:
        best = max(left, key=worth.__getitem__)
        rule = _decides(best)
        if rule and worth[best] > scores[best] / 5 and _follows(rule, decided):
            worth[best] = scores[best] / 5
            continue
        first.append(best)
        decided += [rule] if rule else []
        places, right = left.pop(best), rights[best]
        for box, mine in left.items():
            alike = (mine & places).bit_count() / (mine | places).bit_count()
            again = 0.4 if rights[box] == right else 1.0
            worth[box] = min(worth[box], scores[box] * (1 - alike**2 / 2) * again)
    placed = set(first)
    return [*first, *(box for box in order if box not in placed)]


def _same_terms(boxes: Iterable[Box]) -> dict[int, int]:
    """For each term that decides a smaller one, and is decided by it, the smallest."""
    rules = {(min(left), right) for left, right in filter(None, map(_decides, boxes)) if len(left) == 1}
    same: dict[int, int] = {}
    for one, other in sorted(rules):
        if one < other and (other, one) in rules:
            same.setdefault(other, one)
    return same


def _decides(box: Box) -> tuple[frozenset[int], int] | None:
    """The terms of an ``fd`` whose equality decides another one, and that one; nothing if it is no ``fd``."""
    left = equalities(box)
    others = set(said(box)) - left
    return (left, right) if len(others) == 1 and box[right := others.pop()] == _NOT_EQUAL else None


def _follows(rule: tuple[frozenset[int], int], decided: Sequence[tuple[frozenset[int], int]]) -> bool:
    """Whether what agrees on the left side agrees on the right side already, by other rules."""
    left, right = rule
    known, before = set(left), 0
    while len(known) > before:
        before = len(known)
        known |= {other for one, other in decided if one <= known}
    return right in known


def _pairs(rows: int) -> int:
    return rows * (rows - 1) // 2


class _PairSample:
    """The patterns of all pairs of some rows, with their numbers."""

    def __init__(self, table: Table) -> None:
        rows = np.sort(np.random.default_rng(0).permutation(table.rows)[:_PAIRED])
        self.pairs = _pairs(len(rows))
        found = pairs_of(replace(table.taken(rows), workers=nobody), np.arange(len(rows)))
        self._counts, distinct = found.pairs.astype(np.float64), found.patterns
        self._layout: Layout = table.layout
        self._ways = distinct, table.layout.mirrored(distinct)
        self._known: list[dict[int, np.ndarray]] = [{}, {}]

    def _outcomes(self, way: int, place: int) -> np.ndarray:
        """The outcomes of all patterns in a term, one way round or the other."""
        known = self._known[way]
        if place not in known:
            known[place] = self._layout.outcomes(self._ways[way], place)
        return known[place]

    def weigh(self, box: Box, places: Sequence[int], right: int) -> tuple[float, float]:
        """Pairs that satisfy all but the right side, and how many of them one would expect to satisfy it too."""
        rest = [place for place in places if place != right]
        support = self._counts[self._satisfying(box, rest)].sum()
        share = self._counts[self._satisfying(box, [right])].sum() / max(self.pairs, 1)
        return float(support), float(support * share)

    def _satisfying(self, box: Box, places: Sequence[int]) -> np.ndarray:
        """Which patterns satisfy what a box says about some terms, one way round or the other."""
        ways = []
        for way in range(len(self._ways)):
            inside = np.ones(len(self._counts), bool)
            for place in places:
                inside &= self._outcomes(way, place) & box[place] != 0
            ways.append(inside)
        return ways[0] | ways[1]
