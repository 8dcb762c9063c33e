"""The example DAG in real Airflow on real Spark: green, red, what runs behind it, what is left in XCom."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.xdist_group("airflow")


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def outcomes(output: Path) -> Any:
    """The first load (green) and the broken one (red), each a run of the DAG with its own spark-submit."""
    from demo import airflow_environment, example_dag, run_load

    environment = {**airflow_environment(output), "AIRFLOW_HOME": os.environ["AIRFLOW_HOME"]}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        subprocess.run([sys.executable, "-m", "airflow", "db", "migrate"], check=True, capture_output=True)
        dag = example_dag()
        yield {load: run_load(dag, load, output) for load in ("monday", "wednesday")}


def xcom(run_id: str) -> dict[str, Any]:
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    with create_session() as session:
        found = session.scalars(XComModel.get_many(run_id=run_id, dag_ids="tax_gate", task_ids="gate"))
        return {one.key: XComModel.deserialize_value(one) for one in found}


def test_a_clean_load_passes_and_is_published(outcomes, output):
    outcome = outcomes["monday"]
    assert outcome.tasks == {"load": "success", "gate": "success", "publish": "success"}
    assert outcome.verdict.decision == "pass"
    assert outcome.verdict.rows == {"inserted": 20_000, "deleted": 0, "total": 20_000}
    assert (output / "data" / "published" / "monday.parquet").exists()


def test_a_broken_load_closes_the_gate_and_is_not_published(outcomes, output):
    outcome = outcomes["wednesday"]
    assert outcome.tasks == {"load": "success", "gate": "failed", "publish": "upstream_failed"}
    assert not (output / "data" / "published" / "wednesday.parquet").exists()


def test_the_verdict_names_the_rules_that_were_broken_and_the_rows(outcomes):
    broken = {rule.name: rule for rule in outcomes["wednesday"].verdict.broken}
    assert set(broken) == {"phone_is_unique", "zip_decides_city", "rate_follows_salary"}
    phone = broken["phone_is_unique"]
    assert (phone.new_violations, phone.violating_rows) == (2, 2)
    assert {one["row"]["id"] > 21_000 for one in phone.worst_rows} == {True}
    for rule in broken.values():
        assert Path(rule.violations).exists()
        assert Path(rule.violating_rows_listed).exists()


def test_the_summary_is_in_xcom_also_after_the_failure(outcomes):
    green, red = xcom(outcomes["monday"].run_id), xcom(outcomes["wednesday"].run_id)
    assert green["verdict"] == green["return_value"]
    assert set(red) == {"verdict"}
    assert red["verdict"]["decision"] == "fail"
    verdict = outcomes["wednesday"].verdict
    assert {name: one["new_violations"] for name, one in red["verdict"]["constraints"].items()} == {
        rule.name: rule.new_violations for rule in verdict.constraints
    }


def test_nothing_of_the_exchange_is_left_in_the_state(outcomes, output):
    assert not list((output / "data" / "state" / "tax" / "runs").iterdir())


def test_the_summary_of_the_demo_tells_it_all(outcomes):
    from demo import summary_lines

    text = "\n".join(summary_lines(list(outcomes.values())))
    assert "gate green, published" in text
    assert "gate RED, not published" in text
    for rule in ("phone_is_unique", "zip_decides_city", "rate_follows_salary"):
        assert f"{rule} (error): " in text
    assert text.count("example 2") == 3
