"""How many partners each row has: counted from sorted codes, never pair by pair.

``partner_weights`` takes the rows that ask (queries), the rows that may answer (entries, each with its number of
rows) and the comparisons between them. Equalities make blocks; each ``!=`` is "all minus the equal ones"; one
inequality is a prefix sum, two are a sweep, three are many sweeps of halves, and the rest goes to a k-d tree. Where
the blocks are small enough, a scan of them is faster than importing numba, and so is a sweep in numpy.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dc_engine.constraints.model import Op
from dc_engine.detection.codes import combine
from dc_engine.sizes import SIZES

COMPARE = {
    Op.EQ: np.equal,
    Op.NE: np.not_equal,
    Op.LT: np.less,
    Op.LE: np.less_equal,
    Op.GT: np.greater,
    Op.GE: np.greater_equal,
}
_MOST_UNEQUAL = 3
"""Each ``!=`` doubles the number of terms; beyond this many, the tree is cheaper."""
_ASKING, _FIRST_ENTRIES = 4_096, 256
"""How many queries look for partners at a time, and among how many entries they begin."""


@dataclass(frozen=True, slots=True)
class Match:
    """``query op entry`` for the codes of one comparison."""

    query: np.ndarray
    op: Op
    entry: np.ndarray


def partner_weights(matches: Sequence[Match], weights: np.ndarray, queries: int) -> np.ndarray:
    """For each query, the total weight of the entries with which every comparison holds."""
    if not queries or not len(weights):
        return np.zeros(queries, np.int64)
    equal = [one for one in matches if one.op is Op.EQ]
    unequal = [one for one in matches if one.op is Op.NE]
    ordered = [one for one in matches if one.op not in (Op.EQ, Op.NE)]
    if len(ordered) > 1 or len(unequal) > _MOST_UNEQUAL:
        scan = Scan(matches, weights, np.arange(queries))
        if scan.is_cheap:
            return scan.count()
    if len(ordered) > 3 or len(unequal) > _MOST_UNEQUAL:
        return Tree(matches, weights).count(matches)
    total = np.zeros(queries, np.int64)
    for chosen in range(2 ** len(unequal)):
        added = [one for bit, one in enumerate(unequal) if chosen >> bit & 1]
        block, entry_block = _blocks([*equal, *added], queries, len(weights))
        term = _count_ordered(block, entry_block, ordered, weights)
        total += -term if len(added) % 2 else term
    return total


def _blocks(equal: Sequence[Match], queries: int, entries: int) -> tuple[np.ndarray, np.ndarray]:
    """A code for each query and entry that agrees exactly when all equalities hold."""
    if not equal:
        return np.zeros(queries, np.int64), np.zeros(entries, np.int64)
    codes = combine([np.concatenate([one.query, one.entry]) for one in equal])
    return codes[:queries], codes[queries:]


def _count_ordered(
    block: np.ndarray, entry_block: np.ndarray, ordered: Sequence[Match], weights: np.ndarray
) -> np.ndarray:
    """The weight of each query's entries in its block, under at most three inequalities."""
    if not ordered:
        sums = np.bincount(entry_block, weights=weights, minlength=int(block.max()) + 1)
        return sums[block].astype(np.int64)
    *others, (z, entry_z) = map(_below, ordered)
    start, position, order = _ranks(block, z, entry_block, entry_z)
    if not others:
        sums = np.concatenate([[0], np.cumsum(weights[order])])
        return sums[position] - sums[start]
    first = np.searchsorted(entry_block[order], entry_block[order], side="left")
    entry_rank = np.empty(len(order), np.int64)
    entry_rank[order] = np.arange(len(order)) - first
    return _count_below(
        np.concatenate([block, entry_block]),
        [np.concatenate(pair) for pair in others],
        np.concatenate([position - start, entry_rank]),
        np.concatenate([np.zeros(len(block), np.int64), weights]),
        np.arange(len(block) + len(entry_block)) < len(block),
    )[: len(block)]


def _count_below(
    block: np.ndarray, values: Sequence[np.ndarray], rank: np.ndarray, weight: np.ndarray, is_query: np.ndarray
) -> np.ndarray:
    """For each query among some queries and entries, the weight of the entries that are smaller in every respect."""
    x, *others = values
    low = int(x.min())
    order = np.argsort(block * (int(x.max()) - low + 1) + (x - low), kind="stable")  # on a tie a query comes first
    placed = [one[order] for one in (block, *others, rank, weight, is_query)]
    if others:
        from dc_engine.kernels.divide import dominated_weight  # numba: only bodies with three inequalities pay for it
    elif len(block) > SIZES.swept_rows or "numba" in sys.modules:
        from dc_engine.kernels.sweep import dominated_weight  # and large ones with two
    else:
        from dc_engine.detection.below import dominated_weight
    counts = np.empty(len(block), np.int64)
    counts[order] = dominated_weight(*placed)
    return counts


def _below(match: Match) -> tuple[np.ndarray, np.ndarray]:
    """The comparison as ``entry' < query'``: the direction by sign, strictness by an odd number between the codes."""
    if match.op in (Op.GT, Op.GE):
        query, entry = 2 * match.query, 2 * match.entry
    else:
        query, entry = -2 * match.query, -2 * match.entry
    return (query + 1 if match.op in (Op.GE, Op.LE) else query), entry


def _ranks(
    block: np.ndarray, value: np.ndarray, entry_block: np.ndarray, entry_value: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Entries in (block, value) order; for each query where its block starts and how far the smaller values reach."""
    low = min(int(value.min()), int(entry_value.min()))
    width = max(int(value.max()), int(entry_value.max())) - low + 2
    sort_key = entry_block * width + (entry_value - low)
    order = np.argsort(sort_key, kind="stable")
    placed = sort_key[order]
    return (
        np.searchsorted(placed, block * width),
        np.searchsorted(placed, block * width + (value - low)),
        order,
    )


def find_partners(
    matches: Sequence[Match], weights: np.ndarray, queries: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """Up to ``most`` partners of each of these queries: numbers of queries, numbers of entries."""
    asked, found, left = Scan(matches, weights, queries).find(most)
    if not len(left):
        return asked, found
    more_asked, more_found = Tree(matches, weights).find(matches, left, most)
    return np.concatenate([asked, more_asked]), np.concatenate([found, more_found])


class Scan:
    """Some queries against the entries of their blocks, all pairs of a block at once."""

    def __init__(self, matches: Sequence[Match], weights: np.ndarray, queries: np.ndarray) -> None:
        self._queries = queries
        self._weights = weights
        self._others = [one for one in matches if one.op is not Op.EQ]
        equal = [Match(one.query[queries], one.op, one.entry) for one in matches if one.op is Op.EQ]
        block, entry_block = _blocks(equal, len(queries), len(weights))
        self._order = np.argsort(block, kind="stable")
        self._asked, first = np.unique(block[self._order], return_index=True)
        self._bounds = np.append(first, len(queries))
        self._entry_order = np.argsort(entry_block, kind="stable")
        placed = entry_block[self._entry_order]
        self._starts = np.searchsorted(placed, self._asked, side="left")
        self._ends = np.searchsorted(placed, self._asked, side="right")

    @property
    def is_cheap(self) -> bool:
        """Whether there are few pairs, in few blocks."""
        pairs = np.dot(np.diff(self._bounds), self._ends - self._starts)
        return len(self._asked) <= SIZES.scanned_blocks and pairs <= SIZES.scanned_pairs

    def count(self) -> np.ndarray:
        """For each query, the total weight of its partners."""
        counts = np.zeros(len(self._queries), np.int64)
        for places, entries, pairs in self._blocks_of_pairs():
            counts[places] = pairs @ self._weights[entries]
        return counts

    def find(self, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Up to ``most`` partners of each query: numbers of queries, numbers of entries.

        A query that has found its partners looks no further. Those that are left when enough pairs were compared, the
        third result, have to be searched for in another way.
        """
        parts: list[tuple[np.ndarray, np.ndarray]] = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
        most_pairs = SIZES.scanned_pairs if len(self._asked) <= SIZES.scanned_blocks else -1
        done = 0
        for places, entries in self._turns():
            compared, own = self._first_partners(places, entries, most, most_pairs)
            most_pairs -= compared
            if most_pairs < 0:
                break
            parts += own
            done += len(places)
        asked, found = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return asked, found, self._queries[self._order[done:]]

    def _turns(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Places of queries of one block, not too many at a time, with the numbers of the entries of the block."""
        for number, (start, end) in enumerate(zip(self._starts, self._ends, strict=True)):
            own = self._order[self._bounds[number] : self._bounds[number + 1]]
            for first in range(0, len(own), _ASKING):
                entries = self._entry_order[start:end]
                if len(entries) > _FIRST_ENTRIES:  # in their order, partners may all be at the end
                    entries = np.random.default_rng(len(entries)).permutation(entries)
                yield own[first : first + _ASKING], entries

    def _first_partners(
        self, places: np.ndarray, entries: np.ndarray, most: int, most_pairs: int
    ) -> tuple[int, list[tuple[np.ndarray, np.ndarray]]]:
        """The first partners of some queries of one block; how many pairs were compared, or just too many."""
        parts = []
        lacking = np.full(len(places), most)
        first, step, compared = 0, _FIRST_ENTRIES, 0
        while first < len(entries) and len(places) and compared <= most_pairs:
            step = min(step, max(1, SIZES.scanned_at_once // len(places)))
            near = entries[first : first + step]
            compared += len(places) * len(near)
            pairs = self._pairs(places, near)
            pairs &= np.cumsum(pairs, axis=1) <= lacking[:, None]
            query, entry = pairs.nonzero()
            parts.append((self._queries[places[query]], near[entry]))
            lacking -= pairs.sum(axis=1)
            places, lacking = places[lacking > 0], lacking[lacking > 0]
            first, step = first + len(near), 4 * step
        return compared, parts

    def _blocks_of_pairs(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Block by block: places of queries, numbers of entries, and which of their pairs match."""
        for number, (start, end) in enumerate(zip(self._starts, self._ends, strict=True)):
            entries = self._entry_order[start:end]
            step = max(1, SIZES.scanned_at_once // max(len(entries), 1))
            for first in range(self._bounds[number], self._bounds[number + 1] if len(entries) else 0, step):
                places = self._order[first : min(first + step, self._bounds[number + 1])]
                yield places, entries, self._pairs(places, entries)

    def _pairs(self, places: np.ndarray, entries: np.ndarray) -> np.ndarray:
        """Which pairs of some queries and entries of one block match."""
        pairs = np.ones((len(places), len(entries)), bool)
        for one in self._others:
            pairs &= COMPARE[one.op](one.query[self._queries[places]][:, None], one.entry[entries])
        return pairs


class Tree:
    """Entries in a k-d tree, to count or list the partners under any comparisons."""

    def __init__(self, matches: Sequence[Match], weights: np.ndarray) -> None:
        from dc_engine.kernels import tree as kernel  # numba

        self._kernel = kernel
        self._weights = weights
        codes = {
            Op.EQ: kernel.EQ,
            Op.NE: kernel.NE,
            Op.LT: kernel.GT,
            Op.LE: kernel.GE,
            Op.GT: kernel.LT,
            Op.GE: kernel.LE,
        }
        self._ops = np.array([codes[one.op] for one in matches], np.int64)
        points = [one.entry for one in matches] or [np.zeros(len(weights), np.int64)]
        self._points = np.ascontiguousarray(np.stack(points))
        self._built = kernel.build(self._points, weights, self._ops)

    def count(self, matches: Sequence[Match]) -> np.ndarray:
        """For each query, the total weight of its partners."""
        return self._kernel.count_matches(self._points, self._weights, *self._built, self._ops, self._queries(matches))

    def find(self, matches: Sequence[Match], queries: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
        """Up to ``most`` partners of each of these queries: numbers of queries, numbers of entries."""
        order, bounds, boxes, _ = self._built
        asked, found = self._kernel.list_matches(
            self._points, order, bounds, boxes, self._ops, self._queries(matches, queries), most
        )
        return queries[asked], found

    def _queries(self, matches: Sequence[Match], chosen: np.ndarray | slice = slice(None)) -> np.ndarray:
        if not matches:
            size = len(chosen) if isinstance(chosen, np.ndarray) else 0
            return np.zeros((size, 1), np.int64)
        return np.ascontiguousarray(np.stack([one.query[chosen] for one in matches], axis=1))
