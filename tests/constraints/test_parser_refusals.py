from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.constraints.parser import parse_body, parse_formula
from dc_engine.errors import ConstraintError

BODY_REFUSALS = [
    ("t.a => s.a", "expected a column or a constant, found '>'", "Write '>='."),
    ("t.a = s.a and t.b =< s.b", "expected a column or a constant, found '<'", "Write '<='."),
    ("t.a => s.a and not", "found '>'", "Write '>='."),
    ("", "the text is empty", "t.zip = s.zip"),
    ("  ", "the text is empty", "t.zip = s.zip"),
    (
        "t.a = s.a or t.b = s.b",
        "'or' is not allowed in a body at character 11, near “or t.b = s.b”",
        "one constraint for each side",
    ),
    ("not t.a = s.a", "'not' is not allowed in a body at character 1", "t.a >= s.a"),
    ("t.a = s.a and not (t.b = s.b)", "'not' is not allowed in a body at character 15", "t.a >= s.a"),
    ("t.a = null", "NULL cannot be compared at character 7", "'nulls'"),
    ("t.a is not null", "found 'is' at character 5", "'nulls'"),
    ("t.a in (1, 2)", "found 'in'", "one constraint for each value"),
    ("t.a between 1 and 2", "found 'between'", "both bounds"),
    ("t.a like 'x%'", "found 'like'", "= != < <= > >="),
    ("zip = s.zip", "'zip' is neither a column nor a constant at character 1", "t.zip or s.zip"),
    ("u.a = s.a", "there is no row 'u' at character 1", "t and s"),
    ("t.a.b = s.a", "found '.' at character 4", "`a.b`"),
    ("t.a = s.a.b", "found '.' at character 10", "`a.b`"),
    ("t.a = 'x", "found ''' at character 7", "never closed"),
    ('t.a = "x', "found '\"' at character 7", "never closed"),
    ("t.`a = s.a", "no column name follows 't.' at character 1", "backticks"),
    ("t. = s.a", "no column name follows 't.' at character 1", "backticks"),
    ("t.`` = 1", "a column without a name at character 1", ""),
    ("1 = 2", "two constants are compared at character 1", "has to be a column"),
    ("t.a = s.a + 1", "found '+' at character 11", "no arithmetic"),
    ("t.a = s.a -1", "found '-1' at character 11", "no arithmetic"),
    ("t.a = -s.a", "found '-' at character 7", "no arithmetic"),
    ("t.a * 2 = s.a", "found '*'", "no arithmetic"),
    ("t.a = s.a, t.b = s.b", "found ','", "joined with 'and'"),
    ("t.a = s.a && t.b = s.b", "found '&'", "joined with 'and'"),
    ("t.a = s.a t.b = s.b", "found 't.b' at character 11", "joined with 'and'"),
    ("t.a = s.a || t.b = s.b", "found '|'", "one constraint for each side"),
    ("(t.a = s.a", "'and' or ')' is missing at the end", ""),
    ("t.a = s.a)", "found ')' at character 10", "in pairs"),
    ("()", "found ')' at character 2", "in pairs"),
    ("(t.a) = s.a", "found ')' at character 5", "in pairs"),
    ("t.a", "an operator (= != < <= > >=) is missing at the end", ""),
    ("t.a =", "a column or a constant is missing at the end", ""),
    ("t.a = s.a and", "a column or a constant is missing at the end", ""),
    ("and t.a = s.a", "'and' is neither a column nor a constant", ""),
    ("t.a = < s.a", "found '<'", ""),
    ("t.a -> s.a", "found '->'", ""),
    ("t.a = date '2026-02-30'", "'2026-02-30' is not a date", "date '2026-01-31'"),
    ("t.a = date '20260230'", "'20260230' is not a date", "date '2026-01-31'"),
    ("t.a = date", "'date' is neither", "'date' in quotes"),
    ("t.a = timestamp '2026-01-31'", "is not a timestamp", "timestamp '2026-01-31 12:00:00.5+02:00'"),
    ("t.a = timestamp '2026-01-31 25:00:00'", "is not a timestamp", "timestamp '"),
    ("t.a = timestamp '2026-01-31 12:00:00.1234567'", "is not a timestamp", "timestamp '"),
    ("t.a = timestamp '2026-01-31 12:00:00+2'", "is not a timestamp", "timestamp '"),
    ("t.a = timestamp '0001-01-01 00:00:00+2:00'", "is not a timestamp", "timestamp '"),
    ("t.a = 1e999", "a number out of range", "No column"),
    ("t.a = " + "9" * 101, "a number of more than 100 digits", ""),
    ("(" * 60 + "t.a = 1" + ")" * 60, "more than 50 nested parentheses at character 51", ""),
    ("t.a = '\ud800'", "character 8 is not valid Unicode", ""),
]


@pytest.mark.parametrize(("text", "message", "hint"), BODY_REFUSALS)
def test_a_body_that_is_not_understood_is_refused_with_place_and_hint(text: str, message: str, hint: str) -> None:
    with pytest.raises(ConstraintError) as refusal:
        parse_body(text)
    assert message in refusal.value.message
    assert hint in refusal.value.hint


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("t.a = s.a", "expected 'not' at character 1", "under 'deny'"),
        ("not t.a = s.a", "expected '(' after 'not', found 't.a'", ""),
        ("not (t.a = s.a) and t.b = s.b", "expected 'not' at character 21", "under 'deny'"),
        ("not (t.a = s.a) or not (t.b = s.b)", "'or' is not allowed", "one constraint for each side"),
        ("not (t.a = s.a", "'and' or ')' is missing", ""),
        ("", "the text is empty", ""),
    ],
)
def test_a_formula_that_is_not_understood_is_refused(text: str, message: str, hint: str) -> None:
    with pytest.raises(ConstraintError) as refusal:
        parse_formula(text)
    assert message in refusal.value.message
    assert hint in refusal.value.hint


@given(st.text("ts.`'\"ab1 =<>!()-,andornot\n", max_size=40))
def test_any_text_is_read_or_refused_but_never_breaks(text: str) -> None:
    for parse in (parse_body, parse_formula):
        with contextlib.suppress(ConstraintError):
            parse(text)


def test_long_text_that_is_never_closed_is_refused_at_once() -> None:
    for text in ("t.a = '" + "''" * 50_000 + "x", "t.`" + "``" * 50_000 + "x"):
        with pytest.raises(ConstraintError):
            parse_body(text)
