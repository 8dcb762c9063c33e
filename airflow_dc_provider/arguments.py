"""What is known of arguments when a DAG is parsed, and which are refused then, also where a task is mapped.

Every operator, sensor and hook asks here, so nothing of Spark is imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow_dc_provider.mapping import is_known_later
from dc_engine.constraints.files import load_constraints
from dc_engine.errors import RequestError, did_you_mean


def check_constraints(task: Any, constraints: Any) -> None:
    """Read the rules when a DAG is parsed, if it is known then where they are: on no filesystem but this machine's."""
    if is_open(constraints) or (isinstance(constraints, str) and "://" in constraints):
        return
    if isinstance(constraints, str) and not Path(constraints).is_absolute() and not task.has_dag():
        return
    load_constraints(constraint_source(task, constraints))


def check_load_is_named(load_id: Any) -> None:
    """Refuse ``None``: it names no load."""
    if load_id is None:
        raise RequestError(
            "load_id is None, which names no load.",
            hint="Leave load_id out (it is then the DAG run's id), or name the load: load_id='{{ ds }}'.",
        )


def check_question(on_violation: str, timeout: Any, assigned_users: Any, notifiers: Any) -> None:
    """Refuse what a question to a person cannot have, and what belongs to one that is never asked."""
    for name, value in (("assigned_users", assigned_users), ("notifiers", notifiers)):
        if not isinstance(value, list | tuple):
            raise ValueError(f"{name} is {value!r}, and must be a list.")
    if odd := [one for one in notifiers if not callable(one)]:
        raise ValueError(f"notifiers has {odd[0]!r}; each is one of Airflow's notifiers, such as SmtpNotifier(to=...).")
    if on_violation != "ask" and (timeout is not None or assigned_users):
        raise ValueError("response_timeout and assigned_users need on_violation='ask': nobody is asked otherwise.")
    if timeout is not None and not (isinstance(timeout, timedelta) and timeout > timedelta()):
        raise ValueError(f"response_timeout is {timeout!r}, and must be a positive timedelta: timedelta(hours=12).")
    for one in assigned_users:
        if not isinstance(one, Mapping) or set(one) != {"id", "name"}:
            raise ValueError(f"assigned_users has {one!r}; each is a mapping {{'id': ..., 'name': ...}}.")


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Refuse a value that an argument does not have."""
    if value not in choices:
        hint = did_you_mean(str(value), choices, otherwise=" ")  # all of them are named anyway
        raise ValueError(f"{name} is {value!r}, and must be one of {tuple(choices)}. {hint}".rstrip())


def check_folder(name: str, value: Any) -> None:
    """Refuse a relative path: it would be a different, empty folder wherever a worker happens to start."""
    if not isinstance(value, str) or not ("://" in value or Path(value).is_absolute()):
        raise RequestError(
            f"{name} is {value!r}, and must be an absolute path or a URI such as s3://bucket/{name}/tax."
        )


def constraint_source(task: Any, constraints: str | Mapping[str, Any]) -> str | Mapping[str, Any]:
    """Where constraints are: a relative path starts in the folder of the DAG file."""
    if not isinstance(constraints, str) or "://" in constraints:
        return constraints
    folder = Path(task.dag.fileloc).parent if task.has_dag() else Path()
    return str(folder / constraints)


def load_name(value: Any) -> str | None:
    """A rendered load_id, which may be a date or a number; ``None`` stays ``None``."""
    return None if value is None else str(value)


def is_open(value: Any) -> bool:
    """Whether a value is known only once the task runs."""
    if isinstance(value, str):
        return "{{" in value or "{%" in value
    if isinstance(value, Mapping):
        return any(is_open(one) for one in value.values())
    if isinstance(value, list | tuple):
        return any(is_open(one) for one in value)
    return is_known_later(value)


def settled(value: Any) -> Any:
    """A source with a text in place of each result of another task, so that its form can be checked."""
    if is_known_later(value):
        return {"path": "later"}
    if isinstance(value, Mapping):
        return {name: "later" if is_known_later(one) else one for name, one in value.items()}
    return value
