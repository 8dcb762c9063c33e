"""From constraints and column types to what the workers do: comparisons, blocks, indexes, groups of constraints.

A *group* holds the constraints that read the same columns within the same blocks: they share an index, a shuffle and
a read. Groups of dependencies on the same key share an index too, which then has the columns of all of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from dc_engine.constraints.model import Constant, ConstantValue, Constraint, ConstraintSet, Op
from dc_engine.detection.bodies import BodyPlan, plan_body
from dc_engine.detection.comparable import Family, check_constant, common_family, family
from dc_engine.detection.order import order_within
from dc_engine.errors import SchemaError, capital

Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConstraintPlan:
    """One constraint or pinned dependency, by its number among the rules of the constraint set."""

    number: int
    name: str
    rows: int
    bodies: tuple[BodyPlan, ...]
    pinned: bool = False
    """Whether its violations are only counted: of a pinned dependency one example is enough."""

    @property
    def is_dependency(self) -> bool:
        """Whether a block has one projection where it holds: more such columns make entries wider, and hardly more."""
        return len(self.bodies) == 1 and self.bodies[0].is_dependency

    def null_exclusions(self) -> list[set[str]]:
        """A row takes part in no violation when each of these sets has a column in which it is NULL."""
        rows = ("t", "s") if self.rows == 2 else ("t",)
        return [body.needs_value(row) for body in self.bodies for row in rows]


ROW_HASH = "_dc_row_hash"
"""A hash of the whole row, also of columns that are not kept: how rows without a key are recognised."""


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """The stored projections on some columns, ordered by a hash of the key columns.

    Without a key they are in the order of a column that rules compare by order, or if there is none of a hash of all.
    """

    key: tuple[str, ...]
    families: tuple[str, ...]
    """In which family each hashed column is hashed."""
    columns: tuple[str, ...]
    id: str
    then_by: tuple[str, str] | None = field(default=None, compare=False)
    """A column that rules compare by order, and its family. With a key it orders the entries of one hash."""

    @staticmethod
    def on(key: Names, families: Names, columns: Names, then_by: tuple[str, str] | None = None) -> IndexPlan:
        """The index on these columns; its id is the same whichever constraints use it."""
        by = () if key or then_by is None else (then_by[0],)
        text = repr((key, tuple(map(str, families)), columns, *by))
        return IndexPlan(key, families, columns, hashlib.sha256(text.encode()).hexdigest()[:16], then_by)

    @property
    def ordered(self) -> bool:
        """Whether entries lie in the order of a column, and not of a hash."""
        return not self.key and self.then_by is not None

    @property
    def hashed(self) -> tuple[str, ...]:
        """The columns whose hash decides where an entry lies: equal projections always lie together."""
        return self.key or self.columns


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
    identity: bool = False
    """Whether its index is how rows are recognised, by key or by hash; such a group has no constraints."""

    @property
    def two_sided(self) -> bool:
        """Whether t and s are looked up in different indexes."""
        return self.t_index != self.s_index

    @property
    def reads(self) -> bool:
        """Whether a load looks something up in its indexes, or only keeps them for others."""
        return bool(self.constraints) or self.identity

    @property
    def indexes(self) -> tuple[IndexPlan, ...]:
        """Its indexes."""
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

    @property
    def schema(self) -> dict[str, str]:
        """The columns that are kept, with their Spark types."""
        return dict(zip(self.columns, self.types, strict=True))

    @property
    def stored(self) -> tuple[str, ...]:
        """The columns of rows in the state: those that are kept, and the hash of the whole row."""
        return (*self.columns, ROW_HASH)

    @property
    def identity(self) -> IndexPlan:
        """The index by which rows are recognised, whether or not it is maintained."""
        return identity_group(self.key, self.schema, 0).indexes[0]

    def families_of(self, index: IndexPlan) -> tuple[str, ...]:
        """In which family each column of an index compares."""
        types = {**self.schema, ROW_HASH: "bigint"}
        return tuple(family(types[name]) or "" for name in index.columns)

    def recognising(self) -> Plan:
        """The same plan with the index by which rows are recognised."""
        if any(group.identity for group in self.groups):
            return self
        return replace(self, groups=(*self.groups, identity_group(self.key, self.schema, len(self.groups))))

    def keeping(self, indexes: Iterable[tuple[Names, Names]]) -> Plan:
        """The same plan with more indexes, each on a key and columns, that no constraint reads."""
        number, wanted = len(self.groups), dict.fromkeys(indexes)
        more = (projections(*one, self.schema, number + place) for place, one in enumerate(wanted))
        return replace(self, groups=(*self.groups, *more))

    def only(self, groups: Iterable[Group]) -> Plan:
        """The same plan for some of its groups."""
        return replace(self, groups=tuple(replace(one, number=number) for number, one in enumerate(groups)))


def make_plan(constraint_set: ConstraintSet, schema: Mapping[str, str], also: Iterable[str] = ()) -> Plan:
    """Plan the detection for columns of these types (``schema`` maps names to Spark types).

    ``also`` are further columns that are kept.

    Rows of a table with a key are always recognised by an index; those of a table without one only by a plan that is
    ``recognising``.
    """
    names = {name.lower(): name for name in schema}
    members: dict[tuple, list[tuple[ConstraintPlan, Constraint]]] = {}
    for number, constraint in enumerate(constraint_set.rules):
        planned = _plan_constraint(number, constraint, names, schema)
        columns = tuple(sorted(names[name.lower()] for name in constraint.columns))
        members.setdefault((planned.rows, columns, _block_key(planned)), []).append((planned, constraint))
    shared: dict[Names, set[str]] = {}
    for (_, columns, (key, _)), pairs in members.items():
        if all(one.is_dependency for one, _ in pairs):
            shared.setdefault(key, set()).update(columns)
    groups: list[Group] = []
    for (rows, columns, (t_key, s_key)), pairs in members.items():
        classes = _order_classes([one for _, one in pairs], [one for one, _ in pairs], columns, schema)
        pairs_of_key = list(zip(t_key, s_key, strict=True)) or [(name, name) for name in columns]
        families = tuple(_pair_family(left, right, schema) for left, right in pairs_of_key)
        constraints = tuple(one for one, _ in pairs)
        bodies = [body for one in constraints for body in one.bodies]
        sides = ((t_key, "t"), (s_key, "s" if t_key != s_key else "t")) if rows == 2 else ()
        orders = [order_within(bodies, side, schema) for _, side in sides]
        stored = tuple(sorted(shared[t_key])) if all(one.is_dependency for one in constraints) else columns
        indexes = [IndexPlan.on(key, families, stored, by) for (key, _), by in zip(sides, orders, strict=True)]
        t_index, s_index = indexes or (None, None)
        groups.append(Group(len(groups), t_index, s_index, columns, constraints, classes))
    whole = {index.id for group in groups for index in group.indexes if index.columns == group.columns}
    for index in {one.id: one for group in groups for one in group.indexes if one.id not in whole}.values():
        groups.append(projections(index.key, index.columns, schema, len(groups)))  # which only writes it
    key = tuple(names[name.lower()] for name in constraint_set.key)
    if key:
        groups.append(identity_group(key, schema, len(groups)))
    read = {column for group in groups if not group.identity for column in group.columns}
    read |= {names[name.lower()] for name in also}
    columns = (*key, *sorted(read - set(key)))
    return Plan(columns, tuple(schema[name] for name in columns), key, tuple(groups))


def identity_group(key: tuple[str, ...], schema: Mapping[str, str], number: int) -> Group:
    """The group whose index recognises rows: by their key, or without one by the hash of the whole row.

    The index has the hash beside the key too: a delete that gives the whole row needs no further lookup.
    """
    known_by = key or (ROW_HASH,)
    columns = (*key, ROW_HASH)
    types = {**schema, ROW_HASH: "bigint"}
    for name in known_by:
        if family(types[name]) is None:
            raise SchemaError(
                f"The key has column '{name}' of type {types[name]}, and values of that type cannot be compared here.",
                hint="Choose other columns for the key, or cast this one in the changes (for instance with 'sql').",
            )
    return replace(projections(known_by, columns, types, number), identity=True)


def projections(key: Names, columns: Names, schema: Mapping[str, str], number: int = 0) -> Group:
    """The group without constraints that has the index on some columns, by a key."""
    families = {name: family(schema[name]) or "" for name in columns}
    index = IndexPlan.on(key, tuple(families[name] for name in key), columns)
    classes = tuple(OrderClass((name,), (), one, False) for name, one in families.items())
    return Group(number, index, index, columns, (), classes)


def _plan_constraint(
    number: int, constraint: Constraint, names: Mapping[str, str], schema: Mapping[str, str]
) -> ConstraintPlan:
    for one in (predicate for body in constraint.bodies for predicate in body):
        value = one.right.value if isinstance(one.right, Constant) else None
        column = names[one.left.name.lower()]
        if isinstance(value, datetime) and value.tzinfo and schema[column] == "timestamp_ntz":
            raise SchemaError(
                f"{capital(constraint.called)} compares column '{column}', a timestamp without zone, with {value}.",
                hint="Leave the zone out.",
            )
    bodies = tuple(plan_body(body, constraint.nulls, names) for body in constraint.bodies)
    return ConstraintPlan(number, constraint.name, constraint.rows, bodies, constraint.pinned)


def _block_key(constraint: ConstraintPlan) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns whose equality every violation needs, as t's and as s's.

    Columns that are equal in both rows serve both roles with one index; equalities across columns are used only
    when there are no such columns.
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
    constraints: list[Constraint], plans: list[ConstraintPlan], columns: tuple[str, ...], schema: Mapping[str, str]
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
            where = capital(constraint.called)
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
        if families == {Family.INTEGER} and not all(isinstance(value, int) and abs(value) < 2**63 for value in values):
            families = {Family.DECIMAL}
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
                f"{where} compares column '{column}' of type {schema[column]}, and values of that type cannot be "
                "compared here.",
                hint="Cast it in the changes (for instance with 'sql'), or leave the column out of the constraint.",
            )
        families.add(of_column)
    return families
