"""Columns that travel packed are the columns of the rows, whatever the pieces."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.detection.fetched import Columns, Measured, Pack, unpacked
from dc_engine.sizes import other_sizes

ZONE = dt.UTC
KINDS = {
    pa.int32(): st.integers(-3, 3),
    pa.string(): st.sampled_from(["", "a", "\x00", "ä"]),
    pa.float64(): st.sampled_from([0.0, -0.0, 1.5, float("inf")]),
    pa.decimal128(5, 2): st.sampled_from([Decimal("1.00"), Decimal("-0.01")]),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(),
    pa.timestamp("us", "UTC"): st.datetimes(timezones=st.just(ZONE)),
    pa.timestamp("us"): st.datetimes(),
    pa.duration("us"): st.timedeltas(dt.timedelta(-9), dt.timedelta(9)),
    pa.binary(): st.binary(max_size=2),
}


@given(st.data(), st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=4), st.integers(1, 9))
def test_what_is_packed_is_unpacked_column_by_column(data: st.DataObject, kinds: list[pa.DataType], rows: int) -> None:
    cells = [data.draw(st.lists(st.none() | KINDS[kind], min_size=rows, max_size=rows)) for kind in kinds]
    table = pa.table({str(place): pa.array(some, kinds[place]) for place, some in enumerate(cells)})
    names = [f"column {place}" for place in range(len(kinds))]
    with other_sizes(staged_group=data.draw(st.integers(1, 5))):
        batches = list(Pack()(iter(table.to_batches(max_chunksize=data.draw(st.integers(1, 4))))))
    columns = unpacked(pa.Table.from_batches(batches), names)
    assert (list(columns), columns.rows, len(columns)) == (names, rows, len(kinds))
    for name, field in zip(names, table.schema.names, strict=True):
        assert columns[name].type == table.column(field).type
        assert columns[name].equals(pa.chunked_array(table.column(field).chunks))


def test_pieces_are_small() -> None:
    table = pa.table({"a": range(100)})
    with other_sizes(staged_group=30):
        pieces = list(Pack()(iter(table.to_batches(max_chunksize=10))))
    assert [piece.column("rows").to_pylist() for piece in pieces] == [[30], [30], [30], [10]]
    with other_sizes(group_bytes=160):
        pieces = list(Pack()(iter(table.to_batches(max_chunksize=10))))
    assert [piece.column("rows").to_pylist() for piece in pieces] == [[20]] * 5
    assert not list(Pack()(iter(table.slice(0, 0).to_batches())))


def test_a_column_that_is_not_there_is_not_made_up() -> None:
    with pytest.raises(KeyError):
        Columns.of(pa.table({"a": [1]}))["b"]


def test_what_there_is_in_columns_is_measured() -> None:
    table = pa.table({"a": ["ä", None, "", "xyz"], "b": [1, None, None, 2], "c": pa.array([None] * 4, pa.binary())})
    assert Measured.of(Columns.of(table)) == Measured(4, {"a": 3, "b": 2, "c": 0}, {"a": 5, "b": 0, "c": 0})
    assert Measured.of(Columns.of(table.slice(0, 0))) == Measured(0, dict.fromkeys("abc", 0), dict.fromkeys("abc", 0))
