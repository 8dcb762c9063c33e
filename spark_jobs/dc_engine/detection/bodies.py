"""A body as the workers evaluate it: what relates the two rows, and what each row must satisfy by itself.

NULLs are outcomes like any other: a comparison says which outcomes it admits (less, equal, greater, both NULL, one
NULL), so that bodies can be exchanged, intersected and checked for symmetry whatever ``nulls`` says.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from dc_engine.constraints.model import Body, Column, Constant, ConstantValue, Nulls, Op


class Outcome(enum.Flag):
    """How two values can compare: t's less than s's, equal, greater, both NULL, one NULL."""

    LESS = enum.auto()
    EQUAL = enum.auto()
    GREATER = enum.auto()
    BOTH_NULL = enum.auto()
    ONE_NULL = enum.auto()

    @property
    def flipped(self) -> Outcome:
        """The same with the sides exchanged."""
        kept = self & ~(Outcome.LESS | Outcome.GREATER)
        if Outcome.LESS in self:
            kept |= Outcome.GREATER
        if Outcome.GREATER in self:
            kept |= Outcome.LESS
        return kept


_ADMITS = {
    Op.EQ: Outcome.EQUAL,
    Op.NE: Outcome.LESS | Outcome.GREATER,
    Op.LT: Outcome.LESS,
    Op.LE: Outcome.LESS | Outcome.EQUAL,
    Op.GT: Outcome.GREATER,
    Op.GE: Outcome.GREATER | Outcome.EQUAL,
}
_ADMITS_NULLS = {Op.EQ: Outcome.BOTH_NULL, Op.NE: Outcome.ONE_NULL}
_OPS = {outcome: op for op, outcome in _ADMITS.items()}
_NULL_OUTCOMES = Outcome.BOTH_NULL | Outcome.ONE_NULL


@dataclass(frozen=True, slots=True)
class Comparison:
    """``t.left`` against ``s.right``: a pair passes when the outcome is one of those admitted."""

    left: str
    right: str
    admits: Outcome

    @property
    def op(self) -> Op:
        """The operator between two values that are not NULL."""
        return _OPS[self.admits & ~_NULL_OUTCOMES]

    @property
    def takes_nulls(self) -> bool:
        """Whether a NULL on either side can pass."""
        return bool(self.admits & _NULL_OUTCOMES)

    @property
    def flipped(self) -> Comparison:
        """The same with t and s exchanged."""
        return Comparison(self.right, self.left, self.admits.flipped)


@dataclass(frozen=True, slots=True)
class RowFilter:
    """A predicate over one row: ``column op other column`` or ``column op constant``."""

    column: str
    op: Op
    other: str | None
    constant: ConstantValue | None
    takes_nulls: bool

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads."""
        return (self.column,) if self.other is None else (self.column, self.other)


@dataclass(frozen=True, slots=True)
class BodyPlan:
    """One body, split into what relates the two rows and what each row must satisfy by itself."""

    comparisons: frozenset[Comparison]
    t_filters: frozenset[RowFilter]
    s_filters: frozenset[RowFilter]

    @property
    def swapped(self) -> BodyPlan:
        """The same body with t and s exchanged."""
        return BodyPlan(frozenset(one.flipped for one in self.comparisons), self.s_filters, self.t_filters)

    @property
    def symmetric(self) -> bool:
        """Whether it holds for (t, s) exactly when it holds for (s, t)."""
        return self == self.swapped

    @property
    def both_ways(self) -> BodyPlan | None:
        """The body that holds when this one holds for (t, s) and for (s, t); ``None`` when that cannot be."""
        admits: dict[tuple[str, str], Outcome] = {}
        for one in [*self.comparisons, *self.swapped.comparisons]:
            pair = (one.left, one.right)
            admits[pair] = admits.get(pair, one.admits) & one.admits
        if not all(admits.values()):
            return None
        filters = self.t_filters | self.s_filters
        return BodyPlan(
            frozenset(Comparison(left, right, outcome) for (left, right), outcome in admits.items()),
            filters,
            filters,
        )

    @property
    def is_dependency(self) -> bool:
        """Whether it only asks if rows that agree on some columns differ in another, or if there are two at all."""
        ops = [one.op for one in self.comparisons if one.left == one.right]
        plain = len(ops) == len(self.comparisons) and not self.t_filters | self.s_filters
        return plain and set(ops) <= {Op.EQ, Op.NE} and Op.EQ in ops and ops.count(Op.NE) <= 1

    @property
    def inequalities(self) -> list[Comparison]:
        """The comparisons by order, always in the same sequence: entries of an index are stored by the first one."""
        return sorted((one for one in self.comparisons if one.op not in (Op.EQ, Op.NE)), key=repr)

    def needs_value(self, row: str) -> set[str]:
        """The columns in which a NULL keeps a row from being ``t`` (or ``s``) of this body."""
        filters = self.t_filters if row == "t" else self.s_filters
        needed = {column for one in filters if not one.takes_nulls for column in one.columns}
        return needed | {one.left if row == "t" else one.right for one in self.comparisons if not one.takes_nulls}


def plan_body(body: Body, nulls: Nulls, names: Mapping[str, str]) -> BodyPlan:
    """Plan a body; ``names`` gives columns their names in the state."""
    admits: dict[tuple[str, str], Outcome] = {}
    filters: dict[str, set[RowFilter]] = {"t": set(), "s": set()}
    for predicate in body:
        left, op, right = predicate.left, predicate.op, predicate.right
        takes_nulls = nulls == "equal" and op in _ADMITS_NULLS
        if isinstance(right, Column) and right.row != left.row:
            if left.row == "s":
                left, op, right = right, op.flipped, left
            pair = (names[left.name.lower()], names[right.name.lower()])
            outcome = _ADMITS[op] | (_ADMITS_NULLS[op] if takes_nulls else Outcome(0))
            admits[pair] = admits.get(pair, outcome) & outcome
            continue
        column = names[left.name.lower()]
        other = names[right.name.lower()] if isinstance(right, Column) else None
        constant = right.value if isinstance(right, Constant) else None
        filters[left.row].add(RowFilter(column, op, other, constant, takes_nulls))
    return BodyPlan(
        frozenset(Comparison(left, right, outcome) for (left, right), outcome in admits.items()),
        frozenset(filters["t"]),
        frozenset(filters["s"]),
    )
