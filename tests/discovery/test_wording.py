"""A dependency that is suggested as a rule forbids the same pairs of rows, in whatever form it is written."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from dc_engine.constraints.files import load_constraints
from dc_engine.constraints.model import Constraint, Op
from dc_engine.constraints.naming import class_of
from dc_engine.discovery.boxes import body_of
from dc_engine.discovery.terms import ADMITS, ALL, SIX, Term, Terms
from dc_engine.discovery.wording import worded

COLUMNS = ("a", "the b", "c")
TERMS = Terms(tuple(Term(name, name, SIX, True) for name in COLUMNS))
HOLDS = {
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.EQ: operator.eq,
    Op.GE: operator.ge,
    Op.GT: operator.gt,
    Op.NE: operator.ne,
}
Row = Mapping[str, int]


def forbids(rule: Constraint, one: Row, other: Row) -> bool:
    return any(
        all(HOLDS[part.op](t[part.left.name], s[part.right.name]) for part in body)
        for body in rule.bodies
        for t, s in ((one, other), (other, one))
    )


ROWS = [dict(zip(COLUMNS, values, strict=True)) for values in itertools.product(range(3), repeat=3)]


@given(st.tuples(*[st.sampled_from([None, *Op])] * 3))
def test_a_suggested_rule_forbids_what_the_dependency_forbids(ops: tuple[Op | None, ...]) -> None:
    box = tuple(int(ALL if op is None else ADMITS[op]) for op in ops)
    if not (body := body_of(TERMS, box)):
        return
    wording = worded(TERMS, box, class_of([body]), ())
    entry = {"name": "x", wording.rule: wording.value, **({"within": [*wording.within]} if wording.within else {})}
    (rule,) = load_constraints({"version": 1, "table": "t", "constraints": [entry]}).constraints
    (plain,) = load_constraints(
        {"version": 1, "table": "t", "constraints": [{"name": "x", "formula": f"not ({_printed(box)})"}]}
    ).constraints
    for one, other in itertools.product(ROWS, repeat=2):
        assert forbids(rule, one, other) == forbids(plain, one, other)


def _printed(box: tuple[int, ...]) -> str:
    ops = {int(outcomes): op for op, outcomes in ADMITS.items()}
    parts = [(name, ops[mask]) for name, mask in zip(COLUMNS, box, strict=True) if mask != int(ALL)]
    return " and ".join(f"t.`{name}` {op.value} s.`{name}`" for name, op in parts)


def test_one_column_that_goes_up_with_another_is_suggested_as_an_order() -> None:
    box = tuple(int(ADMITS[op]) for op in (Op.EQ, Op.GE, Op.LT))
    wording = worded(TERMS, box, "pod", ())
    assert (wording.rule, wording.value, wording.within) == ("order", "`the b` -> c", ("a",))
    assert wording.sentence == "Among rows with the same a, a row with the same or a higher the b never has a lower c."
