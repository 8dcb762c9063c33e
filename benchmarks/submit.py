"""Spark as the gate operator starts it on one machine: the same settings, and spark-submit timed from outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

MASTER = "local[2]"
SAMPLE_EVERY = 1.0


@dataclass(frozen=True, slots=True)
class Finished:
    """How long a program ran, and the most memory that it and its children held at once."""

    seconds: float
    peak_bytes: int


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


def submit(folder: Path, job: str, *arguments: str, py_files: str = "") -> Finished:
    """Run a job by spark-submit from start to exit, as the operator does.

    It starts in ``folder``, away from these sources: Python prefers the current folder to the zip that was shipped.
    """
    command = [str(Path(sys.executable).parent / "spark-submit"), "--master", MASTER]
    for name, value in operator_conf().items():
        command += ["--conf", f"{name}={value}"]
    if py_files:
        command += ["--py-files", py_files]
    return _run([*command, job, *arguments], folder)


def _run(command: Sequence[str], folder: Path) -> Finished:
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    started = time.monotonic()
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        peak: list[int] = [0]
        sampler = threading.Thread(target=_watch, args=(process.pid, peak), daemon=True)
        sampler.start()
        said, _ = process.communicate()
        seconds = time.monotonic() - started
        sampler.join()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}\n{said[-4000:]}\nended with exit code {process.returncode}.")
    return Finished(seconds, peak[0])


def _watch(pid: int, peak: list[int]) -> None:
    """Sample the memory of a process tree until its root is gone."""
    try:
        root = psutil.Process(pid)
        while root.is_running() and root.status() != psutil.STATUS_ZOMBIE:
            tree = [root, *root.children(recursive=True)]
            peak[0] = max(peak[0], sum(_proportional_bytes(one.pid) for one in tree))
            time.sleep(SAMPLE_EVERY)
    except psutil.NoSuchProcess:
        return


def _proportional_bytes(pid: int) -> int:
    """PSS: memory that several processes share is counted once, not for each of them."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # it has ended since it was listed
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)
