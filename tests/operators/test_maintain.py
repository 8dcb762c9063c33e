"""The tasks that take a load out and look after a state."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from airflow_dc_provider.exceptions import DcGateError, DcStateError
from airflow_dc_provider.operators.maintain import ACTIONS, DcMaintainOperator
from airflow_dc_provider.operators.retract import DcRetractLoadOperator
from dc_engine.errors import RequestError
from dc_engine.maintain import Maintenance


@pytest.fixture
def result() -> dict[str, Any]:
    """A result document as the job writes it."""
    return {
        "schema_version": 1,
        "action": "compact",
        "table": "tax",
        "snapshot": 4,
        "files_before": 120,
        "files_after": 8,
        "text": "120 files became 8.\nNothing else\tchanged.",
    }


@pytest.fixture
def maintain(state: Path, fake_spark: Any) -> Any:
    def build(**arguments: Any) -> DcMaintainOperator:
        return DcMaintainOperator(**{"task_id": "maintain", "action": "compact", "state": str(state), **arguments})

    return build


@pytest.fixture
def retract(state: Path, fake_spark: Any) -> Any:
    def build(**arguments: Any) -> DcRetractLoadOperator:
        return DcRetractLoadOperator(
            **{"task_id": "retract", "state": str(state), "load_id": "2026-01-03", **arguments}
        )

    return build


def asked(fake_spark: Any) -> tuple[str, str, dict[str, Any]]:
    """The job, the action and the request of the last submission."""
    arguments = fake_spark.call["arguments"]
    place = arguments.index("--request")
    return Path(arguments[place - 2]).name, arguments[place - 1], fake_spark.call["request"]


class TestRetract:
    def test_takes_a_load_out(self, retract, fake_spark, ti, result, state):
        fake_spark.answers({**result, "action": "retract"})
        returned = retract().execute({"ti": ti})
        request = {"state": str(state), "load_id": "2026-01-03", "max_wait_seconds": 3600}
        assert asked(fake_spark) == ("maintain.py", "retract", request)
        assert returned["snapshot"] == 4
        assert "text" not in returned

    def test_is_rendered(self, retract, fake_spark, ti, result, tmp_path):
        fake_spark.answers(result)
        operator = retract(state=f"{tmp_path}/{{{{ table }}}}", load_id="{{ params.load }}")
        operator.render_template_fields({"table": "tax", "params": {"load": "a day"}})
        operator.execute({"ti": ti})
        assert asked(fake_spark)[2] == {"state": f"{tmp_path}/tax", "load_id": "a day", "max_wait_seconds": 3600}

    def test_a_load_that_is_not_there_is_the_jobs_error(self, retract, fake_spark, ti):
        error = {"type": "RequestError", "message": "There is no load 'x'.", "hint": "Did you mean 'y'?"}
        fake_spark.answers({"schema_version": 1, "error": error}, exit_code=1)
        with pytest.raises(DcGateError, match=r"(?s)There is no load 'x'\..*Did you mean 'y'\?"):
            retract().execute({"ti": ti})

    def test_needs_a_load_and_a_state_that_does_not_move(self, retract):
        with pytest.raises(RequestError, match="'load_id' in request must be a non-empty text, not ''"):
            retract(load_id="")
        with pytest.raises(RequestError, match="state is 'state/tax', and must be an absolute path"):
            retract(state="state/tax")


class TestMaintain:
    def test_returns_the_facts_and_logs_the_text(self, maintain, fake_spark, ti, result, capfd):
        fake_spark.answers(result)
        returned = maintain().execute({"ti": ti})
        assert returned == {name: value for name, value in result.items() if name != "text"}
        log = capfd.readouterr().out
        assert "120 files became 8." in log
        assert "Nothing else\\tchanged." in log

    @pytest.mark.parametrize(
        ("arguments", "details"),
        [
            ({"action": "compact"}, {}),
            ({"action": "describe"}, {}),
            ({"action": "vacuum"}, {"keep_snapshots": 10, "grace_hours": 24}),
            ({"action": "vacuum", "keep_snapshots": 3, "grace_hours": 0}, {"keep_snapshots": 3, "grace_hours": 0}),
            ({"action": "verify"}, {"table": None, "totals": True}),
            ({"action": "rebuild", "table": {"path": "/lake"}}, {"table": {"path": "/lake"}}),
        ],
    )
    def test_asks_for_what_the_action_needs(self, maintain, fake_spark, ti, result, state, arguments, details):
        fake_spark.answers({**result, "sound": True})
        maintain(**arguments).execute({"ti": ti})
        request = {"state": str(state), "max_wait_seconds": 3600, **details}
        assert asked(fake_spark) == ("maintain.py", arguments["action"], request)

    def test_an_unsound_state_fails_the_task_without_retry(self, maintain, fake_spark, ti, result, capfd):
        from airflow.sdk.exceptions import AirflowFailException

        problems = ["index/7.parquet is missing.", "The table has 3 rows that the\nstate does not have."]
        fake_spark.answers({**result, "action": "verify", "sound": False, "problems": problems})
        with pytest.raises(DcStateError, match="not sound: 2 problems") as caught:
            maintain(action="verify").execute({"ti": ti})
        assert isinstance(caught.value, AirflowFailException)
        assert caught.value.problems == problems
        assert "  - index/7.parquet is missing." in str(caught.value)
        assert "  - The table has 3 rows that the\\nstate does not have." in str(caught.value)
        assert "action='rebuild'" in str(caught.value)
        assert ti.pushed["result"]["problems"] == problems
        assert "text" not in json.dumps(ti.pushed)

    def test_a_thousand_problems_make_no_endless_message(self, maintain, fake_spark, ti, result):
        fake_spark.answers({**result, "sound": False, "problems": ["A file is missing."] * 1_000})
        with pytest.raises(DcStateError, match="and 960 more problems") as caught:
            maintain(action="verify").execute({"ti": ti})
        assert str(caught.value).count("A file is missing.") == 40

    def test_a_job_without_a_result_is_an_error(self, maintain, fake_spark, ti):
        fake_spark.answers(None)
        with pytest.raises(DcGateError, match="the job left no result"):
            maintain().execute({"ti": ti})

    def test_leaves_nothing_of_the_exchange_behind(self, maintain, fake_spark, ti, result, state):
        fake_spark.answers(result)
        maintain().execute({"ti": ti})
        assert not [path for path in state.rglob("*") if path.is_file() or path.parent.name == "runs"]

    def test_credentials_go_the_same_way_as_a_gates(self, maintain, fake_spark, ti, result, monkeypatch):
        monkeypatch.setenv("AIRFLOW_CONN_LAKE", '{"conn_type": "aws", "login": "one", "password": "two"}')
        fake_spark.answers(result)
        maintain(state_conn_id="lake").execute({"ti": ti})
        assert fake_spark.call["state_options"] == {"key": "one", "secret": "two"}

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"action": "vaccum"}, r"action is 'vaccum'.*Did you mean 'vacuum'\?"),
            ({"action": "vacuum", "table": {"path": "/lake"}}, "'vacuum' reads no table"),
            ({"action": "vacuum", "keep_snapshots": 0}, "keep_snapshots is 0, and must be .* at least 1"),
            ({"action": "vacuum", "grace_hours": -1}, "grace_hours is -1"),
            ({"action": "vacuum", "grace_hours": "24"}, "grace_hours is '24'"),
            ({"action": "vacuum", "grace_hours": float("nan")}, "grace_hours is nan"),
            ({"action": "vacuum", "grace_hours": float("inf")}, "grace_hours is inf"),
            ({"application": "mine.py"}, "DcMaintainOperator sets 'application' itself"),
        ],
    )
    def test_what_cannot_be_is_an_import_error(self, maintain, arguments, message):
        with pytest.raises(ValueError, match=message):
            maintain(**arguments)

    def test_the_table_is_checked_when_the_dag_is_parsed(self, maintain):
        with pytest.raises(RequestError, match=r"Unknown key 'pth' in table.*Did you mean 'path'"):
            maintain(action="verify", table={"pth": "/lake"})


@pytest.fixture(params=["maintain", "retract"])
def either(request) -> Any:
    """One of the tasks that act on a state."""
    return request.getfixturevalue(request.param)


class TestMask:
    OWN = "12:34:56 maintain The table cannot be read"
    SPARK = "[CAST_INVALID_INPUT] The value 'Berln' of the type"

    @pytest.mark.parametrize("mask", [{}, {"mask": None}, {"mask": ["city"]}])
    @pytest.mark.parametrize("answers", [True, False])
    def test_lines_of_spark_are_left_out(self, either, fake_spark, ti, result, capfd, mask, answers):
        """The task does not know what the state masks."""
        fake_spark.answers(result if answers else None, exit_code=1, say=f"{self.OWN}\n{self.SPARK}")
        if answers:
            either(**mask).execute({"ti": ti})
        else:
            with pytest.raises(DcGateError, match=r"(?s)masked.* and Spark's errors quote values.*mask=\[\]") as caught:
                either(**mask).execute({"ti": ti})
            assert "Berln" not in str(caught.value)
            assert caught.value.__cause__ is None, "it has the lines as they are"
        log = capfd.readouterr().out
        assert "Berln" not in log
        assert self.OWN in log
        assert "1 line of Spark left out: columns " in log
        assert fake_spark.conf()["spark.log.level"] == "FATAL"

    def test_a_mask_of_nothing_shows_all_lines(self, either, fake_spark, ti, result, capfd):
        fake_spark.answers(result, say=self.SPARK)
        either(mask=[]).execute({"ti": ti})
        log = capfd.readouterr().out
        assert self.SPARK in log
        assert "left out" not in log
        assert fake_spark.conf()["spark.log.level"] == "WARN"
        fake_spark.answers(None, exit_code=1, say=self.SPARK)
        with pytest.raises(DcGateError, match="Berln"):
            either(mask=[]).execute({"ti": ti})

    def test_its_columns_are_told_to_the_job(self, either, fake_spark, ti, result):
        fake_spark.answers(result)
        operator = either(mask=["{{ params.column }}"])
        operator.render_template_fields({"params": {"column": "ssn"}})
        operator.execute({"ti": ti})
        _, action, request = asked(fake_spark)
        assert Maintenance.from_mapping(action, request).mask == ("ssn",)

    def test_it_is_a_list_of_names(self, either, fake_spark, ti):
        with pytest.raises(RequestError, match="'mask' in the request must be a list of column names, not 'city'"):
            either(mask="city")
        operator = either(mask="{{ nothing }}")
        operator.render_template_fields({"nothing": ""})
        with pytest.raises(DcGateError, match="must be a list of column names, not ''"):
            operator.execute({"ti": ti})
        assert not fake_spark.was_called


@pytest.mark.parametrize("action", [*ACTIONS, "retract"])
def test_how_long_to_wait_is_told_to_every_action_which_takes_it(maintain, retract, fake_spark, ti, result, action):
    fake_spark.answers({**result, "sound": True})
    build = retract if action == "retract" else partial(maintain, action=action)
    build(max_wait_seconds=0.5).execute({"ti": ti})
    _, told, request = asked(fake_spark)
    assert Maintenance.from_mapping(told, request).max_wait_seconds == 0.5


@pytest.mark.parametrize("value", [-1, "3600", True, None, float("nan"), float("inf")])
def test_a_wait_that_is_no_number_of_seconds_is_an_import_error(maintain, retract, value):
    for build in (maintain, retract):
        with pytest.raises(RequestError, match="'max_wait_seconds' must be a number of at least 0"):
            build(max_wait_seconds=value)


def test_results_of_other_tasks_may_stand_for_arguments():
    from airflow.sdk import DAG, task

    with DAG("d", schedule=None):

        @task
        def tell() -> Any: ...

        retract = DcRetractLoadOperator(task_id="retract", state=tell(), load_id=tell())
        rebuild = DcMaintainOperator(
            task_id="rebuild", action="rebuild", state=tell(), table={"path": tell()}, mask=tell()
        )
    assert retract.upstream_task_ids == {"tell", "tell__1"}
    assert rebuild.upstream_task_ids == {"tell__2", "tell__3", "tell__4"}
