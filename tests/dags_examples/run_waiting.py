"""Run the example DAGs of waiting and reading in an Airflow of their own, and say as JSON what became of them.

A process of its own: Airflow takes its home and its DAG folder from the environment once, when it is imported; its
database is there already. Jobs run without a JVM (``submitted.py``), but for the one that reads CSV, whose reader is
Spark's.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from dags_examples.demo import airflow_environment, example_dag
from tests.end_to_end.airflow_running import write_submit


def run(name: str, **conf: str) -> dict[str, Any]:
    """One run of an example; the state of each of its tasks, and what they returned."""
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    done = example_dag(name).test(run_conf=conf)
    tasks = {f"{one.task_id}[{one.map_index}]": str(one.state) for one in done.get_task_instances()}
    with create_session() as session:
        found = session.scalars(XComModel.get_many(run_id=done.run_id, dag_ids=name))
        pushed = {f"{one.task_id}[{one.map_index}].{one.key}": XComModel.deserialize_value(one) for one in found}
    return {"tasks": tasks, "xcom": pushed}


def main(output: Path) -> None:
    """Two files land, are found and gated; another DAG waits for one of them; a change feed of three days."""
    import pyarrow.parquet

    from dags_examples.tax_data import tax_table

    os.environ.update(airflow_environment(output))
    programs = output / "bin"
    programs.mkdir(parents=True)
    write_submit(programs / "spark-submit")
    os.environ["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
    events = {"type": "file", "log_file_path": str(output / "lineage"), "append": True}
    os.environ["AIRFLOW__OPENLINEAGE__TRANSPORT"] = json.dumps(events)
    landing = output / "data" / "landing"
    landing.mkdir(parents=True)
    for first, name in ((1, "monday"), (201, "tuesday")):
        pyarrow.parquet.write_table(tax_table(rows=200, first_id=first), landing / f"{name}.parquet")
    outcomes = {
        "pending": run("pending_loads"),
        "passed": run("wait_for_verdict", load="tuesday"),
    }
    os.environ["DC_REAL_SPARK"] = "1"
    outcomes |= {day: run("csv_change_feed", day=day) for day in ("monday", "tuesday", "wednesday")}
    outcomes["lineage"] = [json.loads(line) for line in (output / "lineage").read_text().splitlines()]
    (output / "outcomes.json").write_text(json.dumps(outcomes))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
