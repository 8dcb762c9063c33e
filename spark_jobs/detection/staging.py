"""Staging: a load's rows are read from their source once and written to the state, before anything is checked.

From then on the load is fixed: its rows have ids (the load's number, then their place in the staged files), its
fingerprint tells whether the same changes were applied before, and every later step reads the same files, however often
Spark repeats a task.
"""

from __future__ import annotations

import hashlib
import io
import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.errors import DcError
from spark_jobs.state.snapshots import DataFile
from spark_jobs.state.storage import Storage

ROW_HASHES = ("_dc_hash_a", "_dc_hash_b")
CHANGE_TYPE = "_change_type"
LOAD_BITS = 40
ROW_GROUP = 65_536
_FILE_BYTES = 128 * 2**20


@dataclass(frozen=True, slots=True)
class Staged:
    """What one task staged: its files, its share of the fingerprint, and rows that are not inserts."""

    partition: int
    files: list[DataFile]
    rows: int
    sums: tuple[int, ...]
    not_inserts: int
    error: dict[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """The function that Spark runs on each partition of the changes."""

    storage: Storage
    load: int
    columns: tuple[str, ...]
    """The columns to keep; without any nothing is written, and only the fingerprint is made."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        try:
            staged = stage_rows(self.storage, self.load, self.columns, partition, batches)
        except DcError as error:
            staged = Staged(partition, [], 0, (0, 0), 0, error.to_dict())
        yield pa.RecordBatch.from_pydict({"document": [json.dumps(asdict(staged))]})


def stage_rows(
    storage: Storage, load: int, columns: Sequence[str], partition: int, batches: Iterator[pa.RecordBatch]
) -> Staged:
    """Write the first columns of some rows, under these names, as Parquet files of the state (none: write nothing)."""
    writer = _Writer(storage, load)
    rows, not_inserts = 0, 0
    sums = [0] * len(ROW_HASHES)
    for batch in batches:
        rows += batch.num_rows
        for place, name in enumerate(ROW_HASHES):
            lanes = batch.column(batch.schema.get_field_index(name)).to_numpy().view(np.uint64)
            sums[place] = (sums[place] + int(lanes.sum())) % 2**64
        change = batch.schema.get_field_index(CHANGE_TYPE)
        if change >= 0:
            not_inserts += sum(value != "insert" for value in batch.column(change).to_pylist())
        if columns:
            writer.add(batch.select(range(len(columns))).rename_columns(list(columns)))
    return Staged(partition, writer.finish(), rows, tuple(sums), not_inserts)


class _Writer:
    """Rows into row groups, row groups into files of bounded size."""

    def __init__(self, storage: Storage, load: int) -> None:
        self._storage, self._load = storage, load
        self._files: list[DataFile] = []
        self._waiting: list[pa.RecordBatch] = []
        self._buffer: io.BytesIO | None = None
        self._parquet: pq.ParquetWriter | None = None
        self._written = 0

    def add(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self._waiting.append(batch)
        if sum(one.num_rows for one in self._waiting) >= ROW_GROUP:
            self._flush()

    def _flush(self) -> None:
        if not self._waiting:
            return
        table = _canonical(pa.Table.from_batches(self._waiting))
        self._waiting = []
        if self._parquet is None:
            self._buffer = io.BytesIO()
            self._parquet = pq.ParquetWriter(
                self._buffer, table.schema, compression="zstd", compression_level=1, write_page_checksum=True
            )
            self._written = 0
        self._parquet.write_table(table, row_group_size=ROW_GROUP)
        self._written += table.num_rows
        assert self._buffer is not None
        if self._buffer.tell() > _FILE_BYTES:
            self._close()

    def _close(self) -> None:
        if self._parquet is None or self._buffer is None:
            return
        self._parquet.close()
        path = f"rows/{self._load:08d}-{uuid.uuid4().hex}.parquet"
        stored = self._storage.write(path, self._buffer.getvalue())
        self._files.append(DataFile(path, "rows", "", self._load, stored.size, stored.sha256, self._written))
        self._parquet = self._buffer = None

    def finish(self) -> list[DataFile]:
        self._flush()
        self._close()
        return self._files


def _canonical(table: pa.Table) -> pa.Table:
    """The table in Arrow types that do not depend on the session's settings, so that all files of a state agree."""
    fields = [pa.field(field.name, _canonical_type(field.type)) for field in table.schema]
    return table.cast(pa.schema(fields))


def _canonical_type(arrow_type: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(arrow_type) and arrow_type.tz is not None:
        return pa.timestamp("us", "UTC")
    if pa.types.is_large_string(arrow_type):
        return pa.string()
    if pa.types.is_large_binary(arrow_type):
        return pa.binary()
    if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
        return pa.list_(_canonical_type(arrow_type.value_type))
    if pa.types.is_struct(arrow_type):
        return pa.struct([pa.field(field.name, _canonical_type(field.type)) for field in arrow_type])
    return arrow_type


@dataclass(frozen=True, slots=True)
class StagedLoad:
    """A whole load, staged."""

    files: list[DataFile]
    rows: int
    fingerprint: str
    not_inserts: int


def gather(documents: Sequence[str], load: int, columns: Sequence[tuple[str, str]]) -> StagedLoad:
    """Put together what the tasks staged: number the rows, make the fingerprint (of rows in any order, and types)."""
    parts = [json.loads(one) for one in documents]
    for part in parts:
        if part["error"]:
            raise_from(part["error"])
    files = []
    next_id = load << LOAD_BITS
    for part in sorted(parts, key=lambda one: one["partition"]):
        for document in part["files"]:
            file = replace(DataFile(**document), first_row_id=next_id)
            next_id += file.rows
            files.append(file)
    rows = sum(part["rows"] for part in parts)
    sums = [sum(part["sums"][place] for part in parts) % 2**64 for place in range(len(ROW_HASHES))]
    names = "|".join(sorted(f"{name.lower()}:{spark_type}" for name, spark_type in columns))
    fingerprint = "-".join([str(rows), *(f"{one:016x}" for one in sums), _short(names)])
    return StagedLoad(files, rows, fingerprint, sum(part["not_inserts"] for part in parts))


def raise_from(document: dict[str, str]) -> None:
    """Raise an error that a worker wrote down."""
    from spark_jobs import errors

    raise getattr(errors, document["type"])(document["message"], hint=document["hint"])


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
