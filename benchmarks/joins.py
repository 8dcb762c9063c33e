"""The same counts without a gate: each rule as a Spark SQL join of the new rows against the cached table.

The plain form that serves Spark best: equalities as join keys, the new rows broadcast, and new rows against old ones
apart from new rows against each other (a union of both on one side was slower).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

BODIES = {
    "phi7": "t.area_code = s.area_code and t.phone = s.phone",
    "phi8": "t.zip = s.zip and t.city != s.city",
    "phi9": "t.state = s.state and t.has_child = s.has_child and t.child_exemp != s.child_exemp",
    "phi10": "t.state = s.state and ((t.salary > s.salary and t.rate < s.rate)"
    " or (s.salary > t.salary and s.rate < t.rate))",
}
_QUERY = """
    select (select /*+ broadcast(t) */ count(*) from new t join old s on {body})
         + (select /*+ broadcast(t) */ count(*) from new t join new s on {body} and s.id < t.id)
"""


def cache_old(spark: SparkSession, files: Sequence[Path]) -> DataFrame:
    """The table before the load, in memory."""
    old = spark.read.parquet(*map(str, files)).cache()
    old.count()
    old.createOrReplaceTempView("old")
    return old


def count_by_joins(spark: SparkSession, load: Path) -> dict[str, int]:
    """The new violations of each rule."""
    spark.read.parquet(str(load)).createOrReplaceTempView("new")
    return {rule: spark.sql(_QUERY.format(body=body)).first()[0] for rule, body in BODIES.items()}
