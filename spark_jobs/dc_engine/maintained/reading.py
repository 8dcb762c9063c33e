"""The rows of a state as codes, for discovery: those that are there, and those that come and go with a change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dc_engine.detection.codes import whole
from dc_engine.detection.dead import read_dead
from dc_engine.detection.rows import ROW_ID, read_living, read_rows, row_ids
from dc_engine.discovery.coded import Coded, encoded
from dc_engine.discovery.space import Space
from dc_engine.history.change import Change
from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.parquet import Reader
from dc_engine.state.snapshots import Snapshot
from dc_engine.state.storage import Storage


@dataclass(frozen=True, slots=True)
class Flags:
    """Which of some rows are there: before a change, after what it undoes, and after all of it."""

    before: np.ndarray
    between: np.ndarray
    after: np.ndarray


def living_rows(storage: Storage, snapshot: Snapshot, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Some columns of all rows that count, with their ids."""
    dead = read_dead(storage, snapshot.files_of(FileKind.DEAD))
    for file in snapshot.files_of(FileKind.ROWS) if snapshot.rows else ():
        reader = Reader(storage, file)
        yield from read_living(reader, file, dead, columns, range(len(reader.group_starts) - 1))


def coded_rows(storage: Storage, snapshot: Snapshot, space: Space) -> Coded:
    """All rows that count."""
    return _coded(space, living_rows(storage, snapshot, list(space.columns)))[0]


def coming_and_going(storage: Storage, base: Snapshot, space: Space, change: Change) -> tuple[Coded, Flags]:
    """All rows that were there before a change or are there after it, in one coding."""
    columns = list(space.columns)
    sources = [
        living_rows(storage, base, columns),
        _rows(storage, change.undone.inserts, columns),
        _rows(storage, change.inserts, columns),
    ]
    rows, sizes = _coded(space, *sources)
    source = np.repeat(np.arange(len(sizes)), sizes)
    before = source == 0
    between = (before | (source == 1)) & ~np.isin(rows.ids, row_ids(storage, change.undone.deletes))
    after = (between | (source == 2)) & ~np.isin(rows.ids, row_ids(storage, change.deletes))
    return rows, Flags(before, between, after)


def _rows(storage: Storage, files: Iterable[DataFile], columns: Sequence[str]) -> Iterator[pa.Table]:
    return read_rows(storage, files, columns)


def _coded(space: Space, *sources: Iterator[pa.Table]) -> tuple[Coded, list[int]]:
    """Rows from several sources, each row once, and how many there are of each."""
    parts: list[pa.Table] = []
    sizes: list[int] = []
    for source in sources:
        tables = [table.select([ROW_ID, *space.columns]) for table in source]
        sizes.append(sum(table.num_rows for table in tables))
        parts += tables
    if not parts:
        nothing: Mapping[str, np.ndarray] = {name: np.zeros(0, np.int32) for name in space.columns}
        return Coded(np.zeros(0, np.int64), nothing), sizes
    table = pa.concat_tables(parts)
    ids = whole(table.column(ROW_ID)).to_numpy()
    return encoded(space, {name: table.column(name) for name in space.columns}, ids), sizes
