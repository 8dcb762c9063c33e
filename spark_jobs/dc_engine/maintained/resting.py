"""The rows of a state as tasks read them, where they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from dc_engine.detection.dead import read_dead
from dc_engine.detection.rows import ROW_ID, read_living, row_ids
from dc_engine.discovery.distant import Distant, no_rows
from dc_engine.discovery.large import stays_afar
from dc_engine.discovery.space import Space
from dc_engine.engines.base import Engine, Step
from dc_engine.sizes import SIZES
from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.parquet import Reader
from dc_engine.state.snapshots import Snapshot
from dc_engine.state.storage import Storage

_GLIMPSED, _EACH = 8, 4_096
"""From so many places so many rows show roughly what there is."""


@dataclass(frozen=True, slots=True)
class Part:
    """Files of rows, with what says which of them no longer count: bitmaps, and files of deleted rows."""

    files: tuple[DataFile, ...]
    dead: tuple[DataFile, ...] = ()
    gone: tuple[DataFile, ...] = ()

    def read_gone(self, storage: Storage) -> BitMap64:
        """The ids of rows that do not count."""
        return read_dead(storage, self.dead) | BitMap64(row_ids(storage, self.gone).astype(np.uint64))


@dataclass(frozen=True, slots=True)
class _Piece:
    """One of several equal pieces of a file."""

    part: int
    file: DataFile
    number: int = 0
    of: int = 1


@dataclass(frozen=True, slots=True)
class ReadStored:
    """How tasks read rows of a state: each number of their input is that of a share."""

    storage: Storage
    parts: tuple[Part, ...]
    shares: tuple[tuple[_Piece, ...], ...]

    def __call__(self, batches: Iterable[pa.RecordBatch], columns: Sequence[str]) -> Iterator[pa.Table]:
        """Some columns of the rows that count, with their ids, row group by row group."""
        gone: dict[int, BitMap64] = {}
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            for piece in self.shares[number]:
                if piece.part not in gone:
                    gone[piece.part] = self.parts[piece.part].read_gone(self.storage)
                reader = Reader(self.storage, piece.file)
                groups = len(reader.group_starts) - 1
                mine = range(groups * piece.number // piece.of, groups * (piece.number + 1) // piece.of)
                for rows in read_living(reader, piece.file, gone[piece.part], columns, mine):
                    yield rows.select([ROW_ID, *columns])


class Resting(Distant):
    """Rows in files of a state."""

    def __init__(self, engine: Engine, storage: Storage, parts: Sequence[Part], rows: int) -> None:
        self._engine, self._parts, self.rows = engine, parts, rows
        self.reading: ReadStored = ReadStored(storage, tuple(parts), tuple(_shares(parts)))

    def run(self, first: Step, *further: tuple[int, Step]) -> list[str]:
        """See ``Distant``."""
        files = [file for part in self._parts for file in part.files]
        tasks = self._engine.tasks(sum(one.rows for one in files), sum(one.size for one in files))
        return tasks.run(len(self.reading.shares), first, *further) if files else []

    def glimpse(self, columns: Sequence[str]) -> pa.Table:
        """Some columns of a few rows, read here: enough to see how many values there are."""
        files = [(part, file) for part in self._parts for file in part.files if file.rows]
        ends, found = np.cumsum([file.rows for _, file in files]), []
        chosen = {(2 * place + 1) * int(ends[-1]) // (2 * _GLIMPSED) for place in range(_GLIMPSED)} if files else ()
        last = None
        for row in sorted(chosen):  # spread over the rows, because most files may have few
            number = int(np.searchsorted(ends, row, side="right"))
            part, file = files[number]
            reader, before = Reader(self.reading.storage, file), int(ends[number]) - file.rows
            group = int(np.searchsorted(reader.group_starts, row - before, side="right")) - 1
            if (number, group) != last:
                gone = part.read_gone(self.reading.storage)
                for rows in read_living(reader, file, gone, columns, [group]):
                    found.append(rows.select([ROW_ID, *columns]).slice(0, _EACH))
            last = (number, group)
        return pa.concat_tables(found) if found else no_rows(columns)


def rests(engine: Engine, space: Space, mode: str, rows: int, *, for_loads: bool = False) -> bool:
    """Whether the rows of a table stay where they are, for workers to read, in a discovery or when loads come."""
    most_cells = SIZES.load_cells if for_loads else SIZES.large_cells
    return engine.has_workers and stays_afar(space, mode, rows, most_cells)


def resting(engine: Engine, storage: Storage, snapshot: Snapshot) -> Resting:
    """All rows of a snapshot that count."""
    files = tuple(snapshot.files_of(FileKind.ROWS)) if snapshot.rows else ()
    return Resting(engine, storage, [Part(files, tuple(snapshot.files_of(FileKind.DEAD)))], snapshot.rows)


def _shares(parts: Sequence[Part]) -> Iterator[tuple[_Piece, ...]]:
    """What each task reads: about as many rows each."""
    waiting, rows = list[_Piece](), 0
    for place, part in enumerate(parts):
        for file in part.files:
            pieces = max(1, file.rows // SIZES.share_rows)
            if pieces > 1:
                yield from ((_Piece(place, file, number, pieces),) for number in range(pieces))
                continue
            waiting.append(_Piece(place, file))
            rows += file.rows
            if rows >= SIZES.share_rows // 2:
                yield tuple(waiting)
                waiting, rows = [], 0
    if waiting:
        yield tuple(waiting)
