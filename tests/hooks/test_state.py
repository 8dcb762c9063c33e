"""What people's own tasks read of a state: verdicts, violations, dependencies, history."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_dc_provider.exceptions import DcGateError
from airflow_dc_provider.hooks.state import DcStateHook
from dc_engine.discover import discover
from dc_engine.state.loads import Load, Loads
from dc_engine.state.snapshots import Snapshot, commit
from dc_engine.state.storage import Storage
from tests.faults.states import Gate, history
from tests.s3 import s3_server

LOADS = history(random.Random(7), loads=4, rows=30)


@pytest.fixture(scope="module")
def gate(tmp_path_factory) -> Gate:
    """A state of four loads, the last of which masks a column that the others do not."""
    made = Gate(str(tmp_path_factory.mktemp("hook") / "people"))
    for given_load in LOADS[:-1]:
        made.apply(given_load)
    made.apply(LOADS[-1], mask=["city"])
    return made


@pytest.fixture
def hook(gate) -> DcStateHook:
    return DcStateHook(gate.state)


def everything(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for one in value.values():
            yield from everything(one)
    elif isinstance(value, list):
        for one in value:
            yield from everything(one)
    else:
        yield value


class TestVerdicts:
    def test_they_come_in_the_order_of_the_history_each_as_its_document(self, hook, gate):
        found = list(hook.verdicts())
        assert [one["load_id"] for one in found] == [one.load_id for one in LOADS]
        assert found[1] == hook.verdict("load 1")
        assert found[1]["decision"] == "fail"
        assert found[1]["constraints"][0]["samples"]

    def test_the_last_ones_alone(self, hook):
        assert [one["load_id"] for one in hook.verdicts(2)] == ["load 2", "load 3"]
        assert [one["load_id"] for one in hook.history(last=99)] == [one.load_id for one in LOADS]

    @pytest.mark.parametrize("as_", ["arrow", "pandas"])
    def test_as_a_table_each_is_a_line_of_counts(self, hook, as_):
        table = hook.verdicts(as_=as_)
        lines = table.to_pylist() if as_ == "arrow" else table.to_dict("records")
        for line, document in zip(lines, hook.verdicts(), strict=True):
            assert line["decision"] == document["decision"]
            assert line["total"] == document["rows"]["total"]
            assert line["new_violations"] == sum(one["new_violations"] for one in document["constraints"])
            assert sorted(line["broken"]) == sorted(one["name"] for one in document["constraints"] if not one["passed"])
            assert [one["total_violations"] for one in line["constraints"]] == [
                one["total_violations"] for one in document["constraints"]
            ]

    def test_what_the_newest_load_masks_is_masked_in_all(self, hook):
        shown = [
            side["values"]["city"]
            for verdict in hook.verdicts()
            for rule in verdict["constraints"]
            if rule["name"] == "city"
            for pair in rule["samples"]
            for side in pair.values()
        ]
        assert shown
        assert set(shown) == {"***"}

    def test_the_hook_can_mask_more(self, gate):
        documents = list(DcStateHook(gate.state, mask=["zip"]).verdicts())
        pairs = [pair for one in documents for rule in one["constraints"] for pair in rule["samples"]]
        values = {(name, value) for pair in pairs for side in pair.values() for name, value in side["values"].items()}
        assert {value for name, value in values if name == "zip"} == {"***"}
        assert {value for name, value in values if name == "age"} != {"***"}


class TestHistory:
    def test_it_says_of_each_load_what_it_did_and_where_its_verdict_is(self, hook, gate):
        rows = list(hook.history())
        assert [one["load_id"] for one in rows] == [one.load_id for one in LOADS]
        assert [one["inserted"] for one in rows] == [len(one.inserts) for one in LOADS]
        assert all(Path(one["verdict"]).is_file() for one in rows)
        assert hook.history(as_="arrow").to_pylist() == rows
        assert hook.history(as_="pandas")["load_id"].tolist() == [one.load_id for one in LOADS]


class TestViolations:
    @pytest.mark.parametrize("constraint", ["city", "order", "alone"])
    def test_they_stand_for_all_new_violations_of_the_verdict(self, hook, constraint):
        for load in LOADS:
            verdict = hook.verdict(load.load_id)
            (rule,) = [one for one in verdict["constraints"] if one["name"] == constraint]
            listed = list(hook.violations(load.load_id, constraint))
            assert sum(one["pairs"] for one in listed) == rule["new_violations"]
            assert hook.violations(load.load_id, constraint, as_="arrow").num_rows == len(listed)
            assert len(hook.violations(load.load_id, constraint, as_="pandas")) == len(listed)

    def test_what_is_masked_since_is_masked_in_older_files_too(self, hook):
        listed = list(hook.violations("load 1", "city"))
        assert listed
        assert {one[side]["city"] for one in listed for side in "ts"} == {"***"}
        assert {one[side]["zip"] for one in listed for side in "ts"} != {"***"}


class TestDependencies:
    def test_they_are_those_of_the_discovery(self, tmp_path):
        made = Gate(str(tmp_path / "people"))
        made.apply(LOADS[0])
        asked = {"state": made.state, "classes": ["fd", "unique"]}
        answer = discover(made.session, asked)
        hook = DcStateHook(made.state)
        assert list(hook.dependencies()) == answer["dependencies"]
        assert hook.dependencies(as_="arrow").column("text").to_pylist() == [
            one["text"] for one in answer["dependencies"]
        ]
        assert len(hook.dependencies("complete", as_="pandas")) >= len(answer["dependencies"])


class TestRefusals:
    @pytest.mark.parametrize(
        ("ask", "message"),
        [
            (lambda hook: hook.verdict("laod 1"), "has no verdict of load 'laod 1'.*Did you mean 'load 1'"),
            (lambda hook: hook.verdict(None), "'load_id' in request must be a non-empty text, not None"),
            (lambda hook: hook.verdict(9), "has no verdict of load '9'"),
            (lambda hook: hook.violations("load 9", "city"), "has no verdict of load 'load 9'"),
            (lambda hook: hook.violations("load 1", "citty"), "'citty'.*Did you mean 'city'"),
            (lambda hook: hook.dependencies(), "No dependencies are kept.*Run a discovery"),
            (lambda hook: hook.dependencies("whole"), "'view' is 'whole'"),
        ],
    )
    def test_a_wrong_name_is_one_clear_error_at_once(self, hook, ask, message):
        with pytest.raises(DcGateError, match=f"(?s){message}"):
            ask(hook)

    def test_a_folder_without_a_state_names_the_one_beside_it(self, gate):
        for ask in (lambda hook: hook.verdicts(), lambda hook: hook.history(), lambda hook: hook.verdict("x")):
            with pytest.raises(DcGateError, match=r"(?s)There is no state in .*peopel.*Did you mean 'people'"):
                ask(DcStateHook(gate.state.replace("people", "peopel")))

    def test_arguments_that_cannot_be_right(self, hook):
        with pytest.raises(DcGateError, match="must be an absolute path"):
            DcStateHook("state/people")
        with pytest.raises(ValueError, match="Did you mean 'arrow'"):
            hook.verdicts(as_="arow")
        with pytest.raises(DcGateError, match="'last' is 0"):
            hook.history(0)


def test_credentials_come_from_the_connection(monkeypatch):
    with s3_server() as server:
        given_load = LOADS[0]
        made = Gate(server.uri(), options=server.options)
        made.apply(given_load)
        connection = {
            "conn_type": "aws",
            "login": server.key,
            "password": server.secret,
            "extra": {"endpoint_url": server.endpoint, "region_name": "us-east-1"},
        }
        monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(connection))
        hook = DcStateHook(made.state, "lake")
        assert [one["load_id"] for one in hook.history()] == [given_load.load_id]
        assert sum(one["pairs"] for one in hook.violations(given_load.load_id, "alone")) > 0
        monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({**connection, "login": "KEYwrong"}))
        with pytest.raises(DcGateError, match="cannot be read") as raised:
            list(DcStateHook(made.state, "lake").history())
        assert server.secret not in str(raised.value)


@given(st.lists(st.tuples(st.integers(1, 6), st.sampled_from(["a", "b", "c", "d"]), st.booleans()), max_size=12))
def test_lazily_read_loads_are_those_read_at_once(records):
    """Whatever records hide which: files of records, oldest first, and the newest in the snapshot."""
    from dc_engine.state.archive import _table, _written

    storage = Storage(f"memory://hook-{random.random()}")
    made = [
        Load(number, place, f"{name}{place}", gone=gone) for number, (place, name, gone) in enumerate(records, start=1)
    ]
    parts = [made[:4], made[4:8], made[8:]]
    newest = [list({one.place: one for one in part}.values()) for part in parts]
    files = [_written(storage, _table(part).sort_by("id_hash")) for part in newest[:2] if part]
    loads = Loads(storage, sorted(newest[2], key=lambda one: one.place), files)
    assert list(loads.each()) == loads.since()
    assert list(loads.each(2)) == loads.since()[-2:]
    assert loads.ids() == {one.load_id for one in loads.since()}


def test_twenty_thousand_loads_are_read_one_at_a_time(tmp_path):
    from dc_engine.state.archive import archived

    storage = Storage(str(tmp_path / "long"))
    given_load = Gate(str(tmp_path / "short"))
    given_load.apply(LOADS[0])
    (real,) = given_load.loads
    many = [replace(real, number=at, place=at, load_id=f"load {at}") for at in range(1, 20_001)]
    files = archived(storage, [], many)
    commit(storage, Snapshot(number=1, parent=None, table="people", files=files))
    del many
    hook = DcStateHook(storage.uri)
    tracemalloc.start()
    try:
        count = sum(1 for _ in hook.history())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 20_000
    assert peak < 10_000_000  # all records as objects are 60 MB
    assert next(iter(hook.history(1)))["load_id"] == "load 20000"


def test_neither_spark_nor_the_counting_functions_are_needed(gate):
    script = f"""
import sys
from airflow_dc_provider.hooks.state import DcStateHook
assert not {{"pyarrow", "pandas", "numpy"}} & set(sys.modules)
hook = DcStateHook({gate.state!r})
list(hook.verdicts()); list(hook.violations("load 1", "city")); hook.history(as_="arrow")
print({{"numba", "pyspark"}} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "set()"
