"""The meaning of a violation in plain Python: every pair of rows, every predicate, one comparison at a time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from dc_engine.constraints.model import Column, Constraint, Op, Predicate

Row = Mapping[str, Any]


def compare(left: Any, right: Any) -> int:
    """-1, 0 or 1, as Spark SQL orders two values that are not NULL."""
    if isinstance(left, float) or isinstance(right, float):
        left, right = float(left), float(right)
        if math.isnan(left) or math.isnan(right):
            return math.isnan(left) - math.isnan(right)
    if isinstance(left, str):
        left, right = left.encode(), right.encode()
    if isinstance(left, list):
        for one, other in zip(left, right, strict=False):
            if one is None or other is None:
                if (one is None) != (other is None):
                    return -1 if one is None else 1
            elif compare(one, other):
                return compare(one, other)
        return (len(left) > len(right)) - (len(left) < len(right))
    return (left > right) - (left < right)


_TESTS = {
    Op.EQ: lambda order: order == 0,
    Op.NE: lambda order: order != 0,
    Op.LT: lambda order: order < 0,
    Op.LE: lambda order: order <= 0,
    Op.GT: lambda order: order > 0,
    Op.GE: lambda order: order >= 0,
}


def predicate_holds(predicate: Predicate, t: Row, s: Row, nulls: str) -> bool:
    rows = {"t": t, "s": s}
    left = rows[predicate.left.row][predicate.left.name]
    other = predicate.right
    right = rows[other.row][other.name] if isinstance(other, Column) else other.value
    if not isinstance(other, Column) and isinstance(right, datetime) and isinstance(left, datetime):
        right = right.replace(tzinfo=right.tzinfo or UTC) if left.tzinfo else right
    if left is None or right is None:
        if nulls == "ignore" or predicate.op not in (Op.EQ, Op.NE):
            return False
        return (left is None and right is None) == (predicate.op is Op.EQ)
    if (isinstance(left, Decimal) and isinstance(right, float)) or (
        isinstance(right, Decimal) and isinstance(left, float)
    ):
        left, right = float(left), float(right)
    return _TESTS[predicate.op](compare(left, right))


def pair_violates(constraint: Constraint, t: Row, s: Row) -> bool:
    return any(
        all(predicate_holds(one, first, second, constraint.nulls) for one in body)
        for body in constraint.bodies
        for first, second in ((t, s), (s, t))
    )


def row_violates(constraint: Constraint, row: Row) -> bool:
    return any(all(predicate_holds(one, row, row, constraint.nulls) for one in body) for body in constraint.bodies)


def violations_by_row(constraint: Constraint, old: Sequence[Row], new: Sequence[Row]) -> tuple[int, dict[int, int]]:
    """How many new violations there are, and how many each new row (by its place) takes part in."""
    by_row: dict[int, int] = {}
    if constraint.rows == 1:
        by_row = {place: 1 for place, row in enumerate(new) if row_violates(constraint, row)}
        return len(by_row), by_row
    total = 0
    for place, row in enumerate(new):
        with_old = sum(pair_violates(constraint, row, other) for other in old)
        later = [other for other in range(place + 1, len(new)) if pair_violates(constraint, row, new[other])]
        total += with_old + len(later)
        if with_old or later:
            by_row[place] = by_row.get(place, 0) + with_old + len(later)
        for other in later:
            by_row[other] = by_row.get(other, 0) + 1
    return total, by_row


def skipped_for_null(constraint: Constraint, row: Row) -> bool:
    """Whether a NULL in this row keeps it out of every role of every body."""
    roles = ("t", "s") if constraint.rows == 2 else ("t",)

    def blocked(body: Sequence[Predicate], role: str) -> bool:
        for one in body:
            if constraint.nulls == "equal" and one.op in (Op.EQ, Op.NE):
                continue
            for side in (one.left, one.right):
                if isinstance(side, Column) and side.row == role and row[side.name] is None:
                    return True
        return False

    return all(blocked(body, role) for body in constraint.bodies for role in roles)
