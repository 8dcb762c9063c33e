"""The columns of a sample file with the types that Spark would give them, read without Spark where that is possible."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from dc_engine.errors import ChangesError, RequestError
from dc_engine.request import Changes
from dc_engine.wording import MAX_TEXT, plain

_CSV_OPTIONS = {"header", "inferschema", "escape", "sep", "delimiter", "quote", "multiline"}
_SPARK = "Add --spark to read it with Spark."
_MOST_BYTES = 1 << 20
"""So much of a text file tells its types."""
_NOTHING = re.compile(rb"(?:\xef\xbb\xbf)?(?:\s*null)*")
"""Rows of JSON that are not there: before all others they end the process in Arrow."""


def sample_types(source: Changes) -> dict[str, str]:
    """Columns and types of a local file of CSV, JSON or Parquet."""
    assert source.path is not None
    readers: dict[str, Callable[[Path, Mapping[str, str]], dict[str, str]]] = {
        "csv": _csv,
        "json": _json,
        "parquet": _parquet,
    }
    path, named = Path(source.path.removeprefix("file://")), f"The sample {plain(source.path, MAX_TEXT)}"
    reader = readers.get(source.format.lower())
    folder = path.is_dir() and reader is not _parquet
    packed = path.suffix.lower() in (".bz2", ".zst", ".snappy")
    if reader is None or folder or packed or "://" in str(path) or source.schema or source.where:
        raise RequestError(
            f"{named} needs Spark: without it only local files of CSV, JSON and Parquet are read, as they are.",
            hint=_SPARK,
        )
    try:
        return reader(path, {name.lower(): value for name, value in source.options.items()})
    except (OSError, pa.ArrowException) as error:
        raise ChangesError(
            f"{named} cannot be read: {plain(' '.join(str(error).split()), MAX_TEXT)}.",
            hint="Is it whole, and of the format that its name says? Another one is given with --format.",
        ) from None


def _csv(path: Path, options: Mapping[str, str]) -> dict[str, str]:
    from pyarrow import csv

    odd = bool(set(options) - _CSV_OPTIONS)
    separator, quote = options.get("sep", options.get("delimiter", ",")), options.get("quote", '"')
    odd = odd or len(separator) != 1 or len(quote) != 1  # Spark takes more
    if odd or options.get("escape", '"') != '"' or options.get("inferschema") != "true":
        raise RequestError(f"The sample {plain(str(path), MAX_TEXT)} needs Spark, because of its options.", hint=_SPARK)
    header = options.get("header") == "true"
    reader = csv.open_csv(
        path,
        csv.ReadOptions(block_size=_MOST_BYTES, autogenerate_column_names=not header),
        csv.ParseOptions(
            delimiter=separator,
            quote_char=quote,
            newlines_in_values="multiline" in options,
        ),
    )
    names = reader.schema.names if header else [f"_c{place}" for place in range(len(reader.schema))]
    return {name: _guessed(one.type) for name, one in zip(names, reader.schema, strict=True)}


def _json(path: Path, options: Mapping[str, str]) -> dict[str, str]:
    from pyarrow import json

    if options:
        raise RequestError(f"The sample {plain(str(path), MAX_TEXT)} needs Spark: it is not a row a line.", hint=_SPARK)
    with pa.input_stream(path) as file:
        text = file.read(_MOST_BYTES)
        whole = text if not file.read(1) else text[: text.rfind(b"\n") + 1]
    found = json.read_json(pa.BufferReader(_NOTHING.sub(b"", whole, count=1))).schema
    return {one.name: "string" if pa.types.is_timestamp(one.type) else _guessed(one.type) for one in found}


def _parquet(path: Path, _: Mapping[str, str]) -> dict[str, str]:
    from pyarrow import parquet

    files = [path] if path.is_file() or not path.exists() else sorted(path.rglob("*.parquet"))
    if not files:
        raise ChangesError(
            f"The sample {plain(str(path), MAX_TEXT)} has no Parquet file.",
            hint="Name a file, or a folder with files whose names end in .parquet.",
        )
    found = parquet.read_schema(files[0])
    for one in found:
        if _is_refused(one.type):
            raise ChangesError(
                f"The sample {plain(str(path), MAX_TEXT)} has the type {one.type} in column '{plain(one.name)}', which "
                "Spark does not read.",
                hint="Write times in microseconds, decimals of at most 38 digits, and floats of 32 or 64 bits.",
            )
    return {one.name: spark_type(one.type) for one in found}


def _is_refused(arrow: pa.DataType) -> bool:
    """Whether Spark refuses a type of Parquet."""
    if pa.types.is_decimal(arrow):
        return arrow.precision > 38
    return arrow in (pa.float16(), pa.time32("ms"), pa.time64("ns")) or (
        pa.types.is_timestamp(arrow) and arrow.unit == "ns"
    )


def _guessed(arrow: pa.DataType) -> str:
    """A type as Spark guesses it in text: what Arrow sees beyond that is text to Spark."""
    if pa.types.is_timestamp(arrow):
        return "timestamp"
    return "string" if pa.types.is_null(arrow) or pa.types.is_time(arrow) else spark_type(arrow)


_SCALARS = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.uint8(): "smallint",
    pa.uint16(): "int",
    pa.uint32(): "bigint",
    pa.uint64(): "decimal(20,0)",
    pa.float16(): "float",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.string_view(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.date32(): "date",
    pa.null(): "int",
}


def spark_type(arrow: Any) -> str:
    """A type of Parquet as Spark names it."""
    kinds = pa.types
    if arrow in _SCALARS:
        return _SCALARS[arrow]
    if kinds.is_decimal(arrow):
        return f"decimal({arrow.precision},{arrow.scale})"
    if kinds.is_timestamp(arrow):
        return "timestamp" if arrow.tz else "timestamp_ntz"
    if kinds.is_time(arrow):
        return "time(6)"
    if kinds.is_dictionary(arrow):
        return spark_type(arrow.value_type)
    if kinds.is_map(arrow):
        return f"map<{spark_type(arrow.key_type)},{spark_type(arrow.item_type)}>"
    if kinds.is_duration(arrow):
        return "bigint"
    if kinds.is_list(arrow) or kinds.is_large_list(arrow) or kinds.is_fixed_size_list(arrow):
        return f"array<{spark_type(arrow.value_type)}>"
    if kinds.is_struct(arrow):
        return f"struct<{','.join(f'{one.name}:{spark_type(one.type)}' for one in arrow)}>"
    return "binary" if kinds.is_fixed_size_binary(arrow) else str(arrow)
