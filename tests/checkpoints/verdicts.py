"""Verdicts as a gate would store them, without a gate."""

from __future__ import annotations

from typing import Any

from dc_engine.constraints.files import load_constraints
from dc_engine.constraints.printer import formula
from dc_engine.verdict import ConstraintVerdict, Dependencies, Verdict, decide

RULES: list[dict[str, Any]] = [
    {"name": "zip_decides_city", "fd": "zip -> city", "description": "A zip code lies in one city."},
    {"name": "phone_is_unique", "unique": ["area_code", "phone"]},
    {"name": "salary_is_positive", "deny": "t.salary <= 0", "severity": "warn"},
]


def pair(t: dict[str, Any], s: dict[str, Any], *, key: str = "id", alike: int = 1) -> dict[str, Any]:
    """An example of two rows; the first column is the key."""
    sides = {}
    for side, row in (("t", t), ("s", s)):
        values = {name: value for name, value in row.items() if name != key}
        sides[side] = {"row": {key: row.get(key)}, "values": values, "rows": alike}
    return sides


SAMPLES = [pair({"id": 17, "zip": "10115", "city": "Berln"}, {"id": 3, "zip": "10115", "city": "Berlin"}, alike=8)]


def verdict(
    load_id: str = "monday",
    snapshot: int = 1,
    *,
    table: str = "tax",
    rules: list[dict[str, Any]] = RULES,
    broken: dict[str, int] | None = None,
    samples: list[dict[str, Any]] | None = None,
    dependencies: Dependencies | None = None,
    rows: int = 1000,
) -> Verdict:
    """The verdict of a load that brought ``broken[rule]`` new violations of a rule."""
    found = broken or {}
    constraints = []
    for one in load_constraints({"version": 1, "table": table, "constraints": rules}).constraints:
        new = found.get(one.name, 0)
        tolerance: dict[str, Any] = one.tolerance.written
        constraints.append(
            ConstraintVerdict(
                name=one.name,
                kind=one.kind,
                formula=formula(one),
                severity=one.severity,
                passed=one.tolerance.allows(new_violations=new, violating_rows=new, load_rows=rows),
                new_violations=new,
                removed_violations=0,
                total_violations=new,
                violating_rows=new,
                skipped_null_rows=0,
                max_new_violations=tolerance.get("max_new_violations"),
                max_violating_rows=tolerance.get("max_violating_rows"),
                nulls=one.nulls,
                description=one.description,
                samples=(samples or SAMPLES) if new else [],
                worst_rows=[{"row": {"id": 17}, "violations": new}] if new else [],
                violations=f"/state/violations/{snapshot}/{one.name}.parquet" if new else None,
            )
        )
    return Verdict(
        table=table,
        load_id=load_id,
        snapshot=snapshot,
        replayed=False,
        decision=decide(constraints, dependencies or Dependencies()),
        rows={"inserted": rows, "deleted": 0, "total": rows * snapshot},
        constraints=constraints,
        dependencies=dependencies or Dependencies(),
        seconds={"total": 1.0},
    )
