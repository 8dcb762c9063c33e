"""Gates to review in an Airflow that runs: one that is red, one that is green, and two that ask a person."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from tests.end_to_end.airflow_running import RunningAirflow
from tests.pages.states import MONDAY, RULES, TUESDAY, Table

CONNECTION = "lake_of_pages"
GREEN = "pages_green"
ASKING = {"pages_approved": "Approve", "pages_rejected": "Reject"}
_DAGS = """
import json, os
from airflow.sdk import DAG
from airflow_dc_provider.operators.gate import DcGateOperator

HOME, RULES = os.environ["AIRFLOW_HOME"], json.loads({rules!r})
for name, on_violation in {gates!r}.items():
    with DAG(name, schedule=None) as dag:
        DcGateOperator(
            task_id="gate", constraints=RULES, load_id="tuesday", on_violation=on_violation,
            changes={{"path": HOME + "/pages/" + name + ".parquet"}}, state=HOME + "/state/" + name,
            state_conn_id={connection!r},
        )
    globals()[name] = dag
"""


def land(airflow: RunningAirflow, dag_id: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write the load of a DAG's gate."""
    folder = airflow.home / "pages"
    folder.mkdir(exist_ok=True)
    pyarrow.parquet.write_table(pa.Table.from_pylist(list(rows)), folder / f"{dag_id}.parquet")


def state_of(airflow: RunningAirflow, dag_id: str) -> Table:
    return Table(str(airflow.home / "state" / dag_id))


def run_gates(airflow: RunningAirflow) -> dict[str, str]:
    """Run a gate that fails, one that passes and those that ask, all at once; the run of each DAG."""
    extra = json.dumps({"storage_options": {"auto_mkdir": False}})
    airflow.request("POST", "connections", {"connection_id": CONNECTION, "conn_type": "generic", "extra": extra})
    gates = {"pages_red": "fail", GREEN: "fail", **dict.fromkeys(ASKING, "ask")}
    land(airflow, GREEN, MONDAY)
    for name in gates.keys() - {GREEN}:
        made = state_of(airflow, name)
        made.load("monday", MONDAY)
        made.discover()
        land(airflow, name, TUESDAY)
    airflow.add_dags("pages", _DAGS.format(rules=json.dumps(RULES), gates=gates, connection=CONNECTION))
    runs = {name: airflow.trigger(name) for name in gates}
    airflow.wait_for("pages_red", runs["pages_red"], "gate", "failed")
    airflow.wait_for(GREEN, runs[GREEN], "gate", "success")
    for name in ASKING:
        airflow.wait_for(name, runs[name], "gate", "awaiting_input")
        airflow.until_asked(name, runs[name], "gate")
    return runs
