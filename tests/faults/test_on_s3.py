"""A state on S3 goes through everything that one on a disk does, with the same outcome, and keeps its key to itself."""

from __future__ import annotations

import json
import logging
import random
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from dc_engine.apply_load import apply_load
from dc_engine.engines.base import Tasks
from dc_engine.errors import ConflictError, StateError
from dc_engine.maintain import maintain
from dc_engine.state.storage import Storage
from dc_engine.verdict import Verdict
from tests.faults.states import RULES, Gate, at_once, changes, feed, history, made_rows, plain
from tests.inprocess import Session
from tests.s3 import S3Server, s3_server

SEED = 17


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture
def secretive(s3: S3Server, caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[Storage], None]]:
    """Whatever is done, no secret is in a log record; and a check that none is in a file of a state."""
    caplog.set_level(logging.DEBUG, "airflow_dc_provider")
    caplog.set_level(logging.DEBUG, "dc_engine")

    def check(storage: Storage) -> None:
        files = storage.files()
        assert files
        for file in files:
            content = storage.read(file.path)
            assert s3.secret.encode() not in content
            assert s3.key.encode() not in content

    yield check
    assert s3.secret not in caplog.text
    assert s3.key not in caplog.text


def on(s3: S3Server) -> Gate:
    return Gate(s3.uri(), options=s3.options, constraints=RULES[:1])


def told(s3: S3Server, error: BaseException) -> str:
    """What people see of an error, which is no secret."""
    text = "".join(traceback.format_exception(error)) + repr(error)
    assert s3.secret not in text
    assert s3.key not in text
    return text


def same(result: Verdict | dict[str, Any], gate: Gate) -> dict[str, Any]:
    """A result without the place of its state, and what the time of day adds to it."""
    facts = result.to_dict() if isinstance(result, Verdict) else result
    found = plain(json.loads(json.dumps(facts).replace(gate.state, "STATE")))
    return {
        name: one
        for name, one in found.items()
        if name not in ("created_at", "text", "files", "bytes", "removed_bytes")
    }


class Overtaken(Session):
    """A session that lets another writer commit before its steps begin."""

    def __init__(self, rival: Callable[[], Any]) -> None:
        super().__init__()
        self._rival = rival

    def tasks(self, rows: int, size: int) -> Tasks:
        self._rival()
        return super().tasks(rows, size)


class TestWithoutSpark:
    def test_everything_has_the_outcome_that_it_has_on_a_disk(
        self, s3: S3Server, tmp_path: Path, secretive: Callable[[Storage], None]
    ) -> None:
        loads = history(random.Random(SEED), rows=6)
        bad = changes("bad", [{**row, "city": "elsewhere"} for row in made_rows(random.Random(SEED), 7000, 4)], [])
        mended = replace(loads[1], inserts=loads[1].inserts[:4])
        gates = [on(s3), Gate(str(tmp_path / "state"), constraints=RULES[:1])]
        outcomes: list[list[Any]] = [[], []]
        for gate, found in zip(gates, outcomes, strict=True):
            found += [same(gate.apply(one), gate) for one in loads]
            again = gate.apply(loads[2])
            assert again.replayed
            found += [same(again, gate), same(gate.apply(mended), gate)]
            discarded = gate.apply(bad, rejected_load="discard")
            assert discarded.discarded
            found.append(same(discarded, gate))
            for action, more in (
                ("retract", {"load_id": loads[0].load_id}),
                ("compact", {}),
                ("verify", {}),
                ("vacuum", {"keep_snapshots": 1, "grace_hours": 0}),
                ("describe", {}),
            ):
                found.append(same(gate.maintain(action, **more), gate))
            gate.check([mended, loads[2]])
        assert outcomes[0] == outcomes[1]
        secretive(gates[0].storage)
        gates[0].check_clean()

    def test_of_several_processes_at_once_each_has_its_way(
        self, s3: S3Server, secretive: Callable[[Storage], None]
    ) -> None:
        gate = on(s3)
        loads = history(random.Random(SEED), loads=2, rows=6)
        gate.apply(loads[0])
        results = at_once(
            [
                lambda: gate.apply(loads[1]),
                lambda: gate.apply(loads[1]),
                lambda: gate.maintain("vacuum", keep_snapshots=1, grace_hours=0),
            ]
        )
        for one in results:
            assert isinstance(one, Verdict | dict | ConflictError), repr(one)
        verdicts = [one for one in results if isinstance(one, Verdict)]
        assert len(verdicts) == 2
        assert [one.replayed for one in verdicts].count(True) == 1
        assert plain(verdicts[0]) == plain(verdicts[1])
        gate.check(loads[:2])
        secretive(gate.storage)
        gate.check_clean()

    def test_a_conflict_names_the_winner_and_no_secret(self, s3: S3Server) -> None:
        gate = on(s3)
        loads = history(random.Random(SEED), loads=2, rows=6)
        for load in loads:
            gate.apply(load)
        rival = replace(gate)
        gate.session = Overtaken(lambda: rival.apply(changes("rival", made_rows(random.Random(1), 10_000, 1), [])))
        with pytest.raises(ConflictError, match=r"was not committed: load 'rival' was committed") as caught:
            gate.maintain("retract", load_id=loads[0].load_id, max_wait_seconds=0)
        told(s3, caught.value)

    def test_no_error_tells_a_secret(self, s3: S3Server) -> None:
        (load,) = history(random.Random(SEED), loads=1)
        gate = on(s3)
        gate.apply(load)
        file = gate.current.files[0]
        content = gate.storage.read(file.path)
        wrong = [
            {**s3.options, "key": "KEY-of-nobody"},
            {**s3.options, "endpoint_url": "http://127.0.0.1:9", "config_kwargs": {"retries": {"max_attempts": 1}}},
        ]
        for options in wrong:
            with pytest.raises(StateError) as caught:
                replace(gate, options=options).apply(load)
            assert "KEY-of-nobody" not in told(s3, caught.value)
        with pytest.raises(StateError) as caught:
            replace(gate, state="s3://no-such-bucket/state").apply(load)
        told(s3, caught.value)
        gate.storage.write(file.path, content[:-1])
        checked = gate.maintain("verify")
        assert [file.path in problem for problem in checked["problems"]] == [True]
        gate.storage.remove(file.path)
        with pytest.raises(StateError) as caught:
            gate.apply(changes("new", [], load.inserts[:1]) if file.kind == "index" else look_up(load.inserts[0]))
        assert file.path in told(s3, caught.value)


def look_up(row: dict[str, Any]) -> Any:
    """A delete that gives another row of the same key, so that the values have to be looked up."""
    return changes("new", [], [{**row, "pay": -1.0}])


@pytest.mark.xdist_group("spark")
def test_on_spark_the_verdicts_are_those_of_a_state_on_a_disk(
    spark: SparkSession, s3: S3Server, tmp_path: Path, secretive: Callable[[Storage], None]
) -> None:
    loads = history(random.Random(SEED), loads=2)
    gates = [on(s3), Gate(str(tmp_path / "state"), constraints=RULES[:1])]
    outcomes: list[list[Any]] = [[], []]
    for load in loads:
        pq.write_table(feed(load), tmp_path / f"{load.load_id}.parquet")
    for gate, found in zip(gates, outcomes, strict=True):
        for load in loads:
            request = gate.request(load) | {"changes": {"path": str(tmp_path / f"{load.load_id}.parquet")}}
            found.append(same(apply_load(spark, request, storage_options=gate.options), gate))
        checked = maintain(spark, "verify", {"state": gate.state}, storage_options=gate.options)
        assert checked["sound"], checked["problems"]
    assert outcomes[0] == outcomes[1]
    secretive(gates[0].storage)
    gates[0].check(loads)
