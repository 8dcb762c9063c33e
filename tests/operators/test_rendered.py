"""What Airflow shows under Rendered Templates: the rules that judged, and only arguments that are set."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from airflow.sdk import DAG
from airflow.sdk.execution_time.task_runner import _serialize_rendered_fields

from airflow_dc_provider.exceptions import DcGateError
from airflow_dc_provider.operators.gate import DcGateOperator
from airflow_dc_provider.operators.maintain import DcMaintainOperator

RULES = "# Written by Ada.\nversion: 1\ntable: tax\nconstraints:\n  - {name: a, unique: [b]}\n"


@pytest.fixture
def context():
    return {"run_id": "a run", "ds": "2026-01-03", "ti": SimpleNamespace(map_index=-1)}


def test_a_file_is_shown_by_its_content_and_judges_by_it(tmp_path, gate, fake_spark, ti, passing, context):
    (tmp_path / "rules.yml").write_text(RULES)
    fake_spark.answers(passing)
    with DAG("d", schedule=None) as dag:
        dag.fileloc = str(tmp_path / "dag.py")
        task = gate(constraints="rules.yml", load_id="{{ ds }}", conf={"spark.x": "{{ ds }}"})
    task = task.prepare_for_execution()
    task.render_template_fields(context)
    shown = _serialize_rendered_fields(task)
    assert shown["constraints"] == RULES
    assert (shown["load_id"], shown["conf"]) == ("2026-01-03", {"spark.x": "2026-01-03"})
    assert set(shown) == {"constraints", "changes", "load_id", "state", "name", "conf"}
    task.execute({"ti": ti})
    assert fake_spark.call["request"]["constraints"]["constraints"][0]["name"] == "a"
    assert "env_vars" in DcGateOperator.template_fields, "what is set is rendered as before"


def test_a_mapping_is_shown_as_a_file_would_have_it(gate, rules, context):
    task = gate()
    task.render_template_fields(context)
    shown = _serialize_rendered_fields(task)["constraints"]
    assert shown.startswith("version: 1\ntable: tax\nkey:\n- id\nconstraints:\n- name: zip_decides_city\n")


def test_a_template_that_names_no_file_is_a_clear_error(gate, context, tmp_path):
    task = gate(constraints=str(tmp_path) + "/{{ ds }}.yml")
    with pytest.raises(DcGateError, match=r"2026-01-03\.yml: there is no such constraint file"):
        task.render_template_fields(context)


def test_other_tasks_list_what_is_set_too(context):
    task = DcMaintainOperator(task_id="verify", action="verify", state="/state/{{ ds }}")
    task.render_template_fields(context)
    assert _serialize_rendered_fields(task) == {"state": "/state/2026-01-03", "name": "dc_maintain"}
