"""Publish what is clean, set aside what is not: no task fails, and nobody is woken.

Use it when most rows of a broken load are still worth having today. The branch checks the load before it is
published. A load that breaks no rule is published as it is; of one that does, the clean rows are, and the others
wait in a folder for people. The clean rows pass a gate of their own, so that the state knows what is in the table.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import dag, task
from landing import HOME, OF_A_DAY, land, published  # type: ignore[import-not-found]

from airflow_dc_provider.operators.branch import DcBranchOperator
from airflow_dc_provider.operators.gate import DcGateOperator


@dag(**OF_A_DAY)
def branch_quarantine() -> None:
    """Check a day of tax rows, and follow the branch that fits the verdict."""
    landed = land()
    rules: dict[str, Any] = {"constraints": "constraints/tax.yml", "state": str(HOME / "state" / "branch_quarantine")}
    branch = DcBranchOperator(
        task_id="branch",
        **rules,
        changes={"path": landed},
        load_id="{{ params.day }}",
        rejected_load="discard",  # its rows do not reach the table as they are
        quarantine=str(HOME / "quarantine"),
        follow_if_pass=["publish"],
        follow_if_violated=["clean_rows", "tell_people"],
    )
    clean_rows = DcGateOperator(
        task_id="clean_rows",
        **rules,
        changes={"path": branch.output["quarantine_clean"]},
        load_id="{{ params.day }} clean",
    )

    @task
    def publish(rows: str, params: dict[str, str]) -> str:
        return published(rows, params["day"])

    @task
    def publish_clean(rows: str, params: dict[str, str]) -> str:
        return published(rows, f"{params['day']}_clean")

    @task
    def tell_people(rows: str) -> str:
        return f"These rows need a person: {rows}"

    branch >> [publish(landed), tell_people(branch.output["quarantine_violating"])]
    clean_rows >> publish_clean(branch.output["quarantine_clean"])


branch_quarantine()
