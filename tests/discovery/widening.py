"""Spark's part when a state gets columns of the table: its rows are found there by their key, or as a whole."""

from __future__ import annotations

import pyarrow as pa

from dc_engine.detection.dead import is_alive, read_dead
from dc_engine.detection.documents import file_of, from_text
from dc_engine.detection.plan import ROW_HASH, Plan
from dc_engine.detection.rows import ROW_ID, read_rows
from dc_engine.detection.table import WriteRows
from dc_engine.request import Changes
from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.snapshots import Snapshot
from dc_engine.state.storage import Storage
from tests.inprocess import Session, row_hashes


def widen(spark: Session, storage: Storage, snapshot: Snapshot, plan: Plan, source: Changes) -> list[DataFile]:
    """Files of all rows that count with the columns that the table has."""
    known = spark.sources[source.path or ""].table
    key = plan.key[0] if plan.key else None
    codes = known.column(key).to_pylist() if key else row_hashes(known).tolist()
    places = {code: place for place, code in enumerate(codes)}
    wanted = [ROW_HASH, *([key] if key else [])]
    rows = pa.concat_tables(read_rows(storage, snapshot.files_of(FileKind.ROWS), wanted))
    dead = read_dead(storage, snapshot.files_of(FileKind.DEAD))
    rows = rows.filter(pa.array(is_alive(rows.column(ROW_ID).to_numpy(), dead)))
    found = known.take(pa.array([places[code] for code in rows.column(key or ROW_HASH).to_pylist()], pa.int64()))
    wide = found.select(plan.columns).add_column(0, ROW_ID, rows.column(ROW_ID))
    wide = wide.append_column(ROW_HASH, rows.column(ROW_HASH))
    written = WriteRows(storage, plan.columns)(wide.combine_chunks().to_batches())
    documents = [from_text(text) for batch in written for text in batch.column(0).to_pylist()]
    return [file for file in map(file_of, documents) if file]
