"""Random bodies and rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import strategies as st

from dc_engine.constraints.model import Column, Constant, Op, Predicate

ROWS = st.sampled_from(["t", "s"])
OPS = st.sampled_from(list(Op))
any_name = st.one_of(
    st.sampled_from(
        [
            "a",
            "zip",
            "first name",
            "and",
            "Null",
            "a.b",
            "`",
            "``x`",
            "Straße",
            "名前",
            "2nd",
            "date",
            "t",
            "-",
        ]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8),
).filter(lambda name: not name.lower().startswith(("_dc_", "_change_type", "_commit_")))
"""Of a column that a table may have: those of the gate and of the change data feed are refused."""
_zones = st.one_of(
    st.none(),
    st.just(UTC),
    st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes))),
)
constants = st.one_of(
    st.booleans(),
    st.integers(-(10**40), 10**40),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=10),
    st.dates(),
    st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 12, 31), timezones=_zones),
).map(Constant)


def columns(names: st.SearchStrategy[str]) -> st.SearchStrategy[Column]:
    return st.builds(Column, ROWS, names)


def bodies(
    names: st.SearchStrategy[str], values: st.SearchStrategy[Constant], *, max_size: int = 5
) -> st.SearchStrategy[tuple[Predicate, ...]]:
    predicate = st.builds(Predicate, columns(names), OPS, st.one_of(columns(names), columns(names), values))
    return st.lists(predicate, min_size=1, max_size=max_size).map(tuple)


any_body = bodies(any_name, constants)
small_value = st.one_of(st.none(), st.integers(0, 3))
small_body = bodies(st.sampled_from(["a", "b", "A"]), st.integers(0, 3).map(Constant))
small_row = st.fixed_dictionaries(dict.fromkeys("abcd", small_value))
small_rows = st.lists(small_row, max_size=6)
nulls = st.sampled_from(["ignore", "equal"])
