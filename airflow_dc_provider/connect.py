"""A job on a Spark Connect server: its driver is a process of the task, so that it ends with the task.

A server goes on with what it was asked for when its client is gone. So whoever of the two is left ends the session: the
driver, when it ends or when the task is gone; the task, when the driver was killed at once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit
from uuid import uuid4

from airflow.providers.common.compat.sdk import AirflowException
from airflow.sdk.log import mask_secret

from airflow_dc_provider.exceptions import DcGateError
from airflow_dc_provider.processes import end_descendants

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Connection

    from airflow_dc_provider.spark_log import SparkLog

GRACE = 15
"""For how many seconds a driver may tell the server that it is ended."""
_RELEASE = 60
"""For how many seconds the task may do so in its place."""
_LAST_LINES = 20
# Whatever decides how an application is started: a server has been started already.
_NOT_THERE = (
    *("archives", "driver_class_path", "driver_memory", "exclude_packages", "executor_cores", "executor_memory"),
    *("deploy_mode", "files", "jars", "keytab", "num_executors", "packages", "post_submit_commands", "principal"),
    *("properties_file", "proxy_user", "py_files", "repositories", "spark_binary", "total_executor_cores"),
    "yarn_queue",
)


def check_arguments(task: Any, conn_id: str) -> None:
    """Refuse what ``spark-submit`` would take and a server cannot: to drop it quietly would be to run another job."""
    given = [name for name in _NOT_THERE if getattr(task, name, None) or getattr(task, f"_{name}", None)]
    if given:
        raise DcGateError(
            f"'{conn_id}' is a Spark Connect server, where a task cannot choose {', '.join(map(repr, given))}.",
            hint="Set it where the server is started, and leave it out here; conf takes settings of Spark SQL.",
        )


def remote(conn_id: str, connection: Connection) -> str:
    """The server's address as PySpark takes it, from the same fields as the Spark provider's own hook.

    That one leaves a slash in a token as it is, and PySpark then takes it for a path.
    """
    place = urlsplit(connection.host if "://" in (connection.host or "") else f"sc://{connection.host or ''}")
    if not place.hostname or place.path.strip("/"):
        raise DcGateError.told(
            f"The host of the Airflow connection '{conn_id}' is '{connection.host or ''}', which is not the address of "
            "a Spark Connect server.",
            "Write HOST or sc://HOST, and the port beside it (15002 unless the server was told otherwise); user, token "
            "and use_ssl go into login, password and extra.",
        )
    given = {
        "user_id": connection.login,
        "token": connection.password,
        "use_ssl": connection.extra_dejson.get("use_ssl"),
    }
    parts = {name: quote(str(value), safe="") for name, value in given.items() if value}
    for secret in filter(None, (connection.password, parts.get("token"))):
        mask_secret(secret)
    host = f"[{place.hostname}]" if ":" in place.hostname else place.hostname
    port = connection.port or place.port
    return "".join([f"sc://{host}", f":{port}" if port else "", "/", *(f";{one}={parts[one]}" for one in parts)])


def with_session(address: str) -> str:
    """The address with a session of its own, so that the task knows which one its driver has."""
    return f"{address};session_id={uuid4()}"


def hand_over(folder: Path, address: str, conf: Mapping[str, Any]) -> Path:
    """Write down for the driver where to run, in a file that only this user may read."""
    path = folder / "connect.json"
    path.touch(mode=0o600, exist_ok=False)
    path.write_text(json.dumps({"remote": address, "conf": conf}), encoding="utf-8")
    return path


# Not from the current folder, which may hold anything.
_MODULE = (sys.executable, "-P", "-m")


class Driver:
    """The process that is the job's driver."""

    def __init__(
        self, job: str, arguments: Sequence[str], environment: Mapping[str, str], log: SparkLog, address: str
    ) -> None:
        self._command = [*_MODULE, f"dc_engine.{job}", *arguments, "--parent", str(os.getpid())]
        self._address = address
        self._environment = {**os.environ, **environment}
        self._log = log
        self.name = f"python -m dc_engine.{job}"
        self._process: subprocess.Popen[str] | None = None
        self._ended = False

    def run(self) -> None:
        """Start it, log what it says, and wait for its end; raises when it fails."""
        last: deque[str] = deque(maxlen=_LAST_LINES)
        self._process = process = subprocess.Popen(
            self._command,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        )
        if self._ended:  # in the very moment in which it was started
            self.end()
        # Not as a context, which would wait for the process also when a timeout is raised here.
        for line in process.stdout or ():
            last.append(line.rstrip("\n"))
            self._log.info(last[-1])
        if process.wait() < 0 and not self._ended:
            self._release()
        if process.returncode:
            raise AirflowException("\n".join([f"{self.name} ended with {process.returncode}.", *last]))

    def end(self) -> None:
        """Let it release its session, so that the server stops working for it; if it does not end then, kill it."""
        self._ended, process = True, self._process
        if process is None or process.poll() is not None:
            return
        process.terminate()
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            end_descendants(process.pid)
            process.kill()
            self._release()

    def _release(self) -> None:
        """End the session of a driver that was killed, which could not do so itself."""
        command, address = [*_MODULE, "dc_engine.connecting"], self._address.encode()
        try:
            subprocess.run(
                command, input=address, env=self._environment, capture_output=True, check=True, timeout=_RELEASE
            )
            self._log.info("The driver was killed: its session was ended, and all that the server did for it.")
        except subprocess.SubprocessError:  # with what was said, which may quote the token
            self._log.info("The driver was killed, and its session could not be ended: the server goes on for minutes.")
