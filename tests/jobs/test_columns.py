"""Columns of unusual types and names, and sessions with other settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DataType, IntegerType, MapType, StringType, StructField, StructType

from dc_engine.apply_load import apply_load
from dc_engine.detection.comparable import family
from dc_engine.detection.sources import kept_type, type_text
from dc_engine.maintain import maintain
from dc_engine.verdict import Verdict

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture
def setting(spark: SparkSession) -> Iterator[Callable[[str, str], None]]:
    """Sets what goes back to its default afterwards."""
    names: list[str] = []

    def change(name: str, value: str) -> None:
        names.append(name)
        spark.conf.set(name, value)

    yield change
    for name in names:
        spark.conf.unset(name)


def apply(spark: SparkSession, folder: Path, load_id: str, sql: str, *rules: dict[str, Any]) -> Verdict:
    constraints = {"version": 1, "table": "made_up", "constraints": list(rules)}
    request = {"state": str(folder), "load_id": load_id, "changes": {"sql": sql}, "constraints": constraints}
    return apply_load(spark, request)


def test_intervals_structs_and_times_compare_as_in_spark_sql(spark: SparkSession, tmp_path: Path) -> None:
    sql = """select * from values
        (1, interval '1-2' year to month, interval '1 02:00:00' day to second, named_struct('a', 1, 'b', 'x')),
        (2, interval '14' month, interval '26' hour, named_struct('a', 1, 'b', 'y')),
        (3, interval '-3' month, interval '-1' second, named_struct('a', cast(null as int), 'b', 'z'))
        as v(id, months, pause, pair)"""
    columns = "id, cast(months as interval year to month) months, cast(pause as interval day to second) pause, pair"
    verdict = apply(
        spark,
        tmp_path,
        "one",
        f"select {columns} from ({sql})",
        {"name": "same_months", "unique": ["months"]},
        {"name": "longer_is_later", "deny": "t.months > s.months and t.id <= s.id"},
        {"name": "same_pause", "unique": ["pause"]},
        {"name": "pairs_grow", "deny": "t.pair < s.pair and t.id > s.id"},
    )
    assert [one.new_violations for one in verdict.constraints] == [1, 2, 1, 2]


def test_names_with_dots_spaces_and_backticks_are_columns_like_any_other(spark: SparkSession, tmp_path: Path) -> None:
    rule = {"name": "odd", "deny": "t.`a.b` = s.`a.b` and t.`first name` != s.`first name` and t.`x``y` < s.A"}
    values = "(1, 'x', 0, 1), (1, 'y', 0, 1), (2, 'y', 0, 1) as v(`a.b`, `first name`, `x``y`, a)"
    verdict = apply(spark, tmp_path, "one", f"select * from values {values}", rule)
    assert verdict.constraints[0].new_violations == 1
    again = "(1, 'z', 5, 1) as v(`A.B`, `First Name`, `X``Y`, a)"
    assert apply(spark, tmp_path, "two", f"select * from values {again}", rule).constraints[0].new_violations == 2
    assert verdict.constraints[0].samples[0]["t"]["values"].keys() == {"a.b", "first name", "x`y", "a"}


def test_sessions_in_other_time_zones_go_on_with_the_same_state(spark: SparkSession, tmp_path: Path) -> None:
    rule = {"name": "one_instant", "deny": "t.at = s.at"}
    early = {"name": "not_too_early", "deny": "t.at < timestamp '2026-07-01 12:00:00'"}
    at = "timestamp '2026-07-01 {}'"
    try:
        totals = []
        for zone, clock in (
            ("UTC", "10:00:00Z"),
            ("Europe/Berlin", "12:00:00"),
            ("+02:00", "12:00:00"),
            ("UTC", "10:00:00"),
        ):
            spark.conf.set("spark.sql.session.timeZone", zone)
            sql = f"select {at.format(clock)} as at, array({at.format(clock)}) as all"
            verdict = apply(spark, tmp_path, f"{zone} {clock}", sql, rule | {"max_new_violations": 9})
            totals.append(verdict.constraints[0].total_violations)
        assert totals == [0, 1, 3, 6]
        spark.conf.set("spark.sql.session.timeZone", "+02:00")
        state = tmp_path / "constants"
        counts = apply(spark, state, "a", f"select {at.format('11:59:59')} as at, {at.format('12:00:00')} as b", early)
        assert counts.constraints[0].new_violations == 1
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_dates_beyond_what_python_knows_are_shown(spark: SparkSession, tmp_path: Path) -> None:
    sql = "select date '+12026-01-01' as day, 1 as a union all select date '+12026-01-01', 2"
    verdict = apply(spark, tmp_path, "one", sql, {"name": "day_decides_a", "fd": "day -> a"})
    assert verdict.constraints[0].samples[0]["t"]["values"]["day"] == "12026-01-01"


def test_constants_beyond_a_columns_range_compare_by_value(spark: SparkSession, tmp_path: Path) -> None:
    sql = "select bigint(9223372036854775807) as a"
    below = {"name": "below", "deny": "t.a < 100000000000000000000"}
    above = {"name": "above", "deny": "t.a > 9223372036854775806.5"}
    verdict = apply(spark, tmp_path, "one", sql, below, above)
    assert [one.new_violations for one in verdict.constraints] == [1, 1]
    with pytest.raises(Exception, match="at most 38 digits"):
        apply(spark, tmp_path / "other", "one", sql, {"name": "odd", "deny": "t.a < 1e60"})


def test_wide_decimals_inside_arrays_are_told_apart(spark: SparkSession, tmp_path: Path) -> None:
    number = "1234567890123456789012345678.000000000{}"
    sql = " union all ".join(f"select array(cast('{number.format(i)}' as decimal(38,10))) as a" for i in (1, 2, 2))
    assert apply(spark, tmp_path, "one", sql, {"name": "u", "unique": ["a"]}).constraints[0].new_violations == 1


def test_a_load_applied_before_is_replayed_whatever_became_of_the_rules(spark: SparkSession, tmp_path: Path) -> None:
    rule = {"name": "u", "unique": ["a"]}
    apply(spark, tmp_path, "one", "select 1 as a, 2 as b", rule)
    assert apply(spark, tmp_path, "one", "select 1 as A, 2 as b", rule, {"name": "v", "unique": ["b"]}).replayed


EVERY_TYPE = """select * from values
    (1, -0.0d, float('nan'), 'x', X'00', true, date '2026-01-01', timestamp '2026-01-01 00:00:00Z', 1.50bd,
     array(1, null), named_struct('a', 1.0d), map('k', 1), interval '1-2' year to month, 'only in the hash'),
    (2, double('nan'), float(-0.0), null, X'', false, null, null, 2.50bd,
     array(), named_struct('a', cast(null as double)), map(), interval '0-2' year to month, null),
    (3, null, null, 'é', null, null, date '1969-12-31', timestamp '1969-12-31 23:59:59Z', null,
     null, null, null, null, null)
    as v(id, d, f, s, b, yes, day, at, dec, list, pair, dict, months, note)"""


@pytest.mark.parametrize("key", [[], ["id"], ["months", "list", "at"]], ids=["by hash", "by id", "by odd columns"])
def test_rows_of_every_type_are_recognised(spark: SparkSession, tmp_path: Path, key: list[str]) -> None:
    """Deleted, compared with the table, and found in it again for a column that was not kept."""
    kept = ["d", "f", "s", "b", "yes", "day", "at", "dec", "list", "pair", "months"]
    rules = [{"name": f"{name}_once", "unique": [name], "severity": "warn"} for name in kept]
    constraints: dict[str, Any] = {"version": 1, "table": "made_up", "constraints": rules}
    constraints |= {"key": key} if key else {}
    request = {"state": str(tmp_path), "constraints": constraints}
    apply_load(spark, {**request, "load_id": "one", "changes": {"sql": EVERY_TYPE}})
    table = {"table": {"sql": EVERY_TYPE}}
    assert maintain(spark, "verify", {"state": str(tmp_path), **table})["problems"] == []
    rules.append({"name": "note_once", "unique": ["note"]})
    nothing = {"sql": f"{EVERY_TYPE} where id > 3"}
    verdict = apply_load(spark, {**request, **table, "load_id": "two", "changes": nothing})
    assert verdict.rows["total"] == 3
    deletes = {"sql": f"select *, 'delete' as _change_type from ({EVERY_TYPE.replace('-0.0', '0.0')})"}
    assert apply_load(spark, {**request, "load_id": "three", "changes": deletes}).rows["total"] == 0
    assert maintain(spark, "verify", {"state": str(tmp_path)})["sound"]


FIELDS = st.one_of(
    st.sampled_from(["a", "first name", "a.b", "", "größe", "order", "1", "a:int,b", "x collate y"]), st.text()
)


def structs(types: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    names = st.lists(FIELDS, min_size=1, max_size=3, unique_by=str.casefold)
    return names.flatmap(
        lambda given: st.tuples(*(types for _ in given)).map(
            lambda inside: StructType([StructField(*one) for one in zip(given, inside, strict=True)])
        )
    )


PLAIN_TYPES = st.sampled_from([IntegerType(), StringType()])
TYPES = st.recursive(
    PLAIN_TYPES,
    lambda types: st.one_of(structs(types), types.map(ArrayType), st.builds(MapType, PLAIN_TYPES, types)),
    max_leaves=5,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TYPES)
def test_a_type_comes_back_from_its_text(spark: SparkSession, setting: Any, spark_type: DataType) -> None:
    setting("spark.sql.ansi.enforceReservedKeywords", "true")
    text = type_text(spark_type)
    assert spark.sql(f"select cast(null as {kept_type(text)}) as x").schema["x"].dataType == spark_type
    assert (family(text) is None) == ("MapType(" in repr(spark_type)), "names of fields make nothing incomparable"


def test_fields_of_any_name_are_kept_found_and_deleted(
    spark: SparkSession, tmp_path: Path, setting: Callable[[str, str], None]
) -> None:
    setting("spark.sql.ansi.enforceReservedKeywords", "true")
    names = ["first name", "a.b", "x`y", "größe", "", "order", "a:map<int,int>", "x collate y"]
    fields = ", ".join(f"'{name}', {{0}}" for name in names)
    pairs = [f"named_struct({fields.format(number)})" for number in (1, 2)]
    sql = " union all ".join(f"select {place} as id, {pair} as pair, 7 as y" for place, pair in enumerate(pairs))
    rules: list[dict[str, Any]] = [{"name": "u", "unique": ["pair"]}]
    constraints = {"version": 1, "table": "t", "key": ["id"], "constraints": rules}
    request = {"state": str(tmp_path), "constraints": constraints, "table": {"sql": sql}}
    apply_load(spark, {**request, "load_id": "one", "changes": {"sql": sql}})
    assert maintain(spark, "verify", {"state": str(tmp_path), "table": {"sql": sql}})["sound"]
    rules.append({"name": "v", "fd": "pair -> y"})
    again = {"sql": f"select 3 as id, {pairs[0]} as pair, 8 as y"}
    verdict = apply_load(spark, {**request, "load_id": "two", "changes": again})
    assert [one.new_violations for one in verdict.constraints] == [1, 1]
    deletes = {"sql": "select 3 as id, 'delete' as _change_type"}
    verdict = apply_load(spark, {**request, "load_id": "three", "changes": deletes})
    assert [one.total_violations for one in verdict.constraints] == [0, 0]


def test_the_kind_of_change_is_found_whatever_its_case(
    spark: SparkSession, tmp_path: Path, setting: Callable[[str, str], None]
) -> None:
    setting("spark.sql.caseSensitive", "true")
    rule = {"name": "u", "unique": ["a"]}
    apply(spark, tmp_path, "one", "select 1 as A, 'insert' as _CHANGE_TYPE", rule)
    assert apply(spark, tmp_path, "two", "select 1 as a, 'delete' as _Change_Type", rule).rows["total"] == 0
