"""An engine without Spark: rows come from Arrow tables in memory, steps run in this process.

What is replaced is Spark's part alone (reading a source, moving messages between tasks); everything else is the
product's own code, so that hundreds of random histories take seconds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from dc_engine.constraints.model import microseconds
from dc_engine.constraints.reserved import CHANGE_TYPE, FEED_COLUMNS
from dc_engine.detection.fetched import Columns, Measured, Pack, ReadPacked
from dc_engine.detection.plan import Plan
from dc_engine.detection.staging import SALT, StagedLoad, gather, stage_rows
from dc_engine.discovery.distant import Distant
from dc_engine.engines.base import Engine, Here, Left, Staging, Step, Tasks
from dc_engine.engines.piles import Pile
from dc_engine.request import Changes
from dc_engine.sizes import SIZES
from dc_engine.state.files import DataFile
from dc_engine.state.snapshots import Snapshot
from dc_engine.state.storage import Storage


@dataclass(frozen=True)
class Source:
    """An Arrow table with the Spark types of its columns, in the place of a DataFrame."""

    table: pa.Table
    types: dict[str, str]


class Shuffled(Here):
    """Steps run one after the other; messages reach a task as the network has it."""

    def __init__(self, random: Random | None) -> None:
        super().__init__(1)
        self._random = random

    def _ordered(self, piles: Sequence[Pile]) -> Sequence[Pile]:
        for pile in piles:
            if self._random:
                self._random.shuffle(pile.batches)
        return piles


class Packed(Distant):
    """Packed rows of which every task gets a piece."""

    def __init__(self, session: Session, pieces: pa.Table, rows: int, names: list[str]) -> None:
        numbers = pa.array([place << 20 for place in range(pieces.num_rows)], pa.int64())
        self._session, self._pieces = session, pieces.append_column("piece", numbers)
        self.rows, self.reading = rows, ReadPacked(tuple(names))

    def run(self, first: Step, *further: tuple[int, Step]) -> list[str]:
        def begin(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
            return first(iter(self._pieces.take(pa.array(numbers)).to_batches()))

        return Shuffled(self._session.random).run(self._pieces.num_rows, begin, *further)


@dataclass
class Session(Engine):
    """Sources by their path."""

    sources: dict[str, Source] = field(default_factory=dict)
    random: Random | None = None
    """Deals messages in any order."""
    instant_of: Callable[[datetime], int] = microseconds
    widens: Callable[..., list[DataFile]] | None = None
    """Finds the rows of the state in the table: Spark's part, or a stand-in's."""

    def read(self, source: Changes, what: str = "changes", *, mask: Collection[str] = ()) -> Source:
        assert source.path is not None
        return self.sources[source.path]

    def types(self, rows: Source, source: Changes) -> dict[str, str]:
        return rows.types

    def fetch(
        self, rows: Source, columns: Mapping[str, str], source: Changes, *, mask: Collection[str] = ()
    ) -> Columns:
        return Columns.of(rows.table.select(list(columns)))

    def leave(
        self, rows: Source, columns: Mapping[str, str], source: Changes, *, mask: Collection[str] = ()
    ) -> Left | Columns:
        names, table = list(columns), rows.table.select(list(columns))
        if table.num_rows * len(names) <= SIZES.large_cells:
            return Columns.of(table)
        pieces = pa.Table.from_batches(list(Pack()(iter(table.to_batches(max_chunksize=3)))))
        return Left(Packed(self, pieces, table.num_rows, names), Measured.of(Columns.of(table)), lambda: None)

    def measure(
        self, rows: Source, columns: Mapping[str, str], source: Changes, *, mask: Collection[str] = ()
    ) -> Measured:
        return Measured.of(self.fetch(rows, columns, source))

    def instant(self, value: datetime) -> int:
        return self.instant_of(value)

    def tasks(self, rows: int, size: int) -> Tasks:
        return Shuffled(self.random)

    def searching(self, pairs: float, size: int) -> Tasks | None:
        return Shuffled(self.random) if pairs > SIZES.pairs_here else None

    def stage(self, rows: Source, asked: Staging) -> StagedLoad:
        table = rows.table
        by_name = {name.lower(): name for name in table.column_names}
        arrays = []
        for name in asked.columns:
            present = by_name.get(name.lower())
            arrays.append(table.column(present) if present else pa.nulls(table.num_rows, _arrow_type(name)))
        names = [*asked.columns]
        if CHANGE_TYPE in by_name:
            arrays.append(table.column(by_name[CHANGE_TYPE]))
            names.append(CHANGE_TYPE)
        whole = pa.table([*arrays, pa.array(row_hashes(table))], names=[*names, SALT])
        half = -(-table.num_rows // 2)
        documents = []
        for number, part in enumerate((whole.slice(0, half), whole.slice(half))):
            staged = stage_rows(asked.storage, asked.load, tuple(asked.columns), number, iter(part.to_batches()))
            documents.append(json.dumps(asdict(staged)))
        return gather(documents, asked.storage, asked.load, list(asked.types.items()))

    def widen(
        self, storage: Storage, snapshot: Snapshot, plan: Plan, source: Changes, *, mask: Collection[str] = ()
    ) -> list[DataFile]:
        assert self.widens, "needs Spark"
        return self.widens(self, storage, snapshot, plan, source)

    def differences(
        self, storage: Storage, snapshot: Snapshot, source: Changes, *, mask: Collection[str] = ()
    ) -> list[str]:
        raise AssertionError("needs Spark")

    def quarantine(self, *given: Any) -> dict[str, Any]:
        raise AssertionError("needs Spark")


def row_hashes(table: pa.Table) -> np.ndarray:
    """A number for each row, from all columns but those of a change feed; NULLs do not count."""
    columns = [name for name in table.column_names if name.lower() not in FEED_COLUMNS]
    lists = [[_plain(value) for value in table.column(name).to_pylist()] for name in columns]
    rows = [
        tuple((name.lower(), value) for name, value in zip(columns, row, strict=True) if value is not None)
        for row in zip(*lists, strict=True)
    ]
    return np.array([hash(repr(row)) for row in rows], np.int64)


def _plain(value: Any) -> Any:
    """One text for equal numbers."""
    return 0.0 if isinstance(value, float) and value == 0 else value


def _arrow_type(name: str) -> pa.DataType:
    return {key.lower(): value for key, value in ARROW_TYPES.items()}[name.lower()]


ARROW_TYPES: dict[str, pa.DataType] = {}
"""The Arrow types of columns that a source may leave out."""
