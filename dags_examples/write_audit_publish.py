"""Write, audit, publish: rows reach the table only after they were checked against all that is in it.

Use it when readers must never see a broken load, not for a minute. The gate is before the write, so a load that it
stops never reaches the table, and with ``rejected_load="discard"`` not the state either: fixed and run again under the
same load id, it is checked as if the first attempt had never been.
"""

from __future__ import annotations

from airflow.sdk import Asset, dag, task
from landing import HOME, OF_A_DAY, land, published  # type: ignore[import-not-found]

from airflow_dc_provider.operators.gate import DcGateOperator


@dag(**OF_A_DAY)
def write_audit_publish() -> None:
    """Write a day of tax rows where nobody reads them, audit them, publish them."""
    written = land()
    audit = DcGateOperator(
        task_id="audit",
        constraints="constraints/tax.yml",
        changes={"path": written},
        state=str(HOME / "state" / "write_audit_publish"),
        load_id="{{ params.day }}",
        rejected_load="discard",
        asset=Asset("tax"),
    )

    @task
    def publish(rows: str, params: dict[str, str]) -> str:
        return published(rows, params["day"])

    audit >> publish(written)


write_audit_publish()
