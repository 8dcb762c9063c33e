"""A gate between loading and publishing: a load that breaks a rule is never published, and every verdict is reviewed.

Copy this file, ``constraints/`` and (for the generated data) ``tax_data.py`` into your DAG folder, add a
Spark connection (``airflow connections add spark_default --conn-type spark --conn-host 'local[2]'``) and
trigger the DAG once for each load: monday, tuesday (clean), wednesday (a few broken rows: the gate closes).
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from airflow.sdk import Param, dag, task

from airflow_dc_provider.operators.export_checkpoint import DcExportCheckpointOperator
from airflow_dc_provider.operators.gate import DcGateOperator

HOME = Path(os.environ.get("TAX_GATE_HOME", "/tmp/tax_gate"))  # noqa: S108  (an example: use your lake's address)

LOADS: dict[str, dict[str, Any]] = {
    "monday": {"rows": 20_000, "first_id": 1},
    "tuesday": {"rows": 1_000, "first_id": 20_001},
    "wednesday": {
        "rows": 1_000,
        "first_id": 21_001,
        "broken": {
            "phone_is_unique": 2,
            "zip_decides_city": 6,
            "rate_follows_salary": 1,
            "single_exemption_by_state": 1,  # no rule says so: tax_discovery found it
        },
    },
}


@dag(schedule=None, params={"load": Param("monday", enum=list(LOADS))}, tags=["dc"], max_active_runs=1)
def tax_gate() -> None:
    """Load a day of tax rows, check them against all earlier days, publish them, and show the verdict in Data Docs."""

    @task
    def load(params: dict[str, str]) -> str:
        """Write the day's rows to the landing folder."""
        # Here, not above: what only a task needs should not slow down the parsing of its DAG.
        import pyarrow.parquet
        from tax_data import tax_table  # type: ignore[import-not-found]  # Airflow has the DAG folder on its path

        target = HOME / "landing" / f"{params['load']}.parquet"
        target.parent.mkdir(parents=True, exist_ok=True)
        pyarrow.parquet.write_table(tax_table(**LOADS[params["load"]]), target)
        return str(target)

    @task
    def publish(landed: str) -> str:
        """Move the load to where people read the table. Runs only when the gate is open."""
        target = HOME / "published" / Path(landed).name
        target.parent.mkdir(parents=True, exist_ok=True)
        return str(shutil.copy(landed, target))

    landed = load()
    gate = DcGateOperator(
        task_id="gate",
        constraints="constraints/tax.yml",
        changes={"format": "parquet", "path": landed},
        state=str(HOME / "state" / "tax"),
        load_id="{{ params.load }}",  # in a DAG with a schedule: "{{ ds }}"
    )
    data_docs = DcExportCheckpointOperator(  # needs airflow-dc-provider[gx]
        task_id="data_docs",
        state=gate.state,
        load_id=gate.load_id,
        context_folder=str(HOME / "quality"),
        trigger_rule="all_done",  # whether the gate is green or red
    )
    gate >> [publish(landed), data_docs]


tax_gate()
