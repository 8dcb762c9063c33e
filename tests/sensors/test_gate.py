"""A gate that waits for its data to be mended: when it submits, when it does not, and what it says in the end."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowSkipException, TaskDeferred
from airflow.sdk.bases.operator import TRIGGER_FAIL_REPR, TriggerFailureReason

from airflow_dc_provider.exceptions import DcGateError, DcViolationError
from airflow_dc_provider.landing import Landing
from airflow_dc_provider.sensors.gate import DcGateSensor
from airflow_dc_provider.triggers.looking import DcChangesTrigger
from tests.faults.states import Gate, made_rows
from tests.jobs.histories import Given
from tests.sensors.waiting import again, event_of

UP = (TRIGGER_FAIL_REPR, {"error": TriggerFailureReason.TRIGGER_TIMEOUT})


@pytest.fixture
def data(tmp_path) -> Path:
    folder = tmp_path / "wednesday"
    folder.mkdir()
    (folder / "rows.parquet").write_text("broken")
    return folder


@pytest.fixture
def sensor(rules, state, data, fake_spark):
    def build(**arguments: Any) -> DcGateSensor:
        given = {"task_id": "gate", "constraints": rules, "changes": {"path": str(data)}, "state": str(state)}
        return DcGateSensor(**{**given, "load_id": "wednesday", "poke_interval": 0.05, **arguments})

    return build


def deferred(task: DcGateSensor, ti: Any, **resumed: Any) -> TaskDeferred:
    with pytest.raises(TaskDeferred) as raised:
        task.resume({"ti": ti}, **resumed) if resumed else task.execute({"ti": ti})
    return raised.value


class TestSubmitting:
    def test_a_load_that_passes_is_submitted_once_like_by_a_gate(self, sensor, fake_spark, passing, ti):
        fake_spark.answers(passing)
        assert sensor().execute({"ti": ti})["decision"] == "pass"
        assert len(fake_spark.loads()) == 1

    def test_after_a_failure_it_is_submitted_again_only_when_files_have_changed(
        self, sensor, fake_spark, failing, passing, ti, data
    ):
        fake_spark.answers(failing)
        wait = deferred(sensor(), ti)
        assert ti.pushed["verdict"]["decision"] == "fail"
        wait = deferred(sensor(), ti, event={"error": ""}, **wait.kwargs)  # as if woken too early
        assert len(fake_spark.loads()) == 1
        fake_spark.answers({**passing, "decision": "pass", "constraints": []})

        async def mended_meanwhile() -> dict[str, Any]:
            waiting = asyncio.ensure_future(event_of(again(wait.trigger)))
            await asyncio.sleep(0.3)
            assert not waiting.done()
            (data / "rows.parquet").write_text("mended rows")
            return await asyncio.wait_for(waiting, 10)

        event = asyncio.run(mended_meanwhile())
        assert sensor().resume({"ti": ti}, event=event, **wait.kwargs)["decision"] == "pass"
        assert len(fake_spark.loads()) == 2

    def test_what_changes_while_the_job_runs_has_changed(self, sensor, fake_spark, failing, ti, data):
        fake_spark.answers(failing)
        fake_spark.does_first(f"echo mended rows > {data}/rows.parquet")
        wait = deferred(sensor(), ti)
        trigger = again(wait.trigger)
        assert [trigger.look(), trigger.look()] == [False, True]

    def test_without_files_nothing_is_submitted_and_it_waits_for_them(self, sensor, fake_spark, ti, data):
        (data / "rows.parquet").unlink()
        wait = deferred(sensor(), ti)
        assert not fake_spark.was_called
        trigger = again(wait.trigger)
        assert not trigger.look()
        (data / "rows.parquet").write_text("rows")
        assert [trigger.look(), trigger.look()] == [False, True]

    @pytest.mark.parametrize("changes", [{"table": "lake.tax"}, {"sql": "select 1"}])
    def test_a_table_has_no_files_so_it_is_submitted_after_each_interval(
        self, sensor, fake_spark, failing, ti, changes, monkeypatch
    ):
        fake_spark.answers(failing)
        wait = deferred(sensor(changes=changes), ti)
        trigger = again(wait.trigger)
        assert [trigger.look(), trigger.look()] == [False, True]
        deferred(sensor(changes=changes), ti, event={"error": ""}, **wait.kwargs)
        assert len((fake_spark.folder / "loads").read_text().splitlines()) == 2

    def test_an_error_of_the_tool_is_raised_at_once_for_airflow_to_retry(self, sensor, fake_spark, ti):
        fake_spark.answers({"error": {"message": "No such column.", "hint": ""}}, exit_code=1)
        with pytest.raises(DcGateError, match="No such column"):
            sensor(soft_fail=True).execute({"ti": ti})

    def test_in_the_task_itself_without_a_triggerer(self, sensor, fake_spark, failing, passing, ti, data):
        fake_spark.answers(failing)

        def mend() -> None:
            while not fake_spark.was_called:
                time.sleep(0.02)
            time.sleep(0.3)
            fake_spark.answers({**passing, "decision": "pass", "constraints": []})
            (data / "rows.parquet").write_text("mended rows")

        thread = threading.Thread(target=mend)
        thread.start()
        try:
            assert sensor(deferrable=False, timeout=60).execute({"ti": ti})["decision"] == "pass"
        finally:
            thread.join()
        assert len(fake_spark.loads()) == 2


class TestTimeIsUp:
    @pytest.fixture
    def broken(self, tmp_path) -> Gate:
        made = Gate(str(tmp_path / "people"), constraints=[{"name": "city", "fd": "zip -> city"}])
        row = made_rows(random.Random(1), 0, 1)[0]
        made.apply(Given("wednesday", [row, {**row, "id": 7, "city": "elsewhere"}]), mask=["city"])
        return made

    def test_the_task_fails_with_what_is_still_wrong(self, sensor, broken, ti):
        with pytest.raises(DcViolationError, match=r"(?s)Time is up.*wednesday.*broke 1 of 1 rule") as raised:
            sensor(state=broken.state).resume_execution(*UP, {"ti": ti})
        assert raised.value.summary["decision"] == "fail"
        assert "elsewhere" not in str(raised.value)

    def test_soft_fail_skips(self, sensor, broken, ti):
        with pytest.raises(AirflowSkipException, match="Time is up"):
            sensor(state=broken.state, soft_fail=True).resume_execution(*UP, {"ti": ti})

    def test_a_load_that_passed_before_its_files_were_gone_is_not_called_broken(self, sensor, tmp_path, ti):
        made = Gate(str(tmp_path / "people"), constraints=[{"name": "city", "fd": "zip -> city"}])
        made.apply(Given("wednesday", made_rows(random.Random(1), 0, 1)))
        with pytest.raises(DcViolationError, match="No file came to") as raised:
            sensor(state=made.state).resume_execution(*UP, {"ti": ti})
        assert "broke" not in str(raised.value)

    def test_when_no_file_ever_came_that_is_said(self, sensor, ti, data):
        (data / "rows.parquet").unlink()
        with pytest.raises(DcViolationError, match=r"(?s)Time is up.*No file came to .*wednesday"):
            sensor(timeout=0).execute({"ti": ti})

    def test_the_last_seconds_are_waited_out_in_the_task(self, sensor, fake_spark, failing, passing, ti, data):
        fake_spark.answers(failing)
        with pytest.raises(AirflowSkipException, match="Time is up"):
            sensor(timeout=0.5, soft_fail=True).execute({"ti": ti})
        assert len(fake_spark.loads()) == 1

    def test_the_time_runs_from_the_first_look_however_often_it_is_woken(self, sensor, fake_spark, failing, ti):
        fake_spark.answers(failing)
        wait = deferred(sensor(timeout=timedelta(hours=1)), ti)
        later = {**wait.kwargs, "until": wait.kwargs["until"] - 3000}
        again_wait = deferred(sensor(timeout=3600), ti, event={"error": ""}, **later)
        assert again_wait.timeout < timedelta(seconds=601)


class TestFiles:
    def test_any_change_of_the_files_changes_the_fingerprint(self, data):
        def seen() -> str | None:
            return Landing(str(data)).fingerprint()

        marks = [seen()]
        (data / "rows.parquet").write_text("brOken")  # as many bytes
        marks.append(seen())
        (data / "more.parquet").write_text("x")
        marks.append(seen())
        (data / "more.parquet").rename(data / "other.parquet")
        marks.append(seen())
        (data / "rows.parquet").unlink()
        marks.append(seen())
        assert len(set(marks)) == len(marks)
        assert seen() == marks[-1]

    def test_globs_files_and_what_is_not_there(self, data):
        whole = Landing(str(data / "rows.parquet")).fingerprint()
        assert whole is not None
        assert Landing(f"{data}/*.parquet").fingerprint() == whole
        assert Landing(f"{data}/*.csv").fingerprint() is None
        assert Landing(f"{data}/nothing").fingerprint() is None

    def test_a_folder_in_which_a_writer_has_just_begun_has_no_rows_to_check_yet(self, tmp_path):
        begun = tmp_path / "_landing" / "_temporary" / "0" / "part.parquet"
        begun.parent.mkdir(parents=True)
        begun.write_text("half")
        landing = Landing(str(tmp_path / "_landing"))
        assert landing.fingerprint() is None
        (tmp_path / "_landing" / "part.parquet").write_text("rows")
        assert landing.fingerprint() is not None

    def test_files_that_are_still_being_written_do_not_wake_the_task(self, data):
        trigger = DcChangesTrigger(path=str(data), conn_id=None, seen="earlier", poke_interval=1)
        for number in range(3):
            (data / f"{number}.parquet").write_text("x" * number)
            assert not trigger.look()
        assert trigger.look()

    def test_braces_cannot_be_looked_at_and_that_is_said(self, sensor, data, ti):
        with pytest.raises(DcGateError, match="is for Spark alone"):
            sensor(changes={"path": f"{data}/{{a,b}}"}).execute({"ti": ti})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"on_violation": "warn"}, "waits when a load breaks a rule: leave 'on_violation' out"),
        ({"retry_on_violation": True}, "leave 'retry_on_violation' out"),
        ({"poke_interval": -1}, "'poke_interval' must be a number"),
        ({"timeout": "1h"}, "'timeout' must be a number"),
        ({"constraints": {"version": 1}}, "table"),
    ],
)
def test_what_cannot_be_right_is_refused_when_the_dag_is_parsed(sensor, arguments, message):
    with pytest.raises(Exception, match=message):
        sensor(**arguments)
