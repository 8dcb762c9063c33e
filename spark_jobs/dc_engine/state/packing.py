"""How tables become Parquet files: in row groups that can be checked and asked, each column as it is read fastest.

For each column of a row group there is a checksum and where it ends, and of the first also what it holds; see
``parquet`` for why.
"""

from __future__ import annotations

import io
import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dc_engine.sizes import SIZES

MAGIC = b"PAR1"
"""How a file begins and ends."""
GROUPS, CHUNKS, BYTES = b"dc.row_groups", b"dc.chunks", b"dc.bytes"
"""The keys of what the footer says of row groups, of their columns, and of how much memory columns take."""
_LOOKED_AT = 1_024
"""How many values of a column show whether they recur."""


def in_parts(table: pa.Table, most_bytes: int, most_rows: int | None = None) -> Iterator[pa.Table]:
    """The rows of a table in parts of about ``most_bytes``, and ``most_rows`` rows, at most."""
    step = max(1, most_bytes * table.num_rows // max(table.nbytes, 1))
    step = min(step, most_rows) if most_rows else step
    return (table.slice(first, step) for first in range(0, table.num_rows, step))


class Builder:
    """A Parquet file that grows in memory, row group by row group; ``delta`` names columns of growing numbers.

    ``zones`` says for some columns from where to where they go in a row group, as numbers in the order of their values.
    Texts that are ``scattered``, so that none is like the one before, take fewer bytes with their lengths apart.
    """

    def __init__(
        self,
        schema: pa.Schema,
        *,
        row_group: int | None = None,
        delta: Sequence[str] = (),
        zones: Callable[[pa.Table], Mapping[str, tuple[int, int] | None]] | None = None,
        scattered: bool = False,
    ) -> None:
        self._schema, self._delta, self._scattered, self._zones_of = schema, delta, scattered, zones
        self._zones: dict[str, list[tuple[int, int] | None]] = {}
        self._buffer = io.BytesIO()
        self._row_group = row_group or SIZES.row_group
        self._groups: dict[str, list[int | None]] = {name: [] for name in ("rows", "min", "max")}
        self._bytes = dict.fromkeys(schema.names, 0)
        self._writer: pq.ParquetWriter | None = None
        self.rows = 0

    def _begun(self, first: pa.Table) -> pq.ParquetWriter:
        """The writer, made when the first rows are known: dictionaries are for columns in which values recur."""
        leaves = [leaf for field in self._schema for leaf in _leaves(field.name, field.type)]
        numbers = {leaf for leaf in leaves if leaf.split(".")[0] in self._delta}
        once = {leaf for leaf, times in Counter(leaves).items() if times == 1}  # not both a.b and a part b of a
        various = {name for name in once - numbers if _is_various(first, name)}
        numbers |= {name for name in various if _is_whole(first.schema.field(name).type)}
        texts = {name for name in various if self._scattered and _is_text(first.schema.field(name).type)}
        encodings = dict.fromkeys(numbers, "DELTA_BINARY_PACKED") | dict.fromkeys(texts, "DELTA_LENGTH_BYTE_ARRAY")
        return pq.ParquetWriter(
            self._buffer,
            self._schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=[leaf for leaf in leaves if leaf not in numbers | various],
            column_encoding=encodings,
            write_page_checksum=True,
            write_statistics=leaves[:1],  # nobody asks for others, and they make footers twice as long
        )

    def add(self, table: pa.Table) -> None:
        """Write rows as row groups of a given number of rows, or fewer when their values are long."""
        size = {name: table.column(name).nbytes for name in self._bytes}
        self._writer = self._writer or self._begun(table)
        for part in in_parts(table, SIZES.group_bytes, self._row_group):
            self._writer.write_table(part, row_group_size=part.num_rows)
            least, most = _bounds(part.column(0))
            for name, fact in {"rows": part.num_rows, "min": least, "max": most}.items():
                self._groups[name].append(fact)
            for name, zone in self._zones_of(part).items() if self._zones_of else ():
                self._zones.setdefault(name, []).append(zone)
        self.rows += table.num_rows
        self._bytes = {name: self._bytes[name] + own for name, own in size.items()}

    @property
    def size(self) -> int:
        """How many bytes there are so far."""
        return self._buffer.tell()

    def finish(self) -> bytes:
        """The whole file.

        Where columns end is known only when the footer is written, so there is room in it for what is to be said.
        """
        self._writer = self._writer or self._begun(self._schema.empty_table())
        room = _chunks([0] * len(self._groups["rows"]) * len(self._schema), memoryview(b""))
        groups = {**self._groups, **({"zones": self._zones} if self._zones else {})}
        facts = {GROUPS: json.dumps(groups).encode(), BYTES: json.dumps(self._bytes).encode(), CHUNKS: room}
        self._writer.add_key_value_metadata(facts)
        self._writer.close()
        sizes = _chunk_sizes(pq.read_metadata(self._buffer), self._schema)
        with self._buffer.getbuffer() as content:
            footer = bytes(content[-int.from_bytes(content[-8:-4], "little") - 8 :])
            place = len(content) - len(footer) + footer.rindex(room)
            content[place : place + len(room)] = _chunks(sizes, content)
        return self._buffer.getvalue()


def _chunk_sizes(metadata: pq.FileMetaData, schema: pa.Schema) -> list[int]:
    """How many bytes each column takes in each row group: they follow each other without gaps."""
    columns = [place for place, field in enumerate(schema) for _ in range(_width(field.type))]
    sizes = np.zeros((metadata.num_row_groups, len(schema)), np.int64)
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for leaf, column in enumerate(columns):
            sizes[number, column] += group.column(leaf).total_compressed_size
    return sizes.ravel().tolist()


def _chunks(sizes: Sequence[int], data: memoryview) -> bytes:
    """Sizes and checksums of consecutive parts of a file, as a text whose length depends only on their number."""
    ends = list(accumulate(sizes, initial=len(MAGIC)))
    sums = [zlib.crc32(data[start:end]) for start, end in pairwise(ends)]
    listed = [",".join(f"{one:>10}" for one in numbers) for numbers in (sizes, sums)]
    return f'{{"bytes": [{listed[0]}], "crc32": [{listed[1]}]}}'.encode()


def parquet_bytes(table: pa.Table, *, row_group: int | None = None, delta: Sequence[str] = ()) -> bytes:
    """A table as a Parquet file."""
    builder = Builder(table.schema, row_group=row_group, delta=delta)
    builder.add(table)
    return builder.finish()


def _bounds(column: pa.ChunkedArray) -> tuple[int | None, int | None]:
    """The smallest and largest of some whole numbers; of other values none."""
    if not pa.types.is_int64(column.type):
        return None, None
    found = pc.min_max(column).as_py()
    return found["min"], found["max"]


def _is_various(table: pa.Table, name: str) -> bool:
    """Whether a column's values hardly recur, as far as the first of them show: a dictionary would only cost."""
    if name not in table.column_names:  # a part of a nested one
        return False
    first = table.column(name).slice(0, _LOOKED_AT)
    return not pa.types.is_nested(first.type) and 2 * len(first.unique()) > len(first)


def _is_whole(type_: pa.DataType) -> bool:
    """Whether Parquet has whole numbers for the values of a type."""
    is_time = pa.types.is_temporal(type_) and not pa.types.is_interval(type_)
    return pa.types.is_integer(type_) or is_time


def _is_text(type_: pa.DataType) -> bool:
    """Whether Parquet has bytes of any length for the values of a type."""
    return pa.types.is_string(type_) or pa.types.is_binary(type_)


def _width(arrow_type: pa.DataType) -> int:
    """How many columns of Parquet a column takes."""
    if pa.types.is_map(arrow_type):
        return _width(arrow_type.key_type) + _width(arrow_type.item_type)
    if pa.types.is_struct(arrow_type):
        return sum(_width(field.type) for field in arrow_type)
    return _width(arrow_type.value_type) if pa.types.is_list(arrow_type) else 1


def _leaves(name: str, arrow_type: pa.DataType) -> list[str]:
    """The columns of numbers and texts below a column, as the Parquet writer names them."""
    if pa.types.is_struct(arrow_type):
        return [leaf for field in arrow_type for leaf in _leaves(f"{name}.{field.name}", field.type)]
    if pa.types.is_list(arrow_type):
        return _leaves(f"{name}.list.element", arrow_type.value_type)
    return [name]
