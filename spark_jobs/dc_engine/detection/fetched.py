"""Columns of a table for the driver, without its rows: packed by workers, and each unpacked when it is asked for."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dc_engine.detection.rows import ROW_ID
from dc_engine.detection.staging import canonical
from dc_engine.sizes import SIZES

PACKED_SCHEMA = "rows bigint, facts string, content binary"
PIECE_NUMBER = "(monotonically_increasing_id() >> 33 << 40) + ((monotonically_increasing_id() & 8589934591) << 20)"
"""The id of the first row of a piece: first which task packed it, then which of its pieces it is. One has fewer rows
than there is room for."""


class Columns(Mapping[str, pa.ChunkedArray]):
    """The columns of some rows. Each is made when it is asked for: no two of them need be in memory at once."""

    def __init__(self, names: Iterable[str], rows: int, made: Callable[[str], pa.ChunkedArray]) -> None:
        self._names, self._made = list(names), made
        self.rows = rows

    @staticmethod
    def of(table: pa.Table) -> Columns:
        """Those of a table that is in memory."""
        return Columns(table.column_names, table.num_rows, table.column)

    def __getitem__(self, name: str) -> pa.ChunkedArray:
        if name not in self._names:
            raise KeyError(name)
        return self._made(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@dataclass(frozen=True, slots=True)
class Measured:
    """What there is in some columns: how many rows, and of each column how many values and bytes of text."""

    rows: int
    values: Mapping[str, int]
    nbytes: Mapping[str, int]

    @staticmethod
    def of(columns: Columns) -> Measured:
        """That of columns that can be read here; each is read once."""
        values, nbytes = {}, {}
        for name, column in columns.items():
            values[name] = len(column) - column.null_count
            nbytes[name] = (pc.sum(pc.binary_length(column)).as_py() or 0) if is_text(column.type) else 0
        return Measured(columns.rows, values, nbytes)

    @staticmethod
    def together(names: Sequence[str], parts: Sequence[Measured]) -> Measured:
        """That of several parts of the same columns."""
        rows = sum(part.rows for part in parts)
        values = {name: sum(part.values[name] for part in parts) for name in names}
        return Measured(rows, values, {name: sum(part.nbytes[name] for part in parts) for name in names})


def is_text(arrow_type: pa.DataType) -> bool:
    """Whether values have any number of bytes."""
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(test(arrow_type) for test in tests)


@dataclass(frozen=True, slots=True)
class Pack:
    """The step that workers run: rows in, pieces of a bounded size out, each a small Parquet file."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        waiting: list[pa.RecordBatch] = []
        for batch in batches:
            waiting.append(batch)
            rows, size = sum(one.num_rows for one in waiting), sum(one.nbytes for one in waiting)
            if rows >= SIZES.staged_group or size >= SIZES.group_bytes:
                yield _packed(waiting)
                waiting = []
        if sum(one.num_rows for one in waiting):
            yield _packed(waiting)


def _packed(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    table, content = canonical(pa.Table.from_batches(batches)), io.BytesIO()
    pq.write_table(table, content, compression="zstd", compression_level=1, write_statistics=False)
    found = Measured.of(Columns.of(table))
    facts = json.dumps([list(found.values.values()), list(found.nbytes.values())])
    return pa.RecordBatch.from_pydict(
        {"rows": [table.num_rows], "facts": [facts], "content": [content.getvalue()]},
    )


def measured(pieces: Iterable[tuple[int, str]], names: Sequence[str]) -> Measured:
    """How much there is in packed columns, from the number of rows and the facts of each piece."""
    parts = []
    for rows, facts in pieces:
        values, nbytes = (dict(zip(names, some, strict=True)) for some in json.loads(facts))
        parts.append(Measured(rows, values, nbytes))
    return Measured.together(names, parts)


def unpacked(pieces: pa.Table, names: Sequence[str]) -> Columns:
    """The columns of packed rows, under these names."""
    contents = [content.as_buffer() for content in pieces.column("content")]

    def column(name: str) -> pa.ChunkedArray:
        parts = [unpacked_piece(one, names, [name]) for one in contents]
        return pa.chunked_array([chunk for part in parts for chunk in part.column(0).chunks])

    return Columns(names, sum(pieces.column("rows").to_pylist()), column)


def unpacked_piece(content: pa.Buffer, names: Sequence[str], columns: Sequence[str]) -> pa.Table:
    """Some columns of a piece, whose columns have these names."""
    file = pq.ParquetFile(pa.BufferReader(content))
    there = file.schema_arrow.names
    return file.read([there[names.index(name)] for name in columns]).rename_columns(list(columns))


@dataclass(frozen=True, slots=True)
class ReadPacked:
    """How tasks read packed rows, with their ids, from a table of pieces with their numbers."""

    names: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch], columns: Sequence[str]) -> Iterator[pa.Table]:
        """Some columns, piece by piece."""
        for batch in batches:
            for number, content in zip(batch.column("piece").to_pylist(), batch.column("content"), strict=True):
                rows = unpacked_piece(content.as_buffer(), self.names, columns)
                yield rows.append_column(ROW_ID, pa.array(number + np.arange(rows.num_rows)))
