"""Random tables, rules and loads, small enough that rows meet."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from dc_engine.constraints.contradiction import contradiction
from dc_engine.constraints.model import Body, Column, Constant, Constraint, ConstraintSet, Op, Predicate
from dc_engine.constraints.normalise import normalise

_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Kind:
    """A column type: its Spark and Arrow names, few values, constants, and what it compares with."""

    spark: str
    arrow: pa.DataType
    values: tuple[Any, ...]
    family: str
    constants: tuple[Any, ...] = ()


KINDS = [
    Kind("int", pa.int32(), (-2, 0, 1, 2, 2**31 - 1), "number", (0, 1, Decimal("0.5"))),
    Kind("bigint", pa.int64(), (-(2**63), -2, 0, 1, 2, 2**63 - 1), "number", (2, -1)),
    Kind("smallint", pa.int16(), (-2, 0, 1, 2), "number", (1,)),
    Kind(
        "decimal(10,2)",
        pa.decimal128(10, 2),
        tuple(map(Decimal, ("-2.00", "0.00", "0.01", "1.00", "2.00"))),
        "number",
        (1,),
    ),
    Kind(
        "decimal(38,10)",
        pa.decimal128(38, 10),
        tuple(
            map(
                Decimal,
                ("0.0000000001", "1.0000000000", "2.0000000000", "1234567890123456789012345678.0000000001"),
            )
        ),
        "number",
        (Decimal("0.0000000001"),),
    ),
    Kind(
        "double",
        pa.float64(),
        (0.0, -0.0, 0.1, 1.0, 2.0, -1e300, float("nan"), float("inf")),
        "float",
        (0, Decimal("0.1")),
    ),
    Kind("float", pa.float32(), (0.0, -0.0, 0.5, 1.0, 2.0, float("nan")), "float", (1,)),
    Kind(
        "string",
        pa.string(),
        ("", "a", "ab", "b", "é", "\U0001f600", "a" * 300, "a" * 300 + "b"),
        "string",
        ("a", ""),
    ),
    Kind("binary", pa.binary(), (b"", b"\x00", b"\x00\x00", b"\xff"), "binary"),
    Kind("boolean", pa.bool_(), (True, False), "boolean", (True,)),
    Kind("date", pa.date32(), tuple(date(2026, 1, day) for day in (1, 2, 3)), "date", (date(2026, 1, 2),)),
    Kind(
        "timestamp",
        pa.timestamp("us", "UTC"),
        tuple(_EPOCH + timedelta(microseconds=step) for step in (0, 1, 10**9)),
        "timestamp",
        (_EPOCH,),
    ),
    Kind(
        "timestamp_ntz",
        pa.timestamp("us"),
        tuple(datetime(2026, 1, 1) + timedelta(microseconds=step) for step in (0, 1, 10**9)),
        "timestamp_ntz",
        (datetime(2026, 1, 1),),
    ),
    Kind("array<int>", pa.list_(pa.int32()), ([], [1], [1, None], [1, 2], [2]), "array"),
]


@dataclass(frozen=True)
class Case:
    """A table's columns, its rules, and the loads that come one after the other."""

    kinds: dict[str, Kind]
    constraints: tuple[Constraint, ...]
    loads: tuple[list[dict[str, Any]], ...]

    @property
    def schema(self) -> dict[str, str]:
        return {name: kind.spark for name, kind in self.kinds.items()}

    @property
    def constraint_set(self) -> ConstraintSet:
        return ConstraintSet("made_up", (), self.constraints)

    def table(self, rows: list[dict[str, Any]]) -> pa.Table:
        return pa.table({name: pa.array([row[name] for row in rows], kind.arrow) for name, kind in self.kinds.items()})


@st.composite
def predicates(draw: st.DrawFn, kinds: dict[str, Kind], rows: int) -> Predicate:
    name = draw(st.sampled_from(sorted(kinds)))
    comparable = [other for other in sorted(kinds) if kinds[other].family == kinds[name].family]
    choices = ["constant"] * bool(kinds[name].constants) + ["same row"] * (len(comparable) > 1)
    choices += ["pair"] * (8 if rows == 2 else 0)
    choice = draw(st.sampled_from(choices or ["same column"]))
    op = draw(st.sampled_from([*Op, Op.EQ, Op.EQ, Op.NE]))
    row = draw(st.sampled_from("ts")) if rows == 2 else "t"
    if choice == "constant":
        return Predicate(Column(row, name), op, Constant(draw(st.sampled_from(kinds[name].constants))))
    if choice == "pair":
        other = name if draw(st.integers(0, 3)) else draw(st.sampled_from(comparable))
        return Predicate(Column("t", name), op, Column("s", other))
    other = draw(st.sampled_from([one for one in comparable if one != name] or [name]))
    return Predicate(Column(row, name), op, Column(row, other))


@st.composite
def constraints(draw: st.DrawFn, kinds: dict[str, Kind], number: int) -> Constraint:
    nulls = draw(st.sampled_from(["ignore", "ignore", "equal"]))
    shape = draw(st.sampled_from(["deny", "deny", "deny", "fd", "unique", "order", "one row"]))
    names = sorted(kinds)
    first, second = draw(st.sampled_from(names)), draw(st.sampled_from(names))
    bodies: tuple[Body, ...]
    if shape == "fd" and first != second:
        bodies = ((_pair(first, Op.EQ), _pair(second, Op.NE)),)
    elif shape == "unique":
        bodies = (tuple(_pair(name, Op.EQ) for name in {first, second}),)
    elif shape == "order" and first != second:
        bodies = ((_pair(first, Op.EQ), _pair(second, Op.NE)), (_pair(first, Op.LT), _pair(second, Op.GT)))
    else:
        rows = 1 if shape == "one row" else 2
        body = st.lists(predicates(kinds, rows), min_size=1, max_size=5).map(tuple)
        bodies = (draw(body.filter(lambda one: contradiction(one) is None)),)
    return Constraint(f"rule_{number}", "deny", tuple(map(normalise, bodies)), nulls=nulls)


def _pair(name: str, op: Op) -> Predicate:
    return Predicate(Column("t", name), op, Column("s", name))


@st.composite
def cases(draw: st.DrawFn, kinds: list[Kind] = KINDS, most_rows: int = 14) -> Case:
    chosen = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3))
    chosen += draw(st.lists(st.sampled_from(chosen), max_size=2))
    named = {f"c{place}": kind for place, kind in enumerate(chosen)}
    rules = tuple(draw(constraints(named, number)) for number in range(draw(st.integers(1, 4))))
    row = st.fixed_dictionaries(
        {
            name: st.one_of(st.sampled_from(kind.values), st.sampled_from([*kind.values, None]))
            for name, kind in named.items()
        }
    )
    loads = draw(st.lists(st.lists(row, max_size=most_rows), min_size=1, max_size=3))
    return Case(named, rules, tuple(loads))
