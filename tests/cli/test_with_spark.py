"""Commands that read rows with Spark, in the session that the tests share."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from pyspark.sql import SparkSession

from dc_engine.cli.sample import sample_types
from dc_engine.cli.session import Sessions
from dc_engine.detection.comparable import family
from dc_engine.detection.sources import column_types, read_changes
from dc_engine.request import read_source
from dc_engine.table_files import source_of
from tests.cli.conftest import Dcgate

pytestmark = pytest.mark.xdist_group("spark")
ROWS = [f"{number},{number % 7},{'abcdefg'[number % 7]},2026-01-{number % 28 + 1:02d}\n" for number in range(1, 200)]


@pytest.fixture
def on_spark(dcgate: Dcgate, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Dcgate:
    monkeypatch.setattr(Sessions, "start", lambda _: spark)
    return dcgate


def test_from_an_unknown_table_to_a_load_that_passes_and_one_that_does_not(on_spark: Dcgate, folder: Path) -> None:
    parts = str(folder / "parts.csv")
    Path(parts).write_text("id,zip,city,day\n" + "".join(ROWS))
    found = on_spark("discover", "--table", parts, "--suggest", "new.yml", "--exclude", "day")
    assert found.code == 0
    assert "rules written to new.yml" in found.out
    written = yaml.safe_load((folder / "new.yml").read_text())["constraints"]
    assert "zip_decides_city" in {one["name"] for one in written}
    assert "is there already" in on_spark("discover", "--table", parts, "--suggest", "new.yml").err
    assert on_spark("check", "new.yml", "--sample", parts).code == 0

    rules = ["--state", "parts", "--constraints", "new.yml"]
    assert on_spark("apply", *rules, "--changes", parts, "--load-id", "1").code == 0
    (folder / "more.csv").write_text("id,zip,city,day\n900,3,nowhere,2026-01-01\n")
    request = {"changes": source_of(str(folder / "more.csv")), "load_id": "2", "rejected_load": "discard"}
    (folder / "load.json").write_text(json.dumps(request))
    failed = on_spark("apply", *rules, "--request", "load.json", "--json")
    verdict = json.loads(failed.out)
    assert (failed.code, verdict["decision"], verdict["discarded"]) == (1, "fail", True)
    assert on_spark("show", "2", "--state", "parts").code == 1
    again = on_spark("apply", *rules, "--request", "load.json")
    assert again.out.endswith("Its rows are not in the state. Mend them, and apply them under the same load id.\n")

    kept = on_spark("discover", "--state", "parts", "--json")
    assert {"zip -> city", "city -> zip"} & {one["text"] for one in json.loads(kept.out)["dependencies"]}
    assert on_spark("verify", "--state", "parts", "--table", parts).code == 0


def test_rules_are_read_before_spark_is_started(dcgate: Dcgate, folder: Path) -> None:
    (folder / "bad.yml").write_text("version: 1\n")
    rows = ["--changes", "orders.csv", "--load-id", "x"]
    assert "'table' is missing" in dcgate("apply", "--state", "s", "--constraints", "bad.yml", *rows).err
    assert not (folder / "s").exists()


def test_a_sample_that_needs_spark_is_read_by_it(on_spark: Dcgate, folder: Path) -> None:
    said = ["--option", "header=false", "--schema", "id INT, customer STRING, amount DECIMAL(5,2)", "--spark"]
    done = on_spark("check", "rules.yml", "--sample", f"{folder}/orders.csv", *said)
    assert done.out.endswith(f"They fit {folder}/orders.csv: id int, customer string, amount decimal(5,2)\n")


def test_types_of_samples_are_those_that_spark_finds(spark: SparkSession, tmp_path: Path) -> None:
    moment = datetime(2026, 1, 1, 12, 30)
    table = pa.table(
        {
            "int8": pa.array([1], pa.int8()),
            "int16": pa.array([1], pa.int16()),
            "int32": pa.array([1], pa.int32()),
            "int64": pa.array([1], pa.int64()),
            "uint8": pa.array([1], pa.uint8()),
            "uint16": pa.array([1], pa.uint16()),
            "uint32": pa.array([1], pa.uint32()),
            "uint64": pa.array([1], pa.uint64()),
            "single": pa.array([1.5], pa.float32()),
            "double": pa.array([1.5], pa.float64()),
            "text": pa.array(["a"]),
            "long text": pa.array(["a"], pa.large_string()),
            "bytes": pa.array([b"a"]),
            "yes": pa.array([True]),
            "day": pa.array([date(2026, 1, 1)]),
            "money": pa.array([Decimal("1.50")], pa.decimal128(10, 2)),
            "zoned": pa.array([moment], pa.timestamp("us", "UTC")),
            "local": pa.array([moment], pa.timestamp("us")),
            "list": pa.array([[1]], pa.list_(pa.int32())),
            "map": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32())),
            "struct": pa.array([{"a": 1, "b": "x"}], pa.struct([("a", pa.int32()), ("b", pa.string())])),
            "word": pa.array(["a"]).dictionary_encode(),
            "view": pa.array(["a"], pa.string_view()),
            "lasted": pa.array([1], pa.duration("us")),
            "pair": pa.array([[1, 2]], pa.list_(pa.int32(), 2)),
            "nothing": pa.array([None]),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    pq.write_table(table, tmp_path / "part.parquet")
    (tmp_path / "folder").mkdir()
    (tmp_path / "part.parquet").rename(tmp_path / "folder" / "part.parquet")
    cells = {"n": "1", "d": "1.5", "t": "x", "day": "2026-01-01", "at": "2026-01-01 10:00:00", "b": "true", "no": ""}
    (tmp_path / "a.csv").write_text(f"{','.join(cells)}\n{','.join(cells.values())}\n")
    (tmp_path / "b.tsv").write_text('a\tb\n1\t"x\ny"\n')
    (tmp_path / "a.jsonl").write_text(
        '{"n": 1, "d": 1.5, "at": "2026-01-01 10:00:00", "l": [1], "s": {"a": 1}, "no": null}\n'
    )
    for name in ("a.parquet", "folder"):
        source = read_source("sample", source_of(str(tmp_path / name)))
        assert sample_types(source) == column_types(read_changes(spark, source), source)
    for name in ("a.csv", "b.tsv", "a.jsonl"):
        source = read_source("sample", source_of(str(tmp_path / name)))
        theirs = column_types(read_changes(spark, source), source)
        assert {one: family(kind) for one, kind in sample_types(source).items()} == {
            one: family(kind) for one, kind in theirs.items()
        }
