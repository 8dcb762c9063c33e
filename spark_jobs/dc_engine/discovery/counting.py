"""How many pairs of rows lie in a box: counted by detection, on the distinct values of the columns that it reads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dc_engine.detection.codes import combine
from dc_engine.detection.counting import COMPARE, Match, find_partners, partner_weights
from dc_engine.discovery.boxes import Box, mirrored, said
from dc_engine.discovery.table import Table
from dc_engine.discovery.terms import Outcome, op_of

_SHOWN = 64
"""So many pairs are shown at most, each way round."""


def violating_pairs(table: Table, box: Box) -> int:
    """How many pairs of rows lie in a box, taken either way round; each pair counts once."""
    other = mirrored(table.layout.terms, box)
    both = tuple(one & two for one, two in zip(box, other, strict=True))
    one_way = _Way(table, box).total
    return one_way - (_Way(table, both).total // 2 if all(both) else 0)


def lying_with(table: Table, box: Box, row: int) -> np.ndarray:
    """Which rows lie in a box together with one, either way round."""
    ways = []
    other = mirrored(table.layout.terms, box)
    for way in (box,) if other == box else (box, other):
        inside = np.ones(table.rows, bool)
        for place in said(way):
            code, codes = table.left[place][row], table.right[place]
            inside &= (code >= 0) & (codes >= 0) & COMPARE[op_of(Outcome(way[place]))](code, codes)
        ways.append(inside)
    return np.logical_or.reduce(ways)


def some_pairs(table: Table, box: Box, asking: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Some pairs of rows that lie in a box, by their places, with one of some rows if those are given; or none."""
    t, s = _Way(table, box, asking).some_pairs()
    if asking is None or len(t):
        return t, s
    s, t = _Way(table, mirrored(table.layout.terms, box), asking).some_pairs()
    return t, s


def lying_in(table: Table, box: Box) -> np.ndarray:
    """Which rows lie in a box together with some other, either way round."""
    inside = np.zeros(table.rows, bool)
    for way in {box, mirrored(table.layout.terms, box)}:
        inside[_Way(table, way).asking] = True
    return inside


def with_themselves(table: Table, box: Box, rows: np.ndarray) -> np.ndarray:
    """Which rows lie in a box together with a row of the same values."""
    inside = np.ones(len(rows), bool)
    for place in said(box):
        left, right = table.left[place][rows], table.right[place][rows]
        inside &= (left >= 0) & (right >= 0) & COMPARE[op_of(Outcome(box[place]))](left, right)
    return inside


@dataclass(frozen=True, slots=True)
class _Groups:
    """Rows with the same codes: which group each is in, how many rows each has, its first and its last one."""

    rows: np.ndarray
    of: np.ndarray
    sizes: np.ndarray
    first: np.ndarray
    last: np.ndarray

    @staticmethod
    def on(rows: np.ndarray, codes: list[np.ndarray]) -> _Groups:
        values = combine([one[rows].astype(np.int64) for one in codes]) if codes else np.zeros(len(rows), np.int64)
        sizes = np.bincount(values, minlength=1)
        used = np.flatnonzero(sizes)
        number = np.zeros(len(sizes), np.int64)
        number[used] = np.arange(len(used))
        of = number[values]
        first, last = np.empty(len(used), np.int64), np.empty(len(used), np.int64)
        first[of[::-1]], last[of] = rows[::-1], rows
        return _Groups(rows, of, sizes[used], first, last)


class _Way:
    """A box taken one way round: rows that ask, as t, and all rows, as s."""

    def __init__(self, table: Table, box: Box, asking: np.ndarray | None = None) -> None:
        self._places = said(box)
        self._ops = [op_of(Outcome(box[place])) for place in self._places]
        self._left = [table.left[place] for place in self._places]
        self._right = [table.right[place] for place in self._places]
        t, s = _without_null(self._left, table.rows), _without_null(self._right, table.rows)
        self._t = _Groups.on(np.flatnonzero(t) if asking is None else asking[t[asking]], self._left)
        self._s = _Groups.on(np.flatnonzero(s), self._right)
        self._matches = [
            Match(left[self._t.first].astype(np.int64), op, right[self._s.first].astype(np.int64))
            for left, op, right in zip(self._left, self._ops, self._right, strict=True)
        ]
        by_group = partner_weights(self._matches, self._s.sizes, len(self._t.first))
        self._counts = by_group[self._t.of] - with_themselves(table, box, self._t.rows)  # no row is its own partner

    @property
    def total(self) -> int:
        """How many pairs there are, as ordered ones."""
        return int(self._counts.sum())

    @property
    def asking(self) -> np.ndarray:
        """The rows that have a partner."""
        return self._t.rows[self._counts > 0]

    def some_pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Some of them: each row with partners of different kinds."""
        asking = np.flatnonzero(self._counts)
        _, first = np.unique(self._t.of[asking], return_index=True)
        asking = asking[first][:: max(1, len(first) // _SHOWN)][:_SHOWN]
        if not len(asking):
            return asking, asking
        queries, partners = find_partners(self._matches, self._s.sizes, self._t.of[asking], 3)
        row_of = dict(zip(self._t.of[asking].tolist(), self._t.rows[asking].tolist(), strict=True))
        t = np.array([row_of[query] for query in queries.tolist()], np.int64)
        s = np.where(self._s.first[partners] != t, self._s.first[partners], self._s.last[partners])
        return t[t != s], s[t != s]


def _without_null(codes: list[np.ndarray], rows: int) -> np.ndarray:
    valid = np.ones(rows, bool)
    for one in codes:
        valid &= one >= 0
    return valid
