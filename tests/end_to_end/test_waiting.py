"""Sensors that wait in the triggerer of an Airflow that really runs, over a restart of that triggerer."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.mailbox import body, mailbox

pytestmark = pytest.mark.xdist_group("running_airflow")

DAGS = """
from airflow.sdk import DAG
from airflow_dc_provider.operators.gate import DcGateOperator
from airflow_dc_provider.sensors.gate import DcGateSensor
from airflow_dc_provider.sensors.pending import DcPendingLoadSensor
from airflow_dc_provider.sensors.verdict import DcVerdictSensor

RULES = {{"version": 1, "table": "zips", "key": ["id"], "constraints": [{{"name": "one_city", "fd": "zip -> city"}}]}}
WAIT = {{"poke_interval": 1, "timeout": 3600, "deferrable": True, "state_conn_id": "lake"}}
with DAG("arrivals", schedule=None):
    pending = DcPendingLoadSensor(
        task_id="pending", path="{home}/arriving", state="{home}/state/arrivals", min_loads=2, **WAIT
    )
    DcGateOperator.partial(
        task_id="gate", constraints=RULES, state="{home}/state/arrivals", max_active_tis_per_dagrun=1
    ).expand_kwargs(pending.output)
with DAG("consumer", schedule=None):
    DcVerdictSensor(task_id="verdict", load_id="tuesday", state="{home}/state/arrivals", **WAIT)
with DAG("mended", schedule=None):
    DcGateSensor(
        task_id="gate",
        constraints=RULES,
        changes={{"path": "{home}/mended"}},
        state="{home}/state/mended",
        load_id="monday",
        **WAIT,
    )
with DAG("given_up", schedule=None):
    DcGateSensor(
        task_id="gate",
        constraints=RULES,
        changes={{"path": "{home}/given_up"}},
        state="{home}/state/given_up",
        load_id="monday",
        poke_interval=1,
        timeout=20,
        soft_fail=True,
    )
"""

TELLING = """
from airflow.providers.smtp.notifications.smtp import SmtpNotifier
from airflow.sdk import DAG
from airflow_dc_provider.notifications.failure import DcFailureNotifier
from airflow_dc_provider.operators.gate import DcGateOperator

RULES = {{"version": 1, "table": "zips", "key": ["id"], "constraints": [{{"name": "one_city", "fd": "zip -> city"}}]}}
with DAG("telling", schedule=None):
    DcGateOperator(
        task_id="gate",
        constraints=RULES,
        changes={{"path": "{home}/told"}},
        state="{home}/state/told",
        load_id="monday",
        on_failure_callback=DcFailureNotifier(SmtpNotifier(to="oncall@example.com")),
    )
"""


def land(folder: Path, *cities: str, first: int = 1) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    ids = list(range(first, first + len(cities)))
    rows = pa.table({"id": ids, "zip": ["10115"] * len(cities), "city": list(cities)})
    pyarrow.parquet.write_table(rows, folder / "rows.parquet")


def test_what_waits_in_the_triggerer_outlives_it(airflow):
    connection = {"connection_id": "lake", "conn_type": "generic", "extra": '{"storage_options": {"auto_mkdir": true}}'}
    airflow.request("POST", "connections", connection)
    for folder in ("mended", "given_up"):
        land(airflow.home / folder, "Berlin", "Berln")
    airflow.add_dags("waiting", DAGS.format(home=airflow.home))
    tasks = {"arrivals": "pending", "consumer": "verdict", "mended": "gate"}
    runs = {dag: airflow.trigger(dag) for dag in (*tasks, "given_up")}
    for dag, task in tasks.items():
        airflow.wait_for(dag, runs[dag], task, "deferred")
    airflow.restart_triggerer()

    land(airflow.home / "arriving" / "monday", "Berlin")
    land(airflow.home / "arriving" / "tuesday", "Berlin", first=2)
    land(airflow.home / "mended", "Berlin", "Berlin")
    assert airflow.wait_for_run("arrivals", runs["arrivals"]) == {
        "pending": "success",
        "gate[0]": "success",
        "gate[1]": "success",
    }
    assert [one["load_id"] for one in airflow.xcom("arrivals", runs["arrivals"], "pending")] == ["monday", "tuesday"]
    assert airflow.wait_for_run("consumer", runs["consumer"]) == {"verdict": "success"}
    assert airflow.xcom("consumer", runs["consumer"], "verdict")["decision"] == "pass"
    assert airflow.wait_for_run("mended", runs["mended"]) == {"gate": "success"}
    verdict = airflow.xcom("mended", runs["mended"], "gate")
    assert (verdict["decision"], verdict["replaced"], verdict["rows"]["total"]) == ("pass", True, 2)
    assert airflow.task("mended", runs["mended"], "gate")["try_number"] == 1
    assert airflow.wait_for_run("given_up", runs["given_up"]) == {"gate": "skipped"}


def test_a_closed_gate_sends_a_mail(airflow):
    land(airflow.home / "told", "Berlin", "Berln")
    with mailbox() as box:
        connection = {**box.connection, "extra": json.dumps(box.connection["extra"])}
        airflow.request("POST", "connections", {"connection_id": "smtp_default", **connection})
        airflow.add_dags("telling", TELLING.format(home=airflow.home))
        run = airflow.trigger("telling")
        assert airflow.wait_for_run("telling", run) == {"gate": "failed"}
        airflow.until(lambda: box.mails, "a mail has come")
    (mail,) = box.mails
    assert mail["Subject"] == "Gate closed: load monday of table zips"
    assert f"dag telling, task gate, run {run}" in body(mail)
    assert f"Log: {airflow.url}/dags/telling/runs/{run}/tasks/gate" in body(mail)
    assert "Berln" not in body(mail)
