"""The job on real Spark counts what Spark SQL counts with a self-join, load after load."""

from __future__ import annotations

import random
from functools import reduce
from itertools import accumulate
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession, functions

from dc_engine.apply_load import apply_load
from dc_engine.constraints.files import to_mapping
from dc_engine.constraints.model import Constraint
from dc_engine.constraints.parser import parse_body
from tests.detection.strategies import KINDS, Case, cases
from tests.jobs.sql_oracle import count_violations

pytestmark = pytest.mark.xdist_group("spark")

_RULES = [
    "t.c0 = s.c0 and t.c1 != s.c1",
    "t.c0 = s.c1",
    "t.c3 < s.c4 and t.c0 != s.c2",
    "t.c5 <= s.c6 and t.c7 = s.c7",
    "t.c5 >= s.c5 and t.c7 < s.c7 and t.c9 != s.c9",
    "t.c7 = s.c7 and t.c8 != s.c8 and t.c9 = s.c9 and t.c10 <= s.c10",
    "t.c11 < s.c11 and t.c10 > s.c10 and t.c3 <= s.c3",
    "t.c12 = s.c12 and t.c13 = s.c13",
    "t.c13 < s.c13 and t.c0 < t.c1 and s.c5 > 0.05",
    "t.c0 <= t.c1 and t.c7 >= 'a'",
    "t.c10 < date '2026-01-03' and t.c11 >= timestamp '2026-01-01 00:00:00Z'",
    "t.c1 < s.c1 and t.c3 < s.c3 and t.c5 < s.c5 and t.c7 != s.c7",
]


def _check(spark: SparkSession, case: Case, folder: Path) -> None:
    tables = [
        case.table(rows).append_column("row_number", pa.array(range(first, first + len(rows)), pa.int64()))
        for rows, first in zip(case.loads, accumulate(map(len, case.loads), initial=0), strict=False)
    ]
    paths = []
    for number, table in enumerate(tables):
        paths.append(str(folder / f"load_{number}.parquet"))
        pq.write_table(table, paths[-1])
    constraints = to_mapping(case.constraint_set)
    for number, path in enumerate(paths):
        request = {"state": str(folder / "state"), "load_id": f"{number}", "changes": {"path": path}}
        engine = ("spark", "local")[number % 2]  # what one of them wrote, the other reads
        verdict = apply_load(spark, request | {"constraints": constraints, "engine": engine})
        seen = reduce(lambda one, other: one.unionByName(other), map(spark.read.parquet, paths[: number + 1]))
        seen.cache()
        for constraint, found in zip(case.constraints, verdict.constraints, strict=True):
            assert found.total_violations == count_violations(seen, constraint), constraint
        seen.unpersist()


def test_rules_over_every_type_count_what_spark_sql_counts(spark: SparkSession, tmp_path: Path) -> None:
    chance = random.Random(7)
    kinds = {f"c{place}": kind for place, kind in enumerate(KINDS)}
    loads = tuple(
        [{name: chance.choice([*kind.values, None]) for name, kind in kinds.items()} for _ in range(size)]
        for size in (40, 0, 25)
    )
    rules = tuple(
        Constraint(f"rule_{number}_{nulls}", "deny", (parse_body(text),), nulls=nulls)  # type: ignore[arg-type]
        for number, text in enumerate(_RULES)
        for nulls in ("ignore", "equal")
    )
    _check(spark, Case(kinds, rules, loads), tmp_path)


@settings(max_examples=4, derandomize=True)
@given(case=cases(most_rows=8), number=st.uuids())
def test_random_rules_count_what_spark_sql_counts(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, case: Case, number: object
) -> None:
    _check(spark, case, tmp_path_factory.mktemp(str(number)))


def test_the_oracle_itself_knows_nulls_and_nan(spark: SparkSession) -> None:
    rows = spark.sql(
        "select * from values (1, 'NaN'), (2, 'NaN'), (3, null), (4, null), (5, '1') as v(row_number, text)"
    ).withColumn("x", functions.expr("cast(text as double)"))
    equal = parse_body("t.x = s.x")
    assert count_violations(rows, Constraint("r", "deny", (equal,))) == 1
    assert count_violations(rows, Constraint("r", "deny", (equal,), nulls="equal")) == 2
    assert count_violations(rows, Constraint("r", "deny", (parse_body("t.x > s.x"),))) == 2
