"""Messages reach the tasks that they name, on every version of Spark."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from dc_engine.engines.dealing import dealt, keys_of, spark_hash

pytestmark = pytest.mark.xdist_group("spark")


def test_the_hash_is_that_of_spark(spark: SparkSession) -> None:
    numbers = np.random.default_rng(7).integers(-(2**31), 2**31, 10_000)
    edges = np.array([0, 1, -1, 2**31 - 1, -(2**31)])
    for some in (numbers, edges, np.arange(5_000)):
        rows = spark.createDataFrame([(number,) for number in some.tolist()], "number int")
        assert [row[0] for row in rows.selectExpr("hash(number)").collect()] == spark_hash(some).tolist()


@given(st.integers(1, 3_000))
def test_each_task_has_a_key_of_its_own_that_leads_to_it(tasks: int) -> None:
    keys = keys_of(tasks)
    assert [int(one) % tasks for one in spark_hash(np.array(keys))] == list(range(tasks))


@pytest.mark.parametrize("tasks", [1, 2, 7, 100])
def test_a_message_is_in_the_partition_of_its_task(spark: SparkSession, tasks: int) -> None:
    messages = spark.range(3 * tasks).selectExpr(f"cast(id % {tasks} as int) as task")
    rows = dealt(messages, tasks).select("task", f.spark_partition_id()).collect()
    assert sorted(map(tuple, rows)) == sorted(3 * [(task, task) for task in range(tasks)])
