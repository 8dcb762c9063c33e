"""Every benchmark runs to its end and gives its lines: with few rows, and mostly in this process.

What they measure here says nothing; what they check (counts, sets) holds for few rows too.
"""

from __future__ import annotations

import importlib
import json
import runpy
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

import benchmarks
from benchmarks import bounds, discovery_tasks, gate, history, large, orders, pages, peers, sampled, scale, submit
from benchmarks.checkpoints import checkpoints
from benchmarks.discovery import discoveries
from benchmarks.discovery_kernels import discovery_kernels
from benchmarks.lines import Line
from benchmarks.long_history import long_history
from dags_examples.tax_data import tax_table
from dc_engine.apply_load import apply_load
from dc_engine.discover import discover
from dc_engine.shipping import build_engine_zip
from tests import inprocess
from tests.end_to_end.submitted import Files
from tests.inprocess import Session

pytestmark = pytest.mark.xdist_group("spark")

SEED = 7


class Here(Files):
    """A session without Spark, for jobs that read files; it takes the hashes of one process, which are its own."""

    stage = Session.stage

    def stop(self) -> None:
        """There is nothing to stop."""


def submit_here(folder: Path, job: str, *arguments: str, **more: Any) -> submit.Finished:
    """Run the job that would be submitted."""
    name = Path(job).stem
    if name == "sampled":
        seen, name, *arguments = arguments
        with sampled.Watched() as watched:
            submit_here(folder, name, *arguments)
        assert set(watched.seconds) <= {*sampled.PARTS, "imports", "session", "Spark", "waiting", "other"}
        now = time.time()
        told = {"born": now, "begun": now, "ended": now, "seconds": watched.seconds}
        Path(seen).write_text(json.dumps(told))
    elif name != "empty_job":
        given = dict(zip(arguments[::2], arguments[1::2], strict=True))
        request = json.loads(Path(given["--request"]).read_text())
        done: Any = {"apply_load": apply_load, "discover": discover}[name](Here(), request)
        Path(given["--result"]).write_text(json.dumps(done if isinstance(done, dict) else done.to_dict()))
    return submit.Finished(1.0, 2**20, {"driver": 1.0})


def run_here(command: Sequence[Any], **options: Any) -> Any:
    """What ``subprocess.run`` does with ``python -c SCRIPT ...`` and ``python -m MODULE ...``."""
    _, kind, what, *rest = map(str, command)
    before, sys.argv, said = sys.argv, [what, *rest], StringIO()
    try:
        with redirect_stdout(said):
            if kind == "-c":
                exec(compile(what, "<script>", "exec"), {"__name__": "__main__"})
            else:
                runpy.run_module(what, run_name="__main__")
    except SystemExit as ended:
        if ended.code:
            raise
    finally:
        sys.argv = before
    return SimpleNamespace(stdout=said.getvalue())


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is started that takes long."""
    for module in (gate, submit):
        monkeypatch.setattr(module, "submit", submit_here)
    monkeypatch.setattr(peers, "session", Here)
    monkeypatch.setattr(inprocess, "ARROW_TYPES", {one.name: one.type for one in tax_table(1).schema})
    for name in ("checkpoints", "import_cost", "long_history"):
        module = importlib.import_module(f"benchmarks.{name}")
        monkeypatch.setattr(module, "subprocess", SimpleNamespace(run=run_here))
    for module in (gate, history, scale):
        monkeypatch.setattr(module, "LOAD_ROWS", 20)
    as_csv = gate._as_csv  # without Spark types would be guessed
    monkeypatch.setattr(gate, "_as_csv", lambda load: {"path": as_csv(load)["path"].replace(".csv", ".parquet")})
    monkeypatch.setattr(large, "_LOAD", 20)
    monkeypatch.setattr(orders, "_COLD", 2)
    monkeypatch.setattr(orders, "_SEARCHES", 3)
    monkeypatch.setattr(orders, "_GATED", orders._GATED[:1])


@pytest.fixture(autouse=True)
def another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Desbordante, which is not installed, finds nothing: what is ours is run beside it all the same."""
    monkeypatch.setitem(sys.modules, "desbordante", module_from_spec(ModuleSpec("desbordante", None)))
    monkeypatch.setattr(peers, "_theirs", lambda *_, **__: peers._Search(1.0, set()))
    monkeypatch.setattr(orders, "_fastod", lambda _: (set(), 1.0, 1.0))


@pytest.fixture
def on_spark(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """The tests' own session, which a benchmark takes for its own."""
    for module in (bounds, discovery_tasks, gate, orders, scale):
        monkeypatch.setattr(module, "session", lambda: spark)
    monkeypatch.setattr(SparkSession, "stop", lambda self: None)
    return spark


def check_limits(folder: Path) -> list[Line]:
    return bounds.bounds(folder, folder / "engine.zip", SEED, 0.002)


def check_gate(folder: Path) -> list[Line]:
    table, engine = gate.Table(folder, 400), folder / "engine.zip"
    lines = gate.first_load(table, engine) + gate.cold(table, engine, 1)
    return lines + gate.warm(table, 1) + gate.parsing(folder, 1)


def check_history(folder: Path) -> list[Line]:
    table = gate.Table(folder, 400)
    submit.submit_request(folder, table.request(table.first()), folder / "engine.zip")
    run = history.History(Here(), folder, table.state, gate.RULES, table.files[0], SEED)  # type: ignore[arg-type]
    return history.history(run, 1, 1)


BENCHMARKS: dict[str, Callable[[Path], list[Line]]] = {
    "bounds": check_limits,
    "checkpoints": lambda folder: checkpoints(folder, 1, 1),
    "discovery": lambda folder: discoveries(SEED, 0.003),
    "discovery_kernels": lambda folder: discovery_kernels(SEED, 0.002),
    "discovery_tasks": lambda folder: discovery_tasks.discovery_tasks(SEED, 0.01, 1),
    "gate": check_gate,
    "history": check_history,
    "large": lambda folder: large.large(folder, build_engine_zip(folder), 500),
    "long_history": lambda folder: long_history(folder, SEED, 12, few=4),
    "orders": lambda folder: orders.orders(SEED, 0.01),
    "pages": lambda folder: pages.review_pages(folder, SEED, 0.01),
    "peers": lambda folder: peers.beside_peers(SEED, 0.02),
    "scale": lambda folder: scale.scale(folder, folder / "engine.zip", 2_000, 1),
}
HELPERS = {"__init__", "__main__", "census", "empty_job", "import_cost", "joins", "lines"} | {
    "sampled",
    "scaled",
    "server",
    "submit",
}
"""What the others use, or what starts them."""


def test_all_benchmarks_are_run_here():
    modules = {path.stem for path in Path(benchmarks.__file__).parent.glob("*.py")}
    assert modules == set(BENCHMARKS) | HELPERS


@pytest.mark.parametrize("name", BENCHMARKS)
@pytest.mark.usefixtures("on_spark")
def test_a_benchmark_gives_its_lines(name, tmp_path, capsys):
    lines = BENCHMARKS[name](tmp_path)
    assert all(isinstance(one, Line) and one.what and one.result for one in lines)
    assert lines
    capsys.readouterr()
