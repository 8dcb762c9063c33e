"""Parquet files of the state: written so that every byte that is ever read again can be checked.

A file is read in parts, so its checksum as a whole is no help. Instead the footer holds a checksum of each column of
each row group, and the snapshot one of the footer: only the columns that are asked for are read. Parquet's own page
checksums leave out the page headers, and one bit there can change what a page says. Beside the checksum is how long the
column is, and what the first one holds: a look-up asks hundreds of row groups whether they can have a value, and must
not ask each of Parquet's metadata.
"""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dc_engine.errors import StateError, counted
from dc_engine.sizes import SIZES
from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.memory import MEMORY, Content
from dc_engine.state.packing import BYTES, CHUNKS, GROUPS, MAGIC
from dc_engine.state.parts import Held
from dc_engine.state.storage import Storage

_WHOLE = 65_536
"""A file of so many bytes is read at once."""
_TAIL = 16_384
"""How many bytes at the end of a larger one have the footer: of a longer footer there is a compressed copy."""
_FOOTER_TIMES = 11
"""About how many times its bytes a footer takes in memory, when it has been read."""


def bytes_a_row(storage: Storage, files: Sequence[DataFile], *, keep: bool = False) -> dict[str, float]:
    """How much memory each column takes per row, measured on the largest of some files."""
    if not files:
        return {}
    largest = max(files, key=lambda file: file.size)
    sizes = Reader(storage, largest, keep=keep).column_bytes
    return {name: size / max(largest.rows, 1) for name, size in sizes.items()}


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
    packed, footer = None, data[-_footer_length(data) :]
    if len(footer) > _TAIL and len(data) > _WHOLE:
        copy = pa.compress(footer, "zstd", asbytes=True)
        packed = (len(data) - len(footer), len(copy), len(footer))
        data = b"".join([memoryview(data)[: packed[0]], copy, footer])
    stored = storage.write(path, data)
    known = DataFile(path, kind, owner, load, stored.size, stored.sha256, rows, bounds=bounds)
    return replace(known, footer=_checksum(footer), packed=packed)


def _footer_length(tail: bytes) -> int:
    return int.from_bytes(tail[-8:-4], "little") + 8


def _checksum(footer: bytes) -> str:
    return hashlib.sha256(footer).hexdigest()[:16]


class _Footer:
    """What the end of a file says about it."""

    def __init__(self, footer: bytes, content: bytes) -> None:
        self.metadata = pq.read_metadata(io.BytesIO(MAGIC + footer))
        self.content = content
        """The whole file, if it is small: it was read with its end."""
        self.nbytes = _FOOTER_TIMES * len(footer) + len(content)
        facts = self.metadata.metadata or {}
        self._groups, chunks = json.loads(facts[GROUPS]), json.loads(facts[CHUNKS])
        self.group_starts = np.cumsum([0, *self._groups["rows"]])
        self.names = list(json.loads(facts[BYTES]))
        shape = (len(self._groups["rows"]), len(self.names))
        sizes = np.array(chunks["bytes"], np.int64)
        self.ends = (len(MAGIC) + np.cumsum(sizes)).reshape(shape)
        self.starts = self.ends - sizes.reshape(shape)
        """Where each column of each row group begins and ends."""
        self.checksums = np.array(chunks["crc32"], np.int64).reshape(shape)

    @cached_property
    def bounds(self) -> np.ndarray:
        return np.array([self._groups["min"], self._groups["max"]], np.int64).T

    @cached_property
    def zones(self) -> dict[str, np.ndarray]:
        known = self._groups.get("zones", {})
        return {name: np.array([one or (1, 0) for one in zones], np.int64) for name, zones in known.items()}


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
        self._content = memoryview(b"")
        self._present: dict[int, set[int]] = {}
        """Of which row groups which columns are there."""

    def _recalled(
        self, key: tuple, read: Callable[[Content | None], Content], size: Callable[[Content], int]
    ) -> Content:
        return MEMORY.recall((self._file.sha256, self._stamp, *key), read, size) if self._stamp else read(None)

    def _read_footer(self, known: _Footer | None) -> _Footer:
        if known is not None:
            return known
        size = self._file.size
        first = size - _TAIL if size > _WHOLE else 0
        if self._file.packed:
            footer, first = self._unpacked(*self._file.packed), 1
        else:
            tail = self._storage.read_part(self._file.path, first, size + 1)  # one byte more than there should be
            if len(tail) != size - first:
                raise self._damaged(f"it does not have {counted(size, 'byte')}")
            footer = tail[-_footer_length(tail) :]
        if _checksum(footer) != self._file.footer:
            raise self._damaged("its footer was altered")
        return _Footer(footer, b"" if first else tail)

    def _unpacked(self, start: int, length: int, size: int) -> bytes:
        """A long footer, read as a copy that takes a fifth of its bytes."""
        copy = self._storage.read_part(self._file.path, start, start + length)
        try:
            return pa.decompress(copy, size, "zstd", asbytes=True)
        except OSError as error:
            raise self._damaged("its footer was altered") from error

    def _damaged(self, why: object) -> StateError:
        return StateError(
            f"The file {self._storage.locate(self._file.path)} is damaged: {why}.",
            hint="Restore it or rebuild the state.",
        )

    @property
    def bounds(self) -> np.ndarray:
        """The smallest and largest value of the first column in each row group."""
        return self._footer.bounds

    @property
    def zones(self) -> dict[str, np.ndarray]:
        """For some columns from where to where they go in each row group, as numbers; from 1 to 0 if all are NULL."""
        return self._footer.zones

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
        sizes = self._footer.ends[:, -1] - self._footer.starts[:, 0]
        turns = np.cumsum(sizes[groups]) // SIZES.portion
        return (groups[turns == turn] for turn in np.unique(turns))

    def read(
        self, groups: Sequence[int] | np.ndarray, columns: Sequence[str], *, threads: bool = False, keep: bool = True
    ) -> pa.Table:
        """Some columns of some row groups. Workers read with one thread each; a process working alone may use more."""
        wanted = [int(group) for group in groups]
        if not self._stamp or not wanted or not keep:
            return self._read(wanted, columns, threads)

        def held(known: Held | None) -> Held:
            lacking = [group for group in wanted if known is None or group not in known.spans]
            if known is not None and not lacking:
                return known
            if known is not None and 2 * (len(known.spans) + len(lacking)) > len(self.group_starts) - 1:
                lacking = [group for group in range(len(self.group_starts) - 1) if group not in known.spans]
            read = Held(lacking, np.diff(self.group_starts)[lacking].tolist(), self._read(lacking, columns, threads))
            return read if known is None else known.with_more(read)

        return self._recalled(tuple(columns), held, lambda one: one.table.nbytes).at(wanted)

    def holds(self, columns: Sequence[str]) -> bool:
        """Whether these columns of all row groups are in memory."""
        known = MEMORY.known((self._file.sha256, self._stamp, *columns)) if self._stamp else None
        return known is not None and len(known.spans) == len(self.group_starts) - 1

    def made(
        self,
        groups: np.ndarray,
        columns: Sequence[str],
        key: Hashable,
        make: Callable[[pa.Table], Content],
        size: Callable[[Content], int],
        *,
        threads: bool = False,
    ) -> Content:
        """What is made of some columns of consecutive row groups; with ``keep`` it stays in memory in place of them."""

        def read(known: Content | None) -> Content:
            return make(self._read(groups.tolist(), columns, threads)) if known is None else known

        return self._recalled((key, int(groups[0]), int(groups[-1])), read, size)

    def _read(self, groups: Sequence[int], columns: Sequence[str], threads: bool) -> pa.Table:
        return self._fetched(groups, columns).read_row_groups(groups, columns=list(columns), use_threads=threads)

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

    def _fetched(self, groups: Sequence[int], columns: Sequence[str]) -> pq.ParquetFile:
        """The file with some columns of some row groups at least, checked; those of the previous read stay.

        What is left out takes no memory: nobody writes to it. A file object that knows its parts would do, but Arrow
        would call back to Python for each column of each group.
        """
        if self._opened is None or not self._present.keys() >= set(groups):
            self.forget()  # before more is taken
            whole = self._footer.content
            self._content = memoryview(whole) if whole else np.zeros(self._file.size, np.uint8).data
            source = pa.BufferReader(pa.py_buffer(self._content))
            coded = self._columns_of_few_texts() if self._coded else None
            self._opened = pq.ParquetFile(source, metadata=self._metadata, pre_buffer=False, read_dictionary=coded)
            self._present = {group: set() for group in groups}
        places = [place for place, name in enumerate(self._footer.names) if name in set(columns)]
        lacking = [(group, place) for group in groups for place in places if place not in self._present[group]]
        self._fetch(lacking)
        return self._opened

    def _fetch(self, chunks: Sequence[tuple[int, int]]) -> None:
        """Read columns (by their places) of row groups to where they are in the file."""
        footer = self._footer
        spans: list[tuple[int, int]] = []
        for chunk in chunks:
            start, end = int(footer.starts[chunk]), int(footer.ends[chunk])
            first = spans.pop()[0] if spans and spans[-1][1] == start else start
            spans.append((first, end))
        if not footer.content:
            self._storage.read_into(self._content, self._file.path, spans)
        for group, place in chunks:
            start, end = footer.starts[group, place], footer.ends[group, place]
            if zlib.crc32(self._content[start:end]) != footer.checksums[group, place]:
                raise self._damaged(f"its row group {group} was altered")
            self._present[group].add(place)

    def forget(self) -> None:
        """Let go of what was read."""
        self._opened, self._content, self._present = None, memoryview(b""), {}
