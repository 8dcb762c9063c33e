"""A table as codes, and the patterns of chosen pairs of its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from dc_engine.discovery.bits import first_of_each
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.scan import Counted, Rows, is_direct, scan
from dc_engine.discovery.spreading import Workers, nobody
from dc_engine.threads import processors, side_by_side

if TYPE_CHECKING:
    from dc_engine.kernels.ranges import Seen

NO_ROWS = np.zeros(0, np.int64)
_FIRST_TABLE = 1 << 16
_FEW_PAIRS = 125_000
"""So few pairs are not worth a second thread."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows as codes, for each term the one of t's column and the one of s's; a NULL that is ignored is negative."""

    layout: Layout
    left: np.ndarray
    right: np.ndarray
    workers: Workers = nobody
    """Who does what is much work on it."""

    @staticmethod
    def of(layout: Layout, codes: Mapping[str, np.ndarray]) -> Table:
        """The table with these codes of its columns."""
        terms = layout.terms.terms
        size = len(next(iter(codes.values()), ()))
        first, own = [term.first for term in terms], all(term.own for term in terms)
        left = _stacked([codes[term.left] for term in terms], size, first)
        return Table(layout, left, left if own else _stacked([codes[term.right] for term in terms], size, first))

    @property
    def rows(self) -> int:
        """How many there are."""
        return self.left.shape[1]

    @property
    def nbytes(self) -> int:
        """How many bytes its codes take."""
        return self.left.nbytes + (0 if self.right is self.left else self.right.nbytes)

    def taken(self, places: np.ndarray) -> Table:
        """Some of its rows, in this order."""
        left = np.take(self.left, places, axis=1)
        right = left if self.right is self.left else np.take(self.right, places, axis=1)
        return Table(self.layout, left, right, self.workers)

    def patterns(self, t: np.ndarray, s: np.ndarray) -> np.ndarray:
        """The patterns of pairs of rows, given by their places."""
        return self.layout.pack([one[t] for one in self.left], [one[s] for one in self.right])


def _stacked(codes: Sequence[np.ndarray], rows: int, first: Sequence[bool]) -> np.ndarray:
    """Codes as the lines of one array: where NULLs are the first values, none is negative."""
    whole = codes[0].base if codes and not any(first) else None
    if whole is not None and whole.shape == (len(codes), rows) and whole.dtype == np.int32 and _are_lines(codes, whole):
        return whole
    lines = np.empty((len(codes), rows), np.int32)
    for line, one, more in zip(lines, codes, first, strict=True):
        np.add(one, int(more), out=line, casting="same_kind")
    return lines


def _are_lines(codes: Sequence[np.ndarray], whole: np.ndarray) -> bool:
    """Whether some arrays are the lines of one, so that they need not be copied."""
    return all(one.ctypes.data == line.ctypes.data for one, line in zip(codes, whole, strict=True))


@dataclass(frozen=True, slots=True)
class Shown:
    """Patterns, each with a pair of rows (by their places in a table) that shows it, or its mirror image."""

    patterns: np.ndarray
    t: np.ndarray
    s: np.ndarray

    @staticmethod
    def of(layout: Layout, parts: Sequence[Shown] = ()) -> Shown:
        """Several as one: each pattern once, up to the exchange of t and s, with its first pair."""
        patterns = np.concatenate([np.zeros((0, layout.words), np.uint64), *(one.patterns for one in parts)])
        t = np.concatenate([np.zeros(0, np.int64), *(one.t for one in parts)])
        s = np.concatenate([np.zeros(0, np.int64), *(one.s for one in parts)])
        kept = layout.canonical(patterns)
        first = first_of_each(kept)
        return Shown(kept[first], t[first], s[first])

    def taken(self, places: np.ndarray) -> Shown:
        """Some of them."""
        return Shown(self.patterns[places], self.t[places], self.s[places])

    def __len__(self) -> int:
        """How many there are."""
        return len(self.patterns)


def pairs_of(table: Table, some: np.ndarray, others: np.ndarray = NO_ROWS) -> Counted:
    """The patterns of some rows with each other and with others, with numbers of pairs, and places."""
    places = np.concatenate([some, others])
    in_place = len(places) == table.rows and (places[1:] > places[:-1]).all()
    chosen = table if in_place else table.taken(places)
    found = scan(table.layout, Rows(chosen.left, chosen.right), len(some), workers=table.workers)
    return Counted(found.patterns, found.pairs, places[found.t], places[found.s])


def shown_by(counted: Counted) -> Shown:
    """The patterns without their numbers."""
    return Shown(counted.patterns, counted.t, counted.s)


@dataclass(frozen=True, slots=True)
class Ranges:
    """Pairs to look at: a row, by its place, with the rows of a range."""

    rows: np.ndarray
    first: np.ndarray
    last: np.ndarray

    @property
    def pairs(self) -> int:
        """How many pairs they are."""
        return int((self.last - self.first).sum())

    def cut(self, parts: int) -> list[Ranges]:
        """The same in several parts of about as many pairs, one after the other."""
        ends, pairs = np.cumsum(self.last - self.first), self.pairs
        edges = [0, *np.searchsorted(ends, [pairs * part // parts for part in range(1, parts)]), len(ends)]
        slices = (slice(*cut) for cut in pairwise(edges))
        return [Ranges(self.rows[one], self.first[one], self.last[one]) for one in slices]


def patterns_among(one: Table, other: Table, ranges: Ranges, threads: int | None = None) -> Shown:
    """The patterns of rows of one table with ranges of rows of another; places are those of the two tables.

    Of the pairs that show a pattern the one with the first row is given, whatever the number of threads.
    """
    count = 1 if ranges.pairs < _FEW_PAIRS else threads or processors()
    parts = side_by_side(lambda part: _scan(one, other, part), ranges.cut(count), count)
    patterns, t, s = (np.concatenate([getattr(part, name) for part in parts]) for name in ("patterns", "t", "s"))
    return Shown.of(one.layout, [Shown(patterns, t, s).taken(np.lexsort((s, t)))])


def _scan(one: Table, other: Table, ranges: Ranges) -> Shown:
    from dc_engine.kernels import ranges as kernel  # numba

    layout, compared = one.layout, one.layout.terms.compared
    used_slots = layout.slots[:compared]
    slots = kernel.Slots(
        np.array([slot.ordered for slot in used_slots], bool),
        np.array([slot.word for slot in used_slots], np.int64),
        np.array([slot.shift for slot in used_slots], np.uint64),
        np.array([slot.null or 0 for slot in used_slots], np.uint64),
    )
    words = np.zeros((layout.words, kernel.BLOCK), np.uint64)
    chosen = (ranges.rows, ranges.first, ranges.last)
    direct = is_direct(layout, ranges.pairs)
    seen = _empty(layout, 1 << layout.bits if direct else _FIRST_TABLE, direct=direct)
    used, number, start = 0, 0, 0
    while number < len(chosen[0]):
        used, number, start = kernel.scan_ranges(
            one.left[:compared], other.right[:compared], *chosen, slots, words, seen, used, number, start
        )
        if number < len(chosen[0]):
            larger = _empty(layout, 4 * len(seen.pairs), direct=False)
            kernel.move(seen, larger)
            seen = larger
    found = np.flatnonzero(seen.pairs[:, 0] >= 0)
    patterns = found.astype(np.uint64)[:, None] if seen.direct else seen.keys[found]
    return Shown(patterns, seen.pairs[found, 0], seen.pairs[found, 1])


def _empty(layout: Layout, size: int, *, direct: bool) -> Seen:
    from dc_engine.kernels.ranges import Seen  # numba

    keys = np.zeros((0 if direct else size, layout.words), np.uint64)
    return Seen(keys, np.full((size, 2), -1, np.int64), direct)
