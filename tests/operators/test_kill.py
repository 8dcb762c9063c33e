"""After a kill nothing disturbs the next try: real processes, signals and timeouts."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from airflow_dc_provider.exceptions import DcGateError
from dc_engine.state.storage import Storage
from dc_engine.stored import read_verdict
from tests.operators.test_asking import answer, broken_load

# A driver that outlives its parent and ignores requests to end; once it has said who it is, all are there.
TREE = """#!/bin/sh
here=$(dirname "$0")
echo $$ >> $here/pids
setsid sh -c 'trap "" TERM INT HUP; sleep 600 & echo $$ $! >> '$here'/pids; touch '$here'/started; wait' &
wait
"""


class Tree:
    """The fake spark-submit with its children."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "spark-submit").write_text(TREE)

    def wait_until_started(self) -> None:
        deadline = time.monotonic() + 300
        while not (self.folder / "started").exists() and time.monotonic() < deadline:
            time.sleep(0.02)

    @property
    def pids(self) -> list[int]:
        path = self.folder / "pids"
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def alive(self) -> list[int]:
        """Those that run; one that was killed a moment ago may take another to go."""
        end = time.monotonic() + 30
        while (
            left := [pid for pid in self.pids if psutil.pid_exists(pid) and running(pid)]
        ) and time.monotonic() < end:
            time.sleep(0.02)
        return left


def running(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


@pytest.fixture
def tree(fake_spark: Any) -> Iterator[Tree]:
    tree = Tree(fake_spark.folder)
    yield tree
    for pid in tree.alive():
        os.kill(pid, signal.SIGKILL)


@pytest.fixture
def sigterm(tree: Tree) -> Iterator[Any]:
    """Calls on_kill on SIGTERM as Airflow's task runner does, and sends one once the tree is there."""
    before = signal.getsignal(signal.SIGTERM)

    def arm(operator: Any) -> None:
        signal.signal(signal.SIGTERM, lambda *_: operator.on_kill())
        send_once_started(tree, signal.SIGTERM)

    yield arm
    signal.signal(signal.SIGTERM, before)


def send_once_started(tree: Tree, number: signal.Signals) -> None:
    """A signal to this process, once the tree is there."""

    def send() -> None:
        tree.wait_until_started()
        os.kill(os.getpid(), number)

    threading.Thread(target=send, daemon=True).start()


def leftovers(state: Path) -> list[Path]:
    return list((state / "runs").glob("*"))


def test_a_kill_ends_the_whole_tree_and_removes_the_exchange(gate, tree, ti, state, sigterm):
    operator = gate()
    sigterm(operator)
    with pytest.raises(DcGateError, match="The task was killed"):
        operator.execute({"ti": ti})
    assert len(tree.pids) == 3
    assert tree.alive() == []
    assert leftovers(state) == []
    assert list(ti.pushed) == ["dc_state"]


def test_a_kill_removes_the_credentials(gate, tree, ti, sigterm, monkeypatch, tmp_path):
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", '{"conn_type": "generic", "extra": {"storage_options": {"mine": "x"}}}')
    operator = gate(state_conn_id="lake")
    kill, left = operator.on_kill, []

    def kill_and_look() -> None:
        path = operator._credentials
        assert path.exists()
        kill()
        left.append(path.exists())

    monkeypatch.setattr(operator, "on_kill", kill_and_look)
    sigterm(operator)
    with pytest.raises(DcGateError, match="The task was killed"):
        operator.execute({"ti": ti})
    assert left == [False], "at once, not only when the task ends"
    assert not operator._credentials.parent.exists()


def test_the_next_try_is_as_if_nothing_had_been(gate, tree, fake_spark, ti, state, sigterm, passing):
    operator = gate()
    sigterm(operator)
    with pytest.raises(DcGateError):
        operator.execute({"ti": ti})
    again = type(fake_spark)(fake_spark.folder)
    again.answers(passing)
    assert gate().execute({"ti": ti})["decision"] == "pass"


def test_a_timeout_ends_the_tree_before_the_exchange_goes(gate, tree, ti, state):
    from airflow.sdk.exceptions import AirflowTaskTimeout
    from airflow.sdk.execution_time.task_runner import _run_execute_callable

    operator = gate(execution_timeout=timedelta(minutes=10))
    send_once_started(tree, signal.SIGALRM)  # the alarm that Airflow has set comes sooner
    with pytest.raises(AirflowTaskTimeout):
        _run_execute_callable({"ti": ti}, operator.execute, operator)
    assert tree.pids
    assert tree.alive() == []
    assert leftovers(state) == []


def test_a_kill_while_an_approved_load_is_applied_leaves_it_discarded_and_undecided(
    gate, tree, ti, state, rules, sigterm
):
    asked = broken_load(state, rules, rejected_load="discard")
    assert asked.discarded
    operator, ti.try_number = gate(on_violation="ask", rejected_load="discard"), 1
    sigterm(operator)
    with pytest.raises(DcGateError, match="The task was killed"):
        operator.after_answer({"ti": ti}, answer(snapshot=asked.snapshot), asked.load_id, asked.snapshot)
    assert len(tree.pids) == 3
    assert tree.alive() == []
    assert leftovers(state) == []
    left = read_verdict(Storage(str(state)), asked.load_id)
    assert (left.discarded, left.decided, left.snapshot) == (True, None, asked.snapshot)


def test_a_kill_before_spark_starts_keeps_it_from_starting(gate, tree, ti, state, monkeypatch):
    operator = gate()
    prepare = operator._prepare_spark
    monkeypatch.setattr(operator, "_prepare_spark", lambda connection: (prepare(connection), operator.on_kill()))
    with pytest.raises(DcGateError, match="The task was killed"):
        operator.execute({"ti": ti})
    assert not (tree.folder / "started").exists()
    assert leftovers(state) == []


def test_a_kill_of_a_task_that_never_ran_does_nothing(gate):
    gate().on_kill()


def test_the_tree_goes_even_when_the_cluster_cannot_be_told(gate, tree, ti, state, sigterm, monkeypatch):
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

    def refuse(hook: Any) -> None:
        raise RuntimeError("The cluster does not answer.")

    monkeypatch.setattr(SparkSubmitHook, "on_kill", refuse)
    operator = gate()
    sigterm(operator)
    with pytest.raises(DcGateError, match="The task was killed"):
        operator.execute({"ti": ti})
    assert tree.alive() == []
    assert leftovers(state) == []
