"""The example DAGs of waiting and reading, in real Airflow."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.xdist_group("airflow")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory, repository: Path, airflow_database: Path) -> dict[str, Any]:
    output = tmp_path_factory.mktemp("waiting")
    (output / "airflow").mkdir()
    shutil.copy(airflow_database, output / "airflow")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "PYSPARK", "DC_"))}
    command = [sys.executable, "-m", "tests.dags_examples.run_waiting", output]
    environment = {**kept, "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, cwd=repository, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    return json.loads((output / "outcomes.json").read_text())


def test_pending_loads_are_found_in_order_and_gated(outcomes):
    found = outcomes["pending"]
    assert found["tasks"] == {"pending[-1]": "success", "gate[0]": "success", "gate[1]": "success"}
    gates = [found["xcom"][f"gate[{index}].return_value"] for index in (0, 1)]
    assert [one["load_id"] for one in gates] == ["monday", "tuesday"]
    assert sorted(one["rows"]["total"] for one in gates) == [200, 400]  # dag.test runs them in any order


def test_another_dag_waits_for_a_verdict_and_reads_the_state(outcomes):
    found = outcomes["passed"]
    assert set(found["tasks"].values()) == {"success"}
    *loads, total = found["xcom"]["use_the_table[-1].return_value"]
    assert sorted(loads) == ["monday: 200 rows", "tuesday: 200 rows"]
    passed = found["xcom"]["verdict[-1].return_value"]
    assert (passed["load_id"], total) == ("tuesday", f"{passed['rows']['total']} rows in all")


def test_a_change_feed_in_csv_inserts_updates_and_deletes(outcomes):
    rows = {day: outcomes[day]["xcom"]["gate[-1].verdict"]["rows"] for day in ("monday", "tuesday", "wednesday")}
    assert (rows["monday"]["inserted"], rows["monday"]["deleted"], rows["monday"]["total"]) == (3, 0, 3)
    assert (rows["tuesday"]["inserted"], rows["tuesday"]["deleted"], rows["tuesday"]["total"]) == (1, 2, 2)
    assert outcomes["tuesday"]["tasks"]["gate[-1]"] == "success"
    assert outcomes["wednesday"]["tasks"]["gate[-1]"] == "failed"
    broken = outcomes["wednesday"]["xcom"]["gate[-1].verdict"]["constraints"]
    assert {name for name, one in broken.items() if not one["passed"]} == {"one_rate_for_a_brand"}


def test_openlineage_gets_the_verdicts_of_gates_that_open_and_that_close(outcomes):
    found = {}
    for event in outcomes["lineage"]:
        for one in event.get("inputs", ()):
            found[(event["eventType"], Path(one["name"]).name)] = one["inputFacets"]
    opened, closed = found["COMPLETE", "tuesday.csv"], found["FAIL", "wednesday.csv"]
    assert all(one["success"] for one in opened["dataQualityAssertions"]["assertions"])
    told = {one["name"]: one for one in closed["dataQualityAssertions"]["assertions"]}
    assert {name: one["success"] for name, one in told.items()} == {
        "one_rate_for_a_brand": False,
        "price_is_positive": True,
    }
    assert told["one_rate_for_a_brand"]["actual"] == "2"
    assert closed["dataQualityMetrics"]["rowCount"] == 1
    assert ("COMPLETE", "monday.parquet") in found  # of a mapped gate
