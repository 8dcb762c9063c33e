"""Add dependencies to a constraint file: pinned, or as constraints. All that is in the file stays as it is.

Nothing is dumped: what is added is inserted as text, at the places that PyYAML's marks give, so that comments and
layout stay to the letter. The result is read again, and must mean what was there plus the new rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dc_engine.constraints.entries import read_rule
from dc_engine.constraints.files import load_text
from dc_engine.constraints.insertion import in_lines, insert
from dc_engine.constraints.model import Constraint, ConstraintSet, Severity
from dc_engine.constraints.naming import class_of, columns_of, id_of, pod_sides, pod_text, text_of
from dc_engine.constraints.printer import formula, print_name
from dc_engine.constraints.section import Section
from dc_engine.errors import ConstraintError

Entry = dict[str, Any]
_LISTED = re.compile(r"unique \[(.*)\]", re.DOTALL)
_MAX_STEM = 150


def pin(text: str, dependencies: Iterable[Mapping[str, Any]], severity: Severity | None = None) -> str:
    """The text of a constraint file with dependencies pinned; ``severity`` is theirs, if not the section's.

    A dependency has a ``formula`` (or, for the classes ``unique``, ``fd`` and ``pod``, a ``class`` and a ``text``), and
    may have a ``name`` and ``nulls`` (of class ``od`` by default ``equal``: that comes nearest to NULLs that are
    first). One that the file has already, in whatever words, is refused.
    """
    rules = load_text(text)
    known = {**_by_id(rules.constraints), **_by_id(rules.dependencies.pinned)}
    found = _new(dependencies, known)
    own = {"severity": severity} if severity else {}
    entries = [{**_named(name), **_entry(rule), **own} for name, rule in found]
    edited = insert(text, ("dependencies", "pinned"), entries)
    return _checked(edited, rules, pinned=[rule for _, rule in found])


def promote(text: str, dependencies: Iterable[Mapping[str, Any]], severity: Severity | None = None) -> str:
    """The text of a constraint file with dependencies as constraints; ``severity`` is theirs, by default error.

    See ``pin`` for what a dependency has. One that is pinned may be promoted; whether it stays pinned is up to people.
    """
    rules = load_text(text)
    found = _new(dependencies, _by_id(rules.constraints))
    taken = {one.name.lower() for one in (*rules.constraints, *rules.dependencies.pinned)}
    own = {"severity": severity} if severity else {}
    entries = []
    for name, rule in found:
        called = name or _free(_stem(rule), taken)
        taken.add(called.lower())
        entries.append({"name": called, **_entry(rule), **own})
    return _checked(insert(text, ("constraints",), entries), rules, constraints=[rule for _, rule in found])


def as_constraint(dependency: Mapping[str, Any]) -> str:
    """A dependency as the entry of a constraint file, to be pasted into its list of constraints."""
    rule = _rule(dependency)
    return in_lines([{"name": _free(_stem(rule), ()), **_entry(rule)}])


def _new(dependencies: Iterable[Mapping[str, Any]], known: Mapping[str, Constraint]) -> list[tuple[str, Constraint]]:
    """The given names and rules of dependencies, if the file says none of them yet."""
    seen: dict[str, Constraint] = dict(known)
    found = []
    for one in dependencies:
        rule = _rule(one)
        if twin := seen.get(id_of(rule)):
            where = f"is there already, as {twin.called}" if twin.name else "is given twice"
            raise ConstraintError(f"'{text_of(rule.bodies)}' {where}.", hint="Leave it out.")
        seen[id_of(rule)] = rule
        found.append((one.get("name") or "", rule))
    if not found:
        raise ConstraintError("there is no dependency to add.", hint="Give one at least.")
    return found


def _rule(dependency: Mapping[str, Any]) -> Constraint:
    """The rule of a dependency, without a name."""
    kind, text = dependency.get("class"), dependency.get("text") or ""
    if dependency.get("formula"):
        entry: Entry = {"formula": dependency["formula"]}
    elif kind in ("fd", "pod"):
        entry = {kind: text}
    elif kind == "unique" and (listed := _LISTED.fullmatch(text)):
        entry = {"unique": listed[1]}
    else:
        raise ConstraintError(
            f"the dependency {text or kind!r} has no formula.", hint="Give its 'formula', as a verdict shows it."
        )
    if nulls := dependency.get("nulls") or ("equal" if kind == "od" else ""):
        entry["nulls"] = nulls
    section = Section("dependency", entry, f"'{text}'" if text else "")
    _, parts = read_rule(section)
    if len(parts) != 1:
        raise section.error("it has several columns on the right.", hint="Give one dependency for each.")
    rule = parts[0][1]
    if rule.rows == 1:
        raise section.error("it is not a dependency: it is about one row.", hint="Write it as a constraint.")
    return rule


def _entry(rule: Constraint) -> Entry:
    """The entry of a rule, in the shortest form that says it."""
    nulls: Entry = {"nulls": rule.nulls} if rule.nulls != "ignore" else {}
    kind = class_of(rule.bodies)
    equal, unequal = columns_of(rule.bodies)
    if kind == "unique":
        return {"unique": [_listed(name) for name in equal], **nulls}
    if kind == "fd" and equal:
        return {"fd": f"{', '.join(map(print_name, equal))} -> {print_name(unequal[0])}", **nulls}
    if kind == "pod" and (text := pod_text(rule.bodies[0])):
        return {"pod": text, **nulls}
    return {"formula": formula(rule), **nulls}


def _listed(column: str) -> str:
    """A name in a list of columns, where only one in backticks has to be quoted."""
    return print_name(column) if column.startswith("`") else column


def _named(name: str) -> Entry:
    return {"name": name} if name else {}


def _stem(rule: Constraint) -> str:
    """What a constraint is called that was a dependency: ``zip_decides_city``, ``phone_is_unique``."""
    equal, unequal = columns_of(rule.bodies)
    kind, name = class_of(rule.bodies), ""
    if kind == "unique":
        name = f"{'_'.join(equal)}_is_unique"
    elif kind == "fd" and equal:
        name = f"{'_'.join(equal)}_decides_{unequal[0]}"
    elif kind == "pod":
        left, right = pod_sides(rule.bodies[0])
        name = f"{right[0]}_follows_{'_'.join(column for column, _ in left)}" if left else ""
    readable = re.sub(r"[^\w.-]+", "_", name).strip("_")
    return readable if readable and len(readable) <= _MAX_STEM and readable.isprintable() else id_of(rule)


def _free(stem: str, taken: Iterable[str]) -> str:
    """A name that no other rule has, ignoring case."""
    number, name = 1, stem
    while name.lower() in taken:
        number += 1
        name = f"{stem}_{number}"
    return name


def _by_id(rules: Iterable[Constraint]) -> dict[str, Constraint]:
    return {id_of(one): one for one in rules}


def _checked(
    text: str, before: ConstraintSet, *, constraints: Sequence[Constraint] = (), pinned: Sequence[Constraint] = ()
) -> str:
    """The text, if it means what was there and the new rules."""
    after = load_text(text)
    watching = after.dependencies
    stays = replace(
        after,
        constraints=after.constraints[: len(before.constraints)],
        dependencies=replace(watching, pinned=watching.pinned[: len(before.dependencies.pinned)]),
    )
    added = (
        [id_of(one) for one in after.constraints[len(before.constraints) :]],
        [id_of(one) for one in watching.pinned[len(before.dependencies.pinned) :]],
    )
    if stays != before or added != ([id_of(one) for one in constraints], [id_of(one) for one in pinned]):
        raise ConstraintError(
            "the file is laid out in a way that cannot be added to.", hint="Write the rules into it by hand."
        )
    return text
