"""A DAG of another team that uses the gated table, and relies on some of its rules.

Use it when a report is wrong as soon as one rule does not hold, whoever let the load pass. The DAG runs whenever a gate
tells of the asset ``tax`` (``ask_a_person``, ``write_audit_publish``). Its first task reads the verdict in that event:
the rules that are named must have passed, also where a person approved the load, and the event must be fresh.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import Asset, dag, task

from airflow_dc_provider.assets import require_constraints

TAX = Asset("tax")


@dag(schedule=TAX, tags=["dc", "example"])
def asset_consumer() -> None:
    """Report on the tax table, if a telephone number still belongs to one person."""

    @task
    def report() -> str:
        return "Every telephone number belongs to one person."

    require_constraints(TAX, "phone_is_unique", max_age=timedelta(days=1)) >> report()


asset_consumer()
