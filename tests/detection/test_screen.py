"""The screen clears no row that violates, whatever the types; on plain numbers it clears every row that does not."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.constraints.model import Body, Column, Constraint, ConstraintSet, Op, Predicate
from dc_engine.detection.codes import whole
from dc_engine.detection.encode import with_hash
from dc_engine.detection.order import order_numbers
from dc_engine.detection.plan import Group
from dc_engine.detection.planning import make_plan
from dc_engine.detection.runs import HASH
from dc_engine.detection.screen import Questions, Screen, can_screen
from tests.detection.oracle import compare, predicate_holds
from tests.detection.strategies import KINDS, Kind

PLAIN = [one for one in KINDS if "<" not in one.spark]
ORDERED = [Op.LT, Op.LE, Op.GT, Op.GE]
Rows = list[dict[str, Any]]


@st.composite
def values(draw: st.DrawFn, kind: Kind) -> Any:
    """A value of a kind, now and then one that differs from others only in its last digit or letter."""
    if kind.spark == "string":
        return draw(st.sampled_from([*kind.values, "same start a", "same start b"]))
    if kind.spark in ("bigint", "double"):
        span = st.integers(-(2**63), 2**63 - 1) if kind.spark == "bigint" else st.floats()
        return draw(st.one_of(st.sampled_from(kind.values), span))
    return draw(st.sampled_from(kind.values))


@st.composite
def cases(draw: st.DrawFn) -> tuple[dict[str, Kind], Constraint, Rows, Rows]:
    """A rule with one to three inequalities, most with an equality, and old and new rows."""
    kinds = {name: draw(st.sampled_from(PLAIN)) for name in ("a", "b")}
    kinds |= {"c": kinds["a"], "k": next(one for one in KINDS if one.spark == "int")}
    pairs = st.sampled_from([("a", "a"), ("b", "b"), ("a", "c"), ("c", "a"), ("c", "c")])
    chosen = draw(st.lists(pairs, min_size=1, max_size=3, unique=True))
    body: Body = tuple(
        Predicate(Column("t", left), draw(st.sampled_from(ORDERED)), Column("s", right)) for left, right in chosen
    )
    if draw(st.integers(0, 3)):
        body = (Predicate(Column("t", "k"), Op.EQ, Column("s", "k")), *body)
    row = st.fixed_dictionaries({name: st.none() | values(kind) for name, kind in kinds.items()})
    old, new = (draw(st.lists(row, max_size=size)) for size in (12, 6))
    return kinds, Constraint("rule", "deny", (body,)), old, new


def table_of(kinds: dict[str, Kind], group: Group, rows: Rows) -> pa.Table:
    """Rows with the hashes of their blocks."""
    arrays = {name: pa.array([row[name] for row in rows], kinds[name].arrow) for name in group.columns}
    return with_hash(group.indexes[0], pa.table(arrays))[0]


def seen(kinds: dict[str, Kind], rule: Constraint, old: Rows, new: Rows, *, stored: bool, parts: int) -> np.ndarray:
    """Which new rows may violate as t or as s, as the screen sees it."""
    schema = {name: kind.spark for name, kind in kinds.items()}
    (group,) = make_plan(ConstraintSet("made_up", (), (rule,)), schema).groups
    bodies = [one for body in group.constraints[0].bodies for one in (body, body.swapped)]
    assert can_screen(bodies, group.classes)
    rows, entries = table_of(kinds, group, new), table_of(kinds, group, old)
    order = [whole(entries.column(HASH)).to_numpy()]
    if stored and group.indexes[0].then_by:
        order.insert(
            0, order_numbers(whole(entries.column(group.indexes[0].then_by[0])), group.indexes[0].then_by[1])[0]
        )
    entries = entries.take(pa.array(np.lexsort(order)))
    screen = Screen.of(rows, Questions.of(bodies, group.classes, in_blocks=bool(group.indexes[0].key)))
    for part in np.array_split(np.arange(entries.num_rows), parts):
        screen.look_at(screen.questions.made(entries.take(pa.array(part))))
    return screen.may_violate


def holds(rule: Constraint, t: dict[str, Any], s: dict[str, Any]) -> bool:
    return all(predicate_holds(one, t, s, "ignore") for one in rule.bodies[0])


@given(case=cases(), stored=st.booleans(), parts=st.integers(1, 3))
def test_no_row_that_violates_is_cleared(
    case: tuple[dict[str, Kind], Constraint, Rows, Rows], stored: bool, parts: int
) -> None:
    kinds, rule, old, new = case
    may = seen(kinds, rule, old, new, stored=stored, parts=parts)
    for row, passed in zip(new, may, strict=True):
        if any(holds(rule, row, other) or holds(rule, other, row) for other in old):
            assert passed


@given(data=st.data(), stored=st.booleans())
def test_small_numbers_are_told_apart_exactly(data: st.DataObject, stored: bool) -> None:
    kinds = dict.fromkeys("kab", next(one for one in KINDS if one.spark == "int"))
    ops = [Op.EQ, data.draw(st.sampled_from(ORDERED)), data.draw(st.sampled_from(ORDERED))]
    body = tuple(Predicate(Column("t", name), op, Column("s", name)) for name, op in zip("kab", ops, strict=True))
    row = st.fixed_dictionaries(dict.fromkeys("kab", st.integers(0, 3)))
    old, new = (data.draw(st.lists(row, max_size=size)) for size in (12, 6))
    rule = Constraint("rule", "deny", (body,))
    may = seen(kinds, rule, old, new, stored=stored, parts=1)
    assert may.tolist() == [any(holds(rule, row, one) or holds(rule, one, row) for one in old) for row in new]


@pytest.mark.parametrize("kind", PLAIN, ids=lambda kind: kind.spark)
@given(data=st.data())
def test_numbers_are_in_the_order_of_the_values(kind: Kind, data: st.DataObject) -> None:
    drawn = data.draw(st.lists(values(kind), min_size=2, max_size=8))
    schema = {"a": kind.spark}
    rule = Constraint("rule", "deny", ((Predicate(Column("t", "a"), Op.LT, Column("s", "a")),),))
    (group,) = make_plan(ConstraintSet("made_up", (), (rule,)), schema).groups
    numbers, exact = order_numbers(pa.array([None, *drawn], kind.arrow).slice(1), group.classes[0].family)
    held = pa.array(drawn, kind.arrow).to_pylist()
    for one, own in zip(held, numbers.tolist(), strict=True):
        for other, its in zip(held, numbers.tolist(), strict=True):
            if exact:
                assert (own > its) - (own < its) == compare(one, other)
            elif compare(one, other) < 0:
                assert own <= its


def test_a_rule_with_a_body_without_inequalities_is_not_screened() -> None:
    kind = next(one for one in KINDS if one.spark == "array<int>")
    schema = {"a": "int", "b": kind.spark}
    for op, column in ((Op.NE, "a"), (Op.LT, "b")):
        rule = Constraint("rule", "deny", ((Predicate(Column("t", column), op, Column("s", column)),),))
        (group,) = make_plan(ConstraintSet("made_up", (), (rule,)), schema).groups
        assert not can_screen(group.constraints[0].bodies, group.classes)
    assert not can_screen([], ())


CLOSE = [
    ("string", "same start a", "same start b"),
    ("decimal(38,10)", "1.0000000000", "1.0000000001"),
    ("decimal(38,10)", "1234567890123456789012345678.0000000001", "1234567890123456789012345678.0000000002"),
    ("bigint", 5, 6),
    ("double", 5.0, float(np.nextafter(5.0, 6.0))),
]


@pytest.mark.parametrize(("spark", "less", "more"), CLOSE)
@pytest.mark.parametrize("place", [0, 1], ids=["first", "second"])
def test_values_too_close_for_the_numbers_are_let_through(spark: str, less: Any, more: Any, place: int) -> None:
    """Values of many blocks that lie far apart leave few bits for each; those of texts and decimals are few anyway."""
    kind = next(one for one in KINDS if one.spark == spark)
    if spark.startswith("decimal"):
        less, more = Decimal(less), Decimal(more)
    small = next(one for one in KINDS if one.spark == "int")
    kinds = {"k": small, "a": kind if place == 0 else small, "b": kind if place else small}
    ops = {"k": Op.EQ, "a": Op.GT if place == 0 else Op.GE, "b": Op.GT if place else Op.GE}
    rule = Constraint("r", "deny", (tuple(Predicate(Column("t", n), op, Column("s", n)) for n, op in ops.items()),))
    far = [{"k": k, "a": 0, "b": 0, "ab"[place]: value} for k, value in enumerate(kind.values)]
    old = [{"k": 99, "a": 0, "b": 0, "ab"[place]: less}, *far]
    new = [{"k": 99, "a": 0, "b": 0, "ab"[place]: more}, *far]
    assert seen(kinds, rule, old, new, stored=True, parts=1)[0]
    assert seen(kinds, rule, old[:1], new[:1], stored=True, parts=1)[0]
