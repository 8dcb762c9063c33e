"""Two rows have one hash exactly when they are equal, whatever is nested in them and however they are told."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from dc_engine.detection.sources import column_types, row_hash
from dc_engine.detection.staging import SALT
from dc_engine.errors import SchemaError
from dc_engine.request import Changes
from tests.conftest import HAS_SHAPES

pytestmark = pytest.mark.xdist_group("spark")

_AT = datetime(2026, 1, 1, 23, 30, tzinfo=UTC)
_NAN = float("nan")


@dataclass(frozen=True)
class Scalar:
    """A plain type with a few values, and another type of the same values."""

    arrow: pa.DataType
    values: tuple[Any, ...]
    wider: pa.DataType | None = None


@dataclass(frozen=True)
class Array:
    items: Kind


@dataclass(frozen=True)
class Struct:
    fields: tuple[tuple[str, Kind], ...]


@dataclass(frozen=True)
class Map:
    keys: Scalar
    values: Kind


Kind = Scalar | Array | Struct | Map

SCALARS = [
    Scalar(pa.int8(), (0, 1, -1, 42), pa.int64()),
    Scalar(pa.int32(), (0, 1, 2, 42), pa.int64()),
    Scalar(pa.int64(), (0, 1, 2, 2**63 - 1)),
    Scalar(pa.float32(), (0.0, -0.0, 1.5, _NAN), pa.float64()),
    Scalar(pa.float64(), (0.0, -0.0, 1.5, _NAN, math.inf)),
    Scalar(pa.string(), ("", "a", "ab", "b", "struct", "{}")),
    Scalar(pa.binary(), (b"", b"\x00", b"\x00\x00")),
    Scalar(pa.bool_(), (True, False)),
    Scalar(pa.date32(), (date(1970, 1, 1), date(1970, 1, 2))),
    Scalar(pa.timestamp("us", "UTC"), (_AT, _AT + timedelta(microseconds=1))),
    Scalar(pa.timestamp("us"), (datetime(2026, 1, 1), datetime(2026, 1, 1, microsecond=1))),
    Scalar(pa.decimal128(9, 2), (Decimal("0.00"), Decimal("1.00"), Decimal("0.10"))),
    Scalar(pa.decimal128(38, 38), (Decimal("0E-38"), Decimal("1E-38"), Decimal("0." + "9" * 38))),
]
NAMES = ["a", "B", "a.b", "x`y", "it's", 'q"', "key", "value", "é"]


def _nested(kinds: st.SearchStrategy[Kind]) -> st.SearchStrategy[Kind]:
    fields = st.lists(st.tuples(st.sampled_from(NAMES), kinds), min_size=1, max_size=3, unique_by=lambda one: one[0])
    return st.one_of(
        st.builds(Array, kinds),
        st.builds(Struct, fields.map(tuple)),
        st.builds(Map, st.sampled_from(SCALARS), kinds),
    )


KINDS = st.recursive(st.sampled_from(SCALARS), _nested, max_leaves=6)


def value_of(kind: Kind, chance: random.Random) -> Any:
    """A random value of few, so that many pairs differ in little; maps are lists of entries."""
    if chance.random() < 0.2:
        return None
    if isinstance(kind, Scalar):
        return chance.choice(kind.values)
    if isinstance(kind, Array):
        return [value_of(kind.items, chance) for _ in range(chance.randrange(4))]
    if isinstance(kind, Struct):
        return {name: value_of(one, chance) for name, one in kind.fields}
    keys = {plain(kind.keys, one): one for one in chance.sample(kind.keys.values, chance.randrange(3))}
    return [(key, value_of(kind.values, chance)) for key in keys.values()]


def plain(kind: Kind, value: Any) -> Any:
    """The definition: what two values have in common exactly when they are equal."""
    if value is None:
        return None
    if isinstance(kind, Array):
        return tuple(plain(kind.items, one) for one in value)
    if isinstance(kind, Struct):
        return frozenset((name, plain(one, value[name])) for name, one in kind.fields)
    if isinstance(kind, Map):
        return frozenset((plain(kind.keys, key), plain(kind.values, one)) for key, one in value)
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def arrow_type(kind: Kind, *, otherwise: bool = False) -> pa.DataType:
    """The type in Arrow; ``otherwise`` with wider numbers, fields in another order and one more."""
    if isinstance(kind, Scalar):
        return kind.wider or kind.arrow if otherwise else kind.arrow
    if isinstance(kind, Array):
        return pa.list_(arrow_type(kind.items, otherwise=otherwise))
    if isinstance(kind, Map):
        return pa.map_(arrow_type(kind.keys, otherwise=otherwise), arrow_type(kind.values, otherwise=otherwise))
    fields = [pa.field(name, arrow_type(one, otherwise=otherwise)) for name, one in kind.fields]
    return pa.struct([*reversed(fields), pa.field("later", pa.list_(pa.int32()))] if otherwise else fields)


def turned(kind: Kind, value: Any) -> Any:
    """The same value, the keys of its maps in another order."""
    if value is None or isinstance(kind, Scalar):
        return value
    if isinstance(kind, Array):
        return [turned(kind.items, one) for one in value]
    if isinstance(kind, Struct):
        return {name: turned(one, value[name]) for name, one in kind.fields}
    return [(key, turned(kind.values, one)) for key, one in reversed(value)]


def hashes(spark: SparkSession, path: Path, table: pa.Table) -> list[list[int]]:
    """The hash of each row as if it had only one of the columns, then of the whole row."""
    pq.write_table(table, path)
    frame = spark.read.parquet(str(path))
    each = [row_hash(frame.select(frame.columns[place]), "s") for place in range(len(frame.columns))]
    named = [f"{one} as h{place}" for place, one in enumerate([*each, row_hash(frame, "s")])]
    collected = frame.selectExpr(*named).collect()
    return [[row[place] for row in collected] for place in range(len(named))]


@settings(max_examples=10, derandomize=True)
@given(kinds=st.lists(KINDS, min_size=4, max_size=8), seed=st.integers(0, 2**32))
def test_rows_have_one_hash_exactly_when_they_are_equal(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, kinds: list[Kind], seed: int
) -> None:
    chance = random.Random(seed)
    columns = [[value_of(kind, chance) for _ in range(60)] for kind in kinds]
    folder = tmp_path_factory.mktemp("hashes")
    table = pa.table([pa.array(one, arrow_type(kind)) for kind, one in zip(kinds, columns, strict=True)], names(kinds))
    found = hashes(spark, folder / "rows.parquet", table)
    plains = [[plain(kind, value) for value in one] for kind, one in zip(kinds, columns, strict=True)]
    for values, codes in zip([*plains, list(zip(*plains, strict=True))], found, strict=True):
        assert len(set(zip(values, codes, strict=True))) == len(set(values)) == len(set(codes))

    arrays = [
        pa.array([turned(kind, value) for value in one], arrow_type(kind, otherwise=True))
        for kind, one in zip(kinds, columns, strict=True)
    ]
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    try:
        again = hashes(spark, folder / "again.parquet", pa.table(arrays, names(kinds)))
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert again == found


def names(kinds: list[Kind]) -> list[str]:
    return [f"column {place}" for place in range(len(kinds))]


def told_apart(spark: SparkSession, *values: str) -> bool:
    frame = spark.sql(" union all ".join(f"select {value} as v" for value in values))
    codes = [row[0] for row in frame.selectExpr(row_hash(frame, "s")).collect()]
    return len(set(codes)) == len(values)


@pytest.mark.parametrize(
    "values",
    [
        ("array(1, null)", "array(null, 1)", "array(1)", "array()", "array(cast(null as int))", "null"),
        (
            "named_struct('a', 'x', 'b', null)",
            "named_struct('a', null, 'b', 'x')",
            "named_struct('a', null, 'b', null)",
        ),
        ("array(array(1), array(2))", "array(array(1, 2))", "array(array(1, 2), null)", "array(array(1, 2), array())"),
        ("map('a', 1)", "map('a', null)", "map('b', 1)", "map()", "null"),
        ("map(1, timestamp '2026-01-01 00:00:00.000001')", "map(1, timestamp '2026-01-01 00:00:00.000002')"),
        ("'a' collate utf8_lcase", "'A' collate utf8_lcase"),
        ("array('a' collate utf8_lcase)", "array('A' collate utf8_lcase)"),
        ("parse_json('1')", "parse_json('\"1\"')", "parse_json('1e0')", "parse_json('null')", "null"),
        ("array(null)", "array(null, null)", "array()"),
        ("array(interval '1' month)", "array(interval '2' month)"),
        ("array(make_interval(1, 2))", "array(make_interval(2, 1))"),
        pytest.param(
            ("st_geomfromwkb(X'0101000000000000000000F03F0000000000000040')", "null"),
            marks=pytest.mark.skipif(not HAS_SHAPES, reason="this Spark has no type geometry"),
        ),
    ],
)
def test_values_that_spark_takes_for_one_or_cannot_hash_are_told_apart(
    spark: SparkSession, values: tuple[str, ...]
) -> None:
    assert told_apart(spark, *values)


def test_a_variant_has_one_hash_in_every_zone_and_order_of_keys(spark: SparkSession) -> None:
    at = "timestamp '2026-01-01 00:00:00.000001Z'"
    made = [
        ("UTC", f"to_variant_object(named_struct('a', {at}, 'b', 1.0d))"),
        ("Asia/Kathmandu", f"to_variant_object(named_struct('b', 1.0d, 'a', {at}))"),
        ("UTC", f"to_variant_object(named_struct('a', {at}, 'b', 1.0bd))"),
    ]
    codes = []
    try:
        for zone, value in made:
            spark.conf.set("spark.sql.session.timeZone", zone)
            frame = spark.sql(f"select {value} as v")
            codes.append(frame.selectExpr(row_hash(frame, "s")).collect()[0][0])
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert codes[0] == codes[1] != codes[2]


def test_the_hash_of_a_row_is_part_of_the_format(spark: SparkSession) -> None:
    """A state of today is read by other versions: these numbers never change (docs/state-format.md)."""
    row = "1L as id, null as boss, '10115' as zip, 'Berlin' as city, 90 as salary, 'Ada' as name"
    nested = "array(named_struct('a', map('k', 1.5d), 'b', null), null) as nested"
    for sql, expected in ((row, -4453929884303617916), (f"{row}, {nested}", 7621604425648599255)):
        frame = spark.sql(f"select {sql}")
        assert frame.selectExpr(row_hash(frame, SALT)).collect()[0][0] == expected


def test_fields_that_differ_only_by_case_are_refused_with_their_column(spark: SparkSession) -> None:
    frame = spark.sql("select array(named_struct('id', 1, 'ID', 2)) as odd")
    with pytest.raises(SchemaError, match="Column 'odd' has fields 'id' and 'ID', which Spark cannot tell apart"):
        row_hash(frame, "s")


@pytest.mark.parametrize("sql", ["1 as `{}`", "array(named_struct('{}', 1)) as odd"])
@pytest.mark.parametrize("name", ["${x}", "of ${spark.app.name}", "${env:HOME}"])
def test_names_that_spark_would_replace_are_refused(sql: str, name: str, spark: SparkSession) -> None:
    spark.conf.set("spark.sql.variable.substitute", "false")
    try:
        frame = spark.sql(f"select {sql.format(name)}")
    finally:
        spark.conf.unset("spark.sql.variable.substitute")
    with pytest.raises(SchemaError, match=r"with '\$\{.*\}' in its name, which Spark takes for a variable"):
        column_types(frame, Changes(table="people"))
