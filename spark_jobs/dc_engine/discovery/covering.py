"""By which columns the rows of a large table are brought together to decide many boxes at once.

Rows that violate a box agree on the columns on which it asks for equality: its context. Rows with the same hash of
some of these go to one task, which sees all of their pairs. Boxes share a way if that moves fewer rows. Of rows that
are alike in all columns that some boxes read two are enough, so that columns with few values move next to nothing.
Where a context has too few values to share out the rows, two columns that go together are decided by ranges of one of
them: within each range, and then among the rows with the largest and smallest values of the other in each range. What
all that comes to is estimated on a sample, and never decides a result.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from dc_engine.detection.codes import combine, whole
from dc_engine.discovery.boxes import Box, equalities, said
from dc_engine.discovery.coded import Coded
from dc_engine.discovery.partitions import question_of
from dc_engine.discovery.space import Space
from dc_engine.discovery.terms import Terms
from dc_engine.sizes import SIZES

_ESTIMATED = 50_000
"""So many rows of a sample show how many of all have to travel."""
_HANDLED, _MOVED, _EACH = 6, 3, 1
"""What it costs to look at a row for one more way, to move it, and to move one of its columns."""
_UNEVEN = 4
"""How many times as many rows as it should a task may get."""


@dataclass(frozen=True, slots=True)
class Way:
    """Boxes that are decided together."""

    boxes: tuple[Box, ...]
    key: tuple[str, ...]
    """The columns by whose hashes rows come together; without any they all do."""
    columns: tuple[str, ...]
    """All that the boxes read."""
    buckets: int
    thins: bool
    """Whether rows that are alike are left out, but for two of them."""
    without_null: bool
    """Whether rows with a NULL in the key are in no box."""
    wanted: np.ndarray | None = None
    """The hashes, in order, of the keys that matter; without it all do."""
    ranged: str = ""
    """The column by whose ranges, not by hashes, rows come together."""
    edges: pa.Array | None = None
    """The first value of each range but the first."""


@dataclass
class _Draft:
    boxes: list[Box]
    key: frozenset[str]
    columns: frozenset[str]


@dataclass
class Estimates:
    """What a sample says about rows of which there are ``rows``."""

    sample: Coded
    values: pa.Table
    """The values of its rows."""
    rows: int
    _parts: dict[frozenset[str], float] = field(default_factory=dict)
    _distinct: dict[frozenset[str], float] = field(default_factory=dict)
    _near: dict[frozenset[str], float] = field(default_factory=dict)

    def part(self, columns: frozenset[str]) -> float:
        """Which part of rows is left, about, if of those alike in some columns two are enough."""
        if columns not in self._parts:
            values = self._values(columns)
            half = len(values) // 2
            first, both = (int(np.minimum(np.bincount(some), 2).sum()) for some in (values[:half], values))
            self._parts[columns] = (both - first) / max(len(values) - half, 1)  # of rows to come rather fewer
        return self._parts[columns]

    def is_thin(self, columns: frozenset[str]) -> bool:
        """Whether few are."""
        return self.part(columns) <= SIZES.thinned_percent / 100

    def moved(self, columns: frozenset[str]) -> float:
        """Which part of rows has to travel."""
        return self.part(columns) if self.is_thin(columns) else 1.0

    def most(self, key: frozenset[str]) -> float:
        """The largest part of rows that agree on a key."""
        values = self._values(key)
        return float(np.bincount(values).max()) / len(values) if len(values) else 1.0

    def distinct(self, columns: frozenset[str]) -> float:
        """About how many different values rows have in some columns: from the pairs of the sample that agree."""
        if columns not in self._distinct:
            values = self._values(columns)
            sizes, half = np.bincount(values, minlength=1), len(values) * (len(values) - 1) / 2
            different = half / max(float((sizes * (sizes - 1.0)).sum() / 2), 0.5)
            some = different * -math.expm1(-self.rows / different) if different else 0.0
            self._distinct[columns] = min(max(some, float(np.count_nonzero(sizes))), self.rows)
        return self._distinct[columns]

    def near(self, key: frozenset[str]) -> float:
        """The part of rows that agree on a key with one of as many rows as a load usually has."""
        if key not in self._near:
            values = self._values(key)
            loaded = np.zeros(len(values), bool)
            loaded[:: max(1, len(values) // SIZES.usual_load)] = True
            is_near = np.isin(values[~loaded], values[loaded])
            self._near[key] = float(is_near.mean()) if len(is_near) else 1.0
        return self._near[key]

    def edges(self, column: str, ranges: int) -> pa.Array:
        """Values of a column that divide rows into so many ranges, or fewer, of about as many rows."""
        codes = self.sample.codes[column]
        order = np.argsort(codes, kind="stable")
        places = order[np.arange(1, ranges) * len(order) // ranges] if len(order) else order
        first = np.unique(codes[places], return_index=True)[1]
        return whole(self.values.column(column)).take(pa.array(places[first])).drop_null()

    def _values(self, columns: Iterable[str]) -> np.ndarray:
        codes = [self.sample.codes[name][:_ESTIMATED].astype(np.int64) for name in sorted(columns)]
        return combine(codes) if codes else np.zeros(min(len(self.sample.ids), _ESTIMATED), np.int64)

    def cost(self, columns: frozenset[str]) -> float:
        """What it costs to bring the rows together for boxes that read some columns."""
        return _HANDLED + self.moved(columns) * (_MOVED + _EACH * len(columns))


def ways_of(
    space: Space, terms: Terms, boxes: Sequence[Box], estimates: Estimates, *, every: bool = False
) -> list[Way]:
    """How to decide some boxes on all rows; or (``every``) how to see each pair that lies in them, once."""
    drafts: dict[frozenset[str], _Draft] = {}
    for box in boxes:
        context = context_of(terms, box)
        draft = drafts.setdefault(context, _Draft([], context, frozenset()))
        draft.boxes.append(box)
        draft.columns |= columns_of(terms, box)
    few = [one for one in drafts.values() if estimates.is_thin(one.columns)]
    many = [one for one in drafts.values() if not estimates.is_thin(one.columns)]
    chosen = [*_thinned(few, estimates), *_shared(many, estimates)]
    if every:  # rows that are alike count, and so do pairs of different ranges
        return [replace(_way(space, terms, one, estimates), thins=False) for one in chosen]
    return [way for one in chosen for way in _ways(space, terms, one, estimates)]


def context_of(terms: Terms, box: Box) -> frozenset[str]:
    """The columns on which two rows in a box agree."""
    own = (terms.terms[place] for place in equalities(box))
    return frozenset(term.left for term in own if term.own)


def columns_of(terms: Terms, box: Box) -> frozenset[str]:
    """The columns that a box reads, at least one: without any there would be no rows."""
    places = said(box) or [0]
    return frozenset(name for place in places for name in (terms.terms[place].left, terms.terms[place].right))


def _joined(some: Sequence[_Draft], key: frozenset[str]) -> _Draft:
    return _Draft([box for one in some for box in one.boxes], key, frozenset().union(*(one.columns for one in some)))


def _thinned(drafts: Sequence[_Draft], estimates: Estimates) -> list[_Draft]:
    """Of these few rows are left: together as long as that stays so."""
    found: list[_Draft] = []
    for one in sorted(drafts, key=lambda draft: (estimates.part(draft.columns), sorted(draft.columns))):
        for place, other in enumerate(found):
            both = _joined([other, one], other.key & one.key)
            small = estimates.moved(both.columns) * estimates.rows <= SIZES.probe_rows
            if estimates.is_thin(both.columns) and (both.key or small):
                found[place] = both
                break
        else:
            found.append(one)
    return found


def _shared(drafts: Sequence[_Draft], estimates: Estimates) -> list[_Draft]:
    """All rows have to travel for each of these: once for many of them, by a column that all of those ask for."""
    rest, found = list(drafts), list[_Draft]()
    while rest:
        best, gain = None, 0.0
        for name in sorted(set().union(*(one.key for one in rest))):
            key, mine = frozenset({name}), [one for one in rest if name in one.key]
            if len(mine) < 2 or estimates.most(key) * estimates.rows > _UNEVEN * SIZES.probe_rows:
                continue
            both = _joined(mine, frozenset.intersection(*(one.key for one in mine)))
            saved = sum(estimates.cost(one.columns) for one in mine) - estimates.cost(both.columns)
            if saved > gain:
                best, gain, kept = both, saved, [one for one in rest if name not in one.key]
        if best is None:
            return [*found, *rest]
        found.append(best)
        rest = kept
    return found


def _ways(space: Space, terms: Terms, draft: _Draft, estimates: Estimates) -> list[Way]:
    """The ways of a draft: one, or more if a task would get too many of the rows."""
    moved = estimates.moved(draft.columns) * estimates.rows
    if moved * estimates.most(draft.key) <= _UNEVEN * SIZES.probe_rows:
        return [_way(space, terms, draft, estimates)]
    ranges, found, rest = math.ceil(moved / SIZES.probe_rows), dict[str, list[Box]](), list[Box]()
    for box in draft.boxes:
        question = question_of(terms, box)
        if question is not None and len(question.columns) == 2:
            found.setdefault(terms.terms[question.columns[0]].left, []).append(box)
        else:
            rest.append(box)
    ways = [_way(space, terms, _of(terms, rest), estimates)] if rest else []
    for name, some in found.items():
        way = replace(_way(space, terms, _of(terms, some), estimates), ranged=name, edges=estimates.edges(name, ranges))
        ways.append(replace(way, buckets=ranges))
    return ways


def _of(terms: Terms, boxes: Sequence[Box]) -> _Draft:
    key = frozenset.intersection(*(context_of(terms, box) for box in boxes))
    return _Draft(list(boxes), key, frozenset().union(*(columns_of(terms, box) for box in boxes)))


def _way(space: Space, terms: Terms, draft: _Draft, estimates: Estimates) -> Way:
    moved = estimates.moved(draft.columns) * estimates.rows
    key = tuple(sorted(draft.key))
    firsts = {terms.terms[place].left for box in draft.boxes for place in equalities(box) if terms.terms[place].first}
    return Way(
        tuple(draft.boxes),
        key,
        tuple(name for name in space.columns if name in draft.columns),
        max(1, math.ceil(moved / SIZES.probe_rows)) if key else 1,
        estimates.is_thin(draft.columns),
        space.nulls == "ignore" and firsts.isdisjoint(key),
    )
