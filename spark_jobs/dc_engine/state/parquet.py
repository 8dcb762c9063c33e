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
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dc_engine.errors import StateError, counted
from dc_engine.sizes import SIZES
from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.memory import MEMORY, Content
from dc_engine.state.parts import Held, Parts, runs_of
from dc_engine.state.storage import Storage

_GROUPS = b"dc.row_groups"
_BYTES = b"dc.bytes"
_MAGIC = b"PAR1"
_TAIL = 65_536
"""How many bytes at the end usually hold the whole footer, and all of a small file."""
_FOOTER_TIMES = 11
"""About how many times its bytes a footer takes in memory, when it has been read."""


def in_parts(table: pa.Table, most_bytes: int, most_rows: int | None = None) -> Iterator[pa.Table]:
    """The rows of a table in parts of about ``most_bytes``, and ``most_rows`` rows, at most."""
    step = max(1, most_bytes * table.num_rows // max(table.nbytes, 1))
    step = min(step, most_rows) if most_rows else step
    return (table.slice(first, step) for first in range(0, table.num_rows, step))


class Builder:
    """A Parquet file that grows in memory, row group by row group; ``delta`` names columns of growing numbers."""

    def __init__(self, schema: pa.Schema, *, row_group: int | None = None, delta: Sequence[str] = ()) -> None:
        leaves = [leaf for field in schema for leaf in _leaves(field.name, field.type)]
        plain = [leaf for leaf in leaves if leaf.split(".")[0] not in delta]
        self._buffer = io.BytesIO()
        self._row_group = row_group or SIZES.row_group
        self._groups: dict[str, list[int | None]] = {name: [] for name in ("crc32", "end", "rows", "min", "max")}
        self._bytes = dict.fromkeys(schema.names, 0)
        self.rows = 0
        self._writer = pq.ParquetWriter(
            self._buffer,
            schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=plain,
            column_encoding={leaf: "DELTA_BINARY_PACKED" for leaf in leaves if leaf not in plain},
            write_page_checksum=True,
            write_statistics=leaves[:1],  # nobody asks for others, and they make footers twice as long
        )

    def add(self, table: pa.Table) -> None:
        """Write rows as row groups of a given number of rows, or fewer when their values are long."""
        size = {name: table.column(name).nbytes for name in self._bytes}
        for part in in_parts(table, SIZES.group_bytes, self._row_group):
            start = self._buffer.tell()
            self._writer.write_table(part, row_group_size=part.num_rows)
            with self._buffer.getbuffer() as content:
                checksum = zlib.crc32(content[start:])
            least, most = _bounds(part.column(0))
            facts = {"crc32": checksum, "end": self._buffer.tell(), "rows": part.num_rows, "min": least, "max": most}
            for name, fact in facts.items():
                self._groups[name].append(fact)
        self.rows += table.num_rows
        self._bytes = {name: self._bytes[name] + own for name, own in size.items()}

    @property
    def size(self) -> int:
        """How many bytes there are so far."""
        return self._buffer.tell()

    def finish(self) -> bytes:
        """The whole file."""
        facts = {_GROUPS: self._groups, _BYTES: self._bytes}
        self._writer.add_key_value_metadata({name: json.dumps(fact).encode() for name, fact in facts.items()})
        self._writer.close()
        return self._buffer.getvalue()


def parquet_bytes(table: pa.Table, *, row_group: int | None = None, delta: Sequence[str] = ()) -> bytes:
    """A table as a Parquet file."""
    builder = Builder(table.schema, row_group=row_group, delta=delta)
    builder.add(table)
    return builder.finish()


def bytes_a_row(storage: Storage, files: Sequence[DataFile]) -> dict[str, float]:
    """How much memory each column takes per row, measured on the largest of some files."""
    if not files:
        return {}
    largest = max(files, key=lambda file: file.size)
    return {name: size / max(largest.rows, 1) for name, size in Reader(storage, largest).column_bytes.items()}


def _bounds(column: pa.ChunkedArray) -> tuple[int | None, int | None]:
    """The smallest and largest of some whole numbers; of other values none."""
    if not pa.types.is_int64(column.type):
        return None, None
    found = pc.min_max(column).as_py()
    return found["min"], found["max"]


def _leaves(name: str, arrow_type: pa.DataType) -> list[str]:
    """The columns of numbers and texts below a column, as the Parquet writer names them."""
    if pa.types.is_struct(arrow_type):
        return [leaf for field in arrow_type for leaf in _leaves(f"{name}.{field.name}", field.type)]
    if pa.types.is_list(arrow_type):
        return _leaves(f"{name}.list.element", arrow_type.value_type)
    return [name]


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
        self._groups = json.loads((self.metadata.metadata or {})[_GROUPS])
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
    """

    def __init__(self, storage: Storage, file: DataFile, *, keep: bool = False) -> None:
        self._file, self._storage = file, storage
        self._stamp = storage.stamp(file.path) if keep else None
        self._footer = self._recalled((), self._read_footer, lambda footer: footer.nbytes)
        self._metadata = self._footer.metadata
        if self._metadata.num_rows != file.rows:
            raise self._damaged(f"it has {counted(self._metadata.num_rows, 'row')}, not {file.rows:,}")
        self._latest: dict[int, bytes] = {}
        self._content = Parts(file.size)

    def _recalled(
        self, key: tuple, read: Callable[[Content | None], Content], size: Callable[[Content], int]
    ) -> Content:
        return MEMORY.recall((self._file.sha256, self._stamp, *key), read, size) if self._stamp else read(None)

    def _read_footer(self, known: _Footer | None) -> _Footer:
        if known is not None:
            return known
        size = self._file.size
        first = max(0, size - _TAIL)
        (tail,) = self._storage.read_parts(self._file.path, [(first, size + 1)])  # one byte more than there should be
        if len(tail) != size - first:
            raise self._damaged(f"it does not have {counted(size, 'byte')}")
        length = _footer_length(tail)
        if length > len(tail):
            (tail,) = self._storage.read_parts(self._file.path, [(max(0, size - length), size)])
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
        return json.loads((self._metadata.metadata or {})[_BYTES])

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
        self._fetch(groups)
        self._content.hold({self._footer.span(group)[0]: self._latest[group] for group in groups})
        return self._parquet.read_row_groups(groups, columns=list(columns), use_threads=threads)

    @cached_property
    def _parquet(self) -> pq.ParquetFile:
        source = pa.BufferReader(self._footer.content) if self._footer.content else self._content
        return pq.ParquetFile(source, metadata=self._metadata, pre_buffer=False)

    def _fetch(self, groups: Sequence[int]) -> None:
        """Fetch and check the bytes of some row groups; those of the previous read need not be fetched again."""
        kept = {group: self._latest[group] for group in groups if group in self._latest}
        runs = list(runs_of([group for group in groups if group not in kept]))
        span = self._footer.span
        for run, part in zip(runs, self._parts([(span(run[0])[0], span(run[-1])[1]) for run in runs]), strict=True):
            first = span(run[0])[0]
            for group in run:
                start, end = span(group)
                kept[group] = part[start - first : end - first]
                if zlib.crc32(kept[group]) != self._footer.checksums[group]:
                    raise self._damaged(f"its row group {group} was altered")
        self._latest = kept

    def _parts(self, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        if self._footer.content or not spans:
            return [self._footer.content[start:end] for start, end in spans]
        return self._storage.read_parts(self._file.path, spans)

    def forget(self) -> None:
        """Let go of what was read."""
        self._latest = {}
        self._content.hold({})
