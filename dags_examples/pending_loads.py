"""Loads that arrive at any time, none or many at once: each that the table's state does not know goes through a gate.

Use it when files or folders land without telling anybody: an upload, the job of another team. A load that was judged is
not pending any more, so the DAG may run as often as you like. Without a load for ten minutes the run is skipped.
"""

from __future__ import annotations

import os
from pathlib import Path

from airflow.sdk import dag

from airflow_dc_provider.operators.gate import DcGateOperator
from airflow_dc_provider.sensors.pending import DcPendingLoadSensor

HOME = Path(os.environ.get("TAX_GATE_HOME", "/tmp/tax_gate"))  # noqa: S108  (an example: use your lake's address)


@dag(schedule=None, tags=["dc"], max_active_runs=1)  # in production: schedule="@hourly"
def pending_loads() -> None:
    """Find the files in the landing folder that no gate has seen, and check each as a load of its own."""
    pending = DcPendingLoadSensor(
        task_id="pending",
        path=str(HOME / "landing"),
        pattern="*.parquet",
        load_id_pattern=r"(.+)\.parquet$",  # landing/monday.parquet is the load monday
        state=str(HOME / "state" / "tax"),
        timeout=600,
        soft_fail=True,
        deferrable=True,
    )
    DcGateOperator.partial(
        task_id="gate",
        constraints="constraints/tax.yml",
        state=str(HOME / "state" / "tax"),
        max_active_tis_per_dagrun=1,  # one job at a time; where the order matters: max_loads=1 above
    ).expand_kwargs(pending.output)


pending_loads()
