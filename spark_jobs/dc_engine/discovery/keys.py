"""Keys, terms on which rows agree: what it costs to look at all pairs that do."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from dc_engine.detection.codes import combine
from dc_engine.discovery.partitions import shared
from dc_engine.discovery.table import Table
from dc_engine.sizes import SIZES

Key = frozenset[int]
EVERYTHING: Key = frozenset()
_SAMPLE = 20_000
"""Rows from which the cost of a key on several terms is estimated; of a key on one term it is five times as many."""


class Keys:
    """The keys of a table: for all pairs of its rows, or for those with at least one new row."""

    def __init__(self, table: Table, new: np.ndarray | None) -> None:
        self._table = table
        self._new = new
        self._fresh = np.flatnonzero(new) if new is not None else np.zeros(0, np.int64)
        self._costs: dict[Key, float] = {}

    def candidates(self, asked: Key) -> list[Key]:
        """Keys that decide a box: single terms; pairs and triples of them where single ones are dear."""
        single = [frozenset([place]) for place in sorted(asked)]
        if any(self.cost(key) <= SIZES.counted_price * self._table.rows for key in single):
            return single
        cheapest = sorted(single, key=self.cost)[:6]
        wider = [frozenset().union(*some) for size in (2, 3) for some in combinations(cheapest, size)]
        return [*single, *wider]

    def cost(self, key: Key) -> float:
        """About how many pairs agree on a key, and what it takes to find them."""
        if key not in self._costs:
            self._costs[key] = self._pairs_of(key) + SIZES.key_price * self._table.rows
        return self._costs[key]

    def _pairs_of(self, key: Key) -> float:
        """An estimate from some rows, and all new ones if those are given."""
        rows = self._table.rows
        step = max(1, rows // (_SAMPLE if len(key) > 1 else 5 * _SAMPLE))
        if len(key) == 1:
            return self._pairs_of_term(min(key), step)
        some = np.arange(0, rows, step)
        if self._new is None:
            sizes = np.bincount(self._codes(key, some)[0], minlength=1)
            return float((sizes * (sizes - 1) // 2).sum()) * step * step
        codes, kept = self._codes(key, np.concatenate([some, self._fresh]))
        sampled = kept < len(some)
        sizes = np.bincount(codes[sampled], minlength=int(codes.max(initial=0)) + 1)
        return float(sizes[codes[~sampled]].sum()) * step

    def _pairs_of_term(self, place: int, step: int) -> float:
        codes = self._table.left[place]
        sizes = np.bincount(codes[::step] + 1, minlength=1)
        sizes[0] = 0  # NULL agrees with nothing
        if self._new is None:
            return float((sizes * (sizes - 1) // 2).sum()) * step * step
        fresh = codes[self._fresh] + 1
        return float(sizes[fresh[fresh < len(sizes)]].sum()) * step

    def _codes(self, key: Key, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Codes that are the same where rows agree on a key, and which of the rows have them: no NULL in the key."""
        columns = [self._table.left[place][rows] for place in sorted(key)]
        kept = np.flatnonzero(np.logical_and.reduce([column >= 0 for column in columns]))
        return combine([column[kept].astype(np.int64) for column in columns]), kept

    def touched(self, columns: Sequence[np.ndarray], some: np.ndarray | None = None) -> np.ndarray:
        """Rows that may have the values of new rows (or of some of them) in all of these columns."""
        chosen = self._fresh if some is None else some
        rows: np.ndarray | None = None
        for codes in columns:
            mine = shared(codes if rows is None else codes[rows], codes[chosen])
            rows = np.flatnonzero(mine) if rows is None else rows[mine]
        return np.arange(self._table.rows) if rows is None else rows
