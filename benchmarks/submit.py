"""Spark as the gate operator starts it on one machine: the same settings, and spark-submit timed from outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from dc_engine.shipping import application

MASTER = "local[2]"
SAMPLE_EVERY = 1.0


@dataclass(frozen=True, slots=True)
class Finished:
    """How long a program ran, the most memory that it and its children held at once, and their processor time."""

    seconds: float
    peak_bytes: int
    cpu: Mapping[str, float] = field(default_factory=dict)
    """Seconds of Java, of the driver and of the workers, as far as they were seen."""


@cache
def operator_conf() -> dict[str, str]:
    """The settings that the operator gives to a local master. Asked for outside: Airflow takes over the logging."""
    script = (
        "import json; from airflow_dc_provider.operators import base;"
        "print(json.dumps({**base.QUIET, 'spark.driver.extraJavaOptions': base.SHORT_LIVED}))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def session() -> SparkSession:
    """A session in this process, with the same settings."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(MASTER).appName("benchmark")
    for name, value in operator_conf().items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def submit(
    folder: Path,
    job: str,
    *arguments: str,
    py_files: str = "",
    conf: Mapping[str, str] | None = None,
    master: str = MASTER,
    cores: int | None = None,
) -> Finished:
    """Run a job by spark-submit from start to exit, as the operator does, perhaps with settings of its own.

    It starts in ``folder``, away from these sources: Python prefers the current folder to the zip that was shipped.
    With ``cores`` no process of it gets more of the machine: a task of Spark has a thread of Java and a Python worker,
    which would use two.
    """
    command = [str(Path(sys.executable).parent / "spark-submit"), "--master", master]
    for name, value in {**operator_conf(), **(conf or {})}.items():
        command += ["--conf", f"{name}={value}"]
    if py_files:
        command += ["--py-files", py_files]
    return _run([*command, job, *arguments], folder, cores)


def submit_request(
    folder: Path, request: Mapping[str, Any], engine: Path, job: str = "apply_load", **more: Any
) -> tuple[Finished, dict[str, Any]]:
    """A request by spark-submit, with the engine as a zip; what it cost, and what the job answers."""
    asked, result = folder / "request.json", folder / "result.json"
    asked.write_text(json.dumps(request))
    arguments = ("--request", str(asked), "--result", str(result))
    finished = submit(folder, application(job), *arguments, py_files=str(engine), **more)
    return finished, json.loads(result.read_text())


def _run(command: Sequence[str], folder: Path, cores: int | None) -> Finished:
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    mine = os.sched_getaffinity(0)
    started = time.monotonic()
    os.sched_setaffinity(0, sorted(mine)[:cores])  # a child inherits it
    try:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
    finally:
        os.sched_setaffinity(0, mine)
    with process:
        peak: list[int] = [0]
        spent: dict[int, tuple[str, float]] = {}
        sampler = threading.Thread(target=_watch, args=(process.pid, peak, spent), daemon=True)
        sampler.start()
        said, _ = process.communicate()
        seconds = time.monotonic() - started
        sampler.join()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}\n{said[-4000:]}\nended with exit code {process.returncode}.")
    cpu: Counter[str] = Counter()
    for who, each in spent.values():
        cpu[who] += each  # type: ignore[assignment]
    return Finished(seconds, peak[0], cpu)


def _watch(pid: int, peak: list[int], spent: dict[int, tuple[str, float]]) -> None:
    """Sample the memory and the processor time of a process tree until its root is gone."""
    try:
        root = psutil.Process(pid)
        while root.is_running() and root.status() != psutil.STATUS_ZOMBIE:
            tree = [root, *root.children(recursive=True)]
            peak[0] = max(peak[0], sum(_proportional_bytes(one.pid) for one in tree))
            for one in tree:
                with suppress(psutil.NoSuchProcess):
                    times = one.cpu_times()
                    spent[one.pid] = (_role(one), times.user + times.system)
            time.sleep(SAMPLE_EVERY)
    except psutil.NoSuchProcess:
        return


def _role(process: psutil.Process) -> str:
    if process.name() == "java":
        return "Java"
    return "workers" if any("pyspark.daemon" in one for one in process.cmdline()) else "driver"


def _proportional_bytes(pid: int) -> int:
    """PSS: memory that several processes share is counted once, not for each of them."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # it has ended since it was listed
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)
