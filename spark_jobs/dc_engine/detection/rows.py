"""Rows in the state, with their ids.

A rows file has no column of ids: a row's id is that of the file's first row plus its place. Only files merged
from rows of several loads, and files of deleted rows, carry the ids in a column, the first one.
"""

from __future__ import annotations

import hashlib
import math
import uuid
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from dc_engine.detection.codes import whole
from dc_engine.detection.dead import is_alive
from dc_engine.errors import StateError
from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.packing import parquet_bytes
from dc_engine.state.parquet import Reader, store_parquet
from dc_engine.state.parts import made_of_each
from dc_engine.state.storage import Storage

ROW_ID = "_dc_row_id"
LOAD_BITS = 40


def load_of(row_id: int) -> int:
    """The number of the load that brought a row."""
    return row_id >> LOAD_BITS


def read_group(reader: Reader, file: DataFile, group: int, columns: Sequence[str]) -> pa.Table:
    """Some columns of a row group and the rows' ids; deletes that found no row are left out."""
    if file.first_row_id is None:
        rows = reader.read([group], [*columns, ROW_ID])
        return rows.filter(rows.column(ROW_ID).is_valid()) if rows.column(ROW_ID).null_count else rows
    rows = reader.read([group], columns) if columns else None
    starts = reader.group_starts
    first = file.first_row_id
    ids = pa.array(np.arange(first + starts[group], first + starts[group + 1], dtype=np.int64))
    return pa.table({ROW_ID: ids}) if rows is None else rows.append_column(ROW_ID, ids)


def read_rows(storage: Storage, files: Iterable[DataFile], columns: Sequence[str]) -> Iterator[pa.Table]:
    """All rows of some files, row group by row group."""
    for file in files:
        reader = Reader(storage, file)
        for group in range(len(reader.group_starts) - 1):
            yield read_group(reader, file, group, columns)


def read_living(
    reader: Reader, file: DataFile, dead: BitMap64, columns: Sequence[str], groups: Iterable[int]
) -> Iterator[pa.Table]:
    """The rows of some row groups that count. A file of dead rows alone may lack some of the columns."""
    for group in groups:
        alive = is_alive(whole(read_group(reader, file, group, []).column(ROW_ID)).to_numpy(), dead) if dead else None
        if alive is None or alive.all():
            yield read_group(reader, file, group, columns)
        elif alive.any():
            yield read_group(reader, file, group, columns).filter(pa.array(alive))


def read_dead_rows(storage: Storage, file: DataFile, dead: BitMap64) -> list[pa.Table]:
    """The rows of a file that no longer count, with all columns that it has."""
    reader, found = Reader(storage, file), []
    names = [name for name in reader.schema.names if name != ROW_ID]
    for group in range(len(reader.group_starts) - 1):
        gone = ~is_alive(whole(read_group(reader, file, group, []).column(ROW_ID)).to_numpy(), dead)
        if gone.any():
            found.append(read_group(reader, file, group, names).filter(pa.array(gone)).select([ROW_ID, *names]))
    return found


def row_ids(storage: Storage, files: Iterable[DataFile]) -> np.ndarray:
    """The ids of all rows of some files, in order."""
    found = [whole(rows.column(ROW_ID)).to_numpy() for rows in read_rows(storage, files, [])]
    return np.sort(np.concatenate([np.zeros(0, np.int64), *found]), kind="stable")  # fast where it is in order


def is_in(ids: np.ndarray, ordered: np.ndarray) -> np.ndarray:
    """Which ids are among some ordered ones."""
    if not len(ordered):
        return np.zeros(len(ids), bool)
    return ordered[np.minimum(np.searchsorted(ordered, ids), len(ordered) - 1)] == ids


def schema_mark(schema: pa.Schema) -> str:
    """A short text that is the same for files of rows with the same columns: only those are merged."""
    kept = [f"{one.name}:{one.type}" for one in schema if one.name != ROW_ID]
    return hashlib.sha256("|".join(kept).encode()).hexdigest()[:12]


def write_rows(storage: Storage, rows: pa.Table) -> DataFile:
    """Rows of several loads as one file; the first column has their ids."""
    ordered = rows.sort_by(ROW_ID)
    ids = ordered.column(ROW_ID)
    return store_parquet(
        storage,
        f"{FileKind.ROWS.folder}/shared-{uuid.uuid4().hex}.parquet",
        parquet_bytes(ordered, delta=[ROW_ID]),
        kind=FileKind.ROWS,
        owner=schema_mark(ordered.schema),
        load=0,
        rows=ordered.num_rows,
        bounds=(ids[0].as_py(), ids[-1].as_py()),
    )


def take_rows(
    storage: Storage,
    files: Sequence[DataFile],
    ids: np.ndarray,
    columns: Sequence[str],
    *,
    threads: bool = False,
    keep: bool = False,
) -> pa.Table:
    """The rows of some ids (each once), in the order of their ids; an error when one is not there.

    With ``keep``, what is read for them stays in memory.
    """
    wanted = np.unique(ids)
    found = find_rows(storage, files, wanted, columns, threads=threads, keep=keep)
    if (found.num_rows if found is not None else 0) != len(wanted):
        missing = wanted if found is None else np.setdiff1d(wanted, whole(found.column(ROW_ID)).to_numpy())
        if len(missing):
            raise StateError(
                f"The state {storage.uri} has no row {missing[0]}, which its indexes name.",
                hint="Run maintain.py verify, then rebuild the state.",
            )
    return found.sort_by(ROW_ID) if found is not None else pa.table({})


def find_rows(
    storage: Storage,
    files: Iterable[DataFile],
    wanted: np.ndarray,
    columns: Sequence[str],
    *,
    threads: bool = False,
    keep: bool = False,
) -> pa.Table | None:
    """The rows of some ids, which are in order, as far as files have them; nothing if they have none."""

    def taken(file: DataFile) -> list[pa.Table]:
        if file.first_row_id is not None:
            mine = wanted[(wanted >= file.first_row_id) & (wanted < file.first_row_id + file.rows)]
        else:
            low, high = file.bounds or (-math.inf, math.inf)  # of temporary files only their readers know
            mine = wanted[(wanted >= low) & (wanted <= high)]
        if not len(mine):
            return []
        reader = Reader(storage, file, keep=keep, coded=not keep)
        return [_spelled_out(one, reader.schema) for one in _take(storage, file, reader, mine, columns, threads)]

    tables = [one for some in made_of_each(taken, files, threads=threads) for one in some if one.num_rows]
    return pa.concat_tables(tables) if tables else None


def _spelled_out(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows with their columns as a file has them, where they were read as dictionaries."""
    types = {field.name: field.type for field in schema}
    return rows.cast(pa.schema([(name, types.get(name, rows.schema.field(name).type)) for name in rows.column_names]))


def _take(
    storage: Storage, file: DataFile, reader: Reader, wanted: np.ndarray, columns: Sequence[str], threads: bool
) -> Iterator[pa.Table]:
    """The rows of some ids that a file has, of some row groups at a time."""
    unknown = sorted(set(columns) - set(reader.schema.names))
    if file.first_row_id is None:  # ordered by the ids, which are its first column
        first = np.searchsorted(wanted, reader.bounds[:, 0])
        groups = np.flatnonzero(np.searchsorted(wanted, reader.bounds[:, 1], side="right") > first)
        for portion in reader.portions(groups):
            rows = reader.read(portion, [*(() if unknown else columns), ROW_ID], threads=threads)
            rows = rows.filter(pa.array(is_in(whole(rows.column(ROW_ID)).to_numpy(), wanted)))
            if unknown and rows.num_rows:  # else the ids lie between those of the file
                raise _unknown(storage, unknown)
            yield rows
        return
    if unknown:
        raise _unknown(storage, unknown)
    starts, places = reader.group_starts, wanted - file.first_row_id
    group_of = np.searchsorted(starts, places, side="right") - 1
    for portion in reader.portions(np.unique(group_of)):
        here = (group_of >= portion[0]) & (group_of <= portion[-1])
        before = np.concatenate([[0], np.cumsum(np.diff(starts)[portion])])[np.searchsorted(portion, group_of[here])]
        rows = reader.read(portion, columns, threads=threads)
        chosen = rows.take(pa.array(places[here] - starts[group_of[here]] + before))
        yield chosen.append_column(ROW_ID, pa.array(wanted[here]))


def _unknown(storage: Storage, columns: Sequence[str]) -> StateError:
    return StateError(
        f"Column {', '.join(map(repr, columns))} is not known of rows in the state {storage.uri} that were deleted "
        "before it was kept.",
        hint="Mend the table and rebuild the state from it.",
    )
