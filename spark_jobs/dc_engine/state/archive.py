"""Files of load records: written when a snapshot holds too many, and merged so that there are few of them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa

from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.loads import Load, id_hash, load_from
from dc_engine.state.packing import parquet_bytes
from dc_engine.state.parquet import Reader, store_parquet
from dc_engine.state.storage import Storage

_HASH, _PLACE, _NUMBER, _GONE, _RECORD = "id_hash", "place", "number", "gone", "record"
_COLUMNS = (_HASH, "load_id", _PLACE, _NUMBER, _GONE, _RECORD)
_ROW_GROUP = 1_024
"""How many hashes are looked at to find one record, or that there is none."""
_RATIO = 4
"""A new file absorbs those before it that have up to so many times as many records."""


def read_records(storage: Storage, file: DataFile, wanted: int | None = None) -> list[Load]:
    """The records of a file in the order of their places; only those of one hash if it is given."""
    reader = Reader(storage, file)
    groups, mine = np.arange(len(reader.group_starts) - 1), None
    if wanted is not None:  # a new load is looked for each time, and is not there: its hash is enough to know
        groups = groups[(reader.bounds[:, 0] <= wanted) & (reader.bounds[:, 1] >= wanted)]
        mine = reader.read(groups, [_HASH]).column(0).to_numpy() == wanted if len(groups) else None
        if mine is None or not mine.any():
            return []
    texts = reader.read(groups, [_RECORD]).column(0)
    texts = texts if mine is None else texts.filter(pa.array(mine))
    records = [load_from(json.loads(text)) for text in texts.to_pylist()]
    return sorted(records, key=lambda one: one.place)


def read_ids(storage: Storage, file: DataFile, numbers: Collection[int]) -> dict[int, str]:
    """The ids of the loads of some numbers that have a record in a file."""
    reader = Reader(storage, file)
    table = reader.read(range(len(reader.group_starts) - 1), [_NUMBER, "load_id"])
    mine = table.filter(pa.array(np.isin(table.column(_NUMBER).to_numpy(), list(numbers))))
    return dict(zip(mine.column(_NUMBER).to_pylist(), mine.column("load_id").to_pylist(), strict=True))


def archived(storage: Storage, files: Sequence[DataFile], records: Sequence[Load]) -> list[DataFile]:
    """The files of records, oldest first, with some records added: the last file is new.

    It absorbs the files before it that are not much larger, so there are few, however many records they have.
    """
    kept, tables = list(files), [_table(records)]
    while kept and kept[-1].rows <= _RATIO * sum(one.num_rows for one in tables):
        reader = Reader(storage, kept.pop())
        tables.insert(0, reader.read(range(len(reader.group_starts) - 1), _COLUMNS))
    table = _newest(tables)
    if not kept:  # nothing older is left that they would have to hide
        table = _living(table)
    return [*kept, _written(storage, table.sort_by(_HASH))] if table.num_rows else kept


def in_order(storage: Storage, files: Sequence[DataFile], recent: Sequence[Load], column: str) -> pa.ChunkedArray:
    """One column of the records that count, in the order of the history; ``record`` has them as JSON texts."""
    wanted = list(dict.fromkeys((_PLACE, _GONE, column)))
    readers = [Reader(storage, file) for file in files]
    tables = [reader.read(range(len(reader.group_starts) - 1), wanted) for reader in readers]
    return _living(_newest([*(one.select(wanted) for one in tables), _table(recent).select(wanted)])).column(column)


def _newest(tables: Sequence[pa.Table]) -> pa.Table:
    """The newest record of each place, in the order of the places; later tables have the newer records."""
    table = pa.concat_tables(tables).combine_chunks()
    backwards = table.column(_PLACE).to_numpy()[::-1]
    return table.take(pa.array(table.num_rows - 1 - np.unique(backwards, return_index=True)[1]))


def _living(table: pa.Table) -> pa.Table:
    return table.filter(pa.array(~table.column(_GONE).to_numpy(zero_copy_only=False)))


def _table(records: Sequence[Load]) -> pa.Table:
    columns = {
        _HASH: pa.array([id_hash(one.load_id) for one in records], pa.int64()),
        "load_id": pa.array([one.load_id for one in records], pa.string()),
        _PLACE: pa.array([one.place for one in records], pa.int64()),
        _NUMBER: pa.array([one.number for one in records], pa.int64()),
        _GONE: pa.array([one.gone for one in records], pa.bool_()),
        _RECORD: pa.array([json.dumps(one.to_dict(), ensure_ascii=False) for one in records], pa.string()),
    }
    return pa.table(columns)


def _written(storage: Storage, table: pa.Table) -> DataFile:
    places = table.column(_PLACE).to_numpy()
    return store_parquet(
        storage,
        f"{FileKind.LOADS.folder}/{uuid.uuid4().hex}.parquet",
        parquet_bytes(table, row_group=_ROW_GROUP, delta=[_HASH, _PLACE, _NUMBER]),
        kind=FileKind.LOADS,
        load=0,
        rows=table.num_rows,
        bounds=(int(places.min()), int(places.max())),
    )
