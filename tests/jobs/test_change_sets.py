"""Loads that delete and update, on real Spark: what they remove, what they are refused for, where rows go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from dc_engine.apply_load import apply_load
from dc_engine.errors import ChangesError, ConstraintError
from dc_engine.maintain import maintain
from dc_engine.maintained.continuity import total_violations
from dc_engine.sizes import other_sizes
from dc_engine.state.snapshots import read_current
from dc_engine.state.storage import Storage
from dc_engine.verdict import Verdict

pytestmark = pytest.mark.xdist_group("spark")

RULES: list[dict[str, Any]] = [
    {"name": "zip_decides_city", "fd": "zip -> city"},
    {"name": "rate_follows_pay", "deny": "t.pay > s.pay and t.rate < s.rate"},
    {"name": "pay_is_positive", "deny": "t.pay <= 0"},
]
TYPES = {"id": pa.int64(), "zip": pa.string(), "city": pa.string(), "pay": pa.int32(), "rate": pa.float64()}
TYPES |= {"note": pa.string()}

MONDAY = [
    (1, "10115", "Berlin", 10, 1.0, "a"),
    (2, "10115", "Berln", 20, 0.5, "b"),
    (3, "20095", "Hamburg", -5, 2.0, None),
]


def rows(*given: tuple[Any, ...]) -> pa.Table:
    """Rows as (id, zip, city, pay, rate, note), with the kind of change before them or not."""
    changes = bool(given) and len(given[0]) > len(TYPES)
    names = ["_change_type", *TYPES] if changes else list(TYPES)
    types = [pa.string(), *TYPES.values()] if changes else list(TYPES.values())
    columns = list(zip(*given, strict=True)) or [[] for _ in names]
    return pa.table({name: pa.array(list(v), t) for name, v, t in zip(names, columns, types, strict=True)})


@pytest.fixture(params=[True, False], ids=["with key", "without key"])
def keyed(request: pytest.FixtureRequest) -> bool:
    return request.param


class Gate:
    """One state and its loads."""

    def __init__(self, spark: SparkSession, folder: Path, *, keyed: bool = True) -> None:
        self.spark, self.folder, self.state = spark, folder, str(folder / "state")
        self.turn = int(keyed)
        self.rules: dict[str, Any] = {"version": 1, "table": "people", "constraints": RULES}
        self.rules |= {"key": ["id"]} if keyed else {}

    def apply(self, load_id: str, changes: pa.Table, **more: Any) -> Verdict:
        path = self.folder / f"{load_id}-{len(list(self.folder.iterdir()))}.parquet"
        pq.write_table(changes, path)
        self.turn += 1  # loads are worked on by workers and in the driver in turn: what one wrote, the other reads
        engine = ("spark", "local")[self.turn % 2]
        request = {"state": self.state, "load_id": load_id, "changes": {"path": str(path)}, "constraints": self.rules}
        return apply_load(self.spark, request | {"engine": engine} | more)

    def maintain(self, action: str, **more: Any) -> dict[str, Any]:
        return maintain(self.spark, action, {"state": self.state, **more})

    @property
    def totals(self) -> dict[str, int]:
        snapshot = read_current(Storage(self.state))
        assert snapshot is not None
        return total_violations(snapshot)


@pytest.fixture
def gate(spark: SparkSession, tmp_path: Path, keyed: bool) -> Gate:
    return Gate(spark, tmp_path, keyed=keyed)


@pytest.fixture
def keyed_gate(spark: SparkSession, tmp_path: Path) -> Gate:
    return Gate(spark, tmp_path)


def counts(verdict: Verdict) -> dict[str, tuple[int, int, int]]:
    return {one.name: (one.new_violations, one.removed_violations, one.total_violations) for one in verdict.constraints}


class TestDeletes:
    def test_a_delete_takes_its_violations_away(self, gate: Gate) -> None:
        gate.apply("monday", rows(*MONDAY))
        verdict = gate.apply("tuesday", rows(("delete", *MONDAY[1])))
        assert verdict.rows == {"inserted": 0, "deleted": 1, "total": 2}
        assert counts(verdict) == {
            "zip_decides_city": (0, 1, 0),
            "rate_follows_pay": (0, 2, 1),
            "pay_is_positive": (0, 0, 1),
        }

    def test_an_update_removes_before_it_adds(self, keyed_gate: Gate) -> None:
        keyed_gate.apply("monday", rows(*MONDAY))
        after = (2, "10115", "Berlin", 20, 1.5, "b")
        verdict = keyed_gate.apply("tuesday", rows(("update_preimage", *MONDAY[1]), ("update_postimage", *after)))
        assert verdict.rows == {"inserted": 1, "deleted": 1, "total": 3}
        assert counts(verdict)["zip_decides_city"] == (0, 1, 0)
        assert counts(verdict)["rate_follows_pay"] == (1, 2, 2)

    def test_the_columns_of_a_change_feed_are_tolerated(self, keyed_gate: Gate) -> None:
        keyed_gate.apply("monday", rows(*MONDAY))
        changes = rows(("delete", *MONDAY[1]))
        changes = changes.append_column("_commit_version", pa.array([7])).append_column(
            "_commit_timestamp", pa.array([0], pa.timestamp("us", "UTC"))
        )
        assert keyed_gate.apply("tuesday", changes).rows["deleted"] == 1

    def test_a_key_is_enough_when_it_is_declared(self, keyed_gate: Gate) -> None:
        keyed_gate.apply("monday", rows(*MONDAY))
        verdict = keyed_gate.apply("tuesday", pa.table({"_change_type": ["delete"], "ID": pa.array([2], pa.int64())}))
        assert (verdict.rows["deleted"], counts(verdict)["zip_decides_city"]) == (1, (0, 1, 0))

    def test_a_row_that_is_not_there_is_named_and_nothing_is_written(self, gate: Gate, keyed: bool) -> None:
        gate.apply("monday", rows(*MONDAY))
        absent = (9, *MONDAY[1][1:]) if keyed else (*MONDAY[1][:-1], "another note")
        before = _content(Path(gate.state))
        with pytest.raises(ChangesError) as caught:
            gate.apply("tuesday", rows(("delete", *absent), ("insert", 7, "1", "x", 1, 1.0, None)))
        assert "Load 'tuesday' deletes 1 row not there as given" in caught.value.message
        assert ("id=9" if keyed else "city=Berln") in caught.value.message
        assert _content(Path(gate.state)) == before

    def test_more_copies_than_there_are_is_refused(self, spark: SparkSession, tmp_path: Path) -> None:
        gate = Gate(spark, tmp_path, keyed=False)
        gate.apply("monday", rows(MONDAY[0], MONDAY[0]))
        with pytest.raises(ChangesError, match="deletes 1 row not there"):
            gate.apply("tuesday", rows(*[("delete", *MONDAY[0])] * 3))
        assert gate.apply("tuesday", rows(*[("delete", *MONDAY[0])] * 2)).rows["total"] == 0

    def test_missing_deletes_can_be_ignored_and_are_counted(self, keyed_gate: Gate) -> None:
        keyed_gate.apply("monday", rows(*MONDAY))
        absent = ("delete", 9, "0", "nowhere", 1, 1.0, None)
        verdict = keyed_gate.apply("tuesday", rows(absent, ("delete", *MONDAY[1])), missing_deletes="ignore")
        assert verdict.rows == {"inserted": 0, "deleted": 1, "total": 2, "missing_deletes": 1}

    def test_an_unknown_change_type_is_named(self, keyed_gate: Gate) -> None:
        keyed_gate.apply("monday", rows(*MONDAY))
        with pytest.raises(ChangesError, match="_change_type is 'upsert'"):
            keyed_gate.apply("tuesday", rows(("upsert", *MONDAY[0])))


class TestKeys:
    def test_a_key_that_is_present_is_refused_with_the_load_that_has_it(self, keyed_gate: Gate) -> None:
        keyed_gate.apply("monday", rows(*MONDAY))
        before = _content(Path(keyed_gate.state))
        with pytest.raises(ChangesError, match=r"inserts 1 key already present, for instance id=2 since load 'monday'"):
            keyed_gate.apply("tuesday", rows(MONDAY[1]))
        with pytest.raises(ChangesError, match="inserts 1 key more than once, for instance id=8"):
            keyed_gate.apply("tuesday", rows(*[(8, "1", "x", 1, 1.0, None)] * 2))
        assert _content(Path(keyed_gate.state)) == before

    def test_a_masked_key_is_not_shown_by_the_refusal(self, keyed_gate: Gate) -> None:
        keyed_gate.apply("monday", rows(*MONDAY))
        with pytest.raises(ChangesError, match=r"id=\*\*\*"):
            keyed_gate.apply("tuesday", rows(MONDAY[1]), mask=["ID"])

    def test_replace_treats_it_as_an_update(self, keyed_gate: Gate) -> None:
        keyed_gate.apply("monday", rows(*MONDAY))
        verdict = keyed_gate.apply("tuesday", rows((2, "10115", "Berlin", 20, 1.5, "b")), duplicate_keys="replace")
        assert verdict.rows == {"inserted": 1, "deleted": 1, "total": 3, "replaced_keys": 1}
        assert counts(verdict)["zip_decides_city"] == (0, 1, 0)


class TestHistory:
    def test_other_changes_under_a_known_id_replace_the_attempt(self, keyed_gate: Gate) -> None:
        keyed_gate.apply("monday", rows(*MONDAY))
        mended = [MONDAY[0], (2, "10115", "Berlin", 20, 1.5, "b")]
        verdict = keyed_gate.apply("monday", rows(*mended))
        assert (verdict.replaced, verdict.rows["total"], verdict.decision) == (True, 2, "pass")
        assert keyed_gate.apply("monday", rows(*mended)).replayed

    def test_an_older_attempt_is_replaced_where_it_stands(self, gate: Gate) -> None:
        gate.apply("monday", rows(*MONDAY))
        gate.apply("tuesday", rows((4, "10115", "Berlin", 30, 3.0, None)))
        verdict = gate.apply("monday", rows((1, "10115", "Bärlin", 10, 1.0, "a")))
        assert (verdict.replaced, verdict.rows["total"]) == (True, 2)
        assert counts(verdict)["zip_decides_city"][::2] == (1, 1)
        assert gate.maintain("verify")["sound"]

    def test_any_load_can_be_taken_out(self, keyed_gate: Gate) -> None:
        keyed_gate.apply("monday", rows(MONDAY[0]))
        keyed_gate.apply("tuesday", rows(MONDAY[1]))
        keyed_gate.apply("wednesday", rows(MONDAY[2]))
        before = keyed_gate.totals
        assert before == {"zip_decides_city": 1, "rate_follows_pay": 3, "pay_is_positive": 1}
        result = keyed_gate.maintain("retract", load_id="tuesday")
        assert (result["rows"]["total"], keyed_gate.totals["zip_decides_city"]) == (2, 0)
        keyed_gate.maintain("retract", load_id="wednesday")
        assert keyed_gate.totals == {"zip_decides_city": 0, "rate_follows_pay": 0, "pay_is_positive": 0}
        keyed_gate.apply("tuesday", rows(MONDAY[1]))
        keyed_gate.apply("wednesday", rows(MONDAY[2]))
        assert keyed_gate.totals == before
        assert keyed_gate.maintain("verify")["sound"]

    def test_a_load_that_a_later_one_needs_cannot_be_taken_out(self, keyed_gate: Gate) -> None:
        keyed_gate.apply("monday", rows(*MONDAY))
        keyed_gate.apply("tuesday", rows(("delete", *MONDAY[1])))
        with pytest.raises(ChangesError, match="'monday' cannot be taken out: load 'tuesday' after it deletes row"):
            keyed_gate.maintain("retract", load_id="monday")

    def test_a_rejected_load_can_be_discarded_and_its_verdict_stays(self, keyed_gate: Gate) -> None:
        keyed_gate.apply("monday", rows(MONDAY[0]))
        before = keyed_gate.totals
        verdict = keyed_gate.apply("tuesday", rows(*MONDAY[1:]), rejected_load="discard")
        assert (verdict.decision, verdict.discarded, verdict.rows["total"]) == ("fail", True, 1)
        assert keyed_gate.totals == before
        assert keyed_gate.apply("tuesday", rows(*MONDAY[1:])).replayed
        assert keyed_gate.apply("tuesday", rows((2, "10115", "Berlin", 20, 1.5, "b"))).rows["total"] == 2


class TestRulesThatChange:
    def test_an_added_rule_is_indexed_from_the_rows_in_the_state(self, gate: Gate) -> None:
        gate.apply("monday", rows(*MONDAY))
        gate.apply("tuesday", rows(("delete", *MONDAY[2])))
        gate.rules["constraints"] = [*RULES[:1], {"name": "one_each", "unique": ["zip"]}]
        verdict = gate.apply("wednesday", rows((5, "10115", "Berlin", 1, 1.0, None)))
        assert counts(verdict) == {"zip_decides_city": (1, 0, 2), "one_each": (2, 0, 3)}
        assert "Constraint 'one_each' was added." in verdict.notes
        assert "Constraint 'pay_is_positive' was removed." in verdict.notes
        assert gate.maintain("verify")["sound"]

    def test_columns_that_were_never_kept_come_from_the_table(self, gate: Gate, tmp_path: Path) -> None:
        gate.apply("monday", rows(*MONDAY))
        gate.apply("tuesday", rows(("delete", *MONDAY[2]), ("insert", 4, "1", "x", 3, 3.0, "b")))
        left = [*MONDAY[:2], (4, "1", "x", 3, 3.0, "b")]
        gate.rules["constraints"] = [*RULES, {"name": "note_once", "unique": ["note"]}]
        new = (5, "2", "y", 30, 3.0, "b")
        with pytest.raises(ConstraintError) as caught:
            gate.apply("wednesday", rows(new))
        assert "Column 'note', which constraint 'note_once' needs, is not known for the 3 rows" in caught.value.message
        pq.write_table(rows(*left, new), tmp_path / "table.parquet")
        verdict = gate.apply("wednesday", rows(new), table={"path": str(tmp_path / "table.parquet")})
        assert counts(verdict)["note_once"] == (2, 0, 3)
        assert gate.maintain("verify", table={"path": str(tmp_path / "table.parquet")})["sound"]
        assert gate.apply("thursday", rows(("delete", *MONDAY[1]))).rows["total"] == 3
        gate.maintain("retract", load_id="wednesday")
        assert gate.totals["note_once"] == 0

    def test_so_does_a_key_that_was_never_kept(self, spark: SparkSession, tmp_path: Path) -> None:
        gate = Gate(spark, tmp_path, keyed=False)
        gate.apply("monday", rows(*MONDAY))
        gate.rules["key"] = ["id"]
        pq.write_table(rows(*MONDAY), tmp_path / "table.parquet")
        table = {"path": str(tmp_path / "table.parquet")}
        with pytest.raises(ConstraintError, match="Column 'id', which the key needs, is not known for the 3 rows"):
            gate.apply("tuesday", rows((4, "1", "x", 3, 3.0, "b")))
        assert gate.apply("tuesday", rows((4, "1", "x", 3, 3.0, "b")), table=table).rows["total"] == 4
        gone = pa.table({"_change_type": ["delete"], "id": pa.array([2], pa.int64())})
        assert gate.apply("wednesday", gone).rows["deleted"] == 1
        assert gate.maintain("verify")["sound"]

    @pytest.mark.parametrize(
        ("places", "found"),
        [
            ([0, 1], "2 found in the table."),
            ([0, 0, 1], "2 found in the table, some of them more than once."),
            ([0, 0, 0], "1 found in the table, some of them more than once."),
            ([0, 0, 1, 2], "3 found in the table, some of them more than once."),
        ],
    )
    def test_a_table_that_lacks_rows_or_has_one_twice_is_refused(
        self, keyed_gate: Gate, tmp_path: Path, places: list[int], found: str
    ) -> None:
        keyed_gate.apply("monday", rows(*MONDAY))
        keyed_gate.rules["constraints"] = [*RULES, {"name": "note_once", "unique": ["note"]}]
        pq.write_table(rows(*(MONDAY[place] for place in places)), tmp_path / "table.parquet")
        before = _content(Path(keyed_gate.state))
        # one row per task
        with other_sizes(widened_rows=1), pytest.raises(ChangesError, match=f"3 rows in the state, {found}"):
            keyed_gate.apply(
                "tuesday", rows((5, "2", "y", 30, 3.0, "b")), table={"path": str(tmp_path / "table.parquet")}
            )
        assert _content(Path(keyed_gate.state)) == before


class TestMaintenance:
    def test_a_state_is_rebuilt_from_the_table(self, keyed_gate: Gate, tmp_path: Path) -> None:
        keyed_gate.apply("monday", rows(*MONDAY))
        for path in (Path(keyed_gate.state) / "index").rglob("*.parquet"):
            path.write_bytes(b"lost")
        for path in (Path(keyed_gate.state) / "rows").rglob("*.parquet"):
            path.unlink()
        assert not keyed_gate.maintain("verify")["sound"]
        pq.write_table(rows(*MONDAY), tmp_path / "table.parquet")
        result = keyed_gate.maintain("rebuild", table={"path": str(tmp_path / "table.parquet")})
        assert result["total_violations"] == {"zip_decides_city": 1, "rate_follows_pay": 3, "pay_is_positive": 1}
        assert keyed_gate.maintain("verify", table={"path": str(tmp_path / "table.parquet")})["sound"]
        assert keyed_gate.apply("monday", rows(*MONDAY)).replayed
        assert keyed_gate.apply("tuesday", rows(("delete", *MONDAY[1]))).rows["total"] == 2

    def test_verify_tells_where_the_table_differs(self, keyed_gate: Gate, tmp_path: Path) -> None:
        keyed_gate.apply("monday", rows(*MONDAY))
        pq.write_table(rows(*MONDAY[:2], (3, "20095", "Hamburg", 5, 2.0, None)), tmp_path / "table.parquet")
        result = keyed_gate.maintain("verify", table={"path": str(tmp_path / "table.parquet")})
        assert len(result["problems"]) == 2


class TestQuarantine:
    def test_violating_rows_and_the_clean_rest_are_written_apart(self, keyed_gate: Gate, tmp_path: Path) -> None:
        keyed_gate.apply("monday", rows(MONDAY[0]))
        good = (6, "50667", "Köln", 30, 3.0, "kept")
        verdict = keyed_gate.apply("tuesday", rows(*MONDAY[1:], good), quarantine=str(tmp_path / "quarantine"))
        assert verdict.quarantine == {
            "violating": f"{tmp_path}/quarantine/violating",
            "clean": f"{tmp_path}/quarantine/clean",
            "violating_rows": 2,
            "clean_rows": 1,
        }
        clean = pq.read_table(tmp_path / "quarantine" / "clean").to_pylist()
        assert clean == rows(good).to_pylist()
        bad = {one["id"]: one for one in pq.read_table(tmp_path / "quarantine" / "violating").to_pylist()}
        assert (bad[2]["note"], bad[2]["_dc_violations"]) == ("b", 3)
        assert bad[2]["_dc_rules"] == [
            {"rule": "rate_follows_pay", "violations": 2},
            {"rule": "zip_decides_city", "violations": 1},
        ]

    def test_an_update_that_violates_stays_behind_whole(self, keyed_gate: Gate, tmp_path: Path) -> None:
        keyed_gate.apply("monday", rows(MONDAY[0], (2, "1", "x", 20, 5.0, "b")))
        changes = rows(
            ("update_preimage", 2, "1", "x", 20, 5.0, "b"),
            ("update_postimage", 2, "1", "x", -20, 5.0, "b"),
            ("delete", *MONDAY[0]),
        )
        verdict = keyed_gate.apply("tuesday", changes, quarantine=str(tmp_path / "quarantine"))
        assert verdict.quarantine is not None
        assert (verdict.quarantine["violating_rows"], verdict.quarantine["clean_rows"]) == (2, 1)
        assert pq.read_table(tmp_path / "quarantine" / "clean").column("id").to_pylist() == [1]

    def test_a_clean_load_leaves_no_violating_rows(self, keyed_gate: Gate, tmp_path: Path) -> None:
        verdict = keyed_gate.apply("monday", rows(MONDAY[0]), quarantine=str(tmp_path / "quarantine"))
        assert verdict.quarantine is not None
        assert (verdict.quarantine["violating_rows"], verdict.quarantine["clean_rows"]) == (0, 1)


def _content(folder: Path) -> dict[str, bytes]:
    return {str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()}
