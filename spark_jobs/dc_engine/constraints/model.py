"""What a constraint is, once parsed. Facts only: no parsing, no types of columns, no data."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Literal

Row = Literal["t", "s"]
Kind = Literal["deny", "unique", "fd", "order", "pod"]
Nulls = Literal["ignore", "equal"]
Severity = Literal["error", "warn"]
Watch = Literal["pinned", "top", "all", "none"]
ConstantValue = bool | int | Decimal | str | date | datetime


class Op(enum.Enum):
    """A comparison operator."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="

    @property
    def flipped(self) -> Op:
        """The operator that means the same with its sides exchanged."""
        return _FLIPPED[self]

    @property
    def negated(self) -> Op:
        """The operator that holds exactly when this one does not (NULLs apart)."""
        return _NEGATED[self]


_FLIPPED = {Op.EQ: Op.EQ, Op.NE: Op.NE, Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE}
_NEGATED = {Op.EQ: Op.NE, Op.NE: Op.EQ, Op.LT: Op.GE, Op.LE: Op.GT, Op.GT: Op.LE, Op.GE: Op.LT}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of one of the two rows, its name as written (names compare without regard to case)."""

    row: Row
    name: str

    @property
    def key(self) -> tuple[str, str]:
        """What makes two mentions the same column."""
        return (self.row, self.name.lower())


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal; its Python type is its type (a ``datetime`` without zone is a local timestamp of the session)."""

    value: ConstantValue


def microseconds(value: datetime) -> int:
    """Microseconds since 1970: in UTC, or without a zone by the value's own clock.

    Unlike ``astimezone`` this works to the ends of the calendar, where people put "for ever".
    """
    epoch = datetime(1970, 1, 1, tzinfo=UTC if value.tzinfo else None)
    return (value - epoch) // timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Predicate:
    """``left op right``. Normalised: a column on the left, and in ``t op s`` comparisons t on the left."""

    left: Column
    op: Op
    right: Column | Constant


Body = tuple[Predicate, ...]
"""A conjunction. A pair of rows violates it when every predicate holds."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How much a load may bring before its constraint counts as broken. At most one of the two is set."""

    max_new_violations: int | None = 0
    max_violating_rows: int | None = None
    max_violating_share: Decimal | None = None
    """Share of the load's rows, 0 to 1 (written as ``max_violating_rows: "0.1%"``)."""

    @staticmethod
    def of(max_new_violations: int | None, max_violating_rows: int | str | None) -> Tolerance:
        """The tolerance that these two give, one of which is set, as constraint files and verdicts write them."""
        if isinstance(max_violating_rows, str):
            return Tolerance(None, max_violating_share=Decimal(max_violating_rows.rstrip("%")) / 100)
        if max_violating_rows is not None:
            return Tolerance(None, max_violating_rows=max_violating_rows)
        return Tolerance(max_new_violations or 0)

    @property
    def written(self) -> dict[str, int | str]:
        """The one of the two keys that is set, with its value: the inverse of ``of``."""
        if self.max_violating_share is not None:
            return {"max_violating_rows": f"{(self.max_violating_share * 100).normalize():f}%"}
        if self.max_violating_rows is not None:
            return {"max_violating_rows": self.max_violating_rows}
        return {"max_new_violations": self.max_new_violations or 0}

    def allows(self, *, new_violations: int, violating_rows: int, load_rows: int) -> bool:
        """Whether what a load brought is within it."""
        if self.max_violating_rows is not None:
            return violating_rows <= self.max_violating_rows
        if self.max_violating_share is not None:
            return violating_rows <= self.max_violating_share * load_rows
        return new_violations <= (self.max_new_violations or 0)


@dataclass(frozen=True, slots=True)
class Constraint:
    """A rule that people wrote down. Its bodies exclude each other: no pair of rows can satisfy two of them."""

    name: str
    kind: Kind
    bodies: tuple[Body, ...]
    nulls: Nulls = "ignore"
    severity: Severity = "error"
    tolerance: Tolerance = Tolerance()
    description: str = ""
    pinned: bool = False
    """Whether it is no constraint but a dependency that people watch: losing it is reported, violations are not."""

    @property
    def called(self) -> str:
        """How messages name it."""
        return f"{'pinned' if self.pinned else 'constraint'} '{self.name}'"

    @property
    def rows(self) -> int:
        """1 when a single row violates it, 2 when a pair does."""
        return 2 if any(column.row == "s" for column in self.mentions) else 1

    @property
    def mentions(self) -> list[Column]:
        """Every mention of a column, in reading order."""
        sides = (side for body in self.bodies for predicate in body for side in (predicate.left, predicate.right))
        return [side for side in sides if isinstance(side, Column)]

    @property
    def columns(self) -> list[str]:
        """The columns it reads, each once (by its first spelling), in reading order."""
        first: dict[str, str] = {}
        for column in self.mentions:
            first.setdefault(column.name.lower(), column.name)
        return list(first.values())


@dataclass(frozen=True, slots=True)
class Watching:
    """Which dependencies count when they fall, and what that means."""

    watch: Watch = "pinned"
    """Of those found in the data: none beside the pinned ones, the best, or all; ``none``: not even those."""
    top: int | None = None
    """How many of the best, with ``top``."""
    severity: Severity = "warn"
    pinned: tuple[Constraint, ...] = ()

    @property
    def judged(self) -> tuple[Constraint, ...]:
        """The pinned ones that count."""
        return () if self.watch == "none" else self.pinned


@dataclass(frozen=True, slots=True)
class ConstraintSet:
    """One constraint file: the rules of one table."""

    table: str
    key: tuple[str, ...]
    constraints: tuple[Constraint, ...]
    dependencies: Watching = Watching()

    @property
    def rules(self) -> tuple[Constraint, ...]:
        """All rules whose violations are counted: the constraints, then the pinned dependencies."""
        return (*self.constraints, *self.dependencies.judged)
