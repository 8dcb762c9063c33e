"""Run loads of the example DAG in an Airflow of their own, and say as JSON what became of them.

A process of its own: Airflow takes its home and its DAG folder from the environment once, when it is imported. Its
database is there already.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from dags_examples.demo import airflow_environment, example_dag, run_discovery, run_load


def xcom(run_id: str, task_id: str) -> dict[str, Any]:
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    with create_session() as session:
        found = session.scalars(XComModel.get_many(run_id=run_id, dag_ids="tax_gate", task_ids=task_id))
        return {one.key: XComModel.deserialize_value(one) for one in found}


def main(output: Path, loads: list[str]) -> None:
    os.environ.update(airflow_environment(output))
    sys.path.insert(0, os.environ["AIRFLOW__CORE__DAGS_FOLDER"])  # as Airflow does
    dag = example_dag()
    outcomes = {}
    for load in loads:
        if load == "night":
            outcomes[load] = {"state": run_discovery(example_dag("tax_discovery"))}
            continue
        outcome = run_load(dag, load, output)
        verdict = outcome.verdict.to_dict() if outcome.verdict else None
        outcomes[load] = {"tasks": outcome.tasks, "verdict": verdict, "xcom": xcom(outcome.run_id, "gate")}
        outcomes[load] |= {"data_docs": xcom(outcome.run_id, "data_docs"), "state": outcome.state}
    (output / "outcomes.json").write_text(json.dumps(outcomes))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
