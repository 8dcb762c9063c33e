"""A change data feed in CSV files: rows that come, change and go, each as a line that says which.

Use it when a table is not only added to. The column ``_change_type`` says what a line is (``insert``, ``delete``,
``update_preimage``, ``update_postimage``, as Delta's feed has it); a delete needs only the key. Give the types: CSV has
none, and a day of whole prices would look like another column.
"""

from __future__ import annotations

import os
from pathlib import Path

from airflow.sdk import Param, dag, task

from airflow_dc_provider.operators.gate import DcGateOperator

HOME = Path(os.environ.get("TAX_GATE_HOME", "/tmp/tax_gate"))  # noqa: S108  (an example: use your lake's address)
RULES = {
    "version": 1,
    "table": "products",
    "key": ["sku"],
    "constraints": [
        {"name": "one_rate_for_a_brand", "fd": "brand -> vat"},
        {"name": "price_is_positive", "deny": "t.price <= 0"},
    ],
}
FEED = {
    "monday": ["insert,1,acme,9.90,0.20", "insert,2,acme,5,0.20", "insert,3,zest,7,0.07"],
    "tuesday": ["update_preimage,2,acme,5,0.20", "update_postimage,2,acme,6,0.20", "delete,3,,,"],
    "wednesday": ["insert,4,acme,3,0.07"],  # another rate: the gate closes
}


@dag(schedule=None, params={"day": Param("monday", enum=list(FEED))}, tags=["dc"], max_active_runs=1)
def csv_change_feed() -> None:
    """Export the changes of a day, and check them."""

    @task
    def export(params: dict[str, str]) -> str:
        """Write the changes of the day, as your database would."""
        path = HOME / "feed" / f"{params['day']}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(["_change_type,sku,brand,price,vat", *FEED[params["day"]], ""]))
        return str(path)

    DcGateOperator(
        task_id="gate",
        constraints=RULES,
        changes={
            "format": "csv",
            "path": export(),
            "options": {"header": True},
            "schema": "_change_type STRING, sku BIGINT, brand STRING, price DECIMAL(10,2), vat DECIMAL(4,2)",
        },
        state=str(HOME / "state" / "products"),
        load_id="{{ params.day }}",  # in a DAG with a schedule: "{{ ds }}"
    )


csv_change_feed()
