"""Files of the state have their columns in the way that is read fastest, and what is read is what was written."""

from __future__ import annotations

import datetime as dt
import io
import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.detection.plan import IndexPlan
from dc_engine.detection.rows import ROW_ID, take_rows, write_rows
from dc_engine.detection.runs import HASH, ROW_IDS, ROWS, find_entries, write_run
from dc_engine.errors import StateError
from dc_engine.sizes import other_sizes
from dc_engine.state.files import FileKind, data_file
from dc_engine.state.packing import parquet_bytes
from dc_engine.state.parquet import Reader, store_parquet
from dc_engine.state.storage import Storage

DAY = dt.datetime(2026, 1, 1)
VALUES: dict[pa.DataType, list[Any]] = {
    pa.int8(): [1, 2],
    pa.int16(): [1, -2],
    pa.int64(): [2**63 - 1, -(2**63)],
    pa.float64(): [0.5, -0.0],
    pa.bool_(): [True, False],
    pa.null(): [None, None],
    pa.string(): ["", "ü"],
    pa.binary(): [b"\x00", b""],
    pa.decimal128(38, 3): [Decimal("1.000"), Decimal("-2.500")],
    pa.date32(): [DAY.date(), dt.date(1, 1, 1)],
    pa.timestamp("us"): [DAY, dt.datetime(1900, 1, 1, 0, 0, 0, 1)],
    pa.timestamp("us", "UTC"): [DAY, dt.datetime(2026, 1, 2)],
    pa.duration("us"): [dt.timedelta(1), dt.timedelta(-2)],
    pa.list_(pa.int32()): [[1], []],
    pa.struct([("x", pa.string())]): [{"x": "a"}, {"x": None}],
    pa.map_(pa.string(), pa.int32()): [[("a", 1)], []],
}


def test_only_columns_in_which_values_recur_have_a_dictionary() -> None:
    place = np.arange(5_000)
    table = pa.table({"id": place, "few": place % 7, "name": [f"n{one}" for one in place], "city": ["Rome"] * 5_000})
    group = pq.ParquetFile(io.BytesIO(parquet_bytes(table))).metadata.row_group(0)
    found = [set(group.column(one).encodings) for one in range(4)]
    assert [("RLE_DICTIONARY" in one, "DELTA_BINARY_PACKED" in one) for one in found] == [
        (False, True),
        (True, False),
        (False, False),
        (True, False),
    ]


@pytest.mark.parametrize("type_", VALUES, ids=str)
@pytest.mark.parametrize("times", [1, 300], ids=["various", "few"])
def test_a_column_of_any_type_comes_back_as_it_was(type_: pa.DataType, times: int) -> None:
    values = pa.array([*VALUES[type_], None] * times, type_)
    table = pa.table({"first": pa.array(range(len(values)), pa.int64()), "c": values})
    assert pq.read_table(io.BytesIO(parquet_bytes(table))).equals(table)


def test_a_part_of_a_nested_column_may_have_the_name_of_another_column() -> None:
    table = pa.table({"a": pa.array([{"b": "x"}, {"b": "y"}]), "a.b": pa.array([1, 2])})
    assert pq.read_table(io.BytesIO(parquet_bytes(table)), columns=["a"]).equals(table.select(["a"]))


def test_rows_that_are_taken_have_the_types_that_they_have_in_the_file(tmp_path: Path) -> None:
    ids = pa.array(range(10_000), pa.int64())
    cities = pa.array([("Rome", "Paris", None)[one % 3] for one in range(10_000)])
    rows = pa.table({ROW_ID: ids, "city": cities, "name": pa.array([f"n{one}" for one in range(10_000)])})
    storage = Storage(str(tmp_path))
    taken = take_rows(storage, [write_rows(storage, rows)], np.array([9_999, 4, 5]), ["city", "name"])
    assert taken.select(rows.column_names).equals(rows.take([4, 5, 9_999]))


def test_several_files_are_searched_at_once_with_the_same_result(tmp_path: Path) -> None:
    storage, index = Storage(str(tmp_path)), IndexPlan.on(("k",), ("number",), ("k",))
    files = []
    for load in range(1, 6):
        keys = np.arange(load, 3_000, 7)
        lists = pa.ListArray.from_arrays(pa.array(np.arange(len(keys) + 1), pa.int32()), pa.array(keys))
        entries = {HASH: keys * 31, "k": keys, ROWS: np.ones(len(keys), np.int64), ROW_IDS: lists}
        files += write_run(storage, index, load, pa.table(entries))
    wanted = np.unique(np.arange(0, 3_000, 5) * 31)
    one, both = (find_entries(storage, files, ["k", ROW_IDS], wanted=wanted, threads=way) for way in (False, True))
    assert one.entries.num_rows == sum(
        key * 31 in set(wanted.tolist()) for load in range(1, 6) for key in range(load, 3_000, 7)
    )
    assert both.entries.equals(one.entries)
    assert both.readers.keys() == one.readers.keys()
    assert (both.file == one.file).all()
    assert (both.position == one.position).all()
    lists = one.entries.column(ROW_IDS)
    found = find_entries(storage, files, ["k"], wanted=wanted)
    assert found.with_row_ids().column(ROW_IDS).to_pylist() == lists.to_pylist()


def test_only_the_columns_that_are_asked_for_are_read_and_checked(tmp_path: Path, monkeypatch) -> None:
    nested = pa.array([{"x": one, "y": [one, 7]} for one in range(30_000)])
    mapped = pa.array([[("k", one)] for one in range(30_000)], pa.map_(pa.string(), pa.int64()))
    table = pa.table({"a": np.arange(30_000), "nested": nested, "mapped": mapped, "b": np.arange(30_000) * 3})
    storage, read = Storage(str(tmp_path)), []
    data = parquet_bytes(table)
    file = store_parquet(storage, "x.parquet", data, kind=FileKind.ROWS, load=1, rows=30_000)
    group = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(1).column(5)  # that of b
    damaged = bytearray(data)
    damaged[group.data_page_offset + 50] ^= 1
    (tmp_path / "x.parquet").write_bytes(damaged)
    into = Storage.read_into

    def read_into(self: Storage, content: memoryview, path: str, spans: Any) -> None:
        read.extend(end - start for start, end in spans)
        into(self, content, path, spans)

    monkeypatch.setattr(Storage, "read_into", read_into)
    for columns in (["a"], ["mapped"], ["a", "nested"]):
        assert Reader(storage, file).read([0, 1], columns).equals(table.select(columns))
    reader = Reader(storage, file)
    read.clear()
    assert reader.read([0, 1], ["a"]).equals(table.select(["a"]))
    assert 0 < sum(read) < len(data) // 4
    assert reader.read([0], ["b"]).num_rows == 16_384
    with pytest.raises(StateError, match="row group 1 was altered"):
        reader.read([0, 1], ["b"])


@given(st.sets(st.integers(0, 99)), st.sampled_from([1, 700, 2**20]), st.booleans(), st.booleans())
def test_rows_are_taken_from_any_row_groups_of_any_files(wanted: set[int], portion: int, numbered: bool, threads: bool):
    rows = pa.table({ROW_ID: range(100), "city": ["Rome", "Paris"] * 50, "name": [f"n{one}" for one in range(100)]})
    with TemporaryDirectory() as folder, other_sizes(row_group=7, portion=portion):
        storage, files = Storage(folder), []
        for first in range(0, 100, 40):
            part = rows.slice(first, 40)
            data = parquet_bytes(part.drop_columns([ROW_ID]))
            file = store_parquet(storage, f"rows/{first}.parquet", data, kind=FileKind.ROWS, load=1, rows=len(part))
            files.append(replace(file, first_row_id=first) if numbered else write_rows(storage, part))
        ids = np.array(list(wanted), np.int64)
        taken = take_rows(storage, files, ids, ["name", "city"], threads=threads)
    assert taken.num_columns == (3 if wanted else 0)
    if wanted:
        assert taken.select(rows.column_names).equals(rows.take(pa.array(sorted(wanted))))


def test_a_long_footer_is_read_from_a_copy_of_a_fraction_of_its_bytes_which_is_checked(tmp_path: Path, monkeypatch):
    table = pa.table({name: np.arange(20_000) * 7 for name in "abcdef"})
    storage, read = Storage(str(tmp_path)), []
    data = parquet_bytes(table, row_group=64)
    file = store_parquet(storage, "x.parquet", data, kind=FileKind.ROWS, load=1, rows=20_000)
    assert file.packed is not None
    assert pq.read_table(tmp_path / "x.parquet").equals(table)
    part = Storage.read_part

    def read_part(self: Storage, path: str, start: int, end: int) -> bytes:
        read.append(end - start)
        return part(self, path, start, end)

    monkeypatch.setattr(Storage, "read_part", read_part)
    reader = Reader(storage, file)
    assert sum(read) < file.packed[2] // 3
    assert reader.read(range(len(reader.group_starts) - 1), ["c"]).equals(table.select(["c"]))
    whole = (tmp_path / "x.parquet").read_bytes()
    start, length, _ = file.packed
    for place in (start, start + 5, start + length // 2, start + length - 1):
        damaged = bytearray(whole)
        damaged[place] ^= 4
        (tmp_path / "x.parquet").write_bytes(damaged)
        with pytest.raises(StateError, match="its footer was altered"):
            Reader(storage, file)
    (tmp_path / "x.parquet").write_bytes(whole[: start + 10])
    with pytest.raises(StateError, match="its footer was altered"):
        Reader(storage, file)
    assert data_file(json.loads(json.dumps(file.to_dict()))) == file
