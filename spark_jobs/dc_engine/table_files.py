"""Where a table is, as a request has it, from the name of its file: for people at a terminal."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dc_engine.errors import RequestError, did_you_mean
from dc_engine.wording import MAX_TEXT, plain

_CSV = {"header": "true", "inferSchema": "true", "escape": '"'}
"""As everybody writes CSV: a quote inside quotes is two quotes. Spark by itself takes a backslash for that."""
_FORMATS: dict[str, tuple[str, dict[str, str]]] = {
    ".csv": ("csv", _CSV),
    ".tsv": ("csv", {**_CSV, "sep": "\t"}),
    ".json": ("json", {}),
    ".jsonl": ("json", {}),
    ".ndjson": ("json", {}),
    ".orc": ("orc", {}),
    ".parquet": ("parquet", {}),
}
_PACKED = (".gz", ".bz2", ".zst", ".snappy")


@dataclass(frozen=True, slots=True)
class Said:
    """What people say about a file of rows beyond its name."""

    format: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    schema: str | None = None
    where: str | None = None


_NOTHING = Said()


def add_options(parser: Any) -> None:
    """The options by which people say more about a file than its name does."""
    parser.add_argument("--format", help="the format, as Spark calls it, where the suffix does not tell")
    parser.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE", help="an option of Spark's reader, such as sep=;"
    )
    parser.add_argument(
        "--schema", metavar="DDL", help='columns and types, instead of guessing: "id BIGINT, amount DECIMAL(10,2)"'
    )
    parser.add_argument("--where", metavar="SQL", help="only the rows for which this condition of Spark SQL holds")


def discovery_options(parser: Any, source: Any) -> None:
    """The options for those who have a table and no rules; ``source`` is where that of the table goes."""
    source.add_argument("--table", metavar="FILE", help="the table, a file or a folder; the suffix tells the format")
    add_options(parser)
    parser.add_argument("--suggest", metavar="FILE", help="write a constraint file with the best; - prints it")
    parser.add_argument("--overwrite", action="store_true", help="--suggest may replace a file")
    parser.add_argument("--rules", type=int, metavar="N", help="the most rules to suggest (20)")
    parser.add_argument("--max-terms", type=int, metavar="N", help="the most comparisons in a dependency (4)")
    parser.add_argument("--exclude", action="append", default=[], metavar="COLUMN", help="a column to leave out")


def said_in(options: argparse.Namespace) -> Said:
    """What the options say."""
    return Said(options.format, settings("--option", options.option), options.schema, options.where)


def settings(name: str, given: Sequence[str]) -> dict[str, str]:
    """``["a=b"]`` as a mapping; ``name`` is what messages call the option."""
    found = {}
    for one in given:
        key, equals, value = one.partition("=")
        if not key or not equals:
            raise RequestError(f"{name} is given as {plain(one)!r}.", hint=f"Write {name} NAME=VALUE.")
        found[key] = value
    return found


def source_of(table: str, said: Said = _NOTHING) -> dict[str, Any]:
    """Where a table is, as a request has it: its suffix tells the format, unless one is given."""
    reader, options = (said.format, {}) if said.format else _by_suffix(table)
    given = {name.lower() for name in said.options} | ({"inferschema"} if said.schema else set())
    options = {name: value for name, value in options.items() if name.lower() not in given} | dict(said.options)
    more = {"options": options, "schema": said.schema, "where": said.where}
    return {"format": reader, "path": table, **{name: value for name, value in more.items() if value}}


def _by_suffix(table: str) -> tuple[str, dict[str, str]]:
    path = Path(table)
    suffixes = [one.lower() for one in path.suffixes]
    while suffixes and suffixes[-1] in _PACKED:
        suffixes.pop()
    name = suffixes[-1] if suffixes else ""
    if name not in _FORMATS and (path.is_dir() or table.endswith("/")):
        name = ".parquet"
    if name not in _FORMATS:
        known = f"Known are {', '.join(_FORMATS)}, and folders of Parquet. Others need --format."
        raise RequestError(
            f"The name of {plain(table, MAX_TEXT)} does not tell the format of the table.",
            hint=did_you_mean(name, _FORMATS, otherwise=known),
        )
    reader, options = _FORMATS[name]
    if (name == ".json" and _is_one_document(path)) or (reader == "csv" and _has_long_records(path)):
        options = {**options, "multiLine": "true"}
    return reader, dict(options)


def _is_one_document(path: Path) -> bool:
    """Whether a JSON file is a list, not a line for each row."""
    try:
        with path.open("rb") as file:
            return file.read(4096).lstrip().startswith(b"[")
    except OSError:  # somewhere else, or not there: Spark will say
        return False


def _has_long_records(path: Path) -> bool:
    """Whether values of a CSV file may have line breaks, so that Spark must not cut it at them; to be sure, yes."""
    try:
        with path.open("rb") as file:
            return path.suffix.lower() in _PACKED or any(line.count(b'"') % 2 for line in file)
    except OSError:  # somewhere else, or a folder
        return True


def table_name(path: str) -> str:
    """What a table is called, by its file."""
    name = Path(path.rstrip("/")).name.partition(".")[0]
    words = "".join(one if one.isprintable() else " " for one in name).split()  # as a constraint file may have it
    return " ".join(words) or "table"
