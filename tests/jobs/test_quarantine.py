"""Where rows go on real Spark: every violating row with its rules, all others clean, as plain Python has it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from dc_engine.sizes import other_sizes
from tests.jobs.test_change_sets import TYPES, Gate, rows

pytestmark = pytest.mark.xdist_group("spark")

Row = tuple[Any, ...]
"""id, zip, city, pay, rate, note"""


def violated(t: Row, s: Row) -> set[str]:
    """The rules over two rows that a pair violates."""
    found = set()
    if None not in (t[1], t[2], s[1], s[2]) and t[1] == s[1] and t[2] != s[2]:
        found.add("zip_decides_city")
    if None not in (t[3], t[4], s[3], s[4]) and (t[3] - s[3]) * (t[4] - s[4]) < 0:
        found.add("rate_follows_pay")
    return found


def violations(row: Row, others: Sequence[Row]) -> dict[str, int]:
    """How often a row violates each rule, as far as it does."""
    found = Counter(rule for other in others for rule in violated(row, other))
    if row[3] is not None and row[3] <= 0:
        found["pay_is_positive"] += 1
    return dict(sorted(found.items()))


def some_rows(chance: Random, ids: Sequence[int]) -> list[Row]:
    pays, rates = [None, 0, 10, 20, 20, 30], [None, 1.0, 2.0, 2.0, 3.0]
    zips, cities, notes = [None, *"abcdef"], [None, "x", "x", "x", "y"], [None, "n"]
    return [(one, *map(chance.choice, (zips, cities, pays, rates, notes))) for one in ids]


def expected(
    old: Sequence[Row], inserts: Sequence[Row], deletes: Sequence[Row], *, keyed: bool
) -> tuple[Counter[Any], Counter[Any]]:
    left = list((Counter(old) - Counter(deletes)).elements())
    bad: Counter[Any] = Counter()
    clean: Counter[Any] = Counter()
    behind = set()
    for place, row in enumerate(inserts):
        found = violations(row, [*left, *inserts[:place], *inserts[place + 1 :]])
        if found:
            bad[row, tuple(found.items()), sum(found.values())] += 1
            behind.add(row[0])
        else:
            clean[row] += 1
    for row in deletes:
        if keyed and row[0] in behind:
            bad[row, None, 0] += 1
        else:
            clean[row] += 1
    return bad, clean


def written(folder: Path) -> tuple[Counter[Any], Counter[Any]]:
    def of(one: dict[str, Any]) -> Row:
        return tuple(one[name] for name in TYPES)

    bad = pq.read_table(folder / "violating").to_pylist()
    clean = pq.read_table(folder / "clean")
    assert not [name for name in clean.column_names if name.startswith("_dc_")]
    rules = [
        None if one["_dc_rules"] is None else tuple((rule["rule"], rule["violations"]) for rule in one["_dc_rules"])
        for one in bad
    ]
    lines = ((of(one), rule, one["_dc_violations"]) for one, rule in zip(bad, rules, strict=True))
    return Counter(lines), Counter(map(of, clean.to_pylist()))


@pytest.mark.parametrize("keyed", [True, False], ids=["with key", "without key"])
@pytest.mark.parametrize("seed", range(3))
def test_every_row_goes_where_plain_python_puts_it(
    spark: SparkSession, tmp_path: Path, seed: int, *, keyed: bool
) -> None:
    chance = Random(seed)
    gate = Gate(spark, tmp_path, keyed=keyed)
    old = some_rows(chance, range(20))
    gate.apply("first", rows(*old))
    gone = chance.sample(old, 8)
    if keyed:
        new = some_rows(chance, range(20, 40)) + some_rows(chance, [row[0] for row in gone[:5]])
    else:  # rows that are alike, also in every column
        new = [chance.choice(some_rows(chance, [100, 101])) for _ in range(10)]
        new += [chance.choice(new) for _ in range(20)]
    changes = [("delete", *row) for row in gone] + [("insert", *row) for row in new]
    chance.shuffle(changes)
    with other_sizes(range_ids=3, quarantine_rows=7):
        verdict = gate.apply("second", rows(*changes), quarantine=str(tmp_path / "quarantine"))
    bad, clean = expected(old, new, gone, keyed=keyed)
    assert written(tmp_path / "quarantine") == (bad, clean)
    assert verdict.quarantine is not None
    assert (verdict.quarantine["violating_rows"], verdict.quarantine["clean_rows"]) == (bad.total(), clean.total())
    assert bad
    assert clean


@pytest.mark.parametrize("engine", ["spark", "local"])
def test_rows_that_only_break_a_pinned_dependency_are_clean(spark: SparkSession, tmp_path: Path, engine: str) -> None:
    gate = Gate(spark, tmp_path)
    gate.rules["dependencies"] = {"pinned": [{"fd": "zip -> note", "severity": "error"}]}
    old = (1, "10115", "Berlin", 10, 1.0, "a")
    assert [one.text for one in gate.apply("first", rows(old)).dependencies.watched] == ["zip -> note"]
    new = [(2, "10115", "Berlin", 20, 2.0, "b"), (3, "20095", "Hamburg", -5, 0.5, "c")]
    verdict = gate.apply("second", rows(*new), quarantine=str(tmp_path / "quarantine"), engine=engine)
    (lost,) = verdict.dependencies.invalidated
    assert (lost.violations, lost.severity, verdict.decision) == (1, "error", "fail")
    assert lost.example == {
        "t": {"row": {"id": 2}, "values": {"zip": "10115", "note": "b"}, "rows": 1},
        "s": {"row": {"id": 1}, "values": {"zip": "10115", "note": "a"}, "rows": 1},
    }
    bad, clean = written(tmp_path / "quarantine")
    assert ([row[0] for row, *_ in bad], [row[0] for row in clean]) == ([3], [2])


@pytest.mark.parametrize("engine", ["spark", "local"])
def test_without_constraints_every_row_is_clean(spark: SparkSession, tmp_path: Path, engine: str) -> None:
    gate = Gate(spark, tmp_path, keyed=False)
    gate.rules["constraints"] = []
    given = [(1, "10115", "Berlin", 10, 1.0, "a"), (2, "10115", "Berlin", -5, 2.0, "b")]
    verdict = gate.apply("first", rows(*given), quarantine=str(tmp_path / "quarantine"), engine=engine)
    assert (verdict.decision, verdict.rows["total"]) == ("pass", 2)
    assert written(tmp_path / "quarantine") == (Counter(), Counter(given))
    assert gate.apply("second", rows(("delete", *given[0])), engine=engine).rows["total"] == 1
