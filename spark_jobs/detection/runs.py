"""Index files: sorted runs of entries in Parquet, one a load, index and task.

An entry is one projection: its values, how many rows carry it, and their ids; with a negative number of rows it takes
rows away. The index is the sum of its runs. Entries are ordered by the hash of the key columns in small row groups, so
that a probe opens only the files and row groups that can hold a wanted hash, and of those it first reads nothing but
the hashes.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.detection.codes import whole
from spark_jobs.errors import StateError
from spark_jobs.state.snapshots import DataFile
from spark_jobs.state.storage import Storage

HASH, ROWS, ROW_IDS = "_dc_hash", "_dc_rows", "_dc_row_ids"
ROW_GROUP = 16_384
_MAGIC = b"PAR1"


def parquet_bytes(table: pa.Table, *, row_group: int = ROW_GROUP, delta: Sequence[str] = ()) -> bytes:
    """A table as a Parquet file whose pages carry checksums; ``delta`` names columns of growing numbers."""
    leaves = [leaf for field in table.schema for leaf in _leaves(field.name, field.type)]
    plain = [leaf for leaf in leaves if leaf.split(".")[0] not in delta]
    buffer = io.BytesIO()
    pq.write_table(
        table,
        buffer,
        row_group_size=row_group,
        compression="zstd",
        compression_level=1,
        use_dictionary=plain,
        column_encoding={leaf: "DELTA_BINARY_PACKED" for leaf in leaves if leaf not in plain},
        write_page_checksum=True,
    )
    return buffer.getvalue()


def store_parquet(
    storage: Storage,
    path: str,
    data: bytes,
    *,
    kind: str,
    load: int,
    rows: int,
    owner: str = "",
    bounds: tuple[int, int] | None = None,
) -> DataFile:
    """Write a Parquet file to the state, with all that it takes to notice damage later."""
    stored = storage.write(path, data)
    length = int.from_bytes(data[-8:-4], "little") + 8
    footer = _footer_checksum(data[-length:])
    return DataFile(path, kind, owner, load, stored.size, stored.sha256, rows, bounds=bounds, footer=footer)


def _footer_checksum(footer: bytes) -> str:
    return hashlib.sha256(footer).hexdigest()[:16]


def _tail(source: IO[bytes], length: int) -> bytes:
    """The last bytes of a file."""
    source.seek(-length, io.SEEK_END)
    return source.read(length)


def _leaves(name: str, arrow_type: pa.DataType) -> list[str]:
    """The columns of numbers and texts below a column, as the Parquet writer names them."""
    if pa.types.is_struct(arrow_type):
        return [leaf for field in arrow_type for leaf in _leaves(f"{name}.{field.name}", field.type)]
    if pa.types.is_list(arrow_type):
        return _leaves(f"{name}.list.element", arrow_type.value_type)
    return [name]


class Reader:
    """One Parquet file of the state, checked against what the snapshot says of it. It is open only while it is read."""

    def __init__(self, storage: Storage, file: DataFile) -> None:
        self._file = file
        self._storage = storage
        with self._opened() as source:
            size = source.seek(0, io.SEEK_END)
            if size != file.size:
                raise self._damaged(f"it has {size} bytes, not {file.size}")
            source.seek(-8, io.SEEK_END)
            length = int.from_bytes(source.read(8)[:4], "little") + 8
            footer = _tail(source, min(length, size))
            if _footer_checksum(footer) != file.footer:
                raise self._damaged("its footer was altered")
            self._metadata = pq.read_metadata(io.BytesIO(_MAGIC + footer))
        if self._metadata.num_rows != file.rows:
            raise self._damaged(f"it has {self._metadata.num_rows} rows, not {file.rows}")

    @contextlib.contextmanager
    def _opened(self) -> Iterator[IO[bytes]]:
        with self._storage.open(self._file.path) as source:
            try:
                yield source
            except (pa.ArrowInvalid, OSError) as error:
                raise self._damaged(error) from error

    def _damaged(self, why: object) -> StateError:
        return StateError(
            f"The file {self._storage.locate(self._file.path)} is damaged: {why}.",
            hint="Restore it or rebuild the state.",
        )

    @property
    def bounds(self) -> np.ndarray:
        """The smallest and largest hash of each row group (hashes are the first column)."""
        metadata = self._metadata
        found = [metadata.row_group(i).column(0).statistics for i in range(metadata.num_row_groups)]
        return np.array([(one.min, one.max) for one in found], np.int64).reshape(-1, 2)

    @property
    def group_starts(self) -> np.ndarray:
        """The number of the first entry of each row group, and of the end."""
        metadata = self._metadata
        sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        return np.cumsum([0, *sizes])

    def read(self, groups: Sequence[int] | np.ndarray, columns: Sequence[str], *, threads: bool = False) -> pa.Table:
        """Some columns of some row groups. Workers read with one thread each; who works alone may take more."""
        with self._opened() as source:
            parquet = pq.ParquetFile(source, metadata=self._metadata, page_checksum_verification=True, pre_buffer=False)
            table = parquet.read_row_groups(list(groups), columns=list(columns), use_threads=threads)
        known = [self._metadata.row_group(int(group)) for group in groups]
        rows = sum(group.num_rows for group in known)
        if table.num_rows != rows:  # Parquet passes over pages whose headers it does not understand
            raise self._damaged(f"{table.num_rows} of {rows} rows can be read")
        if rows:
            self._check_numbers(table, known)
        return table

    def _check_numbers(self, table: pa.Table, groups: Sequence[pq.RowGroupMetaData]) -> None:
        """Numbers must reach as far as the footer says: no checksum covers the header that tells how to read a page."""
        starts = np.cumsum([0, *(group.num_rows for group in groups)])[:-1]
        leaves = [groups[0].column(place).path_in_schema.split(".")[0] for place in range(groups[0].num_columns)]
        for name in {HASH, ROWS, ROW_IDS}.intersection(table.column_names):
            column, first = whole(table.column(name)), starts
            if pa.types.is_list(column.type):
                column, first = column.values, column.offsets.to_numpy()[starts]
            numbers = column.to_numpy()
            ends = zip(np.minimum.reduceat(numbers, first), np.maximum.reduceat(numbers, first), strict=True)
            known = [group.column(leaves.index(name)).statistics for group in groups]
            if any((one.min, one.max) != found for one, found in zip(known, ends, strict=True)):
                raise self._damaged(f"its {name} are not those that were written")

    @property
    def schema(self) -> pa.Schema:
        """Its columns with their types."""
        return self._metadata.schema.to_arrow_schema()


@dataclass(slots=True)
class Found:
    """The entries of an index that a probe asked for, and where each of them stands."""

    entries: pa.Table
    file: np.ndarray
    position: np.ndarray
    readers: dict[int, Reader]

    def row_ids(self, chosen: np.ndarray) -> list[np.ndarray]:
        """The ids of the rows of some entries."""
        ids: dict[int, np.ndarray] = {}
        for number in np.unique(self.file[chosen]):
            reader = self.readers[int(number)]
            mine = chosen[self.file[chosen] == number]
            starts = reader.group_starts
            group_of = np.searchsorted(starts, self.position[mine], side="right") - 1
            for group in np.unique(group_of):
                column = whole(reader.read([int(group)], [ROW_IDS]).column(0))
                offsets, values = column.offsets.to_numpy(), column.values.to_numpy()
                for one in mine[group_of == group]:
                    place = int(self.position[one] - starts[group])
                    ids[int(one)] = values[offsets[place] : offsets[place + 1]]
        return [ids[int(one)] for one in chosen]


def find_entries(
    storage: Storage,
    files: Sequence[DataFile],
    columns: Sequence[str],
    *,
    wanted: np.ndarray | None = None,
    within: tuple[int, int] | None = None,
) -> Found:
    """The entries whose hash is one of those wanted (sorted), or lies within some bounds."""
    tables, file_numbers, positions = [], [], []
    readers: dict[int, Reader] = {}
    for number, file in enumerate(files):
        if not _may_hold(file, wanted, within):
            continue
        reader = Reader(storage, file)
        groups, chosen = _wanted_rows(reader, wanted, within)
        if not len(chosen):
            continue
        readers[number] = reader
        table = reader.read(groups, [*columns, ROWS])
        starts = reader.group_starts
        absolute = np.concatenate([np.arange(starts[group], starts[group + 1]) for group in groups])
        tables.append(table.take(pa.array(chosen)) if len(chosen) < table.num_rows else table)
        file_numbers.append(np.full(len(chosen), number))
        positions.append(absolute[chosen])
    if not tables:
        empty = np.zeros(0, np.int64)
        return Found(pa.table({}), empty, empty, readers)
    return Found(pa.concat_tables(tables), np.concatenate(file_numbers), np.concatenate(positions), readers)


def _may_hold(file: DataFile, wanted: np.ndarray | None, within: tuple[int, int] | None) -> bool:
    """Whether a file can have a wanted hash, as far as the snapshot knows."""
    if file.bounds is None:
        return False
    low, high = file.bounds
    if within is not None:
        return low <= within[1] and high >= within[0]
    return wanted is None or bool(np.searchsorted(wanted, low) < np.searchsorted(wanted, high, side="right"))


def _wanted_rows(
    reader: Reader, wanted: np.ndarray | None, within: tuple[int, int] | None
) -> tuple[np.ndarray, np.ndarray]:
    """The row groups to read, and which of their rows are wanted."""
    bounds, starts = reader.bounds, reader.group_starts
    if within is not None:
        candidates = np.flatnonzero((bounds[:, 0] <= within[1]) & (bounds[:, 1] >= within[0]))
    elif wanted is not None:
        first = np.searchsorted(wanted, bounds[:, 0], side="left")
        candidates = np.flatnonzero(np.searchsorted(wanted, bounds[:, 1], side="right") > first)
    else:
        return np.arange(len(bounds)), np.arange(starts[-1])
    if not len(candidates):
        return candidates, candidates
    hashes = reader.read(candidates, [HASH]).column(0).to_numpy()
    if within is not None:
        hit = (hashes >= within[0]) & (hashes <= within[1])
    else:
        assert wanted is not None
        hit = wanted[np.minimum(np.searchsorted(wanted, hashes), len(wanted) - 1)] == hashes
    group_of = np.repeat(np.arange(len(candidates)), starts[candidates + 1] - starts[candidates])
    kept = np.unique(group_of[hit])
    in_kept = np.isin(group_of, kept)
    return candidates[kept], np.flatnonzero(hit[in_kept])


def write_run(storage: Storage, index_id: str, load: int, entries: pa.Table) -> DataFile:
    """Write entries (one or more, ordered by hash) as one run of an index."""
    data = parquet_bytes(entries, delta=[HASH, ROWS, ROW_IDS])
    path = f"index/{index_id}/{load:08d}-{uuid.uuid4().hex}.parquet"
    bounds = (entries.column(HASH)[0].as_py(), entries.column(HASH)[-1].as_py())
    return store_parquet(
        storage, path, data, kind="index", owner=index_id, load=load, rows=entries.num_rows, bounds=bounds
    )
