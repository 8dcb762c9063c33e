"""What Airflow sees of the provider, and what importing it costs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

MODULES = ("operators", "sensors", "hooks", "triggers")
APART = ("__init__", "base", "judged", "partial")
"""What users do not import."""
HEAVY = ("pyspark", "numba", "pyarrow", "pandas", "numpy", "great_expectations", "sqlglot")


def modules_after(code: str) -> set[str]:
    script = f"{code}\nimport json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_the_provider_info_fits_airflows_schema():
    import airflow
    import jsonschema

    from airflow_dc_provider.get_provider_info import get_provider_info

    schema = json.loads((Path(airflow.__file__).parent / "provider_info.schema.json").read_text())
    jsonschema.validate(get_provider_info(), schema)


def test_airflow_finds_the_provider_and_its_modules():
    from importlib import import_module

    from airflow.providers_manager import ProvidersManager

    import airflow_dc_provider

    found = ProvidersManager().providers["airflow-dc-provider"]
    assert found.version == airflow_dc_provider.__version__
    for kind in MODULES:
        for entry in found.data[kind]:
            for module in entry["python-modules"]:
                import_module(module)
    for path in (*found.data["extra-links"], *found.data["notifications"]):
        module, _, name = path.rpartition(".")
        assert hasattr(import_module(module), name)


@pytest.mark.parametrize("kind", MODULES)
def test_every_module_with_something_for_users_is_listed(kind):
    """So that ``airflow providers get airflow-dc-provider`` shows all of it."""
    from airflow_dc_provider.get_provider_info import get_provider_info

    (entry,) = get_provider_info()[kind]
    folder = Path(__file__).resolve().parents[2] / "airflow_dc_provider" / kind
    made = {f"airflow_dc_provider.{kind}.{path.stem}" for path in folder.glob("*.py")}
    assert set(entry["python-modules"]) == made - {f"airflow_dc_provider.{kind}.{name}" for name in APART}


def test_airflows_own_command_shows_all_of_it():
    command = [sys.executable, "-m", "airflow", "providers", "get", "airflow-dc-provider", "--full", "--output", "json"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for name in ("operators.gate", "sensors.pending", "triggers.looking", "hooks.state", "DcFailureNotifier"):
        assert name in shown


def test_a_dag_with_all_operators_loads_nothing_heavy():
    alone = modules_after("from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator")
    dag = """
from airflow.sdk import DAG
from airflow_dc_provider.operators.discover import DcDiscoverOperator
from airflow_dc_provider.operators.export_checkpoint import DcExportCheckpointOperator
from airflow_dc_provider.operators.gate import DcGateOperator
from airflow_dc_provider.operators.maintain import DcMaintainOperator
from airflow_dc_provider.operators.retract import DcRetractLoadOperator
from airflow_dc_provider.hooks.state import DcStateHook
from airflow_dc_provider.notifications.failure import DcFailureNotifier
from airflow_dc_provider.sensors.gate import DcGateSensor
from airflow_dc_provider.sensors.pending import DcPendingLoadSensor
from airflow_dc_provider.sensors.verdict import DcVerdictSensor
with DAG("d", schedule=None):
    DcVerdictSensor(task_id="verdict", state="/state", load_id="one")
    pending = DcPendingLoadSensor(task_id="pending", state="/state", path="/landing")
    DcExportCheckpointOperator(task_id="data_docs", state="/state", context_folder="/quality")
    DcRetractLoadOperator(task_id="retract", state="/state", load_id="one")
    DcDiscoverOperator(task_id="discover", state="/state", table={"path": "/table"}, classes=["fd"])
    DcMaintainOperator(task_id="rebuild", action="rebuild", state="/state", table={"path": "/table"})
    DcGateOperator(
        task_id="gate",
        constraints={"version": 1, "table": "t", "constraints": [{"name": "a", "fd": "zip -> city"}]},
        changes={"path": "/landing"},
        state="/state",
    )
"""
    added = {name.partition(".")[0] for name in modules_after(dag) - alone}
    assert not added & set(HEAVY)


def test_what_submits_nothing_does_not_import_what_submits():
    names = ("hooks.state", "sensors.pending", "sensors.verdict", "operators.export_checkpoint", "assets")
    loaded = modules_after("".join(f"import airflow_dc_provider.{name}\n" for name in names))
    assert not [name for name in loaded if name.startswith("airflow.providers.apache.spark.operators")]


@pytest.mark.parametrize("module", ["airflow_dc_provider", "airflow_dc_provider.get_provider_info"])
def test_what_airflow_imports_at_every_start_imports_no_airflow(module):
    assert "airflow" not in modules_after(f"import {module}")
