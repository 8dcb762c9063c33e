"""What the workers do for the constraints of a table: groups of them, the indexes that they read, orders of values.

A *group* holds the constraints that read the same columns within the same blocks: they share an index, a shuffle and
a read. Groups of dependencies on the same key share an index too, which then has the columns of all of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from dc_engine.constraints.model import ConstantValue
from dc_engine.detection.bodies import BodyPlan
from dc_engine.detection.comparable import family
from dc_engine.errors import SchemaError

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
