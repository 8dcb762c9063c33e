"""Looking after a state: what each action does, says and never does."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dc_engine import maintain as job
from dc_engine.apply_load import apply_load
from dc_engine.detection.compact import depth
from dc_engine.errors import ChangesError, RequestError, StateError
from dc_engine.maintain import maintain
from dc_engine.maintained.continuity import total_violations
from dc_engine.sizes import SIZES
from dc_engine.state.files import FileKind
from dc_engine.state.snapshots import Snapshot, read_current
from dc_engine.state.storage import Storage
from dc_engine.verdict import Verdict
from tests.inprocess import Session, Source

TYPES = {"id": ("bigint", pa.int64()), "zip": ("string", pa.string()), "city": ("string", pa.string())}
RULES: dict[str, Any] = {
    "version": 1,
    "table": "people",
    "key": ["id"],
    "constraints": [{"name": "zip_decides_city", "fd": "zip -> city"}, {"name": "early", "deny": "t.id < 0"}],
}
WITHOUT_KEY = {name: value for name, value in RULES.items() if name != "key"}

Row = tuple[int, str, str]


class Table:
    """A state on disk, and loads without Spark."""

    def __init__(self, spark: Session, folder: Path) -> None:
        self.spark, self.state = spark, str(folder / "state")

    def apply(self, load_id: str, *inserts: Row, deletes: tuple[Row, ...] = (), **more: Any) -> Verdict:
        rows = [*inserts, *deletes]
        columns = {
            name: pa.array([row[place] for row in rows], arrow)
            for place, (name, (_, arrow)) in enumerate(TYPES.items())
        }
        kinds = pa.array(["insert"] * len(inserts) + ["delete"] * len(deletes), pa.string())
        types = {name: spark for name, (spark, _) in TYPES.items()} | {"_change_type": "string"}
        self.spark.sources[load_id] = Source(pa.table({**columns, "_change_type": kinds}), types)
        request = {"state": self.state, "load_id": load_id, "changes": {"path": load_id}, "constraints": RULES}
        return apply_load(self.spark, request | more)

    def maintain(self, action: str, **more: Any) -> dict[str, Any]:
        return maintain(self.spark, action, {"state": self.state, **more})

    @property
    def snapshot(self) -> Snapshot:
        current = read_current(Storage(self.state))
        assert current is not None
        return current


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(Session(), tmp_path)


class TestRetract:
    def test_an_unknown_load_is_named_with_the_nearest(self, table: Table) -> None:
        table.apply("monday", (1, "a", "x"))
        with pytest.raises(StateError) as caught:
            table.maintain("retract", load_id="mondy")
        assert "There is no load 'mondy'" in caught.value.message
        assert "monday" in caught.value.hint

    def test_the_newest_load_is_taken_out_without_spark(self, table: Table) -> None:
        table.apply("monday", (1, "a", "x"))
        table.apply("tuesday", (2, "a", "y"))
        result = maintain(pytest.fail, "retract", {"state": table.state, "load_id": "tuesday"})
        assert (result["rows"], result["removed_violations"]) == (
            {"before": 2, "total": 1},
            {"zip_decides_city": 1, "early": 0},
        )

    def test_a_task_that_is_tried_again_after_its_commit_has_nothing_to_do(self, table: Table) -> None:
        table.apply("monday", (1, "a", "x"))
        table.apply("tuesday", (2, "a", "y"))
        first = table.maintain("retract", load_id="tuesday")
        again = table.maintain("retract", load_id="tuesday")
        assert (again["snapshot"], again["rows"]["total"]) == (first["snapshot"], 1)
        table.apply("wednesday", (3, "a", "y"))
        with pytest.raises(StateError, match="There is no load 'tuesday'"):
            table.maintain("retract", load_id="tuesday")

    def test_rows_are_recognised_even_when_the_key_was_given_up(self, table: Table) -> None:
        table.apply("monday", (1, "a", "x"), (2, "a", "y"))
        table.apply("tuesday", (3, "a", "z"), deletes=((1, "a", "x"),))
        table.apply("wednesday", (4, "b", "y"), constraints=WITHOUT_KEY)
        assert table.maintain("retract", load_id="tuesday")["rows"]["total"] == 3
        assert total_violations(table.snapshot) == {"zip_decides_city": 1, "early": 0}
        assert table.maintain("verify")["sound"]


class TestCompact:
    def test_the_gate_itself_merges_runs_when_there_are_too_many(self, table: Table) -> None:
        for number in range(3 * SIZES.runs):
            table.apply(f"load {number}", (number, "a", "x"), (1000 + number, str(number), "y"))
            for index in {file.owner for file in table.snapshot.files if file.kind == "index"}:
                assert depth(table.snapshot.files_of(FileKind.INDEX, index)) <= SIZES.runs + 2
        assert table.maintain("verify")["sound"]

    def test_merging_small_runs_keeps_what_they_take_away_from_a_large_one(self, table: Table) -> None:
        large = [(number, str(number // 2), f"city {number}") for number in range(30_000)]
        table.apply("monday", *large)
        for number in range(2 * SIZES.runs):
            table.apply(f"load {number}", (90_000 + number, "other", "x"), deletes=(large[number],))
        runs = [(one.owner, one.load) for one in table.snapshot.files_of(FileKind.INDEX)]
        beside = [owner for owner, load in runs if load == 1 and (owner, 0) in runs]
        assert beside, "the large run stands beside merged ones"
        assert total_violations(table.snapshot) == {"zip_decides_city": 15_000 - SIZES.runs, "early": 0}
        assert table.maintain("verify")["sound"]
        assert table.maintain("rebuild")["total_violations"] == total_violations(table.snapshot)

    def test_the_newest_load_can_still_be_taken_out_at_no_cost(self, table: Table) -> None:
        table.apply("monday", (1, "a", "x"))
        table.apply("tuesday", (2, "a", "x"))
        table.apply("wednesday", (3, "a", "x"))
        table.maintain("compact")
        assert maintain(pytest.fail, "retract", {"state": table.state, "load_id": "wednesday"})["rows"]["total"] == 2

    def test_a_second_time_there_is_nothing_to_do(self, table: Table) -> None:
        for number in range(4):
            table.apply(f"load {number}", (number, "a", "x"))
        first, second = table.maintain("compact"), table.maintain("compact")
        assert (first["snapshot"], second["snapshot"]) == (5, 5)
        assert first["files"] == second["files"] < first["files_before"]


class TestVacuum:
    def test_old_snapshots_go_and_every_file_that_is_left_is_needed(self, table: Table) -> None:
        for number in range(5):
            table.apply(f"load {number}", (number, "a", "x"))
        table.maintain("compact")
        result = table.maintain("vacuum", keep_snapshots=1, grace_hours=0)
        assert result["removed_snapshots"] == 5
        assert table.maintain("verify")["sound"]
        assert table.apply("load 2", (2, "a", "x")).replayed
        assert table.maintain("vacuum", keep_snapshots=2, grace_hours=0)["removed_files"] == 0

    def test_what_somebody_else_keeps_in_the_folder_stays(self, table: Table) -> None:
        table.apply("monday", (1, "a", "x"))
        other = Path(table.state) / "notes" / "index"
        other.mkdir(parents=True)
        (other / "mine.parquet").write_text("not yours")
        (Path(table.state) / "README").write_text("mine")
        (Path(table.state) / "index" / "left over.parquet").write_text("of a crash")
        assert table.maintain("vacuum", grace_hours=0)["removed_files"] == 1
        assert (other / "mine.parquet").exists()
        assert (Path(table.state) / "README").exists()

    def test_a_snapshot_that_stays_for_its_age_keeps_all_of_its_files(self, table: Table) -> None:
        for number in range(4):
            table.apply(f"load {number}", (number, "a", "x"))
        table.maintain("compact")
        past = time.time() - 100 * 3600
        for path in Path(table.state).rglob("*.parquet"):
            os.utime(path, (past, past))
        assert table.maintain("vacuum", keep_snapshots=1, grace_hours=24)["removed_files"] == 0
        assert table.maintain("vacuum", keep_snapshots=1, grace_hours=1e30)["removed_files"] == 0

    def test_files_of_the_future_stay(self, table: Table) -> None:
        """A clock that was set back must not make files look old."""
        table.apply("monday", (1, "a", "x"))
        left = Path(table.state) / "rows" / "left over.parquet"
        left.write_text("of a gate at work")
        os.utime(left, (time.time() + 10**6,) * 2)
        assert table.maintain("vacuum", grace_hours=0)["young_files"] >= 1
        assert left.exists()


class TestRebuild:
    def test_damaged_indexes_are_built_anew_from_the_rows(self, table: Table) -> None:
        table.apply("monday", (1, "a", "x"), (2, "a", "y"))
        table.apply("tuesday", (3, "b", "x"), deletes=((1, "a", "x"),))
        totals = total_violations(table.snapshot)
        for path in (Path(table.state) / "index").rglob("*.parquet"):
            path.unlink()
        assert not table.maintain("verify")["sound"]
        assert table.maintain("rebuild")["total_violations"] == totals
        assert table.maintain("verify")["sound"]
        with pytest.raises(ChangesError, match="cannot be taken out"):
            table.maintain("retract", load_id="monday")
        assert table.maintain("retract", load_id="tuesday")["total_violations"] == {"zip_decides_city": 1, "early": 0}

    def test_a_state_that_has_only_a_discarded_load_can_be_maintained(self, table: Table) -> None:
        assert table.apply("monday", (-1, "a", "x"), rejected_load="discard").discarded
        for action in ("compact", "rebuild", "vacuum", "verify", "describe"):
            table.maintain(action)
        assert table.apply("tuesday", (1, "a", "x")).rows["total"] == 1


class TestDescribe:
    def test_it_tells_people_what_is_in_a_state(self, table: Table) -> None:
        table.apply("monday", (1, "a", "x"), (2, "a", "y"))
        table.apply("tuesday", (-3, "a", "y"), rejected_load="discard")
        result = table.maintain("describe")
        assert result["constraints"][0] == {
            "name": "zip_decides_city",
            "formula": "not (t.zip = s.zip and t.city != s.city)",
            "total_violations": 1,
        }
        assert [(one["load_id"], one["discarded"]) for one in result["loads"]] == [("monday", False), ("tuesday", True)]
        for expected in ("Table people: 2 rows, snapshot 2", "monday", "tuesday (discarded)", "zip_decides_city"):
            assert expected in result["text"]


class TestRequests:
    @pytest.mark.parametrize(
        ("action", "request_", "expected"),
        [
            ("retrct", {}, "There is no action 'retrct'"),
            ("retract", {}, "needs 'load_id'"),
            ("compact", {"keep": 1}, "Unknown key 'keep' in a request to compact"),
            ("vacuum", {"keep_snapshots": 0}, "'keep_snapshots' must be a number of at least 1"),
            ("compact", {"max_wait_seconds": -1}, "'max_wait_seconds' must be a number of at least 0, not -1"),
            ("compact", {"max_wait_seconds": "1"}, "'max_wait_seconds' must be a number of at least 0, not '1'"),
            ("vacuum", {"grace_hours": -1}, "'grace_hours'"),
            ("verify", {"table": {"pth": "x"}}, "Unknown key 'pth' in table"),
        ],
    )
    def test_what_is_wrong_is_named(self, table: Table, action: str, request_: dict[str, Any], expected: str) -> None:
        with pytest.raises(RequestError) as caught:
            table.maintain(action, **request_)
        assert expected in caught.value.message

    def test_a_folder_without_state_is_named(self, table: Table) -> None:
        with pytest.raises(StateError, match="There is no state in"):
            table.maintain("describe")


class TestCommand:
    def test_people_get_text_and_programs_json(self, table: Table, capsys: pytest.CaptureFixture[str]) -> None:
        table.apply("monday", (1, "a", "x"))
        assert job.main(["describe", "--state", table.state]) == 0
        assert capsys.readouterr().out.startswith("Table people: 1 row,")
        assert job.main(["describe", "--state", table.state, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["rows"] == 1

    def test_an_unsound_state_fails_the_command(self, table: Table, capsys: pytest.CaptureFixture[str]) -> None:
        table.apply("monday", (1, "a", "x"))
        assert job.main(["verify", "--state", table.state]) == 0
        next((Path(table.state) / "rows").iterdir()).write_bytes(b"lost")
        assert job.main(["verify", "--state", table.state]) == 1
        assert "PROBLEM: " in capsys.readouterr().out

    def test_a_request_document_is_taken_too(self, table: Table, tmp_path: Path) -> None:
        table.apply("monday", (1, "a", "x"))
        (tmp_path / "request.json").write_text(json.dumps({"state": table.state, "load_id": "monday"}))
        result = tmp_path / "result.json"
        assert job.main(["retract", "--request", str(tmp_path / "request.json"), "--result", str(result)]) == 0
        assert json.loads(result.read_text())["rows"]["total"] == 0
        (tmp_path / "request.json").write_text(json.dumps({"state": table.state, "load_id": "friday"}))
        assert job.main(["retract", "--request", str(tmp_path / "request.json"), "--result", str(result)]) == 1
        assert "There is no load 'friday'" in json.loads(result.read_text())["error"]["message"]
