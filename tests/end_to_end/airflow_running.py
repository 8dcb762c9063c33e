"""An Airflow that really runs: API server, scheduler, DAG processor and triggerer, all ended together.

One for all tests that need one (fixture ``airflow`` in ``conftest.py``; mark them ``xdist_group("running_airflow")``).
A test writes its DAGs with ``add_dags`` and speaks with Airflow by its REST API, as people and their scripts do.

``spark-submit`` on its PATH is a stand-in that runs the engine's own job without a JVM (``submitted.py``): real
rows, a real state, real verdicts, in a second. What needs Spark (a quarantine), and a task with
``env_vars={"DC_REAL_SPARK": "1"}``, gets the real one.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psutil

from airflow_dc_provider.processes import end_descendants

REPOSITORY = Path(__file__).resolve().parents[2]
USERS = {"admin": "admin", "ada": "user", "victor": "viewer"}
"""Who may log in, with the role of each; the password is the name."""
_SUBMIT = """#!{python}
import os, sys
sys.path.insert(0, {repository!r})
from tests.end_to_end.submitted import main, needs_spark
if os.environ.get("DC_REAL_SPARK") or needs_spark(sys.argv):
    os.execv({real!r}, ["spark-submit", *sys.argv[1:]])
sys.exit(main(sys.argv[1:]))
"""
Found = TypeVar("Found")
_log = logging.getLogger(__name__)
_REFUSALS = 20
_PATIENCE = 300
"""Seconds: a machine that is busy with other tests takes its time."""


class ApiError(Exception):
    """An answer other than a success."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(f"{status}: {said}")
        self.status = status


@dataclass
class RunningAirflow:
    """An Airflow that runs, and what a test does with it."""

    home: Path
    url: str
    process: subprocess.Popen[bytes]
    tokens: dict[str, str] = field(default_factory=dict)

    @property
    def log(self) -> str:
        """What its processes have said."""
        return (self.home / "airflow.log").read_text(errors="replace")

    def add_dags(self, name: str, text: str) -> None:
        """Write a DAG file, and wait until every DAG in it is known."""
        path = self.home / "dags" / f"{name}.py"
        path.write_text(textwrap.dedent(text))
        self._until_parsed(name)

    def add_dag_file(self, path: Path) -> None:
        """Copy a DAG file, and wait until every DAG in it is known."""
        shutil.copy(path, self.home / "dags" / path.name)
        self._until_parsed(path.stem)

    def _until_parsed(self, name: str) -> None:
        written = time.time()

        def parsed() -> bool:
            errors = self.get("importErrors")["import_errors"]
            mine = [one["stack_trace"] for one in errors if one["filename"].endswith(f"{name}.py")]
            assert not mine, mine[0]
            dags = self.get("dags", limit=1000)["dags"]
            return any(
                one["relative_fileloc"] == f"{name}.py" and _seconds(one["last_parsed_time"]) >= written for one in dags
            )

        self.until(parsed, f"{name}.py is parsed")

    def request(self, method: str, path: str, body: Any = None, *, user: str = "admin") -> Any:
        """One call of the REST API; ``path`` starts behind ``/api/v2/``.

        SQLite refuses a change while another process makes one; Airflow has undone it then, and is asked again.
        """
        if user not in self.tokens:
            answer = _call("POST", f"{self.url}/auth/token", {"username": user, "password": user})
            self.tokens[user] = answer["access_token"]
        for _ in range(_REFUSALS):
            try:
                return _call(method, f"{self.url}/api/v2/{path}", body, self.tokens[user])
            except ApiError as error:
                if error.status != 500 or "Database error" not in str(error):
                    raise
                time.sleep(1)
        return _call(method, f"{self.url}/api/v2/{path}", body, self.tokens[user])

    def get(self, path: str, **query: Any) -> Any:
        """Read something by the REST API."""
        return self.request("GET", f"{path}?{urllib.parse.urlencode(query)}" if query else path)

    def trigger(self, dag_id: str, run_id: str | None = None, conf: dict[str, Any] | None = None) -> str:
        """Start a run; its id."""
        body = {"dag_run_id": run_id or f"run-{secrets.token_hex(4)}", "logical_date": None, "conf": conf or {}}
        return self.request("POST", f"dags/{dag_id}/dagRuns", body)["dag_run_id"]

    def task(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> dict[str, Any]:
        """A task instance."""
        mapped = f"/{map_index}" if map_index >= 0 else ""
        return self.get(f"dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}{mapped}")

    def wait_for(
        self, dag_id: str, run_id: str, task_id: str, *states: str, map_index: int = -1, seconds: float = _PATIENCE
    ) -> dict[str, Any]:
        """Wait until a task is in one of some states; ended in another, it never will be."""
        ended = {"success", "failed", "upstream_failed", "skipped", "removed"}

        def reached() -> dict[str, Any] | None:
            found = self.task(dag_id, run_id, task_id, map_index)
            if found["state"] in states:
                return found
            told = self.logs(dag_id, run_id, task_id, map_index=map_index) if found["state"] in ended else ""
            assert found["state"] not in ended, f"{task_id} is {found['state']}, not {states}:\n{told}"
            return None

        return self.until(reached, f"{task_id} of {dag_id} is {' or '.join(states)}", seconds)

    def wait_for_run(self, dag_id: str, run_id: str, seconds: float = _PATIENCE) -> dict[str, str]:
        """Wait for the end of a run; the state of each task."""

        def ended() -> bool:
            return self.get(f"dags/{dag_id}/dagRuns/{run_id}")["state"] in ("success", "failed")

        self.until(ended, f"{run_id} of {dag_id} has ended", seconds)
        for one in self.get(f"dags/{dag_id}/dagRuns/{run_id}/taskInstances", state="failed")["task_instances"]:
            # Shown with a test that fails; what Airflow itself fails, the scheduler alone tells of.
            told = [line for line in self.log.splitlines() if run_id in line and "finished with state" in line]
            said = self.logs(dag_id, run_id, one["task_id"], map_index=one["map_index"])
            _log.warning("%s", "\n".join([said, *told]))
        return self.states(dag_id, run_id)

    def states(self, dag_id: str, run_id: str) -> dict[str, str]:
        """The state of each task of a run; those of mapped tasks with their index."""
        found = self.get(f"dags/{dag_id}/dagRuns/{run_id}/taskInstances")["task_instances"]
        return {_named(one): one["state"] for one in found}

    def answer(
        self,
        dag_id: str,
        run_id: str,
        task_id: str,
        option: str,
        given: dict[str, Any] | None = None,
        *,
        map_index: int = -1,
        user: str = "ada",
    ) -> Any:
        """Answer a task that asks a person."""
        self.until_asked(dag_id, run_id, task_id, map_index)
        path = f"dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/{map_index}/hitlDetails"
        return self.request("PATCH", path, {"chosen_options": [option], "params_input": given or {}}, user=user)

    def until_asked(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> None:
        """Wait until the scheduler has seen the process end that asked: it fails a task that runs again before."""
        number = self.task(dag_id, run_id, task_id, map_index)["try_number"]
        key = f"dag_id='{dag_id}', task_id='{task_id}', run_id='{run_id}', try_number={number}, map_index={map_index}"
        seen = f"Received executor event with state success for task instance TaskInstanceKey({key})"
        self.until(lambda: seen in self.log, f"the scheduler has seen {task_id} of {dag_id} ask")

    def asked(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> dict[str, Any]:
        """What a task asks a person."""
        return self.get(f"dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/{map_index}/hitlDetails")

    def clear(self, dag_id: str, run_id: str, *task_ids: str) -> None:
        """Clear tasks of a run, with all behind them, as the button in the UI does."""
        body = {"dry_run": False, "dag_run_id": run_id, "task_ids": list(task_ids), "only_failed": False}
        body |= {"include_downstream": True, "reset_dag_runs": True}
        self.request("POST", f"dags/{dag_id}/clearTaskInstances", body)

    def xcom(self, dag_id: str, run_id: str, task_id: str, key: str = "return_value", map_index: int = -1) -> Any:
        """A value that a task pushed; None when there is none."""
        path = f"dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/{key}"
        try:
            return self.get(path, map_index=map_index, deserialize="true")["value"]
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    def events(self, asset: str) -> list[dict[str, Any]]:
        """The events of an asset, oldest first.

        Airflow answers 500 while a run that an event has started is still queued: it asks for the run's start, which
        is not there yet.
        """
        known = [one for one in self.get("assets", limit=1000)["assets"] if one["name"] == asset]
        if not known:
            return []
        asked = {"asset_id": known[0]["id"], "order_by": "timestamp"}
        return self.until(lambda: self.get("assets/events", **asked), f"Airflow tells the events of {asset}")[
            "asset_events"
        ]

    def logs(
        self, dag_id: str, run_id: str, task_id: str, *, try_number: int | None = None, map_index: int = -1
    ) -> str:
        """The log of a task's try (by default its last), as its log page shows it."""
        number = try_number or self.task(dag_id, run_id, task_id, map_index)["try_number"]
        path = f"dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/logs/{number}"
        content = self.get(path, map_index=map_index, full_content="true")["content"]
        return "\n".join(one if isinstance(one, str) else _line(one) for one in content)

    def wait_for_log(self, text: str, dag_id: str, run_id: str, task_id: str) -> None:
        """Wait until the log of a task's last try has a text: a task may have ended before all it said is written."""
        self.until(lambda: text in self.logs(dag_id, run_id, task_id), f"{task_id} of {dag_id} has logged {text!r}")

    def restart_triggerer(self) -> None:
        """End the triggerer with all that it runs; another one is started at once."""
        components = psutil.Process(self.process.pid).children()
        (old,) = [one for one in components if one.cmdline()[0] == "airflow triggerer"]
        old.terminate()
        self.until(lambda: not old.is_running(), "the triggerer has ended")

    def until(self, found: Callable[[], Found | None], what: str, seconds: float = _PATIENCE) -> Found:
        """Wait for something; what is not there in time is an error that quotes Airflow's own log.

        An error inside Airflow (a database that is locked, a run that is half made) counts as not there yet.
        """
        end = time.monotonic() + seconds
        failed = ""
        while time.monotonic() < end:
            assert self.process.poll() is None, f"Airflow has ended:\n{self.log[-5000:]}"
            try:
                if result := found():
                    return result
            except ApiError as error:
                if error.status < 500:
                    raise
                failed = f" The last answer was {error}."
            time.sleep(0.5)  # to ask oftener costs the API server more than it gains
        raise AssertionError(f"Not within {seconds:.0f} s: {what}.{failed}\n{self.log[-5000:]}")


@contextmanager
def running_airflow(home: Path) -> Iterator[RunningAirflow]:
    """Start an Airflow in a folder of its own; at the end all its processes are gone."""
    for name in ("dags", "bin"):
        (home / name).mkdir(parents=True, exist_ok=True)
    write_submit(home / "bin" / "spark-submit")
    (home / "passwords.json").write_text(json.dumps({name: name for name in USERS}))
    port = _free_port()
    url = f"http://127.0.0.1:{port}"
    with (home / "airflow.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.end_to_end.components"],
            env=environment(home, port),
            cwd=home,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    running = RunningAirflow(home, url, process)
    try:
        running.until(lambda: _is_healthy(url), "Airflow is up")
        yield running
    finally:
        end_descendants(process.pid)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def api_server(home: Path, base: str, components: Collection[str] | None = None) -> Iterator[tuple[str, str]]:
    """A second API server over the database of an Airflow, below a base path: its address, and a token of ``admin``.

    It is up when all components of Airflow are, or those that are named.
    """
    port = _free_port()
    url = f"http://127.0.0.1:{port}{base}"
    with (home / "second.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "airflow", "api-server"],
            env={**environment(home, port), "AIRFLOW__API__BASE_URL": url},
            cwd=home,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        RunningAirflow(home, url, process).until(lambda: _is_healthy(url, components), f"Airflow is up below {base}")
        user = {"username": "admin", "password": "admin"}
        yield url, _call("POST", f"{url}/auth/token", user)["access_token"]
    finally:
        end_descendants(process.pid)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def environment(home: Path, port: int) -> dict[str, str]:
    """What the processes of an Airflow need: small, quick to notice things, alone on this machine."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "PYSPARK", "DC_"))}
    url = f"http://127.0.0.1:{port}"
    settings = {
        "CORE__DAGS_FOLDER": str(home / "dags"),
        "CORE__LOAD_EXAMPLES": "False",
        "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "CORE__PARALLELISM": "4",
        "CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
        "CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{name}:{role}" for name, role in USERS.items()),
        "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / "passwords.json"),
        "API__HOST": "127.0.0.1",
        "API__PORT": str(port),
        "API__BASE_URL": url,  # without it tasks look for the API at port 8080
        "API__WORKERS": "1",
        "WORKERS__EXECUTION_API_TIMEOUT": "60",  # its first answer takes seconds, and the task is lost that gets none
        "DAG_PROCESSOR__REFRESH_INTERVAL": "1",
        "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",  # a file that is new or changed is parsed at once anyway
        "DAG_PROCESSOR__PARSING_PROCESSES": "1",
        "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.4",  # with half of it, it does nothing at twice the cost
        "SCHEDULER__TRIGGER_TIMEOUT_CHECK_INTERVAL": "1",
        "LOGGING__LOGGING_LEVEL": "INFO",
    }
    return {
        **kept,
        "AIRFLOW_HOME": str(home),
        "TAX_GATE_HOME": str(home / "tax"),
        "PYTHONHASHSEED": "0",  # the stand-in for spark-submit fingerprints rows by Python's hashes
        **{f"AIRFLOW__{name}": value for name, value in settings.items()},
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        "PATH": os.pathsep.join([str(home / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]),
    }


def write_submit(path: Path) -> None:
    """The stand-in as a program."""
    real = str(Path(sys.executable).parent / "spark-submit")
    path.write_text(_SUBMIT.format(python=sys.executable, real=real, repository=str(REPOSITORY)))
    path.chmod(0o755)


def _is_healthy(url: str, components: Collection[str] | None = None) -> bool:
    try:
        found = _call("GET", f"{url}/api/v2/monitor/health")
    except (ApiError, OSError):
        return False
    return all((found.get(name) or {}).get("status") == "healthy" for name in components or _COMPONENTS)


_COMPONENTS: Collection[str] = ("metadatabase", "scheduler", "triggerer", "dag_processor")


def _call(method: str, url: str, body: Any = None, token: str | None = None) -> Any:
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:
            return json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        raise ApiError(error.code, error.read().decode(errors="replace")) from None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _named(one: dict[str, Any]) -> str:
    return one["task_id"] if one["map_index"] < 0 else f"{one['task_id']}[{one['map_index']}]"


def _seconds(stamp: str | None) -> float:
    from datetime import datetime

    return datetime.fromisoformat(stamp).timestamp() if stamp else 0.0


def _line(record: dict[str, Any]) -> str:
    """A record of a task's log; of an exception its type and message."""
    raised = [f"{one['exc_type']}: {one['exc_value']}" for one in record.get("error_detail") or ()]
    return "\n".join([record.get("event", ""), *raised])
