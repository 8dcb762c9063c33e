"""Whether a load fits what the state already holds, and which of its constraints are new, gone or changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dc_engine.constraints.files import load_constraints
from dc_engine.constraints.model import Constraint, ConstraintSet
from dc_engine.constraints.normalise import meaning
from dc_engine.errors import SchemaError, StateError, did_you_mean
from dc_engine.state.files import FileKind
from dc_engine.state.snapshots import Snapshot

VIOLATIONS = "violations"
"""The name of the constraints' totals among a snapshot's facts."""


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
    """Refuse a column whose type is not the one it has in the rows already there."""
    if not snapshot.files_of(FileKind.ROWS):
        return
    now = {name.lower(): (name, spark_type) for name, spark_type in types.items()}
    for name, before in snapshot.schema.items():
        given, spark_type = now.get(name.lower(), (name, before))
        if spark_type != before:
            raise SchemaError(
                f"Column '{given}' has type {spark_type}, and had type {before} in earlier loads.",
                hint=f"Cast it to {before} in the changes (for instance with 'sql'); or, when the table itself has "
                "changed, begin a new state folder with the whole table as its first load.",
            )


def added_constraints(snapshot: Snapshot, constraint_set: ConstraintSet) -> list[Constraint]:
    """The constraints that the rows in the state were never checked against."""
    known = set(_by_meaning(snapshot))
    return [one for one in constraint_set.constraints if meaning(one) not in known] if snapshot.rows else []


def carried_totals(snapshot: Snapshot, constraint_set: ConstraintSet) -> dict[str, int]:
    """How many violations each constraint has so far, even if it was renamed."""
    before = _by_meaning(snapshot)
    totals = {}
    for one in constraint_set.constraints:
        old = before.get(meaning(one))
        totals[one.name] = total_violations(snapshot).get(old.name, 0) if old else 0
    return totals


def total_violations(snapshot: Snapshot) -> dict[str, int]:
    """How many violations each constraint has among all rows, by its name."""
    return dict(snapshot.facts.get(VIOLATIONS, {}))


def changed_rules(snapshot: Snapshot, constraint_set: ConstraintSet) -> list[str]:
    """What differs from the constraints of the load before, in sentences for the verdict."""
    if not snapshot.constraints:
        return []
    before = _by_meaning(snapshot)
    now = {meaning(one): one for one in constraint_set.constraints}
    gone = [one.name for text, one in before.items() if text not in now]
    came = [one.name for text, one in now.items() if text not in before]
    notes = [f"Constraint '{name}' was removed." for name in gone if name not in came]
    for text, one in now.items():
        old = before.get(text)
        if old is None and one.name in gone:
            notes.append(f"Constraint '{one.name}' has a new meaning: its violations so far were recounted.")
        elif old is None:
            notes.append(f"Constraint '{one.name}' was added.")
        if old is None:
            continue
        if old.name != one.name:
            notes.append(f"Constraint '{old.name}' is now called '{one.name}'.")
        if (old.tolerance, old.severity) != (one.tolerance, one.severity):
            notes.append(f"Constraint '{one.name}' has a new tolerance or severity.")
    return notes


def _by_meaning(snapshot: Snapshot) -> dict[str, Constraint]:
    if not snapshot.constraints:
        return {}
    return {meaning(one): one for one in load_constraints(snapshot.constraints).constraints}
