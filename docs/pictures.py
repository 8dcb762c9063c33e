"""The pictures of docs/review.md, of an Airflow that runs: ``python docs/pictures.py``, with Chromium.

Twelve loads of the example table go through a gate, the last of them in Airflow; some of them are broken.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dags_examples.tax_data import tax_table
from tests.end_to_end.airflow_running import RunningAirflow, running_airflow
from tests.end_to_end.browsing import Browser, browser
from tests.pages.states import Table

HERE = Path(__file__).parent
RULES: dict[str, Any] = {
    "version": 1,
    "table": "tax",
    "key": ["id"],
    "constraints": [
        {"name": "phone_is_unique", "unique": ["area_code", "phone"]},
        {"name": "zip_decides_city", "fd": "zip -> city", "description": "A zip code lies in one city."},
        {
            "name": "rate_follows_salary",
            "deny": "t.state = s.state and t.salary > s.salary and t.rate < s.rate",
            "description": "Within a state nobody earns more and pays a lower rate.",
        },
        {"name": "salary_is_positive", "deny": "t.salary <= 0"},
    ],
    "dependencies": {"watch": "top:20"},
}
COLUMNS = ("id", "area_code", "phone", "zip", "city", "state", "salary", "rate")
ROWS, LOADS, DISCOVERED, SEED = 1_000, 12, 4, 7
BROKEN = {
    6: {"zip_decides_city": 1},
    9: {"zip_decides_city": 4, "phone_is_unique": 1},
    12: {"rate_follows_salary": 3, "zip_decides_city": 9, "phone_is_unique": 2},
}
LOAD_ID = f"2026-01-{LOADS:02}"
_DAG = """
from airflow.sdk import DAG, task
from airflow_dc_provider.operators.gate import DcGateOperator

with DAG("tax", schedule=None) as dag:
    @task
    def publish():
        pass

    gate = DcGateOperator(
        task_id="gate", constraints={rules!r}, load_id={load_id!r},
        changes={{"path": "{home}/load.parquet"}}, state="{home}/state/tax",
    )
    gate >> publish()
"""


def load(number: int) -> pa.Table:
    """The rows of a load."""
    rows = tax_table(ROWS, seed=SEED, first_id=1 + ROWS * (number - 1), broken=BROKEN.get(number))
    return rows.select(list(COLUMNS)).set_column(1, "area_code", rows["area_code"].cast(pa.int64()))


def gated(airflow: RunningAirflow) -> str:
    """All loads, the last of them by a task; its run."""
    table = Table(str(airflow.home / "state" / "tax"), RULES)
    for number in range(1, LOADS):
        table.load(f"2026-01-{number:02}", load(number).to_pylist())
        if number == DISCOVERED:
            table.discover("unique", "fd", "od")
    pq.write_table(load(LOADS), airflow.home / "load.parquet")
    airflow.add_dags("tax", _DAG.format(rules=RULES, load_id=LOAD_ID, home=airflow.home))
    run = airflow.trigger("tax", f"load-{LOADS}")
    airflow.wait_for("tax", run, "gate", "failed")
    return run


def taken(seen: Browser, path: str, wanted: str, name: str, theme: str) -> None:
    """A picture of a page in Airflow's tab, when it shows what is wanted."""
    page = seen.open(path)
    page.evaluate(f"localStorage.setItem('theme', '{theme}')")
    page.reload()
    seen.frame.get_by_role("heading", name=wanted).wait_for()
    page.wait_for_timeout(1_000)
    page.screenshot(path=HERE / f"review-{name}.png")


def main() -> None:
    """Take them all."""
    with tempfile.TemporaryDirectory() as folder, running_airflow(Path(folder) / "airflow") as airflow:
        run = gated(airflow)
        with browser(airflow, "ada", Path(folder) / "ada") as seen:
            tab = f"/dags/tax/runs/{run}/tasks/gate/plugin/dc-verdict"
            taken(seen, tab, f"tax · load {LOAD_ID} FAIL", "verdict", "light")
            taken(seen, "/dags/tax/plugin/dc-history", "tax · history", "history", "dark")
            ids = f"dag_id=tax&task_id=gate&run_id={run}&map_index=-1"
            seen.page.set_viewport_size({"width": 1_000, "height": 600})
            page = seen.open(f"/dc/dependencies?{ids}")
            page.locator("details summary").nth(2).click()
            page.screenshot(path=HERE / "review-dependencies.png")


if __name__ == "__main__":
    main()
