"""What the docs say of Spark's ANSI mode is so: comparisons that rules allow do not depend on it, casts do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from dc_engine.detection.sources import spark_errors

pytestmark = pytest.mark.xdist_group("spark")

ALLOWED = [
    "tinyint(1) = bigint(1)",
    "int(2147483647) < bigint(2147483648)",
    "bigint(9223372036854775807) = cast('9223372036854775807' as decimal(38,18))",
    "cast('99999999999999999999999999999999999999' as decimal(38,0)) > cast('0.5' as decimal(38,38))",
    "float('0.1') = double('0.1')",
    "double('NaN') = float('NaN')",
    "double('NaN') > double('1e308')",
    "double('-0.0') = double('0.0')",
    "'Z' < 'a'",
    "date'2026-01-31' < date'2026-02-01'",
    "timestamp'2026-01-31 00:00:00' = timestamp'2026-01-31 01:00:00+01:00'",
    "interval '1' day = interval '24' hour",
    "array(1, null) < array(1, 2)",
    "struct(1, 'a') < struct(1, 'b')",
    "true > false",
    "X'00ff' < X'01'",
]
CASTS: dict[str, Any] = {
    "cast('abc' as int)": None,
    "cast('2026-02-30' as date)": None,
    "1/0": None,
    "cast('99999' as decimal(4,1))": None,
    "cast(300 as tinyint)": 44,
    "'a' = 1": None,
    "true = 1": True,
}


@pytest.fixture(params=["true", "false"])
def ansi(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[bool]:
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", request.param)
    yield request.param == "true"
    spark.conf.set("spark.sql.ansi.enabled", before)


def test_comparisons_that_rules_allow_have_one_outcome(spark: SparkSession, ansi: bool) -> None:
    found = spark.sql(f"select {', '.join(ALLOWED)}").collect()[0]
    expected = [one not in ("float('0.1') = double('0.1')",) for one in ALLOWED]
    assert list(found) == expected


@pytest.mark.parametrize("text", CASTS)
def test_what_needs_a_cast_fails_with_it_and_gives_a_value_without(spark: SparkSession, ansi: bool, text: str) -> None:
    if ansi:
        with pytest.raises(PySparkException):
            spark.sql(f"select {text}").collect()
    else:
        assert spark.sql(f"select {text}").collect()[0][0] == CASTS[text]


def test_a_field_that_does_not_fit_is_null_in_either_mode(spark: SparkSession, ansi: bool, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("1,2026-02-30\nx,2026-01-01\n")
    rows = spark.read.schema("a int, b date").csv(str(tmp_path)).collect()
    assert [(row["a"], row["b"] is None) for row in rows] == [(1, True), (None, False)]
    with pytest.raises(spark_errors(), match="MALFORMED_RECORD_IN_PARSING"):
        spark.read.schema("a int, b date").option("mode", "FAILFAST").csv(str(tmp_path)).collect()
