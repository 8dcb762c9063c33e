"""Rows that differ only inside an array, struct or map are different rows, whatever is done with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from dc_engine.apply_load import apply_load
from dc_engine.errors import ChangesError
from dc_engine.maintain import maintain
from dc_engine.verdict import Verdict

pytestmark = pytest.mark.xdist_group("spark")

PAIRS = [
    ("array(1, null)", "array(null, 1)"),
    ("array(array(1), array(2))", "array(array(1, 2))"),
    ("named_struct('a', 'x', 'b', string(null))", "named_struct('a', string(null), 'b', 'x')"),
    ("map('a', timestamp '2026-01-01 00:00:00.000001')", "map('a', timestamp '2026-01-01 00:00:00.000002')"),
]
ONCE = {"name": "nested_once", "unique": ["nested"], "max_new_violations": 9}


class Gate:
    """A table of (id, n, nested), whose rule is that n is never negative."""

    def __init__(self, spark: SparkSession, state: Path, **rules: Any) -> None:
        self._spark, self._state = spark, str(state)
        positive = {"name": "n_is_positive", "deny": "t.n < 0", "max_new_violations": 9}
        self._rules = {"version": 1, "table": "made_up", "constraints": [positive]} | rules

    def apply(self, load_id: str, *rows: str, kind: str = "", **more: Any) -> Verdict:
        change = f", '{kind}' as _change_type" if kind else ""
        sql = " union all ".join(f"select {row}{change}" for row in rows)
        request = {"state": self._state, "load_id": load_id, "changes": {"sql": sql}, "constraints": self._rules}
        return apply_load(self._spark, request | more)

    def rebuilt(self, *rows: str) -> dict[str, int]:
        table = {"sql": " union all ".join(f"select {row}" for row in rows)}
        return maintain(lambda: self._spark, "rebuild", {"state": self._state, "table": table})["total_violations"]


def row(number: int, n: int, nested: str) -> str:
    return f"{number} as id, {n} as n, {nested} as nested"


any_pair = pytest.mark.parametrize("pair", PAIRS, ids=["array", "array of arrays", "struct", "map"])
ordered_pair = pytest.mark.parametrize("pair", PAIRS[:3], ids=["array", "array of arrays", "struct"])
"""Of values that rules can read."""


@any_pair
def test_other_nested_values_under_a_known_id_are_no_replay(
    spark: SparkSession, tmp_path: Path, pair: tuple[str, str]
) -> None:
    gate = Gate(spark, tmp_path)
    one, other = (row(1, 1, nested) for nested in pair)
    gate.apply("monday", one)
    verdict = gate.apply("monday", other)
    assert (verdict.replayed, verdict.replaced) == (False, True)
    assert gate.apply("monday", other).replayed


@any_pair
def test_a_delete_takes_the_row_that_it_gives_and_no_other(
    spark: SparkSession, tmp_path: Path, pair: tuple[str, str]
) -> None:
    gate = Gate(spark, tmp_path)
    good, bad = row(1, -1, pair[0]), row(1, -1, pair[1])
    gate.apply("monday", good)
    with pytest.raises(ChangesError, match="deletes 1 row not there as given"):
        gate.apply("tuesday", bad, kind="delete")
    gate.apply("wednesday", bad)
    verdict = gate.apply("thursday", good, kind="delete")
    assert (verdict.rows["total"], verdict.constraints[0].total_violations) == (1, 1)
    assert gate.rebuilt(bad) == {"n_is_positive": 1}


@ordered_pair
def test_a_delete_by_key_may_give_other_nested_values(
    spark: SparkSession, tmp_path: Path, pair: tuple[str, str]
) -> None:
    gate = Gate(spark, tmp_path, key=["id"], constraints=[ONCE])
    gate.apply("monday", row(1, 1, pair[0]), row(2, 2, pair[0]))
    verdict = gate.apply("tuesday", row(1, 1, pair[1]), kind="delete")
    assert verdict.rows["total"] == 1
    assert verdict.constraints[0].total_violations == 0


@ordered_pair
def test_a_clean_row_that_differs_inside_stays_out_of_the_quarantine(
    spark: SparkSession, tmp_path: Path, pair: tuple[str, str]
) -> None:
    gate = Gate(spark, tmp_path / "state", constraints=[ONCE])
    gate.apply("monday", row(7, 7, pair[0]))
    violating, clean = row(1, 1, pair[0]), row(1, 1, pair[1])
    verdict = gate.apply("tuesday", violating, clean, quarantine=str(tmp_path / "quarantine"))
    assert verdict.quarantine is not None
    assert (verdict.quarantine["violating_rows"], verdict.quarantine["clean_rows"]) == (1, 1)
