"""Whether new rows break nothing of what holds, looked up in what was made of the rows that are there before.

That is what a load usually does, and it should cost what the load brings. Codes of old rows stay as they are: a value
that none of them stands for has a place between two. Where a box asks for equality, rows of the same value are looked
at; else it is noted how far old rows reach, or a partner is looked for in cells. What is made of the old rows can be
remembered. When something may be broken, nothing is said about what: who looks at all rows finds that out
(``newcomers.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from dc_engine.discovery.boxes import in_any
from dc_engine.discovery.cells import Cells, ends_of, find, in_cells
from dc_engine.discovery.coding import bytes_of, found_among, placed
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.space import Space
from dc_engine.discovery.table import Table, pairs_of
from dc_engine.discovery.terms import ALL, Outcome
from dc_engine.state.memory import Shelf
from dc_engine.threads import side_by_side

_LESS, _EQUAL, _GREATER, _ALL = int(Outcome.LESS), int(Outcome.EQUAL), int(Outcome.GREATER), int(ALL)
_DIFFERENT = _LESS | _GREATER
_MANY_TEXTS = 20_000
"""So many are worth a table of their hashes."""
_PARTNERS = 400
"""So many rows of the same value are looked at for each new one; of a value with more, cells are."""
_SAMPLE = 100_000
"""Rows, at least, from which it is estimated how many that are."""
_FIRST = 50_000
"""Rows among which values of new ones are looked for where there are few, ``_FEW`` combinations at most."""
_FEW = 1 << 22
_MOST_TERMS, _MOST_COMBINATIONS = 16, 1 << 16
"""So many columns of few values, and so many combinations of these, may there be for fronts."""
_ALONE = 20_000
"""So few rows are passed over by one thread."""
_PASSED = 100_000_000
"""So many rows, for all boxes together, are passed over: less than a second."""
_WORD, _SHORT = 64, 1 << 15
_COMPARED = 64
"""Of all pairs with a new row, this part is compared in cells at most."""
_ANSWERS = 1 << 20
"""About so many partners are looked for, one for each box and row, before it is asked whether there is any."""


@dataclass(frozen=True)
class Standing:
    """Rows that are there: their codes, the values of these, and where to keep what is made of them."""

    space: Space
    layout: Layout
    rows: int
    codes: Callable[[], Mapping[str, np.ndarray]]
    """Read when something has to be made of them: what was made does without."""
    values: Callable[[str], pa.Array]
    shelf: Shelf

    @cached_property
    def table(self) -> Table:
        """Their codes by term."""
        codes, more = self.codes(), int(self.space.nulls == "equal")
        return Table.of(self.layout, {name: some + more if more else some for name, some in codes.items()})

    def places(self, others: Standing) -> np.ndarray:
        """Where values of other rows are among those of their codes, by term: see ``placed``."""
        found, equal = placed(self.space, self.values, others.values, self._found), self.space.nulls == "equal"
        codes, terms = others.codes(), self.layout.terms.terms
        return np.stack([found[one.left][codes[one.left]] + 2 * (equal + one.first) for one in terms]).astype(np.int32)

    def _found(self, name: str, known: pa.Array, some: pa.Array) -> np.ndarray:
        """The codes of values; among many texts they are found by hashes, if a table of these can be remembered."""
        if self.shelf.key is None or len(known) < _MANY_TEXTS or not pa.types.is_large_binary(known.type):
            return found_among(known, some)
        from dc_engine.kernels.texts import hashed, look_up  # numba

        slots = 2 << len(known).bit_length()
        table = self.shelf.recall(("hashed", name), lambda: hashed(*bytes_of(known), slots), _nbytes)
        return look_up(*bytes_of(known), table, *bytes_of(some))

    def partners(self, term: int, places: np.ndarray) -> float:
        """About how many rows have the values of others in a term."""
        each = max(1, self.rows // _SAMPLE)

        def make() -> np.ndarray:
            codes = self.table.left[term]
            if each > 1:  # by chance: what comes in turns, as debit and credit do, must not be missed
                codes = codes[np.random.default_rng(0).integers(self.rows, size=self.rows // each)]
            return np.bincount(codes + 1)[1:].astype(np.int32)

        sizes = self.shelf.recall(("sizes", term), make, _nbytes)
        mine = places[(places & 1 != 0) & (places >= 0)] >> 1
        return float(sizes[mine[mine < len(sizes)]].sum()) * each

    def groups(self, term: int) -> tuple[np.ndarray, np.ndarray]:
        """The rows by their values in a term, and where each of these begins."""
        from dc_engine.kernels.groups import grouped  # numba

        def make() -> tuple[np.ndarray, np.ndarray]:
            codes = self.table.left[term]
            return grouped(codes, int(codes.max(initial=-1)) + 1)

        return self.shelf.recall(("groups", term), make, _all_nbytes)

    @cached_property
    def packed(self) -> tuple[np.ndarray, ...]:
        """The codes of each row side by side in few words, so that a row is fetched at once; and where each term is."""
        from dc_engine.kernels.groups import pack  # numba

        def make() -> tuple[np.ndarray, ...]:
            lines = self.table.right
            fields, count = _fields([int(line.max(initial=-1)) + 1 for line in lines])
            words = np.zeros((self.rows, count), np.uint64)
            pack(lines, *fields[:2], words)
            return words, *fields

        return self.shelf.recall("packed", make, _all_nbytes)

    def cells(self, terms: np.ndarray) -> Cells:
        """The rows in cells by some terms. If they stay, their codes lie as the cells do, so that few are far apart."""

        def make() -> Cells:
            lines = [self.table.right[term] for term in terms.tolist()]
            order, starts, cells = in_cells(lines, self.rows)
            ends = ends_of(lines, cells, len(starts) - 1)
            if self.shelf.key is None:
                return Cells(self.table.right, terms, order, starts, *ends)
            short = all(line.max(initial=0) < _SHORT for line in lines)
            codes = np.empty((len(lines), self.rows), np.int16 if short else np.int32)
            for mine, line in zip(codes, lines, strict=True):
                mine[:] = line[order]
            return Cells(codes, np.arange(len(lines)), np.arange(self.rows, dtype=np.int32), starts, *ends)

        return self.shelf.recall(("cells", tuple(terms.tolist())), make, _all_nbytes)

    @cached_property
    def tops(self) -> np.ndarray:
        """The largest code of each term."""
        return self.shelf.recall("tops", lambda: self.table.right.max(axis=1, initial=0).astype(np.int64), _nbytes)

    def combined(self, terms: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray] | None:
        """Which combination of values each row has in some terms, and a row with each; nothing if they are many."""
        from dc_engine.kernels.fronts import combined  # numba

        if len(terms) > _MOST_TERMS or math.prod((self.tops[list(terms)] + 1).tolist()) > _MOST_COMBINATIONS:
            return None
        given = (self.table.right, self.tops, np.array(terms, np.int64))
        numbers, rows = self.shelf.recall(("combined", terms), lambda: combined(*given), _all_nbytes)
        return (numbers, rows) if len(rows) else None

    def combinations(self, terms: tuple[int, ...]) -> tuple[np.ndarray, tuple[int, ...]] | None:
        """Which values some rows have in some terms, as a table with a place for each; nothing if that is too large."""

        def make() -> tuple[np.ndarray, np.ndarray]:
            some = [self.table.left[term, :_FIRST] + 1 for term in terms]
            sizes = np.array([int(one.max(initial=0)) + 1 for one in some])
            if np.prod(sizes.astype(float)) > _FEW:
                return np.zeros(0, bool), sizes
            seen = np.zeros(int(np.prod(sizes)), bool)
            seen[np.ravel_multi_index(some, tuple(sizes))] = True
            return seen, sizes

        seen, sizes = self.shelf.recall(("combinations", terms), make, _all_nbytes)
        return (seen, tuple(sizes.tolist())) if len(seen) else None


def breaks_nothing(layout: Layout, ways: np.ndarray, old: Sequence[Standing], new: Standing) -> bool:
    """Whether no new row lies in a box, all of which are empty among old rows, with an old one or another new one.

    The boxes are given both ways round, the ``widest`` of them. If not, one may, or it would take long to find out.
    """
    if not len(ways):
        return True
    asked: np.ndarray | None = None
    for standing in sorted(old, key=lambda one: -one.rows):
        screen = _Screen(standing, ways, standing.places(new), asked)
        if not screen.clears():
            return False
        asked = screen.asked
    return bool(old) and not _meet(layout, ways, new)


def _meet(layout: Layout, ways: np.ndarray, new: Standing) -> bool:
    """Whether two new rows lie in a box."""
    return bool(in_any(layout, [*map(tuple, ways.tolist())], pairs_of(new.table, np.arange(new.rows)).patterns).any())


class _Screen:
    """Holds new rows, by the places of their values, against old ones. Boxes have the new row as t."""

    def __init__(self, old: Standing, boxes: np.ndarray, mine: np.ndarray, asked: np.ndarray | None) -> None:
        self._old, self._boxes, self._mine = old, boxes, mine
        terms = old.layout.terms.terms
        self._said = boxes != _ALL
        if asked is None:
            asked = np.array([(mine[said] >= 0).all(axis=0) for said in self._said], bool)
        self.asked = asked
        """For each box and row whether it has to be looked at: a NULL in a term of a box violates nothing."""
        own = np.array([one.own for one in terms], bool)
        self._own = own
        self._clearable = ~(self._said & ~own).any(axis=1) & (self._said & (boxes & _EQUAL == 0)).any(axis=1)
        """Boxes that a row cannot be in if it has all values of an old row there: the old one would be in it too."""

    def clears(self) -> bool:
        """Whether no row lies in a box with an old one; notes which boxes need not be asked about any more."""
        keys, rest = self._keys()
        sets = {
            number: tuple(np.flatnonzero(self._said[number]).tolist()) for number in rest if self._clearable[number]
        }
        for key, mine in keys.items():
            near = sorted({one for one in sets.values() if key in one})
            if self._meet_in_groups(key, mine, near, sets):
                return False
        for one in sorted({one for one in sets.values() if not keys.keys() & set(one)}):
            self._clear([number for number in sets if sets[number] == one], self._is_combined(one))
        return self._finds_nothing(np.array(rest, np.int64))

    def _keys(self) -> tuple[dict[int, list[int]], list[int]]:
        """Terms by whose groups boxes are looked at, with these, and the other boxes: as few terms as will do."""
        equal = (self._boxes == _EQUAL) & self._own
        costs = {
            term: self._old.partners(term, self._mine[term]) for term in np.flatnonzero(equal.any(axis=0)).tolist()
        }
        cheap = [term for term, cost in costs.items() if cost <= _PARTNERS * self._mine.shape[1]]
        left, keys = np.flatnonzero(self.asked.any(axis=1)), dict[int, list[int]]()
        while cheap and len(left):
            decided = {term: left[equal[left, term]] for term in cheap}
            prices = {term: (costs[term] + self._old.rows) / max(len(decided[term]), 0.5) for term in cheap}
            best = min(cheap, key=lambda term: (prices[term], term))
            if not len(decided[best]):
                break
            keys[best] = decided[best].tolist()
            left = left[~equal[left, best]]
        return keys, left.tolist()

    def _meet_in_groups(
        self, key: int, boxes: Sequence[int], near: Sequence[tuple[int, ...]], sets: Mapping[int, tuple[int, ...]]
    ) -> bool:
        """Whether a row lies in one of some boxes with an old one of its value in a term."""
        from dc_engine.kernels.groups import meet_in_groups  # numba

        masks = self._boxes[boxes]
        among = np.full((len(near), self._boxes.shape[1]), _ALL, np.uint8)
        for line, places in zip(among, near, strict=True):
            line[list(places)] = _EQUAL
        both = np.concatenate([masks, among])
        same = np.flatnonzero((both == _EQUAL).all(axis=0))
        compared = np.flatnonzero((both != _ALL).any(axis=0))
        known = np.zeros((len(near), self._mine.shape[1]), bool)
        groups = (key, *self._old.groups(key))
        lists = (_as_lists(masks), _as_lists(among))
        terms = (same[same != key], compared)
        if meet_in_groups(self._mine, self._old.packed, groups, terms, *lists, self.asked[boxes], known):
            return True
        for one, rows in zip(near, known, strict=True):
            self._clear([number for number in sets if sets[number] == one], rows)
        return False

    def _clear(self, boxes: Sequence[int], rows: np.ndarray) -> None:
        self.asked[boxes] &= ~rows

    def _is_combined(self, terms: tuple[int, ...]) -> np.ndarray:
        """Which rows have all values of an old one in some terms, as far as that is known without looking for long."""
        mine = self._mine[list(terms)]
        if (known := self._old.combinations(terms)) is None:
            return np.zeros(mine.shape[1], bool)
        seen, sizes = known
        codes = (mine >> 1) + 1
        there = ((mine & 1 != 0) & (codes < np.array(sizes)[:, None])).all(axis=0)
        there[there] = seen[np.ravel_multi_index(tuple(codes[:, there]), sizes)]
        return there

    def _finds_nothing(self, boxes: np.ndarray) -> bool:
        """Whether no partner is found for the rows that are left: by fronts, and in cells where there are none."""
        boxes = boxes[self.asked[boxes].any(axis=1)]
        if len(boxes) * max(self._old.rows, _ALONE) > _PASSED:
            return self._none_in_cells(boxes)
        met = side_by_side(self._met, boxes.tolist(), None if self._old.rows > _ALONE else 1)
        return not any(met) and self._none_in_cells(boxes[[one is None for one in met]])

    def _met(self, number: int) -> bool | None:
        """Whether a row lies in a box: see ``meet``. It is not known if some terms have too many combinations."""
        from dc_engine.kernels.fronts import meet  # numba

        old, box, tops = self._old, self._boxes[number], self._old.tops.tolist()
        said = sorted(np.flatnonzero(self._said[number]).tolist(), key=tops.__getitem__)
        in_order = [term for term in said if box[term] not in (_EQUAL, _DIFFERENT)]
        last = [term for term in said if box[term] == _DIFFERENT] or in_order[-1:]
        first = [term for term in in_order if term not in last][-1:]
        few = [term for term in said if term not in (*first, *last)]
        if len(last) != 1 or (groups := old.combined(tuple(few))) is None:
            return None
        given = (self.asked[number], np.array(few, np.int64), groups, first[0] if first else -1, last[0])
        ways = [box] if box[last[0]] != _DIFFERENT else [_with_outcome(box, last[0], one) for one in (_LESS, _GREATER)]
        return any(meet(old.table.right, old.tops, self._mine, way, *given) for way in ways)

    def _none_in_cells(self, boxes: np.ndarray) -> bool:
        if not len(boxes):
            return True
        terms = np.flatnonzero(self._said[boxes].any(axis=0))
        rows = np.flatnonzero(self.asked[boxes].any(axis=0))
        mine, cells = self._mine[terms][:, rows], self._old.cells(terms)
        most = len(rows) * self._old.rows // _COMPARED + _FIRST
        step = max(1, _ANSWERS // len(rows))
        for some in (boxes[first : first + step] for first in range(0, len(boxes), step)):
            asked = self.asked[some][:, rows]
            found = np.full(asked.shape, -1, np.int64)
            most = find(mine, cells, self._boxes[some][:, terms], asked, found, most)
            if most < 0 or (found >= 0).any():
                return False
        return True


def _with_outcome(box: np.ndarray, term: int, outcome: int) -> np.ndarray:
    """A box with one outcome in a term."""
    way = box.copy()
    way[term] = outcome
    return way


def _as_lists(masks: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Boxes as one list of terms, with what each admits, and where each box begins and the last one ends."""
    numbers, places = np.nonzero(masks != _ALL)
    return places, masks[numbers, places], np.searchsorted(numbers, np.arange(len(masks) + 1))


def _fields(most: Sequence[int]) -> tuple[tuple[np.ndarray, ...], int]:
    """In which word each of some numbers has its bits, from which bit on and which these are, and how many words."""
    places, shifts, word, used = [], [], 0, 0
    for one in most:
        if used + one.bit_length() > _WORD:
            word, used = word + 1, 0
        places.append(word)
        shifts.append(used)
        used += one.bit_length()
    masks = [(1 << one.bit_length()) - 1 for one in most]
    return (np.array(places), np.array(shifts, np.uint64), np.array(masks, np.uint64)), word + 1


def _nbytes(array: np.ndarray) -> int:
    return array.nbytes


def _all_nbytes(arrays: Sequence[np.ndarray]) -> int:
    return sum(one.nbytes for one in arrays)
