"""The example DAG in real Airflow on real Spark: green, red, what runs behind it, what is left in XCom."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dags_examples.demo import LOST_ON_PURPOSE, Outcome, summary_lines
from dc_engine.state.storage import Storage
from dc_engine.stored import read_dependencies
from dc_engine.verdict import Verdict

pytestmark = pytest.mark.xdist_group("airflow")


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def outcomes(output: Path, repository: Path, airflow_database: Path) -> dict[str, Any]:
    """The first load (green), a discovery, and the broken load (red), each with its own spark-submit."""
    (output / "airflow").mkdir()
    shutil.copy(airflow_database, output / "airflow")
    command = [sys.executable, "-m", "tests.dags_examples.run_example", output, "monday", "night", "wednesday"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "PYSPARK"))}
    done = subprocess.run(command, cwd=repository, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    found = json.loads((output / "outcomes.json").read_text())
    assert found["night"]["state"] == "done", f"Without it all that follows is another story:\n{done.stdout[-5000:]}"
    return found


def test_a_clean_load_passes_and_is_published(outcomes, output):
    monday = outcomes["monday"]
    assert monday["tasks"] == {
        "load": "success",
        "gate": "success",
        "publish": "success",
        "data_docs": "success",
    }
    assert monday["verdict"]["decision"] == "pass"
    assert monday["verdict"]["rows"] == {"inserted": 20_000, "deleted": 0, "total": 20_000}
    assert (output / "data" / "published" / "monday.parquet").exists()


def test_a_broken_load_closes_the_gate_and_is_not_published(outcomes, output):
    assert outcomes["wednesday"]["tasks"] == {
        "load": "success",
        "gate": "failed",
        "publish": "upstream_failed",
        "data_docs": "success",
    }
    assert not (output / "data" / "published" / "wednesday.parquet").exists()
    assert outcomes["wednesday"]["state"] == "failed", "also with a task that succeeds behind the gate"


def test_the_verdict_names_the_rules_that_were_broken_and_the_rows(outcomes):
    verdict = Verdict.from_dict(outcomes["wednesday"]["verdict"])
    broken = {rule.name: rule for rule in verdict.broken}
    assert set(broken) == {"phone_is_unique", "zip_decides_city", "rate_follows_salary"}
    phone = broken["phone_is_unique"]
    assert (phone.new_violations, phone.violating_rows) == (2, 2)
    assert all(one["row"]["id"] > 21_000 for one in phone.worst_rows)
    for rule in broken.values():
        assert Path(rule.violations).exists()
        assert all(Path(path).exists() for path in rule.violating_rows_listed)


def test_the_summary_is_in_xcom_also_after_the_failure(outcomes):
    green, red = outcomes["monday"]["xcom"], outcomes["wednesday"]["xcom"]
    assert green["verdict"] == green["return_value"]
    assert set(red) == {"verdict", "dc_state", "_link_VerdictLink"}
    assert red["verdict"]["decision"] == "fail"
    counted = {rule["name"]: rule["new_violations"] for rule in outcomes["wednesday"]["verdict"]["constraints"]}
    assert {name: one["new_violations"] for name, one in red["verdict"]["constraints"].items()} == counted


def test_both_verdicts_are_in_data_docs_and_linked_from_their_tasks(outcomes, output):
    for load, run in (("monday", "monday_v1"), ("wednesday", "wednesday_v3")):
        pushed = outcomes[load]["data_docs"]
        assert pushed["return_value"]["success"] is (load == "monday")
        assert f"/dcgate/tax/{run}/" in pushed["data_docs"]
        assert Path(pushed["data_docs"].removeprefix("file://")).exists()
        assert pushed["_link_DataDocsLink"].startswith("dc/docs/")
    assert (output / "data" / "quality" / "gx" / "great_expectations.yml").exists()


def test_nothing_of_the_exchange_is_left_in_the_state(outcomes, output):
    assert not list((output / "data" / "state" / "tax" / "runs").iterdir())


def test_the_summary_of_the_demo_tells_it_all(outcomes):
    loads = {load: one for load, one in outcomes.items() if load != "night"}
    told = [Outcome(load, "", one["tasks"], Verdict.from_dict(one["verdict"]), 0.0) for load, one in loads.items()]
    assert all(one.as_told for one in told)
    text = "\n".join(summary_lines(told))
    assert "gate green, published" in text
    assert "gate RED, not published" in text
    for rule in ("phone_is_unique", "zip_decides_city", "rate_follows_salary"):
        assert f"{rule} (error): " in text
    assert text.count("example 2") == 3
    assert f"{LOST_ON_PURPOSE} (held since monday; now " in text
    assert "what holds instead: " in text


def test_what_the_discovery_found_is_watched_by_the_gate(outcomes, output):
    verdict = Verdict.from_dict(outcomes["wednesday"]["verdict"])
    lost = {one.text: one for one in verdict.dependencies.invalidated if one.watched}
    assert lost[LOST_ON_PURPOSE].violations > 0
    assert all("marital_status" in one["text"] for one in lost[LOST_ON_PURPOSE].instead)
    assert lost[LOST_ON_PURPOSE].instead
    assert "zip -> city" in lost
    holding = {one["text"] for one in read_dependencies(Storage(str(output / "data" / "state" / "tax")))}
    assert LOST_ON_PURPOSE not in holding
    assert "child_exemp -> has_child" in holding
