"""What bodies mean, in the plainest Python: the yardstick of these tests."""

from __future__ import annotations

import operator
from itertools import combinations
from typing import Any

from dc_engine.constraints.model import Body, Column, Constant, Constraint, Op, Predicate

Row = dict[str, Any]
_COMPARE = {
    Op.EQ: operator.eq,
    Op.NE: operator.ne,
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}


def compare(left: Any, op: Op, right: Any, nulls: str = "ignore") -> bool:
    if left is None or right is None:
        if nulls == "ignore" or op not in (Op.EQ, Op.NE):
            return False
        return (left is right) == (op is Op.EQ)
    return bool(_COMPARE[op](left, right))


def holds(body: Body, t: Row, s: Row, nulls: str = "ignore") -> bool:
    def value(term: Column | Constant) -> Any:
        if isinstance(term, Constant):
            return term.value
        return (t if term.row == "t" else s)[term.name.casefold()]

    def true(predicate: Predicate) -> bool:
        return compare(value(predicate.left), predicate.op, value(predicate.right), nulls)

    return all(map(true, body))


def violates(bodies: tuple[Body, ...], t: Row, s: Row, nulls: str = "ignore") -> bool:
    """Whether the unordered pair violates a constraint of these bodies."""
    return any(holds(body, t, s, nulls) or holds(body, s, t, nulls) for body in bodies)


def violating_pairs(constraint: Constraint, rows: list[Row]) -> list[tuple[int, int]]:
    pairs = combinations(range(len(rows)), 2)
    return [(i, j) for i, j in pairs if violates(constraint.bodies, rows[i], rows[j], constraint.nulls)]
