"""The job gives the same verdict wherever Spark runs: in one process, in separate executors, behind Spark Connect."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from dc_engine.apply_load import apply_load
from dc_engine.discover import discover
from dc_engine.engines import dealing
from dc_engine.maintain import maintain
from dc_engine.shipping import application, build_engine_zip
from dc_engine.sizes import other_sizes
from dc_engine.state.storage import Storage
from dc_engine.stored import read_dependencies
from tests.conftest import SPARK_SETTINGS, ConnectServer

pytestmark = pytest.mark.xdist_group("submit")

RULES = {
    "version": 1,
    "table": "people",
    "key": ["id"],
    "constraints": [
        {"name": "zip_decides_city", "fd": "zip -> city"},
        {"name": "pay_follows_rank", "deny": "t.rank > s.rank and t.pay < s.pay"},
        {"name": "boss_earns_more", "deny": "t.id = s.boss and t.pay < s.pay"},
    ],
}

KILLED_WORKERS = """
import json, os, signal, sys
from pyspark import TaskContext
from pyspark.sql import SparkSession
from dc_engine.apply_load import apply_load
from dc_engine.engines import spark as staging, work as moving
class Dying:
    def __init__(self, step):
        self.step, self.load = step, getattr(step, "load", None)
    def __call__(self, batches):
        done = list(self.step(batches))
        if TaskContext.get().attemptNumber() == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        yield from done
stage, report = staging.Stage, moving.ReportStep
staging.Stage = lambda *given: Dying(stage(*given))
moving.ReportStep = lambda *given: Dying(report(*given))
builder = SparkSession.builder.master("local[2,4]").config("spark.log.level", "OFF")
session = builder.config("spark.ui.enabled", "false").getOrCreate()
print(json.dumps(apply_load(session, json.load(open(sys.argv[1])) | {"engine": "spark"}).to_dict()))
"""
"""Every task that writes dies at its first try, after it has written everything."""


@pytest.fixture(scope="module")
def loads(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("loads")
    paths = []
    for number, size in enumerate((400, 50)):
        ids = range(1000 * number, 1000 * number + size)
        rows = {
            "id": list(ids),
            "zip": [str(i % 40) for i in ids],
            "city": [f"city {i % 40 + (i % 97 == 0)}" for i in ids],
            "rank": [i % 11 for i in ids],
            "pay": [(i % 11) * 100 + i % 201 for i in ids],
            "boss": [i % 400 // 7 for i in ids],
        }
        table = pa.table(rows)
        if number:
            gone = pq.read_table(paths[0]).slice(10, 20)
            kinds = ["insert"] * size + ["delete"] * gone.num_rows
            table = pa.concat_tables([table, gone]).append_column("_change_type", pa.array(kinds))
        paths.append(folder / f"{number}.parquet")
        pq.write_table(table, paths[-1])
    return paths


@pytest.fixture(scope="module")
def begun(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, loads: list[Path]) -> Path:
    """A state that has the first load."""
    state = tmp_path_factory.mktemp("begun") / "state"
    apply_load(spark, _request(state, loads, 0))
    return state


def _request(state: Path, loads: list[Path], number: int) -> dict[str, Any]:
    changes = {"path": str(loads[number])}
    return {"state": f"file://{state}", "load_id": f"load {number}", "changes": changes, "constraints": RULES}


def _second_request(folder: Path, begun: Path, loads: list[Path], **more: Any) -> str:
    """The request of the second load, on a copy of the state."""
    shutil.copytree(begun, folder / "state")
    (folder / "request.json").write_text(json.dumps(_request(folder / "state", loads, 1) | more))
    return str(folder / "request.json")


def _run(command: list[str], folder: Path, **environment: str) -> dict[str, Any]:
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_WORKER_DIR": f"{folder}/work", **environment}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def _submit(master: str, folder: Path, request: str, python: Path, job: str = "apply_load") -> dict[str, Any]:
    conf = [part for name, value in SPARK_SETTINGS.items() for part in ("--conf", f"{name}={value}")]
    spark_submit = str(Path(sys.executable).with_name("spark-submit"))
    engine = str(build_engine_zip(folder))
    command = [spark_submit, "--master", master, *conf, "--py-files", engine, application(job), "--request", request]
    variables = {"PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python), "PYTHONPATH": ""}
    return _run(command, folder, **variables)


def _connect(server: ConnectServer, folder: Path, request: str, job: str = "apply_load") -> dict[str, Any]:
    return _run(_connect_command(server, folder, request, job), folder)


def _connect_command(server: ConnectServer, folder: Path, request: str, job: str = "apply_load") -> list[str]:
    (folder / "connect.json").write_text(json.dumps({"remote": server.remote}))
    return [sys.executable, "-m", f"dc_engine.{job}", "--request", request, "--connect", str(folder / "connect.json")]


def _comparable(verdict: dict[str, Any]) -> dict[str, Any]:
    paths = ("violations", "violating_rows_listed")
    return verdict | {"seconds": 0, "constraints": [rule | dict.fromkeys(paths) for rule in verdict["constraints"]]}


@pytest.fixture(scope="module")
def expected(
    spark: SparkSession, begun: Path, tmp_path_factory: pytest.TempPathFactory, loads: list[Path]
) -> dict[str, Any]:
    """The verdict on the second load in the tests' own session."""
    state = tmp_path_factory.mktemp("expected") / "state"
    shutil.copytree(begun, state)
    verdict = _comparable(apply_load(spark, _request(state, loads, 1)).to_dict())
    assert all(rule["new_violations"] and rule["removed_violations"] for rule in verdict["constraints"])
    return verdict


class TestDeployments:
    def test_spark_submit_in_local_mode_prints_the_verdict_and_nothing_else(
        self, expected: dict[str, Any], begun: Path, tmp_path: Path, loads: list[Path], bare_python: Path
    ) -> None:
        request = _second_request(tmp_path, begun, loads)
        assert _comparable(_submit("local[2]", tmp_path, request, bare_python)) == expected

    @pytest.mark.parametrize("connects", [False, True], ids=["cluster", "connect"])
    def test_dcgate_brings_the_engine_along_also_to_executors_that_share_nothing_but_the_filesystem(
        self,
        expected: dict[str, Any],
        begun: Path,
        tmp_path: Path,
        loads: list[Path],
        bare_python: Path,
        connect_server: ConnectServer,
        connects: bool,
    ) -> None:
        request = _second_request(tmp_path, begun, loads)
        command = [sys.executable, "-m", "dc_engine.cli", "apply", "--request", request, "--engine", "spark", "--json"]
        place = ["--master", "local-cluster[2,1,1024]"]
        for name in ("spark.driver.bindAddress", "spark.executor.extraJavaOptions"):
            place += ["--conf", f"{name}={SPARK_SETTINGS[name]}"]
        environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_WORKER_DIR": f"{tmp_path}/work"}
        done = subprocess.run(
            [*command, *(["--remote", connect_server.remote] if connects else place)],
            capture_output=True,
            text=True,
            env={**environment, "PYSPARK_PYTHON": str(bare_python), "PYTHONPATH": ""},
            cwd=tmp_path,
            timeout=300,
        )
        assert done.returncode == 1, done.stderr[-3000:]
        assert connect_server.token not in done.stderr
        verdict = _comparable(json.loads(done.stdout))
        for other, rule in zip(verdict["constraints"], expected["constraints"], strict=True):
            assert other | {"samples": 0} == rule | {"samples": 0}, "examples depend on how work is cut"

    @pytest.mark.parametrize("engine", ["auto", "spark"])
    def test_a_spark_connect_server_gives_the_same_verdict(
        self,
        expected: dict[str, Any],
        begun: Path,
        tmp_path: Path,
        loads: list[Path],
        connect_server: ConnectServer,
        engine: str,
    ) -> None:
        request = _second_request(tmp_path, begun, loads, engine=engine)
        assert _comparable(_connect(connect_server, tmp_path, request)) == expected

    def test_the_same_error_comes_from_a_spark_connect_server(
        self, tmp_path: Path, loads: list[Path], connect_server: ConnectServer
    ) -> None:
        missing = {"changes": {"path": "/no/such/load"}}
        (tmp_path / "request.json").write_text(json.dumps(_request(tmp_path / "state", loads, 0) | missing))
        command = _connect_command(connect_server, tmp_path, f"{tmp_path}/request.json")
        done = subprocess.run([*command, "--result", str(tmp_path / "result.json")], timeout=300)
        error = json.loads((tmp_path / "result.json").read_text())["error"]
        assert (done.returncode, error["type"]) == (1, "ChangesError")
        assert "/no/such/load" in error["message"]
        assert not (tmp_path / "state").exists()

    def test_chunks_for_several_tasks_in_one_place_give_the_same_verdict(
        self,
        spark: SparkSession,
        expected: dict[str, Any],
        begun: Path,
        tmp_path: Path,
        loads: list[Path],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Where Spark's hash is not what the engine takes it for, work is dealt unevenly, and nothing else."""
        dealt_to = Mock(side_effect=lambda tasks: (0,) * tasks)
        monkeypatch.setattr(dealing, "keys_of", dealt_to)
        shutil.copytree(begun, tmp_path / "state")
        request = _request(tmp_path / "state", loads, 1) | {"engine": "spark"}
        with other_sizes(unit_rows=10, probe_rows=20, report_rows=20, report_range=10):
            verdict = _comparable(apply_load(spark, request).to_dict())
        for other, rule in zip(verdict["constraints"], expected["constraints"], strict=True):
            assert other | {"samples": 0} == rule | {"samples": 0}, "examples depend on how work is cut"
        assert verdict | {"constraints": 0} == expected | {"constraints": 0}
        assert max(call.args[0] for call in dealt_to.call_args_list) > 1

    def test_tasks_whose_workers_are_killed_are_tried_again_and_duplicate_nothing(
        self, expected: dict[str, Any], begun: Path, tmp_path: Path, loads: list[Path]
    ) -> None:
        request = _second_request(tmp_path, begun, loads)
        verdict = _run([sys.executable, "-c", KILLED_WORKERS, request], tmp_path, PYSPARK_PYTHON=sys.executable)
        assert _comparable(verdict) == expected
        state = {"state": str(tmp_path / "state")}
        assert maintain(pytest.fail, "verify", state)["sound"]
        assert maintain(pytest.fail, "vacuum", {**state, "grace_hours": 0})["removed_files"]  # of the first tries

    def test_a_failure_leaves_an_error_document_that_says_what_happened(
        self, tmp_path: Path, loads: list[Path], bare_python: Path
    ) -> None:
        request = tmp_path / "request.json"
        missing = {"changes": {"path": "/no/such/load"}}
        request.write_text(json.dumps(_request(tmp_path / "state", loads, 0) | missing))
        command = [str(Path(sys.executable).with_name("spark-submit")), "--master", "local[1]"]
        command += ["--py-files", str(build_engine_zip(tmp_path)), application()]
        done = subprocess.run(
            [*command, "--request", str(request), "--result", str(tmp_path / "result.json")],
            capture_output=True,
            text=True,
            env={**os.environ, "PYSPARK_PYTHON": str(bare_python), "PYSPARK_DRIVER_PYTHON": str(bare_python)},
            timeout=300,
        )
        assert done.returncode == 1
        assert done.stdout == ""
        error = json.loads((tmp_path / "result.json").read_text())["error"]
        assert error["type"] == "ChangesError"
        assert "/no/such/load" in error["message"]
        assert not (tmp_path / "state").exists()


def _discovery(state: Path, loads: list[Path]) -> dict[str, Any]:
    return {"state": f"file://{state}", "table": {"path": str(loads[0])}, "constraints": RULES, "engine": "spark"}


@pytest.fixture(scope="module")
def found(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, loads: list[Path]) -> list[Any]:
    """The dependencies of the first load in the tests' own session."""
    answer = discover(spark, _discovery(tmp_path_factory.mktemp("found") / "state", loads))
    assert {one["class"] for one in answer["dependencies"]} == {"unique", "fd", "dc"}
    return answer["dependencies"]


class TestDiscovery:
    """A table becomes the first load of a new state, and its dependencies are found, wherever Spark runs."""

    def request(self, folder: Path, loads: list[Path]) -> str:
        (folder / "request.json").write_text(json.dumps(_discovery(folder / "state", loads)))
        return str(folder / "request.json")

    def check(self, answer: dict[str, Any], found: list[Any], folder: Path) -> None:
        assert answer["dependencies"] == found
        assert read_dependencies(Storage(f"{folder}/state")) == found
        assert maintain(pytest.fail, "verify", {"state": f"{folder}/state"})["sound"]

    def test_on_executors_that_share_nothing_but_the_filesystem(
        self, found: list[Any], tmp_path: Path, loads: list[Path], bare_python: Path
    ) -> None:
        request = self.request(tmp_path, loads)
        answer = _submit("local-cluster[2,1,1024]", tmp_path, request, bare_python, "discover")
        self.check(answer, found, tmp_path)

    def test_spark_connect(
        self, found: list[Any], tmp_path: Path, loads: list[Path], connect_server: ConnectServer
    ) -> None:
        answer = _connect(connect_server, tmp_path, self.request(tmp_path, loads), "discover")
        self.check(answer, found, tmp_path)
