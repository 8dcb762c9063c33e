"""All pairs of some rows with others: which patterns they have, how often, and a pair that shows each."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dc_engine.discovery.patterns import Layout

_DIRECT_BITS = 20
"""Patterns of up to so many bits have a table with a place for each."""
_FIRST_TABLE = 1 << 14
_FEW_PAIRS = 4_000_000
"""So few are not worth a second thread."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows as codes, one array for each term and side (as t, as s), with how many rows each of them stands for."""

    left: np.ndarray
    right: np.ndarray
    weights: np.ndarray

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.weights)


@dataclass(frozen=True, slots=True)
class Counted:
    """Patterns with numbers of pairs, and of each pattern a pair of rows by their places (t in one, s in the other)."""

    patterns: np.ndarray
    pairs: np.ndarray
    t: np.ndarray
    s: np.ndarray


def rows_of(layout: Layout, codes: dict[str, np.ndarray], weights: np.ndarray) -> Rows:
    """Rows from the codes of their columns, NULL being -1."""
    rows = len(weights)
    left = _table([codes[term.left] for term in layout.terms.terms], rows)
    right = _table([codes[term.right] for term in layout.terms.terms], rows)
    return Rows(left, right, weights.astype(np.int64))


def _table(codes: Sequence[np.ndarray], rows: int) -> np.ndarray:
    return np.ascontiguousarray(np.array(codes, np.int32).reshape(len(codes), rows))


def scan(layout: Layout, new: Rows, old: Rows | None, threads: int | None = None) -> Counted:
    """The patterns of all pairs of new rows with old ones, or (without old) of new rows with each other."""
    triangle, others = old is None, new if old is None else old
    total = new.size * others.size
    workers = 1 if total < _FEW_PAIRS else threads or min(os.cpu_count() or 1, 8)
    shares = _shares(new.size, workers, triangle=triangle)
    count = _direct if _bits(layout) <= _DIRECT_BITS else _hashed
    with ThreadPoolExecutor(len(shares) or 1) as pool:
        parts = list(pool.map(lambda share: count(layout, new, others, share, triangle), shares))
    return merged(layout, parts)


def _shares(rows: int, workers: int, *, triangle: bool) -> list[tuple[int, int]]:
    """Ranges of rows with about as many pairs each: of a triangle the first rows have most."""
    parts = np.linspace(0, 1, workers + 1)
    edges = np.unique(np.round(rows * (1 - np.sqrt(1 - parts) if triangle else parts)).astype(int)).tolist()
    return list(pairwise(edges))


def _bits(layout: Layout) -> int:
    if layout.words > 1:
        return 64 * layout.words
    return max((1 + max(slot.shift + slot.ordered, slot.null or 0) for slot in layout.slots), default=0)


def _facts(layout: Layout, dtype: type[np.uint32] | type[np.uint64]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each term whether it is ordered, and where its bits are; 0 stands for no bit for NULL."""
    ordered = np.array([slot.ordered for slot in layout.slots], bool)
    shift: np.ndarray = np.array([slot.shift for slot in layout.slots], dtype)
    return ordered, shift, np.array([slot.null or 0 for slot in layout.slots], dtype)


def _direct(layout: Layout, new: Rows, old: Rows, share: tuple[int, int], triangle: bool) -> Counted:
    from dc_engine.kernels.pairs import BLOCK, count_direct

    size = 1 << _bits(layout)
    counts, pairs = np.zeros(size, np.int64), np.full((size, 2), -1, np.int64)
    facts = _facts(layout, np.uint32)
    bits = np.zeros(BLOCK, np.uint32)
    count_direct(new.left, old.right, new.weights, old.weights, *facts, share, triangle, bits, counts, pairs)
    found = np.flatnonzero(pairs[:, 0] >= 0)
    return Counted(found.astype(np.uint64)[:, None], counts[found], pairs[found, 0], pairs[found, 1])


def _hashed(layout: Layout, new: Rows, old: Rows, share: tuple[int, int], triangle: bool) -> Counted:
    from dc_engine.kernels.pairs import BLOCK, count_hashed

    ordered, shift, null_shift = _facts(layout, np.uint64)
    word_of = np.array([slot.word for slot in layout.slots], np.int64)
    bits = np.zeros((layout.words, BLOCK), np.uint64)
    codes = (new.left, old.right, new.weights, old.weights, ordered, word_of, shift, null_shift)
    table = _Table.of(_FIRST_TABLE, layout.words)
    row, start, used = share[0], 0, 0
    while row < share[1]:
        used, row, start = count_hashed(
            *codes, row, start, share[1], triangle, bits, table.keys, table.counts, table.pairs, used
        )
        if row < share[1]:
            table = table.larger()
    return table.counted()


@dataclass(frozen=True, slots=True)
class _Table:
    """A hash table of patterns: a place is used when it has a pair."""

    keys: np.ndarray
    counts: np.ndarray
    pairs: np.ndarray

    @staticmethod
    def of(size: int, words: int) -> _Table:
        return _Table(np.zeros((size, words), np.uint64), np.zeros(size, np.int64), np.full((size, 2), -1, np.int64))

    def larger(self) -> _Table:
        """The same in a table of four times the size."""
        from dc_engine.kernels.pairs import moved

        table = _Table.of(4 * len(self.keys), self.keys.shape[1])
        moved(self.keys, self.counts, self.pairs, table.keys, table.counts, table.pairs)
        return table

    def counted(self) -> Counted:
        used = np.flatnonzero(self.pairs[:, 0] >= 0)
        return Counted(self.keys[used], self.counts[used], self.pairs[used, 0], self.pairs[used, 1])


def merged(layout: Layout, parts: Sequence[Counted]) -> Counted:
    """Several counts as one. A pattern and its mirror image are one pattern; the first pair of rows shows it."""
    patterns = np.concatenate([np.zeros((0, layout.words), np.uint64), *(one.patterns for one in parts)])
    pairs, t, s = (
        np.concatenate([np.zeros(0, np.int64), *(getattr(one, name) for one in parts)]) for name in ("pairs", "t", "s")
    )
    kept = layout.canonical(patterns)
    order = np.lexsort((s, t, *kept.T[::-1]))
    kept, pairs, t, s = kept[order], pairs[order], t[order], s[order]
    first = np.flatnonzero(np.concatenate([[True], (kept[1:] != kept[:-1]).any(axis=1)])) if len(kept) else order
    sums = np.add.reduceat(pairs, first) if len(first) else pairs
    return Counted(kept[first], sums, t[first], s[first])
