"""Checkpoints in other processes: fresh ones with and without the package, several at once, and killed ones."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import great_expectations as gx
import pytest
import yaml

from airflow_dc_provider.checkpoints import contexts, definitions, guard
from airflow_dc_provider.checkpoints.contexts import opened
from airflow_dc_provider.checkpoints.export import Exported, export_checkpoint
from dc_engine.errors import StateError
from tests.checkpoints.verdicts import RULES, verdict
from tests.faults.states import at_once, start

pytestmark = pytest.mark.xdist_group("gx")
REPOSITORY = Path(__file__).resolve().parents[2]
BROKEN = {"zip_decides_city": 31}
PROCESS = """
import json, sys
{before}
import great_expectations as gx

def run(folder, **given):
    try:
        context = gx.get_context(mode="file", project_root_dir=folder)
        result = context.checkpoints.get("dcgate.tax").run(**given)
    except Exception as error:
        return {{"error": f"{{type(error).__name__}}: {{error}}"}}
    (validated,) = result.run_results.values()
    return {{"success": result.success, "judged": [one.expectation_config.type for one in validated.results]}}

assert not any(name.startswith("airflow_dc_provider.") for name in sys.modules)
print("\\n" + json.dumps([run(folder, **given) for folder, given in json.loads(sys.argv[1])]))
"""
WITHOUT_THE_PACKAGE = """
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("airflow_dc_provider", "dc_engine"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refuse())
"""


def in_a_fresh_process(*runs: tuple[Path, dict[str, Any]], before: str = "") -> list[dict[str, Any]]:
    """What became of runs of the checkpoint, one after the other, in a process that has imported nothing."""
    done = subprocess.run(
        [sys.executable, "-c", PROCESS.format(before=before), json.dumps([[str(path), given] for path, given in runs])],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def configuration(folder: Path) -> dict[str, Any]:
    return yaml.safe_load((folder / "gx" / "great_expectations.yml").read_text())


@pytest.fixture
def two_loads(folder: Path) -> Path:
    """A context in which monday is green, and tuesday, the latest load, is red."""
    export_checkpoint(verdict(), folder)
    export_checkpoint(verdict("tuesday", 2, broken=BROKEN), folder)
    return folder


def hung(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A process that got stuck in the middle of an export to a folder, and holds it."""
    there = multiprocessing.get_context("fork").Event()

    def hang(*_: Any) -> None:
        there.set()
        time.sleep(600)

    with monkeypatch.context() as patch:
        patch.setattr(definitions, "checkpoint", hang)
        child = start(lambda: export_checkpoint(verdict(table="people"), folder))
    assert there.wait(300)
    return child.process


class TestAFreshProcess:
    def test_it_judges_the_verdict_also_where_the_folder_was_moved_to(self, two_loads: Path, tmp_path: Path) -> None:
        moved = tmp_path / "elsewhere" / "quality of data"
        copied = tmp_path / "copy"
        shutil.copytree(two_loads, copied)
        shutil.copytree(two_loads, moved)
        shutil.rmtree(two_loads)
        export_checkpoint(verdict("wednesday", 3), copied)
        monday = {"batch_parameters": {"path": "monday.jsonl"}}
        *found, latest = in_a_fresh_process((moved, {}), (moved, monday), (copied, {}))
        assert [one.get("success") for one in (*found, latest)] == [False, True, True]
        for one in (*found, latest):
            assert one["judged"].count("expect_denial_constraint_to_hold") == len(RULES)
            assert len(one["judged"]) == len(RULES) + 5
        datasource = gx.get_context(mode="file", project_root_dir=moved).data_sources.get("dcgate.tax")
        assert datasource.base_directory == moved / "gx" / "dcgate" / "tax"

    def test_without_the_package_it_never_passes(self, two_loads: Path, tmp_path: Path) -> None:
        stripped = tmp_path / "stripped"
        shutil.copytree(two_loads, stripped)
        changed = configuration(stripped)
        del changed["stores"][guard.STORE]
        (stripped / "gx" / "great_expectations.yml").write_text(yaml.safe_dump(changed))
        refused, alone = in_a_fresh_process((two_loads, {}), (stripped, {}), before=WITHOUT_THE_PACKAGE)
        assert "airflow_dc_provider" in refused["error"]
        assert alone["success"] is False
        assert len(alone["judged"]) == 4


class TestSeveralAtOnce:
    def test_each_has_its_way(self, folder: Path, open_context: Callable[[], Any]) -> None:
        given = [
            verdict(),
            verdict("tuesday", 2, broken=BROKEN),
            verdict("monday", 1, table="people"),
            verdict("monday", 1, table="orders", broken=BROKEN),
            verdict("monday", 1, table="orders", broken=BROKEN),
        ]
        results = at_once([lambda one=one: export_checkpoint(one, folder) for one in given])
        assert all(isinstance(one, Exported) for one in results), results
        assert [one.success for one in results] == [True, False, True, False, False]
        assert [one.repeated for one in results].count(True) == 1
        index = Path(results[0].index.removeprefix("file://"))
        for one in results:
            page = Path(one.docs.removeprefix("file://"))
            assert page.exists()
            assert page.relative_to(index.parent).as_posix() in index.read_text()
        tables = ("orders", "people", "tax")
        assert sorted(configuration(folder)["fluent_datasources"]) == [f"dcgate.{table}" for table in tables]
        context = open_context()
        assert sorted(one.name for one in context.checkpoints.all()) == [f"dcgate.{table}" for table in tables]
        runs = [key.run_id.run_name for key in context.validation_results_store.list_keys()]
        assert sorted(runs) == ["monday_v1", "monday_v1", "monday_v1", "tuesday_v2"]
        latest = [context.checkpoints.get(f"dcgate.{table}").run().success for table in tables]
        assert latest == [False, True, False]

    def test_one_that_hangs_is_waited_for_until_it_is_dead(
        self, folder: Path, open_context: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        export_checkpoint(verdict(), folder)
        stuck = hung(folder, monkeypatch)
        monkeypatch.setattr(contexts, "PATIENCE", 0.2)
        for same in (folder, folder / "gx", f"file://{folder}", open_context()):
            with pytest.raises(StateError, match=r"in use by another export") as caught:
                export_checkpoint(verdict("tuesday", 2), same)
            assert str(folder / "gx") in str(caught.value)
        os.kill(stuck.pid, signal.SIGKILL)
        stuck.join(30)
        assert export_checkpoint(verdict("tuesday", 2, table="people"), folder).success
        assert export_checkpoint(verdict("tuesday", 2, broken=BROKEN), folder).success is False
        context = open_context()
        assert sorted(one.name for one in context.checkpoints.all()) == ["dcgate.people", "dcgate.tax"]
        assert context.checkpoints.get("dcgate.people").run().success

    def test_threads_do_not_get_into_each_others_context(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folders = [tmp_path / "a", tmp_path / "b"]
        both, met = threading.Barrier(2), []
        real = definitions.suite

        def suite(*given: Any) -> Any:
            with suppress(threading.BrokenBarrierError):
                met.append(both.wait(0.5))
            return real(*given)

        monkeypatch.setattr(definitions, "suite", suite)
        threads = [
            threading.Thread(target=export_checkpoint, args=(verdict(table=folder.name), folder)) for folder in folders
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not met
        for folder in folders:
            assert list(configuration(folder)["fluent_datasources"]) == [f"dcgate.{folder.name}"]
            context = gx.get_context(mode="file", project_root_dir=folder)
            assert [one.name for one in context.suites.all()] == [f"dcgate.{folder.name}"]
            assert context.checkpoints.get(f"dcgate.{folder.name}").run().success

    def test_the_callers_own_context_stays_the_current_one(self, folder: Path, tmp_path: Path) -> None:
        own = gx.get_context(mode="file", project_root_dir=tmp_path / "own")
        export_checkpoint(verdict(), folder)
        with opened(folder, {}), pytest.raises(StateError), opened(tmp_path, {}):
            raise StateError("an export that fails", hint="")
        assert gx.data_context.data_context.context_factory.project_manager.get_current_project() is own
