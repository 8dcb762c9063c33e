from __future__ import annotations

import pytest
from hypothesis import given

from dc_engine.constraints.model import Constraint, Nulls, Severity, Tolerance
from dc_engine.constraints.normalise import meaning, normalise, swapped
from dc_engine.constraints.parser import parse_body
from dc_engine.constraints.printer import print_body
from tests.constraints.evaluate import Row, holds
from tests.constraints.strategies import any_body, nulls, small_body, small_row


def normalised(text: str) -> str:
    return print_body(normalise(parse_body(text)))


def meaning_of(*texts: str, nulls: Nulls = "ignore", severity: Severity = "error", name: str = "x") -> str:
    bodies = tuple(map(parse_body, texts))
    return meaning(Constraint(name, "deny", bodies, nulls, severity, Tolerance(), name))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s.a < t.b", "t.b > s.a"),
        ("s.a = t.a and t.b != s.b", "t.a = s.a and t.b != s.b"),
        ("s.a > 0 and s.b < s.c", "t.a > 0 and t.b < t.c"),
        ("s.a > 0 and t.b = 1", "s.a > 0 and t.b = 1"),
        ("t.a = s.a and s.A = t.A", "t.a = s.a"),
        ("t.a < t.b and t.b > t.a", "t.a < t.b"),
        ("t.a = 1 and t.a = 1.0", "t.a = 1"),
        ("t.a = 1 and t.a = true and t.a = '1'", "t.a = 1 and t.a = true and t.a = '1'"),
        ("t.z = s.z and t.a = s.a", "t.z = s.z and t.a = s.a"),
    ],
)
def test_a_body_is_written_in_one_way_in_its_reading_order(text: str, expected: str) -> None:
    assert normalised(text) == expected


@given(small_body, small_row, small_row, nulls)
def test_normalising_keeps_the_meaning(body: tuple, t: Row, s: Row, nulls: str) -> None:
    mentions_t = "t." in print_body(body)
    about = (t, s) if mentions_t else (s, t)
    assert holds(normalise(body), *about, nulls) == holds(body, t, s, nulls)


@given(small_body, small_row, small_row, nulls)
def test_a_swapped_body_says_of_s_and_t_what_the_body_says_of_t_and_s(body: tuple, t: Row, s: Row, nulls: str) -> None:
    text = print_body(body)
    if "t." in text and "s." in text:
        assert holds(swapped(body), t, s, nulls) == holds(body, s, t, nulls)


@given(any_body)
def test_normalising_twice_changes_nothing(body: tuple) -> None:
    assert normalise(normalise(body)) == normalise(body)
    assert normalise(swapped(swapped(body))) == swapped(swapped(body))


class TestMeaning:
    @given(any_body)
    def test_it_survives_swapping_reversing_and_flipping(self, body: tuple) -> None:
        expected = meaning(Constraint("x", "deny", (body,)))
        for other in (swapped(body), normalise(body), body[::-1], (*body, body[0])):
            assert meaning(Constraint("y", "deny", (other,))) == expected

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("t.zip = s.zip and t.city != s.city", "s.CITY <> t.city and t.Zip == s.ZIP"),
            ("t.a < s.a", "t.a > s.a"),
            ("t.a < t.b", "s.b > s.a"),
            ("t.a = 10", "10.0 = t.a"),
            ("t.a = 1e1", "10 = t.a"),
            ("t.a = timestamp '2026-01-01 12:00:00Z'", "t.a = timestamp '2026-01-01 14:00:00+02:00'"),
            ("t.a = 1 and s.b = 2", "s.a = 1 and t.b = 2"),
        ],
    )
    def test_it_is_equal_for_two_ways_to_say_one_thing(self, one: str, other: str) -> None:
        assert meaning_of(one) == meaning_of(other)

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("t.a < s.a", "t.a <= s.a"),
            ("t.a < s.b", "t.a > s.b"),
            ("t.a = 1", "t.a = '1'"),
            ("t.a = 'x'", "t.a = 'X'"),
            ("t.a = s.a", "t.a = s.a and t.b = s.b"),
            ("t.a = 1 and t.b = 2", "t.a = 1 and s.b = 2"),
            ("t.a = 1.0000000000000000000000000000001", "t.a = 1"),
            ("t.a = timestamp '2026-01-01 12:00:00Z'", "t.a = timestamp '2026-01-01 12:00:00'"),
        ],
    )
    def test_it_differs_for_different_rules(self, one: str, other: str) -> None:
        assert meaning_of(one) != meaning_of(other)

    def test_the_order_of_bodies_does_not_matter(self) -> None:
        one, other = "t.a = s.a and t.b != s.b", "t.a < s.a and t.b > s.b"
        assert meaning_of(one, other) == meaning_of(other, one)

    def test_nulls_are_part_of_it_and_name_and_severity_are_not(self) -> None:
        assert meaning_of("t.a = s.a", nulls="equal") != meaning_of("t.a = s.a")
        assert meaning_of("t.a = s.a", severity="warn", name="y") == meaning_of("t.a = s.a")
