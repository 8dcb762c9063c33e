"""The least and the greatest value of every type, through rules, samples, keys and deletes on real Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from dc_engine.apply_load import apply_load
from dc_engine.detection.shown import MOST_OF_VERDICT
from dc_engine.errors import ChangesError, SchemaError
from dc_engine.verdict import Verdict
from tests.conftest import HAS_SHAPES, HAS_TIMES

pytestmark = pytest.mark.xdist_group("spark")

MICROS = ("timestamp_micros(-9223372036854775808)", "timestamp_micros(9223372036854775807)")
DAYS = ("date_from_unix_date(-2147483648)", "date_from_unix_date(2147483647)", "date '-0001-12-31'")
NINES = "9" * 38
PLAIN: dict[str, tuple[str, ...]] = {
    "tinyint": ("-128y", "127y"),
    "smallint": ("-32768s", "32767s"),
    "int": ("-2147483648", "2147483647"),
    "bigint": ("bigint('-9223372036854775808')", "9223372036854775807l"),
    "float": ("float('-inf')", "float('nan')", "float(-0.0)", "float(1e-45)"),
    "double": ("double('-inf')", "double('nan')", "-0.0d", "4.9e-324d", "1.7976931348623157e308d"),
    "whole": (f"-{NINES}bd", f"{NINES}bd"),
    "fraction": (f"-0.{NINES}bd", "cast('1e-38' as decimal(38,38))", f"0.{NINES}bd"),
    "string": ("''", "string(X'00')", "string(X'61ff62')", "string(X'eda080')", "repeat('x', 3000)"),
    "binary": ("X''", "X'00'", "X'ff'", "cast(repeat('x', 3000) as binary)"),
    "boolean": ("false", "true"),
    "date": DAYS,
    "timestamp": MICROS,
    "timestamp_ntz": tuple(f"cast({one} as timestamp_ntz)" for one in MICROS),
    "years": ("interval '-178956970' year", "interval '178956970' year"),
    "months": ("interval '-2147483647' month", "interval '2147483647' month"),
    "years_and_months": ("interval '-178956970-7' year to month", "interval '178956970-7' year to month"),
    "days": ("interval '-106751991' day", "interval '106751991' day"),
    "hours": ("interval '-5' hour", "interval '2562047788' hour"),
    "minutes": ("interval '-5' minute", "interval '153722867280' minute"),
    "seconds": ("interval '-0.000001' second", "interval '9223372036854.775807' second"),
    "days_to_seconds": (
        "interval '-106751991 04:00:54.775807' day to second",
        "interval '106751991 04:00:54.775807' day to second",
    ),
}
if HAS_TIMES:
    PLAIN["time"] = ("time '00:00:00'", "time '23:59:59.999999'")
INSIDE = [name for name in PLAIN if name not in ("years", "months", "years_and_months")]
VALUES = (
    PLAIN
    | {f"array_{name}": tuple(f"array({one}, null)" for one in PLAIN[name]) for name in INSIDE}
    | {f"struct_{name}": tuple(f"named_struct('x', array({one}))" for one in PLAIN[name]) for name in INSIDE}
)
REFUSED = {
    "map": "map(1, 2)",
    "calendar": "make_interval(1, 2)",
    "variant": "parse_json('1')",
    "collated": "'a' collate utf8_lcase",
    "fieldless": "struct()",
}
if HAS_SHAPES:
    REFUSED["geometry"] = "st_geomfromwkb(X'0101000000000000000000F03F0000000000000040')"


@pytest.fixture
def spark_with_times(spark: SparkSession) -> Iterator[SparkSession]:
    spark.conf.set("spark.sql.timeType.enabled", "true")
    yield spark
    spark.conf.unset("spark.sql.timeType.enabled")


def extremes(places: range) -> str:
    """A table with a column of each type; each value comes again after a few rows, and NULLs between."""
    rows = []
    for place in places:
        columns = [
            f"{[*values, f'nullif({values[0]}, {values[0]})'][place % (len(values) + 1)]} as c_{name}"
            for name, values in VALUES.items()
        ]
        rows.append(f"select {place} as row_number, {', '.join(columns)}")
    return " union all ".join(rows)


def apply(spark: SparkSession, state: Path, load_id: str, sql: str, constraints: Any, **more: Any) -> Verdict:
    request = {"state": str(state), "load_id": load_id, "changes": {"sql": sql}, "constraints": constraints}
    return apply_load(spark, request | more)


def _pairs_in_sql(spark: SparkSession, table: str) -> list[int]:
    """How many pairs are equal, and in how many the earlier row is less, type after type: by a self-join."""
    counts = [f"count_if(t.c_{name} {op} s.c_{name})" for name in VALUES for op in ("=", "<")]
    spark.sql(table).cache().createOrReplaceTempView("extremes")
    try:
        joined = "extremes t join extremes s on t.row_number < s.row_number"
        return list(spark.sql(f"select {', '.join(counts)} from {joined}").collect()[0])
    finally:
        spark.table("extremes").unpersist()


def test_rules_over_extreme_values_count_what_spark_sql_counts_and_are_shown(
    spark_with_times: SparkSession, tmp_path: Path
) -> None:
    spark, rules = spark_with_times, []
    for name in VALUES:
        column = f"c_{name}"
        rules.append({"name": f"{name}_once", "unique": [column]})
        body = f"t.{column} < s.{column} and t.row_number < s.row_number"
        rules.append({"name": f"{name}_falls", "deny": body})
    constraints = {"version": 1, "table": "made_up", "constraints": rules}
    for load_id, places in (("one", range(4)), ("two", range(4, 7))):
        verdict = apply(spark, tmp_path, load_id, extremes(places), constraints)
    for found, expected in zip(verdict.constraints, _pairs_in_sql(spark, extremes(range(7))), strict=True):
        assert found.total_violations == expected, found.name
        assert bool(found.samples) == bool(found.new_violations)
    assert sum(bool(one.new_violations) for one in verdict.constraints) > len(VALUES)
    assert len(json.dumps(verdict.to_dict(), allow_nan=False).encode()) < MOST_OF_VERDICT


def test_rows_are_recognised_by_keys_of_extreme_values(spark_with_times: SparkSession, tmp_path: Path) -> None:
    key = ["row_number", *(f"c_{name}" for name in VALUES)]
    constraints = {"version": 1, "table": "made_up", "key": key, "constraints": [{"name": "r", "unique": key[:1]}]}
    sql = extremes(range(6))
    apply(spark_with_times, tmp_path, "one", sql, constraints)
    with pytest.raises(ChangesError, match="inserts 6 keys already present") as caught:
        apply(spark_with_times, tmp_path, "two", sql, constraints)
    assert len(caught.value.message) < 20_000
    deletes = f"select *, 'delete' as _change_type from ({sql}) where row_number > 0"
    assert apply(spark_with_times, tmp_path, "two", deletes, constraints).rows["total"] == 1


@pytest.mark.parametrize("nesting", ["{}", "array({})", "named_struct('x', {})"], ids=["plain", "array", "struct"])
@pytest.mark.parametrize("name", REFUSED)
def test_values_without_order_are_refused_with_their_column_and_type(
    spark: SparkSession, tmp_path: Path, name: str, nesting: str
) -> None:
    constraints = {"version": 1, "table": "made_up", "constraints": [{"name": "rule", "unique": ["odd"]}]}
    sql = f"select {nesting.format(REFUSED[name])} as odd"
    with pytest.raises(SchemaError) as caught:
        apply(spark, tmp_path, "one", sql, constraints)
    (field,) = spark.sql(sql).schema.fields
    assert f"column 'odd' of type {field.dataType.simpleString()}, and values of that" in caught.value.message


def test_types_without_order_are_no_matter_where_no_rule_reads_them(spark: SparkSession, tmp_path: Path) -> None:
    constraints = {"version": 1, "table": "made_up", "constraints": [{"name": "rule", "unique": ["a"]}]}
    odd = ", ".join(f"{value} as {name}, array({value}) as many_{name}" for name, value in REFUSED.items())
    apply(spark, tmp_path, "one", f"select 1 as a, {odd}", constraints)
    deletes = f"select 1 as a, {odd}, 'delete' as _change_type"
    assert apply(spark, tmp_path, "two", deletes, constraints).rows["total"] == 0


def test_a_struct_may_have_fields_called_like_types(spark: SparkSession, tmp_path: Path) -> None:
    constraints = {"version": 1, "table": "made_up", "constraints": [{"name": "rule", "unique": ["s"]}]}
    sql = "select named_struct('variant', 1, 'interval', 2, 'geometry', 3) as s from range(2)"
    assert apply(spark, tmp_path, "one", sql, constraints).constraints[0].new_violations == 1


def test_a_kind_of_change_that_is_no_text_is_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    constraints = {"version": 1, "table": "made_up", "constraints": [{"name": "rule", "unique": ["a"]}]}
    with pytest.raises(ChangesError, match=r"_change_type is 'a\\xffb'"):
        apply(spark, tmp_path, "one", "select 1 as a, string(X'61ff62') as _change_type", constraints)
    with pytest.raises(ChangesError, match="a column _change_type of type int32"):
        apply(spark, tmp_path, "one", "select 1 as a, 5 as _change_type", constraints)


def test_values_of_megabytes_make_a_small_verdict_and_complete_files(spark: SparkSession, tmp_path: Path) -> None:
    rule = {"name": "a_decides_text", "fd": "a -> text"}
    constraints = {"version": 1, "table": "made_up", "key": ["text"], "constraints": [rule]}
    sql = "select 1 as a, concat(id, repeat('é', 1000000)) as text from range(5)"
    verdict = apply(spark, tmp_path, "one", sql, constraints)
    (found,) = verdict.constraints
    assert (found.new_violations, len(found.samples), len(found.worst_rows)) == (10, 10, 5)
    assert found.samples[0]["t"]["values"]["text"].endswith("é… (1,000,001 characters in all)")
    assert len(json.dumps(verdict.to_dict()).encode()) < 500_000
    assert spark.read.parquet(found.violations).selectExpr("min(length(t.text))").collect()[0][0] == 1_000_001
    with pytest.raises(ChangesError) as caught:
        apply(spark, tmp_path, "two", sql, constraints)
    assert len(caught.value.message) < 5_000
