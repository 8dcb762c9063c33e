"""Constraints built from columns, without any text: ``unique``, ``fd``, ``order`` and ``pod`` written out as bodies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dc_engine.constraints.model import Body, Column, Kind, Op, Predicate
from dc_engine.constraints.normalise import normalise
from dc_engine.constraints.printer import print_name
from dc_engine.errors import ConstraintError

Bodies = tuple[Body, ...]
_MAX_COLUMNS = 1_000
_MAX_LISTED = 20
"""Columns on one side of an order: it has a part for each two of them."""


def unique(columns: Sequence[str]) -> Bodies:
    """No two rows agree on all these columns."""
    return (tuple(_between(name, Op.EQ) for name in columns),)


def fd(left: Sequence[str], right: str) -> Bodies:
    """Rows that agree on the left agree on the right."""
    check_distinct(left)
    _check_apart([right], left, "is on both sides: the fd says nothing about it")
    return ((*unique(left)[0], _between(right, Op.NE)),)


def order(x: str, y: str, within: Sequence[str] = ()) -> Bodies:
    """Sorted by x, y is sorted too; no split (x equal, y not) and no swap (x less, y greater)."""
    _check_apart([y], [x], "is on both sides: every column is in its own order")
    _check_apart(within, [x, y], "is in 'within' and in the order")
    same = unique(within)[0]
    split = (*same, _between(x, Op.EQ), _between(y, Op.NE))
    swap = (*same, _between(x, Op.LT), _between(y, Op.GT))
    return split, swap


class Part(NamedTuple):
    """Of an order of lists: a column is constant within a context, or two go up and down together."""

    context: tuple[str, ...]
    columns: tuple[str, ...]

    @property
    def name(self) -> str:
        """What it is called among the parts."""
        return " ~ ".join(self.columns)

    @property
    def body(self) -> Body:
        """What no two rows may do."""
        ops = (Op.NE,) if len(self.columns) == 1 else (Op.LT, Op.GT)
        return (*unique(self.context)[0], *map(_between, self.columns, ops))


def order_parts(left: Sequence[str], right: Sequence[str], within: Sequence[str] = ()) -> list[Part]:
    """What it takes that a table sorted by some columns, one after the other, is sorted by others too.

    The left side decides each column of the right side (no split); and each two columns, one of either side, go
    together where those before them are equal (no swap). What is true of every table is left out.
    """
    for side in (left, right):
        check_distinct(side)
        if len(side) > _MAX_LISTED:
            raise ConstraintError(
                f"an order has {len(side):,} columns on one side; {_MAX_LISTED} are allowed.",
                hint="Name fewer of them.",
            )
    _check_apart(within, [*left, *right], "is in 'within' and in the order")
    whole = _once(within, left)
    parts = [Part(whole, (name,)) for name in right if not _has(whole, name)]
    for place, one in enumerate(left):
        for other_place, other in enumerate(right):
            context = _once(within, left[:place], right[:other_place])
            if one.lower() != other.lower() and not _has(context, one) and not _has(context, other):
                parts.append(Part(context, (one, other)))
    if not parts:
        raise ConstraintError(
            f"a table sorted by {', '.join(map(print_name, left))} is always sorted by"
            f" {', '.join(map(print_name, right))}: the order says nothing.",
            hint="Leave it out.",
        )
    return parts


def pod(left: Sequence[tuple[str, Op]], right: tuple[str, Op], within: Sequence[str] = ()) -> Bodies:
    """When the left side holds between two rows, so does the right."""
    _check_number([name for name, _ in left])
    _check_apart(within, [name for name, _ in (*left, right)], "is in 'within' and in the pod")
    same = unique(within)[0] + tuple(_between(name, op) for name, op in left)
    name, op = right
    return (normalise((*same, _between(name, op.negated))),)


def fits(kind: Kind, bodies: Bodies) -> bool:
    """Whether bodies look like those of this kind (a ``deny`` may look like anything)."""
    if kind == "deny":
        return True
    if not all(is_between(predicate) for body in bodies for predicate in body):
        return False
    ops = [sorted(one.op.value for one in body if one.op is not Op.EQ) for body in bodies]
    if kind == "unique":
        return ops == [[]]
    if kind == "fd":
        return ops == [["!="]]
    if kind == "order":
        return ops in ([["!="], ["<", ">"]], [["!="]], [["<", ">"]])
    if kind == "pod":
        return len(bodies) == 1
    raise AssertionError(f"there is no kind of rule {kind!r}")


def check_distinct(names: Sequence[str]) -> None:
    """Refuse a column named twice, and more columns than a rule can have."""
    _check_number(names)
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise ConstraintError(f"column {print_name(name)} is named twice.", hint="Name it once.")
        seen.add(name.lower())


def _check_number(names: Sequence[str]) -> None:
    if len(names) > _MAX_COLUMNS:
        raise ConstraintError(
            f"{len(names):,} columns are named in one place; {_MAX_COLUMNS:,} are allowed.",
            hint="Write several constraints.",
        )


def _check_apart(names: Sequence[str], others: Sequence[str], problem: str) -> None:
    known = {name.lower() for name in others}
    for name in names:
        if name.lower() in known:
            raise ConstraintError(f"column {print_name(name)} {problem}.", hint="Leave it out on one side.")


def _has(names: Sequence[str], name: str) -> bool:
    return name.lower() in [one.lower() for one in names]


def _once(*some: Sequence[str]) -> tuple[str, ...]:
    """The names of several lists, each once."""
    first: dict[str, str] = {}
    for names in some:
        for name in names:
            first.setdefault(name.lower(), name)
    return tuple(first.values())


def _between(name: str, op: Op) -> Predicate:
    return Predicate(Column("t", name), op, Column("s", name))


def is_between(predicate: Predicate) -> bool:
    """Whether it compares one column of two rows."""
    left, right = predicate.left, predicate.right
    return isinstance(right, Column) and (left.row, right.row) == ("t", "s") and left.key[1] == right.key[1]
