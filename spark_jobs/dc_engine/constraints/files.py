"""Constraint files: what a file (or its mapping) says, as constraints; and constraints as a mapping again."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from dc_engine.constraints.entries import check_reserved, expand, to_entry
from dc_engine.constraints.model import Constraint, ConstraintSet, Watching
from dc_engine.constraints.printer import print_name, quote_name
from dc_engine.constraints.reading import parse, read
from dc_engine.constraints.section import Section, describe, shown
from dc_engine.constraints.watching import read_watching, to_section
from dc_engine.errors import SchemaError, did_you_mean, escaped

VERSION = 1
_UNNAMED = re.compile(r"_c\d+")
"""What Spark calls a column of CSV without a header."""
_SEPARATOR = re.compile(r"[;\t|]")
_FILE_KEYS = ("version", "table", "key", "constraints", "dependencies")


def load_constraints(source: str | os.PathLike[str] | Mapping[str, Any]) -> ConstraintSet:
    """The constraints of a file (path or fsspec URI) or of its mapping; a mistake is a ConstraintError."""
    return _constraint_set(*read(source))


def load_text(text: str, name: str = "constraints") -> ConstraintSet:
    """The constraints of a file's text; ``name`` is what messages call it."""
    return _constraint_set(name, parse(name, text))


def _constraint_set(name: str, document: Mapping[str, Any]) -> ConstraintSet:
    section = Section(name, document)
    section.only(_FILE_KEYS)
    _check_version(section)
    if "table" not in document:
        raise section.error("'table' is missing.", hint="Name the table that these constraints are about.")
    table = section.name("table")
    key = tuple(section.columns("key")) if "key" in document else ()
    check_reserved(section, "key", key)
    constraints = tuple(_constraints(section))
    watching = read_watching(section, constraints) if "dependencies" in document else Watching()
    return ConstraintSet(table=table, key=key, constraints=constraints, dependencies=watching)


def to_mapping(constraint_set: ConstraintSet) -> dict[str, Any]:
    """The same constraints as a mapping that JSON can hold, every rule as its formula."""
    document: dict[str, Any] = {"version": VERSION, "table": constraint_set.table}
    if constraint_set.key:
        document["key"] = [quote_name(name) if name[0] == name[-1] == "`" else name for name in constraint_set.key]
    document["constraints"] = [to_entry(one) for one in constraint_set.constraints]
    if constraint_set.dependencies != Watching():
        document["dependencies"] = to_section(constraint_set.dependencies)
    return document


def check_columns(
    constraint_set: ConstraintSet,
    available: Iterable[str],
    *,
    source: str,
    others: Mapping[str, Iterable[str]] | None = None,
) -> None:
    """Refuse columns that the source does not have, or has twice, ignoring case.

    ``others`` are columns that something else needs, by what messages call it.
    """
    spellings: dict[str, list[str]] = {}
    for name in available:
        spellings.setdefault(name.lower(), []).append(name)
    known = [name for names in spellings.values() for name in names]
    users = [("the key", list(constraint_set.key))]
    users += [(one.called, one.columns) for one in constraint_set.rules]
    users += [(user, list(columns)) for user, columns in (others or {}).items()]
    for user, columns in users:
        for column in columns:
            found = spellings.get(column.lower(), [])
            if not found:
                message = f"Column {print_name(column)}, which {user} needs, is not in {source}."
                raise SchemaError(message, hint=_misread(known) or did_you_mean(column, known))
            if len(found) > 1:
                message = f"Column {print_name(column)}, which {user} needs, is ambiguous in {source}: it has "
                raise SchemaError(f"{message}{' and '.join(found)}.", hint="Rename one: case does not matter.")


def _misread(columns: list[str]) -> str:
    """What to do when the columns look as those of a CSV file do that is not read as it is written."""
    if columns and all(_UNNAMED.fullmatch(name) for name in columns):
        return (
            f"The columns are called {columns[0]}, ... because a CSV file was read without its header: add the option "
            "header=true; or a schema, if it has none."
        )
    if len(columns) == 1 and (separator := _SEPARATOR.search(columns[0])):
        return f"There is one column, '{escaped(columns[0][:100])}': add the option sep={escaped(separator[0])}."
    return ""


def _check_version(section: Section) -> None:
    if "version" not in section.mapping:
        raise section.error("'version' is missing.", hint=f"Add the line 'version: {VERSION}'.")
    version = section.mapping["version"]
    if version != VERSION or isinstance(version, bool):
        hint = f"Write 'version: {VERSION}'; a later version needs a later release."
        raise section.error(f"version {shown(version)} is not supported.", key="version", hint=hint)


def _constraints(section: Section) -> list[Constraint]:
    entries = section.mapping.get("constraints")
    if entries is None:
        raise section.error(
            "there are no constraints.",
            key="constraints",
            hint="List them under 'constraints'; write 'constraints: []' for a table without any.",
        )
    if not isinstance(entries, list | tuple):
        raise section.wrong_type("constraints", "a list", entries, hint="Start each constraint with '- name:'.")
    constraints: list[Constraint] = []
    first: dict[str, Constraint] = {}
    for number, entry in enumerate(entries, 1):
        entry_section = _entry_section(section, entry, number)
        for constraint in expand(entry_section):
            earlier = first.setdefault(constraint.name.lower(), constraint)
            if earlier is not constraint:
                raise entry_section.error(
                    f"the name '{constraint.name}' is taken by an earlier constraint.",
                    key="name",
                    hint="Names must be unique, ignoring case.",
                )
            constraints.append(constraint)
    return constraints


def _entry_section(section: Section, entry: Any, number: int) -> Section:
    if not isinstance(entry, Mapping):
        hint = "Start each constraint with '- name:' and its rule below."
        raise section.error(
            f"constraint {number} has to be a mapping, not {describe(entry)}.", key="constraints", hint=hint
        )
    numbered = Section(section.source, entry, f"constraint {number}")
    if "name" not in entry:
        raise numbered.error("'name' is missing.", hint="Give every constraint a name of its own.")
    return Section(section.source, entry, f"constraint '{numbered.name('name')}'")
