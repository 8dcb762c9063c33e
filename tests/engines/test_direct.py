"""What is read without Spark is what Spark reads, to the last bit: values, types, hashes of rows, fingerprints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from dc_engine.apply_load import apply_load
from dc_engine.detection.row_hashes import row_hashes
from dc_engine.detection.staging import SALT, StagedLoad
from dc_engine.engines import spark as engine_module
from dc_engine.engines.base import Staging
from dc_engine.engines.files import Files
from dc_engine.engines.reach import later, schemes_of
from dc_engine.engines.spark import SparkEngine
from dc_engine.errors import ChangesError
from dc_engine.request import Changes
from dc_engine.sizes import other_sizes
from dc_engine.state.storage import Storage

NAN, INF = float("nan"), float("inf")
AT = datetime(1970, 1, 1, tzinfo=UTC)
TEXTS = st.one_of(st.text(max_size=9), st.text(st.sampled_from("aé0"), min_size=20, max_size=100))


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    edges = st.sampled_from([0, 1, -1, most, -most, most // 2, 127, 128, -128, -129, 2**31 % most, -(2**63) % most])
    return (edges | st.integers(-most, most)).map(lambda one: Decimal(one).scaleb(-scale, Context(40)))


def whole(bits: int) -> st.SearchStrategy[int]:
    return st.sampled_from([0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))]) | st.integers(
        -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    )


VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): whole(8),
    pa.int16(): whole(16),
    pa.int32(): whole(32),
    pa.int64(): whole(64),
    pa.float32(): st.sampled_from([0.0, -0.0, NAN, INF, -INF, 1.5, 1e-45]) | st.floats(width=32),
    pa.float64(): st.sampled_from([0.0, -0.0, NAN, INF, -INF, 1.5, 5e-324]) | st.floats(),
    pa.string(): TEXTS,
    pa.large_string(): TEXTS,
    pa.date32(): st.dates() | st.sampled_from([date(1, 1, 1), date(1582, 10, 10), date(9999, 12, 31)]),
    pa.timestamp("us", "UTC"): st.integers(-(2**55), 2**55).map(lambda one: AT + timedelta(microseconds=one)),
    pa.timestamp("ms", "Europe/Berlin"): st.integers(-(2**45), 2**45).map(lambda one: AT + timedelta(milliseconds=one)),
    pa.decimal128(4, 2): decimals(4, 2),
    pa.decimal128(9, 0): decimals(9, 0),
    pa.decimal128(18, 3): decimals(18, 3),
    pa.decimal128(19, 19): decimals(19, 19),
    pa.decimal128(38, 6): decimals(38, 6),
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Rows with a column of each type, in any order, NULLs between, and often an identical row."""
    kinds = draw(st.permutations(list(VALUES)))
    count = draw(st.integers(0, 12))
    arrays, fields = [], []
    for place, kind in enumerate(kinds):
        values = draw(st.lists(st.none() | VALUES[kind], min_size=count, max_size=count))
        name = draw(st.sampled_from(["a", "B", "a name", "ä", "a rather long name of more than 32 bytes, ä"]))
        arrays.append(pa.array(values, kind))
        fields.append(pa.field(f"{name} {place}", kind, nullable=None in values or draw(st.booleans())))
    rows = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
    return pa.concat_tables([rows, rows.slice(0, draw(st.integers(0, 3)))])


def staged(engine: SparkEngine, source: Changes, storage: Storage) -> tuple[StagedLoad, dict[str, str], bool]:
    rows = engine.read(source)
    types = engine.types(rows, source)
    load = engine.stage(rows, Staging(source, types, storage, 7, types))
    return load, types, isinstance(rows, Files)


def contents(storage: Storage, load: StagedLoad) -> tuple[list[pa.Schema], Counter[tuple[str, ...]]]:
    """The types of what was staged, and each row by what it prints as: NaN is not equal to itself."""
    files = [*load.inserts, *load.deletes]
    read = [pq.read_table(f"{storage.uri}/{file.path}") for file in files]
    rows = Counter(tuple(map(repr, row.values())) for table in read for row in _plain(table).to_pylist())
    return [table.schema for table in read], rows


def _plain(table: pa.Table) -> pa.Table:
    """Times as numbers, which Python may be unable to show, and texts as bytes."""
    kinds = {pa.timestamp("us", "UTC"): pa.int64(), pa.date32(): pa.int32(), pa.string(): pa.binary()}
    return table.cast(pa.schema([pa.field(one.name, kinds.get(one.type, one.type)) for one in table.schema]))


def both(spark: SparkSession, folder: Path, source: Changes) -> None:
    """Stage a source by Spark and without it: nothing may differ."""
    storage = Storage(str(folder / "state"), {})
    by_spark, types, _ = staged(SparkEngine(lambda: spark, "spark"), source, storage)
    direct, same_types, is_direct = staged(SparkEngine(lambda: spark, "local"), source, storage)
    assert is_direct
    assert list(same_types.items()) == list(types.items())
    assert direct.fingerprint == by_spark.fingerprint
    assert (direct.inserted, direct.deleted) == (by_spark.inserted, by_spark.deleted)
    (schemas, rows), (same_schemas, same_rows) = contents(storage, by_spark), contents(storage, direct)
    assert rows == same_rows
    assert len({str(one) for one in [*schemas, *same_schemas]}) <= 1


@pytest.mark.xdist_group("spark")
class TestWithSpark:
    @settings(max_examples=15, derandomize=True)
    @given(
        rows=tables(),
        options=st.fixed_dictionaries(
            {
                "use_dictionary": st.booleans(),
                "data_page_version": st.sampled_from(["1.0", "2.0"]),
                "store_decimal_as_integer": st.booleans(),
                "compression": st.sampled_from(["none", "snappy", "zstd", "gzip"]),
                "row_group_size": st.integers(1, 20),
            }
        ),
    )
    def test_staged_rows_hashes_and_fingerprints_are_the_same(
        self, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, rows: pa.Table, options: dict[str, Any]
    ):
        folder = tmp_path_factory.mktemp("direct")
        pq.write_table(rows, folder / "rows.parquet", **options)
        both(spark, folder, Changes(path=str(folder / "rows.parquet")))

    def test_so_they_are_in_files_that_spark_wrote_itself(self, spark: SparkSession, tmp_path: Path):
        """Its times have 96 bits, and its old dates the calendar of today."""
        times = (
            "timestamp'0001-01-01 00:00:00.000001', timestamp'1582-10-10 01:02:03', timestamp'9999-12-31 23:59:59.9'"
        )
        spark.sql(
            f"""select id, cast(id as tinyint) as tiny, cast(id as float) as real, string(id) as text,
            id % 2 = 0 as even, date_add(date'0001-01-01', int(id * 100000)) as day,
            get(array({times}), int(id % 4)) as time,
            cast(id as decimal(5,1)) as short, cast(id as decimal(30,10)) as wide from range(0, 40, 1, 3)"""
        ).write.parquet(str(tmp_path / "rows"))
        both(spark, tmp_path, Changes(path=f"file:{tmp_path}/rows"))

    def test_bytes_that_are_no_text_stay_as_they_are(self, spark: SparkSession, tmp_path: Path):
        odd = pa.array([b"a\xff\xfeb", b"\xed\xa0\x80", b"\x00", b"", None], pa.binary()).view(pa.string())
        pq.write_table(pa.table({"text": odd, "id": range(5)}), tmp_path / "rows.parquet")
        both(spark, tmp_path, Changes(path=str(tmp_path / "rows.parquet")))

    def test_changes_of_a_feed_are_told_apart(self, spark: SparkSession, tmp_path: Path):
        kinds = ["insert", "delete", "update_preimage", "update_postimage"]
        rows = pa.table({"id": [1, 2, 3, 3], "_Change_Type": kinds, "_commit_version": [7] * 4})
        pq.write_table(rows, tmp_path / "rows.parquet")
        both(spark, tmp_path, Changes(path=str(tmp_path / "rows.parquet")))

    def test_large_loads_are_read_by_tasks_and_are_the_same(
        self, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        (folder := tmp_path / "rows").mkdir()
        for name in "ab":
            rows = pa.table({"id": range(500), "text": [f"{name}{one % 9}" for one in range(500)]})
            pq.write_table(rows, folder / f"{name}.parquet")
        source, storage = Changes(path=str(folder)), Storage(str(tmp_path / "state"), {})
        monkeypatch.setattr(engine_module, "MOST_ROWS_HERE", 10)
        monkeypatch.setattr(engine_module, "is_local", lambda _: False)  # as on a cluster
        by_spark, *_ = staged(SparkEngine(lambda: spark, "spark"), source, storage)
        with other_sizes(group_bytes=2_000, staged_bytes=2_000):
            engine = SparkEngine(lambda: spark)
            assert len(engine.read(source).shares()) > 3
            direct, _, is_direct = staged(engine, source, storage)
        assert is_direct
        assert direct.fingerprint == by_spark.fingerprint
        assert contents(storage, direct)[1] == contents(storage, by_spark)[1]
        texts = [
            text for file in direct.inserts for text in pq.read_table(f"{storage.uri}/{file.path}")["text"].to_pylist()
        ]
        assert [text[0] for text in texts] == ["a"] * 500 + ["b"] * 500

    def test_a_session_says_whose_paths_it_means(self, spark: SparkSession, monkeypatch: pytest.MonkeyPatch):
        assert schemes_of(spark) == {"file", ""}
        monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
        assert schemes_of(spark) == {"file"}
        spark.conf.set("spark.sql.parquet.datetimeRebaseModeInRead", "LEGACY")
        try:
            assert schemes_of(spark) == set()
        finally:
            spark.conf.unset("spark.sql.parquet.datetimeRebaseModeInRead")

    @pytest.mark.parametrize("kind", ["fetch", "leave"])
    def test_columns_of_a_table_are_the_same_and_have_as_much(self, spark: SparkSession, tmp_path: Path, kind: str):
        rows = pa.table({"id": range(50), "text": [str(one) * (one % 3) or None for one in range(50)]})
        pq.write_table(rows, tmp_path / "rows.parquet")
        source = Changes(path=str(tmp_path / "rows.parquet"))
        direct, by_spark = (SparkEngine(lambda: spark, mode) for mode in ("auto", "spark"))
        files, frame = direct.read(source, "table"), by_spark.read(source, "table")
        types = {"TEXT": "string", "id": "bigint"}
        one, other = getattr(direct, kind)(files, types, source), getattr(by_spark, kind)(frame, types, source)
        assert {name: one[name].to_pylist() for name in one} == {name: other[name].to_pylist() for name in other}
        assert direct.measure(files, types, source) == by_spark.measure(frame, types, source)


def never() -> SparkSession:
    raise AssertionError("Spark is started")


LOCAL = later(never, ["--master", "local[2]"], {})

RULES = {"version": 1, "table": "people", "constraints": [{"name": "city", "fd": "zip -> city"}]}


@pytest.fixture
def request_of(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    def make(load_id: str, rows: pa.Table, **more: Any) -> dict[str, Any]:
        pq.write_table(rows, tmp_path / f"{load_id}.parquet")
        changes = {"path": str(tmp_path / f"{load_id}.parquet")}
        return {"state": str(tmp_path / "state"), "load_id": load_id, "changes": changes, "constraints": RULES, **more}

    return make


class TestWithoutSpark:
    def test_a_small_load_needs_no_session(self, request_of: Callable[..., dict[str, Any]], caplog: Any):
        caplog.set_level("INFO")
        spark = LOCAL
        first = apply_load(spark, request_of("1", pa.table({"zip": ["1", "2"], "city": ["a", "b"]})))
        second = apply_load(spark, request_of("2", pa.table({"zip": ["1", "2"], "city": ["a", "c"]})))
        assert (first.decision, second.decision) == ("pass", "fail")
        assert "2 rows, read without Spark" in caplog.text
        again = apply_load(spark, request_of("2", pa.table({"zip": ["2", "1"], "city": ["c", "a"]})))
        assert again.replayed

    def test_nor_does_it_import_what_takes_long(self, request_of: Callable[..., dict[str, Any]], tmp_path: Path):
        asked, result = tmp_path / "request.json", tmp_path / "result.json"
        asked.write_text(json.dumps(request_of("1", pa.table({"zip": ["1", "1"], "city": ["a", "b"]}))))
        script = (
            "import sys; from dc_engine.apply_load import main; main(sys.argv[1:]);"
            "assert not {'pyspark', 'py4j', 'numba', 'pandas'} & set(sys.modules)"
        )
        plain = {name: value for name, value in os.environ.items() if "SPARK" not in name and "HADOOP" not in name}
        command = [sys.executable, "-c", script, "--request", str(asked), "--result", str(result)]
        subprocess.run(command, env=plain, check=True)
        assert json.loads(result.read_text())["decision"] == "fail"

    def test_nor_does_a_large_one_on_this_machine_whose_messages_wait_on_the_disk(
        self, request_of: Callable[..., dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr(engine_module, "MOST_ROWS_HERE", 10)
        rows = pa.table({"zip": [str(one % 40) for one in range(500)], "city": [str(one % 41) for one in range(500)]})
        expected = apply_load(LOCAL, request_of("1", rows))
        cut = {"held_bytes": 1_000, "group_bytes": 500, "staged_bytes": 500, "unit_rows": 20, "probe_rows": 100}
        with other_sizes(**cut, staged_group=30):
            verdict = apply_load(LOCAL, request_of("2", rows, state=str(tmp_path / "other")))
        assert [one.total_violations for one in verdict.constraints] == [
            one.total_violations for one in expected.constraints
        ]

    def test_whoever_asks_for_spark_gets_it(self, request_of: Callable[..., dict[str, Any]]):
        request = request_of("1", pa.table({"zip": ["1"], "city": ["a"]}), engine="spark")
        with pytest.raises(AssertionError, match="Spark is started"):
            apply_load(LOCAL, request)

    def test_a_column_that_deletes_leave_out_is_null(self, tmp_path: Path):
        pq.write_table(pa.table({"id": [1]}), tmp_path / "rows.parquet")
        source, storage = Changes(path=str(tmp_path / "rows.parquet")), Storage(str(tmp_path / "state"), {})
        engine = SparkEngine(LOCAL)
        columns = {"id": "bigint", "text": "string", "price": "decimal(9,2)"}
        load = engine.stage(engine.read(source), Staging(source, {"id": "bigint"}, storage, 1, columns))
        (file,) = load.inserts
        rows = pq.read_table(tmp_path / "state" / file.path)
        assert rows.select(["id", "text", "price"]).to_pylist() == [{"id": 1, "text": None, "price": None}]
        assert rows.schema.field("price").type == pa.decimal128(9, 2)
        nested = Staging(source, {"id": "bigint"}, storage, 1, {"id": "bigint", "tags": "array<string>"})
        with pytest.raises(AssertionError, match="Spark is started"):
            engine.stage(engine.read(source), nested)

    def test_damage_in_the_rows_is_a_sentence_and_leaves_nothing(
        self, request_of: Callable[..., dict[str, Any]], tmp_path: Path
    ):
        request = request_of("1", pa.table({"zip": ["1" * 500], "city": ["a"]}))
        path = tmp_path / "1.parquet"
        content = path.read_bytes()
        path.write_bytes(content[:4] + bytes(60) + content[64:])
        with pytest.raises(ChangesError, match=r"The changes \(parquet at .*1.parquet\) cannot be read: "):
            apply_load(LOCAL, request)
        assert not list((tmp_path / "state").rglob("*.parquet"))

    def test_the_hash_of_a_row_is_part_of_the_format(self):
        """The number that Spark gives the same row, in any order of the columns."""
        row = {"id": pa.array([1]), "boss": pa.array([None], pa.string()), "zip": ["10115"], "city": ["Berlin"]}
        row |= {"salary": pa.array([90], pa.int32()), "Name": ["Ada"], "_commit_version": [3]}
        for names in (list(row), list(row)[::-1]):
            batch = pa.RecordBatch.from_pydict({name: row[name] for name in names})
            assert row_hashes(batch, SALT).tolist() == [-4453929884303617916]

    @given(first=st.integers(0, 30), rows=st.integers(0, 30))
    def test_a_hash_does_not_depend_on_the_rows_around(self, first: int, rows: int):
        table = pa.RecordBatch.from_pydict(
            {"a": [None, 1, 2] * 10, "b": ["x" * place for place in range(30)], "c": [True, None, False] * 10}
        )
        assert (
            row_hashes(table.slice(first, rows), "s").tolist() == row_hashes(table, "s").tolist()[first : first + rows]
        )
