"""The recipes: each example DAG runs as it is in a real Airflow, and does what it says."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from tests.end_to_end.airflow_running import RunningAirflow

pytestmark = pytest.mark.xdist_group("running_airflow")

EXAMPLES = ("ask_a_person", "asset_consumer", "branch_quarantine", "write_audit_publish")


@pytest.fixture(scope="module")
def running(airflow: RunningAirflow, repository: Path) -> RunningAirflow:
    """An Airflow with the examples, as a person copies them."""
    source, target = repository / "dags_examples", airflow.home / "dags"
    shutil.copytree(source / "constraints", target / "constraints", dirs_exist_ok=True)
    for name in (".airflowignore", "landing.py", "tax_data.py"):
        shutil.copy(source / name, target)
    for name in EXAMPLES:
        airflow.add_dag_file(source / f"{name}.py")
    return airflow


def run(running: RunningAirflow, dag: str, day: str) -> dict[str, str]:
    """Run an example for a day; the state of each task."""
    return running.wait_for_run(dag, running.trigger(dag, run_id=f"{dag}-{day}", conf={"day": day}))


def ids(running: RunningAirflow, name: str) -> set[int]:
    """The rows that were published under a name."""
    path = running.home / "tax" / "published" / f"{name}.parquet"
    return set(pyarrow.parquet.read_table(path).column("id").to_pylist()) if path.exists() else set()


def test_a_branch_publishes_the_clean_rows_and_sets_the_others_aside(running):
    for name in ("monday", "wednesday", "wednesday_clean"):
        (running.home / "tax" / "published" / f"{name}.parquet").unlink(missing_ok=True)
    followed = {"land": "success", "branch": "success", "publish": "success"}
    skipped = {"clean_rows": "skipped", "publish_clean": "skipped", "tell_people": "skipped"}
    assert run(running, "branch_quarantine", "monday") == {**followed, **skipped}
    assert len(ids(running, "monday")) == 2_000
    broken = run(running, "branch_quarantine", "wednesday")
    assert broken == {name: "skipped" if name == "publish" else "success" for name in broken}
    verdict = running.xcom("branch_quarantine", "branch_quarantine-wednesday", "branch")
    clean = ids(running, "wednesday_clean")
    assert len(clean) == verdict["quarantine"]["clean_rows"] == 200 - verdict["quarantine"]["violating_rows"]
    assert verdict["quarantine"]["violating_rows"] > 0


def test_write_audit_publish_never_publishes_a_broken_load(running):
    (running.home / "tax" / "published" / "wednesday.parquet").unlink(missing_ok=True)
    green = {"land": "success", "audit": "success", "publish": "success"}
    assert run(running, "write_audit_publish", "monday") == green
    red = {"land": "success", "audit": "failed", "publish": "upstream_failed"}
    assert run(running, "write_audit_publish", "wednesday") == red
    assert not ids(running, "wednesday")
    assert run(running, "write_audit_publish", "tuesday") == green, "the rows that were discarded are in nobody's way"


def test_a_person_lets_a_load_pass_and_the_consumer_still_refuses_it(running):
    assert run(running, "ask_a_person", "monday")["publish"] == "success"
    asked = running.trigger("ask_a_person", conf={"day": "wednesday"})
    running.wait_for("ask_a_person", asked, "gate", "awaiting_input")
    running.answer("ask_a_person", asked, "gate", "Approve", {"reason": "known"})
    assert running.wait_for_run("ask_a_person", asked)["publish"] == "success"
    assert len(ids(running, "wednesday")) == 200

    def runs() -> list[dict[str, Any]]:
        return running.get("dags/asset_consumer/dagRuns", order_by="run_after")["dag_runs"]

    running.until(lambda: any(one["state"] == "failed" for one in runs()), "the consumer has refused a load")
    *others, last = [running.states("asset_consumer", one["dag_run_id"]) for one in runs()]
    assert last == {"require_tax": "failed", "report": "upstream_failed"}
    assert others
    assert all(one == {"require_tax": "success", "report": "success"} for one in others)
