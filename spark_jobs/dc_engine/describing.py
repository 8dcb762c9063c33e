"""What is in a state, for people and for programs."""

from __future__ import annotations

from collections import Counter
from typing import Any

from dc_engine.constraints.naming import id_of
from dc_engine.constraints.printer import formula
from dc_engine.discovery.reading import holding
from dc_engine.errors import counted
from dc_engine.maintained.continuity import DEPENDENCIES, rules_of, total_violations
from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.snapshots import Snapshot
from dc_engine.state.storage import Storage
from dc_engine.telling import BEST, best_lines, number_lines, space_lines

_MOST_LOADS = 10


def describe(storage: Storage, snapshot: Snapshot, numbers: list[int]) -> dict[str, Any]:
    """Loads, constraints, sizes, violations: facts, and the same as text."""
    rules, totals = rules_of(snapshot), total_violations(snapshot)
    loads = snapshot.loads(storage).since()
    files = [*snapshot.files, *(file for load in loads for file in load.files)]
    facts: dict[str, Any] = {
        "state": storage.uri,
        "snapshot": snapshot.number,
        "snapshots": numbers,
        "created_at": snapshot.created_at,
        "last_action": snapshot.action,
        "rows": snapshot.rows,
        "columns": dict(snapshot.schema),
        "constraints": [
            {"name": one.name, "formula": formula(one), "total_violations": totals.get(one.name, 0)}
            for one in rules.constraints
        ],
        "pinned": [
            {"name": one.name, "id": id_of(one), "formula": formula(one), "total_violations": totals.get(one.name, 0)}
            for one in rules.dependencies.judged
        ],
        "dependencies": _dependencies(storage, snapshot),
        "loads": [
            {
                "load_id": one.load_id,
                "number": one.number,
                "inserted": one.inserted,
                "deleted": one.deleted,
                "discarded": one.discarded,
                "settled": one.settled,
                "verdict": storage.locate(one.verdict),
            }
            for one in loads
        ],
        "files": _sizes(files),
    }
    return {**facts, "text": "\n".join(_lines(facts, snapshot.table))}


def _dependencies(storage: Storage, snapshot: Snapshot) -> dict[str, Any] | None:
    """What is known of the dependencies of the rows, with the best of them; nothing if none are kept."""
    facts = snapshot.facts.get(DEPENDENCIES)
    if facts is None:
        return None
    found, because = holding(storage, facts, snapshot.files_of(FileKind.DEPENDENCIES), "merged")
    return {
        "valid": facts["valid"],
        "complete": not because,
        "because": because,
        "mode": facts["mode"],
        "space": facts["space"],
        "shown": len(found),
        "best": [one.to_dict() for one in found[:BEST]],
    }


def _dependency_lines(facts: dict[str, Any] | None) -> list[str]:
    if facts is None:
        return []
    numbers = number_lines(facts["valid"], facts["because"], facts["mode"])
    more = facts["shown"] - len(facts["best"])
    lines = ["", *numbers, *space_lines(facts["space"]), *best_lines(facts["best"])]
    return [*lines, f"... and {more:,} more"] if more > 0 else lines


def _sizes(files: list[DataFile]) -> dict[str, dict[str, int]]:
    counts = Counter(file.kind for file in files)
    sizes: Counter[str] = Counter()
    for file in files:
        sizes[file.kind] += file.size
    return {kind: {"files": counts[kind], "bytes": sizes[kind]} for kind in sorted(counts)}


def _pinned_lines(pinned: list[dict[str, Any]]) -> list[str]:
    if not pinned:
        return []
    lines = (f"{one['total_violations']:>10,}  {one['name']}: {one['formula']}" for one in pinned)
    return ["", "violations  pinned dependency", *lines]


def _lines(facts: dict[str, Any], table: str) -> list[str]:
    shown, loads = facts["loads"][-_MOST_LOADS:], len(facts["loads"])
    lines = [
        f"Table {table}: {counted(facts['rows'], 'row')}, snapshot {facts['snapshot']} of {facts['created_at']} "
        f"({facts['last_action']}), {counted(len(facts['snapshots']), 'snapshot')} kept",
        f"in {facts['state']}",
        "",
        "violations  constraint",
        *(f"{one['total_violations']:>10,}  {one['name']}: {one['formula']}" for one in facts["constraints"]),
        *_pinned_lines(facts["pinned"]),
        *_dependency_lines(facts["dependencies"]),
        "",
        "     files         bytes  kind",
        *(f"{one['files']:>10,}  {one['bytes']:>12,}  {kind}" for kind, one in facts["files"].items()),
        "",
        counted(loads, "load") + (f", the last {len(shown)}:" if len(shown) < loads else ":"),
        "  inserted   deleted  load",
    ]
    for one in shown:
        mark = " (discarded)" if one["discarded"] else " (settled: rebuilt since)" if one["settled"] else ""
        lines.append(f"{one['inserted']:>10,}  {one['deleted']:>8,}  {one['load_id']}{mark}")
    return lines
