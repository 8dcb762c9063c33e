"""DAGs of gates, each run in a real Airflow by ``dag.test``: ``python -m tests.operators.tried_dags FOLDER``.

A process of its own: Airflow takes its home from the environment once, when it is imported. Its database is there
already. Says in ``outcomes.json`` which loads were submitted, and what became of the tasks.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.operators.conftest import LOST, FakeSpark, rule

RULES = {"version": 1, "table": "tax", "constraints": [{"name": "a", "fd": "zip -> city"}]}
A, B = {"path": "/landing/a"}, {"path": "/landing/b"}
VERDICT = {
    "schema_version": 1,
    "table": "tax",
    "load_id": "any",
    "snapshot": 1,
    "replayed": False,
    "decision": "pass",
    "rows": {"inserted": 1, "deleted": 0, "total": 1},
    "constraints": [],
    "dependencies": {},
    "seconds": {"total": 1.0},
}
BROKEN = {
    **rule("a", "fd", "not (t.zip = s.zip and t.city != s.city)"),
    "passed": False,
    "new_violations": 1,
    "total_violations": 1,
    "violating_rows": 1,
}
VERDICTS = {
    "clean": VERDICT,
    "broken": {**VERDICT, "decision": "fail", "constraints": [BROKEN]},
    "lost": {**VERDICT, "decision": "fail", "dependencies": {"invalidated": [LOST]}},
}
JUDGED = ("fail", "warn", "skip", "branch")
"""DAGs that are run with every verdict."""


def build(state: str) -> None:
    """The DAGs, each named after what is mapped."""
    from airflow.providers.standard.operators.empty import EmptyOperator
    from airflow.sdk import DAG, task, task_group

    from airflow_dc_provider.operators.branch import DcBranchOperator
    from airflow_dc_provider.operators.gate import DcGateOperator

    fixed: dict[str, Any] = {"task_id": "gate", "constraints": RULES, "state": state}

    @task
    def tell(value: Any) -> Any:
        return value

    with DAG("not_mapped", schedule=None):
        DcGateOperator(**fixed, changes=A)
    with DAG("expanded", schedule=None):
        DcGateOperator.partial(**fixed).expand(changes=[A, B])
    with DAG("by_index", schedule=None):
        DcGateOperator.partial(**fixed, load_id="day-{{ task_instance.map_index }}").expand(changes=[A, B])
    with DAG("by_path", schedule=None):
        DcGateOperator.partial(**fixed, load_id="{{ task.changes['path'] }}").expand(changes=tell([A, B]))
    with DAG("by_kwargs", schedule=None):
        DcGateOperator.partial(**fixed).expand_kwargs([{"changes": A, "load_id": "x"}, {"changes": B, "load_id": "y"}])
    with DAG("in_a_group", schedule=None):

        @task_group
        def day(changes: Any) -> None:
            DcGateOperator(**fixed, changes=changes)

        day.expand(changes=[A, B])
    with DAG("group_argument", schedule=None):

        @task_group
        def named(one: Any, name: Any) -> None:
            DcGateOperator(**fixed, changes={"path": one}, load_id=name)

        named.expand_kwargs([{"one": "/a", "name": "x"}, {"one": "/b", "name": "y"}])
    with DAG("task_in_the_group", schedule=None):

        @task_group
        def told(name: Any) -> None:
            DcGateOperator(**fixed, changes=A, load_id=tell(name))

        told.expand(name=["x", "y"])
    with DAG("twice_the_same_by_results", schedule=None):
        same = [{"changes": A, "load_id": "x"}, {"changes": B, "load_id": "x"}]
        DcGateOperator.partial(**fixed).expand_kwargs(tell(same))
    with DAG("every_combination_of_results", schedule=None):
        DcGateOperator.partial(**fixed).expand(changes=tell([A, B]), load_id=tell(["x", "y"]))
    with DAG("group_argument_by_results", schedule=None):
        named.expand(one=tell(["/a", "/b"]), name=tell(["x", "y"]))
    for action in ("fail", "warn", "skip"):
        with DAG(action, schedule=None):
            DcGateOperator(**fixed, changes=A, on_violation=action) >> EmptyOperator(task_id="publish")
    with DAG("branch", schedule=None):
        follow = {f"follow_if_{kind}": kind for kind in ("pass", "violated", "invalidated")}
        DcBranchOperator(**fixed, changes=A, **follow) >> [EmptyOperator(task_id=kind) for kind in follow.values()]


def main(folder: Path) -> None:
    """Run them all."""
    dag_file = folder / "dags" / "mapped.py"
    dag_file.parent.mkdir()
    dag_file.write_text(
        f"from tests.operators.tried_dags import build\nbuild({str(folder / 'state')!r})  # a DAG of airflow\n"
    )
    os.environ["AIRFLOW_HOME"] = str(folder / "airflow")
    os.environ["AIRFLOW__CORE__DAGS_FOLDER"] = str(dag_file.parent)
    os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
    os.environ["AIRFLOW_CONN_SPARK_DEFAULT"] = '{"conn_type": "spark", "host": "local[2]"}'
    from airflow.dag_processing.dagbag import DagBag

    programs = folder / "bin"
    programs.mkdir()
    os.environ["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
    spark = FakeSpark(programs)
    bag = DagBag(dag_file)
    outcomes: dict[str, Any] = {"import_errors": bag.import_errors}
    for name, dag in bag.dags.items():
        for kind, verdict in (VERDICTS if name in JUDGED else {"clean": VERDICT}).items():
            spark.answers(verdict)
            run = dag.test()
            tasks = {f"{one.task_id}[{one.map_index}]": str(one.state) for one in run.get_task_instances()}
            outcomes[f"{name}, {kind}"] = {"run_id": run.run_id, "tasks": tasks, "loads": spark.loads()}
            spark.forget()
    (folder / "outcomes.json").write_text(json.dumps(outcomes))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
