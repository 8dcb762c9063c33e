from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.constraints.model import Column, Constant, Constraint, Op, Predicate
from dc_engine.constraints.parser import parse_body, parse_formula
from dc_engine.constraints.printer import formula, print_bodies, print_body, print_value
from tests.constraints.strategies import any_body


def exactly(bodies: object) -> str:
    """Tells True from 1 and 1 from Decimal(1), which compare equal."""
    return repr(bodies)


class TestReading:
    def test_a_conjunction_keeps_its_reading_order(self) -> None:
        assert parse_body("t.zip = s.zip and t.city != s.city") == (
            Predicate(Column("t", "zip"), Op.EQ, Column("s", "zip")),
            Predicate(Column("t", "city"), Op.NE, Column("s", "city")),
        )

    @pytest.mark.parametrize(
        ("text", "op"),
        [
            ("=", Op.EQ),
            ("==", Op.EQ),
            ("!=", Op.NE),
            ("<>", Op.NE),
            ("<", Op.LT),
            ("<=", Op.LE),
            (">", Op.GT),
            (">=", Op.GE),
        ],
    )
    def test_every_operator_is_read(self, text: str, op: Op) -> None:
        assert parse_body(f"t.a{text}s.b") == (Predicate(Column("t", "a"), op, Column("s", "b")),)

    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("5", 5),
            ("-5", -5),
            ("+5", 5),
            ("12345678901234567890123", 12345678901234567890123),
            ("1.50", Decimal("1.50")),
            (".5", Decimal("0.5")),
            ("-1e-3", Decimal("-1e-3")),
            ("'it''s'", "it's"),
            ('"say ""hi"""', 'say "hi"'),
            ("''", ""),
            ("TRUE", True),
            ("false", False),
            ("date '2026-01-31'", date(2026, 1, 31)),
            ("Timestamp '2026-01-31 12:00:00'", datetime(2026, 1, 31, 12)),
            ("timestamp '2026-01-31T12:00:00.5'", datetime(2026, 1, 31, 12, 0, 0, 500_000)),
            ("timestamp '2026-01-31 12:00:00Z'", datetime(2026, 1, 31, 12, tzinfo=UTC)),
            (
                "timestamp '2026-01-31 12:00:00.000001-02:30'",
                datetime(2026, 1, 31, 12, 0, 0, 1, timezone(-timedelta(hours=2, minutes=30))),
            ),
        ],
    )
    def test_every_kind_of_constant_is_read(self, text: str, value: object) -> None:
        (predicate,) = parse_body(f"t.a = {text}")
        assert isinstance(predicate.right, Constant)
        assert exactly(predicate.right.value) == exactly(value)

    def test_a_constant_on_the_left_is_flipped(self) -> None:
        assert parse_body("5 < t.a") == parse_body("t.a > 5")
        assert parse_body("5<=t.a") == parse_body("t.a >= 5")

    def test_parentheses_around_conjunctions_change_nothing(self) -> None:
        plain = parse_body("t.a = s.a and t.b < s.b and t.c = 1")
        assert parse_body("(t.a = s.a) AND ((t.b < s.b And t.c = 1))") == plain

    @pytest.mark.parametrize(
        ("text", "name"),
        [
            ("`first name`", "first name"),
            ("`a.b`", "a.b"),
            ("`tick``tock`", "tick`tock"),
            ("名前", "名前"),
            ("2nd", "2nd"),
            ("date", "date"),
            ("and", "and"),
        ],
    )
    def test_names_may_be_quoted(self, text: str, name: str) -> None:
        assert parse_body(f"t.{text} = S . {text}")[0] == Predicate(Column("t", name), Op.EQ, Column("s", name))

    def test_a_formula_may_have_several_bodies(self) -> None:
        assert parse_formula("not (t.a = s.a and t.b != s.b) AND NOT (t.a < s.a)") == (
            parse_body("t.a = s.a and t.b != s.b"),
            parse_body("t.a < s.a"),
        )


class TestPrinting:
    @given(st.lists(any_body, min_size=1, max_size=3).map(tuple))
    def test_what_is_printed_parses_to_the_same_bodies(self, bodies: tuple) -> None:
        again = parse_formula(print_bodies(bodies))
        assert again == bodies
        assert print_bodies(again) == print_bodies(bodies)
        for body in bodies:
            types = [type(one.right.value) for one in body if isinstance(one.right, Constant)]
            reread = parse_body(print_body(body))
            assert [type(one.right.value) for one in reread if isinstance(one.right, Constant)] == types

    def test_names_are_quoted_only_where_needed(self) -> None:
        text = "t.zip = s.`first name` and t.`And` < s.date and t.`2nd` = s.`a.b` and t.größe = 1"
        assert print_body(parse_body(text)) == text

    def test_operators_and_constants_are_printed_in_one_way(self) -> None:
        assert (
            print_body(parse_body('t.a<>s.a AND 2 == t.b and t.c="x\'y"')) == "t.a != s.a and t.b = 2 and t.c = 'x''y'"
        )

    def test_a_whole_decimal_stays_a_decimal(self) -> None:
        assert print_value(Decimal("10")) == "10.0"

    def test_a_formula_is_printed_as_the_design_shows_it(self) -> None:
        constraint = Constraint("x", "fd", (parse_body("t.zip = s.zip and t.city != s.city"),))
        assert formula(constraint) == "not (t.zip = s.zip and t.city != s.city)"
