"""Rows of long values: cut by their bytes, and never copied as a whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.constraints.files import load_constraints
from dc_engine.detection.codes import take
from dc_engine.detection.documents import Failed
from dc_engine.detection.plan import IndexPlan
from dc_engine.detection.planning import make_plan
from dc_engine.detection.runs import HASH, ROW_IDS, ROWS, find_entries, write_run
from dc_engine.detection.sizing import make_work
from dc_engine.detection.steps import WHOLE, Encode
from dc_engine.detection.work import received, send, tell
from dc_engine.sizes import SIZES, other_sizes
from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.packing import Builder, in_parts
from dc_engine.state.parquet import Reader, bytes_a_row, store_parquet
from dc_engine.state.storage import Storage

TEXT = "x" * 1024
RULES: dict[str, Any] = {
    "version": 1,
    "table": "texts",
    "constraints": [{"name": "keyed", "fd": "text -> x"}, {"name": "keyless", "deny": "t.text < s.text and t.x > s.x"}],
}


def texts(rows: int) -> pa.Table:
    return pa.table({"text": [f"{number:07d}{TEXT}" for number in range(rows)], "x": range(rows)})


def stored(storage: Storage, rows: pa.Table) -> DataFile:
    builder = Builder(rows.schema, row_group=65_536)
    builder.add(rows)
    return store_parquet(storage, "rows.parquet", builder.finish(), kind=FileKind.ROWS, load=1, rows=rows.num_rows)


@given(sizes=st.lists(st.integers(0, 5), max_size=5), seed=st.integers(0, 2**32))
def test_rows_are_taken_from_chunks_as_from_one_piece(sizes: list[int], seed: int) -> None:
    chance = np.random.default_rng(seed)
    numbers = iter(range(100))
    parts = [pa.table({"n": pa.array([next(numbers) for _ in range(size)], pa.int64())}) for size in sizes]
    table = pa.concat_tables([pa.table({"n": pa.array([], pa.int64())}), *parts])
    places = chance.integers(0, sum(sizes), chance.integers(0, 12)) if sum(sizes) else np.zeros(0, np.int64)
    assert take(table, places).column("n").to_pylist() == places.tolist()


def test_row_groups_of_long_values_have_few_rows_and_the_footer_knows_their_bytes() -> None:
    storage, rows = Storage("memory://long/groups"), texts(20_000)
    file = stored(storage, rows)
    reader = Reader(storage, file)
    sizes = np.diff(reader.group_starts)
    assert sizes.sum() == 20_000
    assert sizes.max() * 1024 < SIZES.group_bytes < 20_000 * 1024
    assert bytes_a_row(storage, [file])["text"] > 1024
    assert reader.column_bytes == {name: rows.column(name).nbytes for name in ("text", "x")}
    assert bytes_a_row(storage, []) == {}


def test_units_and_tasks_are_cut_by_bytes() -> None:
    storage = Storage("memory://long/units")
    file = stored(storage, texts(20_000))
    plan = make_plan(load_constraints(RULES), {"text": "string", "x": "bigint"})
    halves = tuple(replace(file, bounds=(low, low + 9)) for low in (0, 5))
    files = {index.id: halves for group in plan.groups for index in group.indexes if not index.key}
    with (
        other_sizes(unit_bytes=2**20, share_bytes=20 * 2**20, probe_bytes=2 * 2**20),
    ):
        work = make_work(storage, plan, 2, files, None, inserts=[file])
    cut = [work.spread[group.number] for group in plan.groups if group.indexes]
    assert max(one.buckets for one in cut) == 20
    assert 2 <= max(len(one.slices) for one in cut) <= 6
    assert work.probe_tasks == 20


def test_a_run_of_long_values_is_several_files_that_are_found_as_one() -> None:
    storage, rows = Storage("memory://long/runs"), texts(3_000)
    hashes = np.random.default_rng(7).permutation(3_000)
    ids = pa.ListArray.from_arrays(pa.array(range(3_001), pa.int32()), pa.array(range(3_000)))
    entries = pa.table({HASH: hashes, **dict(zip(rows.column_names, rows.columns, strict=True)), ROWS: [1] * 3_000})
    with other_sizes(run_bytes=2**20):
        files = write_run(storage, IndexPlan.on(("x",), ("integer",), ("x",)), 1, entries.append_column(ROW_IDS, ids))
    assert len(files) == 4
    assert [file.bounds for file in files] == sorted(file.bounds for file in files if file.bounds)
    with other_sizes(portion=1):
        found = find_entries(storage, files, ["x"], wanted=np.arange(0, 3_000, 7))
    place = np.argsort(hashes)[::7]
    assert found.entries.column("x").to_pylist() == place.tolist()
    ids, sizes = found.row_ids(np.arange(3), np.full(3, 10))
    assert (ids.tolist(), sizes.tolist()) == (place[:3].tolist(), [1, 1, 1])


def test_messages_are_read_where_they_lie_and_after_documents_of_any_length() -> None:
    rows = texts(10)
    for text in ("", "a", "ab", "abc"):
        batches = [tell(Failed("DcError", text, "")), send(1, "rows", rows.select(["x"])), send(2, "rows", rows)]
        (batch,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
        document, short, long = received([batch])
        assert document.document == Failed("DcError", text, "")
        assert short.payload.address % 8 == 0
        assert (short.table, long.table) == (rows.select(["x"]), rows)
        assert len(long.payload) < rows.nbytes // 2  # long values are compressed on their way


def test_parts_hold_all_rows_within_both_bounds() -> None:
    parts = list(in_parts(texts(1_000), 100_000, 30))
    assert pa.concat_tables(parts) == texts(1_000)
    assert max(part.num_rows for part in parts) == 30
    assert max(part.num_rows for part in in_parts(texts(1_000), 100_000)) < 100


def test_rows_of_groups_with_the_same_blocks_are_sent_once() -> None:
    storage, rows = Storage("memory://long/together"), texts(2_000)
    unique: dict[str, Any] = {"name": "unique", "unique": ["text"]}
    rules = {**RULES, "constraints": [*RULES["constraints"], unique]}
    plan = make_plan(load_constraints(rules), {"text": "string", "x": "bigint"})
    keyed = [group for group in plan.groups if group.indexes[0].key]
    assert len(keyed) == 2
    work = make_work(storage, plan, 1, {}, None, inserts=[replace(stored(storage, rows), first_row_id=0)])
    sent = list(received(Encode(work, 1)([pa.RecordBatch.from_pydict({"id": [0]})])))
    tables = [message.table for message in sent if message.kind == "both"]
    assert sum(table.num_rows for table in tables) == 2_000
    assert {message.number for message in sent if message.kind == "both"} == {keyed[0].number}
    (whole_unit,) = (message for message in sent if message.kind == WHOLE)
    assert whole_unit.task == 0  # the longest is the first to be run
