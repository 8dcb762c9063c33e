"""Which Parquet files are read without Spark, and in which parts."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.engines.direct import Reading, columns_here
from dc_engine.engines.files import Files, NotPlainError, Share, plain_parquet
from dc_engine.engines.reach import NONE, Schemes, later, threads_of
from dc_engine.errors import ChangesError
from dc_engine.request import Changes
from dc_engine.sizes import other_sizes


def schemes(command: list[str], environment: dict[str, str]) -> Schemes | None:
    """What is known of a Spark before it is started."""
    return later(lambda: pytest.fail("Spark is started"), command, environment).schemes


HERE = schemes(["--master", "local[2]"], {}) or NONE
ROWS = pa.table({"id": [1, 2, 3], "text": ["a", None, "c"]})
OLD = [{"legacyDateTime": ""}, {"legacyINT96": ""}, {"version": "2.4.8"}, {"version": "10.0.0"}]
"""Spark compares versions as texts."""
SPARK_SCHEMA = "org.apache.spark.sql.parquet.row.metadata"


def read(path: Path | str, **more: Any) -> Files:
    return plain_parquet(Changes(path=str(path), **more), HERE)


def refused(path: Path | str, **more: Any) -> str:
    with pytest.raises(NotPlainError) as caught:
        read(path, **more)
    return str(caught.value)


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    def write(rows: pa.Table, name: str = "rows.parquet", **options: Any) -> Path:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, tmp_path / name, **options)
        return tmp_path / name

    return write


def with_facts(rows: pa.Table, **facts: str) -> pa.Table:
    return rows.replace_schema_metadata({f"org.apache.spark.{name}": one for name, one in facts.items()})


class TestWhatIsPlain:
    def test_a_file_and_a_folder_of_files_are(self, written: Callable[..., Path], tmp_path: Path, monkeypatch: Any):
        path = written(ROWS, "table/a.parquet")
        written(ROWS.slice(0, 1), "table/b.parquet")
        (tmp_path / "table" / "_SUCCESS").touch()
        (tmp_path / "table" / ".a.parquet.crc").touch()
        monkeypatch.chdir(tmp_path)
        assert read(path).types == {"id": "bigint", "text": "string"}
        for folder in (tmp_path / "table", f"file://{tmp_path}/table", f"file:{tmp_path}/table", "table"):
            assert read(folder).rows == 4

    @pytest.mark.parametrize(
        ("kind", "spark_type"),
        [
            (pa.bool_(), "boolean"),
            (pa.int8(), "tinyint"),
            (pa.int16(), "smallint"),
            (pa.int32(), "int"),
            (pa.int64(), "bigint"),
            (pa.float32(), "float"),
            (pa.float64(), "double"),
            (pa.string(), "string"),
            (pa.large_string(), "string"),
            (pa.date32(), "date"),
            (pa.timestamp("us", "UTC"), "timestamp"),
            (pa.timestamp("ms", "Europe/Berlin"), "timestamp"),
            (pa.decimal128(5, 2), "decimal(5,2)"),
            (pa.decimal128(38, 0), "decimal(38,0)"),
        ],
        ids=str,
    )
    def test_columns_have_the_types_that_spark_gives_them(
        self, written: Callable[..., Path], kind: pa.DataType, spark_type: str
    ):
        assert read(written(pa.table({"a": pa.array([None], kind)}))).types == {"a": spark_type}

    @pytest.mark.parametrize(
        "kind",
        [
            pa.uint8(),
            pa.uint32(),
            pa.uint64(),
            pa.float16(),
            pa.binary(),
            pa.timestamp("us"),
            pa.timestamp("ns", "UTC"),
            pa.time64("us"),
            pa.duration("us"),
            pa.decimal256(40, 2),
            pa.list_(pa.int32()),
            pa.struct([("b", pa.int32())]),
            pa.dictionary(pa.int32(), pa.string()),
        ],
        ids=str,
    )
    def test_any_other_type_is_left_to_spark(self, written: Callable[..., Path], kind: pa.DataType):
        rows = pa.table({"a": pa.array([None], kind), "b": [1]})
        assert "column" in refused(written(rows))

    def test_times_of_96_bits_are_plain_if_spark_wrote_them(self, written: Callable[..., Path]):
        rows = pa.table({"a": pa.array([None], pa.timestamp("us"))})
        old = {"use_deprecated_int96_timestamps": True}
        assert "96 bits" in refused(written(rows, **old))
        assert read(written(with_facts(rows, version="4.0.0"), **old)).types == {"a": "timestamp"}
        assert "old calendar" in refused(written(with_facts(rows, version="3.0.3"), **old))

    @pytest.mark.parametrize("seconds", [-62_135_596_800, 253_402_300_799])
    @pytest.mark.parametrize("beyond", [0, 1, 86_400, 200_000_000_000])
    def test_but_not_far_from_today(self, written: Callable[..., Path], seconds: int, beyond: int):
        at = seconds + (beyond if seconds > 0 else -beyond)
        rows = with_facts(pa.table({"a": pa.array([None, 0, at], pa.timestamp("s"))}), version="4.0.0")
        path = written(rows, use_deprecated_int96_timestamps=True)
        assert read(path).rows == 3 if not beyond else "outside of the years 1 to 9999" in refused(path)

    @pytest.mark.parametrize("facts", OLD, ids=str)
    def test_old_calendars_are_left_to_spark(self, written: Callable[..., Path], facts: dict[str, str]):
        assert "old calendar" in refused(written(with_facts(ROWS, **facts)))

    @pytest.mark.parametrize(
        ("text", "plain"),
        [
            ({"type": "string", "metadata": {}}, True),
            ({"type": "string", "metadata": {"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}}, False),
            ({"type": {"type": "udt"}, "metadata": {}}, False),
            ({"type": "binary", "metadata": {}}, False),
            ({}, False),
        ],
        ids=str,
    )
    def test_what_spark_says_of_its_own_file_counts(self, written: Callable[..., Path], text: Any, plain: bool):
        fields = [{"name": "id", "type": "long", "metadata": {}}, {"name": "text", **text}]
        told = json.dumps({"type": "struct", "fields": fields})
        path = written(ROWS.replace_schema_metadata({SPARK_SCHEMA: told}))
        assert read(path).rows == 3 if plain else "other types" in refused(path)

    @pytest.mark.parametrize("names", [["a", "A"], ["a", "b.c"], ["a", ""]], ids=str)
    def test_names_that_could_be_mistaken_are_left_to_spark(self, written: Callable[..., Path], names: list[str]):
        assert "column" in refused(written(pa.table([pa.array([1]), pa.array([2])], names=names)))

    def test_so_are_names_that_are_no_text(self, written: Callable[..., Path]):
        path = written(pa.table({"id": [1], "nameX": [1]}), store_schema=False)
        path.write_bytes(path.read_bytes().replace(b"nameX", b"name\xff"))
        assert "cannot be read" in refused(path)

    def test_a_way_up_may_lead_elsewhere_behind_a_link(self, written: Callable[..., Path], tmp_path: Path):
        written(ROWS)
        written(ROWS, "deep/rows.parquet")
        (tmp_path / "deep" / "er").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "deep" / "er")
        assert "path" in refused(f"{tmp_path}/link/../rows.parquet")

    def test_files_that_differ_are_left_to_spark(self, written: Callable[..., Path], tmp_path: Path):
        written(ROWS, "table/a.parquet")
        written(ROWS.select(["text", "id"]), "table/b.parquet")
        assert "differ" in refused(tmp_path / "table")

    @pytest.mark.parametrize(
        "name", ["day=1/a.parquet", "below/a.parquet", "_metadata", "_common_metadata", "_a=b.parquet", "no.parquet"]
    )
    def test_folders_with_anything_else_are_left_to_spark(
        self, written: Callable[..., Path], tmp_path: Path, name: str
    ):
        written(ROWS, "table/rows.parquet")
        other = tmp_path / "table" / name
        other.parent.mkdir(exist_ok=True)
        other.write_text("PAR1 but not Parquet PAR1")
        assert refused(tmp_path / "table")

    def test_what_is_not_there_is_left_to_spark(self, tmp_path: Path):
        (tmp_path / "empty").mkdir()
        assert refused(tmp_path / "empty")
        assert refused(tmp_path / "nothing.parquet")

    @pytest.mark.parametrize(
        "more",
        [{"options": {"mergeSchema": "true"}}, {"schema": "id BIGINT"}, {"where": "id = 1"}],
        ids=str,
    )
    def test_whatever_else_is_asked_for_is_spark_s(self, written: Callable[..., Path], more: dict[str, Any]):
        assert refused(written(ROWS), **more)

    def test_of_other_sources_nobody_expects_it(self):
        for source in (Changes(path="/rows", format="csv"), Changes(sql="select 1"), Changes(table="rows")):
            with pytest.raises(NotPlainError, match=r"^$"):
                plain_parquet(source, HERE)

    @pytest.mark.parametrize("path", ["s3://lake/rows", "hdfs:///rows", "file://host/rows", "/a/*.parquet", "/a%20b"])
    def test_only_plain_paths_of_this_disk_are_looked_at(self, path: str):
        assert "path" in refused(path)

    def test_a_path_may_mean_another_disk(self, written: Callable[..., Path]):
        with pytest.raises(NotPlainError, match="another disk"):
            plain_parquet(Changes(path=str(written(ROWS))), frozenset({"file"}))

    def test_a_damaged_footer_does_not_end_the_process(self, written: Callable[..., Path]):
        """With each of its bytes changed in turn: what Arrow does not read is left to Spark, or said in a sentence."""
        path = written(ROWS, compression="zstd")
        process = multiprocessing.get_context("fork").Process(target=read_with_damage, args=(path,))
        process.start()
        process.join()
        assert process.exitcode == 0


def read_with_damage(path: Path) -> None:
    content = path.read_bytes()
    footer = int.from_bytes(content[-8:-4], "little")
    for place in range(len(content) - 8 - footer, len(content) - 8):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x4C]) + content[place + 1 :])
        with suppress(NotPlainError, ChangesError):
            columns_here(files := read(path), files.types, "table (rows)", ())


class TestReach:
    def test_a_spark_on_this_machine_is_known_before_it_is_started(self):
        submit = ["org.apache.spark.deploy.SparkSubmit", "--master", "local[2]", "--conf", "spark.ui.enabled=false"]
        assert schemes(submit, {}) == {"file", "", "."}

    @pytest.mark.parametrize(
        "command",
        [
            [],
            ["--master", "yarn"],
            ["--master", "local[2]", "--conf", "spark.master=yarn"],
            ["--master", "local[2]", "--conf", "spark.hadoop.fs.defaultFS=hdfs://a"],
            ["--master", "local[2]", "--conf", "spark.sql.parquet.datetimeRebaseModeInRead=LEGACY"],
            ["--master", "local[2]", "--properties-file", "my.conf"],
            ["--remote", "sc://host"],
        ],
        ids=" ".join,
    )
    def test_in_all_other_cases_the_session_is_asked(self, command: list[str]):
        assert schemes(command, {}) is None

    @pytest.mark.parametrize("name", ["HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH"])
    def test_so_it_is_where_hadoop_has_settings_of_its_own(self, name: str):
        assert schemes(["--master", "local"], {name: "/etc/hadoop"}) is None

    @pytest.mark.parametrize(
        ("name", "text"), [("core-site.xml", ""), ("spark-env.sh", ""), ("spark-defaults.conf", "spark.master yarn")]
    )
    def test_and_where_the_settings_of_this_spark_say_more(self, tmp_path: Path, name: str, text: str):
        assert schemes(["--master", "local"], {"SPARK_CONF_DIR": str(tmp_path)}) is not None
        (tmp_path / name).write_text(text)
        assert schemes(["--master", "local"], {"SPARK_CONF_DIR": str(tmp_path)}) is None

    @pytest.mark.parametrize(
        ("master", "threads"), [("local", 1), ("local[3]", 3), ("local[3,2]", 3), ("local[*]", None)]
    )
    def test_a_local_master_says_how_many_threads_there_are(self, master: str, threads: int | None):
        assert threads_of(master) == threads


class TestShares:
    @given(
        groups=st.lists(st.tuples(st.integers(0, 50), st.integers(0, 10_000)), max_size=8), aim=st.integers(1, 4_000)
    )
    def test_every_row_is_in_one_share_and_in_its_order(self, groups: list[tuple[int, int]], aim: int):
        whole = [(Share("a", place, 0, rows, rows), size) for place, (rows, size) in enumerate(groups)]
        with other_sizes(group_bytes=aim, staged_bytes=aim):
            shares = Files({}, tuple(whole), 0).shares()
        found = [(one.group, row) for own in shares for one in own for row in range(one.first, one.first + one.rows)]
        assert found == [(place, row) for place, (rows, _) in enumerate(groups) for row in range(rows)]
        assert all(shares) or shares == [[]]

    @given(group=st.integers(1, 60), at_once=st.integers(1, 900))
    def test_rows_are_the_same_however_they_are_cut(
        self, tmp_path_factory: pytest.TempPathFactory, group: int, at_once: int
    ):
        rows = pa.table({"id": range(100), "text": [str(place) * (place % 5) or None for place in range(100)]})
        path = tmp_path_factory.mktemp("cut") / "rows.parquet"
        pq.write_table(rows, path, row_group_size=group)
        files = read(path)
        with other_sizes(group_bytes=at_once, staged_bytes=at_once):
            shares = [one for own in files.shares() for one in own]
            found = pa.Table.from_batches(Reading(files.types, "rows")(shares))
        assert found.to_pylist() == rows.to_pylist()

    def test_a_file_that_changes_meanwhile_is_refused(self, written: Callable[..., Path]):
        files = read(written(ROWS))
        written(ROWS.slice(0, 2))
        with pytest.raises(ChangesError, match="has changed meanwhile"):
            columns_here(files, files.types, "table (rows)", ())

    def test_a_file_that_went_away_is_a_sentence(self, written: Callable[..., Path]):
        path = written(ROWS)
        files = read(path)
        path.unlink()
        with pytest.raises(ChangesError, match=r"The table \(rows\) cannot be read: .*rows.parquet"):
            columns_here(files, files.types, "table (rows)", ())

    def test_a_masked_value_is_in_no_error(self, written: Callable[..., Path]):
        path = written(pa.table({"a": pa.array([2**62], pa.timestamp("ms", "UTC"))}))
        files = read(path)
        with pytest.raises(ChangesError) as caught:
            columns_here(files, files.types, "table (rows)", ["a"])
        assert str(2**62) not in str(caught.value)

    def test_a_number_with_too_many_digits_is_refused(self, written: Callable[..., Path]):
        """As it stands in the file: another program may have written more digits than the type has."""
        wide = pa.array([Decimal("123.45")], pa.decimal128(5, 2))
        narrow = pa.Array.from_buffers(pa.decimal128(3, 2), 1, wide.buffers())
        files = read(written(pa.table({"a": narrow}), store_decimal_as_integer=True))
        with pytest.raises(ChangesError, match="cannot be read"):
            columns_here(files, files.types, "table (rows)", ())
