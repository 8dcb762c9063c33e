"""One rule of a constraint file: what an entry says, as constraints; and a constraint as an entry again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast, get_args

from dc_engine.constraints import building, sugar
from dc_engine.constraints.contradiction import check_bodies
from dc_engine.constraints.model import Body, Constraint, Kind, Nulls, Severity, Tolerance
from dc_engine.constraints.normalise import normalise
from dc_engine.constraints.parser import parse_body, parse_formula
from dc_engine.constraints.printer import formula, print_name
from dc_engine.constraints.reserved import is_reserved, owner_of
from dc_engine.constraints.section import Section
from dc_engine.errors import ConstraintError

RULES = ("deny", "unique", "fd", "order", "pod", "formula")
"""The forms of a rule, of which an entry has one."""
READINGS = ("within", "kind", "nulls")
"""What else belongs to the rule itself."""
_OPTIONS = ("name", *READINGS, "severity", "max_new_violations", "max_violating_rows", "description")
_WITHIN_HINTS = {
    "unique": "Add its columns to the list: unique within a group is unique together with the group.",
    "fd": "Put its columns on the left side of the fd.",
    "deny": "Write t.column = s.column for each of its columns.",
    "formula": "Write t.column = s.column for each of its columns.",
}


def expand(section: Section) -> list[Constraint]:
    """One entry; an ``fd`` or ``pod`` with several right columns or an ``order`` of lists is several constraints."""
    section.only(RULES + _OPTIONS)
    rule, parts = read_rule(section)
    severity = cast(Severity, section.choice("severity", get_args(Severity), "error"))
    tolerance = _tolerance(section)
    description = section.text("description").strip() if section.mapping.get("description") else ""
    name = section.name("name")
    constraints = [
        replace(
            one,
            name=section.checked_name(name + suffix, "name"),
            severity=severity,
            tolerance=tolerance,
            description=description,
        )
        for suffix, one in parts
    ]
    check_reserved(section, rule, [column for one in constraints for column in one.columns])
    return constraints


def read_rule(section: Section) -> tuple[str, list[tuple[str, Constraint]]]:
    """The form of an entry's rule, and the rules that it stands for, without a name; each with the name's suffix."""
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
    return rule, [(suffix, Constraint("", kind, bodies, nulls)) for suffix, bodies in parts]


def check_reserved(section: Section, key: str, columns: Iterable[str]) -> None:
    """Refuse columns that are not part of a row: a load that differs only in them would pass for the same load."""
    for column in columns:
        if is_reserved(column):
            raise section.error(
                f"'{key}' names the column {print_name(column)}, which belongs to {owner_of(column)} and not to the "
                "table.",
                key=key,
                hint="Give the column another name in the changes, for instance with 'sql'.",
            )


def _rule(section: Section) -> str:
    rules = [rule for rule in RULES if rule in section.mapping]
    if not rules:
        raise section.error("has no rule.", hint=f"Give it one of {', '.join(RULES)}.")
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
    if rule == "fd":
        by_part = sugar.fd(value)
    else:
        by_part = sugar.order(value, within) if rule == "order" else sugar.pod(value, within)
    if len(by_part) == 1:
        return [("", bodies) for bodies in by_part.values()]
    return [(f".{part}", bodies) for part, bodies in by_part.items()]


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


def to_entry(constraint: Constraint) -> dict[str, Any]:
    """The entry of a constraint, its rule as a formula."""
    entry = {**rule_entry(constraint), **constraint.tolerance.written}
    if constraint.description:
        entry["description"] = constraint.description
    return entry


def rule_entry(rule: Constraint) -> dict[str, Any]:
    """Name, rule and severity: what a pinned rule has too."""
    return {
        "name": rule.name,
        "kind": rule.kind,
        "formula": formula(rule),
        "nulls": rule.nulls,
        "severity": rule.severity,
    }
