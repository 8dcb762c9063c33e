"""The rows of one load: in files of its own, or among those of others."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from dc_engine.detection.codes import whole
from dc_engine.detection.rows import LOAD_BITS, ROW_ID
from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.loads import Load
from dc_engine.state.packing import parquet_bytes
from dc_engine.state.parquet import Reader, store_parquet
from dc_engine.state.snapshots import Snapshot
from dc_engine.state.storage import Storage


def own_files(snapshot: Snapshot, load: Load) -> list[DataFile]:
    """The rows files that belong to one load alone."""
    return [file for file in snapshot.files_of(FileKind.ROWS) if file.load == load.number]


def rows_among_others(storage: Storage, snapshot: Snapshot, load: Load, columns: Sequence[str]) -> pa.Table:
    """The rows of a load that are in files with rows of other loads."""
    low, high = load.number << LOAD_BITS, (load.number + 1) << LOAD_BITS
    parts = [pa.table({ROW_ID: pa.array([], pa.int64())})]
    for file in snapshot.files_of(FileKind.ROWS):
        if file.bounds and file.bounds[0] < high and file.bounds[1] >= low:
            reader = Reader(storage, file)
            groups = np.flatnonzero((reader.bounds[:, 0] < high) & (reader.bounds[:, 1] >= low))
            rows = reader.read(groups, [ROW_ID, *columns])
            ids = whole(rows.column(ROW_ID)).to_numpy()
            parts.append(rows.filter(pa.array((ids >= low) & (ids < high))))
    return pa.concat_tables([one for one in parts if one.num_rows] or parts[:1])


def scratch_file(storage: Storage, rows: pa.Table) -> DataFile:
    """Rows in a temporary file for the workers."""
    ordered = rows.select([ROW_ID, *(name for name in rows.column_names if name != ROW_ID)])
    path, data = f"{FileKind.DELETES.folder}/scratch-{uuid.uuid4().hex}.parquet", parquet_bytes(ordered)
    return store_parquet(storage, path, data, kind=FileKind.DELETES, load=0, rows=rows.num_rows)
