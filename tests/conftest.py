"""One Spark session for all tests that need one; they run in one process: ``xdist_group("spark")``.

Those that start a Spark of their own, or want a Connect server, are another group, ``submit``, so that two processes
share the work.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen

import pytest
from hypothesis import HealthCheck, Phase, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MEMORY = Path("/dev/shm")  # on Linux; in a container it may be small
if "TMPDIR" not in os.environ and _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > 4 << 30:
    # What a disk has to do for thousands of small files that are synced is a tenth of what all tests cost.
    os.environ["TMPDIR"] = tempfile.tempdir = tempfile.mkdtemp(prefix="dc-tests-", dir=_MEMORY)
    Path(tempfile.tempdir).chmod(0o755)  # some tests work as another user
    atexit.register(shutil.rmtree, tempfile.tempdir, ignore_errors=True)  # other processes of the tests inherit it

# Airflow reads its home once, when it is imported: each process of the tests has one of its own.
os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="dc-airflow-home-")
atexit.register(shutil.rmtree, os.environ["AIRFLOW_HOME"], ignore_errors=True)

_CACHE = Path(sys.prefix) / "cache"


def _share_kernels() -> None:
    """Let jobs that get the engine as a zip find what is compiled here, which is half of what a first job costs.

    They settle its kernels in the user's cache (``dc_engine/kernels/__init__.py``), for the tests one of their own.
    Numba takes what it finds beside a source for its own when the source is as old and as long.
    """
    kernels = Path(__file__).parents[1] / "spark_jobs" / "dc_engine" / "kernels"
    sources = {one.name: one.read_bytes() for one in sorted(kernels.glob("*.py")) if one.name != "__init__.py"}
    settled = _CACHE / "airflow-dc-provider" / f"kernels-{hashlib.sha256(repr(sources).encode()).hexdigest()[:16]}"
    settled.mkdir(parents=True, exist_ok=True)
    for name in sources:
        if not (settled / name).exists() or (settled / name).stat().st_mtime_ns != (kernels / name).stat().st_mtime_ns:
            draft = Path(shutil.copy2(kernels / name, settled / f"{name}.{os.getpid()}"))
            draft.replace(settled / name)
    (kernels / "__pycache__").mkdir(exist_ok=True)
    with suppress(FileExistsError):
        (settled / "__pycache__").symlink_to(kernels / "__pycache__")
    os.environ.setdefault("UV_CACHE_DIR", f"{os.environ.get('XDG_CACHE_HOME') or Path.home() / '.cache'}/uv")
    os.environ["XDG_CACHE_HOME"] = str(_CACHE)


_share_kernels()

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile("test", deadline=None, suppress_health_check=_SLOW, max_examples=50, print_blob=True)
settings.register_profile("find", settings.get_profile("test"), phases=[Phase.generate])  # without shrinking
settings.register_profile("nightly", settings.get_profile("test"), max_examples=5_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "test"))

SPARK_VERSION = tuple(map(int, version("pyspark").split(".")[:2]))
HAS_TIMES = SPARK_VERSION >= (4, 1)
HAS_SHAPES = SPARK_VERSION >= (4, 2)
"""Types that came after the first version of Spark that the engine works on."""

# With the little room that one compiler gets, a Java that runs for minutes throws code away and compiles it again.
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
SPARK_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": _SHORT_LIVED,
    "spark.executor.extraJavaOptions": f"{_SHORT_LIVED} {os.environ.get('SPARK_SUBMIT_OPTS', '')}",  # the archive
}

_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""The shared session is asked each query once, and to compile it takes longer. Jobs that are submitted do compile."""


GROUPS = ("running_airflow", "spark", "submit", "gx", "airflow", "pages", "long_history", "packaging")
"""Tests that share something expensive and so run one after the other: those that take longest are begun first."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In several processes what takes long comes first (with ``--no-loadscope-reorder``): the rest fills the gaps."""

    def place(item: pytest.Item) -> int:
        group = item.get_closest_marker("xdist_group")
        alone = len(GROUPS) + ("histories" not in item.path.name)  # a random history is one test of a minute
        return GROUPS.index(group.args[0]) if group else alone

    if hasattr(config, "workerinput"):
        items.sort(key=place)


def pytest_collection_finish() -> None:
    """What is imported by now stays: nobody looks through it for garbage again, least of all a process forked off."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("tests")
    for name, value in (SPARK_SETTINGS | _INTERPRETED).items():
        builder = builder.config(name, value)
    builder = builder.config("spark.python.daemon.module", "tests.daemon")
    session = builder.config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse"))).getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="session", autouse=True)
def kernels_are_compiled_once() -> Iterator[None]:
    """Of the processes of a run that need a kernel one compiles it; the others wait, and read what it has kept."""
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.dispatcher import Dispatcher

    turns = _CACHE / "turns"
    turns.mkdir(exist_ok=True)
    compile_at_once = Dispatcher.compile

    def compile_in_turn(self: Any, signature: Any) -> Any:
        name = f"{self.py_func.__module__}.{self.py_func.__name__}"
        if not name.startswith("dc_engine."):
            return compile_at_once(self, signature)
        with global_compiler_lock, (turns / name).open("w") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            return compile_at_once(self, signature)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Dispatcher, "compile", compile_in_turn)
        yield


@pytest.fixture(scope="session")
def repository() -> Path:
    return Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def airflow_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with Airflow's tables, to be copied: an Airflow of its own need not make them."""
    home = tmp_path_factory.mktemp("airflow-database")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    subprocess.run(
        [sys.executable, "-m", "airflow", "db", "migrate"],
        env={**kept, "AIRFLOW_HOME": str(home)},
        check=True,
        capture_output=True,
    )
    return home / "airflow.db"


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with the installed packages, but without this one: the engine has to be brought to it."""
    path = tmp_path_factory.mktemp("bare") / "python"
    packages = sysconfig.get_paths()["purelib"]
    path.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec {sys.executable} -S "$@"\n')
    path.chmod(0o755)
    for module, there in (("dc_engine", False), ("pyarrow", True)):
        environment = {**os.environ, "PYTHONPATH": ""}
        done = subprocess.run([path, "-c", f"import {module}"], cwd=path.parent, env=environment, capture_output=True)
        assert (done.returncode == 0) is there
    return path


@dataclass(frozen=True)
class ConnectServer:
    """A Spark Connect server, which wants a token; its workers know nothing of the engine."""

    port: int
    token: str
    page: str

    @property
    def remote(self) -> str:
        return f"sc://localhost:{self.port}/;token={quote(self.token, safe='')}"

    def running_jobs(self) -> list[Any]:
        """What it works on at this moment."""
        return self._get(f"/{self._get('')[0]['id']}/jobs?status=running")

    def _get(self, path: str) -> Any:
        with urlopen(f"{self.page}/api/v1/applications{path}", timeout=10) as answer:
            return json.load(answer)


@pytest.fixture(scope="session")
def connect_server(tmp_path_factory: pytest.TempPathFactory, bare_python: Path) -> Iterator[ConnectServer]:
    folder = tmp_path_factory.mktemp("connect")
    port, page = _free_port(), _free_port()
    server = ConnectServer(port, "a/token+of==the;test", f"http://127.0.0.1:{page}")
    own = {
        "spark.master": "local[2]",
        "spark.ui.enabled": "true",
        "spark.ui.port": str(page),
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.authenticate.token": server.token,
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.artifact.isolation.enabled": "true",
    }
    settings_file = folder / "spark.conf"  # and not in arguments: tests look for the token there
    settings_file.write_text("".join(f"{key} {value}\n" for key, value in (SPARK_SETTINGS | own).items()))
    command = [str(Path(sys.executable).with_name("spark-submit")), "--properties-file", str(settings_file)]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    variables = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": str(bare_python), "PYTHONPATH": ""}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, env={**os.environ, **variables}, stdout=log, stderr=log)
    try:
        _wait_for(server, process, folder / "log")
        yield server
    finally:
        process.terminate()
        process.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for(server: ConnectServer, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 120
    while True:
        try:
            with socket.create_connection(("127.0.0.1", server.port), timeout=1):
                server.running_jobs()
                return
        except (OSError, URLError, IndexError):
            assert process.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < end, log.read_text()[-3000:]
            time.sleep(0.2)


def _free_port() -> int:
    with closing(socket.socket()) as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
