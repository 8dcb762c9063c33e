"""What is refused when the DAG is parsed, and what waits until everything is rendered."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, Asset

from airflow_dc_provider.exceptions import DcGateError
from airflow_dc_provider.operators.export_checkpoint import DcExportCheckpointOperator
from airflow_dc_provider.operators.gate import DcGateOperator
from airflow_dc_provider.operators.retract import DcRetractLoadOperator
from dc_engine.errors import ConstraintError, RequestError


@pytest.fixture
def arguments(rules: dict[str, Any]) -> dict[str, Any]:
    return {
        "task_id": "gate",
        "constraints": rules,
        "changes": {"path": "/landing/{{ ds }}.parquet"},
        "state": "/state/tax",
    }


@pytest.mark.parametrize(("map_index", "load_id"), [(-1, "a run"), (None, "a run"), (0, "a run-0"), (12, "a run-12")])
@pytest.mark.parametrize("native", [False, True])
def test_the_load_is_named_after_the_run_and_the_map_index_unless_told(arguments, map_index, load_id, native):
    with DAG("d", schedule=None, render_template_as_native_obj=native):
        operator = DcGateOperator(**{**arguments, "changes": {"path": "/landing"}})
    operator.render_template_fields({"run_id": "a run", "ti": SimpleNamespace(map_index=map_index)})
    assert operator.load_id == load_id


def test_a_mistyped_on_invalidated_gets_a_hint(arguments):
    with pytest.raises(ValueError, match=r"on_invalidated is 'ingore'.*Did you mean 'ignore'\?"):
        DcGateOperator(**arguments, on_invalidated="ingore")


def test_a_mistyped_on_violation_gets_a_hint(arguments):
    with pytest.raises(ValueError, match=r"on_violation is 'wran'.*Did you mean 'warn'\?"):
        DcGateOperator(**arguments, on_violation="wran")


@pytest.mark.parametrize("name", ["application", "application_args", "java_class", "durable", "reconnect_on_retry"])
def test_what_the_gate_sets_itself_is_refused(arguments, name):
    with pytest.raises(ValueError, match=f"sets '{name}' itself"):
        DcGateOperator(**arguments, **{name: "x"})


@pytest.mark.parametrize("state", ["state/tax", "./tax", ""])
def test_a_relative_state_is_refused(arguments, state):
    with pytest.raises(RequestError, match="must be an absolute path or a URI"):
        DcGateOperator(**{**arguments, "state": state})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "no source"),
        ({"path": "a", "table": "b"}, "path and table"),
        ({"path": "a", "fromat": "csv"}, "Unknown key 'fromat'.*Did you mean 'format'"),
    ],
)
def test_changes_are_checked(arguments, changes, message):
    with pytest.raises(RequestError, match=message):
        DcGateOperator(**{**arguments, "changes": changes})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_listed", -1),
        ("max_samples", "many"),
        ("mask", "ssn"),
        ("quarantine", "bad"),
        ("table", {"path": 3}),
        ("max_wait_seconds", -1),
        ("max_wait_seconds", "3600"),
        ("max_wait_seconds", True),
        ("max_wait_seconds", None),
        ("max_wait_seconds", float("nan")),
        ("max_wait_seconds", float("inf")),
        ("engine", None),
    ],
)
def test_other_arguments_are_checked(arguments, name, value):
    with pytest.raises(RequestError, match=name):
        DcGateOperator(**arguments, **{name: value})


@pytest.mark.parametrize(
    ("name", "value", "meant"),
    [
        ("rejected_load", "discrad", "discard"),
        ("missing_deletes", "ignor", "ignore"),
        ("duplicate_keys", "replaced", "replace"),
        ("engine", "lokal", "local"),
    ],
)
def test_mistyped_choices_get_a_hint(arguments, name, value, meant):
    with pytest.raises(RequestError, match=rf"'{name}'.*{value}.*Did you mean '{meant}'\?"):
        DcGateOperator(**arguments, **{name: value})


@pytest.mark.parametrize(
    ("wrong", "message", "hint"),
    [
        ({"rejected_load": "drop"}, "'rejected_load' in the request is 'drop', and must be one of keep, discard.", ""),
        ({"mask": "city"}, "'mask' in the request must be a list of column names, not 'city'.", "Write ['city']."),
        (
            {"changes": {}},
            "'changes' gives no source; exactly one of path, table, sql is needed.",
            'A file or folder: {"path": "/landing/monday.csv", "format": "csv"}.',
        ),
    ],
)
def test_the_cure_stands_beside_what_is_wrong(arguments, wrong, message, hint):
    with pytest.raises(RequestError) as caught:
        DcGateOperator(**{**arguments, **wrong})
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_the_table_is_checked_like_the_changes(arguments):
    with pytest.raises(RequestError, match="'table' gives path and sql"):
        DcGateOperator(**arguments, table={"path": "/lake/tax", "sql": "select 1"})


@pytest.mark.parametrize("quarantine", ["quarantine/tax", "{{ later }}"])
def test_a_relative_quarantine_is_refused_before_spark_starts(arguments, quarantine, fake_spark, ti):
    def build_and_run():
        operator = DcGateOperator(**arguments, quarantine=quarantine, load_id="one")
        operator.render_template_fields({"later": "quarantine/tax"})
        operator.execute({"ti": ti})

    with pytest.raises((RequestError, DcGateError), match="quarantine is 'quarantine/tax', and must be an absolute"):
        build_and_run()
    assert not fake_spark.was_called


BAD_IDS = {
    "\ud800": r"The load_id '\\ud800' cannot be written as UTF-8",
    "a\nb": r"The load_id 'a\\nb' has line breaks or other unprintable characters",
    "\x1b[2J": r"The load_id '\\x1b\[2J' has line breaks",
    "x" * 301: r"The load_id 'x{60}\.\.\.' has 301 characters, more than the 300 allowed",
    " ": "'load_id' in request must be a non-empty text",
}


@pytest.mark.parametrize("load_id", BAD_IDS, ids=ascii)
def test_a_load_id_that_cannot_stand_in_every_log_is_refused(arguments, load_id):
    with pytest.raises(RequestError, match=BAD_IDS[load_id]):
        DcGateOperator(**arguments, load_id=load_id)
    with pytest.raises(RequestError, match=BAD_IDS[load_id]):
        DcRetractLoadOperator(task_id="retract", state="/state/tax", load_id=load_id)
    with pytest.raises(RequestError, match=BAD_IDS[load_id]):
        DcExportCheckpointOperator(task_id="export", state="/state/tax", context_folder="/quality", load_id=load_id)


@pytest.mark.parametrize("load_id", [*BAD_IDS, None], ids=ascii)
def test_a_template_that_renders_to_such_an_id_is_refused_before_spark_starts(arguments, load_id, fake_spark, ti):
    places = {"task_id": "other", "state": "/state/tax", "load_id": "{{ load }}"}
    message = BAD_IDS.get(load_id, "must be a non-empty text, not None")
    for task in (
        DcGateOperator(**{**arguments, "changes": {"path": "/landing"}, "load_id": "{{ load }}"}),
        DcRetractLoadOperator(**places),
        DcExportCheckpointOperator(**places, context_folder="/quality"),
    ):
        task.load_id = load_id
        with pytest.raises(DcGateError, match=message):
            task.execute({"ti": ti})
    assert not fake_spark.was_called


@pytest.mark.parametrize("load_id", ["x" * 300, "Größe 東京 🎉", "{% set x = 1 %}\n{{ x }}" + "{# a remark #}" * 30])
def test_any_other_load_id_is_taken(arguments, load_id):
    DcGateOperator(**arguments, load_id=load_id)


def test_bad_constraints_are_an_import_error(arguments, rules):
    rules["constraints"][0]["fd"] = "zip city"
    with pytest.raises(ConstraintError, match="zip_decides_city"):
        DcGateOperator(**arguments)


def test_a_bad_constraint_file_is_an_import_error_that_names_it(arguments, tmp_path):
    path = tmp_path / "rules.yml"
    path.write_text("version: 1\ntable: tax\nconstraints:\n  - {name: a, uniqe: [b]}\n")
    with pytest.raises(ConstraintError, match=r"rules\.yml"):
        DcGateOperator(**{**arguments, "constraints": str(path)})


class TestRefusedWhenTheDagIsParsed:
    def test_a_constraint_file_that_does_not_exist(self, arguments, tmp_path):
        (tmp_path / "rules.yml").touch()
        given = {**arguments, "constraints": str(tmp_path / "ruels.yml")}
        with pytest.raises(ConstraintError, match=r"(?s)ruels\.yml: there is no such .*Did you mean 'rules\.yml'\?"):
            DcGateOperator(**given)
        del given["changes"]
        with DAG("d", schedule=None), pytest.raises(ConstraintError, match="there is no such constraint file"):
            DcGateOperator.partial(**given).expand(changes=[{"path": "/a"}])

    def test_one_beside_the_dag_file_too(self, arguments, tmp_path):
        with DAG("d", schedule=None) as dag:
            dag.fileloc = str(tmp_path / "dag.py")
            with pytest.raises(ConstraintError, match=rf"{tmp_path}/rules\.yml: there is no such constraint file"):
                DcGateOperator(**{**arguments, "constraints": "rules.yml"})

    @pytest.mark.parametrize("constraints", ["{{ var.value.rules }}", "s3://nowhere/rules.yml", "rules.yml"])
    def test_not_one_that_is_known_later(self, arguments, constraints):
        """A template, another filesystem, and a relative path before the task is in a DAG."""
        DcGateOperator(**{**arguments, "constraints": constraints})

    def test_a_load_without_a_name(self, arguments):
        with pytest.raises(RequestError, match="load_id is None") as caught:
            DcGateOperator(**{**arguments, "load_id": None})
        assert "Leave load_id out" in caught.value.hint
        mapped = {name: value for name, value in arguments.items() if name != "changes"}
        with DAG("d", schedule=None), pytest.raises(RequestError, match="load_id is None"):
            DcGateOperator.partial(**{**mapped, "load_id": None}).expand(changes=[{"path": "/a"}])

    def test_changes_that_are_a_path_are_told_how_to_write_it(self, arguments):
        with pytest.raises(RequestError, match="'changes' is a text") as caught:
            DcGateOperator(**{**arguments, "changes": "/landing/tax"})
        assert 'Write {"path": "/landing/tax"}' in caught.value.hint

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"response_timeout": timedelta(hours=1)}, "need on_violation='ask'"),
            ({"assigned_users": [{"id": "ada", "name": "Ada"}]}, "need on_violation='ask'"),
            ({"on_violation": "ask", "response_timeout": timedelta()}, "must be a positive timedelta"),
            ({"on_violation": "ask", "response_timeout": 60}, "must be a positive timedelta"),
            ({"on_violation": "ask", "assigned_users": ["ada"]}, "each is a mapping"),
            ({"assigned_users": None}, "assigned_users is None, and must be a list"),
            ({"on_violation": "ask", "notifiers": print}, "notifiers is .* and must be a list"),
            ({"on_violation": "ask", "notifiers": ["me"]}, "notifiers has 'me'; each is one of Airflow's notifiers"),
            ({"asset": "tax"}, "must be an Asset"),
            ({"asset": Asset("tax"), "outlets": [Asset("tax")]}, "is in 'outlets' too"),
        ],
    )
    def test_what_does_not_fit_together(self, arguments, wrong, message):
        with pytest.raises((ValueError, TypeError), match=message):
            DcGateOperator(**arguments, **wrong)


def test_a_constraint_file_may_be_a_uri(arguments, fake_spark, ti, passing, tmp_path):
    fake_spark.answers(passing)
    (tmp_path / "rules.yml").write_text("version: 1\ntable: tax\nconstraints:\n  - {name: a, unique: [b]}\n")
    given = {"constraints": f"file://{tmp_path}/rules.yml", "state": str(tmp_path / "state")}
    DcGateOperator(**{**arguments, **given}).execute({"ti": ti})
    assert fake_spark.call["request"]["constraints"]["constraints"][0]["name"] == "a"


def test_templated_constraints_wait_for_rendering(arguments, rules):
    rules["constraints"][1]["deny"] = "t.salary <= {{ params.least }}"
    DcGateOperator(**arguments)
    DcGateOperator(**{**arguments, "constraints": "/rules/{{ params.table }}.yml"})


def test_every_argument_that_depends_on_the_run_is_rendered(arguments, fake_spark, ti, passing, rules, tmp_path):
    fake_spark.answers(passing)
    rules["table"] = "{{ table }}"
    given = {
        "state": str(tmp_path / "{{ table }}"),
        "load_id": "{{ table }}-{{ ds }}",
        "mask": ["{{ table }}_ssn"],
        "table": {"path": "/lake/{{ table }}"},
        "quarantine": "/quarantine/{{ table }}",
        "conf": {"spark.x": "{{ ds }}"},
    }
    operator = DcGateOperator(**{**arguments, **given})
    operator.render_template_fields({"ds": "2026-01-03", "table": "tax"})
    operator.execute({"ti": ti})
    request = fake_spark.call["request"]
    assert request["state"] == str(tmp_path / "tax")
    assert request["load_id"] == "tax-2026-01-03"
    assert request["changes"]["path"] == "/landing/2026-01-03.parquet"
    assert request["mask"] == ["tax_ssn"]
    assert request["table"]["path"] == "/lake/tax"
    assert request["quarantine"] == "/quarantine/tax"
    assert request["constraints"]["table"] == "tax"
    assert fake_spark.conf()["spark.x"] == "2026-01-03"


def test_results_of_other_tasks_may_stand_for_any_argument(rules):
    from airflow.sdk import DAG, task

    with DAG("d", schedule=None):

        @task
        def tell() -> Any: ...

        gate = DcGateOperator(
            task_id="gate",
            constraints=tell(),
            changes={"path": tell()},
            state=tell(),
            load_id=tell(),
            mask=tell(),
            table={"path": tell()},
            quarantine=tell(),
        )
        DcGateOperator(task_id="other", constraints=rules, changes=tell(), state="/state/tax")
    assert gate.upstream_task_ids == {"tell", *(f"tell__{number}" for number in range(1, 7))}


def test_default_args_reach_the_gate_and_its_parent(arguments):
    with DAG("d", schedule=None, default_args={"on_violation": "warn", "conf": {"spark.x": "y"}, "durable": True}):
        gate = DcGateOperator(**arguments)
    assert (gate.on_violation, gate.conf, gate.durable) == ("warn", {"spark.x": "y"}, False)


def test_gates_can_be_mapped(arguments):
    changes = arguments.pop("changes")
    with DAG("d", schedule=None):
        mapped = DcGateOperator.partial(**arguments).expand(changes=[changes])
    assert mapped.task_id == "gate"


def test_a_dag_with_a_gate_survives_serialisation(arguments):
    from airflow.sdk import DAG
    from airflow.serialization.serialized_objects import DagSerialization

    with DAG("d", schedule=None) as dag:
        DcGateOperator(**arguments)
    again = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))
    assert again.get_task("gate").task_type == "DcGateOperator"


def test_a_relative_constraint_file_starts_at_the_dag_file(arguments, tmp_path: Path):
    (tmp_path / "rules.yml").write_text("version: 1\ntable: tax\nconstraints: oops\n")
    with DAG("d", schedule=None) as dag:
        dag.fileloc = str(tmp_path / "dag.py")
        with pytest.raises(ConstraintError, match=r"rules\.yml"):
            DcGateOperator(**{**arguments, "constraints": "rules.yml"})
