"""An Airflow API server for the benchmark of the pages: a database of its own, and tasks that have recorded states."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.end_to_end.airflow_running import REPOSITORY, USERS, api_server, environment

IDS = {"task_id": "gate", "run_id": "run"}
_PORT = 1
"""Of no server: what writes to the database only needs the settings."""


@dataclass(frozen=True, slots=True)
class Served:
    """A server that runs, and who asks it."""

    url: str
    token: str

    def get(self, page: str, query: Mapping[str, Any]) -> tuple[float, int]:
        """The seconds to the first byte of a page, and its bytes."""
        where = urllib.parse.urlsplit(self.url)
        connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=120)
        started = time.perf_counter()
        path = f"{where.path}/dc/{page}?{urllib.parse.urlencode(query)}"
        connection.request("GET", path, headers={"Authorization": f"Bearer {self.token}"})
        answer = connection.getresponse()
        seconds = time.perf_counter() - started
        content = answer.read()
        connection.close()
        if answer.status != 200:
            raise AssertionError(f"{path} is {answer.status}: {content[:500]!r}")
        return seconds, len(content)

    @property
    def memory(self) -> float:
        """The resident memory of its processes, in MB: it is the only child of this process."""
        return sum(one.memory_info().rss for one in psutil.Process().children(recursive=True)) / 1e6


@contextmanager
def server(home: Path, states: Mapping[str, Path]) -> Iterator[Served]:
    """A server with one DAG for each of some states, whose gate has recorded it."""
    home.mkdir(parents=True)
    (home / "dags").mkdir()
    (home / "passwords.json").write_text(json.dumps({name: name for name in USERS}))
    recorded = json.dumps({name: str(folder) for name, folder in states.items()})
    for command in (["airflow", "db", "migrate"], ["benchmarks.server", recorded]):
        subprocess.run(
            [sys.executable, "-m", *command],
            env={**environment(home, _PORT), "PYTHONPATH": str(REPOSITORY), "_AIRFLOW_PROCESS_CONTEXT": "server"},
            cwd=home,
            check=True,
            capture_output=True,
        )
    with api_server(home, "", ["metadatabase"]) as (url, token):
        yield Served(url, token)


def main() -> None:
    """Write the tasks to the database, in a process that has this Airflow's settings."""
    from airflow_dc_provider.pages.recorded import STATE
    from tests.pages.serving import Task, write_bundle, write_task

    write_bundle()
    for name, folder in json.loads(sys.argv[1]).items():
        write_task(Task(name, **IDS), "failed", {STATE: {"state": folder, "state_conn_id": None}})


if __name__ == "__main__":
    main()
