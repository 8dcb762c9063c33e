"""A timestamp without zone in a rule is one of the session that brings the rule; another zone makes another rule."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from dc_engine.apply_load import apply_load
from dc_engine.constraints.model import microseconds
from dc_engine.maintain import maintain
from dc_engine.maintained.continuity import total_violations
from dc_engine.state.snapshots import read_current
from dc_engine.state.storage import Storage
from dc_engine.verdict import Verdict
from tests.inprocess import Session, Source

MIDNIGHT = datetime(2026, 1, 1)


def rules(moment: str, op: str = "<") -> dict[str, Any]:
    rule = {"name": "early", "deny": f"t.at {op} timestamp '{moment}'"}
    return {"version": 1, "table": "events", "constraints": [rule]}


def instants(*hours: float) -> pa.Table:
    """Rows of one instant each: hours after the midnight in UTC."""
    moments = [MIDNIGHT.replace(tzinfo=UTC) + timedelta(hours=one) for one in hours]
    return pa.table({"at": pa.array(moments, pa.timestamp("us", "UTC"))})


hours = st.integers(-30, 30)
_numbers = itertools.count()


@given(loads=st.lists(st.tuples(st.integers(-12, 14), st.lists(hours, max_size=4)), min_size=1, max_size=5))
def test_totals_are_those_of_one_meaning_whatever_zones_the_sessions_have(
    loads: list[tuple[int, list[int]]],
) -> None:
    session = Session()
    state = f"memory://zones/{next(_numbers)}"
    seen: list[int] = []
    for number, (zone, given_hours) in enumerate(loads):
        session.sources["changes"] = Source(instants(*given_hours), {"at": "timestamp"})
        session.instant_of = lambda value, zone=zone: microseconds(value) - zone * 3_600_000_000
        request = {"state": state, "load_id": str(number), "changes": {"path": "changes"}}
        verdict = apply_load(session, {**request, "constraints": rules(MIDNIGHT.isoformat(" "))})
        seen += given_hours
        assert verdict.constraints[0].total_violations == sum(one < -zone for one in seen)
        assert verdict.constraints[0].new_violations == sum(one < -zone for one in given_hours)
        assert maintain(session, "verify", {"state": state})["sound"]


@pytest.fixture
def in_zone(spark: SparkSession) -> Iterator[Any]:
    before = spark.conf.get("spark.sql.session.timeZone")
    yield lambda zone: spark.conf.set("spark.sql.session.timeZone", zone)
    spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.xdist_group("spark")
class TestOnSpark:
    def apply(self, spark: SparkSession, folder: Path, load_id: str, rows: pa.Table, **rule: Any) -> Verdict:
        pq.write_table(rows, folder / f"{load_id}.parquet")
        changes = {"path": str(folder / f"{load_id}.parquet")}
        request = {"state": str(folder / "state"), "load_id": load_id, "changes": changes}
        return apply_load(spark, {**request, "constraints": rules(**rule)})

    def test_a_session_of_another_zone_brings_another_rule_and_counts_it_anew(
        self, spark: SparkSession, tmp_path: Path, in_zone: Any
    ) -> None:
        in_zone("UTC")
        first = self.apply(spark, tmp_path, "1", instants(-1, 1), moment="2026-01-01 00:00:00")
        assert (first.constraints[0].total_violations, first.notes) == (1, [])
        in_zone("America/New_York")
        second = self.apply(spark, tmp_path, "2", instants(3), moment="2026-01-01 00:00:00")
        (rule,) = second.constraints
        assert (rule.new_violations, rule.total_violations) == (1, 3)
        assert rule.formula == "not (t.at < timestamp '2026-01-01 00:00:00-05:00')"
        assert second.notes == ["Constraint 'early' has a new meaning: its violations so far were recounted."]
        third = self.apply(spark, tmp_path, "3", instants(4, 6), moment="2026-01-01 05:00:00Z")
        assert (third.constraints[0].total_violations, third.notes) == (4, [])
        table = spark.read.parquet(*(str(tmp_path / f"{name}.parquet") for name in "123"))
        assert table.where("at < timestamp'2026-01-01 00:00:00'").count() == 4
        in_zone("Asia/Tokyo")
        state = str(tmp_path / "state")
        for action in ("verify", "rebuild", "compact"):
            maintain(spark, action, {"state": state})
        assert maintain(spark, "verify", {"state": state})["sound"]
        snapshot = read_current(Storage(state))
        assert snapshot is not None
        assert total_violations(snapshot) == {"early": 4}

    @pytest.mark.parametrize("zone", ["America/Los_Angeles", "Asia/Tokyo", "Europe/Amsterdam"])
    @pytest.mark.parametrize("moment", ["9999-12-31 23:59:59", "0001-01-01 00:00:00", "1900-01-01 00:00:00"])
    def test_moments_at_the_ends_of_the_calendar_and_zones_of_long_ago_mean_what_spark_says(
        self, spark: SparkSession, tmp_path: Path, in_zone: Any, zone: str, moment: str
    ) -> None:
        in_zone(zone)
        micros = spark.sql(f"select unix_micros(timestamp_ltz '{moment}')").collect()[0][0]
        rows = pa.table({"at": pa.array([micros - 1, micros, micros + 1], pa.timestamp("us", "UTC"))})
        verdict = self.apply(spark, tmp_path, "1", rows, moment=moment, op=">=")
        assert verdict.constraints[0].new_violations == 2
        again = self.apply(spark, tmp_path, "2", rows, moment=moment, op=">=")
        assert (again.constraints[0].total_violations, again.notes) == (4, [])
