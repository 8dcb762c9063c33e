"""Which entries of an index without a key may violate with some rows: found without passing over all of them.

It is the screen (``screen.py``) the other way round: rows stand in the order of the first inequality, with the least of
the second so far, and entries ask whether some row satisfies both with them. A row group asks too, with the best that
its columns can have at once; if no row satisfies both with that, none of its entries has to be read. Where the data is
nearly clean, that leaves the row groups in which rows have their own places, and those with outliers.

Whether an entry is found depends only on its values. So all entries of a projection are found, in whatever runs, or
none of them, and what they add up to is right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dc_engine.constraints.model import Op
from dc_engine.detection.bodies import BodyPlan
from dc_engine.detection.plan import IndexPlan, OrderClass
from dc_engine.detection.screen import Questions, Screen


@dataclass(frozen=True, slots=True)
class _Zone:
    """From where to where a column goes in each row group: like a number that is both its least and its largest."""

    low: np.ndarray
    high: np.ndarray
    exact: bool = False

    @property
    def present(self) -> np.ndarray:
        return self.low <= self.high

    def turned(self, op: Op) -> np.ndarray:
        """The numbers with which a comparison is easiest to satisfy."""
        return self.high if op in (Op.GT, Op.GE) else ~self.low


class Partners:
    """What some rows may violate with. Bodies are such that the rows are t."""

    def __init__(self, rows: pa.Table, bodies: Sequence[BodyPlan], classes: Sequence[OrderClass]) -> None:
        self._questions = Questions.of([body.swapped for body in bodies], classes, in_blocks=False)
        self._stairs = self._questions.made(rows)

    @property
    def columns(self) -> list[str]:
        """The columns of entries that it looks at."""
        return self._questions.asking

    def among(self, entries: pa.Table) -> np.ndarray:
        """Which entries may violate with some row."""
        screen = Screen(self._questions, self._questions.numbers(entries, self.columns), entries.num_rows)
        screen.look_at(self._stairs)
        return screen.may_violate

    def may_be_in(self, index: IndexPlan, zones: Mapping[str, np.ndarray], groups: int) -> np.ndarray:
        """Which row groups of an index may have such entries.

        Nothing is known where its numbers are of another family than ours, because of what a column is compared with.
        """
        far = np.iinfo(np.int64)
        known: dict[str, _Zone] = {}
        families, stored = dict(self._questions.families), dict(zip(index.columns, index.families, strict=True))
        for name in self.columns:
            own = zones.get(name) if stored[name] == families[name] else None
            low, high = own.T if own is not None else (np.full(groups, far.min), np.full(groups, far.max))
            known[name] = _Zone(low, high)
        screen = Screen(self._questions, known, groups)
        screen.look_at(self._stairs)
        return screen.may_violate
