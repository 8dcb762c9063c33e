"""The few rows of a large table that are here when a change is made: those that show what is known, and that come."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from dc_engine.detection.dead import is_alive, read_dead
from dc_engine.detection.fetched import Columns, Measured
from dc_engine.detection.rows import ROW_ID, find_rows, is_in, read_rows
from dc_engine.discovery.coded import Coded
from dc_engine.discovery.distant import no_rows
from dc_engine.discovery.large import coded_few, ids_of, nullable_in
from dc_engine.discovery.space import Space
from dc_engine.maintained.base import Ground
from dc_engine.maintained.reading import Flags
from dc_engine.maintained.resting import Part, Resting
from dc_engine.sizes import SIZES
from dc_engine.state.files import DataFile


class Few:
    """The few rows that are here, by where they come from: there before, back with what is undone, or new."""

    def __init__(
        self, ground: Ground, space: Space, files: Sequence[Sequence[DataFile]], dead: Sequence[DataFile]
    ) -> None:
        self._ground, self._space, self._files, self._columns = ground, space, files, [*space.columns]
        self._dead = read_dead(ground.storage, dead)
        self._rows: list[pa.Table | None] = [None, None, None]
        self._complete = [False, False, False]

    def add(self, ids: np.ndarray) -> bool:
        """Add the rows with some ids, wherever they are; whether one was missing."""
        added = False
        for source, files in enumerate(self._files):
            mine = self._rows[source]
            wanted = np.unique(ids)
            if source == 0:
                wanted = wanted[is_alive(wanted, self._dead)]
            if mine is not None:
                wanted = wanted[~is_in(wanted, ids_of(mine))]
            rows = None if self._complete[source] else find_rows(self._ground.storage, files, wanted, self._columns)
            if rows is not None and rows.num_rows:
                self._join(source, rows)
                added = True
        return added

    def _join(self, source: int, rows: pa.Table) -> None:
        mine, some = self._rows[source], rows.select([ROW_ID, *self._columns])
        self._rows[source] = some if mine is None else pa.concat_tables([mine, some])

    def comes(self, moment: int) -> bool:
        """Whether rows come at a moment."""
        return any(file.rows for file in self._files[moment])

    def join_all(self, moment: int) -> frozenset[str]:
        """Add the rows that come at a moment, or of many some; returns the columns in which some are NULL."""
        files, storage = self._files[moment], self._ground.storage
        number = sum(one.rows for one in files)
        if not number:
            return frozenset()
        if number > SIZES.sampled_rows:
            resting = Resting(self._ground.engine, storage, [Part(tuple(files))], number)
            self.add(ids_of(resting.sample(self._columns[:1])))
            return nullable_in(self._space, resting.measured(self._columns))
        rows = pa.concat_tables(
            one.select([ROW_ID, *self._columns]) for one in read_rows(storage, files, self._columns)
        )
        self._rows[moment], self._complete[moment] = rows, True
        return nullable_in(self._space, Measured.of(Columns.of(rows)))

    def coming(self, moment: int) -> pa.Table | None:
        """All rows that come at a moment, if they are here."""
        return self._rows[moment] if self._complete[moment] else None

    def rows(self) -> pa.Table:
        """All of them, by where they come from."""
        tables = [one for one in self._rows if one is not None]
        return pa.concat_tables(tables) if tables else no_rows(self._columns)

    def coded(self) -> Coded:
        """The same in one coding."""
        return coded_few(self._space, self.rows())

    def flags(self, rows: Coded, gone: Sequence[np.ndarray]) -> Flags:
        """When each of them is there."""
        sizes = [0 if one is None else one.num_rows for one in self._rows]
        return Flags.of(rows.ids, np.repeat(np.arange(3, dtype=np.int8), sizes), *gone)
