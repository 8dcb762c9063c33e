"""The pages in Airflow's own API application, in this process, and rows of Airflow's database for them to show."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from airflow.api_fastapi.app import create_app, get_auth_manager
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.models.dag import DagModel
from airflow.models.dagbundle import DagBundleModel
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from fastapi.testclient import TestClient
from sqlalchemy import insert

from airflow_dc_provider.pages.recorded import STATE, VERDICT
from airflow_dc_provider.report import summary
from dc_engine.verdict import Verdict
from tests.pages.parsed import Element, parsed

_BUNDLE = "tests"
NOBODY, VIEWER, OTHER = "", "victor", "otto"
"""Who asks: one who has not logged in, one who may read all, one who may not read DAGs that are ``private...``."""


class PickyAuthManager(SimpleAuthManager):
    """Airflow's simple one, which knows no rights of single DAGs, with one user who may not read some."""

    def is_authorized_dag(self, *, user: Any, details: Any = None, **more: Any) -> bool:
        if user.username == OTHER and (details is None or details.id is None or details.id.startswith("private")):
            return False
        return super().is_authorized_dag(user=user, details=details, **more)


@dataclass(frozen=True)
class Answer:
    """What the server answered."""

    status: int
    headers: Any
    html: str

    @cached_property
    def page(self) -> Element:
        return parsed(self.html)

    @property
    def text(self) -> str:
        return self.page.one("body").text


@dataclass(frozen=True)
class Task:
    """A task instance that has recorded something."""

    dag_id: str = ""
    task_id: str = "gate"
    run_id: str = "run"
    map_index: int = -1
    ids: dict[str, Any] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        names = ("dag_id", "task_id", "run_id", "map_index")
        object.__setattr__(self, "ids", {name: getattr(self, name) for name in names})


class Serving:
    """An API server with one user of each kind."""

    def __init__(self) -> None:
        self._client = TestClient(create_app("core"), raise_server_exceptions=False, follow_redirects=False)
        users = [SimpleAuthManagerUser(username=name, role="viewer") for name in (VIEWER, OTHER)]
        self.tokens = {one.username: get_auth_manager().generate_jwt(one) for one in users}
        write_bundle()

    def ask(self, method: str, path: str, *, user: str = VIEWER, **query: Any) -> Answer:
        """One request; ``path`` starts behind ``/dc/``."""
        headers = {"Authorization": f"Bearer {self.tokens[user]}"} if user else {}
        found = self._client.request(method, f"/dc/{path}", params=query or None, headers=headers)
        return Answer(found.status_code, found.headers, found.text)

    def get(self, path: str, *, user: str = VIEWER, **query: Any) -> Answer:
        """A page."""
        return self.ask("GET", path, user=user, **query)

    def add_task(self, task: Task | None = None, /, *, state: str | None = "failed", **recorded: Any) -> Task:
        """A task instance of a DAG's run, in a state of Airflow's; ``recorded`` is what it has pushed to XCom."""
        return write_task(task or Task(f"dag_{uuid.uuid4().hex}"), state, recorded)

    def add_gate(self, state: str, verdict: Verdict | None = None, task: Task | None = None, /, **more: Any) -> Task:
        """A task that judged a load, with what it records by itself."""
        kept = {STATE: {"state": state, "state_conn_id": more.pop("state_conn_id", None)}}
        if verdict is not None:
            kept[VERDICT] = summary(verdict, state)
        return self.add_task(task, state=more.pop("task_state", "failed"), **{**kept, **more})


def write_bundle() -> None:
    """What DAGs belong to."""
    with create_session() as session:
        session.execute(insert(DagBundleModel.__table__).values(name=_BUNDLE))


def write_task(task: Task, state: str | None, recorded: Mapping[str, Any]) -> Task:
    """A task instance in Airflow's database, with its DAG and its run, and what it has pushed to XCom."""
    of_run = {"dag_id": task.dag_id, "run_id": task.run_id}
    with create_session() as session:
        if session.get(DagModel, task.dag_id) is None:
            limits = {"max_active_tasks": 1, "max_consecutive_failed_dag_runs": 0}
            values = {"dag_id": task.dag_id, "bundle_name": _BUNDLE, "has_task_concurrency_limits": False, **limits}
            session.execute(insert(DagModel.__table__).values(**values))
        run = session.query(DagRun.id).filter_by(**of_run).scalar()
        if run is None:
            made = insert(DagRun.__table__).values(**of_run, run_type="manual", run_after=datetime.now(UTC))
            run = session.execute(made).inserted_primary_key[0]
        session.execute(insert(TaskInstance.__table__).values(**task.ids, pool="default_pool", state=state))
        for key, value in recorded.items():
            row = {**task.ids, "dag_run_id": run, "key": key, "value": value}
            session.execute(insert(XComModel.__table__).values(**row))
    return task
