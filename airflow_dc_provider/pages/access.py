"""All that the pages take from Airflow itself: who asks, what they may see, and what a task has recorded.

These modules are not part of Airflow's SDK, and are imported nowhere else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any

from airflow.api_fastapi.core_api.security import DagAccessEntity, GetUserDep, requires_access_dag
from airflow.models.dag import DagModel
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from fastapi import Depends, HTTPException, Request
from pydantic import StringConstraints
from sqlalchemy import func, select, tuple_

from airflow_dc_provider.pages.recorded import DOCS, STATE, VERDICT

_MOST_GATES = 500
_NUMBERS = {"new_violations", "removed_violations", "total_violations", "violating_rows"}
_RULE = {"passed", "severity", *_NUMBERS}
Name = Annotated[str, StringConstraints(max_length=1_000, pattern=r"^[^\x00]*$")]
"""What an address may name: a database may refuse NUL."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a task instance has recorded for the pages."""

    dag_id: str
    task_id: str
    run_id: str
    map_index: int = -1
    task_state: str = ""
    """What Airflow says of the task: ``success``, ``running`` ..."""
    state: str = ""
    """The folder of its table's state; empty for a task that has none."""
    state_conn_id: str | None = None
    verdict: Mapping[str, Any] = field(default_factory=dict)
    """The summary of its verdict; empty before there is one."""
    docs: Mapping[str, Any] = field(default_factory=dict)
    """Where the Data Docs are that it wrote: ``folder``, ``docs_conn_id``, ``page``; empty for others."""
    at: str = ""
    """When it was recorded."""

    @property
    def ids(self) -> dict[str, Any]:
        """What names it in an address."""
        return {name: getattr(self, name) for name in ("dag_id", "task_id", "run_id", "map_index")}


def _readable_dag(request: Request, user: GetUserDep, dag_id: Name) -> str:
    """The DAG that a page is about, for one who may see what its tasks left; otherwise 401, 403, or 404."""
    requires_access_dag("GET", DagAccessEntity.XCOM, param_dag_id=dag_id)(request, user)
    with create_session() as session:
        if session.get(DagModel, dag_id) is None:
            raise HTTPException(404, "There is no such DAG.")
    return dag_id


def _may_see(request: Request, user: GetUserDep) -> Callable[[str], bool]:
    """Whether one who asks may see what the tasks of a DAG left."""

    @cache
    def may_see(dag_id: str) -> bool:
        try:
            requires_access_dag("GET", DagAccessEntity.XCOM, param_dag_id=dag_id)(request, user)
        except HTTPException as error:
            if error.status_code != 403:
                raise
            return False
        return True

    return may_see


def signed_in(user: GetUserDep) -> None:
    """For what holds no data: any user of this Airflow."""


ReadableDag = Annotated[str, Depends(_readable_dag)]
MaySee = Annotated[Callable[[str], bool], Depends(_may_see)]


def recorded_by(dag_id: str, task_id: str, run_id: str, map_index: int) -> Recorded | None:
    """What a task instance has recorded; nothing if Airflow knows no such task instance."""
    with create_session() as session:
        return next(iter(_recorded(session, [(dag_id, task_id, run_id, map_index)])), None)


def newest_gates(may_see: Callable[[str], bool], dag_id: str | None = None) -> list[Recorded]:
    """The newest record of every task that has a state, of one DAG or of all that one may see, the newest first."""
    of = [XComModel.key == STATE, *([] if dag_id is None else [XComModel.dag_id == dag_id])]
    task = (XComModel.dag_id, XComModel.task_id)
    with create_session() as session:
        newest = select(*task, func.max(XComModel.timestamp).label("at")).where(*of).group_by(*task).subquery()
        is_newest = (newest.c.dag_id == task[0]) & (newest.c.task_id == task[1]) & (newest.c.at == XComModel.timestamp)
        found = select(*_ids(XComModel)).join(newest, is_newest).where(*of).order_by(newest.c.at.desc())
        chosen: dict[tuple[str, str], tuple[Any, ...]] = {}
        for one in session.execute(found):
            if may_see(one.dag_id):
                chosen.setdefault((one.dag_id, one.task_id), tuple(one))
            if len(chosen) == _MOST_GATES:
                break
        return _recorded(session, list(chosen.values()))


def _ids(of: Any) -> tuple[Any, ...]:
    return of.dag_id, of.task_id, of.run_id, of.map_index


def _recorded(session: Any, wanted: Sequence[tuple[Any, ...]]) -> list[Recorded]:
    """What task instances have recorded, without those that Airflow does not know."""
    known = select(*_ids(TaskInstance), TaskInstance.state).where(tuple_(*_ids(TaskInstance)).in_(wanted))
    states = {tuple(one[:4]): str(one.state or "") for one in session.execute(known)}
    pushed = select(*_ids(XComModel), XComModel.key, XComModel.value, XComModel.timestamp).where(
        tuple_(*_ids(XComModel)).in_(wanted), XComModel.key.in_((STATE, VERDICT, DOCS))
    )
    values: dict[tuple[Any, ...], list[Any]] = {}
    for one in session.execute(pushed):
        values.setdefault(tuple(one[:4]), []).append(one)
    return [_record(ids, states[ids], values.get(ids, ())) for ids in wanted if ids in states]


def _record(ids: Sequence[Any], task_state: str, values: Sequence[Any]) -> Recorded:
    by_key = {one.key: value for one in values if isinstance(value := _plain(one.value), Mapping)}
    where = by_key.get(STATE, {})
    conn_id = where.get("state_conn_id")
    dag_id, task_id, run_id, map_index = ids
    return Recorded(
        dag_id,
        task_id,
        run_id,
        map_index,
        task_state=task_state,
        state=str(where.get("state") or ""),
        state_conn_id=None if conn_id is None else str(conn_id),
        verdict=_summary(by_key.get(VERDICT, {})),
        docs=by_key.get(DOCS, {}),
        at=max((one.timestamp.isoformat(timespec="seconds") for one in values), default=""),
    )


def _plain(value: Any) -> Any:
    """A value of XCom as JSON alone: Airflow's own reading would make objects of any class that is named in it."""
    if not isinstance(value, str):  # the task's own process has pushed it
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def _summary(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """The summary of a verdict, if it is one: whoever may write XComs may write others under its key."""
    rules = value.get("constraints")
    if not isinstance(rules, Mapping) or not {"table", "load_id", "snapshot", "decision"} <= value.keys():
        return {}
    if not all(isinstance(one, Mapping) and one.keys() >= _RULE for one in rules.values()):
        return {}
    if not all(type(one[name]) is int for one in rules.values() for name in _NUMBERS):
        return {}
    decided = value.get("decided")
    known = isinstance(decided, Mapping) and {"answer", "by", "reason"} <= decided.keys()
    return {**value, "decided": decided if known else None}
