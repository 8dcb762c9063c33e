"""Where a load is worked on, as far as it is decided before its rows are read."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dc_engine.detection.sources import read_changes
from dc_engine.engines.spark import is_large
from dc_engine.request import Changes

pytestmark = pytest.mark.xdist_group("spark")


@pytest.mark.parametrize("name", ["plain", "50% off, größer", "a+b %20"])
def test_large_files_that_are_read_whole_go_to_the_workers_at_once(spark: SparkSession, tmp_path: Path, name: str):
    path = str(tmp_path / name)
    spark.range(1_000).write.parquet(path)
    size = sum(one.stat().st_size for one in Path(path).glob("*.parquet"))
    source = Changes(path=path)
    rows = read_changes(spark, source)
    assert is_large(rows, source, size - 1)
    assert not is_large(rows, source, size)


def test_of_a_part_of_a_table_nobody_knows_beforehand(spark: SparkSession, tmp_path: Path):
    spark.range(1_000).write.parquet(str(tmp_path / "table"))
    part = Changes(path=str(tmp_path / "table"), where="id = 3")
    assert not is_large(read_changes(spark, part), part, 0)
    query = Changes(sql="select 1 as id")
    assert not is_large(read_changes(spark, query), query, 0)
