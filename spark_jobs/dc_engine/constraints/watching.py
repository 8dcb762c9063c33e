"""The section ``dependencies`` of a constraint file: which of them count, and those that people pinned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast, get_args

from dc_engine.constraints.entries import READINGS, RULES, check_reserved, read_rule, rule_entry
from dc_engine.constraints.model import Constraint, Severity, Watch, Watching
from dc_engine.constraints.naming import id_of, text_of
from dc_engine.constraints.section import MAX_NAME, Section, describe, shown
from dc_engine.errors import did_you_mean

_KEYS = ("watch", "severity", "pinned")
_ENTRY_KEYS = (*RULES, *READINGS, "name", "severity")
_TOLERANCES = ("max_new_violations", "max_violating_rows")
_MOST_DIGITS = 9


def read_watching(file: Section, constraints: Sequence[Constraint]) -> Watching:
    """What the section says; the names of constraints are taken."""
    value = file.mapping["dependencies"]
    if not isinstance(value, Mapping):
        hint = "It has the keys watch, severity and pinned."
        raise file.wrong_type("dependencies", "a mapping", value, hint=hint)
    section = Section(file.source, value, "dependencies")
    section.only(_KEYS)
    watch, top = _watch(section)
    severity = cast(Severity, section.choice("severity", get_args(Severity), "warn"))
    return Watching(watch, top, severity, tuple(_pinned(section, severity, constraints)))


def to_section(watching: Watching) -> dict[str, Any]:
    """The section as a mapping that JSON can hold, every rule as its formula."""
    watch = f"top:{watching.top}" if watching.watch == "top" else watching.watch
    section: dict[str, Any] = {"watch": watch, "severity": watching.severity}
    if watching.pinned:
        section["pinned"] = [rule_entry(one) for one in watching.pinned]
    return section


def _watch(section: Section) -> tuple[Watch, int | None]:
    value = section.mapping.get("watch", "pinned")
    words = [word for word in get_args(Watch) if word != "top"]
    if value in words:
        return cast(Watch, value), None
    number = value.removeprefix("top:").strip() if isinstance(value, str) and value.startswith("top:") else ""
    if not (number.isascii() and number.isdigit() and len(number) <= _MOST_DIGITS):
        hint = "Write for instance 'watch: top:20'."
        if isinstance(value, str):
            hint = did_you_mean(value, words, otherwise=hint)
        raise section.error(
            f"'watch' has to be pinned, top:N, all or none, not {shown(value)}.", key="watch", hint=hint
        )
    if int(number) == 0:
        raise section.error(f"'watch: {value}' watches nothing.", key="watch", hint="Write 'watch: pinned' or 'none'.")
    return "top", int(number)


def _pinned(section: Section, severity: Severity, constraints: Sequence[Constraint]) -> list[Constraint]:
    entries = section.mapping.get("pinned", [])
    if not isinstance(entries, list | tuple):
        raise section.wrong_type("pinned", "a list", entries, hint="Start each with its rule: '- fd: zip -> state'.")
    pinned: list[Constraint] = []
    taken = {one.name.lower(): one for one in constraints}
    by_id: dict[str, Constraint] = {}
    for number, entry in enumerate(entries, 1):
        entry_section = _entry_section(section, entry, number)
        for rule in _rules(entry_section, severity):
            if (twin := by_id.setdefault(id_of(rule), rule)) is not rule:
                message = f"'{rule.name}' says the same as {twin.called} before it."
                raise entry_section.error(message, hint="Keep one of them.")
            if (other := taken.setdefault(rule.name.lower(), rule)) is not rule:
                message = f"the name '{rule.name}' is taken by {other.called}."
                hint = "Give it a 'name' of its own; names must be unique, ignoring case."
                raise entry_section.error(message, key="name", hint=hint)
            pinned.append(rule)
    return pinned


def _entry_section(section: Section, entry: Any, number: int) -> Section:
    if not isinstance(entry, Mapping):
        hint = "Start each with its rule: '- fd: zip -> state'."
        raise section.error(f"pinned {number} has to be a mapping, not {describe(entry)}.", key="pinned", hint=hint)
    numbered = Section(section.source, entry, f"pinned {number}")
    if "name" not in entry:
        return numbered
    return Section(section.source, entry, f"pinned '{numbered.name('name')}'")


def _rules(section: Section, severity: Severity) -> list[Constraint]:
    """The rules of one entry, each with its own name."""
    for key in _TOLERANCES:
        if key in section.mapping:
            hint = "It holds or it does not; a rule with a tolerance is a constraint."
            raise section.error(f"'{key}' does not go with a pinned rule.", key=key, hint=hint)
    section.only(_ENTRY_KEYS)
    form, parts = read_rule(section)
    own = cast(Severity, section.choice("severity", get_args(Severity), severity))
    name = section.name("name") if "name" in section.mapping else ""
    rules = []
    for suffix, one in parts:
        called = section.checked_name(name + suffix, "name") if name else _derived_name(one)
        rules.append(replace(one, name=called, severity=own, pinned=True))
    if any(one.rows == 1 for one in rules):
        hint = "Make it a constraint."
        raise section.error("a pinned rule is not a dependency: it is about one row.", key=form, hint=hint)
    check_reserved(section, form, [column for one in rules for column in one.columns])
    return rules


def _derived_name(rule: Constraint) -> str:
    """What a rule is called that was given no name: its text, where that can be shown everywhere."""
    text = text_of(rule.bodies) + (" (nulls: equal)" if rule.nulls == "equal" else "")
    return text if text.isprintable() and len(text) <= MAX_NAME else id_of(rule)
