"""What a load gets for an answer: verdicts, samples, replays."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from dc_engine.apply_load import apply_load
from dc_engine.verdict import Verdict

pytestmark = pytest.mark.xdist_group("spark")

CONSTRAINTS: dict[str, Any] = {
    "version": 1,
    "table": "people",
    "key": ["id"],
    "constraints": [
        {"name": "zip_decides_city", "fd": "zip -> city", "description": "One zip, one city."},
        {"name": "code_is_unique", "unique": ["code"], "severity": "warn"},
        {"name": "salary_is_positive", "deny": "t.salary <= 0"},
    ],
}

WITHOUT_KEY = {name: value for name, value in CONSTRAINTS.items() if name != "key"}

Apply = Callable[..., Verdict]


def people(*rows: tuple[Any, ...]) -> pa.Table:
    names = ["id", "zip", "city", "code", "salary"]
    types = [pa.int64(), pa.string(), pa.string(), pa.string(), pa.int32()]
    columns = zip(*rows, strict=True) if rows else [[] for _ in names]
    return pa.table({name: pa.array(list(v), t) for name, v, t in zip(names, columns, types, strict=True)})


CLEAN = people((1, "10115", "Berlin", "a", 10), (2, "10115", "Berlin", "b", 20), (3, "20095", "Hamburg", None, 5))
BROKEN = people((4, "10115", "Berln", "a", -1), (5, "50667", "Köln", "e", 7))


@pytest.fixture
def apply(spark: SparkSession, tmp_path: Path) -> Apply:
    def call(load_id: str, rows: pa.Table, constraints: Any = CONSTRAINTS, **more: Any) -> Verdict:
        path = tmp_path / f"{load_id}-{len(list(tmp_path.iterdir()))}.parquet"
        pq.write_table(rows, path)
        request = {"state": str(tmp_path / "state"), "load_id": load_id, "changes": {"path": str(path)}}
        return apply_load(spark, request | {"constraints": constraints} | more)

    return call


def files_below(folder: Path) -> dict[str, int]:
    return {str(one.relative_to(folder)): one.stat().st_mtime_ns for one in folder.rglob("*") if one.is_file()}


class TestVerdict:
    def test_a_clean_load_passes_and_a_broken_one_fails_with_what_it_broke(self, apply: Apply) -> None:
        first, second = apply("monday", CLEAN), apply("tuesday", BROKEN)
        assert (first.decision, first.snapshot, first.rows["total"]) == ("pass", 1, 3)
        assert (second.decision, second.snapshot) == ("fail", 2)
        assert second.rows == {"inserted": 2, "deleted": 0, "total": 5}
        city, code, salary = second.constraints
        assert (city.new_violations, city.total_violations, city.violating_rows, city.passed) == (2, 2, 1, False)
        assert (code.new_violations, code.severity, code.passed) == (1, "warn", False)
        assert (salary.new_violations, salary.kind, salary.formula) == (1, "deny", "not (t.salary <= 0)")
        assert [one.name for one in second.broken] == ["zip_decides_city", "salary_is_positive", "code_is_unique"]

    def test_samples_show_the_users_key_and_values_with_how_many_rows_carry_them(self, apply: Apply) -> None:
        apply("monday", CLEAN)
        city, _, salary = apply("tuesday", BROKEN).constraints
        new = {"row": {"id": 4}, "values": {"city": "Berln", "zip": "10115"}, "rows": 1}
        old = {"row": {"id": 1}, "values": {"city": "Berlin", "zip": "10115"}, "rows": 2}
        assert city.samples == [{"t": new, "s": old}]
        assert city.worst_rows == [{"row": {"id": 4}, "violations": 2}]
        assert salary.samples == [{"t": {"row": {"id": 4}, "values": {"salary": -1}, "rows": 1}}]

    def test_without_a_key_a_row_is_named_by_its_load_and_row_id(self, apply: Apply) -> None:
        keyless = {name: value for name, value in CONSTRAINTS.items() if name != "key"}
        apply("monday", CLEAN, keyless)
        sample = apply("tuesday", BROKEN, keyless).constraints[0].samples[0]
        assert sample["t"]["row"]["_load_id"] == "tuesday"
        assert sample["s"]["row"]["_load_id"] == "monday"

    def test_listed_violations_are_parquet_that_anyone_can_read(self, apply: Apply, spark: SparkSession) -> None:
        apply("monday", CLEAN)
        city = apply("tuesday", BROKEN).constraints[0]
        (row,) = spark.read.parquet(city.violations).collect()
        assert (row["pairs"], row["t"]["city"], row["s"]["city"], row["s_rows"]) == (2, "Berln", "Berlin", 2)
        assert spark.read.parquet(*city.violating_rows_listed).collect()[0]["violations"] == 2

    def test_it_is_stored_as_the_job_returned_it_but_for_the_time_of_the_commit(
        self, apply: Apply, tmp_path: Path
    ) -> None:
        verdict = apply("monday", CLEAN).to_dict()
        (path,) = (tmp_path / "state" / "verdicts").iterdir()
        stored = json.loads(path.read_text())
        assert {**stored, "seconds": 0} == {**verdict, "seconds": 0}
        assert stored["schema_version"] == 1

    def test_masked_columns_are_masked_in_samples_keys_and_listings(self, apply: Apply, spark: SparkSession) -> None:
        apply("monday", CLEAN, mask=["CITY", "id"])
        city = apply("tuesday", BROKEN, mask=["CITY", "id"]).constraints[0]
        assert "Berl" not in json.dumps([city.samples, city.worst_rows])
        assert city.samples[0]["t"] == {"row": {"id": "***"}, "values": {"city": "***", "zip": "10115"}, "rows": 1}
        assert spark.read.parquet(city.violations).collect()[0]["t"]["city"] == "***"

    def test_max_listed_and_max_samples_bound_what_is_listed_and_never_the_counts(self, apply: Apply, spark) -> None:
        rows = people(*((i, "1", f"city {i}", None, 1) for i in range(40)))
        city = apply("monday", rows, max_listed=7, max_samples=3).constraints[0]
        assert city.new_violations == 40 * 39 // 2
        assert (len(city.samples), len(city.worst_rows), city.violating_rows) == (3, 3, 40)
        assert spark.read.parquet(city.violations).count() == 7

    def test_two_billion_violating_pairs_are_counted_exactly(self, apply: Apply) -> None:
        size = 65_536
        everyone = pa.array(range(size), pa.int64())
        rows = pa.table({"id": everyone, "code": pa.array(["same"] * size)})
        rules = {"version": 1, "table": "people", "key": ["id"], "constraints": [CONSTRAINTS["constraints"][1]]}
        (code,) = apply("monday", rows, rules).constraints
        assert code.new_violations == size * (size - 1) // 2
        assert code.violating_rows == size
        assert code.samples[0]["t"]["rows"] == size

    def test_tolerances_decide_what_passes(self, apply: Apply) -> None:
        def judged(**tolerance: Any) -> bool:
            rule = {"name": "zip_decides_city", "fd": "zip -> city"} | tolerance
            rules = WITHOUT_KEY | {"constraints": [rule]}
            name = f"tolerance{tolerance}".translate(str.maketrans("", "", "{}'%: "))
            return (
                apply(name, people(*((i, name, str(i > 1), None, 1) for i in range(10))), rules).constraints[0].passed
            )

        assert not judged()
        assert not judged(max_new_violations=15)
        assert judged(max_new_violations=16)
        assert not judged(max_violating_rows=9)
        assert judged(max_violating_rows=10)
        assert not judged(max_violating_rows="99.9%")
        assert judged(max_violating_rows="100%")


class TestReplay:
    def test_the_same_rows_in_other_order_and_files_give_the_stored_verdict_and_write_nothing(
        self, apply: Apply, spark: SparkSession, tmp_path: Path
    ) -> None:
        apply("monday", CLEAN)
        first = apply("tuesday", BROKEN)
        before = files_below(tmp_path / "state")
        shuffled = tmp_path / "shuffled"
        spark.createDataFrame(
            BROKEN.to_pylist()[::-1], spark.read.parquet(_written(tmp_path, BROKEN)).schema
        ).repartition(2).write.parquet(str(shuffled))
        again = apply_load(
            spark,
            {
                "state": str(tmp_path / "state"),
                "load_id": "tuesday",
                "changes": {"path": str(shuffled)},
                "constraints": CONSTRAINTS,
            },
        )
        assert again.replayed
        assert not first.replayed
        assert {**again.to_dict(), "replayed": 0, "seconds": 0} == {**first.to_dict(), "replayed": 0, "seconds": 0}
        assert files_below(tmp_path / "state") == before

    def test_a_row_more_or_another_null_is_another_load(self, apply: Apply) -> None:
        rules = WITHOUT_KEY
        rows = people((1, None, "x", "c", 1), (2, "x", None, "d", 1))
        apply("monday", rows, rules)
        moved = people((1, "x", None, "c", 1), (2, None, "x", "d", 1))
        for other in (moved, pa.concat_tables([rows, rows.slice(0, 1)]), rows.slice(1)):
            verdict = apply("monday", other, rules)
            assert (verdict.replaced, verdict.replayed) == (True, False)
            assert verdict.rows == {"inserted": other.num_rows, "deleted": 0, "total": other.num_rows}


def _written(folder: Path, rows: pa.Table) -> str:
    pq.write_table(rows, folder / "written.parquet")
    return str(folder / "written.parquet")


class TestChangedRules:
    def test_removed_and_renamed_rules_and_other_tolerances_are_fine_and_noted(self, apply: Apply) -> None:
        apply("monday", pa.concat_tables([CLEAN, BROKEN]))
        renamed = {"name": "one_city_a_zip", "fd": "zip -> city", "max_new_violations": 5, "severity": "warn"}
        verdict = apply("tuesday", people((9, "10115", "Bln", "z", 1)), CONSTRAINTS | {"constraints": [renamed]})
        assert verdict.constraints[0].new_violations == 3
        assert verdict.constraints[0].total_violations == 5
        assert verdict.constraints[0].passed
        assert verdict.notes == [
            "Constraint 'code_is_unique' was removed.",
            "Constraint 'salary_is_positive' was removed.",
            "Constraint 'zip_decides_city' is now called 'one_city_a_zip'.",
            "Constraint 'one_city_a_zip' has a new tolerance or severity.",
        ]

    def test_rules_may_be_added_while_no_rows_are_indexed(self, apply: Apply) -> None:
        apply("sunday", people(), CONSTRAINTS | {"constraints": CONSTRAINTS["constraints"][:1]})
        assert apply("monday", CLEAN).decision == "pass"
        assert len(apply("tuesday", BROKEN).broken) == 3


class TestEmptyLoads:
    def test_an_empty_load_passes_and_is_recorded(self, apply: Apply) -> None:
        apply("monday", CLEAN)
        empty = apply("tuesday", people())
        assert (empty.decision, empty.snapshot, empty.rows["total"]) == ("pass", 2, 3)
        assert apply("tuesday", people()).replayed
        assert apply("wednesday", BROKEN).constraints[0].new_violations == 2
