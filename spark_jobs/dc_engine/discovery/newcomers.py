"""Whether dependencies hold when a few rows are new, and how many pairs violate those that do not.

Boxes that no cheap key decides are not counted. For each new row a partner among the old ones is looked for, in cells
of similar rows. A violating row is then compared with all others, so that whatever lies within these boxes is decided
too: what holds instead of a rule needs no second look at the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

import numpy as np

from dc_engine.discovery.boxes import Box, follow
from dc_engine.discovery.cells import Partners, partners_of
from dc_engine.discovery.counting import lying_with, violating_pairs
from dc_engine.discovery.keys import EVERYTHING, Key
from dc_engine.discovery.proving import Prover
from dc_engine.discovery.spreading import Lines
from dc_engine.discovery.table import Shown, Table, pairs_of, shown_by
from dc_engine.sizes import SIZES

_FEW = 1_000
"""So many pairs are compared in cells at least, before all are."""
_AT_ONCE = 1 << 20
"""Of so many pairs patterns are made at a time."""
_SMALL = 8
"""A table that is so many times smaller is counted by itself."""


def prover_of(table: Table, new: np.ndarray) -> Prover:
    """Who decides boxes on the pairs with at least one new row."""
    return Newcomers(table, new) if new.sum() <= SIZES.rows_in_cells else Prover(table, new)


def violations_of(table: Table, new: np.ndarray, boxes: Sequence[Box]) -> list[int]:
    """How many pairs of rows lie in each of some boxes that are empty among old rows."""
    if new.sum() > SIZES.rows_in_cells:
        return [violating_pairs(table, box) for box in boxes]
    return Newcomers(table, new).violations(boxes)


class Newcomers(Prover):
    """Decides boxes that are empty among old rows on the pairs with at least one of a few new rows."""

    _thoroughly = False

    def __init__(self, table: Table, new: np.ndarray) -> None:
        super().__init__(table, new)
        self._exhausted: set[Box] = set()
        """Boxes all of whose pairs have patterns that were met."""

    @cached_property
    def _old(self) -> np.ndarray:
        assert self.new is not None
        return np.flatnonzero(~self.new)

    def open(self, boxes: Iterable[Box]) -> list[Box]:
        """See ``Prover``. What lies within an exhausted box is decided."""
        left = super().open(boxes)
        decided = follow(self.table.layout.terms, left, list(self._exhausted))
        return [box for box, is_decided in zip(left, decided, strict=True) if not is_decided]

    def _counted_price(self, box: Box) -> float:  # noqa: ARG002
        """What it costs to look in cells, which does for many boxes."""
        return float(SIZES.cell_price * self.table.rows)

    def _shared_out(self, keys: Sequence[Key], boxes: Sequence[Box]) -> list[Lines]:
        """See ``Prover``. Cells are filled while pairs that agree on keys are looked at."""
        with ThreadPoolExecutor(1) as pool:
            cells = [pool.submit(self._look_in_cells, boxes)] if boxes else []
            found = super()._shared_out(keys, []) if keys else []
            return [*found, *(one.result() for one in cells)]

    def _look_in_cells(self, boxes: Sequence[Box]) -> Lines:
        """Look for an old partner of each new row, and at all pairs of new rows, and of rows that have a partner."""
        partners = self._partners(boxes)
        if partners is None:
            self._keys.append(EVERYTHING)
            everything = self._look_at_everything()
            return Lines(everything.patterns, everything.t, everything.s)
        t, s = self._fresh[partners.rows], partners.partners
        met = [shown_by(pairs_of(self.table, self._fresh))]
        violating, most = np.unique(t), max(1, SIZES.exhausted_pairs // self.table.rows)
        if len(violating) <= most:
            self._exhausted |= set(boxes)
        else:
            met.append(self._shown(t, s))
            violating = violating[:: len(violating) // most][:most]
            self._exhausted |= set(boxes) - {boxes[one] for one in np.unique(partners.boxes).tolist()}
        with_all, pairs = self._with_all(violating)
        found = Shown.of(self.table.layout, [*met, with_all])
        return Lines(found.patterns, found.t, found.s, pairs)

    def _shown(self, t: np.ndarray, s: np.ndarray) -> Shown:
        """The patterns of some pairs, of which there may be very many."""
        found = Shown.of(self.table.layout)
        for some in (slice(first, first + _AT_ONCE) for first in range(0, len(t), _AT_ONCE)):
            more = Shown(self.table.patterns(t[some], s[some]), t[some], s[some].astype(np.int64))
            found = Shown.of(self.table.layout, [found, more])
        return found

    def _partners(self, boxes: Sequence[Box]) -> Partners | None:
        """For boxes and new rows old partners, if there are any; nothing when to compare all rows takes less time."""
        some = [number for number, box in enumerate(boxes) if self._strangers_of(box).size]

        def asked(number: int) -> np.ndarray:
            return np.isin(self._fresh, self._strangers_of(boxes[some[number]]))

        asking, most = [boxes[number] for number in some], self.pairs // 4 + _FEW
        found = partners_of(self.table, asking, self._fresh, asked, self._old, most)
        return found and found._replace(boxes=np.array(some, np.int32)[found.boxes])

    def violations(self, boxes: Sequence[Box]) -> list[int]:
        """How many pairs of rows lie in each of some boxes."""
        counts: dict[Box, int] = {}
        for box in boxes:  # all pairs agree on a key with a new row
            near = self._agreeing.touched([self.table.left[place] for place in sorted(self._own_equalities(box))])
            if len(near) * _SMALL < self.table.rows:
                counts[box] = violating_pairs(self.table.taken(near), box)
        others = [box for box in boxes if box not in counts]
        partners = self._partners(others)
        edges = [] if partners is None else np.searchsorted(partners.boxes, np.arange(len(others) + 1)).tolist()
        for number, box in enumerate(others):
            rows = None if partners is None else self._fresh[partners.rows[edges[number] : edges[number + 1]]].tolist()
            if rows is None or len(rows) > SIZES.counted_price:
                counts[box] = violating_pairs(self.table, box)
            else:
                with_old = sum(int(lying_with(self.table, box, row)[self._old].sum()) for row in rows)
                counts[box] = with_old + violating_pairs(self.table.taken(self._fresh), box)
        return [counts[box] for box in boxes]
