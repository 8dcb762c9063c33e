"""A history of any length: what a load costs, writes and leaves does not depend on how many came before it."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dc_engine.apply_load import apply_load
from dc_engine.maintain import maintain
from dc_engine.maintained.continuity import total_violations
from dc_engine.state.files import FileKind
from dc_engine.state.snapshots import Snapshot, read_current, snapshot_path
from dc_engine.state.storage import Storage
from dc_engine.verdict import Verdict
from tests.inprocess import Session, Source

pytestmark = pytest.mark.xdist_group("long_history")

LOADS = 150
RULES = {"version": 1, "table": "people", "key": ["id"], "constraints": [{"name": "city", "fd": "zip -> city"}]}
TYPES = {"id": "bigint", "zip": "string", "city": "string", "_change_type": "string"}


class Table:
    """A state with many small loads: each inserts three rows, and every fourth deletes one of the load before."""

    def __init__(self, state: str) -> None:
        self.session, self.state, self.storage = Session(), state, Storage(state)

    def apply(self, number: int, city: str = "x") -> Verdict:
        rows = [("insert", 3 * number + n, f"{(3 * number + n) % 40}", city) for n in range(3)]
        if number % 4 == 3:
            rows.append(("delete", 3 * (number - 1), "", ""))
        kinds, ids, zips, cities = zip(*rows, strict=True)
        columns = {"id": pa.array(ids, pa.int64()), "zip": zips, "city": cities, "_change_type": kinds}
        self.session.sources["load"] = Source(pa.table(columns), TYPES)
        request = {"state": self.state, "load_id": f"load {number}", "changes": {"path": "load"}, "constraints": RULES}
        return apply_load(self.session, request)

    def maintain(self, action: str, **more: Any) -> dict[str, Any]:
        return maintain(self.session, action, {"state": self.state, **more})

    @property
    def snapshot(self) -> Snapshot:
        current = read_current(self.storage)
        assert current is not None
        return current


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Table, list[dict[str, int]]]:
    """The table, and after each load how large the snapshot is, how many files it names, what the load wrote."""
    table = Table(str(tmp_path_factory.mktemp("long") / "state"))
    known: set[str] = set()
    measured = []
    for number in range(LOADS):
        table.apply(number)
        files = {file.path: file.size for file in table.storage.files()}
        path = snapshot_path(number + 1)
        written = sum(size for name, size in files.items() if name not in known and name != path)
        measured.append({"snapshot": files[path], "files": len(table.snapshot.files), "written": written})
        known = set(files)
    return table, measured


def test_a_snapshot_stays_small(grown: tuple[Table, list[dict[str, int]]]) -> None:
    _, measured = grown
    later = [one["snapshot"] for one in measured[100:]]
    assert max(later) < 1.3 * max(one["snapshot"] for one in measured[:100]) < 200_000


def test_the_number_of_files_grows_with_the_logarithm_of_the_loads(grown: tuple[Table, list[dict[str, int]]]) -> None:
    _, measured = grown
    for loads, one in enumerate(measured, 1):
        # per kind of file (rows, deletes, bitmaps, two indexes, records) sixteen before they are merged
        assert one["files"] <= 6 * (16 + math.log2(loads))


def test_what_a_load_writes_does_not_depend_on_those_before_it(grown: tuple[Table, list[dict[str, int]]]) -> None:
    _, measured = grown
    early, late = (sum(one["written"] for one in part) for part in (measured[40:90], measured[-50:]))
    assert late <= 1.5 * early  # merging included: what is merged grows, how often it is merged does not


def test_every_load_is_found_and_recognised(grown: tuple[Table, list[dict[str, int]]]) -> None:
    table, _ = grown
    before = table.snapshot
    assert [one.load_id for one in before.loads(table.storage).since()] == [f"load {n}" for n in range(LOADS)]
    for number in (0, 1, LOADS // 2, LOADS - 50, LOADS - 1):
        assert table.apply(number).replayed
    assert table.snapshot == before
    assert len(table.maintain("describe")["loads"]) == LOADS


def test_any_load_can_be_replaced_or_taken_out_and_the_state_stays_sound(
    grown: tuple[Table, list[dict[str, int]]], tmp_path: Path
) -> None:
    table = Table(str(shutil.copytree(grown[0].state, tmp_path / "state")))  # others look at the table as it was made
    rows = table.snapshot.rows
    table.maintain("retract", load_id="load 4")
    assert table.snapshot.rows == rows - 3
    verdict = table.apply(101, city="y")
    assert (verdict.replaced, verdict.rows["total"]) == (True, rows - 3)
    assert verdict.constraints[0].new_violations > 0
    assert table.maintain("verify")["problems"] == []
    totals = total_violations(table.snapshot)
    table.maintain("compact")
    assert len(table.snapshot.files_of(FileKind.ROWS)) <= 3
    table.maintain("vacuum", keep_snapshots=1, grace_hours=0)
    assert table.maintain("verify")["problems"] == []
    table.maintain("rebuild")
    assert total_violations(table.snapshot) == totals
    names = [one.load_id for one in table.snapshot.loads(table.storage).since()]
    assert names == [f"load {n}" for n in range(LOADS) if n != 4]
