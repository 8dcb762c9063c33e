"""From constraints and column types to a plan: comparisons, blocks, indexes, groups of constraints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from dc_engine.constraints.model import Constant, ConstantValue, Constraint, ConstraintSet, Op
from dc_engine.detection.bodies import plan_body
from dc_engine.detection.comparable import Family, check_constant, common_family, family
from dc_engine.detection.order import order_within
from dc_engine.detection.plan import (
    ConstraintPlan,
    Group,
    IndexPlan,
    Names,
    OrderClass,
    Plan,
    identity_group,
    projections,
)
from dc_engine.errors import SchemaError, capital

Keys = tuple[Names, Names]
"""The columns that are equal in the two rows of every violation, as t's and as s's."""
Alike = tuple[int, Names, Keys]
"""What the constraints of a group have in common: how many rows each is about, the columns that it reads, the keys."""
Members = Mapping[Alike, Sequence[tuple[ConstraintPlan, Constraint]]]


def make_plan(constraint_set: ConstraintSet, schema: Mapping[str, str], also: Iterable[str] = ()) -> Plan:
    """Plan the detection for columns of these types (``schema`` maps names to Spark types).

    ``also`` are further columns that are kept. Rows of a table with a key are always recognised by an index; those of a
    table without one only by a plan that is ``recognising``.
    """
    names = {name.lower(): name for name in schema}
    members = _members(constraint_set, names, schema)
    shared = _shared(members)
    groups = [_group(number, alike, members[alike], shared, schema) for number, alike in enumerate(members)]
    whole = {index.id for group in groups for index in group.indexes if index.columns == group.columns}
    for index in {one.id: one for group in groups for one in group.indexes if one.id not in whole}.values():
        groups.append(projections(index.key, index.columns, schema, len(groups)))  # which only writes it
    key = tuple(names[name.lower()] for name in constraint_set.key)
    read = {column for group in groups for column in group.columns} | {names[name.lower()] for name in also}
    if key:
        groups.append(identity_group(key, schema, len(groups)))
    columns = (*key, *sorted(read - set(key)))
    return Plan(columns, tuple(schema[name] for name in columns), key, tuple(groups))


def _members(constraint_set: ConstraintSet, names: Mapping[str, str], schema: Mapping[str, str]) -> Members:
    """The constraints of each group."""
    members: dict[Alike, list[tuple[ConstraintPlan, Constraint]]] = {}
    for number, constraint in enumerate(constraint_set.rules):
        planned = _plan_constraint(number, constraint, names, schema)
        columns = tuple(sorted(names[name.lower()] for name in constraint.columns))
        members.setdefault((planned.rows, columns, _block_key(planned)), []).append((planned, constraint))
    return members


def _shared(members: Members) -> dict[Names, set[str]]:
    """The columns of the index that all dependencies on a key share."""
    shared: dict[Names, set[str]] = {}
    for (_, columns, (key, _)), pairs in members.items():
        if all(one.is_dependency for one, _ in pairs):
            shared.setdefault(key, set()).update(columns)
    return shared


def _group(
    number: int,
    alike: Alike,
    pairs: Sequence[tuple[ConstraintPlan, Constraint]],
    shared: Mapping[Names, set[str]],
    schema: Mapping[str, str],
) -> Group:
    rows, columns, (t_key, s_key) = alike
    constraints = tuple(one for one, _ in pairs)
    classes = _order_classes([one for _, one in pairs], constraints, columns, schema)
    pairs_of_key = list(zip(t_key, s_key, strict=True)) or [(name, name) for name in columns]
    families = tuple(_pair_family(left, right, schema) for left, right in pairs_of_key)
    bodies = [body for one in constraints for body in one.bodies]
    sides = ((t_key, "t"), (s_key, "s" if t_key != s_key else "t")) if rows == 2 else ()
    orders = [order_within(bodies, side, schema) for _, side in sides]
    stored = tuple(sorted(shared[t_key])) if all(one.is_dependency for one in constraints) else columns
    indexes = [IndexPlan.on(key, families, stored, by) for (key, _), by in zip(sides, orders, strict=True)]
    t_index, s_index = indexes or (None, None)
    return Group(number, t_index, s_index, columns, constraints, classes)


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


def _block_key(constraint: ConstraintPlan) -> Keys:
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
    constraints: Sequence[Constraint], plans: Sequence[ConstraintPlan], columns: Names, schema: Mapping[str, str]
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
        in_order = tuple(sorted(values, key=repr))
        classes.append(OrderClass(members, in_order, _family(members, values, schema), bool(ordered & set(members))))
    return tuple(classes)


def _family(columns: Names, constants: Iterable[ConstantValue], schema: Mapping[str, str]) -> str:
    """The family in which columns compare with each other and with constants, which whole numbers may not hold."""
    families = {family(schema[column]) or "" for column in columns}
    if families == {Family.INTEGER} and not all(isinstance(one, int) and abs(one) < 2**63 for one in constants):
        families = {Family.DECIMAL}
    return common_family(families) or ""


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
