"""Ask a person whether a load that breaks a rule may pass.

Use it when some violations are known and harmless, and only a person can tell. The gate waits without a worker's slot.
Under "Required Actions" Airflow shows what is broken, with examples, and the buttons Approve and Reject; who
decided, when and why is kept in the state beside the verdict. No answer within twelve hours is a no.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import Asset, dag, task
from landing import HOME, OF_A_DAY, land, published  # type: ignore[import-not-found]

from airflow_dc_provider.operators.gate import DcGateOperator


@dag(**OF_A_DAY)
def ask_a_person() -> None:
    """Check a day of tax rows, ask where it breaks a rule, and publish what passed or was approved."""
    landed = land()
    gate = DcGateOperator(
        task_id="gate",
        constraints="constraints/tax.yml",
        changes={"path": landed},
        state=str(HOME / "state" / "ask_a_person"),
        load_id="{{ params.day }}",
        rejected_load="discard",  # a load that is approved comes into the state, any other does not
        on_violation="ask",
        response_timeout=timedelta(hours=12),
        asset=Asset("tax"),  # gets an event with the verdict when the load passed or was approved
    )

    @task
    def publish(rows: str, params: dict[str, str]) -> str:
        return published(rows, params["day"])

    gate >> publish(landed)


ask_a_person()
