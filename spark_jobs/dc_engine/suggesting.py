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
from dc_engine.table_files import said_in, source_of, table_name
from dc_engine.telling import answer_lines
from dc_engine.wording import MAX_TEXT, plain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAX_TERMS = 4
"""Longer dependencies are no rules that people would write, and take long to find."""
_MOST_ORDERS = 10
_CODES = ("zip", "zipcode", "postcode", "plz", "code", "phone", "fax", "tel", "mobile", "ssn", "ean", "isbn")


def answer_for_people(
    session: SparkSession | Callable[[], SparkSession] | Engine, options: argparse.Namespace
) -> dict[str, Any]:
    """What holds in a table, as text too; with ``suggest`` also the rules, written where they are to go."""
    target = options.suggest
    if target not in (None, "-"):
        _check_target(Path(target), overwrite=options.overwrite)
    most = MOST_RULES if options.rules is None else options.rules
    if most < 0:
        raise RequestError(f"--rules is {most}, and must be 0 or more.")
    source = source_of(options.table, said_in(options))
    asked = Discovery.from_mapping(
        {
            "table": source,
            "classes": ["unique", "fd", "pod", "dc"],
            "space": {"exclude": options.exclude},
            "limits": {"max_terms": MAX_TERMS if options.max_terms is None else options.max_terms},
            "mask": options.mask or (),
        }
    )
    clock = Clock()
    with without_values(asked.mask):
        found = in_table(engine_of(session, asked.engine), asked, clock, codes_without_order)
        answer = found.answer(asked, clock)
        lines = answer_lines(answer)
        if target is None:
            return {**answer, "text": "\n".join(lines)}
        text, rules = suggested(found, source, most)
    if target == "-":
        return {**answer, "suggested": text, "text": text.rstrip("\n")}
    try:
        with Path(target).open("w" if options.overwrite else "x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise RequestError(
            f"The rules cannot be written to {plain(target, MAX_TEXT)}: {error.strerror}.",
            hint="--suggest - prints them.",
        ) from error
    written = (
        f"{counted(rules, 'rule')} written to {plain(target, MAX_TEXT)}: read them, then gate the table with them."
    )
    if not rules:
        written = f"{plain(target, MAX_TEXT)} has no rules: what holds may do so by chance, and is there as comments."
    return {**answer, "suggested": text, "text": "\n".join([*lines, "", written])}


def _check_target(target: Path, *, overwrite: bool) -> None:
    """Refuse a place where rules cannot be written: before they are looked for, which may take long."""
    if target.is_dir():
        raise RequestError(f"{plain(target, MAX_TEXT)} is a folder.", hint="Name a file in it.")
    if target.exists() and not overwrite:
        raise RequestError(f"{plain(target, MAX_TEXT)} is there already.", hint="Add --overwrite to replace it.")
    if not target.parent.is_dir():
        raise RequestError(f"There is no folder {plain(target.parent, MAX_TEXT)} for the rules.", hint="Make it first.")


def suggested(found: InTable, source: Mapping[str, Any], most: int = MOST_RULES) -> tuple[str, int]:
    """The text of a constraint file for the table that a source gives, and how many rules it has."""
    types = found.space.columns
    choice = chosen(
        Found(
            found.columns.rows,
            types,
            set(found.known.nullable),
            dates_of(types),
            found.terms,
            found.scales,
            viewed(found.terms, found.dependencies, found.space, "merged"),
        ),
        most,
    )
    origin = Origin(table_name(source["path"]), dict(source), found.columns.rows, found.space, found.known.because)
    dates = orders(types, found.columns)[:_MOST_ORDERS] if most and found.whole else []
    text = rules_text(origin, choice, dates)
    return text, len(load_text(text, "the suggested rules").constraints)


def codes_without_order(asked: Asked, types: Mapping[str, str]) -> Asked:
    """The same, but whole numbers that are names (a zip, a telephone number) are not compared by order."""
    codes = [
        name for name, spark_type in types.items() if family(spark_type) == Family.INTEGER and ends_in(name, _CODES)
    ]
    return replace(asked, unordered=(*asked.unordered, *codes))
