"""Parquet files that are read without Spark, and yet exactly as Spark reads them.

That is decided from the footers: whatever Spark may read in another way than Arrow does (old calendars, unusual types,
files that differ, folders that stand for columns) is left to Spark, and its messages with it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dc_engine.engines.reach import RELATIVE, Schemes
from dc_engine.request import Changes
from dc_engine.sizes import SIZES

MOST_FILES = 1_000
"""The footers of more files are not looked at in the driver."""
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_./ ,+@~-]+")
"""A path in which neither Spark nor Hadoop sees anything but names."""
_SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
_SPARK_VERSION = b"org.apache.spark.version"
_TODAYS_CALENDAR, _TODAYS_INT96 = b"3.0.0", b"3.1.0"
"""The versions of Spark that began to write dates, and times of 96 bits, in the calendar of today; Spark compares them
as texts."""
_OLD_CALENDARS = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_INT96 = "INT96"
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
"""The years 1 to 9999: far outside of them Arrow takes times of 96 bits for others."""
_ARROW = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
}
_BY_PARQUET = {
    ("BOOLEAN", "None"): "boolean",
    ("INT32", "None"): "int",
    ("INT32", "Int(bitWidth=8, isSigned=true)"): "tinyint",
    ("INT32", "Int(bitWidth=16, isSigned=true)"): "smallint",
    ("INT32", "Int(bitWidth=32, isSigned=true)"): "int",
    ("INT32", "Date"): "date",
    ("INT64", "None"): "bigint",
    ("INT64", "Int(bitWidth=64, isSigned=true)"): "bigint",
    ("FLOAT", "None"): "float",
    ("DOUBLE", "None"): "double",
    ("BYTE_ARRAY", "String"): "string",
    (_INT96, "None"): "timestamp",
}
_TIMESTAMP = re.compile(r"Timestamp\(isAdjustedToUTC=true, timeUnit=(milliseconds|microseconds),.*")
_DECIMAL = re.compile(r"Decimal\(precision=(\d+), scale=(\d+)\)")
_DECIMAL_TYPE = re.compile(r"decimal\((\d+),(\d+)\)")
_JSON_NAMES = {"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long"}


class NotPlainError(Exception):
    """Why a source is left to Spark, in a few words; in none if nobody would expect anything else."""


@dataclass(frozen=True, slots=True)
class Share:
    """Some rows of a row group."""

    path: str
    group: int
    first: int
    rows: int
    of: int
    """How many rows the group had when its footer was read."""


@dataclass(frozen=True, slots=True)
class Files:
    """The rows of some files, which all have the same columns."""

    types: Mapping[str, str]
    """The columns with their Spark types."""
    groups: tuple[tuple[Share, int], ...]
    """All row groups, with the bytes that their values take before they are compressed."""
    size: int
    """How many bytes the files have."""

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(group.rows for group, _ in self.groups)

    def shares(self) -> list[list[Share]]:
        """The rows in parts for tasks, in their order, each with about as many bytes."""
        aim = min(max(sum(nbytes for _, nbytes in self.groups) // 4, SIZES.group_bytes), SIZES.staged_bytes)
        found: list[list[Share]] = [[]]
        taken = 0
        for group, nbytes in self.groups:
            parts = max(1, round(nbytes / aim))
            for part in _cut(group, parts):
                if found[-1] and taken + nbytes // parts > aim:
                    found.append([])
                    taken = 0
                found[-1].append(part)
                taken += nbytes // parts
        return found


def _cut(group: Share, parts: int) -> Iterator[Share]:
    """A row group in equal parts. Each of them is read from the beginning of the group, so there should be few."""
    rows = math.ceil(group.rows / parts)
    for first in range(0, max(group.rows, 1), max(rows, 1)):
        yield Share(group.path, group.group, first, min(rows, group.rows - first), group.of)


def plain_parquet(source: Changes, schemes: Schemes) -> Files:
    """The files of a source that is read without Spark; else ``NotPlainError`` is raised."""
    if source.path is None or source.format.lower() != "parquet":
        raise NotPlainError
    if source.options or source.schema or source.where:
        raise NotPlainError("it has options, a schema or a condition")
    path = _local(source.path, schemes)
    try:
        files = _files(path)
        footers = [pq.read_metadata(file) for file in files]
        size = sum(file.stat().st_size for file in files)
        types = _types(footers[0])
        for footer in footers[1:]:
            if not footer.schema.equals(footers[0].schema) or _spark_facts(footer) != _spark_facts(footers[0]):
                raise NotPlainError("its files differ in their columns")
        _check_times(files, footers[0].schema)
    except (OSError, ValueError, pa.ArrowException):  # names of columns need not even be text
        raise NotPlainError("it cannot be read without it") from None
    groups = [one for file, footer in zip(files, footers, strict=True) for one in _groups(str(file), footer)]
    return Files(types, tuple(groups), size)


def _local(text: str, schemes: Schemes) -> Path:
    scheme, colon, rest = text.partition(":")
    path = rest.removeprefix("//") if colon else text
    if (scheme if colon else "" if path.startswith("/") else RELATIVE) not in schemes:
        raise NotPlainError("its path may mean another disk")
    is_odd = path.startswith("//") or (colon and not path.startswith("/")) or not _PLAIN_PATH.fullmatch(path)
    if is_odd or ".." in Path(path).parts:  # which leads elsewhere behind a link
        raise NotPlainError("its path is not that of one plain file or folder")
    return Path(path).absolute()


def _files(path: Path) -> list[Path]:
    """The files that Spark would read, by their names."""
    entries = sorted(path.iterdir()) if path.is_dir() else [path]
    read = [one for one in entries if not one.name.startswith((".", "_"))]
    if not 0 < len(read) <= MOST_FILES:
        raise NotPlainError(f"it is not one to {MOST_FILES:,} files of rows")
    if any(_is_special(one.name) or one.is_dir() for one in entries):
        raise NotPlainError("its folder has more than files of rows")
    return read


def _is_special(name: str) -> bool:
    """Whether a file or a folder means something to Spark by its name alone."""
    return name in ("_metadata", "_common_metadata") or "=" in name or name.endswith("._COPYING_")


def _spark_facts(footer: pq.FileMetaData) -> dict[bytes, bytes]:
    """What Spark wrote about a file."""
    return {key: value for key, value in (footer.metadata or {}).items() if key.startswith(b"org.apache.spark.")}


def _groups(path: str, footer: pq.FileMetaData) -> Iterator[tuple[Share, int]]:
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)  # not its columns: of a damaged footer they end the process
        yield Share(path, number, 0, group.num_rows, group.num_rows), group.total_byte_size


def _check_times(files: list[Path], schema: pq.ParquetSchema) -> None:
    """Leave times of 96 bits to Spark that Arrow may take for others; in seconds none of them is too large."""
    names = [column.name for column in map(schema.column, range(len(schema))) if column.physical_type == _INT96]
    for file in files if names else ():
        for batch in pq.ParquetFile(file, coerce_int96_timestamp_unit="s").iter_batches(columns=names):
            for column in batch.columns:
                found = pc.min_max(column.cast(pa.int64())).as_py()
                if found["min"] is not None and not _FIRST_SECOND <= found["min"] <= found["max"] <= _LAST_SECOND:
                    raise NotPlainError("it has times outside of the years 1 to 9999, of 96 bits")


def _types(footer: pq.FileMetaData) -> dict[str, str]:
    """The columns with their Spark types."""
    types: dict[str, str] = {}
    found, told, facts = footer.schema, footer.schema.to_arrow_schema(), _spark_facts(footer)
    names = [field.name for field in told]
    has_int96 = any(found.column(place).physical_type == _INT96 for place in range(len(found)))
    oldest = _TODAYS_INT96 if has_int96 else _TODAYS_CALENDAR
    if any(key in facts for key in _OLD_CALENDARS) or facts.get(_SPARK_VERSION, oldest) < oldest:
        raise NotPlainError("its dates may be those of an old calendar")
    if not names or len(names) != len(footer.schema) or len({name.lower() for name in names}) < len(names):
        raise NotPlainError("its columns are nested, or not to be told apart")
    for place, field in enumerate(told):
        column = found.column(place)
        spark_type = _spark_type(column)
        if column.path != field.name or "." in field.name or not field.name or column.max_repetition_level:
            raise NotPlainError(f"column '{field.name}' is nested, or has a dot in its name")
        if spark_type is None or not _is_read_so(field.type, spark_type, column.physical_type):
            raise NotPlainError(f"column '{field.name}' has the type {column.physical_type} {column.logical_type}")
        if column.physical_type == _INT96 and _SPARK_VERSION not in facts:
            raise NotPlainError(f"column '{field.name}' has times that not Spark wrote, of 96 bits")
        types[field.name] = spark_type
    if _SPARK_SCHEMA in facts and not _is_told_so(facts[_SPARK_SCHEMA], types):
        raise NotPlainError("Spark wrote it with other types")
    return types


def _spark_type(column: pq.ColumnSchema) -> str | None:
    logical = str(column.logical_type)
    if column.physical_type == "INT64" and _TIMESTAMP.fullmatch(logical):
        return "timestamp"
    if (decimal := _DECIMAL.fullmatch(logical)) and int(decimal[1]) <= 38:
        return f"decimal({decimal[1]},{decimal[2]})"
    return _BY_PARQUET.get((column.physical_type, logical))


def _is_read_so(arrow: pa.DataType, spark_type: str, physical: str) -> bool:
    """Whether Arrow reads a column in the type that Spark gives it, but for the unit and zone of times."""
    if spark_type == "timestamp":
        return pa.types.is_timestamp(arrow) and (physical == _INT96 or (arrow.tz is not None and arrow.unit != "ns"))
    return arrow == arrow_type(spark_type) or (spark_type == "string" and pa.types.is_large_string(arrow))


def _is_told_so(text: bytes, types: Mapping[str, str]) -> bool:
    """Whether Spark's own description of the columns has just these types."""
    expected = [[name, _JSON_NAMES.get(one, one), {}] for name, one in types.items()]
    try:
        return [[one["name"], one["type"], one["metadata"]] for one in json.loads(text)["fields"]] == expected
    except (ValueError, LookupError, TypeError):
        return False


def arrow_type(spark_type: str) -> pa.DataType | None:
    """The Arrow type in which values of a plain type are staged; ``None`` for any other type."""
    if decimal := _DECIMAL_TYPE.fullmatch(spark_type):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    return _ARROW.get(spark_type)
