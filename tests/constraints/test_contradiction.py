from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dc_engine.constraints.contradiction import check_bodies, contradiction
from dc_engine.constraints.model import Body, Column, Constant
from dc_engine.constraints.parser import parse_body
from dc_engine.constraints.printer import print_body
from dc_engine.errors import ConstraintError
from tests.constraints.evaluate import Row, holds, violates
from tests.constraints.strategies import bodies, nulls, small_body, small_row

REFUSED = [
    ("t.a < s.a and t.a > s.a", "'t.a < s.a' and 't.a > s.a' exclude each other"),
    ("t.a = s.a and t.b = s.b and t.A != s.a", "'t.a = s.a' and 't.A != s.a' exclude each other"),
    (
        "t.a <= s.a and t.a >= s.a and t.a != s.a",
        "'t.a <= s.a', 't.a >= s.a' and 't.a != s.a' exclude each other",
    ),
    (
        "t.a < s.b and s.b <= t.c and t.c < t.a",
        "'t.a < s.b', 's.b <= t.c' and 't.c < t.a' exclude each other",
    ),
    ("t.a = s.b and s.b = t.c and t.a < t.c", "exclude each other"),
    ("t.a < t.a", "'t.a < t.a' is never true"),
    ("t.a != t.A", "'t.a != t.A' is never true"),
    ("t.a = 1 and t.a = 2", "'t.a = 1' and 't.a = 2' exclude each other"),
    ("t.a > 5 and t.a <= 5.0", "'t.a > 5' and 't.a <= 5.0' exclude each other"),
    ("t.a >= 5 and t.a < s.b and s.b < -1.5e3", "exclude each other"),
    ("t.a = 'x' and t.a = 'y'", "exclude each other"),
    ("t.a = 'x' and t.a != 'x'", "exclude each other"),
    ("t.a > 'y' and t.a < 'x'", "exclude each other"),
    ("t.a = true and t.a = false", "exclude each other"),
    ("t.a > date '2026-01-02' and t.a < date '2026-01-01'", "exclude each other"),
    ("t.a > timestamp '2026-01-03 00:00:00' and t.a < timestamp '2026-01-01 00:00:00'", "exclude each other"),
    (
        "t.a > timestamp '2026-01-01 12:00:00Z' and t.a < timestamp '2026-01-01 13:59:59+02:00'",
        "exclude each other",
    ),
    ("t.a = 0.1 and s.a = 0.1 and t.a != s.a", "exclude each other"),
    ("t.a = 0.5 and t.b = 0.5 and t.a != t.b", "exclude each other"),
]
ALLOWED = [
    "t.a <= s.a and t.a >= s.a",
    "t.a <= s.a and t.a != s.a",
    "t.a = t.a",
    "t.a <= t.A",
    "t.a > 1 and t.a < 2",  # no integer, but a decimal lies between
    "t.a = 1 and s.a = 2",
    "t.a = 1 and t.a = '1'",  # nothing is known about two types
    "t.a = date '2026-01-01' and t.a = timestamp '2026-01-02 00:00:00'",
    "t.a = timestamp '2026-01-01 00:00:00' and t.a = timestamp '2026-01-05 00:00:00Z'",
    "t.a = true and t.a = 2",
    "t.a < s.b and s.b < t.c and t.d < t.a",
    "t.a != 1 and t.a != 2 and t.a != s.a",
    # Numbers take the column's type: what follows can hold in columns of floating point.
    "t.a = 0.1 and t.b = 0.1 and t.a != t.b",
    "t.a = 0.1 and t.a = 0.10000000000000000000001",
    "t.a = 9007199254740993 and t.a = 9007199254740992",
    "t.a = 1e-50 and t.a = 0",
    "t.a = 1e39 and t.a = 1e40",
    # A local time that a change of the clock skips is the same instant as another.
    "t.a = timestamp '2026-03-29 02:30:00' and t.a = timestamp '2026-03-29 03:30:00'",
]


@pytest.mark.parametrize(("text", "why"), REFUSED)
def test_a_body_that_can_never_hold_is_explained(text: str, why: str) -> None:
    found = contradiction(parse_body(text))
    assert found is not None
    assert why in found


@pytest.mark.parametrize("text", ALLOWED)
def test_a_body_that_some_rows_can_satisfy_is_allowed(text: str) -> None:
    assert contradiction(parse_body(text)) is None


@given(small_body, small_row, small_row, nulls)
def test_no_pair_of_rows_satisfies_a_refused_body(body: Body, t: Row, s: Row, nulls: str) -> None:
    if contradiction(body):
        assert not holds(body, t, s, nulls)


@settings(max_examples=200, deadline=None)
@given(bodies(st.sampled_from("ab"), st.sampled_from([1, 4]).map(Constant), max_size=6))
def test_a_refused_body_is_exactly_one_that_no_rows_satisfy(body: Body) -> None:
    """Between and around the two constants is room for all four columns, as in a dense order."""
    values = (-2, -1, 0, 0.5, 1, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8)
    sides = [side for one in body for side in (one.left, one.right)]
    mentioned = sorted({side.key for side in sides if isinstance(side, Column)})
    satisfied = False
    for chosen in product(values, repeat=len(mentioned)):
        rows: dict[str, Row] = {"t": {}, "s": {}}
        for (row, name), value in zip(mentioned, chosen, strict=True):
            rows[row][name] = value
        if holds(body, rows["t"], rows["s"]):
            satisfied = True
            break
    assert (contradiction(body) is None) == satisfied


class TestBodiesOfOneConstraint:
    def test_a_body_without_predicates_is_refused(self) -> None:
        for none in ((), ((),)):
            with pytest.raises(ConstraintError, match="without predicates"):
                check_bodies(none)

    def test_a_contradictory_body_is_refused_as_never_violated(self) -> None:
        with pytest.raises(ConstraintError, match=r"it can never be violated: 't.a < s.a' and 't.a > s.a'"):
            check_bodies((parse_body("t.a < s.a and t.a > s.a"),))

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("t.a = s.a", "t.b = s.b"),
            ("t.a < s.a", "t.a > s.a"),  # the same pair, the other way round
            ("t.a = s.a and t.b > 0", "t.a = s.a and t.b <= 0"),  # t may be above 0 and s below
            ("t.a > 0", "t.b = s.b"),
            ("t.a > 0", "t.b > 0"),
        ],
    )
    def test_bodies_that_one_pair_can_satisfy_together_are_refused(self, one: str, other: str) -> None:
        with pytest.raises(ConstraintError, match="would count twice"):
            check_bodies((parse_body(one), parse_body(other)))

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("t.a = s.a and t.b != s.b", "t.a < s.a and t.b > s.b"),
            ("t.a > 5", "t.a < 0"),
            ("t.a > 0 and s.a > 0 and t.b = s.b", "t.a < 0 and t.b = s.b"),
        ],
    )
    def test_bodies_that_exclude_each_other_are_allowed(self, one: str, other: str) -> None:
        check_bodies((parse_body(one), parse_body(other)))

    @given(st.lists(small_body, min_size=2, max_size=2), small_row, small_row, nulls)
    def test_no_pair_satisfies_two_bodies_that_are_allowed_together(
        self, both: list[Body], t: Row, s: Row, nulls: str
    ) -> None:
        try:
            check_bodies(tuple(both))
        except ConstraintError:
            return
        one, other = (violates((body,), t, s, nulls) for body in both)
        if all("s." in print_body(body) for body in both):
            assert not (one and other)
