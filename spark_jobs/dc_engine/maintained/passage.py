"""From the rows before a change, over what it undoes, to those after it: what is known about dependencies goes along.

Three moments: 0 before the change, 1 after what it undoes, 2 after all of it. The rows of a large table stay where
they are, and a few of them do for all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial

import numpy as np
import pyarrow as pa

from dc_engine.detection.old import Lines
from dc_engine.detection.rows import ROW_ID, read_rows, row_ids
from dc_engine.discovery.afar import Afar, counts_in
from dc_engine.discovery.boxes import Box, follow
from dc_engine.discovery.coded import Coded
from dc_engine.discovery.counting import violating_pairs
from dc_engine.discovery.covering import Estimates
from dc_engine.discovery.covers import Cover, chosen_covers
from dc_engine.discovery.keeping import changed, found
from dc_engine.discovery.known import COUNTED, Known, Turnover, outgrown, with_nulls
from dc_engine.discovery.large import coded_few, found_afar, nullable_in, settled
from dc_engine.discovery.newcomers import violations_of
from dc_engine.discovery.ranking import Scales
from dc_engine.discovery.removal import rows_to_remove
from dc_engine.discovery.space import Space
from dc_engine.engines.work import searchers
from dc_engine.history.change import Change
from dc_engine.maintained.base import Ground
from dc_engine.maintained.continuity import DEPENDENCIES
from dc_engine.maintained.covered import Coming, Covered
from dc_engine.maintained.few import Few
from dc_engine.maintained.reading import Flags, coming_and_going
from dc_engine.maintained.resting import Part, Resting, rests
from dc_engine.maintained.standing import leaves_all
from dc_engine.sizes import SIZES
from dc_engine.state.files import FileKind
from dc_engine.state.snapshots import Snapshot


class Passage(ABC):
    """The rows at three moments."""

    counts: tuple[int, int, int]
    """How many there are at each."""

    @abstractmethod
    def after(self, known: Known, moment: int) -> Known:
        """What is known at a moment, from what was known at the one before."""

    @abstractmethod
    def scales(self, known: Known, moment: int) -> Scales:
        """What the dependencies of a moment are weighed with."""

    @abstractmethod
    def there(self, moment: int) -> tuple[Coded, np.ndarray]:
        """The rows of a moment, and which of them are new; of a large table some, with all that show what is known."""

    @abstractmethod
    def count(self, known: Known, boxes: Sequence[Box]) -> None:
        """Count how many pairs of rows violate each of some dependencies that held at the moment before the last."""

    @abstractmethod
    def violations(self, known: Known, boxes: Sequence[Box]) -> list[int]:
        """How many there are, of boxes that were to be counted."""

    @abstractmethod
    def removed(self, known: Known, box: Box) -> int:
        """How many rows have to go, of those of the last moment, for an order dependency to hold that was counted."""

    @abstractmethod
    def covers(self, known: Known) -> list[Cover]:
        """The indexes that the next load will need to know what holds, from what is known at the last moment."""


def leaves_known(ground: Ground, base: Snapshot, change: Change, space: Space, mode: str, known: Known) -> bool:
    """Whether a change certainly leaves all as it is that is known, if its rows can be looked up here."""
    rest = _rests(ground, base, change, space, mode, known)
    return not rest and leaves_all(ground.storage, base, change, space, known)


def passage_of(
    ground: Ground,
    base: Snapshot,
    change: Change,
    space: Space,
    mode: str,
    known: Known,
    seen: Callable[[], bool] | None,
) -> Passage:
    """The passage that a change makes; ``seen`` waits for what tells whether it leaves all as it is."""
    if _rests(ground, base, change, space, mode, known):
        return _FromAfar(ground, base, change, space)
    look = seen or partial(leaves_all, ground.storage, base, change, space, known)
    return _Here(ground, base, change, space, mode, look)


def _rests(ground: Ground, base: Snapshot, change: Change, space: Space, mode: str, known: Known) -> bool:
    """Whether the rows stay where they are."""
    rows = max(base.rows, base.rows + change.rows)
    begins = base.rows < 2 or outgrown(known, mode, base.rows + change.rows, space)
    return rests(ground.engine, space, mode if begins else known.mode, rows, for_loads=True)


class _Here(Passage):
    """All rows are here, when they are needed: where nothing falls they are not."""

    def __init__(
        self,
        ground: Ground,
        base: Snapshot,
        change: Change,
        space: Space,
        mode: str,
        leaves_all: Callable[[], bool],
    ) -> None:
        self._storage, self._base, self._change, self._leaves_all = ground.storage, base, change, leaves_all
        self._space, self._mode, self._workers = space, mode, searchers(ground.engine)
        self._there: dict[int, tuple[Coded, np.ndarray]] = {}
        self.counts = (base.rows, base.rows, base.rows + change.rows)
        if change.undone.inserts or change.undone.deletes:
            self.counts = (int(self._at(0).sum()), int(self._at(1).sum()), int(self._at(2).sum()))

    @cached_property
    def _rows(self) -> tuple[Coded, Flags]:
        return coming_and_going(self._storage, self._base, self._space, self._change)

    @property
    def _all(self) -> Coded:
        return self._rows[0]

    def _at(self, moment: int) -> np.ndarray:
        return self._rows[1].at(moment)

    def after(self, known: Known, moment: int) -> Known:
        """See ``Passage``."""
        some = self._change.undone if moment == 1 else self._change
        if not some.inserts and not some.deletes:
            return known
        if moment == 2 and self._leaves_all():
            return known
        before, after = self._at(moment - 1), self._at(moment)
        if (before == after).all():
            return known
        if before.sum() < 2:  # no pair of rows, so that nothing was known
            return found(self._space, self._all.chosen(after), self._mode, known.nullable, self._workers)
        return changed(self._space, known, Turnover(self._all, before, after), self._mode, self._workers)

    def scales(self, known: Known, moment: int) -> Scales:
        """See ``Passage``."""
        return Scales(self.there(moment)[0].table(self._space, known.nullable), known.keys)

    def there(self, moment: int) -> tuple[Coded, np.ndarray]:
        """See ``Passage``."""
        if moment not in self._there:
            now = self._at(moment)
            rows = self._all if now.all() else self._all.chosen(now)
            self._there[moment] = rows, ~self._at(moment - 1)[now]
        return self._there[moment]

    def count(self, known: Known, boxes: Sequence[Box]) -> None:
        """See ``Passage``: they are counted when they are asked for."""

    def violations(self, known: Known, boxes: Sequence[Box]) -> list[int]:
        """See ``Passage``."""
        rows, new = self.there(2)
        table = rows.table(self._space, known.nullable)
        if self._space.max_error:
            return [violating_pairs(table, box) for box in boxes]
        return violations_of(table, new, boxes)

    def removed(self, known: Known, box: Box) -> int:
        """See ``Passage``."""
        return len(rows_to_remove(self.there(2)[0].table(self._space, known.nullable), box))

    def covers(self, known: Known) -> list[Cover]:  # noqa: ARG002
        """See ``Passage``: the codes of all rows do."""
        return []


class _FromAfar(Passage):
    """The rows stay where they are. Here are those that show what is known, those that come, and some others."""

    def __init__(self, ground: Ground, base: Snapshot, change: Change, space: Space) -> None:
        self._ground, self._space, self._columns = ground, space, [*space.columns]
        self._base, self._change, undone = base, change, change.undone
        self._covers = [Cover.from_dict(one) for one in base.facts[DEPENDENCIES].get("covers", ())]
        files = tuple(base.files_of(FileKind.ROWS)) if base.rows else ()
        dead = tuple(base.files_of(FileKind.DEAD))
        sources = ((files, dead), (tuple(undone.inserts), ()), (tuple(change.inserts), ()))
        gone = (tuple(undone.deletes), tuple(change.deletes))
        self._ids_gone = [row_ids(ground.storage, some) for some in gone]
        between = base.rows + sum(one.rows for one in undone.inserts) - len(self._ids_gone[0])
        self.counts = (base.rows, between, base.rows + change.rows)
        parts = (
            [Part(*sources[0])],
            [Part(*sources[0], gone[0]), Part(*sources[1], gone[0])],
            [
                Part(*sources[0], (*gone[0], *gone[1])),
                Part(*sources[1], (*gone[0], *gone[1])),
                Part(*sources[2], gone[1]),
            ],
        )
        self._moments = [
            Resting(ground.engine, ground.storage, some, count) for some, count in zip(parts, self.counts, strict=True)
        ]
        self._stirs = (bool(undone.inserts or undone.deletes), bool(change.inserts or change.deletes))
        self._few = Few(ground, space, [some for some, _ in sources], dead)
        self._samples: dict[int, Coded] = {}
        self._estimates: dict[int, Estimates] = {}
        self._covered: dict[int, Covered] = {}
        self._counted: dict[Box, tuple[int, int]] = {}

    def after(self, known: Known, moment: int) -> Known:
        """See ``Passage``."""
        if not self._stirs[moment - 1]:
            return known
        if self.counts[moment - 1] < 2 or known.mode == COUNTED:
            nullable = nullable_in(self._space, self._moments[moment].measured(self._columns)) | known.nullable
            certified = found_afar(self._space, self._moments[moment], nullable)
            self._samples[moment], self._estimates[moment] = certified.sample, certified.estimates
            now = certified.known
            self._few.add(np.concatenate([now.store.t, now.store.s]))
            return now
        self._few.add(np.concatenate([known.store.t, known.store.s]))
        nullable = known.nullable | self._few.join_all(moment)
        valid = with_nulls(self._space, known, nullable).boxes
        estimates, coming = self._estimated(moment), self._few.coming(moment)
        every = Afar(self._space, nullable, self._moments[moment], estimates)
        fresh = Afar(self._space, nullable, self._moments[moment], estimates, coming)
        terms = self._space.terms(nullable)
        covered = None if coming is None else self._looking_up(moment, nullable, coming)

        def know() -> Known:
            rows = self._few.coded()
            flags = self._few.flags(rows, self._ids_gone)
            return changed(
                self._space, known, Turnover(rows, flags.at(moment - 1), flags.at(moment)), nullable=nullable
            )

        def violating(boxes: Sequence[Box]) -> Mapping[Box, np.ndarray]:
            held = dict(zip(boxes, follow(terms, boxes, valid), strict=True))
            old = [box for box in boxes if held[box]] if self._few.comes(moment) else []
            new = [box for box in boxes if not held[box]]
            found, rest = covered.violating(old) if covered and old else ({}, old)
            return {**found, **(fresh.violating(rest) if rest else {}), **(every.violating(new) if new else {})}

        return settled(self._space, know, violating, self._few.add)

    def _estimated(self, moment: int) -> Estimates:
        if moment not in self._estimates:
            some = self._moments[moment].glimpse(self._columns)
            self._estimates[moment] = Estimates(coded_few(self._space, some), some, self.counts[moment])
        return self._estimates[moment]

    def _looking_up(self, moment: int, nullable: frozenset[str], coming: pa.Table) -> Covered | None:
        """Who finds the partners of rows that come in indexes, if there are any; not where very many come or go."""
        undone, change, storage = self._change.undone, self._change, self._ground.storage
        added = undone.inserts if moment == 2 else ()
        taken = (*undone.deletes, *(change.deletes if moment == 2 else ()))
        indexes = {}
        for one in self._covers:
            files = self._base.files_of(FileKind.INDEX, one.group(self._space.columns).indexes[0].id)
            if files or not self._base.rows:
                indexes[one] = files
        if not indexes or sum(one.rows for one in (*added, *taken)) > SIZES.sampled_rows:
            return None
        columns = [ROW_ID, *self._columns]
        nothing = coming.slice(0, 0)
        parts = (
            [nothing, *(one.select(columns) for one in read_rows(storage, files, self._columns))]
            for files in (added, taken)
        )
        rows = Coming(coming, Lines.of(*parts))
        self._covered[moment] = Covered(storage, self._space, nullable, indexes, rows, self._estimated(moment).values)
        return self._covered[moment]

    def scales(self, known: Known, moment: int) -> Scales:
        """See ``Passage``."""
        if moment not in self._samples:
            self._samples[moment] = coded_few(self._space, self._moments[moment].sample(self._columns))
        return Scales(self._samples[moment].table(self._space, known.nullable), known.keys, self.counts[moment])

    def there(self, moment: int) -> tuple[Coded, np.ndarray]:
        """See ``Passage``."""
        rows = self._few.coded()
        flags = self._few.flags(rows, self._ids_gone)
        return rows.chosen(flags.at(moment)), ~flags.at(moment - 1)[flags.at(moment)]

    def count(self, known: Known, boxes: Sequence[Box]) -> None:
        """See ``Passage``. Files of this change may be gone when the verdict is made."""
        if (covered := self._covered.get(2)) is not None and boxes:
            found, _ = covered.violating(boxes)
            self._few.add(np.concatenate([np.zeros(0, np.int64), *found.values()]))
            table = self.there(2)[0].table(self._space, known.nullable)
            decided = dict(zip(boxes, covered.decided(boxes), strict=True))
            self._counted |= {box: counts_in(table, box) for box in boxes if decided[box]}
            boxes = [box for box in boxes if not decided[box]]
        if boxes:
            estimates = Estimates(self._few.coded(), self._few.rows(), self.counts[2])
            prover = Afar(self._space, known.nullable, self._moments[2], estimates, self._few.coming(2))
            self._counted |= dict(zip(boxes, prover.counts(boxes), strict=True))

    def violations(self, known: Known, boxes: Sequence[Box]) -> list[int]:  # noqa: ARG002
        """See ``Passage``."""
        return [self._counted[box][0] for box in boxes]

    def removed(self, known: Known, box: Box) -> int:  # noqa: ARG002
        """See ``Passage``."""
        return self._counted[box][1]

    def covers(self, known: Known) -> list[Cover]:
        """See ``Passage``."""
        if known.mode == COUNTED or self.counts[2] < 2:
            return self._covers
        return chosen_covers(self._space.terms(known.nullable), known.boxes, self._estimated(2), self._covers)
