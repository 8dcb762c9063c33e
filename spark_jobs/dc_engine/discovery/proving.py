"""Whether dependencies hold: pairs of rows are looked at until each box is proven empty or shown not to be.

Two ways lead there. A *key*, some terms on which a box asks for equality: all pairs that agree on it are looked at,
which decides every box that asks for it, known now or later. The empty key is all pairs. Or a box is *counted* by
itself: its rows are reduced to the distinct values of the columns it reads, and detection counts the pairs among
them. Each box goes the way that costs least; when all ways together cost more than looking at all pairs, that is done.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from dc_engine.detection.codes import combine
from dc_engine.discovery.boxes import Box, canonical, containing, equalities
from dc_engine.discovery.counting import some_pairs
from dc_engine.discovery.table import Ranges, Shown, Table, patterns_among
from dc_engine.sizes import SIZES

Key = frozenset[int]
EVERYTHING: Key = frozenset()
_PASS = 4
"""The same for finding the rows of a key."""
_SAMPLE = 20_000
"""Rows from which the cost of a key on several terms is estimated."""


@dataclass
class Effort:
    """What was looked at, for people: boxes by the way they went, and pairs."""

    keys: list[list[str]] = field(default_factory=list)
    by_key: int = 0
    by_count: int = 0
    pairs: int = 0


class Prover:
    """Decides boxes on the rows of a table: on all pairs, or on those with at least one new row."""

    def __init__(self, table: Table, new: np.ndarray | None = None) -> None:
        self.table = table
        self.new = new
        self.effort = Effort()
        self._keys: list[Key] = []
        self._proven: set[Box] = set()
        self._costs: dict[Key, float] = {}
        rows, fresh = table.rows, table.rows if new is None else int(new.sum())
        self.pairs = fresh * (rows - fresh) + fresh * (fresh - 1) // 2
        """How many pairs there are to look at."""

    def open(self, boxes: Iterable[Box]) -> list[Box]:
        """The boxes (one of each mirror pair) that nothing has decided yet."""
        terms = self.table.layout.terms
        distinct = {canonical(terms, box) for box in boxes}
        return sorted(box for box in distinct - self._proven if not self._is_covered(box))

    def _is_covered(self, box: Box) -> bool:
        asked = equalities(box)
        return any(key <= asked for key in self._keys)

    def look(self, boxes: Sequence[Box]) -> Shown:
        """Look at pairs until each of these open boxes is decided; returns the patterns that were met.

        A box that is not proven afterwards contains one of them.
        """
        keys, counted = self._ways(boxes)
        met = [self._look_at(key) for key in keys]
        for box in counted:
            if not self._is_covered(box):
                met.append(self._count(box))
        return Shown.of(self.table.layout, met)

    def _ways(self, boxes: Sequence[Box]) -> tuple[list[Key], list[Box]]:
        """The keys to look at, and the boxes to count."""
        if self.pairs <= SIZES.few_pairs:
            return [EVERYTHING], []
        asked = {box: self._own_equalities(box) for box in boxes}
        rest, keys = set(boxes), []
        price = 0.0
        while rest:
            covered: dict[Key, list[Box]] = defaultdict(list)
            for box in rest:
                for key in self._candidates(asked[box]):
                    covered[key].append(box)
            shares = {key: (self._cost(key) / len(some), sorted(key)) for key, some in covered.items()}
            best = min(shares, key=shares.__getitem__, default=None)
            if best is None or shares[best][0] > SIZES.counted_price * self.table.rows:
                break
            keys.append(best)
            price += self._cost(best)
            rest -= set(covered[best])
        if price + len(rest) * SIZES.counted_price * self.table.rows >= self.pairs:
            return [EVERYTHING], []
        self.effort.by_key += len(boxes) - len(rest)
        return keys, sorted(rest)

    def _own_equalities(self, box: Box) -> Key:
        terms = self.table.layout.terms.terms
        return frozenset(place for place in equalities(box) if terms[place].own)

    def _candidates(self, asked: Key) -> list[Key]:
        """Keys that decide a box: single terms; pairs and triples of them where single ones are dear."""
        single = [frozenset([place]) for place in sorted(asked)]
        if any(self._cost(key) <= SIZES.counted_price * self.table.rows for key in single):
            return single
        cheapest = sorted(single, key=self._cost)[:6]
        wider = [frozenset().union(*some) for size in (2, 3) for some in combinations(cheapest, size)]
        return [*single, *wider]

    def _cost(self, key: Key) -> float:
        """About how many pairs agree on a key, and what it takes to find them."""
        if key not in self._costs:
            self._costs[key] = self._pairs_of(key) + _PASS * self.table.rows
        return self._costs[key]

    def _pairs_of(self, key: Key) -> float:
        rows = self.table.rows
        step = 1 if len(key) == 1 else max(1, rows // _SAMPLE)
        places = np.arange(0, rows, step)
        codes, valid = self._key_codes(key, places)
        fresh = valid if self.new is None else self.new[places] & valid
        sizes = np.bincount(codes[valid], minlength=1)
        news = sizes if self.new is None else np.bincount(codes[fresh], minlength=len(sizes))
        if self.new is not None and step > 1:  # all new rows count, and a sample of the others
            return float(sizes[codes[fresh]].sum()) * step * step
        pairs = (sizes * (sizes - 1) // 2) if self.new is None else news * sizes
        return float(pairs.sum()) * step * step

    def _key_codes(self, key: Key, places: np.ndarray | slice) -> tuple[np.ndarray, np.ndarray]:
        """A code for each row that is the same where the rows agree on a key, and which rows have no NULL in it."""
        columns = [self.table.left[place][places].astype(np.int64) for place in sorted(key)]
        valid = np.logical_and.reduce([column >= 0 for column in columns])
        return combine(columns), valid

    # the two ways

    def _look_at(self, key: Key) -> Shown:
        """The patterns of all pairs that agree on a key."""
        if key == EVERYTHING:
            order = self._newest_last(np.arange(self.table.rows))
            starts = np.zeros(len(order), np.int64)
        else:
            codes, valid = self._key_codes(key, slice(None))
            wanted = valid
            if self.new is not None:
                touched = np.zeros(int(codes.max(initial=0)) + 1, bool)
                touched[codes[self.new & valid]] = True
                wanted = valid & touched[codes]
            order = np.flatnonzero(wanted)
            order = (
                order[np.argsort(codes[order], kind="stable")]
                if self.new is None
                else order[np.lexsort((self.new[order], codes[order]))]
            )
            ordered = codes[order]
            first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])) if len(order) else order
            starts = np.repeat(first, np.diff(np.append(first, len(order))))
        rows = np.arange(len(order)) if self.new is None else np.flatnonzero(self.new[order])
        ranges = Ranges(rows, starts[rows], rows)
        chosen = self.table.taken(order)
        met = patterns_among(chosen, chosen, ranges)
        self.effort.pairs += ranges.pairs
        names = self.table.layout.terms.terms
        self.effort.keys.append([names[place].left for place in sorted(key)])
        self._keys.append(key)
        return Shown(met.patterns, order[met.t], order[met.s])

    def _newest_last(self, places: np.ndarray) -> np.ndarray:
        return places if self.new is None else places[np.argsort(self.new[places], kind="stable")]

    def _count(self, box: Box) -> Shown:
        """Decide one box by counting; returns the patterns of some pairs that lie in it."""
        self.effort.by_count += 1
        t, s = some_pairs(self.table, box, self.new)
        if not len(t):
            self._proven.add(box)
        met = Shown(self.table.patterns(t, s), t, s)
        assert containing(self.table.layout, box, met.patterns).all(), "a pair that was counted violates its rule"
        return met
