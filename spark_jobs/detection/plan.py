"""From constraints and column types to what the workers do: comparisons, blocks, indexes, groups of constraints.

A *comparison* relates a column of t to a column of s and says which outcomes it admits. A *group* holds the
constraints that read the same columns within the same blocks: they share an index, a shuffle and a read.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from spark_jobs.constraints.model import (
    Body,
    Column,
    Constant,
    ConstantValue,
    Constraint,
    ConstraintSet,
    Nulls,
    Op,
)
from spark_jobs.detection.comparable import check_constant, common_family, family
from spark_jobs.errors import SchemaError


class Outcome(enum.Flag):
    """How two values can compare: t's before s's, equal, after, both NULL, one NULL."""

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

    def needs_value(self, row: str) -> set[str]:
        """The columns in which a NULL keeps a row from being ``t`` (or ``s``) of this body."""
        filters = self.t_filters if row == "t" else self.s_filters
        needed = {column for one in filters if not one.takes_nulls for column in one.columns}
        return needed | {one.left if row == "t" else one.right for one in self.comparisons if not one.takes_nulls}


@dataclass(frozen=True, slots=True)
class ConstraintPlan:
    """One constraint, by its number in the constraint set."""

    number: int
    name: str
    rows: int
    bodies: tuple[BodyPlan, ...]

    def null_exclusions(self) -> list[set[str]]:
        """A row takes part in no violation when each of these sets has a column in which it is NULL."""
        rows = ("t", "s") if self.rows == 2 else ("t",)
        return [body.needs_value(row) for body in self.bodies for row in rows]


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """The stored projections on some columns, ordered by a hash of the key columns."""

    key: tuple[str, ...]
    families: tuple[str, ...]
    """In which family each key column is hashed."""
    columns: tuple[str, ...]

    @property
    def id(self) -> str:
        """The same for the same key, families and columns, whichever constraints use the index."""
        text = repr((self.key, self.families, self.columns))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class OrderClass:
    """Columns and constants that are compared with each other, so that they need codes in one order."""

    columns: tuple[str, ...]
    constants: tuple[ConstantValue, ...]
    family: str
    ordered: bool


@dataclass(frozen=True, slots=True)
class Group:
    """Constraints that read the same columns within the same blocks.

    ``t_index`` and ``s_index`` differ only when the blocks come from equalities across columns: then a row lies in
    one block as t and in another as s.
    """

    number: int
    t_index: IndexPlan | None
    s_index: IndexPlan | None
    columns: tuple[str, ...]
    constraints: tuple[ConstraintPlan, ...]
    classes: tuple[OrderClass, ...]

    @property
    def two_sided(self) -> bool:
        """Whether t and s are looked up in different indexes."""
        return self.t_index != self.s_index

    @property
    def indexes(self) -> tuple[IndexPlan, ...]:
        """The indexes it reads."""
        both = (self.t_index, self.s_index) if self.two_sided else (self.t_index,)
        return tuple(index for index in both if index is not None)


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do with a load of one table."""

    columns: tuple[str, ...]
    """The columns that are kept of each row: the key's, then those that constraints read."""
    types: tuple[str, ...]
    """Their Spark types."""
    key: tuple[str, ...]
    groups: tuple[Group, ...]

    @property
    def constraints(self) -> list[ConstraintPlan]:
        """All constraints, in the order of their numbers."""
        return sorted((one for group in self.groups for one in group.constraints), key=lambda one: one.number)

    @property
    def indexes(self) -> dict[str, IndexPlan]:
        """All indexes by id."""
        return {index.id: index for group in self.groups for index in group.indexes}


def make_plan(constraint_set: ConstraintSet, schema: Mapping[str, str], *, timezone: str = "UTC") -> Plan:
    """Plan the detection for columns of these types; ``schema`` maps column names to Spark types, in order."""
    names = {name.lower(): name for name in schema}
    members: dict[tuple, list[tuple[ConstraintPlan, Constraint]]] = {}
    for number, constraint in enumerate(constraint_set.constraints):
        planned = _plan_constraint(number, constraint, names, schema, timezone)
        columns = tuple(sorted(names[name.lower()] for name in constraint.columns))
        members.setdefault((planned.rows, columns, _block_key(planned)), []).append((planned, constraint))
    groups: list[Group] = []
    for (rows, columns, (t_key, s_key)), pairs in members.items():
        classes = _order_classes([one for _, one in pairs], [one for one, _ in pairs], columns, schema)
        families = tuple(_pair_family(left, right, schema) for left, right in zip(t_key, s_key, strict=True))
        t_index, s_index = (IndexPlan(key, families, columns) if rows == 2 else None for key in (t_key, s_key))
        constraints = tuple(one for one, _ in pairs)
        groups.append(Group(len(groups), t_index, s_index, columns, constraints, classes))
    key = tuple(names[name.lower()] for name in constraint_set.key)
    read = sorted({column for group in groups for column in group.columns} - set(key))
    columns = (*key, *read)
    return Plan(columns, tuple(schema[name] for name in columns), key, tuple(groups))


def _plan_constraint(
    number: int, constraint: Constraint, names: Mapping[str, str], schema: Mapping[str, str], timezone: str
) -> ConstraintPlan:
    def localise(column: str, constant: Constant) -> ConstantValue:
        return _localised(constant.value, schema[column], timezone, where=f"Constraint '{constraint.name}'")

    bodies = tuple(_plan_body(body, constraint.nulls, names, localise) for body in constraint.bodies)
    return ConstraintPlan(number, constraint.name, constraint.rows, bodies)


def _plan_body(
    body: Body, nulls: Nulls, names: Mapping[str, str], localise: Callable[[str, Constant], ConstantValue]
) -> BodyPlan:
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
        constant = localise(column, right) if isinstance(right, Constant) else None
        filters[left.row].add(RowFilter(column, op, other, constant, takes_nulls))
    return BodyPlan(
        frozenset(Comparison(left, right, outcome) for (left, right), outcome in admits.items()),
        frozenset(filters["t"]),
        frozenset(filters["s"]),
    )


def _localised(value: ConstantValue, spark_type: str, timezone: str, *, where: str) -> ConstantValue:
    """A timestamp without a zone stands for the session's local time, as in Spark SQL; codes count from UTC."""
    if not isinstance(value, datetime):
        return value
    if spark_type == "timestamp_ntz":
        if value.tzinfo is not None:
            raise SchemaError(f"{where} compares a timestamp without zone with {value}.", hint="Leave the zone out.")
        return value.replace(tzinfo=UTC)
    return (value if value.tzinfo else value.replace(tzinfo=ZoneInfo(timezone))).astimezone(UTC)


def _block_key(constraint: ConstraintPlan) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns whose equality every violation needs, as t's and as s's.

    Columns that are equal in both rows serve both roles with one index; equalities across columns are used only
    when there are none of those.
    """
    per_body = [{(one.left, one.right) for one in body.comparisons if one.op is Op.EQ} for body in constraint.bodies]
    shared = sorted(set.intersection(*per_body)) if per_body else []
    same = tuple(left for left, right in shared if left == right)
    if same or not shared:
        return same, same
    return tuple(left for left, _ in shared), tuple(right for _, right in shared)


def _pair_family(left: str, right: str, schema: Mapping[str, str]) -> str:
    """The family in which an equality hashes its columns: from their types alone, so that it never changes."""
    return common_family({family(schema[left]) or "", family(schema[right]) or ""}) or ""


def _order_classes(
    constraints: list[Constraint],
    plans: list[ConstraintPlan],
    columns: tuple[str, ...],
    schema: Mapping[str, str],
) -> tuple[OrderClass, ...]:
    """Which columns of a group need codes in one order, and in which family they compare."""
    leader = {column: column for column in columns}

    def find(column: str) -> str:
        while leader[column] != column:
            column = leader[column]
        return column

    constants: dict[str, set[ConstantValue]] = {}
    ordered: set[str] = set()
    for constraint, plan in zip(constraints, plans, strict=True):
        for left, op, right in _comparisons(plan):
            where = f"Constraint '{constraint.name}'"
            families = _families(where, [name for name in (left, right) if isinstance(name, str)], schema)
            if isinstance(right, Constant):
                check_constant(right.value, families.pop(), where=where)
                constants.setdefault(left, set()).add(right.value)
            else:
                if common_family(families) is None:
                    raise SchemaError(
                        f"{where} compares column '{left}' of type {schema[left]} with column '{right}' of type "
                        f"{schema[right]}.",
                        hint="Spark would have to cast one of them; cast it in the changes (for instance with 'sql').",
                    )
                leader[find(left)] = find(right)
            if op not in (Op.EQ, Op.NE):
                ordered.add(left)
    classes = []
    for root in sorted({find(column) for column in columns}):
        members = tuple(column for column in columns if find(column) == root)
        values = {value for column in members for value in constants.get(column, ())}
        families = {family(schema[column]) or "" for column in members}
        if families == {"integer"} and any(not isinstance(value, int) for value in values):
            families = {"decimal"}
        classes.append(
            OrderClass(
                members,
                tuple(sorted(values, key=repr)),
                common_family(families) or "",
                bool(ordered & set(members)),
            )
        )
    return tuple(classes)


def _comparisons(plan: ConstraintPlan) -> list[tuple[str, Op, str | Constant]]:
    found: list[tuple[str, Op, str | Constant]] = []
    for body in plan.bodies:
        found += [(one.left, one.op, one.right) for one in sorted(body.comparisons, key=repr)]
        for one in sorted(body.t_filters | body.s_filters, key=repr):
            found.append((one.column, one.op, one.other or Constant(one.constant)))  # type: ignore[arg-type]
    return found


def _families(where: str, columns: list[str], schema: Mapping[str, str]) -> set[str]:
    families = set()
    for column in columns:
        of_column = family(schema[column])
        if of_column is None:
            raise SchemaError(
                f"{where} compares column '{column}' of type {schema[column]}, and values of that type have no order "
                "in Spark SQL.",
                hint="Cast it in the changes (for instance with 'sql'), or leave the column out of the constraint.",
            )
        families.add(of_column)
    return families
