"""Where a load is worked on, as far as it is decided before its rows are read."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyspark
import pytest

from dc_engine.detection.fetched import Measured
from dc_engine.engines.spark import SparkEngine, is_large, is_small
from dc_engine.errors import SparkError
from dc_engine.request import Changes
from dc_engine.shipping import check_versions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHIPPED = pyspark.__version__


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two files of 100 bytes, and one in a folder below."""
    for name in ("a.parquet", "b.parquet", "below/c.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(bytes(100))
    return tmp_path


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_large_files_that_are_read_whole_go_to_the_workers_at_once(folder: Path, scheme: str):
    for path, size in ((folder, 200), (folder / "a.parquet", 100)):
        assert is_large(Changes(path=f"{scheme}{path}"), size - 1)
        assert not is_large(Changes(path=f"{scheme}{path}"), size)


@pytest.mark.parametrize(
    "source",
    [
        Changes(path="part of it", where="id = 3"),
        Changes(path="s3://lake/orders"),
        Changes(path="/not/there"),
        Changes(path="/day=*/*.parquet"),
        Changes(sql="select 1"),
        Changes(table="orders"),
    ],
    ids=str,
)
def test_of_all_else_nobody_knows_beforehand(source: Changes):
    assert not is_large(source, 0)
    assert not is_small(source, 10**9)


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_small_are_files_of_which_all_are_known(folder: Path, scheme: str):
    for path, size in ((folder / "below", 100), (folder / "a.parquet", 100)):
        assert is_small(Changes(path=f"{scheme}{path}"), size)
        assert not is_small(Changes(path=f"{scheme}{path}"), size - 1)
    assert not is_small(Changes(path=f"{scheme}{folder}"), 10**9), "nobody looks into folders"


@pytest.mark.parametrize("where", ["true", "id < 0"], ids=["rows", "no rows"])
def test_columns_are_the_same_and_have_as_much_whoever_brings_them(spark: SparkSession, tmp_path: Path, where: str):
    spark.sql(
        """select id, if(id % 3 = 0, null, repeat('ä', int(id))) as `a text`, cast(string(id) as binary) as `b.c`,
        null as void, cast(null as string) as none, date_add(date'2024-01-01', int(id)) as day, id % 2 = 0 as even,
        interval '3' month as months, timestamp'2024-05-01 12:00:00' as time from range(0, 50, 1, 4)"""
    ).where(where).createOrReplaceTempView("measured")
    source = Changes(sql="select * from measured")
    engines = [SparkEngine(lambda: spark, mode) for mode in ("local", "spark")]
    rows = engines[0].read(source, "table")
    types = engines[0].types(rows, source)
    one, other = (engine.fetch(rows, types, source) for engine in engines)
    assert list(one) == list(other) == list(types)
    assert {name: one[name].to_pylist() for name in one} == {name: other[name].to_pylist() for name in other}
    assert engines[0].measure(rows, types, source) == Measured.of(one) == Measured.of(other)
    assert Measured.of(one).rows == (0 if where == "id < 0" else 50)


class TestVersions:
    @pytest.mark.parametrize("version", [SHIPPED, f"{SHIPPED}-amzn-1", ".".join(SHIPPED.split(".")[:2]) + ".99"])
    def test_a_spark_that_was_tried_is_taken_whoever_packed_it(self, version: str):
        check_versions(SimpleNamespace(version=version))  # type: ignore[arg-type]

    @pytest.mark.parametrize("version", ["3.5.7", "4.3.0", "5.0.0-preview1", "unknown"])
    def test_any_other_is_refused_with_both_versions(self, version: str):
        engine = SparkEngine(lambda: SimpleNamespace(version=version))  # type: ignore[arg-type,return-value]
        with pytest.raises(SparkError) as caught:
            engine.read(Changes(path="/anything"))
        assert f"This Spark has version {version}, and the engine works on Spark 4.0 to 4.2" in str(caught.value)
        assert f"PySpark here: {SHIPPED}" in str(caught.value)

    def test_a_server_of_another_version_than_the_client_is_refused_with_both(self, monkeypatch: Any):
        monkeypatch.setattr(pyspark, "__version__", "4.0.2")
        server = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session", "version": "4.1.3"})()
        with pytest.raises(SparkError) as caught:
            check_versions(server)
        assert "The Spark Connect server has version 4.1.3, and the PySpark that talks to it has version 4.0.2" in str(
            caught.value
        )
        assert "pip install 'pyspark==4.1.*' 'pyspark-client==4.1.*'" in caught.value.hint
