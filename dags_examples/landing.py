"""What the examples load: a day of generated tax rows each, the last one broken. Not a DAG.

In your own DAGs ``land`` is the task that brings the rows, and ``HOME`` is the address of your lake.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from airflow.sdk import Param, task

HOME = Path(os.environ.get("TAX_GATE_HOME", "/tmp/tax_gate"))  # noqa: S108  (an example: use your lake's address)
DAYS: dict[str, dict[str, Any]] = {
    "monday": {"rows": 2_000, "first_id": 1},
    "tuesday": {"rows": 200, "first_id": 2_001},
    "wednesday": {"rows": 200, "first_id": 2_201, "broken": {"phone_is_unique": 2}},
}
OF_A_DAY: dict[str, Any] = {
    "schedule": None,  # in production: "@daily", and "{{ ds }}" for "{{ params.day }}"
    "params": {"day": Param("monday", enum=list(DAYS))},
    "tags": ["dc", "example"],
    "max_active_runs": 1,
}
"""How the examples are run: by hand, for one day after the other."""


@task
def land(params: dict[str, str]) -> str:
    """Write the day's rows to the landing folder; where they are."""
    # Here, not above: what only a task needs should not slow down the parsing of its DAG.
    import pyarrow.parquet
    from tax_data import tax_table  # type: ignore[import-not-found]  # Airflow has the DAG folder on its path

    target = HOME / "landed" / f"{params['day']}.parquet"
    target.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(tax_table(**DAYS[params["day"]]), target)
    return str(target)


def published(rows: str, name: str) -> str:
    """Bring rows to where people read the table; where they are then."""
    import pyarrow.parquet

    target = HOME / "published" / f"{name}.parquet"
    target.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.parquet.read_table(rows), target)
    return str(target)
