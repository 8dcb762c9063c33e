"""Staging: a load's rows are read from their source once and written to the state, before anything is checked.

From then on the load is fixed: its rows have ids (the load's number, then their place in the staged files), its
fingerprint shows whether the same changes were applied before, and every later step reads the same files, however often
Spark repeats a task.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate

import numpy as np
import pyarrow as pa

from dc_engine.constraints.reserved import CHANGE_TYPE, FEED_COLUMNS
from dc_engine.detection.documents import Failed, failed
from dc_engine.detection.hashing import mixed
from dc_engine.detection.plan import ROW_HASH
from dc_engine.detection.rows import LOAD_BITS, schema_mark
from dc_engine.detection.shown import MOST_OF_NAME
from dc_engine.errors import ChangesError, DcError
from dc_engine.sizes import SIZES
from dc_engine.state.drafts import Drafts
from dc_engine.state.files import DataFile, FileKind, data_file
from dc_engine.state.packing import Builder
from dc_engine.state.parquet import store_parquet
from dc_engine.state.storage import Storage

SALT = "_dc_hash_a"
"""What the hash of a row begins with, and what the column of hashes is called on its way."""
_AWAY = np.uint64(0x9E3779B97F4A7C15)
_DELETES = {"insert": False, "update_postimage": False, "delete": True, "update_preimage": True}


@dataclass(frozen=True, slots=True)
class Part:
    """The inserted or the deleted rows of a load, or of one task's share of it."""

    files: list[DataFile]
    rows: int
    sums: list[int]
    """Sums of the rows' hashes: the same whatever the order of the rows."""


@dataclass(frozen=True, slots=True)
class Staged:
    """What one task staged."""

    partition: int
    inserted: Part
    deleted: Part
    error: Failed | None = None

    @property
    def shares(self) -> tuple[Part, Part]:
        """The inserted and the deleted rows."""
        return self.inserted, self.deleted


@dataclass(frozen=True, slots=True)
class Stage:
    """The function that Spark runs on each partition of the changes."""

    storage: Storage | None
    """Without it nothing is written, and only the fingerprint is made."""
    load: int
    columns: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        staged = stage_rows(self.storage, self.load, self.columns, partition, batches)
        yield pa.RecordBatch.from_pydict({"document": [json.dumps(asdict(staged))]})


def stage_rows(
    storage: Storage | None, load: int, columns: Sequence[str], partition: int, batches: Iterable[pa.RecordBatch]
) -> Staged:
    """Write the first columns of some rows, under these names, and the hash of the whole row to the state.

    An error is part of the result, with the files that were written before it.
    """
    inserted, deleted = _Share(storage, load, FileKind.ROWS), _Share(storage, load, FileKind.DELETES)
    try:
        _add_rows(inserted, deleted, columns, batches)
        return Staged(partition, inserted.finish(), deleted.finish())
    except DcError as error:
        return Staged(partition, inserted.so_far, deleted.so_far, failed(error))


def _add_rows(inserted: _Share, deleted: _Share, columns: Sequence[str], batches: Iterable[pa.RecordBatch]) -> None:
    for batch in batches:
        hashes = batch.column(batch.schema.get_field_index(SALT))
        kept = batch.select(range(len(columns))).rename_columns(list(columns)).append_column(ROW_HASH, hashes)
        gone = _is_delete(batch)
        if gone is None:
            inserted.add(kept)
            continue
        for share, mine in ((inserted, ~gone), (deleted, gone)):
            share.add(kept.filter(pa.array(mine)))


def _is_delete(batch: pa.RecordBatch) -> np.ndarray | None:
    """Which rows of a batch are deletes; ``None`` if the changes do not say, and all are inserts."""
    place = batch.schema.get_field_index(CHANGE_TYPE)
    if place < 0:
        return None
    given = batch.column(place)
    if not (pa.types.is_string(given.type) or pa.types.is_large_string(given.type)):
        raise ChangesError(
            f"The changes have a column {CHANGE_TYPE} of type {given.type}.",
            hint=f"It is a text, one of {', '.join(_DELETES)}, as in a change data feed.",
        )
    kinds = given.cast(pa.large_binary()).to_pylist()  # any text can be cast to it
    deletes = {kind.encode(): is_delete for kind, is_delete in _DELETES.items()}
    for kind in set(kinds):
        if kind not in deletes:
            shown = "NULL" if kind is None else f"'{kind[:MOST_OF_NAME].decode(errors='backslashreplace')}'"
            raise ChangesError(
                f"The changes have a row whose {CHANGE_TYPE} is {shown}.",
                hint=f"It is one of {', '.join(_DELETES)}, as in a change data feed.",
            )
    return np.array([deletes[kind] for kind in kinds], bool)


class _Share:
    """The inserted or the deleted rows of one task: files and sums."""

    def __init__(self, storage: Storage | None, load: int, kind: FileKind) -> None:
        self._writer = _Writer(storage, load, kind) if storage else None
        self._rows = 0
        self._sums = [0, 0]

    def add(self, rows: pa.RecordBatch) -> None:
        self._rows += rows.num_rows
        hashes = rows.column(ROW_HASH).to_numpy().view(np.uint64)
        # the second sum is of numbers that have nothing to do with the hashes: two tell more than one
        for place, lane in enumerate((hashes, mixed(hashes + _AWAY))):
            self._sums[place] = (self._sums[place] + int(lane.sum())) % 2**64
        if self._writer:
            self._writer.add(rows)

    def finish(self) -> Part:
        if self._writer:
            self._writer.finish()
        return self.so_far

    @property
    def so_far(self) -> Part:
        return Part(self._writer.files if self._writer else [], self._rows, self._sums)


class _Writer:
    """Rows into row groups, row groups into files of bounded size."""

    def __init__(self, storage: Storage, load: int, kind: FileKind) -> None:
        self._storage, self._load, self._kind = storage, load, kind
        self._owner = ""
        self.files: list[DataFile] = []
        self._waiting: list[pa.RecordBatch] = []
        self._builder: Builder | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self._waiting.append(batch)
        rows = sum(one.num_rows for one in self._waiting)
        if rows >= SIZES.staged_group or sum(one.nbytes for one in self._waiting) >= SIZES.group_bytes:
            self._flush()

    def _flush(self) -> None:
        if not self._waiting:
            return
        table = canonical(pa.Table.from_batches(self._waiting))
        self._waiting = []
        if self._builder is None:
            self._owner = schema_mark(table.schema)
            self._builder = Builder(table.schema, row_group=SIZES.staged_group)
        self._builder.add(table)
        if self._builder.size > SIZES.staged_bytes:
            self._close()

    def _close(self) -> None:
        if self._builder is None:
            return
        path = f"{self._kind.folder}/{self._load:08d}-{uuid.uuid4().hex}.parquet"
        data, rows = self._builder.finish(), self._builder.rows
        self.files.append(
            store_parquet(self._storage, path, data, kind=self._kind, owner=self._owner, load=self._load, rows=rows)
        )
        self._builder = None

    def finish(self) -> None:
        self._flush()
        self._close()


def canonical(table: pa.Table) -> pa.Table:
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
    """A whole load, staged. The rows of ``deletes`` are as given, not yet recognised."""

    inserts: list[DataFile]
    deletes: list[DataFile]
    inserted: int
    deleted: int
    fingerprint: str


def gather(
    documents: Sequence[str], storage: Storage | None, load: int, columns: Sequence[tuple[str, str]]
) -> StagedLoad:
    """Put together what the tasks staged: number the rows, make the fingerprint (of rows in any order, and types).

    An error among them is raised, and what all tasks wrote is removed.
    """
    parts = sorted(map(_staged, documents), key=lambda one: one.partition)
    for failure in (part.error for part in parts if part.error):
        if storage:
            Drafts(file for part in parts for share in part.shares for file in share.files).remove_all(storage)
        raise failure.error
    files: list[list[DataFile]] = []
    counts: list[int] = []
    marks: list[str] = []
    for place, first_id in enumerate((load << LOAD_BITS, 0)):
        shares = [part.shares[place] for part in parts]
        files.append(_numbered([file for share in shares for file in share.files], first_id))
        counts.append(sum(share.rows for share in shares))
        sums = [sum(share.sums[lane] for share in shares) % 2**64 for lane in range(2)]
        marks += [str(counts[-1]), *(f"{one:016x}" for one in sums)] if place == 0 or counts[-1] else []
    names = "|".join(
        sorted(f"{name.lower()}:{spark_type}" for name, spark_type in columns if name.lower() not in FEED_COLUMNS)
    )
    return StagedLoad(files[0], files[1], counts[0], counts[1], "-".join([*marks, _short(names)]))


def _staged(text: str) -> Staged:
    """What one task reports that it staged."""
    document = json.loads(text)
    inserted, deleted = (
        Part([data_file(file) for file in one["files"]], one["rows"], one["sums"])
        for one in (document["inserted"], document["deleted"])
    )
    failure = document["error"]
    return Staged(document["partition"], inserted, deleted, Failed(**failure) if failure else None)


def _numbered(files: Sequence[DataFile], first_id: int) -> list[DataFile]:
    """The files with the ids of their first rows, one after the other."""
    starts = accumulate((file.rows for file in files), initial=first_id)
    return [replace(file, first_row_id=start) for file, start in zip(files, starts, strict=False)]


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
