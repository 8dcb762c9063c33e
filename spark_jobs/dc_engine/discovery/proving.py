"""Whether dependencies hold: pairs of rows are looked at until each box is proven empty or shown not to be.

Three ways lead there. A *key*, some terms on which a box asks for equality: all pairs that agree on it are looked at,
which decides every box that asks for it, known now or later. The empty key is all pairs. A box that compares at most
two columns by anything else is decided by *classes* of rows that agree. Any other is *counted* by itself: its rows are
reduced to the distinct values of the columns it reads, and detection counts the pairs among them. Each box goes the way
that costs least; when all ways together cost more than looking at all pairs, that is done.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import numpy as np

from dc_engine.detection.codes import combine
from dc_engine.discovery.boxes import Box, canonical, containing, equalities, said
from dc_engine.discovery.counting import some_pairs, with_themselves
from dc_engine.discovery.keys import EVERYTHING, Key, Keys
from dc_engine.discovery.partitions import Partitions, Question, question_of
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.spreading import Lines, Packed, Units
from dc_engine.discovery.table import Ranges, Shown, Table, pairs_of, patterns_among, shown_by
from dc_engine.errors import counted
from dc_engine.sizes import SIZES
from dc_engine.threads import processors, side_by_side

_COUNTERS = 4
"""How many boxes are counted at the same time: each needs some memory of its own."""
_FIRST = 50_000
"""Rows among which values of new rows are looked for first: most are there."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """A unit of the work: one of several parts of the pairs that agree on a key, or boxes to be decided."""

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
        self._threads = threads
        self._agreeing = Keys(table, new)
        self._keys: list[Key] = []
        self._counted: set[Box] = set()
        self._strange: dict[Box, np.ndarray] = {}
        self._strange_in: dict[tuple[tuple[int, ...], bytes], np.ndarray] = {}
        self._familiar: dict[tuple[int, ...], np.ndarray] = {}
        self._questions: dict[Box, Question | None] = {}
        self._fresh = np.flatnonzero(new) if new is not None else np.zeros(0, np.int64)
        rows, fresh = table.rows, table.rows if new is None else len(self._fresh)
        self.pairs = fresh * (rows - fresh) + fresh * (fresh - 1) // 2
        """How many pairs there are to look at."""
        self.looked_at = 0
        """How many pairs were looked at so far."""

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
        self._keys += keys
        if keys == [EVERYTHING]:
            return self._look_at_everything()
        rest = [box for box in rest if not self._is_covered(box)]
        self._counted |= set(rest)
        found = self._shared_out(keys, rest)
        self.looked_at += sum(one.pairs for one in found)
        return Shown.of(self.table.layout, [Shown(one.patterns, one.one, one.two) for one in found])

    def _shared_out(self, keys: Sequence[Key], boxes: Sequence[Box]) -> list[Lines]:
        """The work in pieces, done here, or where workers take it: what each of them met."""
        price = sum(map(self._agreeing.cost, keys)) + sum(map(self._counted_price, boxes))
        crew = self.table.workers(price, self.table.nbytes)
        if crew is None:
            found = [self.look_at(_Piece(key)) for key in keys]
            asked, others = self._apart(boxes)
            pieces = [_Piece(boxes=tuple(some)) for some in (asked, *([box] for box in others)) if some]
            return [*found, *side_by_side(self.look_at, pieces, min(processors(), _COUNTERS))]
        parts = {key: math.ceil(crew.units * self._agreeing.cost(key) / price) for key in keys}
        pieces = [_Piece(key, part, parts[key]) for key in keys for part in range(parts[key])]
        boxes = sorted(boxes, key=lambda box: (sorted(equalities(box)), box))  # classes are made once for neighbours
        places = np.cumsum([self._counted_price(box) for box in boxes]) * crew.units // price
        pieces += [_Piece(boxes=tuple(some)) for some in _runs(boxes, places)]
        what = f"pairs that agree on {counted(len(keys), 'key')} are compared, {counted(len(boxes), 'rule')} checked"
        return crew.run(what, Units(_Rows.of(self.table, self.new), tuple(pieces)))

    def look_at(self, piece: _Piece) -> Lines:
        """One piece of the work: the patterns that it meets, with their rows, and how many pairs it looks at."""
        asked, others = self._apart(piece.boxes)
        found = [self._look_at(piece)] if piece.key else [*self._ask(asked), *map(self._count, others)]
        met = Shown.of(self.table.layout, [one for one, _ in found])
        return Lines(met.patterns, met.t, met.s, sum(pairs for _, pairs in found))

    def _ways(self, boxes: Sequence[Box]) -> tuple[list[Key], list[Box]]:
        """The keys to look at, and the boxes to count."""
        if self.pairs <= SIZES.few_pairs:
            return [EVERYTHING], []
        deciding: dict[Key, set[Box]] = defaultdict(set)
        for asked, some in _gathered(boxes, self._own_equalities).items():
            for key in self._agreeing.candidates(asked):
                deciding[key].update(some)
        rest, keys = set(boxes), []
        price = 0.0
        while rest:
            covered = {key: left for key, some in deciding.items() if (left := some & rest)}
            shares = {key: (self._agreeing.cost(key) / len(some), sorted(key)) for key, some in covered.items()}
            best = min(shares, key=shares.__getitem__, default=None)
            if best is None:
                break
            cost = self._agreeing.cost(best)
            cheap = cost <= 4 * SIZES.key_price * self.table.rows  # what others cost is not even asked
            if not cheap and cost > sum(map(self._counted_price, covered[best])):
                break
            keys.append(best)
            price += cost
            rest -= covered[best]
        if price + sum(map(self._counted_price, rest)) >= self.pairs:
            return [EVERYTHING], []
        return keys, sorted(rest)

    def _counted_price(self, box: Box) -> float:
        """What it costs to decide a box, in pairs that could be looked at instead: the more inequalities, the more."""
        if self._question(box):
            return float(SIZES.class_price * self.table.rows)
        if self.new is not None and not self._strangers_of(box).size:
            return float(self.table.rows)
        unequal = len(said(box)) - len(equalities(box))
        return float(SIZES.counted_price * self.table.rows * (1, 1, 4, 20, 40)[min(unequal, 4)])

    def _own_equalities(self, box: Box) -> Key:
        asked, terms = equalities(box), self.table.layout.terms
        return asked if terms.symmetric else frozenset(place for place in asked if terms.terms[place].own)

    # the three ways

    def _look_at(self, piece: _Piece) -> tuple[Shown, int]:
        """The patterns of all pairs that agree on a key, or of a part of them, and how many they are."""
        order, starts = self._partitions.groups(piece.key)
        rows = np.arange(len(order)) if self.new is None else np.flatnonzero(self.new[order])
        ranges = Ranges(rows, starts[rows], rows).cut(piece.parts)[piece.part]
        chosen = self.table.taken(order)
        met = patterns_among(chosen, chosen, ranges, self._threads)
        return Shown(met.patterns, order[met.t], order[met.s]), ranges.pairs

    def _look_at_everything(self) -> Shown:
        """The patterns of all pairs, or of all with a new row."""
        self.looked_at += self.pairs
        new = np.ones(self.table.rows, bool) if self.new is None else self.new
        met = pairs_of(self.table, np.flatnonzero(new), np.flatnonzero(~new))
        return Shown.of(self.table.layout, [shown_by(met)])

    def _question(self, box: Box) -> Question | None:
        if box not in self._questions:
            self._questions[box] = question_of(self.table.layout.terms, box)
        return self._questions[box]

    def _apart(self, boxes: Sequence[Box]) -> tuple[list[Box], list[Box]]:
        """The boxes that classes decide, and those that are counted."""
        return [box for box in boxes if self._question(box)], [box for box in boxes if not self._question(box)]

    @cached_property
    def _partitions(self) -> Partitions:
        return Partitions(self.table.left, self.new, self._threads)

    def _ask(self, boxes: Sequence[Box]) -> list[tuple[Shown, int]]:
        """Decide boxes by classes of rows: for each the patterns of some pairs that lie in it, none if it is empty."""
        answers = self._partitions.answers([one for box in boxes if (one := self._question(box))])
        return [(Shown(self.table.patterns(t, s), t, s), 0) for t, s in answers]

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
        places = tuple(said(box))
        twins = with_themselves(self.table, box, self._fresh)
        key = places, np.packbits(twins).tobytes()  # many rules are about the same columns
        if key not in self._strange_in:
            self._strange_in[key] = self._strangers_in(places, twins)
        return self._strange_in[key]

    def _strangers_in(self, places: tuple[int, ...], twins: np.ndarray) -> np.ndarray:
        """The same for all rules about some terms that these rows violate with their twins."""
        sides = (self.table.left, self.table.right)
        columns = [side[place] for side in (sides[:1] if sides[0] is sides[1] else sides) for place in places]
        if not columns or twins.all():
            return self._fresh
        if places not in self._familiar:
            first = np.arange(min(_FIRST, self.table.rows))
            self._familiar[places] = self._known(columns, self._fresh, first)
        unknown = self._fresh[~self._familiar[places] & ~twins]
        if self._thoroughly and len(unknown):
            unknown = unknown[~self._known(columns, unknown, None)]
        found = np.sort(np.concatenate([unknown, self._fresh[twins]]))
        return self._fresh if len(found) == len(self._fresh) else found

    def _known(self, columns: Sequence[np.ndarray], some: np.ndarray, among: np.ndarray | None) -> np.ndarray:
        """Which rows have the values of an old row among those given, or (without) any."""
        old = self._agreeing.touched(columns, some) if among is None else among
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


def _gathered(boxes: Iterable[Box], key_of: Callable[[Box], Key]) -> dict[Key, list[Box]]:
    """Boxes by their keys."""
    found: dict[Key, list[Box]] = defaultdict(list)
    for box in boxes:
        found[key_of(box)].append(box)
    return found


def _runs(boxes: Sequence[Box], numbers: np.ndarray) -> list[list[Box]]:
    """Neighbours with the same number, together."""
    return [[box for box, _ in some] for _, some in groupby(zip(boxes, numbers, strict=True), key=lambda one: one[1])]
