"""Whether dependencies hold: pairs of rows are looked at until each box is proven empty or shown not to be.

Two ways lead there. A *key*, some terms on which a box asks for equality: all pairs that agree on it are looked at,
which decides every box that asks for it, known now or later. The empty key is all pairs. Or a box is *counted* by
itself: its rows are reduced to the distinct values of the columns it reads, and detection counts the pairs among
them. Each box goes the way that costs least; when all ways together cost more than looking at all pairs, that is done.
"""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import combinations, groupby

import numpy as np

from dc_engine.detection.codes import combine
from dc_engine.discovery.boxes import Box, canonical, containing, equalities, said
from dc_engine.discovery.counting import some_pairs, with_themselves
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.spreading import Lines, Packed, Units
from dc_engine.discovery.table import Ranges, Shown, Table, pairs_of, patterns_among, shown_by
from dc_engine.errors import counted
from dc_engine.sizes import SIZES

Key = frozenset[int]
EVERYTHING: Key = frozenset()
_SAMPLE = 20_000
"""Rows from which the cost of a key on several terms is estimated; of a key on one term it is five times as many."""
_COUNTERS = 4
"""How many boxes are counted at the same time: each needs some memory of its own."""
_FIRST = 50_000
"""Rows among which values of new rows are looked for first: most are there."""


@dataclass
class Effort:
    """What was looked at, for people: boxes by the way they went, and pairs."""

    keys: list[list[str]] = field(default_factory=list)
    by_key: int = 0
    by_count: int = 0
    pairs: int = 0


@dataclass(frozen=True, slots=True)
class _Piece:
    """A unit of the work: one of several parts of the pairs that agree on a key, or boxes to be counted."""

    key: Key = EVERYTHING
    part: int = 0
    parts: int = 1
    boxes: tuple[Box, ...] = ()


class Prover:
    """Decides boxes on the rows of a table: on all pairs, or on those with at least one new row."""

    _thoroughly = True
    """Whether the values of new rows are looked for among all others; some will do where looking further is cheap."""

    def __init__(self, table: Table, new: np.ndarray | None = None, threads: int | None = None) -> None:
        self.table = table
        self.new = new
        self.effort = Effort()
        self._threads = threads
        self._keys: list[Key] = []
        self._counted: set[Box] = set()
        self._costs: dict[Key, float] = {}
        self._strange: dict[Box, np.ndarray] = {}
        self._fresh = np.flatnonzero(new) if new is not None else np.zeros(0, np.int64)
        rows, fresh = table.rows, table.rows if new is None else len(self._fresh)
        self.pairs = fresh * (rows - fresh) + fresh * (fresh - 1) // 2
        """How many pairs there are to look at."""

    def open(self, boxes: Iterable[Box]) -> list[Box]:
        """The boxes (one of each mirror pair) that nothing has decided yet."""
        terms = self.table.layout.terms
        distinct = {canonical(terms, box) for box in boxes}
        return sorted(box for box in distinct - self._counted if not self._is_covered(box))

    def _is_covered(self, box: Box) -> bool:
        asked = equalities(box)
        return any(key <= asked for key in self._keys)

    def look(self, boxes: Sequence[Box]) -> Shown:
        """Look at pairs until each of these open boxes is decided; returns the patterns that were met.

        A box that contains none of them afterwards is empty.
        """
        keys, rest = self._ways(boxes)
        names = self.table.layout.terms.terms
        self.effort.keys += [[names[place].left for place in sorted(key)] for key in keys]
        self._keys += keys
        if keys == [EVERYTHING]:
            return self._look_at_everything()
        rest = [box for box in rest if not self._is_covered(box)]
        self.effort.by_count += len(rest)
        self._counted |= set(rest)
        found = self._shared_out(keys, rest)
        self.effort.pairs += sum(one.pairs for one in found)
        return Shown.of(self.table.layout, [Shown(one.patterns, one.one, one.two) for one in found])

    def _shared_out(self, keys: Sequence[Key], boxes: Sequence[Box]) -> list[Lines]:
        """The work in pieces, done here, or where workers take it: what each of them met."""
        price = sum(map(self._cost, keys)) + sum(map(self._counted_price, boxes))
        crew = self.table.workers(price, self.table.nbytes)
        if crew is None:
            found = [self.look_at(_Piece(key)) for key in keys]
            with ThreadPoolExecutor(min(os.cpu_count() or 1, _COUNTERS)) as pool:
                return [*found, *pool.map(self.look_at, (_Piece(boxes=(box,)) for box in boxes))]
        parts = {key: math.ceil(crew.units * self._cost(key) / price) for key in keys}
        pieces = [_Piece(key, part, parts[key]) for key in keys for part in range(parts[key])]
        places = np.cumsum([self._counted_price(box) for box in boxes]) * crew.units // price
        pieces += [_Piece(boxes=tuple(some)) for some in _runs(boxes, places)]
        what = f"pairs that agree on {counted(len(keys), 'key')} are compared, {counted(len(boxes), 'rule')} checked"
        return crew.run(what, Units(_Rows.of(self.table, self.new), tuple(pieces)))

    def look_at(self, piece: _Piece) -> Lines:
        """One piece of the work: the patterns that it meets, with their rows, and how many pairs it looks at."""
        found = [self._look_at(piece)] if piece.key else [self._count(box) for box in piece.boxes]
        met = Shown.of(self.table.layout, [one for one, _ in found])
        return Lines(met.patterns, met.t, met.s, sum(pairs for _, pairs in found))

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
            if best is None:
                break
            cheap = (
                self._cost(best) <= 4 * SIZES.key_price * self.table.rows
            )  # what counting would cost is not even asked
            if not cheap and self._cost(best) > sum(map(self._counted_price, covered[best])):
                break
            keys.append(best)
            price += self._cost(best)
            rest -= set(covered[best])
        if price + sum(map(self._counted_price, rest)) >= self.pairs:
            return [EVERYTHING], []
        self.effort.by_key += len(boxes) - len(rest)
        return keys, sorted(rest)

    def _counted_price(self, box: Box) -> float:
        """What it costs to count a box, in pairs that could be looked at instead: the more inequalities, the more."""
        if self.new is not None and not self._strangers_of(box).size:
            return float(self.table.rows)
        unequal = len(said(box)) - len(equalities(box))
        return float(SIZES.counted_price * self.table.rows * (1, 1, 4, 20, 40)[min(unequal, 4)])

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
            self._costs[key] = self._pairs_of(key) + SIZES.key_price * self.table.rows
        return self._costs[key]

    def _pairs_of(self, key: Key) -> float:
        """An estimate from some rows, and all new ones if those are given."""
        rows = self.table.rows
        step = max(1, rows // (_SAMPLE if len(key) > 1 else 5 * _SAMPLE))
        some = np.arange(0, rows, step)
        if self.new is None:
            sizes = np.bincount(self._codes(key, some)[0], minlength=1)
            return float((sizes * (sizes - 1) // 2).sum()) * step * step
        codes, kept = self._codes(key, np.concatenate([some, self._fresh]))
        sampled = kept < len(some)
        sizes = np.bincount(codes[sampled], minlength=int(codes.max(initial=0)) + 1)
        return float(sizes[codes[~sampled]].sum()) * step

    def _codes(self, key: Key, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Codes that are the same where rows agree on a key, and which of the rows have them: no NULL in the key."""
        columns = [self.table.left[place][rows] for place in sorted(key)]
        kept = np.flatnonzero(np.logical_and.reduce([column >= 0 for column in columns]))
        return combine([column[kept].astype(np.int64) for column in columns]), kept

    # the two ways

    def _look_at(self, piece: _Piece) -> tuple[Shown, int]:
        """The patterns of all pairs that agree on a key, or of a part of them, and how many they are."""
        order, starts = self._in_groups(piece.key)
        rows = np.arange(len(order)) if self.new is None else np.flatnonzero(self.new[order])
        ranges = Ranges(rows, starts[rows], rows).cut(piece.parts)[piece.part]
        chosen = self.table.taken(order)
        met = patterns_among(chosen, chosen, ranges, self._threads)
        return Shown(met.patterns, order[met.t], order[met.s]), ranges.pairs

    def _look_at_everything(self) -> Shown:
        """The patterns of all pairs, or of all with a new row."""
        self.effort.pairs += self.pairs
        some = np.arange(self.table.rows) if self.new is None else self._fresh
        parts = [(some, None)] if self.new is None else [(some, np.flatnonzero(~self.new)), (some, None)]
        return Shown.of(self.table.layout, [shown_by(pairs_of(self.table, *part)) for part in parts])

    def _in_groups(self, key: Key) -> tuple[np.ndarray, np.ndarray]:
        """Rows ordered by their values of a key, new ones last among equals, and where the group of each begins.

        If new rows are given, groups without one are left out.
        """
        rows = (
            np.arange(self.table.rows) if self.new is None else self._touched([self.table.left[p] for p in sorted(key)])
        )
        codes, kept = self._codes(key, rows)
        rows = rows[kept]
        if self.new is not None:
            codes = 2 * codes + self.new[rows]
        order = np.argsort(codes, kind="stable")
        groups = codes[order] if self.new is None else codes[order] // 2
        first = np.flatnonzero(np.concatenate([[True], groups[1:] != groups[:-1]])) if len(groups) else order
        return rows[order], np.repeat(first, np.diff(np.append(first, len(order))))

    def _touched(self, columns: Sequence[np.ndarray], some: np.ndarray | None = None) -> np.ndarray:
        """Rows that may have the values of new rows (or of some of them) in all of these columns."""
        chosen = self._fresh if some is None else some
        rows: np.ndarray | None = None
        for codes in columns:
            wanted = np.zeros(int(codes.max(initial=0)) + 2, bool)  # the last place is for NULL
            wanted[codes[chosen]] = True
            wanted[-1] = False
            rows = np.flatnonzero(wanted[codes]) if rows is None else rows[wanted[codes[rows]]]
        return np.arange(self.table.rows) if rows is None else rows

    def _count(self, box: Box) -> tuple[Shown, int]:
        """Decide one box by counting: the patterns of some pairs, of which one lies in it unless it is empty."""
        asking = None if self.new is None else self._strangers_of(box)
        if asking is not None and len(asking) <= SIZES.counted_price:
            return self._with_all(asking)
        t, s = some_pairs(self.table, box, asking)
        met = Shown(self.table.patterns(t, s), t, s)
        assert containing(self.table.layout, box, met.patterns).all(), "a pair that was counted violates its rule"
        return met, 0

    def _with_all(self, rows: np.ndarray) -> tuple[Shown, int]:
        """The patterns of a few rows with all others, and how many pairs these are."""
        places = np.arange(len(rows))
        ranges = Ranges(
            np.concatenate([places, places]),
            np.concatenate([np.zeros(len(rows), np.int64), rows + 1]),
            np.concatenate([rows, np.full(len(rows), self.table.rows)]),
        )
        met = patterns_among(self.table.taken(rows), self.table, ranges, self._threads)
        return Shown(met.patterns, rows[met.t], met.s), ranges.pairs

    def _strangers_of(self, box: Box) -> np.ndarray:
        if box not in self._strange:
            self._strange[box] = self._strangers(box)
        return self._strange[box]

    def _strangers(self, box: Box) -> np.ndarray:
        """New rows that may violate a rule that holds among the others.

        One that has the values of an old row in all columns of the rule cannot: the old one would violate it with the
        same partner. Unless the partner is the old row itself, and the rule is violated by a row and its twin.
        """
        places = said(box)
        sides = (self.table.left, self.table.right)
        columns = [side[place] for side in (sides[:1] if sides[0] is sides[1] else sides) for place in places]
        twins = with_themselves(self.table, box, self._fresh)
        unknown = self._fresh[~twins]
        for rows in (np.arange(min(_FIRST, self.table.rows)), None)[: self._thoroughly + 1]:
            if len(unknown) and columns:
                unknown = unknown[~self._known(columns, unknown, rows)]
        return np.sort(np.concatenate([unknown, self._fresh[twins]]))

    def _known(self, columns: Sequence[np.ndarray], some: np.ndarray, among: np.ndarray | None) -> np.ndarray:
        """Which rows have the values of an old row among those given, or (without) any."""
        old = self._touched(columns, some) if among is None else among
        old = old[~self.new[old]] if self.new is not None else old
        codes = combine([np.concatenate([one[old], one[some]]).astype(np.int64) for one in columns])
        seen = np.zeros(int(codes.max(initial=0)) + 1, bool)
        seen[codes[: len(old)]] = True
        return seen[codes[len(old) :]]


@dataclass(frozen=True, slots=True)
class _Rows:
    """A table as workers get it to prove something on it, with which of its rows are new; a unit is a piece."""

    layout: Layout
    left: Packed
    right: Packed | None
    new: Packed | None

    @staticmethod
    def of(table: Table, new: np.ndarray | None) -> _Rows:
        right = None if table.right is table.left else Packed.of([*table.right])
        return _Rows(table.layout, Packed.of([*table.left]), right, None if new is None else Packed.of([new]))

    @property
    def nbytes(self) -> int:
        """See ``Search``."""
        return sum(one.nbytes for one in (self.left, self.right, self.new) if one)

    def look(self, piece: _Piece) -> Lines:
        """See ``Search``."""
        left = np.array(self.left.lines(), np.int32)
        right = left if self.right is None else np.array(self.right.lines(), np.int32)
        new = None if self.new is None else self.new.lines()[0].astype(bool)
        return Prover(Table(self.layout, left, right), new, threads=1).look_at(piece)


def _runs(boxes: Sequence[Box], numbers: np.ndarray) -> list[list[Box]]:
    """Neighbours with the same number, together."""
    return [[box for box, _ in some] for _, some in groupby(zip(boxes, numbers, strict=True), key=lambda one: one[1])]
