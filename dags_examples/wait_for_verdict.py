"""A DAG that begins when a load has passed a gate that is somewhere else.

Use it when the gate is in the DAG of another team, or outside Airflow: all that this DAG needs is the state's folder.
It fails when the load was rejected; with ``soft_fail=True`` it is skipped, with ``wait_for_pass=True`` it waits until
the load is mended or approved.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from airflow.sdk import Param, dag, task

from airflow_dc_provider.hooks.state import DcStateHook
from airflow_dc_provider.sensors.verdict import DcVerdictSensor

STATE = str(Path(os.environ.get("TAX_GATE_HOME", "/tmp/tax_gate")) / "state" / "tax")  # noqa: S108  (an example)


@dag(schedule=None, params={"load": Param("monday", type="string")}, tags=["dc"])
def wait_for_verdict() -> None:
    """Wait for the verdict of a load, then use the table."""
    verdict = DcVerdictSensor(
        task_id="verdict",
        state=STATE,
        load_id="{{ params.load }}",  # in a DAG with a schedule: "{{ ds }}"
        timeout=3600,
        deferrable=True,
    )

    @task
    def use_the_table(passed: dict[str, Any]) -> list[str]:
        """What the table has now: the summary of the load comes from XCom, all else from the state."""
        loads = [f"{one['load_id']}: {one['inserted']:,} rows" for one in DcStateHook(STATE).history(last=10)]
        return [*loads, f"{passed['rows']['total']:,} rows in all"]

    use_the_table(verdict.output)


wait_for_verdict()
