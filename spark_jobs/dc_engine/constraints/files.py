"""Constraint files: what a file (or its mapping) says, as constraints; and constraints as a mapping again."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, cast, get_args

from dc_engine.constraints import building, sugar
from dc_engine.constraints.contradiction import check_bodies
from dc_engine.constraints.model import (
    Body,
    Constraint,
    ConstraintSet,
    Kind,
    Nulls,
    Severity,
    Tolerance,
)
from dc_engine.constraints.normalise import normalise
from dc_engine.constraints.parser import parse_body, parse_formula
from dc_engine.constraints.printer import formula, print_name, quote_name
from dc_engine.constraints.reading import read
from dc_engine.constraints.section import Section, describe, shown
from dc_engine.errors import ConstraintError, SchemaError, did_you_mean

VERSION = 1
_FILE_KEYS = ("version", "table", "key", "constraints")
_RULES = ("deny", "unique", "fd", "order", "pod", "formula")
_OPTIONS = (
    "name",
    "within",
    "kind",
    "nulls",
    "severity",
    "max_new_violations",
    "max_violating_rows",
    "description",
)
_FEED_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")
_WITHIN_HINTS = {
    "unique": "Add its columns to the list: unique within a group is unique together with the group.",
    "fd": "Put its columns on the left side of the fd.",
    "deny": "Write t.column = s.column for each of its columns.",
    "formula": "Write t.column = s.column for each of its columns.",
}


def load_constraints(source: str | os.PathLike[str] | Mapping[str, Any]) -> ConstraintSet:
    """The constraints of a file (path or fsspec URI) or of its mapping; a mistake is a ConstraintError."""
    name, document = read(source)
    section = Section(name, document)
    section.only(_FILE_KEYS)
    _check_version(section)
    if "table" not in document:
        raise section.error("'table' is missing.", hint="Name the table that these constraints are about.")
    table = section.name("table")
    key = tuple(section.columns("key")) if "key" in document else ()
    _check_reserved(section, "key", key)
    return ConstraintSet(table=table, key=key, constraints=tuple(_constraints(section)))


def to_mapping(constraint_set: ConstraintSet) -> dict[str, Any]:
    """The same constraints as a mapping that JSON can hold, every rule as its formula."""
    document: dict[str, Any] = {"version": VERSION, "table": constraint_set.table}
    if constraint_set.key:
        document["key"] = [quote_name(name) if name[0] == name[-1] == "`" else name for name in constraint_set.key]
    document["constraints"] = [_constraint_mapping(one) for one in constraint_set.constraints]
    return document


def check_columns(constraint_set: ConstraintSet, available: Iterable[str], *, source: str) -> None:
    """Refuse columns that the source does not have, or has twice, ignoring case."""
    spellings: dict[str, list[str]] = {}
    for name in available:
        spellings.setdefault(name.lower(), []).append(name)
    known = [name for names in spellings.values() for name in names]
    users = [("the key", list(constraint_set.key))]
    users += [(f"constraint '{one.name}'", one.columns) for one in constraint_set.constraints]
    for user, columns in users:
        for column in columns:
            found = spellings.get(column.lower(), [])
            if not found:
                message = f"Column {print_name(column)}, which {user} needs, is not in {source}."
                raise SchemaError(message, hint=did_you_mean(column, known))
            if len(found) > 1:
                message = f"Column {print_name(column)}, which {user} needs, is ambiguous in {source}: it has "
                raise SchemaError(f"{message}{' and '.join(found)}.", hint="Rename one: case does not matter.")


def _check_version(section: Section) -> None:
    if "version" not in section.mapping:
        raise section.error("'version' is missing.", hint=f"Add the line 'version: {VERSION}'.")
    version = section.mapping["version"]
    if version != VERSION or isinstance(version, bool):
        hint = f"Write 'version: {VERSION}'; a later version needs a later release."
        raise section.error(f"version {shown(version)} is not supported.", key="version", hint=hint)


def _constraints(section: Section) -> list[Constraint]:
    entries = section.mapping.get("constraints")
    if entries is None or entries == []:
        raise section.error(
            "there are no constraints.", key="constraints", hint="List at least one under 'constraints'."
        )
    if not isinstance(entries, list | tuple):
        raise section.wrong_type("constraints", "a list", entries, hint="Start each constraint with '- name:'.")
    constraints: list[Constraint] = []
    first: dict[str, Constraint] = {}
    for number, entry in enumerate(entries, 1):
        entry_section = _entry_section(section, entry, number)
        for constraint in _expand(entry_section):
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


def _expand(section: Section) -> list[Constraint]:
    """One entry of the file; an ``fd`` or ``pod`` with several right columns is several constraints."""
    section.only(_RULES + _OPTIONS)
    rule = _rule(section)
    within = _within(section, rule)
    value = section.columns(rule) if rule == "unique" else section.text(rule)
    try:
        parts = _bodies_by_suffix(rule, value, within)
        for _, bodies in parts:
            check_bodies(bodies)
    except ConstraintError as error:
        raise section.error(f"'{rule}': {error.message}", key=rule, hint=error.hint) from None
    kind = _kind(section, rule, parts[0][1])
    nulls = cast(Nulls, section.choice("nulls", get_args(Nulls), "ignore"))
    severity = cast(Severity, section.choice("severity", get_args(Severity), "error"))
    tolerance = _tolerance(section)
    description = section.text("description").strip() if section.mapping.get("description") else ""
    name = section.name("name")
    constraints = [
        Constraint(
            name=section.checked_name(name + suffix, "name"),
            kind=kind,
            bodies=bodies,
            nulls=nulls,
            severity=severity,
            tolerance=tolerance,
            description=description,
        )
        for suffix, bodies in parts
    ]
    _check_reserved(section, rule, [column for one in constraints for column in one.columns])
    return constraints


def _check_reserved(section: Section, key: str, columns: Iterable[str]) -> None:
    """Refuse columns that are not part of a row: a load that differs only in them would pass for the same load."""
    for column in columns:
        lower = column.lower()
        if lower in _FEED_COLUMNS or lower.startswith("_dc_"):
            owner = "the change data feed" if lower in _FEED_COLUMNS else "the gate"
            raise section.error(
                f"'{key}' names the column {print_name(column)}, which belongs to {owner} and not to the table.",
                key=key,
                hint="Give the column another name in the changes, for instance with 'sql'.",
            )


def _rule(section: Section) -> str:
    rules = [rule for rule in _RULES if rule in section.mapping]
    if not rules:
        raise section.error("has no rule.", hint=f"Give it one of {', '.join(_RULES)}.")
    if len(rules) > 1:
        both = " and ".join(f"'{rule}'" for rule in rules)
        raise section.error(f"has {both}.", key=rules[1], hint="Write one constraint for each rule.")
    return rules[0]


def _bodies_by_suffix(rule: str, value: Any, within: list[str]) -> list[tuple[str, tuple[Body, ...]]]:
    """The rule's bodies, for each constraint that it stands for, with the suffix of its name."""
    if rule == "unique":
        return [("", building.unique(value))]
    if rule == "deny":
        return [("", (normalise(parse_body(value)),))]
    if rule == "formula":
        return [("", tuple(map(normalise, parse_formula(value))))]
    if rule == "order":
        return [("", sugar.order(value, within))]
    by_column = sugar.fd(value) if rule == "fd" else sugar.pod(value, within)
    if len(by_column) == 1:
        return [("", bodies) for bodies in by_column.values()]
    return [(f".{column}", bodies) for column, bodies in by_column.items()]


def _within(section: Section, rule: str) -> list[str]:
    if "within" not in section.mapping:
        return []
    if rule in _WITHIN_HINTS:
        message = f"'within' goes with 'order' and 'pod', not with '{rule}'."
        raise section.error(message, key="within", hint=_WITHIN_HINTS[rule])
    return section.columns("within")


def _kind(section: Section, rule: str, bodies: tuple[Body, ...]) -> Kind:
    """The kind of rule; for a formula, ``kind`` says what it was before it was written out."""
    if rule != "formula":
        if "kind" in section.mapping:
            raise section.error("'kind' goes with 'formula' only.", key="kind", hint="Leave it out.")
        return cast(Kind, rule)
    kind = cast(Kind, section.choice("kind", get_args(Kind), "deny"))
    if not building.fits(kind, bodies):
        raise section.error(f"its formula is not that of kind '{kind}'.", key="kind", hint="Leave 'kind' out.")
    return kind


def _tolerance(section: Section) -> Tolerance:
    mapping = section.mapping
    if "max_violating_rows" not in mapping:
        return Tolerance(section.count("max_new_violations")) if "max_new_violations" in mapping else Tolerance()
    if "max_new_violations" in mapping:
        raise section.error(
            "has both 'max_new_violations' and 'max_violating_rows'.",
            key="max_violating_rows",
            hint="Keep the one that decides.",
        )
    value = mapping["max_violating_rows"]
    if isinstance(value, int) and not isinstance(value, bool):
        return Tolerance(None, max_violating_rows=section.count("max_violating_rows"))
    return Tolerance(None, max_violating_share=section.share("max_violating_rows"))


def _constraint_mapping(constraint: Constraint) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": constraint.name,
        "kind": constraint.kind,
        "formula": formula(constraint),
        "nulls": constraint.nulls,
        "severity": constraint.severity,
    }
    entry |= constraint.tolerance.written
    if constraint.description:
        entry["description"] = constraint.description
    return entry
