"""Dependencies that a load lost, in words: for the log, for XCom, and for the person whom a closed gate wakes.

Like ``report``, of which it is a part: everything that comes from data or rules passes through ``plain``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dc_engine.constraints.model import Op
from dc_engine.constraints.naming import class_of, columns_of
from dc_engine.constraints.parser import parse_formula
from dc_engine.errors import ConstraintError, counted
from dc_engine.verdict import LostDependency, Verdict
from dc_engine.wording import MAX_TEXT, example_lines, plain

MAX_LOST = 10
MAX_UNWATCHED = 20
MAX_INSTEAD = 5


def lost_watched(verdict: Verdict) -> list[LostDependency]:
    """The watched dependencies that the load lost, errors first."""
    return sorted(
        (one for one in verdict.dependencies.invalidated if one.watched), key=lambda one: one.severity != "error"
    )


def lost_of(verdict: Verdict) -> str:
    """``1 of 3 watched dependencies``."""
    lost = len(lost_watched(verdict))
    known = {one.id for one in (*verdict.dependencies.watched, *lost_watched(verdict))}
    return f"{lost:,} of {counted(len(known), 'watched dependency', 'watched dependencies')}"


def dependency_lines(verdict: Verdict) -> list[str]:
    """For the log: which watched dependencies were lost and why, that the others hold, which nobody watches."""
    lost, found = lost_watched(verdict), verdict.dependencies
    lines = []
    if len(lost) == 1:
        lines.append(f"{lost_of(verdict)} was lost: {sentence(lost[0])}")
    elif lost:
        lines += [f"{lost_of(verdict)} were lost:", *(f"  {sentence(one)}" for one in lost[:MAX_LOST])]
        lines += [f"  ... and {len(lost) - MAX_LOST:,} more"] if len(lost) > MAX_LOST else []
    elif found.watched:
        number = len(found.watched)
        lines.append("The watched dependency holds." if number == 1 else f"All {number:,} watched dependencies hold.")
    unwatched = [plain(one.text, MAX_TEXT) for one in found.invalidated if not one.watched]
    if unwatched:
        more = f"; and {len(unwatched) - MAX_UNWATCHED:,} more" if len(unwatched) > MAX_UNWATCHED else ""
        lines.append(f"No longer holds, and nobody watches it: {'; '.join(unwatched[:MAX_UNWATCHED])}{more}")
    return lines


def sentence(lost: LostDependency) -> str:
    """``zip -> state (error), because row {id: 17} and row {id: 4} agree on zip and differ in state (3 violations)``.

    After it comes what holds instead, where that is known.
    """
    number = "" if lost.violations is None else f" ({counted(lost.violations, 'violation')})"
    because = f"because {_because(lost)}{number}"
    instead = [plain(one.get("text"), MAX_TEXT) for one in lost.instead]
    more = f"; and {len(instead) - MAX_INSTEAD:,} more" if len(instead) > MAX_INSTEAD else ""
    holds = f"; now holds: {'; '.join(instead[:MAX_INSTEAD])}{more}" if instead else ""
    return f"{plain(lost.text, MAX_TEXT)} ({lost.severity}), {because}{holds}"


def lost_detail_lines(verdict: Verdict) -> list[str]:
    """For the message of a gate: each lost dependency with the two rows that show it."""
    lines: list[str] = []
    lost = lost_watched(verdict)
    for one in lost[:MAX_LOST]:
        lines += [f"Lost: {sentence(one)}", f"  {plain(one.formula, MAX_TEXT)}"]
        if one.example:
            lines += [f"  {line}" for line in example_lines(one.example, "example")]
        lines.append("")
    if len(lost) > MAX_LOST:
        lines += [f"Also lost: {'; '.join(plain(one.text) for one in lost[MAX_LOST : 4 * MAX_LOST])}", ""]
    return lines


def lost_advice(retract: str) -> str:
    """What to do about a dependency that may have been a coincidence; ``retract`` takes the load out."""
    return (
        "  - The dependency was a coincidence: take it out of 'pinned' in the constraint file (or watch fewer of those "
        "that were found), or give it severity: warn; on_invalidated='warn' does that for all. A later load is not "
        "blamed for it. "
        f"To have this one judged again, take it out of the state with {retract} and run this task again."
    )


def dependency_summary(verdict: Verdict) -> dict[str, Any]:
    """What goes to XCom: how many are watched and hold, and those that were lost; no value of the data."""
    return {
        "watched": len(verdict.dependencies.watched),
        "invalidated": [
            {
                "id": one.id,
                "class": one.kind,
                "text": plain(one.text, MAX_TEXT),
                "severity": one.severity,
                "watched": one.watched,
                "violations": one.violations,
            }
            for one in verdict.dependencies.invalidated
        ],
    }


def _because(lost: LostDependency) -> str:
    """Which two rows show it, and how."""
    if not lost.example:
        return "rows violate it"
    t, s = (_row(lost.example.get(side) or {}) for side in ("t", "s"))
    equal, unequal, verb = _columns(lost)
    how = [f"{verb} {_listed(names)}" for verb, names in (("agree on", equal), (verb, unequal)) if names]
    return f"{t} and {s} {' and '.join(how)}" if how else f"of {t} and {s}"


def _columns(lost: LostDependency) -> tuple[list[str], list[str], str]:
    """The columns in which two rows agree when they violate a ``unique``, ``fd`` or ``od``, those in which they do not,
    and how; of others none.
    """
    try:
        bodies = parse_formula(lost.formula)
    except ConstraintError:  # of a later version
        return [], [], ""
    if class_of(bodies) in ("unique", "fd"):
        return *columns_of(bodies), "differ in"
    if lost.kind != "od":
        return [], [], ""
    same = len({one.op for one in bodies[0] if one.op is not Op.EQ}) == 1
    return *columns_of(bodies), f"come in {'the same' if same else 'opposite'} order by"


def _row(side: Mapping[str, Any]) -> str:
    """A row by its key: ``row {id: 17}``."""
    key = ", ".join(f"{plain(name)}: {plain(value)}" for name, value in (side.get("row") or {}).items())
    return f"row {{{key}}}" if key else "a row"


def _listed(names: Sequence[str]) -> str:
    *most, last = map(plain, names)
    return f"{', '.join(most)} and {last}" if most else last
