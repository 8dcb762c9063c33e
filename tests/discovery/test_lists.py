"""An order of lists holds when every way to sort a table by one list leaves it sorted by the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dc_engine.discover import discover
from dc_engine.discovery.lists import explained
from dc_engine.errors import RequestError, SchemaError
from dc_engine.state.snapshots import read_current
from dc_engine.telling import answer_lines
from dc_engine.verdict import MASKED
from tests.discovery.tables import Table

Row = dict[str, Any]
SIDES = st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True)
ROWS = st.lists(st.fixed_dictionaries(dict.fromkeys("abcd", st.integers(0, 2) | st.none())), max_size=6)


def codes_of(rows: list[Row]) -> dict[str, np.ndarray]:
    return {name: np.array([-1 if row[name] is None else row[name] for row in rows], np.int32) for name in "abcd"}


def key(row: Row, side: list[str]) -> list[int]:
    """Values that are compared as Spark sorts: NULL first."""
    return [-1 if row[name] is None else row[name] for name in side]


def is_ordered(rows: list[Row], left: list[str], right: list[str]) -> bool:
    """Rows sorted by the left side, those that agree on it by the right, and the other way round."""
    for descending in (False, True):
        some = sorted(rows, key=lambda row: key(row, right), reverse=descending)
        some.sort(key=lambda row: key(row, left))
        values = [key(row, right) for row in some]
        if values != sorted(values):
            return False
    return True


@given(ROWS, SIDES, SIDES, st.sampled_from([[], ["d"]]))
def test_its_parts_hold_exactly_when_sorting_by_one_sorts_by_the_other(rows, left, right, within):
    assume(left[: len(right)] != right)  # that holds everywhere, and is refused
    parts = explained(codes_of(rows), left, right, within)
    groups = [[row for row in rows if not within or row["d"] == value] for value in {row["d"] for row in rows}]
    assert all(one.example is None for one in parts) == all(is_ordered(group, left, right) for group in groups)


@given(ROWS, SIDES, SIDES)
def test_an_example_is_two_rows_that_are_in_another_order_on_the_right(rows, left, right):
    assume(left[: len(right)] != right)
    for one in explained(codes_of(rows), left, right):
        if one.example is not None:
            assert not is_ordered([rows[row] for row in one.example], left, right)
            t, s = (rows[row] for row in one.example)
            assert key(t, list(one.part.context)) == key(s, list(one.part.context))


@given(ROWS, SIDES, SIDES)
def test_a_part_holds_without_the_rows_that_have_to_go_and_not_with_one_of_them_back(rows, left, right):
    assume(left[: len(right)] != right)
    for place, one in enumerate(explained(codes_of(rows), left, right)):
        gone = set(one.removed.tolist())
        assert bool(gone) == (one.example is not None)
        for back in (None, *gone):
            some = [row for number, row in enumerate(rows) if number not in gone - {back}]
            assert (explained(codes_of(some), left, right)[place].example is None) == (back is None)


def test_the_parts_of_an_order_and_where_it_fails():
    """Years, salaries and bins: the last row has a smaller bin than the one before it."""
    rows = [
        {"a": 16, "b": 5, "c": 1, "d": 0},
        {"a": 16, "b": 8, "c": 2, "d": 0},
        {"a": 15, "b": 4, "c": 1, "d": 0},
        {"a": 15, "b": 9, "c": 0, "d": 0},
    ]
    parts = explained(codes_of(rows), ["a", "b"], ["a", "c"])
    assert [(one.part.name, one.part.context) for one in parts] == [("c", ("a", "b")), ("b ~ c", ("a",))]
    assert parts[0].example is None
    assert parts[1].example == (2, 3)


def test_an_order_of_lists_is_explained_by_its_parts(tmp_path: Path) -> None:
    table = Table(tmp_path, "year salary bin", bin="string")
    rows = [(2016, 5, "b"), (2016, 8, "c"), (2015, None, "a"), (2015, 4, "b"), (2015, 9, "a")]
    table.apply("1", *rows)
    asked = {"explain": ["[year, salary] -> [YEAR, bin]", "year -> salary"], "classes": ["unique"]}
    in_state = discover(table.spark, {"state": table.state, **asked})
    in_table = discover(table.spark, {"table": table.source("whole", rows), **asked})
    assert in_state["orders"] == in_table["orders"]
    first, second = in_state["orders"]
    assert first == {
        "text": "[year, salary] -> [YEAR, bin]",
        "holds": False,
        "parts": [
            {"text": "bin constant within [year, salary]", "holds": True},
            {
                "text": "salary ~ bin within [year]",
                "holds": False,
                "example": {
                    "t": {"year": 2015, "salary": 4, "bin": "b"},
                    "s": {"year": 2015, "salary": 9, "bin": "a"},
                },
                "error": 0.2,
                "remove": [{"year": 2015, "salary": 4, "bin": "b"}],
            },
        ],
    }
    assert [part["holds"] for part in second["parts"]] == [False, False]
    assert "order year -> salary: does not hold: salary constant within [year]; year ~ salary" in answer_lines(in_state)


def test_an_order_of_lists_shows_no_masked_value(tmp_path: Path) -> None:
    table = Table(tmp_path, "a b")
    table.apply("1", (1, 2), (2, 1))
    (order,) = discover(table.spark, {"state": table.state, "explain": ["a -> b"], "mask": ["B"]})["orders"]
    assert order["parts"][1]["example"] == {"t": {"a": 1, "b": MASKED}, "s": {"a": 2, "b": MASKED}}
    assert [row["b"] for row in order["parts"][1]["remove"]] == [MASKED]


@pytest.mark.parametrize(
    ("explain", "message"),
    [
        (7, "'explain' in the request must be a list of orders, not 7"),
        (["a"], "'explain' in the request: '->' is missing"),
        (["a -> a"], "the order says nothing"),
        (["a -> c"], "The table has no column 'c'"),
    ],
)
def test_an_order_that_is_none_is_refused(tmp_path: Path, explain: Any, message: str) -> None:
    table = Table(tmp_path, "a b")
    table.apply("1", (1, 2), (2, 1))
    before = table.snapshot
    with pytest.raises(RequestError, match=message):
        discover(table.spark, {"state": table.state, "explain": explain})
    assert table.snapshot == before


@pytest.mark.parametrize("order", ["a -> c", "a -> b"])
def test_an_order_of_what_would_not_be_kept_begins_no_state(tmp_path: Path, order: str) -> None:
    table = Table(tmp_path, "a b")
    asked = {"table": table.source("whole", [(1, 2), (2, 1)]), "space": {"exclude": ["b"]}, "explain": [order]}
    with pytest.raises(RequestError, match="no column"):
        discover(table.spark, {"state": table.state, **asked})
    assert read_current(table.storage) is None


def test_a_mask_that_names_no_column_is_refused_before_values_are_shown(tmp_path: Path) -> None:
    table = Table(tmp_path, "a b")
    table.apply("1", (1, 2), (2, 1))
    with pytest.raises(SchemaError, match="'mask' names column 'bb', which the state does not have"):
        discover(table.spark, {"state": table.state, "explain": ["a -> b"], "mask": ["bb"]})
    with pytest.raises(SchemaError, match="neither the state nor the table"):
        discover(table.spark, {"state": table.state, "table": table.source("whole", [(1, 2), (2, 1)]), "mask": ["bb"]})


def test_an_order_of_lists_holds_where_no_rows_are_left(tmp_path: Path) -> None:
    table = Table(tmp_path, "a b")
    table.apply("1", (1, 2))
    table.apply("2", deletes=[(1, 2)])
    (order,) = discover(table.spark, {"state": table.state, "explain": "a -> b"})["orders"]
    assert order["holds"]
