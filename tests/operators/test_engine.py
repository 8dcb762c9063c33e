"""The engine's zip, and the exchange folder."""

from __future__ import annotations

import os
import shutil
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


def begun(archive: Path, script: str, cache: Path) -> subprocess.Popen[str]:
    """A process that finds the engine in a zip alone."""
    environment = {**os.environ, "PYTHONPATH": str(archive), "XDG_CACHE_HOME": str(cache)}
    return subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=archive.parent, env=environment
    )


def said(process: subprocess.Popen[str]) -> list[str]:
    """The lines that it writes."""
    output, _ = process.communicate()
    assert process.returncode == 0
    return output.splitlines()


FOUND = "import dc_engine.detection.codes as c, os; print(c.__file__); print(os.path.exists(c.__cached__))"
KERNELS = "import dc_engine.kernels as k; print(k.__path__[0])"


def test_the_engine_in_a_zip_is_compiled_once_a_machine(tmp_path):
    archive, cache = build_engine_zip(tmp_path), tmp_path / "cache"
    first = [begun(archive, FOUND, cache) for _ in range(3)]  # at the same time
    found = [said(one) for one in first]
    assert found == [found[0]] * 3
    assert said(begun(archive, FOUND, cache)) == found[0]
    (folder,) = (cache / "airflow-dc-provider").iterdir()
    assert found[0] == [f"{folder}/dc_engine/detection/codes.py", "True"]
    with zipfile.ZipFile(archive) as zipped:
        for name in zipped.namelist():
            if "kernels/" not in name:
                assert (folder / name).read_bytes() == zipped.read(name)
    assert not (folder / "dc_engine" / "kernels").exists()


def test_what_was_cleared_of_the_cache_or_is_not_whole_is_written_again(tmp_path):
    archive, cache = build_engine_zip(tmp_path), tmp_path / "cache"
    script = f"{FOUND}; {KERNELS}"
    before = said(begun(archive, script, cache))
    engine, kernels = Path(before[0]).parents[1], Path(before[2])
    (kernels / "pairs.py").unlink()
    (engine / "detection" / "codes.py").write_bytes(b"")
    shutil.rmtree(engine / "discovery")
    assert said(begun(archive, f"{script}; import dc_engine.discovery.keeping", cache)) == before
    with zipfile.ZipFile(archive) as zipped:
        for file in (engine / "detection" / "codes.py", engine / "discovery" / "boxes.py", kernels / "pairs.py"):
            name = f"dc_engine/kernels/{file.name}" if file.parent == kernels else f"{file.relative_to(engine.parent)}"
            assert file.read_bytes() == zipped.read(name)


def test_a_cache_that_another_user_made_is_not_read(tmp_path):
    archive, cache = build_engine_zip(tmp_path), tmp_path / "cache"
    said(begun(archive, f"{FOUND}; {KERNELS}", cache))
    script = f"import os; os.getuid = lambda: {os.getuid() + 1}; {FOUND}; {KERNELS}"
    assert said(begun(archive, script, cache)) == inside(archive)


def inside(archive: Path) -> list[str]:
    """What is said of an engine that is imported from its zip."""
    return [f"{archive}/dc_engine/detection/codes.py", "False", f"{archive}/dc_engine/kernels"]


def test_where_nothing_can_be_kept_the_engine_is_imported_from_its_zip(tmp_path):
    archive, cache = build_engine_zip(tmp_path), tmp_path / "cache"
    cache.write_text("no folder")
    assert said(begun(archive, f"{FOUND}; {KERNELS}", cache)) == inside(archive)


def test_kernels_are_compiled_once_a_machine_although_they_come_in_a_zip(tmp_path):
    archive = build_engine_zip(tmp_path)
    kernels = {path.name for path in (Path(dc_engine.__file__).parent / "kernels").glob("*.py")} - {"__init__.py"}
    (settled,) = said(begun(archive, KERNELS, tmp_path / "cache"))
    assert Path(settled).is_relative_to(tmp_path / "cache")
    assert {path.name for path in Path(settled).glob("*.py")} == kernels


def test_another_version_of_the_engine_leaves_kernels_that_are_the_same_compiled(tmp_path):
    archive, other, cache = build_engine_zip(tmp_path), tmp_path / "other.zip", tmp_path / "cache"
    with zipfile.ZipFile(archive) as one, zipfile.ZipFile(other, "w") as another:
        for name in one.namelist():
            more = b"OTHER = True\n" if name == "dc_engine/detection/codes.py" else b""
            another.writestr(name, one.read(name) + more)
    script = f"{FOUND}; {KERNELS}"
    before, after = said(begun(archive, script, cache)), said(begun(other, script, cache))
    assert before[0] != after[0]
    assert Path(after[0]).read_text().endswith("OTHER = True\n")
    assert before[2] == after[2]


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
