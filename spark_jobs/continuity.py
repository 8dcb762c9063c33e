"""Whether a load fits what the state already holds: same table, same types, no constraint that was never indexed."""

from __future__ import annotations

from collections.abc import Mapping

from spark_jobs.constraints.files import load_constraints
from spark_jobs.constraints.model import ConstraintSet
from spark_jobs.constraints.normalise import meaning
from spark_jobs.errors import ConstraintError, SchemaError, StateError
from spark_jobs.state.snapshots import Snapshot


def check_table(snapshot: Snapshot, constraint_set: ConstraintSet, *, state: str) -> None:
    """Refuse the state of another table."""
    if snapshot.table.lower() != constraint_set.table.lower():
        raise StateError(
            f"The state {state} is of table '{snapshot.table}', the constraints are of table '{constraint_set.table}'.",
            hint="Give each table a state folder of its own.",
        )


def check_continuity(
    snapshot: Snapshot, constraint_set: ConstraintSet, types: Mapping[str, str], *, state: str
) -> None:
    """Refuse what the state cannot answer exactly."""
    if not snapshot.rows:
        return
    _check_types(snapshot, types)
    known = {meaning(one) for one in load_constraints(snapshot.constraints).constraints}
    added = [one.name for one in constraint_set.constraints if meaning(one) not in known]
    if added:
        raise ConstraintError(
            f"Constraint {_listed(added)} was added or changed since load '{snapshot.load_id}', and the "
            f"{snapshot.rows:,} rows loaded before are not indexed for it.",
            hint=f"Take it out again, or load the table from its beginning into another state folder than {state}.",
        )
    kept = {name.lower() for name in snapshot.schema}
    new_key = [name for name in constraint_set.key if name.lower() not in kept]
    if new_key:
        raise ConstraintError(
            f"Key column {_listed(new_key)} was added since load '{snapshot.load_id}', and is not known of the rows "
            "loaded before.",
            hint="Keep the old key, or start a new state folder.",
        )


def _check_types(snapshot: Snapshot, types: Mapping[str, str]) -> None:
    now = {name.lower(): (name, spark_type) for name, spark_type in types.items()}
    for name, before in snapshot.schema.items():
        given, spark_type = now.get(name.lower(), (name, before))
        if spark_type != before:
            raise SchemaError(
                f"Column '{given}' has type {spark_type}, and had type {before} in the loads before.",
                hint=f"Cast it to {before} in the changes (for instance with 'sql').",
            )


def carried_totals(snapshot: Snapshot, constraint_set: ConstraintSet) -> dict[str, int]:
    """How many violations each constraint has so far, also when it was renamed."""
    if not snapshot.constraints:
        return {}
    before = {meaning(one): one.name for one in load_constraints(snapshot.constraints).constraints}
    names = {one.name: before.get(meaning(one), "") for one in constraint_set.constraints}
    return {name: snapshot.totals.get(old, 0) for name, old in names.items()}


def changed_rules(snapshot: Snapshot, constraint_set: ConstraintSet) -> list[str]:
    """What is different from the constraints of the load before, in sentences for the verdict."""
    if not snapshot.constraints:
        return []
    before = {meaning(one): one for one in load_constraints(snapshot.constraints).constraints}
    now = {meaning(one): one for one in constraint_set.constraints}
    notes = [f"Constraint '{one.name}' was removed." for text, one in before.items() if text not in now]
    for text, one in now.items():
        old = before.get(text)
        if old is None:
            continue
        if old.name != one.name:
            notes.append(f"Constraint '{old.name}' is now called '{one.name}'.")
        if (old.tolerance, old.severity) != (one.tolerance, one.severity):
            notes.append(f"Constraint '{one.name}' has another tolerance or severity than before.")
    return notes


def _listed(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
