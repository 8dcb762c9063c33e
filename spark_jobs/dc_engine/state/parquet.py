"""Parquet files of the state: written so that every byte that is ever read again can be checked.

A file is read in parts, so its checksum as a whole is no help. Instead the footer holds a checksum of each row group,
and the snapshot one of the footer. Parquet's own page checksums leave out the page headers, and one bit there can
change what a page says. Beside the checksum is where the row group ends and what its first column holds: a look-up asks
hundreds of row groups whether they can have a value, and must not ask each of Parquet's metadata.
"""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dc_engine.errors import StateError, counted
from dc_engine.sizes import SIZES
from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.memory import MEMORY, Content
from dc_engine.state.packing import BYTES, GROUPS
from dc_engine.state.parts import Held, runs_of
from dc_engine.state.storage import Storage

_MAGIC = b"PAR1"
_TAIL = 65_536
"""How many bytes at the end usually hold the whole footer, and all of a small file."""
_FOOTER_TIMES = 11
"""About how many times its bytes a footer takes in memory, when it has been read."""


def bytes_a_row(storage: Storage, files: Sequence[DataFile]) -> dict[str, float]:
    """How much memory each column takes per row, measured on the largest of some files."""
    if not files:
        return {}
    largest = max(files, key=lambda file: file.size)
    return {name: size / max(largest.rows, 1) for name, size in Reader(storage, largest).column_bytes.items()}


def store_parquet(
    storage: Storage,
    path: str,
    data: bytes,
    *,
    kind: FileKind,
    load: int,
    rows: int,
    owner: str = "",
    bounds: tuple[int, int] | None = None,
) -> DataFile:
    """Write a Parquet file to the state, with everything needed to notice damage later."""
    stored = storage.write(path, data)
    footer = _checksum(data[-_footer_length(data) :])
    return DataFile(path, kind, owner, load, stored.size, stored.sha256, rows, bounds=bounds, footer=footer)


def _footer_length(tail: bytes) -> int:
    return int.from_bytes(tail[-8:-4], "little") + 8


def _checksum(footer: bytes) -> str:
    return hashlib.sha256(footer).hexdigest()[:16]


class _Footer:
    """What the end of a file says about it."""

    def __init__(self, footer: bytes, content: bytes) -> None:
        self.metadata = pq.read_metadata(io.BytesIO(_MAGIC + footer))
        self.content = content
        """The whole file, if it is small: it was read with its end."""
        self.nbytes = _FOOTER_TIMES * len(footer) + len(content)
        self._groups = json.loads((self.metadata.metadata or {})[GROUPS])
        self.checksums: list[int] = self._groups["crc32"]
        self.group_starts = np.cumsum([0, *self._groups["rows"]])
        self.ends = np.array([len(_MAGIC), *self._groups["end"]], np.int64)
        """Where the row groups end, after where the first begins."""

    @cached_property
    def bounds(self) -> np.ndarray:
        return np.array([self._groups["min"], self._groups["max"]], np.int64).T

    def span(self, group: int) -> tuple[int, int]:
        """Where a row group begins and ends."""
        return int(self.ends[group]), int(self.ends[group + 1])


class Reader:
    """One Parquet file of the state; whatever is read of it is checked first.

    With ``keep`` it stays in memory, and this process need not read it again as long as the disk has it unchanged.
    With ``coded`` columns of few texts come as dictionaries, which takes a quarter of the time: for a reader that wants
    few of the rows.
    """

    def __init__(self, storage: Storage, file: DataFile, *, keep: bool = False, coded: bool = False) -> None:
        self._file, self._storage, self._coded = file, storage, coded
        self._stamp = storage.stamp(file.path) if keep else None
        self._footer = self._recalled((), self._read_footer, lambda footer: footer.nbytes)
        self._metadata = self._footer.metadata
        if self._metadata.num_rows != file.rows:
            raise self._damaged(f"it has {counted(self._metadata.num_rows, 'row')}, not {file.rows:,}")
        self._opened: pq.ParquetFile | None = None
        self._present = frozenset[int]()

    def _recalled(
        self, key: tuple, read: Callable[[Content | None], Content], size: Callable[[Content], int]
    ) -> Content:
        return MEMORY.recall((self._file.sha256, self._stamp, *key), read, size) if self._stamp else read(None)

    def _read_footer(self, known: _Footer | None) -> _Footer:
        if known is not None:
            return known
        size = self._file.size
        first = max(0, size - _TAIL)
        tail = self._storage.read_part(self._file.path, first, size + 1)  # one byte more than there should be
        if len(tail) != size - first:
            raise self._damaged(f"it does not have {counted(size, 'byte')}")
        length = _footer_length(tail)
        if length > len(tail):
            tail = self._storage.read_part(self._file.path, max(0, size - length), size)
        footer = tail[-length:]
        if _checksum(footer) != self._file.footer:
            raise self._damaged("its footer was altered")
        return _Footer(footer, b"" if first else tail)

    def _damaged(self, why: object) -> StateError:
        return StateError(
            f"The file {self._storage.locate(self._file.path)} is damaged: {why}.",
            hint="Restore it or rebuild the state.",
        )

    @cached_property
    def bounds(self) -> np.ndarray:
        """The smallest and largest value of the first column in each row group."""
        return self._footer.bounds

    @property
    def keeps(self) -> bool:
        """Whether what is read stays in memory."""
        return self._stamp is not None

    @property
    def group_starts(self) -> np.ndarray:
        """The number of the first row of each row group, and of the end."""
        return self._footer.group_starts

    @property
    def size(self) -> int:
        """How many bytes the file has."""
        return self._file.size

    @property
    def column_bytes(self) -> dict[str, int]:
        """How much memory each column takes."""
        return json.loads((self._metadata.metadata or {})[BYTES])

    @property
    def schema(self) -> pa.Schema:
        """Its columns with their types."""
        return self._metadata.schema.to_arrow_schema()

    def portions(self, groups: np.ndarray) -> Iterator[np.ndarray]:
        """Some row groups in parts of a bounded number of bytes in the file, so that not all are held at once."""
        if self.size <= SIZES.portion:
            return iter([groups] if len(groups) else [])
        turns = np.cumsum(np.diff(self._footer.ends)[groups]) // SIZES.portion
        return (groups[turns == turn] for turn in np.unique(turns))

    def read(self, groups: Sequence[int] | np.ndarray, columns: Sequence[str], *, threads: bool = False) -> pa.Table:
        """Some columns of some row groups. Workers read with one thread each; a process working alone may use more."""
        wanted = [int(group) for group in groups]
        if not self._stamp or not wanted:
            return self._read(wanted, columns, threads)

        def held(known: Held | None) -> Held:
            lacking = [group for group in wanted if known is None or group not in known.spans]
            if known is not None and not lacking:
                return known
            read = Held(lacking, np.diff(self.group_starts)[lacking].tolist(), self._read(lacking, columns, threads))
            return read if known is None else known.with_more(read)

        return self._recalled(tuple(columns), held, lambda one: one.table.nbytes).at(wanted)

    def made(
        self,
        groups: np.ndarray,
        columns: Sequence[str],
        key: Hashable,
        make: Callable[[pa.Table], Content],
        size: Callable[[Content], int],
    ) -> Content:
        """What is made of some columns of consecutive row groups; with ``keep`` it stays in memory in place of them."""

        def read(known: Content | None) -> Content:
            return make(self._read(groups.tolist(), columns, threads=False)) if known is None else known

        return self._recalled((key, int(groups[0]), int(groups[-1])), read, size)

    def _read(self, groups: Sequence[int], columns: Sequence[str], threads: bool) -> pa.Table:
        return self._fetched(groups).read_row_groups(groups, columns=list(columns), use_threads=threads)

    def _columns_of_few_texts(self) -> list[str]:
        """Those that take at most two bytes a row in the first row group, before they are compressed."""
        if not self._metadata.num_row_groups:
            return []
        group = self._metadata.row_group(0)
        columns = [group.column(place) for place in range(group.num_columns)]
        return [
            one.path_in_schema
            for one in columns
            if one.physical_type == "BYTE_ARRAY" and one.total_uncompressed_size <= 2 * group.num_rows
        ]

    def _fetched(self, groups: Sequence[int]) -> pq.ParquetFile:
        """The file with some row groups at least, which are checked; those of the previous read are not fetched again.

        What is left out takes no memory: nobody writes to it. A file object that knows its parts would do, but Arrow
        would call back to Python for each column of each group.
        """
        if self._opened is None or not self._present.issuperset(groups):
            self.forget()  # before more is taken
            content = memoryview(self._footer.content) or np.zeros(self._file.size, np.uint8).data
            if not self._footer.content:
                spans = [(self._footer.span(run[0])[0], self._footer.span(run[-1])[1]) for run in runs_of(groups)]
                self._storage.read_into(content, self._file.path, spans)
            for group in groups:
                start, end = self._footer.span(group)
                if zlib.crc32(content[start:end]) != self._footer.checksums[group]:
                    raise self._damaged(f"its row group {group} was altered")
            source = pa.BufferReader(pa.py_buffer(content))
            coded = self._columns_of_few_texts() if self._coded else None
            self._opened = pq.ParquetFile(source, metadata=self._metadata, pre_buffer=False, read_dictionary=coded)
            self._present = frozenset(groups)
        return self._opened

    def forget(self) -> None:
        """Let go of what was read."""
        self._opened, self._present = None, frozenset()
