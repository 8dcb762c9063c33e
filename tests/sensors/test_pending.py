"""Loads that a state does not have: which they are, what they are called, and how they reach mapped gates."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
from pathlib import Path
from typing import Any

import fsspec
import pytest
from airflow.providers.common.compat.sdk import AirflowSkipException, TaskDeferred
from airflow.sdk import DAG
from hypothesis import given
from hypothesis import strategies as st

from airflow_dc_provider.exceptions import DcGateError
from airflow_dc_provider.landing import Landing, Naming
from airflow_dc_provider.looks import PendingLook, VerdictLook
from airflow_dc_provider.operators.gate import DcGateOperator
from airflow_dc_provider.sensors.pending import DcPendingLoadSensor
from tests.faults.states import Gate, made_rows
from tests.jobs.histories import Given
from tests.s3 import s3_server
from tests.sensors.waiting import again, event_of


@pytest.fixture
def landing(tmp_path) -> Path:
    folder = tmp_path / "landing"
    folder.mkdir()
    return folder


@pytest.fixture
def people(tmp_path) -> Gate:
    return Gate(str(tmp_path / "people"), key=None)


@pytest.fixture
def sensor(landing, people):
    def build(**arguments: Any) -> DcPendingLoadSensor:
        given = {"task_id": "pending", "path": str(landing), "state": people.state, "poke_interval": 0.05}
        return DcPendingLoadSensor(**{**given, "deferrable": True, **arguments})

    return build


def land(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("rows")


def judge(people: Gate, *load_ids: str) -> None:
    for load_id in load_ids:
        people.apply(Given(load_id, made_rows(random.Random(load_id), 0, 2)))


def ids(found: list[dict[str, Any]]) -> list[str]:
    return [one["load_id"] for one in found]


class TestWhatIsFound:
    def test_folders_that_the_state_does_not_cover_in_order(self, sensor, landing, people):
        land(landing, "2026-01-03/a.parquet", "2026-01-01/a.parquet", "2026-01-02/a.parquet", "_tmp/x", ".hidden/x")
        judge(people, "2026-01-01")
        assert sensor().execute({}) == [
            {"load_id": "2026-01-02", "changes": {"path": f"{landing}/2026-01-02"}},
            {"load_id": "2026-01-03", "changes": {"path": f"{landing}/2026-01-03"}},
        ]

    @pytest.mark.parametrize("pattern", ["*/*", "**"])
    def test_what_is_below_a_hidden_folder_is_hidden_too(self, sensor, landing, pattern):
        land(landing, "_tmp/half.csv", "_delta_log/0.json", "_day=1/b.csv", ".git/c.csv")
        (landing / "_day=1" / "to nowhere").symlink_to("nowhere")
        found = ids(sensor(pattern=pattern).execute({}))
        assert found == (["b.csv"] if pattern == "*/*" else ["_day=1", "b.csv"])

    @pytest.mark.parametrize("name", ["a[1].csv", "b*.csv", "c{1,2}.csv", "d?.csv", "e\\f.csv"])
    def test_a_name_that_is_a_pattern_to_spark_is_refused_since_it_would_read_other_files(self, sensor, landing, name):
        land(landing, "a1.csv", name)
        with pytest.raises(DcGateError, match="Spark takes for a pattern") as caught:
            sensor().execute({})
        assert str(landing / name) in caught.value.message
        assert ids(sensor(pattern="a1*").execute({})) == ["a1.csv"]

    def test_files_with_what_their_reader_needs(self, sensor, landing):
        land(landing, "b.csv", "a.csv", "readme.txt")
        reader = {"format": "csv", "options": {"header": "true"}}
        found = sensor(pattern="*.csv", changes=reader).execute({})
        assert found == [
            {"load_id": name, "changes": {**reader, "path": f"{landing}/{name}"}} for name in ("a.csv", "b.csv")
        ]

    def test_a_rejected_load_was_judged_and_is_not_pending(self, sensor, landing, people):
        row = made_rows(random.Random(1), 0, 1)[0]
        verdict = people.apply(Given("bad", [row, {**row, "city": "elsewhere"}]), rejected_load="discard")
        assert verdict.discarded
        land(landing, "bad/a", "good/a")
        assert ids(sensor().execute({})) == ["good"]

    def test_a_load_that_was_taken_out_is_pending_again(self, sensor, landing, people):
        land(landing, "one/a", "two/a")
        judge(people, "one", "two")
        people.maintain("retract", load_id="one")
        assert ids(sensor().execute({})) == ["one"]

    def test_a_pattern_says_what_a_load_is_called(self, sensor, landing):
        land(landing, "region=eu/day=2/x", "region=eu/day=1/x", "region=us/day=1/x", "region=eu/other/x")
        found = sensor(pattern="*/*", load_id_pattern=r"region=(\w+/day=\d+)$").execute({})
        assert ids(found) == ["eu/day=1", "eu/day=2", "us/day=1"]
        assert found[0]["changes"]["path"] == f"{landing}/region=eu/day=1"

    def test_two_loads_of_one_name_are_refused_with_both_paths(self, sensor, landing, people):
        land(landing, "eu/day=1/x", "us/day=1/x")
        said = r"(?s)'eu/day=1' and 'us/day=1' both have the load_id '1'.*load_id_pattern"
        with pytest.raises(DcGateError, match=said):
            sensor(pattern="*/*", load_id_pattern="day=(.*)").execute({})
        judge(people, "1")  # the other one would never be judged
        with pytest.raises(DcGateError, match=said):
            sensor(pattern="*/*", load_id_pattern="day=(.*)").execute({})

    def test_a_folder_without_its_marker_is_still_being_written(self, sensor, landing):
        land(landing, "a/_SUCCESS", "a/x", "b/x", "file_without_a_folder")
        assert ids(sensor(marker="_SUCCESS").execute({})) == ["a"]
        land(landing, "b/_SUCCESS")
        assert ids(sensor(marker="_SUCCESS").execute({})) == ["a", "b"]

    def test_at_most_so_many_the_first_ones(self, sensor, landing):
        land(landing, *(f"{number}/x" for number in range(9)))
        assert ids(sensor(max_loads=3).execute({})) == ["0", "1", "2"]

    def test_names_with_special_characters(self, sensor, tmp_path):
        folder = tmp_path / "landing (1)"
        land(folder, "a b/x", "c(d), 50%/x", "ü/x")
        assert ids(sensor(path=str(folder)).execute({})) == ["a b", "c(d), 50%", "ü"]

    def test_on_s3_the_path_stays_as_spark_needs_it(self, sensor, monkeypatch):
        with s3_server() as server:
            connection = {"conn_type": "aws", "login": server.key, "password": server.secret}
            connection["extra"] = {"endpoint_url": server.endpoint, "region_name": "us-east-1"}
            monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(connection))
            root = server.uri()
            files = Landing(root, server.options)
            for name in ("day=2/x", "day=1/x", "day=1/_SUCCESS"):
                files._place[0].pipe_file(f"{files._place[1]}/{name}", b"rows")
            named = {"path": root.replace("s3://", "s3a://"), "changes_conn_id": "lake", "load_id_pattern": "day=(.+)"}
            assert [one["changes"]["path"] for one in sensor(**named).execute({})] == [
                f"{named['path']}/day=1",
                f"{named['path']}/day=2",
            ]
            assert ids(sensor(**named, marker="_SUCCESS").execute({})) == ["1"]
            with pytest.raises(TaskDeferred) as raised:
                sensor(**named, min_loads=3).execute({})
            assert server.secret not in json.dumps(raised.value.trigger.serialize())
            assert not again(raised.value.trigger).look()


names = st.text(st.characters(codec="ascii", categories=("L", "N"), include_characters="=-"), min_size=1, max_size=6)


@given(st.frozensets(names), st.frozensets(names))
def test_pending_is_what_has_arrived_without_what_is_known(arrived, known):
    filesystem = fsspec.filesystem("memory")
    for name in arrived:
        filesystem.pipe_file(f"/pending/{name}/x", b"rows")
    try:
        found = [one.load_id for one in Landing("memory://pending").arrived(Naming(), known)]
    finally:
        if arrived:
            filesystem.rm("/pending", recursive=True)
    assert found == sorted(arrived - known)


class TestWaiting:
    def test_it_waits_until_there_are_enough(self, sensor, landing, people):
        land(landing, "a/x", "b/x")
        judge(people, "b")
        with pytest.raises(TaskDeferred) as raised:
            sensor(min_loads=2).execute({})
        wait = raised.value

        async def land_meanwhile() -> dict[str, Any]:
            waiting = asyncio.ensure_future(event_of(again(wait.trigger)))
            await asyncio.sleep(0.2)
            assert not waiting.done()
            land(landing, "c/x")
            return await asyncio.wait_for(waiting, 10)

        event = asyncio.run(land_meanwhile())
        assert ids(sensor(min_loads=2).resume({}, event=event, **wait.kwargs)) == ["a", "c"]

    def test_what_was_judged_meanwhile_is_waited_for_anew(self, sensor, landing, people):
        land(landing, "a/x")
        judge(people, "a")
        with pytest.raises(TaskDeferred):
            sensor().resume({}, {"error": ""}, until=1e12)

    def test_a_state_that_was_removed_meanwhile_has_no_load(self, landing, people):
        land(landing, "1")
        judge(people, "1")
        look = PendingLook(str(landing), people.state)
        verdict = VerdictLook(people.state, "1")
        assert look(1) == []
        assert verdict() is not None
        shutil.rmtree(people.state)
        assert [one.load_id for one in look(1)] == ["1"]
        assert verdict() is None

    def test_a_folder_that_is_not_there_yet_is_waited_for_and_no_load_can_be_a_skip(self, sensor, tmp_path):
        with pytest.raises(AirflowSkipException):
            sensor(path=str(tmp_path / "later"), timeout=0, soft_fail=True).execute({})

    def test_without_the_triggerer(self, sensor, landing):
        land(landing, "a/x")
        assert ids(sensor(deferrable=False).execute({})) == ["a"]


def test_mapped_gates_take_the_result_of_the_sensor(sensor, rules):
    with DAG("d", schedule=None) as dag:
        gate = DcGateOperator.partial(task_id="gate", constraints=rules, state="/state/tax").expand_kwargs(
            sensor().output
        )
    assert dag.get_task("gate") is gate
    assert gate.upstream_task_ids == {"pending"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"path": "landing"}, "path is 'landing', and must be an absolute path"),
        ({"state": "people"}, "state is 'people'"),
        ({"pattern": ""}, "'pattern' is ''"),
        ({"load_id_pattern": "day=.*"}, "it has 0 groups"),
        ({"load_id_pattern": "day=(.*"}, "not a regular expression"),
        ({"marker": "a/b"}, "'marker' is 'a/b'"),
        ({"min_loads": 0}, "min_loads is 0"),
        ({"min_loads": 5, "max_loads": 4}, "max_loads is 4, and must be a whole number of at least 5"),
        ({"changes": {"path": "/x"}}, "has a path"),
        ({"changes": "csv"}, "'changes' is 'csv', and must be a mapping"),
        ({"changes": {"formt": "csv"}}, "Did you mean 'format'"),
        ({"path": "s3://user:secret@bucket/x"}, "carries credentials"),
    ],
)
def test_what_cannot_be_right_is_refused(sensor, arguments, message):
    with pytest.raises(Exception, match=message) as raised:
        sensor(**arguments).execute({})
    assert "secret" not in str(raised.value)
