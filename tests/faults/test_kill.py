"""A process that dies at any moment leaves the state as it was, or as it was to be; running it again mends all."""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from dc_engine.apply_load import apply_load
from dc_engine.shipping import application, build_engine_zip
from dc_engine.state.snapshots import snapshot_numbers
from tests.conftest import SPARK_SETTINGS
from tests.faults.states import Child, Gate, changes, feed, history, made_rows, named_by, plain, start, totals, updated
from tests.jobs.histories import Given, play

SEED = 7


@dataclass
class Case:
    """Something to do on a state that has some loads, and what the loads are then."""

    gate: Gate
    base: Path
    work: Callable[[], Any]
    before: list[Given]
    after: list[Given]
    moments: int
    once: bool = False
    """Whether it has nothing to do the second time."""

    def restore(self) -> None:
        shutil.rmtree(self.gate.state, ignore_errors=True)
        shutil.copytree(self.base, self.gate.state)

    @property
    def snapshots(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in Path(self.gate.state, "snapshots").glob("*.json")}


MOMENTS = {"load": 24, "load without key": 9, "replaced load": 9, "retract": 9, "compact": 9, "vacuum": 9}


@pytest.fixture
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    return make_case(request.param, tmp_path)


def make_case(name: str, folder: Path) -> Case:
    chance = random.Random(SEED)
    gate = Gate(str(folder / "state"), key=None if name == "load without key" else "id")
    before = history(chance)
    for one in before:
        gate.apply(one)
    if name == "vacuum":
        gate.maintain("compact")
        gate.maintain("retract", load_id=before.pop(1).load_id)
    there, _ = play(before, gate.key)
    gone = chance.sample(there, 4)
    new = changes("new", [*made_rows(chance, 9000, 12), updated(gone[0], chance)], gone)
    other = replace(before[1], inserts=made_rows(chance, 1500, 12))
    work: dict[str, tuple[Callable[[], Any], list[Given]]] = {
        "replaced load": (lambda: gate.apply(other), [before[0], other, *before[2:]]),
        "retract": (lambda: gate.maintain("retract", load_id=before[1].load_id), [before[0], *before[2:]]),
        "compact": (lambda: gate.maintain("compact"), before),
        "vacuum": (lambda: gate.maintain("vacuum", keep_snapshots=1, grace_hours=0), before),
    }
    act, after = work.get(name, (lambda: gate.apply(new), [*before, new]))
    shutil.copytree(gate.state, folder / "base")
    return Case(gate, folder / "base", act, before, after, MOMENTS[name], once=name == "retract")


@contextmanager
def told(what: str) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        error.add_note(what)
        raise


def _number(name: str) -> int:
    return int(name.removesuffix(".json"))


def check_after_death(case: Case, snapshots: dict[str, bytes], expected: dict[str, Any], *, sums: list[Any]) -> bool:
    """What must be so after a death at any moment, and after the same was asked for again; whether it was committed."""
    gate, storage = case.gate, case.gate.storage
    found = case.snapshots
    new = found.keys() - snapshots.keys()
    assert len(new) <= 1
    assert all(found[name] == snapshots[name] for name in found.keys() - new)
    if not new:
        assert found == snapshots
    present = {file.path for file in storage.files()}
    for number in snapshot_numbers(storage):
        assert named_by(storage, number) <= present
    gate.check(case.after if new else case.before, sums[bool(new)])
    if new and case.once:
        again = case.work()
        assert (again["total_violations"], again["snapshot"]) == (expected["total_violations"], max(map(_number, new)))
    elif "removed_files" in expected:
        case.work()
    else:
        again = plain(case.work())
        same = set(expected) - ({"snapshot", "files_before", "text"} if "files_before" in expected else set())
        assert {name: again[name] for name in same} == {name: expected[name] for name in same}
    gate.check_clean()
    gate.check(case.after, sums[1])
    return bool(new)


def undisturbed(case: Case) -> tuple[float, dict[str, Any]]:
    """How long it takes, and what comes out."""
    seconds, results = [], []
    for _ in range(3):
        case.restore()
        begun = time.monotonic()
        results.append(plain(start(case.work).result()))
        seconds.append(time.monotonic() - begun)
    assert results[0] == results[1] == results[2]
    return statistics.median(seconds), results[0]


@pytest.mark.parametrize("case", MOMENTS, indirect=True)
def test_a_process_killed_at_any_moment_leaves_the_old_state_or_the_new_one(
    case: Case, record_property: Callable[[str, object], None]
) -> None:
    duration, expected = undisturbed(case)
    case.restore()
    snapshots, chance = case.snapshots, random.Random(SEED)
    sums = [totals(play(loads, case.gate.key)[0]) for loads in (case.before, case.after)]
    committed = 0
    for turn in range(case.moments):
        case.restore()
        child = start(case.work)
        if turn % 8 == 7:
            moment = "just after the commit"
            _wait_for_commit(case, child)
        else:
            seconds = 1.1 * duration * (turn + chance.random()) / case.moments
            moment = f"after {seconds:.4f} s of {duration:.4f}"
            time.sleep(seconds)
        child.process.kill()
        child.result()
        with told(f"killed {moment}, seed {SEED}, turn {turn}"):
            committed += check_after_death(case, snapshots, expected, sums=sums)
    record_property("killed before and after commit", (case.moments - committed, committed))
    assert 0 < committed < case.moments


def _wait_for_commit(case: Case, child: Child) -> None:
    folder = Path(case.gate.state, "snapshots")
    newest = folder / f"{max(int(path.stem) for path in folder.glob('*.json')) + 1:020d}.json"
    while child.process.is_alive() and not newest.exists():
        time.sleep(0.0005)


def dies(case: Case, at: str, how: signal.Signals) -> Callable[[], Any]:
    """The work, in a process that gets a signal at an operation of its commit."""

    def work() -> Any:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        linked = False

        def hook(event: str, given: tuple[Any, ...]) -> None:
            nonlocal linked
            moment = {"os.link": "link", "open": "sync", "os.remove": "unlink"}.get(event)
            linked |= moment == "link"
            if linked and at == moment:
                linked = False
                os.kill(os.getpid(), how)

        sys.addaudithook(hook)
        with suppress(KeyboardInterrupt):
            return case.work()

    return work


@pytest.mark.parametrize("case", ["load", "retract", "compact"], indirect=True)
def test_a_process_that_ends_in_the_midst_of_its_commit_leaves_the_old_state_or_the_new_one(case: Case) -> None:
    snapshots = case.snapshots
    expected = plain(start(case.work).result())
    sums = [totals(play(loads, case.gate.key)[0]) for loads in (case.before, case.after)]
    for at, how in itertools.product(("link", "sync", "unlink"), (signal.SIGKILL, signal.SIGINT)):
        case.restore()
        start(dies(case, at, how)).result()
        with told(f"{how.name} at {at}"):
            assert check_after_death(case, snapshots, expected, sums=sums) == (at != "link")


@pytest.mark.xdist_group("submit")
def test_a_submitted_load_whose_processes_are_all_killed_can_be_submitted_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    gate, twin = Gate(str(tmp_path / "state")), Gate(str(tmp_path / "twin"))
    loads = history(random.Random(SEED), loads=2)
    gate.apply(loads[0])
    shutil.copytree(gate.state, twin.state)
    expected = plain(twin.apply(loads[1]))
    snapshots = snapshot_numbers(gate.storage)
    pq.write_table(feed(loads[1]), tmp_path / "load.parquet")
    request = gate.request(loads[1]) | {"changes": {"path": str(tmp_path / "load.parquet")}}
    (tmp_path / "request.json").write_text(json.dumps(request))
    for folder in ("rows", "index"):  # while it reads the load, and while it checks it
        before = shutil.copytree(gate.state, tmp_path / folder)
        for _ in range(5):
            kill_at_first_file(submission(tmp_path), Path(gate.state, folder))
            if snapshot_numbers(gate.storage) == snapshots:
                break
            shutil.rmtree(gate.state)  # on a busy machine it has done all before it is killed
            shutil.copytree(before, gate.state)
        assert snapshot_numbers(gate.storage) == snapshots
        gate.check(loads[:1])
    verdict = apply_load(spark, request).to_dict()  # in a session that is there, sooner than another submission
    assert plain(json.loads(json.dumps(verdict).replace(gate.state, twin.state))) == expected
    gate.check_clean()
    gate.check(loads)


def kill_at_first_file(command: list[str], folder: Path) -> None:
    """Run a command until it has written a file to a folder, and kill it with all that it started."""
    count = len(list(folder.rglob("*.parquet")))
    variables = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "TMPDIR": str(folder.parent),
    }
    nothing = subprocess.DEVNULL
    process = subprocess.Popen(
        command, env=variables, start_new_session=True, stdin=nothing, stdout=nothing, stderr=nothing
    )
    try:
        limit = time.monotonic() + 120
        while len(list(folder.rglob("*.parquet"))) == count:
            assert process.poll() is None, "it ended before it was killed"
            assert time.monotonic() < limit, "it hangs"
            time.sleep(0.0005)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # at once: what is left to do takes few milliseconds
        kill_session(process.pid)
        process.wait(30)


def submission(folder: Path) -> list[str]:
    java = (
        f"{SPARK_SETTINGS['spark.driver.extraJavaOptions']} -Djava.io.tmpdir={folder}"  # who is killed does not tidy up
    )
    settings = SPARK_SETTINGS | {"spark.driver.extraJavaOptions": java, "spark.local.dir": str(folder)}
    conf = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    engine = str(build_engine_zip(folder))
    command = [str(Path(sys.executable).with_name("spark-submit")), "--master", "local[1]", *conf]
    return [*command, "--py-files", engine, application(), "--request", str(folder / "request.json")]


def kill_session(leader: int) -> None:
    """Kill a process and all that it started, at once; Spark's Python workers are in a process group of their own."""
    for _ in range(3):
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError, IndexError):
                    session = int((entry / "stat").read_text().rpartition(")")[2].split()[3])
                    if session == leader:
                        os.kill(int(entry.name), signal.SIGKILL)
