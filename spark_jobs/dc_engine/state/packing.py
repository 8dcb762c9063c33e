"""How tables become Parquet files: in row groups that can be checked and asked, each column as it is read fastest.

Beside each row group's checksum is where it ends and what its first column holds; see ``parquet`` for why.
"""

from __future__ import annotations

import io
import json
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dc_engine.sizes import SIZES

GROUPS = b"dc.row_groups"
BYTES = b"dc.bytes"
"""The keys of what the footer says of row groups, and of how much memory columns take."""
_LOOKED_AT = 1_024
"""How many values of a column show whether they recur."""


def in_parts(table: pa.Table, most_bytes: int, most_rows: int | None = None) -> Iterator[pa.Table]:
    """The rows of a table in parts of about ``most_bytes``, and ``most_rows`` rows, at most."""
    step = max(1, most_bytes * table.num_rows // max(table.nbytes, 1))
    step = min(step, most_rows) if most_rows else step
    return (table.slice(first, step) for first in range(0, table.num_rows, step))


class Builder:
    """A Parquet file that grows in memory, row group by row group; ``delta`` names columns of growing numbers."""

    def __init__(self, schema: pa.Schema, *, row_group: int | None = None, delta: Sequence[str] = ()) -> None:
        self._schema, self._delta = schema, delta
        self._buffer = io.BytesIO()
        self._row_group = row_group or SIZES.row_group
        self._groups: dict[str, list[int | None]] = {name: [] for name in ("crc32", "end", "rows", "min", "max")}
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
        return pq.ParquetWriter(
            self._buffer,
            self._schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=[leaf for leaf in leaves if leaf not in numbers | various],
            column_encoding=dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
            write_page_checksum=True,
            write_statistics=leaves[:1],  # nobody asks for others, and they make footers twice as long
        )

    def add(self, table: pa.Table) -> None:
        """Write rows as row groups of a given number of rows, or fewer when their values are long."""
        size = {name: table.column(name).nbytes for name in self._bytes}
        self._writer = self._writer or self._begun(table)
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
        facts = {GROUPS: self._groups, BYTES: self._bytes}
        self._writer = self._writer or self._begun(self._schema.empty_table())
        self._writer.add_key_value_metadata({name: json.dumps(fact).encode() for name, fact in facts.items()})
        self._writer.close()
        return self._buffer.getvalue()


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


def _leaves(name: str, arrow_type: pa.DataType) -> list[str]:
    """The columns of numbers and texts below a column, as the Parquet writer names them."""
    if pa.types.is_struct(arrow_type):
        return [leaf for field in arrow_type for leaf in _leaves(f"{name}.{field.name}", field.type)]
    if pa.types.is_list(arrow_type):
        return _leaves(f"{name}.list.element", arrow_type.value_type)
    return [name]
