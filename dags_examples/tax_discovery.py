"""Discovery for the table of ``tax_gate``: what holds in it that nobody has written down.

Run it once after the first load, and then every night or so. What it finds is kept in the state of the gate, and
every load keeps it exact. ``constraints/tax.yml`` says which of it the gate watches: the twenty best. A load that
breaks one of these is reported, with what holds instead.
"""

from __future__ import annotations

import os
from pathlib import Path

from airflow.sdk import dag

from airflow_dc_provider.operators.discover import DcDiscoverOperator

HOME = Path(os.environ.get("TAX_GATE_HOME", "/tmp/tax_gate"))  # noqa: S108  (an example: use your lake's address)


@dag(schedule=None, tags=["dc"], max_active_runs=1)  # in production: schedule="@daily"
def tax_discovery() -> None:
    """Look for keys, functional dependencies and denial constraints in all rows of the gate's state."""
    DcDiscoverOperator(
        task_id="discover",
        state=str(HOME / "state" / "tax"),
        table={"format": "parquet", "path": str(HOME / "landing")},  # for columns that no rule of the gate reads
        space={"exclude": ["first_name", "last_name", "gender"]},
        limits={"max_terms": 4},  # nobody would read longer ones
    )


tax_discovery()
