"""``make airflow``: Airflow with the example DAGs on this machine, to click around in; three loads run by themselves.

Not a DAG. It listens on 127.0.0.1 alone, because nobody has to log in. Ctrl-C ends all of its processes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, NoReturn

from airflow_dc_provider.processes import end_descendants
from dags_examples.demo import airflow_environment

LOADS = ("monday", "tuesday", "wednesday")
_STARTS_WITHIN = 300
_ENDS_WITHIN = 10
_ENDING = (signal.SIGINT, signal.SIGTERM)


def environment(home: Path, port: int) -> dict[str, str]:
    """An Airflow of its own on one port: small, without login, with Spark on this machine."""
    url = f"http://127.0.0.1:{port}"
    settings = {
        "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "CORE__PARALLELISM": "4",
        "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
        "API__HOST": "127.0.0.1",
        "API__PORT": str(port),
        "API__BASE_URL": url,  # without it tasks look for the API at port 8080
        "API__WORKERS": "1",
        "WORKERS__EXECUTION_API_TIMEOUT": "60",  # its first answer takes seconds, and the task is lost that gets none
        "DAG_PROCESSOR__PARSING_PROCESSES": "1",
    }
    beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    mine = airflow_environment(home) | {"AIRFLOW_HOME": str(home), "PATH": beside}
    return {**os.environ, **mine, **{f"AIRFLOW__{name}": value for name, value in settings.items()}}


def main(home: Path, port: int) -> int:
    """Run it until Ctrl-C."""
    home.mkdir(parents=True, exist_ok=True)
    log, url = home / "airflow.log", f"http://127.0.0.1:{port}"
    _say(f"Starting Airflow; what its processes say is in {log}")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "airflow", "standalone"],
            env=environment(home, port),
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    for one in _ENDING:
        signal.signal(one, _stop)
    try:
        if why := _wait(process, url):
            _say(f"Airflow did not start: {why}. Is port {port} taken? make airflow PORT=8090. Its log: {log}")
            return 1
        _run_loads(url)
        _say(f"Airflow is up: {url}/dags/tax_gate  (Ctrl-C ends it)")
        _say(f"Three loads of tax_gate are running: {', '.join(LOADS)}. The last is broken: its gate will be red.")
        process.wait()
        return 1
    finally:
        _end(process)


def _stop(*_: Any) -> NoReturn:
    """End, once: a second Ctrl-C must not break off what ends the others."""
    for one in _ENDING:
        signal.signal(one, signal.SIG_IGN)
    sys.exit(0)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _wait(process: subprocess.Popen[bytes], url: str) -> str:
    """Wait until Airflow is up; empty then, otherwise why it is not."""
    end, why = time.monotonic() + _STARTS_WITHIN, "it has not found its DAGs"
    while time.monotonic() < end and process.poll() is None:
        try:
            health = _call("GET", f"{url}/api/v2/monitor/health")
            if all(health[name]["status"] == "healthy" for name in ("scheduler", "dag_processor")):
                dags = _call("GET", f"{url}/api/v2/dags", _token(url))["dags"]
                if any(one["dag_id"] == "tax_gate" for one in dags):
                    return ""
        except OSError as error:  # it does not listen yet, or not answer as it will
            why = str(error)
        time.sleep(1)
    return why if process.poll() is None else "it has ended"


def _run_loads(url: str) -> None:
    """Start a run for each load, unless an earlier start did."""
    token = _token(url)
    for load in LOADS:
        body = {"dag_run_id": load, "logical_date": None, "conf": {"load": load}}
        try:
            _call("POST", f"{url}/api/v2/dags/tax_gate/dagRuns", token, body)
        except urllib.error.HTTPError as error:
            if error.code != 409:  # it is there from an earlier start
                raise


def _token(url: str) -> str:
    return _call("GET", f"{url}/auth/token")["access_token"]


def _call(method: str, url: str, token: str = "", body: Any = None) -> Any:
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310  (this machine)
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
        return json.loads(answer.read())


def _end(process: subprocess.Popen[bytes]) -> None:
    """End Airflow and all that it has started: a signal to it alone would leave its children."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(_ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            end_descendants(process.pid)
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:  # all have ended
        return
    process.wait()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), int(sys.argv[2])))
