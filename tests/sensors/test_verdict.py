"""Waiting for a verdict: what the sensor does with it, and what its trigger costs while there is none."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowSensorTimeout, AirflowSkipException, TaskDeferred
from airflow.sdk.bases.operator import TRIGGER_FAIL_REPR, TriggerFailureReason
from airflow.sdk.exceptions import TaskDeferralError

from airflow_dc_provider.exceptions import DcGateError, DcViolationError
from airflow_dc_provider.sensors.verdict import DcVerdictSensor
from airflow_dc_provider.triggers.looking import DcVerdictTrigger
from dc_engine.deciding import record_decision
from dc_engine.verdict import Decided
from tests.faults.states import Gate, made_rows
from tests.jobs.histories import Given
from tests.s3 import s3_server
from tests.sensors.waiting import again, event_of

CLEAN = Given("load", made_rows(random.Random(1), 0, 1))
BROKEN = Given("load", [*CLEAN.inserts, {**CLEAN.inserts[0], "id": 7, "city": "elsewhere"}])


@pytest.fixture
def people(tmp_path) -> Gate:
    return Gate(str(tmp_path / "people"), constraints=[{"name": "city", "fd": "zip -> city"}])


@pytest.fixture
def sensor(people):
    def build(**arguments: Any) -> DcVerdictSensor:
        given = {"task_id": "wait", "state": people.state, "load_id": "load", "deferrable": True, "poke_interval": 0.05}
        return DcVerdictSensor(**{**given, **arguments})

    return build


def deferred(sensor: DcVerdictSensor, ti: Any) -> TaskDeferred:
    with pytest.raises(TaskDeferred) as raised:
        sensor.execute({"ti": ti})
    return raised.value


class TestDecisions:
    def test_a_load_that_passed_opens_the_door_with_its_summary(self, sensor, people, ti):
        people.apply(CLEAN)
        found = sensor().execute({"ti": ti})
        assert (found["load_id"], found["decision"], found["state"]) == ("load", "pass", people.state)
        assert ti.pushed["verdict"] == found

    def test_a_load_that_failed_fails_the_task_and_says_why(self, sensor, people, ti):
        people.apply(BROKEN)
        with pytest.raises(
            DcViolationError, match=r"(?s)Load load of table people broke 1 of 1 rule\..*city +error"
        ) as raised:
            sensor().execute({"ti": ti})
        assert raised.value.summary == ti.pushed["verdict"]

    @pytest.mark.parametrize("deferrable", [True, False])
    def test_soft_fail_skips_instead(self, sensor, people, ti, deferrable):
        people.apply(BROKEN)
        with pytest.raises(AirflowSkipException):
            sensor(soft_fail=True, deferrable=deferrable).execute({"ti": ti})
        assert ti.pushed["verdict"]["decision"] == "fail"

    def test_what_is_accepted_is_up_to_the_user(self, sensor, people, ti):
        people.apply(BROKEN)
        assert sensor(accept=("pass", "fail")).execute({"ti": ti})["decision"] == "fail"
        people.constraints[0]["severity"] = "warn"
        people.apply(Given("other", [{**BROKEN.inserts[1], "id": 8, "city": "third"}]))
        assert sensor(load_id="other").execute({"ti": ti})["decision"] == "warn"
        with pytest.raises(DcViolationError):
            sensor(load_id="other", accept="pass").execute({"ti": ti})

    def test_masked_values_are_in_no_line(self, sensor, people, ti, caplog):
        people.apply(BROKEN, mask=["city"])
        with pytest.raises(DcViolationError) as raised:
            sensor().execute({"ti": ti})
        assert "elsewhere" not in f"{raised.value}{caplog.text}{ti.pushed}"


class TestWaiting:
    def test_it_waits_in_the_triggerer_until_the_verdict_is_there(self, sensor, people, ti):
        wait = deferred(sensor(), ti)

        async def judged_meanwhile() -> dict[str, Any]:
            waiting = asyncio.ensure_future(event_of(again(wait.trigger)))
            await asyncio.sleep(0.3)
            assert not waiting.done()
            await asyncio.to_thread(people.apply, CLEAN)
            return await asyncio.wait_for(waiting, 10)

        event = asyncio.run(judged_meanwhile())
        assert sensor().resume({"ti": ti}, event=event, **wait.kwargs)["decision"] == "pass"

    def test_a_trigger_that_was_restarted_goes_on_where_it_was(self, sensor, people, ti):
        wait = deferred(sensor(), ti)

        async def restarted() -> dict[str, Any]:
            first = asyncio.ensure_future(event_of(wait.trigger))
            await asyncio.sleep(0.2)
            first.cancel()
            people.apply(CLEAN)
            return await asyncio.wait_for(event_of(again(wait.trigger)), 10)

        assert asyncio.run(restarted()) == {"error": ""}

    def test_with_wait_for_pass_a_rejected_load_is_waited_for_until_it_is_mended(self, sensor, people, ti):
        people.apply(BROKEN)
        wait = deferred(sensor(wait_for_pass=True), ti)
        assert not again(wait.trigger).look()
        people.apply(CLEAN)
        assert asyncio.run(event_of(again(wait.trigger))) == {"error": ""}
        assert sensor(wait_for_pass=True).resume({"ti": ti}, {"error": ""}, **wait.kwargs)["decision"] == "pass"

    def test_a_rejected_load_that_a_person_approves_passes(self, sensor, people, ti):
        verdict = people.apply(BROKEN)
        wait = deferred(sensor(wait_for_pass=True), ti)
        trigger = again(wait.trigger)
        assert not trigger.look()
        approved = Decided("approved", by="ada", at="2026-01-03T09:00:00+00:00", reason="known")
        record_decision(people.storage, "load", verdict.snapshot, approved)
        assert trigger.look()
        assert sensor().execute({"ti": ti})["decision"] == "fail"  # what the rules say stays what it is

    def test_time_that_is_up_is_a_timeout_and_with_soft_fail_a_skip(self, sensor, ti):
        up = (TRIGGER_FAIL_REPR, {"error": TriggerFailureReason.TRIGGER_TIMEOUT}, {"ti": ti})
        with pytest.raises(AirflowSensorTimeout):
            sensor().resume_execution(*up)
        with pytest.raises(AirflowSkipException):
            sensor(soft_fail=True).resume_execution(*up)
        with pytest.raises(AirflowSensorTimeout):
            sensor(timeout=0).execute({"ti": ti})

    def test_the_last_seconds_are_waited_out_in_the_task(self, sensor, people, ti):
        with pytest.raises(AirflowSensorTimeout):
            sensor(timeout=0.2).execute({"ti": ti})
        later = threading.Timer(0.3, people.apply, [CLEAN])
        later.start()
        assert sensor(timeout=9).execute({"ti": ti})["decision"] == "pass"
        later.join()

    def test_without_the_triggerer_it_waits_as_other_sensors_do(self, sensor, people, ti):
        wait = sensor(deferrable=False, timeout=0.1)
        with pytest.raises(AirflowSensorTimeout):
            wait.execute({"ti": ti})
        people.apply(CLEAN)
        assert wait.execute({"ti": ti})["decision"] == "pass"


class TestTrigger:
    def test_it_holds_names_and_no_secret(self, sensor, ti, monkeypatch):
        with s3_server() as server:
            connection = {"conn_type": "aws", "login": server.key, "password": server.secret}
            connection["extra"] = {"endpoint_url": server.endpoint, "region_name": "us-east-1"}
            monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(connection))
            state = server.uri()
            wait = deferred(sensor(state=state, state_conn_id="lake"), ti)
            name, facts = wait.trigger.serialize()
            assert name == "airflow_dc_provider.triggers.looking.DcVerdictTrigger"
            assert facts["state_conn_id"] == "lake"
            assert server.secret not in json.dumps(facts)
            made = Gate(state, options=server.options, constraints=[{"name": "city", "fd": "zip -> city"}])
            made.apply(Given("another", CLEAN.inserts))
            trigger = again(wait.trigger)
            assert not trigger.look()
            server.requests.clear()
            assert not trigger.look()
            assert len(server.requests) == 1  # nothing new: one listing
            made.apply(Given("load", [{**CLEAN.inserts[0], "id": 7}]))
            assert trigger.look()
            monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({**connection, "login": "KEYwrong"}))
            event = asyncio.run(event_of(again(wait.trigger)))
            assert "cannot be read" in event["error"]
            assert server.secret not in str(event)

    def test_an_error_of_the_tool_is_an_error_even_with_soft_fail(self, sensor, ti):
        given = {"until": 1e12, "event": {"error": "The state cannot be read.", "hint": "Look."}}
        with pytest.raises(DcGateError, match=r"(?s)The state cannot be read.*Look"):
            sensor(soft_fail=True).resume_execution("resume", given, {"ti": ti})
        with pytest.raises(TaskDeferralError):
            sensor(soft_fail=True).resume_execution(TRIGGER_FAIL_REPR, {"error": "a bug"}, {"ti": ti})

    def test_a_state_that_is_not_there_yet_is_waited_for(self, people):
        facts = {"state": people.state, "load_id": "load", "state_conn_id": None, "accept": ["pass"]}
        assert not DcVerdictTrigger(**facts, wait_for_pass=False, poke_interval=1).look()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"accept": ()}, "accept is empty"),
        ({"accept": 5}, "'accept' in the request must be a list of decisions, not 5"),
        ({"accept": ("pas",)}, "Did you mean 'pass'"),
        ({"state": "people"}, "must be an absolute path"),
        ({"load_id": "a\nb"}, "line breaks"),
        ({"load_id": None}, "non-empty text"),
    ],
)
def test_what_cannot_be_right_is_refused_when_the_dag_is_parsed(sensor, arguments, message):
    with pytest.raises(Exception, match=message):
        sensor(**arguments)
