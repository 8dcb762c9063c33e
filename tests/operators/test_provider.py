"""What Airflow sees of the provider, and what importing it costs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

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
    for entry in found.data["operators"]:
        for module in entry["python-modules"]:
            import_module(module)
    (link,) = found.data["extra-links"]
    module, _, name = link.rpartition(".")
    assert hasattr(import_module(module), name)


def test_a_dag_with_all_operators_loads_nothing_heavy():
    alone = modules_after("from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator")
    dag = """
from airflow.sdk import DAG
from airflow_dc_provider.operators.discover import DcDiscoverOperator
from airflow_dc_provider.operators.export_checkpoint import DcExportCheckpointOperator
from airflow_dc_provider.operators.gate import DcGateOperator
from airflow_dc_provider.operators.maintain import DcMaintainOperator
from airflow_dc_provider.operators.retract import DcRetractLoadOperator
with DAG("d", schedule=None):
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


@pytest.mark.parametrize("module", ["airflow_dc_provider", "airflow_dc_provider.get_provider_info"])
def test_what_airflow_imports_at_every_start_imports_no_airflow(module):
    assert "airflow" not in modules_after(f"import {module}")
