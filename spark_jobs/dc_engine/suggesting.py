"""For people at a terminal: what holds in a table that nobody has written a rule for, and a file of rules from it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dc_engine.constraints.files import load_text
from dc_engine.detection.comparable import Family, family
from dc_engine.discovery.asking import Discovery
from dc_engine.discovery.choosing import MOST_RULES, Found, chosen, ends_in
from dc_engine.discovery.dates import dates_of, orders
from dc_engine.discovery.listing import viewed
from dc_engine.discovery.space import Asked
from dc_engine.discovery.writing import Origin, rules_text
from dc_engine.engines.base import Engine
from dc_engine.engines.spark import engine_of
from dc_engine.errors import RequestError, counted
from dc_engine.finding import InTable, in_table
from dc_engine.job import Clock
from dc_engine.masking import without_values
from dc_engine.telling import answer_lines, one_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAX_TERMS = 4
"""Longer dependencies are no rules that people would write, and take long to find."""
_MOST_ORDERS = 10
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
_CODES = ("zip", "zipcode", "postcode", "plz", "code", "phone", "fax", "tel", "mobile", "ssn", "ean", "isbn")
_PACKED = (".gz", ".bz2", ".zst", ".snappy")


def options_of_people(parser: argparse.ArgumentParser, source: Any) -> None:
    """The options for those who have a table and no request; ``source`` is the group of which one must be given."""
    source.add_argument(
        "--table", metavar="FILE", help="a table instead of a request: .csv, .json, .parquet, or a folder of Parquet"
    )
    parser.add_argument("--suggest", metavar="FILE", help="write a constraint file with the best; - prints it")
    parser.add_argument("--overwrite", action="store_true", help="--suggest may replace a file")
    parser.add_argument("--rules", type=int, default=MOST_RULES, help=f"the most rules to suggest ({MOST_RULES})")
    parser.add_argument(
        "--max-terms", type=int, default=MAX_TERMS, help=f"the most comparisons in a dependency ({MAX_TERMS})"
    )
    parser.add_argument("--exclude", action="append", default=[], metavar="COLUMN", help="a column to leave out")
    parser.add_argument("--mask", action="append", default=[], metavar="COLUMN", help="no error shows its values")
    parser.add_argument("--json", action="store_true", help="print the whole answer as JSON, not as text")


def source_of(table: str) -> dict[str, Any]:
    """Where a table is, as a request has it: its suffix tells the format."""
    path = Path(table)
    suffixes = [one.lower() for one in path.suffixes]
    while suffixes and suffixes[-1] in _PACKED:
        suffixes.pop()
    name = suffixes[-1] if suffixes else ".parquet" if path.is_dir() or table.endswith("/") else ""
    if name not in _FORMATS:
        known = ", ".join(_FORMATS)
        raise RequestError(
            f"The name of {one_line(table)} does not tell the format of the table.",
            hint=f"Known are {known}, and folders of Parquet; others go in a request (--request).",
        )
    reader, options = _FORMATS[name]
    if (name == ".json" and _is_one_document(path)) or (reader == "csv" and _has_long_records(path)):
        options = {**options, "multiLine": "true"}
    return {"format": reader, "path": table, **({"options": options} if options else {})}


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


def answer_for_people(
    session: SparkSession | Callable[[], SparkSession] | Engine, options: argparse.Namespace
) -> dict[str, Any]:
    """What holds in a table, as text too; with ``suggest`` also the rules, written where they are to go."""
    target = options.suggest
    if target not in (None, "-") and Path(target).exists() and not options.overwrite:
        raise RequestError(f"{one_line(target)} is there already.", hint="Add --overwrite to replace it.")
    if options.rules < 0:
        raise RequestError(f"--rules is {options.rules}, and must be 0 or more.")
    asked = Discovery.from_mapping(
        {
            "table": source_of(options.table),
            "space": {"exclude": options.exclude},
            "limits": {"max_terms": options.max_terms},
            "mask": options.mask,
        }
    )
    clock = Clock()
    with without_values(asked.mask):
        found = in_table(engine_of(session, asked.engine), asked, clock, codes_without_order)
        answer = found.answer(asked, clock)
        lines = answer_lines(answer)
        if target is None:
            return {**answer, "text": "\n".join(lines)}
        text, rules = suggested(found, options.table, options.rules)
    if target == "-":
        return {**answer, "suggested": text, "text": text.rstrip("\n")}
    with Path(target).open("w" if options.overwrite else "x", encoding="utf-8") as file:
        file.write(text)
    written = f"{counted(rules, 'rule')} written to {one_line(target)}: read them, then gate the table with them."
    return {**answer, "suggested": text, "text": "\n".join([*lines, "", written])}


def suggested(found: InTable, name: str, most: int = MOST_RULES) -> tuple[str, int]:
    """The text of a constraint file for a table, and how many rules it has."""
    columns = {column: found.table.column(column) for column in found.space.columns}
    types = found.space.columns
    choice = chosen(
        Found(
            found.table.num_rows,
            types,
            {column for column, values in columns.items() if values.null_count},
            dates_of(types),
            found.terms,
            found.scales,
            viewed(found.dependencies, found.space.classes, "merged"),
        ),
        most,
    )
    origin = Origin(table_name(name), source_of(name), found.table.num_rows, found.space, found.known.because)
    text = rules_text(origin, choice, orders(types, columns)[:_MOST_ORDERS] if most else [])
    return text, len(load_text(text, "the suggested rules").constraints)


def codes_without_order(asked: Asked, types: Mapping[str, str]) -> Asked:
    """The same, but whole numbers that are names (a zip, a telephone number) are not compared by order."""
    codes = [
        name for name, spark_type in types.items() if family(spark_type) == Family.INTEGER and ends_in(name, _CODES)
    ]
    return replace(asked, unordered=(*asked.unordered, *codes))


def table_name(path: str) -> str:
    """What a table is called, by its file."""
    name = Path(path.rstrip("/")).name
    return name.partition(".")[0] or "table"
