"""Pairs of rows with each other and with others: which patterns they have, how often, and a pair that shows each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dc_engine.discovery.bits import grouped
from dc_engine.discovery.patterns import Layout, Slot
from dc_engine.discovery.spreading import Lines, Packed, Units, Workers, nobody
from dc_engine.threads import processors, side_by_side

if TYPE_CHECKING:
    from dc_engine.kernels.pairs import Marks, Work

TILE = 8_192
"""Old rows that stay in the cache while all new ones are compared with them."""

_DIRECT_BITS = 22
_DIRECT_ROOM = 1
"""Patterns of up to so many bits have a table with a place for each, if it has at most so many places for a pair."""
_FIRST_TABLE = 1 << 14
_FIRST_ROOM = 1 << 18
"""Places that a hash table has at first: twice the pairs, within these bounds."""
_HALF = 32
_FEW_PAIRS = 4_000_000
"""So few are not worth a second thread."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows as codes: for each side (as t, as s) a line for each term."""

    left: np.ndarray
    right: np.ndarray

    @property
    def size(self) -> int:
        """How many there are."""
        return self.left.shape[1]


@dataclass(frozen=True, slots=True)
class Counted:
    """Patterns with numbers of pairs, and of each pattern a pair of rows by their places."""

    patterns: np.ndarray
    pairs: np.ndarray
    t: np.ndarray
    s: np.ndarray


def rows_of(layout: Layout, codes: dict[str, np.ndarray]) -> Rows:
    """Rows from the codes of their columns, NULL being -1."""
    rows = len(next(iter(codes.values())))
    left = _table([codes[term.left] for term in layout.terms.terms], rows)
    right = _table([codes[term.right] for term in layout.terms.terms], rows)
    return Rows(left, right)


def _table(codes: Sequence[np.ndarray], rows: int) -> np.ndarray:
    return np.ascontiguousarray(np.array(codes, np.int32).reshape(len(codes), rows))


def scan(
    layout: Layout, rows: Rows, new: int | None = None, threads: int | None = None, workers: Workers = nobody
) -> Counted:
    """The patterns of all pairs of rows, or only of the first ``new`` ones with each other and with the others.

    The pair that shows a pattern is the same whatever the number of threads, or of units that workers take.
    """
    new = rows.size if new is None else new
    pairs = new * (2 * rows.size - new) // 2
    if crew := workers(pairs, rows.left.nbytes + rows.right.nbytes):
        units = Units(_Tiles.of(layout, rows), tuple(_shares(new, rows.size, crew.units)))
        met = crew.run("pairs of rows are compared", units)
        parts = [_Part(one.patterns, one.one, one.two) for one in met]
    else:
        shares = _shares(new, rows.size, 1 if pairs < _FEW_PAIRS else threads or processors())
        parts = side_by_side(lambda share: _counted(layout, rows, share), shares, len(shares))
    found = _first_pairs(layout, parts, rows.size)
    return found if layout.is_symmetric else merged(layout, [found])


@dataclass(frozen=True, slots=True)
class _Tiles:
    """Rows as workers get them; a unit is a share of their pairs."""

    layout: Layout
    left: Packed
    right: Packed | None
    """The codes of rows as t and as s; nothing where they are the same."""

    @staticmethod
    def of(layout: Layout, rows: Rows) -> _Tiles:
        same = rows.left is rows.right
        return _Tiles(layout, Packed.of([*rows.left]), None if same else Packed.of([*rows.right]))

    @property
    def nbytes(self) -> int:
        """See ``Search``."""
        return self.left.nbytes + (self.right.nbytes if self.right else 0)

    def look(self, share: _Share) -> Lines:
        """See ``Search``."""
        left = _table(self.left.lines(), self.left.size)
        right = left if self.right is None else _table(self.right.lines(), self.right.size)
        part = _counted(self.layout, Rows(left, right), share)
        return Lines(part.patterns, part.pairs, part.visits)


def is_direct(layout: Layout, pairs: int) -> bool:
    """Whether patterns of so many pairs are looked up in a table that has a place for each pattern there may be."""
    return layout.bits <= _DIRECT_BITS and 1 << layout.bits <= _DIRECT_ROOM * pairs


def _counted(layout: Layout, rows: Rows, share: _Share) -> _Part:
    return (_direct if is_direct(layout, share.pairs) else _hashed)(layout, rows, share)


@dataclass(frozen=True, slots=True)
class _Share:
    """Some rows, one after the other, each to be compared with all that come after it, up to an end."""

    first: int
    last: int
    end: int

    @property
    def pairs(self) -> int:
        """How many pairs there are, at most."""
        return (self.last - self.first) * (self.end - self.first)


@dataclass(frozen=True, slots=True)
class _Part:
    """The patterns of a share's pairs, how often they occur, and the number of the first pair that has each."""

    patterns: np.ndarray
    pairs: np.ndarray
    visits: np.ndarray


def _shares(new: int, rows: int, workers: int) -> list[_Share]:
    """Ranges with about as many pairs each: the first rows have most."""
    parts = np.linspace(0, 1, workers + 1)
    edges = np.unique(np.round(rows - np.sqrt(rows**2 - parts * (new * (2 * rows - new)))).astype(int)).tolist()
    return [_Share(first, last, rows) for first, last in pairwise(edges)]


def _works(share: _Share) -> Iterator[Work]:
    """The tiles of a share. Pairs are numbered tile by tile, in a tile row by row."""
    from dc_engine.kernels.pairs import Work

    for start in range(share.first // TILE * TILE, share.end, TILE):
        first, end = max(start, share.first), min(start + TILE, share.end)
        yield Work(share.first, min(share.last, end), first, end, start * share.end + first - start, TILE)


def _first_pairs(layout: Layout, parts: Sequence[_Part], rows: int) -> Counted:
    """All parts together, each with the pairs whose numbers it has."""
    patterns = np.concatenate([np.zeros((0, layout.words), np.uint64), *(one.patterns for one in parts)])
    none = np.zeros(0, np.int64)
    pairs, visits = (np.concatenate([none, *(getattr(one, name) for one in parts)]) for name in ("pairs", "visits"))
    if len(parts) > 1:
        order, first = grouped(patterns)
        patterns, pairs = patterns[order[first]], np.add.reduceat(pairs[order], first) if len(first) else pairs
        visits = np.minimum.reduceat(visits[order], first) if len(first) else visits
    tile, place = np.divmod(visits, max(rows, 1) * TILE)
    return Counted(patterns, pairs, place // TILE, tile * TILE + place % TILE)


@lru_cache(maxsize=8)
def _marks(slots: tuple[Slot, ...]) -> Marks:
    """Where the bits of each term are, by halves of words."""
    from dc_engine.kernels.pairs import Marks

    lines = []
    for place, slot in enumerate(slots):
        base = slot.word * 64
        bits = (base + slot.shift, base + slot.shift + 1 if slot.ordered else None, slot.null and base + slot.null)
        for half in sorted({one // _HALF for one in bits if one is not None}):
            marks = [1 << one % _HALF if one is not None and one // _HALF == half else 0 for one in bits]
            lines.append((place, half, slot.ordered, *marks))
    columns = list(zip(*lines, strict=True)) or [()] * 6
    kinds = (np.int64, np.int64, np.bool_, np.uint32, np.uint32, np.uint32)
    return Marks(*(np.array(column, kind) for column, kind in zip(columns, kinds, strict=True)))


def _direct(layout: Layout, rows: Rows, share: _Share) -> _Part:
    from dc_engine.kernels.pairs import BLOCK, count_direct

    size = 1 << layout.bits
    marks, bits = _marks(layout.slots[: layout.terms.compared]), np.zeros((1, BLOCK), np.uint32)
    small, counts, visits = np.zeros(size, np.uint8), np.zeros(size, np.int64), np.full(size, -1, np.int64)
    for work in _works(share):
        count_direct(rows.left, rows.right, marks, work, bits, small, counts, visits)
    found = np.flatnonzero(visits >= 0)
    least = small[found].astype(np.int64)
    pairs = counts[found] + np.where(least == 0, 256, least)
    return _Part(found.astype(np.uint64)[:, None], pairs, visits[found])


def _hashed(layout: Layout, rows: Rows, share: _Share) -> _Part:
    from dc_engine.kernels.pairs import BLOCK, count_hashed

    halves = -(-layout.bits // _HALF)
    marks = _marks(layout.slots[: layout.terms.compared])
    bits, slots = np.zeros((halves, BLOCK), np.uint32), np.zeros(BLOCK, np.uint32)
    size = min(max(_FIRST_TABLE, 1 << (2 * share.pairs).bit_length()), _FIRST_ROOM)
    table, used = _Table.of(size, halves), 0
    for work in _works(share):
        row, start = work.first, work.start
        while row < work.last:
            used, row, start = count_hashed(rows.left, rows.right, marks, work, row, start, bits, slots, *table, used)
            if 2 * used > len(table.visits):
                table = table.larger()
    return table.part(layout.words)


class _Table(NamedTuple):
    """A hash table of patterns: a slot is used when it has a pair. Its lines have the lower half of the count."""

    lines: np.ndarray
    counts: np.ndarray
    visits: np.ndarray

    @staticmethod
    def of(size: int, halves: int) -> _Table:
        lines = np.zeros((size, halves + 1), np.uint32)
        return _Table(lines, np.zeros(size, np.int64), np.full(size, -1, np.int64))

    def larger(self) -> _Table:
        """The same in a table of four times the size."""
        from dc_engine.kernels.pairs import moved

        table = _Table.of(4 * len(self.lines), self.lines.shape[1] - 1)
        moved(*self, *table)
        return table

    def part(self, words: int) -> _Part:
        used = np.flatnonzero(self.visits >= 0)
        lines = self.lines[used]
        halves = np.zeros((len(used), 2 * words), "<u4")  # the lower half of a word comes first
        halves[:, : lines.shape[1] - 1] = lines[:, :-1]
        patterns = halves.view("<u8").astype(np.uint64, copy=False)
        pairs = (self.counts[used] << _HALF) + lines[:, -1].astype(np.int64)
        return _Part(patterns, pairs, self.visits[used])


def merged(layout: Layout, parts: Sequence[Counted]) -> Counted:
    """Several counts as one. A pattern and its mirror image are one pattern; the first pair of rows shows it."""
    patterns = np.concatenate([np.zeros((0, layout.words), np.uint64), *(one.patterns for one in parts)])
    pairs, t, s = (
        np.concatenate([np.zeros(0, np.int64), *(getattr(one, name) for one in parts)]) for name in ("pairs", "t", "s")
    )
    kept = layout.canonical(patterns)
    order, first = grouped(kept)
    if len(first) < len(order):
        groups = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(order))))
        order = order[np.lexsort((s[order], t[order], groups))]
    kept, pairs, t, s = kept[order], pairs[order], t[order], s[order]
    sums = np.add.reduceat(pairs, first) if len(first) else pairs
    return Counted(kept[first], sums, t[first], s[first])
