"""Index files: sorted runs of entries in Parquet, one a load, index and task.

An entry is one projection: its values, how many rows carry it, and their ids. Entries are ordered by the hash of the
key columns in small row groups, so that a probe opens only the row groups that can hold a wanted hash, and of those
it first reads nothing but the hashes.
"""

from __future__ import annotations

import contextlib
import io
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.errors import StateError
from spark_jobs.state.snapshots import DataFile
from spark_jobs.state.storage import Storage

HASH, ROWS, ROW_IDS = "_dc_hash", "_dc_rows", "_dc_row_ids"
ROW_GROUP = 16_384


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
        with self._opened() as parquet:
            self._metadata = parquet.metadata
        if self._metadata.num_rows != file.rows:
            raise self._damaged(f"it has {self._metadata.num_rows} rows, not {file.rows}")

    @contextlib.contextmanager
    def _opened(self, metadata: pq.FileMetaData | None = None) -> Iterator[pq.ParquetFile]:
        with self._storage.open(self._file.path) as source:
            size = source.seek(0, io.SEEK_END)
            if size != self._file.size:
                raise self._damaged(f"it has {size} bytes, not {self._file.size}")
            try:
                yield pq.ParquetFile(source, metadata=metadata, page_checksum_verification=True, pre_buffer=False)
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

    def read(self, groups: Sequence[int] | np.ndarray, columns: Sequence[str]) -> pa.Table:
        """Some columns of some row groups."""
        with self._opened(self._metadata) as parquet:
            return parquet.read_row_groups(list(groups), columns=list(columns), use_threads=False)


@dataclass(slots=True)
class Found:
    """The entries of an index that a probe asked for, and where each of them stands."""

    entries: pa.Table
    file: np.ndarray
    position: np.ndarray
    readers: list[Reader] = field(default_factory=list)

    def row_ids(self, chosen: np.ndarray, most: int) -> list[list[int]]:
        """The first ids of the rows of some entries."""
        ids: dict[int, list[int]] = {}
        for number in np.unique(self.file[chosen]):
            reader = self.readers[number]
            mine = chosen[self.file[chosen] == number]
            starts = reader.group_starts
            group_of = np.searchsorted(starts, self.position[mine], side="right") - 1
            for group in np.unique(group_of):
                column = reader.read([int(group)], [ROW_IDS]).column(0)
                for one in mine[group_of == group]:
                    ids[int(one)] = column[int(self.position[one] - starts[group])].as_py()[:most]
        return [ids[int(one)] for one in chosen]


def find_entries(
    storage: Storage,
    files: Sequence[DataFile],
    columns: Sequence[str],
    wanted: np.ndarray | None,
    share: tuple[int, int],
) -> Found:
    """The entries whose hash is wanted (sorted); all of them when ``wanted`` is ``None``.

    ``share`` is (which, of how many): the row groups of an index without key are dealt out to several probes.
    """
    tables, file_numbers, positions, readers = [], [], [], []
    for number, file in enumerate(files):
        reader = Reader(storage, file)
        readers.append(reader)
        groups, chosen = _wanted_rows(reader, wanted, share)
        if not len(chosen):
            continue
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


def _wanted_rows(reader: Reader, wanted: np.ndarray | None, share: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """The row groups to read, and which of their rows are wanted."""
    bounds = reader.bounds
    if wanted is None:
        groups = np.arange(share[0], len(bounds), share[1])
        starts = reader.group_starts
        return groups, np.arange(int(sum(starts[group + 1] - starts[group] for group in groups)))
    first = np.searchsorted(wanted, bounds[:, 0], side="left")
    beyond = np.searchsorted(wanted, bounds[:, 1], side="right")
    candidates = np.flatnonzero(beyond > first)
    if not len(candidates):
        return candidates, candidates
    hashes = reader.read(candidates, [HASH]).column(0).to_numpy()
    place = np.minimum(np.searchsorted(wanted, hashes), len(wanted) - 1)
    hit = wanted[place] == hashes
    starts = reader.group_starts
    sizes = starts[candidates + 1] - starts[candidates]
    group_of = np.repeat(np.arange(len(candidates)), sizes)
    kept = np.unique(group_of[hit])
    in_kept = np.isin(group_of, kept)
    return candidates[kept], np.flatnonzero(hit[in_kept])


def write_run(storage: Storage, index_id: str, load: int, entries: pa.Table) -> DataFile:
    """Write entries (ordered by hash) as one run of an index."""
    data = parquet_bytes(entries, delta=[HASH, ROWS, ROW_IDS])
    path = f"index/{index_id}/{load:08d}-{uuid.uuid4().hex}.parquet"
    stored = storage.write(path, data)
    return DataFile(path, "index", index_id, load, stored.size, stored.sha256, entries.num_rows)
