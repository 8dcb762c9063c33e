"""Whether a load fits what the state already holds, and which of its constraints are new, gone or changed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from dc_engine.constraints.files import load_constraints
from dc_engine.constraints.model import Constraint, ConstraintSet
from dc_engine.constraints.normalise import meaning
from dc_engine.errors import SchemaError, StateError, capital, did_you_mean
from dc_engine.state.files import FileKind
from dc_engine.state.snapshots import Snapshot

VIOLATIONS = "violations"
"""The name of the constraints' totals among a snapshot's facts."""
DEPENDENCIES = "dependencies"
"""The name of what is known of dependencies there."""


def check_table(snapshot: Snapshot, constraint_set: ConstraintSet, *, state: str) -> None:
    """Refuse the state of another table."""
    if snapshot.table.lower() != constraint_set.table.lower():
        raise StateError(
            f"The state {state} is for table '{snapshot.table}', the constraints for table '{constraint_set.table}'.",
            hint="Give each table a state folder of its own.",
        )


def check_mask(mask: Iterable[str], columns: Iterable[str], *, lacking: str) -> None:
    """Refuse to mask a column that is not there, with ``lacking`` as what lacks it: the column meant would be shown."""
    known = {name.lower(): name for name in columns}
    for name in mask:
        if name.lower() not in known:
            raise SchemaError(
                f"'mask' names column {name!r}, which {lacking}.",
                hint=did_you_mean(name, known.values()),
            )


def check_types(snapshot: Snapshot, types: Mapping[str, str]) -> None:
    """Refuse a column whose type is not the one it has in the rows already there, or in what is discovered."""
    now = {name.lower(): (name, spark_type) for name, spark_type in types.items()}
    for name, before in snapshot.schema.items() if snapshot.files_of(FileKind.ROWS) else ():
        given, spark_type = now.get(name.lower(), (name, before))
        if spark_type != before:
            raise SchemaError(
                f"Column '{given}' has type {spark_type}, and had type {before} in earlier loads.",
                hint=f"Where types are guessed (inferSchema), give a 'schema' with '{given} {before}' beside the path; "
                "else cast the column, for instance with 'sql'. If the table itself has changed, begin a new "
                "state folder with the whole table as its first load.",
            )
    for name, before in discovered(snapshot.facts).items():
        given, spark_type = now.get(name.lower(), (name, before))
        if spark_type != before:
            raise SchemaError(
                f"Column '{given}' has type {spark_type}, and had type {before} when the discovery of dependencies was "
                "asked for.",
                hint=f"Give a 'schema' with '{given} {before}' beside the path, or discover again, with the table as "
                "it is now.",
            )


def discovered(facts: Mapping[str, Any]) -> dict[str, str]:
    """The columns of the space in which dependencies are known, with their types; none where nothing was discovered."""
    return dict(facts[DEPENDENCIES]["space"]["columns"]) if DEPENDENCIES in facts else {}


def added_rules(snapshot: Snapshot, constraint_set: ConstraintSet) -> list[Constraint]:
    """The rules that the rows in the state were never checked against."""
    known = set(_by_meaning(rules_of(snapshot).rules))
    return [one for one in constraint_set.rules if meaning(one) not in known] if snapshot.rows else []


def carried_totals(snapshot: Snapshot, constraint_set: ConstraintSet) -> dict[str, int]:
    """How many violations each rule has so far, even if it was renamed, or pinned and is now a constraint."""
    before = _by_meaning(rules_of(snapshot).rules)
    totals = {}
    for one in constraint_set.rules:
        old = before.get(meaning(one))
        totals[one.name] = total_violations(snapshot).get(old.name, 0) if old else 0
    return totals


def total_violations(snapshot: Snapshot) -> dict[str, int]:
    """How many violations each rule (constraint or pinned dependency) has among all rows, by its name."""
    return dict(snapshot.facts.get(VIOLATIONS, {}))


def changed_rules(snapshot: Snapshot, constraint_set: ConstraintSet) -> list[str]:
    """What differs from the constraints of the load before, in sentences for the verdict."""
    if not snapshot.constraints:
        return []
    then = rules_of(snapshot)
    return [
        *_changes(then.constraints, constraint_set.constraints),
        *_changes(then.dependencies.judged, constraint_set.dependencies.judged),
    ]


def rules_of(snapshot: Snapshot) -> ConstraintSet:
    """The rules by which a snapshot was made; none when nothing was committed yet."""
    return _read(json.dumps(snapshot.constraints)) if snapshot.constraints else ConstraintSet(snapshot.table, (), ())


@lru_cache(maxsize=4)
def _read(document: str) -> ConstraintSet:
    """The rules of a document: a change asks for the same ones several times."""
    return load_constraints(json.loads(document))


def _changes(then: Iterable[Constraint], rules: Iterable[Constraint]) -> list[str]:
    before, now = _by_meaning(then), _by_meaning(rules)
    gone = {one.name: one for text, one in before.items() if text not in now}
    came = {one.name for text, one in now.items() if text not in before}
    notes = [f"{capital(one.called)} was removed." for name, one in gone.items() if name not in came]
    for text, one in now.items():
        old, called = before.get(text), capital(one.called)
        if old is None and one.name in gone:
            notes.append(f"{called} has a new meaning: its violations so far were recounted.")
        elif old is None:
            notes.append(f"{called} was added.")
        if old is None:
            continue
        if old.name != one.name:
            notes.append(f"{capital(old.called)} is now called '{one.name}'.")
        if (old.tolerance, old.severity) != (one.tolerance, one.severity):
            notes.append(f"{called} has a new {'severity' if one.pinned else 'tolerance or severity'}.")
    return notes


def _by_meaning(rules: Iterable[Constraint]) -> dict[str, Constraint]:
    return {meaning(one): one for one in rules}
