"""What people see of values: readable, as JSON can carry it, and never more than a bound."""

from __future__ import annotations

import json
import tracemalloc
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dc_engine.detection.shown import MOST_OF_NAME, MOST_OF_ROW, MOST_OF_VALUE, json_rows
from dc_engine.maintained.judging import bounded
from dc_engine.verdict import ConstraintVerdict


def shown(value: Any, arrow_type: pa.DataType) -> Any:
    (row,) = json_rows({"v": pa.array([value], arrow_type)})
    json.dumps(row, allow_nan=False).encode()
    return row["v"]


def raw(number: int, arrow_type: pa.DataType) -> pa.Array:
    """A value by the number that Arrow keeps, which Python may have no value for."""
    wide = pa.array([number], pa.int32() if pa.types.is_date(arrow_type) else pa.int64())
    return wide.view(arrow_type)


@pytest.mark.parametrize(
    ("number", "arrow_type", "expected"),
    [
        (0, pa.date32(), "1970-01-01"),
        (2**31 - 1, pa.date32(), "5881580-07-11"),
        (-(2**31), pa.date32(), "-5877641-06-23"),
        (-719_529, pa.date32(), "-0001-12-31"),
        (2**63 - 1, pa.timestamp("us", "UTC"), "294247-01-10 04:00:54.775807Z"),
        (-(2**63), pa.timestamp("us"), "-290308-12-21 19:59:05.224192"),
        (-1, pa.duration("us"), "-0:00:00.000001"),
        (-(2**63), pa.duration("us"), "-106751991 days, 4:00:54.775808"),
    ],
)
def test_days_times_and_intervals_of_any_size_are_shown_also_inside(
    number: int, arrow_type: pa.DataType, expected: str
) -> None:
    value = raw(number, arrow_type)
    inside = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), value)
    deeper = pa.StructArray.from_arrays([inside], ["a.b"])
    assert json_rows({"v": value, "i": inside, "d": deeper}) == [
        {"v": expected, "i": [expected], "d": {"a.b": [expected]}}
    ]


@given(st.dates(), st.datetimes())
def test_days_and_times_that_python_knows_are_shown_as_python_shows_them(day: date, at: datetime) -> None:
    assert shown(day, pa.date32()) == day.isoformat()
    expected = at.isoformat(sep=" ", timespec="microseconds")
    assert shown(at, pa.timestamp("us")) == expected
    assert shown(at.replace(tzinfo=UTC), pa.timestamp("us", "UTC")) == f"{expected}Z"


def test_other_values_are_shown_without_loss() -> None:
    assert shown(Decimal("-1E-38"), pa.decimal128(38, 38)) == "-1E-38"
    assert shown(float("nan"), pa.float64()) == "nan"
    assert shown([float("-inf"), 0.5, None], pa.list_(pa.float32())) == ["-inf", 0.5, None]
    assert shown(True, pa.bool_()) is True
    assert shown(2**63 - 1, pa.int64()) == 2**63 - 1
    assert shown(timedelta(hours=26), pa.duration("us")) == "1 day, 2:00:00"
    assert shown(b"", pa.binary()) == ""
    assert shown(None, pa.struct([("a", pa.int32())])) is None


def test_bytes_that_are_no_text_are_shown_as_escapes() -> None:
    broken = pa.array([b"a\xffb\xed\xa0\x80"]).cast(pa.string(), safe=False)
    assert json_rows({"v": broken}) == [{"v": r"a\xffb\xed\xa0\x80"}]
    cut = pa.array([b"\xff" * 10 * MOST_OF_VALUE]).cast(pa.string(), safe=False)
    assert json_rows({"v": cut})[0]["v"].endswith(f"… ({10 * MOST_OF_VALUE:,} characters in all)")


@given(st.sampled_from(["a", "é", "€", "\U0001f600"]), st.integers(-3, 3), st.sampled_from(["", "x", "é"]))
def test_a_long_text_is_cut_between_characters_and_tells_its_length(one: str, more: int, before: str) -> None:
    text = before + one * (MOST_OF_VALUE + more)
    expected = text if len(text) <= MOST_OF_VALUE else f"{text[:MOST_OF_VALUE]}… ({len(text):,} characters in all)"
    assert shown(text, pa.string()) == expected
    assert shown(text, pa.large_string()) == expected


def test_long_binaries_and_nested_values_are_cut_and_tell_their_size() -> None:
    assert shown(b"\xab" * 500, pa.binary()) == "ab" * 500
    assert shown(b"\xab" * 501, pa.binary()) == "ab" * 500 + "… (501 bytes in all)"
    items = shown(list(range(10**6)), pa.list_(pa.int64()))
    assert items[:3] == [0, 1, 2]
    assert items[-1] == "… (1,000,000 items in all)"
    fields = {f"field {place}": "x" * 100 for place in range(50)}
    value = shown(fields, pa.struct([(name, pa.string()) for name in fields]))
    assert value["field 0"] == "x" * 100
    assert value["…"] == "(50 fields in all)"
    assert shown([["y" * 5000]], pa.list_(pa.list_(pa.string())))[0][0].endswith("… (5,000 characters in all)")


NESTED = st.recursive(
    st.text(max_size=3000) | st.binary(max_size=3000),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.sampled_from("abcdef"), inner, min_size=1),
    max_leaves=40,
)


@given(st.lists(NESTED, min_size=1, max_size=30), st.sampled_from([MOST_OF_ROW, MOST_OF_NAME]))
def test_no_row_is_shown_with_much_more_than_its_bound(values: list[Any], most: int) -> None:
    columns = {}
    for place, value in enumerate(values):
        try:
            columns[f"c{place}"] = pa.array([value])
        except (pa.ArrowInvalid, pa.ArrowTypeError):  # lists whose items have several types
            continue
    rows = json_rows(columns, most)
    marks = 60 * len(columns)  # each value may end with a mark
    assert sum(len(json.dumps(one, ensure_ascii=False)) for row in rows for one in row.values()) < 6 * most + marks


def test_every_value_of_a_wide_row_gets_its_share() -> None:
    columns = {f"c{place}": pa.array(["x" * 5000]) for place in range(100)}
    (row,) = json_rows(columns)
    assert set(row.values()) == {"x" * (MOST_OF_ROW // 100) + "… (5,000 characters in all)"}
    short = {f"c{place}": pa.array(["x" * (MOST_OF_VALUE if place < 3 else 5)]) for place in range(100)}
    assert json_rows(short) == [{name: column[0].as_py() for name, column in short.items()}]


def test_what_is_not_shown_is_not_converted() -> None:
    columns = {
        "text": pa.array(["x" * 10_000_000] * 20),
        "bytes": pa.array([b"x" * 10_000_000] * 20),
        "items": pa.array([["x" * 1000] * 10_000] * 20),
    }
    tracemalloc.start()
    try:
        assert len(json.dumps(json_rows(columns))) < 200_000
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
    finally:
        tracemalloc.stop()


def _broken(name: str, text: str, samples: int) -> ConstraintVerdict:
    side = {"row": {"id": 1}, "values": {"text": text}, "rows": 1}
    return ConstraintVerdict(
        name, "deny", "", "error", False, samples, 0, samples, samples, 0, 0,
        samples=[{"t": side, "s": side}] * samples,
        worst_rows=[{"row": {"id": text}, "violations": 1}] * samples,
    )  # fmt: skip


@given(
    st.lists(st.tuples(st.text(max_size=50), st.integers(0, 20)), max_size=20),
    st.integers(0, 20_000),
)
@example([("", 0), ("", 11), ("", 20), ("", 20)], 16_269)
def test_samples_of_all_constraints_share_the_room_of_a_verdict(sizes: list[tuple[str, int]], most: int) -> None:
    verdicts = [_broken(f"rule {place}", text, samples) for place, (text, samples) in enumerate(sizes)]
    kept, notes = bounded(verdicts, most)
    document = [{"samples": one.samples, "worst_rows": one.worst_rows} for one in kept]
    empty = [{"samples": [[]] * bool(one.samples), "worst_rows": [[]] * bool(one.worst_rows)} for one in kept]
    sizes_of = [len(json.dumps({"c": one}, ensure_ascii=False, indent=1).encode()) for one in (document, empty)]
    assert sizes_of[0] - sizes_of[1] <= most
    assert [one.new_violations for one in kept] == [one.new_violations for one in verdicts]
    assert bool(notes) == (kept != verdicts)
    longest = max((len(one.samples) for one in kept), default=0)
    for before, after in zip(verdicts, kept, strict=True):
        assert len(after.samples) == len(after.worst_rows) == min(len(before.samples), longest)


def test_a_note_says_what_was_left_out() -> None:
    kept, (note,) = bounded([_broken("a", "x" * 100, 20), _broken("b", "y", 1)], 2**12)
    assert len(kept[1].samples) == 1
    assert note.startswith(
        f"At most {len(kept[0].samples)} samples and as many worst rows are shown per constraint: 20 of"
    )
