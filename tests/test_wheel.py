"""The wheel and the sdist: what is in them, and whether an installed wheel finds its engine."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("packaging")


@pytest.fixture(scope="module")
def built(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    target = tmp_path_factory.mktemp("dist")
    uv = Path(sys.executable).parent / "uv"
    command = [uv, "build", "--out-dir", target, "--python", sys.executable, repository]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {path.suffix: path for path in target.iterdir() if path.suffix in (".whl", ".gz")}


SHOWN = ("airflow_dc_provider/pages/static/", "airflow_dc_provider/pages/templates/")
LOOKS = ("static/review.css", "static/review.js", "templates/page.html", "templates/verdict.html")
"""Some of what pages are made of."""


def sources(folder: Path, package: str) -> set[str]:
    return {str(path.relative_to(folder)) for path in (folder / package).rglob("*.py")}


def test_the_wheel_has_both_packages_their_types_and_the_licence(built, repository):
    with zipfile.ZipFile(built[".whl"]) as wheel:
        names = set(wheel.namelist())
        metadata = next(name for name in names if name.endswith(".dist-info/METADATA"))
        facts = wheel.read(metadata).decode()
        entry_points = wheel.read(metadata.replace("METADATA", "entry_points.txt")).decode()
    code = {name for name in names if ".dist-info/" not in name}
    typed = {"airflow_dc_provider/py.typed", "dc_engine/py.typed"}
    engine = sources(repository / "spark_jobs", "dc_engine")
    pages = {f"airflow_dc_provider/pages/{one}" for one in LOOKS}
    assert {
        name for name in code if name.startswith("airflow_dc_provider/pages/") and not name.endswith(".py")
    } >= pages
    assert {name for name in code if not name.startswith(SHOWN)} == (
        sources(repository, "airflow_dc_provider") | engine | typed
    )
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    for line in (
        "Name: airflow-dc-provider",
        "License-Expression: Apache-2.0",
        "Classifier: Framework :: Apache Airflow :: Provider",
    ):
        assert line in facts
    assert "provider_info = airflow_dc_provider.get_provider_info:get_provider_info" in entry_points
    assert "dcgate = dc_engine.cli:main" in entry_points


def test_the_sdist_has_what_a_person_needs_to_build_and_test(built, repository):
    with tarfile.open(built[".gz"]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    needed = {"pyproject.toml", "LICENSE", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "Makefile"}
    needed |= {"dags_examples/tax_gate.py", "dags_examples/constraints/tax.yml", "docs/operators.md"}
    needed |= sources(repository, "spark_jobs") | sources(repository, "tests")
    assert not needed - names
    assert not [name for name in names if "__pycache__" in name or name.startswith(".venv")]


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory) -> Path:
    """The Python of an environment with the wheel alone; its dependencies, slow to install, are borrowed."""
    environment = tmp_path_factory.mktemp("installed") / "venv"
    uv = Path(sys.executable).parent / "uv"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, environment], check=True)
    python = environment / "bin" / "python"
    subprocess.run([uv, "pip", "install", "--quiet", "--no-deps", "--python", python, built[".whl"]], check=True)
    return python


BORROW = f"import sys; sys.path.append({sysconfig.get_path('purelib')!r})  # after its own: the wheel comes first"


def test_a_dag_folder_may_have_a_spark_jobs_of_its_own(installed, tmp_path):
    """Airflow puts the folder of DAGs at the end of the path, so a package of that name in the wheel would hide it."""
    own = tmp_path / "dags" / "spark_jobs"
    own.mkdir(parents=True)
    (own / "my_job.py").write_text("NAME = 'mine'\n")
    (tmp_path / "dags" / "gated.py").write_text(
        "from airflow.sdk import DAG\n"
        "from airflow_dc_provider.operators.gate import DcGateOperator\n"
        "from spark_jobs.my_job import NAME\n"
        "with DAG('gated'):\n"
        "    DcGateOperator(task_id=NAME, constraints='{{ rules }}', changes={'path': '/landing'}, state='/state')\n"
    )
    script = f"""
{BORROW}
sys.path.append({str(tmp_path / "dags")!r})
import gated
from dc_engine.shipping import application
print(gated.NAME, application())
"""
    done = subprocess.run([installed, "-E", "-c", script], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1].startswith("mine ")


def test_an_installed_wheel_is_found_by_airflow_and_finds_its_engine(installed, tmp_path):
    script = f"""
{BORROW}
import zipfile
from pathlib import Path
from airflow.providers_manager import ProvidersManager
from dc_engine.shipping import application, build_engine_zip
from airflow_dc_provider.operators.gate import DcGateOperator
assert "airflow-dc-provider" in ProvidersManager().providers
assert zipfile.ZipFile(build_engine_zip(Path({str(tmp_path)!r}))).testzip() is None
print(application())
"""
    done = subprocess.run([installed, "-E", "-c", script], cwd=tmp_path, check=True, capture_output=True, text=True)
    found = Path(done.stdout.splitlines()[-1])
    assert found.is_relative_to(installed.parents[1])
    assert found.exists()
