"""Whether new rows break nothing of what holds, looked up in what was made of the rows that are there before.

That is what a load usually does, and it should cost what the load brings. Where a box asks for equality, rows of the
same value are looked at; else how far old rows reach is known, or a partner is looked for in cells. The new rows are
the last ones of the newest part, and held against those before them in the same way. When something may be broken,
nothing is said about what: who looks at all rows finds that out (``newcomers.py``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dc_engine.discovery.cells import find
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.standing import Standing
from dc_engine.discovery.terms import ALL, Outcome

_LESS, _EQUAL, _GREATER, _ALL = int(Outcome.LESS), int(Outcome.EQUAL), int(Outcome.GREATER), int(ALL)
_DIFFERENT, _NULL = _LESS | _GREATER, 8
_PARTNERS, _PAIRS = 400, 1 << 21
"""So many rows of the same value are looked at for each new one, or so many in all."""
_FEW_PARTNERS = 4
"""With more of them, those of the same values in several terms are looked for."""
_USUAL = 1_000
"""The rows of a load for which keys are chosen."""
_MOST_TERMS, _MOST_COMBINATIONS = 16, 1 << 16
"""So many columns of few values, and so many combinations of these, may there be for fronts."""
_PASSED = 100_000_000
"""So many rows, for all boxes together, are passed over to know how far they reach: about a second."""
_COMPARED, _ALWAYS = 64, 50_000
"""Of all pairs with a new row, this part is compared in cells at most, and so many are in any case."""
_ANSWERS = 1 << 20
"""About so many partners are looked for, one for each box and row, before it is asked whether there is any."""


@dataclass(frozen=True)
class Ways:
    """Boxes that hold, both ways round, the ``widest`` of them: what they say does not depend on rows."""

    layout: Layout
    masks: np.ndarray

    @cached_property
    def said(self) -> np.ndarray:
        """The terms that each box speaks of."""
        return self.masks != _ALL

    @cached_property
    def equal(self) -> np.ndarray:
        """The columns on which each box asks for equality."""
        return (self.masks == _EQUAL) & self.own

    @cached_property
    def clearable(self) -> np.ndarray:
        """Boxes that a row cannot be in if it has all values of an old row there: the old one would be in it too."""
        return ~(self.said & ~self.own).any(axis=1) & (self.said & (self.masks & _EQUAL == 0)).any(axis=1)

    @cached_property
    def reflexive(self) -> np.ndarray:
        """Boxes that a row may be in with itself."""
        return ~(self.said & self.own & (self.masks & _EQUAL == 0)).any(axis=1)

    @cached_property
    def own(self) -> np.ndarray:
        """The terms that compare a column with itself."""
        return np.array([one.own for one in self.layout.terms.terms], bool)

    @property
    def nbytes(self) -> int:
        """About what they take, with a plan."""
        return 20 * self.masks.nbytes

    def asked(self, mine: np.ndarray) -> np.ndarray:
        """For each box and row whether it has to be looked at: a NULL in a term of a box violates nothing."""
        if mine.min(initial=0) >= 0:
            return np.ones((len(self.masks), mine.shape[1]), bool)
        nulls, kinds = np.unique(mine < 0, axis=1, return_inverse=True)  # of many rows there are few kinds
        return (self.said.astype(np.float32) @ nulls.astype(np.float32) == 0)[:, kinds.ravel()]


@dataclass(frozen=True, slots=True)
class Keyed:
    """Boxes that are looked at among the rows of the same values in few terms, and sets of terms cleared there."""

    terms: tuple[int, ...]
    """One, or all on which they ask for equality if it leaves many rows."""
    boxes: np.ndarray
    compared: np.ndarray
    forbidden: np.ndarray
    """Of each box and each set the outcomes that must not be, as ``meet_in_groups`` has them."""
    sets: int
    cleared: tuple[np.ndarray, np.ndarray]
    """Other boxes, and in which set each of them speaks of all terms."""


@dataclass(frozen=True, slots=True)
class Fronts:
    """Boxes that are looked at by how far rows reach, one that admits less and greater of the last term as two."""

    boxes: np.ndarray
    masks: np.ndarray
    """What each admits."""
    made_of: tuple[np.ndarray, ...]
    """See ``build``."""

    @staticmethod
    def of(ways: Ways, boxes: np.ndarray, tops: np.ndarray) -> Fronts:
        """Those of some boxes, as far as there are any."""
        found = sorted((*front, number) for number in boxes.tolist() for front in _fronts_of(ways, number, tops))
        fews = np.full((len(found), max((len(few) for few, *_ in found), default=0) + 1), -1, np.int64)
        for line, (few, *_) in zip(fews, found, strict=True):
            line[: len(few)] = few
        *made_of, admitted, numbers = np.array([front[1:] for front in found], np.int64).reshape(-1, 6).T.copy()
        masks = ways.masks[numbers]
        masks[np.arange(len(found)), made_of[1]] = admitted
        return Fronts(numbers, masks, (fews, *made_of))

    def only(self, some: np.ndarray) -> Fronts:
        """Some of them."""
        return Fronts(self.boxes[some], self.masks[some], tuple(one[some] for one in self.made_of))


@dataclass(frozen=True, slots=True)
class Plan:
    """How boxes are looked at: by keys, by fronts, and in cells."""

    combined: tuple[tuple[tuple[int, ...], np.ndarray], ...]
    """Sets of terms in which rows may have the values of an old one, and the boxes that are then cleared."""
    keys: tuple[Keyed, ...]
    fronts: Fronts
    rest: np.ndarray

    @staticmethod
    def of(ways: Ways, rows: Standing) -> Plan:
        """A plan for boxes, by the rows of the largest part."""
        partners = {term: rows.partners(term) for term in np.flatnonzero(ways.equal.any(axis=0)).tolist()}
        cheap = {term: number for term, number in partners.items() if number <= _PARTNERS}
        keys, left = _with_keys(ways, np.arange(len(ways.masks)), cheap, rows.rows)
        fronts = Fronts.of(ways, left, rows.tops)
        if len(fronts.boxes) * rows.rows > _PASSED:
            fronts = Fronts.of(ways, left[:0], rows.tops)
        others, rest = _with_keys(ways, np.setdiff1d(left, fronts.boxes), partners, rows.rows)
        left = np.union1d(fronts.boxes, rest)
        keyed = tuple(_keyed(ways, partners, *one, left) for one in (*keys, *others))
        near = np.unique(np.concatenate([left[:0], *(one.cleared[0] for one in keyed)]))
        far = [one for one in left.tolist() if ways.clearable[one] and one not in near]
        sets: dict[tuple[int, ...], list[int]] = {}
        for one in far:
            sets.setdefault(tuple(np.flatnonzero(ways.said[one]).tolist()), []).append(one)
        return Plan(tuple((terms, np.array(some)) for terms, some in sets.items()), keyed, fronts, rest)


def _with_keys(
    ways: Ways, boxes: np.ndarray, partners: Mapping[int, float], rows: int
) -> tuple[list[tuple[int, np.ndarray]], np.ndarray]:
    """Terms by whose groups boxes are looked at, with these, and the other boxes: as few terms as will do."""
    keys: list[tuple[int, np.ndarray]] = []
    while len(boxes):
        decided = {term: boxes[ways.equal[boxes, term]] for term in partners}
        prices = {term: (_USUAL * partners[term] + rows) / len(some) for term, some in decided.items() if len(some)}
        if not prices:
            break
        best = min(prices, key=lambda term: (prices[term], term))
        keys.append((best, decided[best]))
        boxes = boxes[~ways.equal[boxes, best]]
    return keys, boxes


def _keyed(ways: Ways, partners: Mapping[int, float], term: int, boxes: np.ndarray, others: np.ndarray) -> Keyed:
    """Boxes with a key, and the sets of terms with that key of others: who has all values of an old row is cleared."""
    near = others[ways.clearable[others] & ways.said[others, term]]
    sets, numbers = np.unique(ways.said[near], axis=0, return_inverse=True)
    both = np.concatenate([ways.masks[boxes], np.where(sets, np.uint8(_EQUAL), np.uint8(_ALL))])
    alike = (both == _EQUAL).all(axis=0) & ways.own  # rows of a group have the same values in the same columns
    terms = tuple(np.flatnonzero(alike).tolist()) if partners[term] > _FEW_PARTNERS else (term,)
    compared = (both != _ALL).any(axis=0)
    compared[list(terms)] = False
    forbidden = _forbidden(both[:, compared])
    return Keyed(terms, boxes, np.flatnonzero(compared), forbidden, len(sets), (near, numbers.ravel()))


def _forbidden(masks: np.ndarray) -> np.ndarray:
    """The outcomes that boxes do not admit, in words with four bits for each term."""
    from dc_engine.kernels.groups import OUTCOMES  # numba

    bits = np.where(masks == _ALL, 0, ~masks & _ALL | _NULL).astype(np.uint64)
    words = np.zeros((max(1, -(-masks.shape[1] // OUTCOMES)), len(masks)), np.uint64)
    for place in range(masks.shape[1]):
        words[place // OUTCOMES] |= bits[:, place] << np.uint64(4 * (place % OUTCOMES))
    return words


def _fronts_of(ways: Ways, number: int, tops: np.ndarray) -> list[tuple[tuple[int, ...], int, int, int, int, int]]:
    """The fronts of a box: what they are made of (see ``build``), and what the last term admits."""
    box = ways.masks[number]
    said = sorted(np.flatnonzero(ways.said[number]).tolist(), key=tops.__getitem__)
    free = [term for term in said if box[term] != _EQUAL]
    if not free:
        return []
    last, in_order = free[-1], [term for term in free[:-1] if box[term] != _DIFFERENT]
    first = in_order[-1] if in_order else -1
    few = tuple(term for term in said if term not in (first, last))
    if len(few) > _MOST_TERMS or math.prod((tops[list(few)] + 1).tolist()) > _MOST_COMBINATIONS:
        return []
    way, admitted = 1 if first < 0 or box[first] & _GREATER else -1, int(box[last])
    ends = (_LESS, _GREATER) if admitted == _DIFFERENT else (admitted,)
    return [(few, first, last, way, 1 if one & _LESS else -1, one) for one in ends]


def breaks_nothing(ways: Ways, old: Sequence[Standing], newest: Standing, since: int) -> bool:
    """Whether no new row lies in a box, all of which are empty among old rows, with an old one or another new one.

    The new rows are those of the newest part from one on. If not, one may, or it would take long to find out.
    """
    if not len(ways.masks):
        return True
    old = sorted(old, key=lambda one: -one.rows)
    most = max([*old, newest], key=lambda one: one.rows)
    plan = most.shelf.recall(("plan", ways.masks.tobytes()), lambda: Plan.of(ways, most), lambda _: ways.nbytes)
    asked: np.ndarray | None = None
    for standing in [*old, newest]:
        own = since if standing is newest else -1
        mine = newest.own_places(since) if standing is newest else standing.places(newest, since)
        first = asked is None and own < 0
        asked = ways.asked(mine) if asked is None else asked
        if not _Screen(ways, plan, standing, first, own, mine, asked).clears():
            return False
    return True


@dataclass(frozen=True, slots=True)
class _Screen:
    """Holds new rows, by the places of their values, against the rows of a part. Boxes have the new row as t."""

    ways: Ways
    plan: Plan
    rows: Standing
    first: bool
    """Whether this is the first part."""
    since: int
    """Where the new rows begin if they are the last ones of this part; else -1."""
    mine: np.ndarray
    asked: np.ndarray
    """For each box and row whether it has to be looked at: those that need not be any more are noted."""

    def clears(self) -> bool:
        """Whether no row lies in a box with one of the part, before it if it is a new one too."""
        if self.first:
            for terms, boxes in self.plan.combined:
                self.asked[boxes] &= ~self._is_combined(terms)
        left = [self.plan.rest]
        for keyed in self.plan.keys:
            if (found := self._meets_in_groups(keyed)) is None:
                left.append(keyed.boxes)
            elif found:
                return False
        if (some := self._left_by_fronts()) is None:
            return False
        return self._none_in_cells(np.unique(np.concatenate([*left, some])))

    def _meets_in_groups(self, keyed: Keyed) -> bool | None:
        """Whether a row lies in one of some boxes with one of its values in few terms; not known if they are many."""
        from dc_engine.kernels.groups import NONE, TOO_MANY, meet_in_groups  # numba

        rows = self.mine.shape[1]
        known, most = np.zeros((keyed.sets, rows), bool), max(_PARTNERS * rows, _PAIRS)
        groups, asks = self.rows.groups(keyed.terms, self.mine)
        given = (self.rows.packed, groups, asks, keyed.compared, keyed.forbidden)
        answer = meet_in_groups(self.mine, self.since, *given, self.asked[keyed.boxes], known, most)
        boxes, sets = keyed.cleared
        self.asked[boxes] &= ~known[sets]
        return None if answer == TOO_MANY else answer != NONE

    def _left_by_fronts(self) -> np.ndarray | None:
        """The boxes for which it is not known how far rows reach; nothing if a row lies in one of the others."""
        from dc_engine.kernels.fronts import meet  # numba

        fronts = self.plan.fronts
        asked = self.asked[fronts.boxes]
        some = asked.any(axis=1)
        if not some.any():
            return fronts.boxes[:0]
        if (some := self._worth_making(some)) is not None:
            fronts, asked = fronts.only(some), asked[some]
        built = self.rows.fronts(fronts.made_of)
        unknown = built[0] < 0
        if self.since >= 0:  # they would meet themselves
            unknown |= self.ways.reflexive[fronts.boxes]
        asked[unknown] = False
        return None if meet(self.mine, asked, fronts.masks, fronts.made_of, built) else fronts.boxes[unknown]

    def _worth_making(self, asked: np.ndarray) -> np.ndarray | None:
        """Fronts that are made now: of the first part, which is large, those asked for at first, and then all."""
        now = np.flatnonzero(asked)
        if not self.first:
            return now
        once = self.rows.shelf.recall(("asked", self.plan.fronts.masks.tobytes()), lambda: now, lambda _: now.nbytes)
        return once if np.isin(now, once).all() else None

    def _none_in_cells(self, boxes: np.ndarray) -> bool:
        """Whether no partner is found for the rows that are left."""
        boxes = boxes[self.asked[boxes].any(axis=1)]
        if not len(boxes):
            return True
        masks = self.ways.masks
        terms = np.flatnonzero(self.ways.said[boxes].any(axis=0))
        rows = np.flatnonzero(self.asked[boxes].any(axis=0))
        mine, cells = self.mine[terms][:, rows], self.rows.cells(terms, stay=self.since < 0)
        own = rows + self.since if self.since >= 0 else np.full(len(rows), -1)
        most = len(rows) * self.rows.rows // _COMPARED + _ALWAYS
        step = max(1, _ANSWERS // len(rows))
        for some in (boxes[first : first + step] for first in range(0, len(boxes), step)):
            asked = self.asked[some][:, rows]
            found = np.full(asked.shape, -1, np.int64)
            most = find(mine, own, cells, masks[some][:, terms], asked, found, most)
            if most < 0 or (found >= 0).any():
                return False
        return True

    def _is_combined(self, terms: tuple[int, ...]) -> np.ndarray:
        """Which rows have all values of an old one in some terms, as far as that is known without looking for long."""
        mine = self.mine[list(terms)]
        if (known := self.rows.combinations(terms)) is None:
            return np.zeros(mine.shape[1], bool)
        seen, sizes = known
        codes = (mine >> 1) + 1
        there = ((mine & 1 != 0) & (codes < np.array(sizes)[:, None])).all(axis=0)
        there[there] = seen[np.ravel_multi_index(tuple(codes[:, there]), sizes)]
        return there
