"""The engine's zip, and the exchange folder."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import fsspec
import pytest

import dc_engine
from airflow_dc_provider.runs import exchange
from dc_engine.shipping import application, build_engine_zip


def test_the_zip_holds_every_source_of_the_engine_and_nothing_else(tmp_path):
    package = Path(dc_engine.__file__).parent
    with zipfile.ZipFile(build_engine_zip(tmp_path)) as archive:
        names = set(archive.namelist())
    assert names == {f"dc_engine/{path.relative_to(package)}" for path in package.rglob("*.py")}
    assert "dc_engine/verdict.py" in names


def test_the_same_sources_give_the_same_bytes(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert build_engine_zip(tmp_path / "a").read_bytes() == build_engine_zip(tmp_path / "b").read_bytes()


def test_the_zip_can_be_imported_from(tmp_path):
    archive = build_engine_zip(tmp_path)
    script = f"import sys; sys.path.insert(0, {str(archive)!r}); import dc_engine.verdict as v; print(v.__file__)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() == f"{archive}/dc_engine/verdict.py"


def test_kernels_are_compiled_once_a_machine_although_they_come_in_a_zip(tmp_path):
    archive = build_engine_zip(tmp_path)
    kernels = {path.name for path in (Path(dc_engine.__file__).parent / "kernels").glob("*.py")} - {"__init__.py"}
    script = "import dc_engine.kernels as k; print(k.__file__); print(*k.__path__)"
    environment = {**os.environ, "PYTHONPATH": str(archive), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path, env=environment
    )
    package, settled = done.stdout.splitlines()
    assert package.startswith(str(archive))
    assert Path(settled).is_relative_to(tmp_path / "cache")
    assert {path.name for path in Path(settled).iterdir()} == kernels


def test_the_application_is_part_of_the_installed_engine():
    assert Path(application()).parent == Path(dc_engine.__file__).parent


@pytest.mark.parametrize("scheme", ["", "file://", "memory://"])
def test_documents_are_exchanged_on_any_filesystem(tmp_path, scheme):
    state = f"{scheme}{tmp_path}/state/"
    with exchange(state, {"load_id": "one"}) as run:
        assert run.request.startswith(f"{scheme}{tmp_path}/state/runs/")
        assert run.read_result() is None
        with fsspec.open(run.request, "rt") as file:
            assert file.read() == '{"load_id": "one"}'
        with fsspec.open(run.result, "wt") as file:
            file.write('{"schema_version": 1}')
        assert run.read_result() == {"schema_version": 1}
    filesystem, path = fsspec.url_to_fs(state)
    assert not [one for one in filesystem.find(path) if "runs" in one]


def test_the_exchange_folder_goes_even_when_the_job_fails(tmp_path):
    with pytest.raises(RuntimeError, match="killed"), exchange(str(tmp_path), {}):
        raise RuntimeError("killed")
    assert not list((tmp_path / "runs").iterdir())


def test_two_tries_do_not_share_a_folder(tmp_path):
    with exchange(str(tmp_path), {}) as one, exchange(str(tmp_path), {}) as two:
        assert one.result != two.result
