"""A gate to test: an Airflow home of its own, a fake ``spark-submit`` on PATH, a verdict to answer with."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FAKE_SPARK_SUBMIT = """#!{python}
import json, os, subprocess, sys
from pathlib import Path

here = Path(__file__).parent
if (here / "first.sh").exists():
    subprocess.run(["sh", str(here / "first.sh")], check=True)
answer = json.loads((here / "answer.json").read_text())
arguments = sys.argv[1:]
after = lambda name: arguments[arguments.index(name) + 1] if name in arguments else None
engine = (after("--py-files") or "").split(",")[-1]
options = Path(after("--state-options") or "none")
call = {{
    "state_options": json.loads(options.read_text()) if options.exists() else None,
    "modes": [oct(one.stat().st_mode)[-3:] for one in (options, options.parent) if options.exists()],
    "arguments": arguments,
    "request": json.loads(Path(after("--request")).read_text()),
    "engine_was_there": Path(engine).is_file(),
    "environment": dict(os.environ),
}}
(here / "call.json").write_text(json.dumps(call))
with (here / "loads").open("a") as file:
    print(json.dumps([call["request"].get("load_id"), call["request"].get("changes")]), file=file)
print(answer["say"])
if answer["result"] is not None:
    Path(after("--result")).write_text(answer["result"])
sys.exit(answer["exit"])
"""

LOST = {
    "id": "fd-5e1f5e1f5e1f",
    "class": "fd",
    "text": "zip -> state",
    "formula": "not (t.zip = s.zip and t.state != s.state)",
    "severity": "error",
    "watched": True,
    "violations": 3,
    "example": {
        "t": {"row": {"id": 17}, "values": {"zip": "10115", "state": "BB"}, "rows": 1},
        "s": {"row": {"id": 4}, "values": {"zip": "10115", "state": "BE"}, "rows": 2},
    },
    "instead": [{"id": "fd-1", "text": "zip, city -> state"}],
}
"""A dependency that a load has lost, as a verdict says it."""


class FakeSpark:
    """The fake program's folder: what it shall answer, and how it was called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        program = folder / "spark-submit"
        program.write_text(FAKE_SPARK_SUBMIT.format(python=sys.executable))
        program.chmod(0o755)

    def answers(self, result: dict[str, Any] | str | None, *, exit_code: int = 0, say: str = "a line of Spark") -> None:
        text = json.dumps(result) if isinstance(result, dict) else result
        (self.folder / "answer.json").write_text(json.dumps({"result": text, "exit": exit_code, "say": say}))

    def does_first(self, commands: str) -> None:
        (self.folder / "first.sh").write_text(commands)

    @property
    def was_called(self) -> bool:
        return (self.folder / "call.json").exists()

    @property
    def call(self) -> dict[str, Any]:
        return json.loads((self.folder / "call.json").read_text())

    def loads(self) -> list[tuple[str, str]]:
        """The load and the path of the changes of every call."""
        lines = (self.folder / "loads").read_text().splitlines() if (self.folder / "loads").exists() else []
        return [(load_id, changes["path"]) for load_id, changes in map(json.loads, lines)]

    def forget(self) -> None:
        (self.folder / "loads").unlink(missing_ok=True)

    def conf(self) -> dict[str, str]:
        arguments = self.call["arguments"]
        pairs = (value for name, value in itertools.pairwise(arguments) if name == "--conf")
        return dict(pair.split("=", 1) for pair in pairs)


@pytest.fixture(scope="session")
def outcomes(tmp_path_factory: pytest.TempPathFactory, airflow_database: Path) -> dict[str, Any]:
    """What a real Airflow makes of the DAGs in ``tried_dags.py``; tests of the group ``airflow`` share it."""
    folder = tmp_path_factory.mktemp("tried")
    (folder / "airflow").mkdir()
    shutil.copy(airflow_database, folder / "airflow")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "PYSPARK"))}
    command = [sys.executable, "-m", "tests.operators.tried_dags", folder]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    found = json.loads((folder / "outcomes.json").read_text())
    assert found.pop("import_errors") == {}
    return {**found, "said": done.stdout + done.stderr}


class FakeTaskInstance:
    """Takes what is pushed to XCom, through JSON as Airflow does."""

    def __init__(self) -> None:
        self.pushed: dict[str, Any] = {}

    def xcom_push(self, *, key: str, value: Any) -> None:
        self.pushed[key] = json.loads(json.dumps(value))


@pytest.fixture
def fake_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSpark:
    folder = tmp_path / "bin"
    folder.mkdir()
    spark = FakeSpark(folder)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2]"}')
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    return spark


@pytest.fixture
def ti() -> FakeTaskInstance:
    return FakeTaskInstance()


@pytest.fixture
def rules() -> dict[str, Any]:
    return {
        "version": 1,
        "table": "tax",
        "key": ["id"],
        "constraints": [
            {"name": "zip_decides_city", "fd": "zip -> city", "description": "A zip code lies in one city."},
            {"name": "salary_is_positive", "deny": "t.salary <= 0", "severity": "warn"},
        ],
    }


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state" / "tax"


@pytest.fixture
def gate(rules: dict[str, Any], state: Path, fake_spark: Any) -> Any:
    def build(**arguments: Any) -> Any:
        from airflow_dc_provider.operators.gate import DcGateOperator

        given = {
            "task_id": "gate",
            "constraints": rules,
            "changes": {"path": "/landing/wednesday.parquet"},
            "state": str(state),
            "load_id": "2026-01-03",
            **arguments,
        }
        return DcGateOperator(**given)

    return build


@pytest.fixture
def passing() -> dict[str, Any]:
    """A verdict document as the job writes it: all well."""
    return {
        "schema_version": 1,
        "table": "tax",
        "load_id": "2026-01-03",
        "snapshot": 3,
        "replayed": False,
        "decision": "pass",
        "rows": {"inserted": 1000, "deleted": 0, "total": 22000},
        "constraints": [
            rule("zip_decides_city", "fd", "not (t.zip = s.zip and t.city != s.city)"),
            rule("salary_is_positive", "deny", "not (t.salary <= 0)", severity="warn"),
        ],
        "dependencies": {},
        "seconds": {"read": 0.4, "probe": 0.7, "commit": 0.1, "total": 1.4},
        "notes": [],
        "replaced": False,
        "discarded": False,
        "quarantine": None,
    }


@pytest.fixture
def failing(passing: dict[str, Any]) -> dict[str, Any]:
    """The same, with one rule broken: 31 violations by 4 rows, with two examples out of three."""
    passing["decision"] = "fail"
    passing["constraints"][0] |= {
        "passed": False,
        "new_violations": 31,
        "total_violations": 40,
        "violating_rows": 4,
        "description": "A zip code lies in one city.",
        "samples": [
            _pair({"id": 17, "zip": "10115", "city": "Berln"}, {"id": 3, "zip": "10115", "city": "Berlin"}, 8),
            _pair({"id": 18, "zip": "20095", "city": "Hambrg"}, {"id": 4, "zip": "20095", "city": "Hamburg"}, 1),
            _pair(
                {"id": 19, "zip": "80331", "city": "Muenchn"},
                {"id": 5, "zip": "80331", "city": "Muenchen"},
                1,
            ),
        ],
        "worst_rows": [{"row": {"id": 17}, "violations": 8}, {"row": {"id": 18}, "violations": 1}],
        "violations": "/state/violations/3/zip_decides_city.parquet",
        "violating_rows_listed": ["/state/violations/3/zip_decides_city.rows.parquet"],
    }
    return passing


@pytest.fixture
def quarantined(failing: dict[str, Any]) -> dict[str, Any]:
    """What the failing verdict says of its quarantine."""
    failing["quarantine"] = {
        "violating": "/quarantine/3/violating",
        "clean": "/quarantine/3/clean",
        "violating_rows": 4,
        "clean_rows": 996,
    }
    return failing["quarantine"]


def rule(name: str, kind: str, formula: str, severity: str = "error") -> dict[str, Any]:
    return {
        "name": name,
        "kind": kind,
        "formula": formula,
        "severity": severity,
        "passed": True,
        "new_violations": 0,
        "removed_violations": 0,
        "total_violations": 0,
        "violating_rows": 0,
        "skipped_null_rows": 0,
        "max_new_violations": 0,
        "max_violating_rows": None,
        "description": "",
        "samples": [],
        "worst_rows": [],
        "violations": None,
        "violating_rows_listed": [],
    }


def _pair(t: dict[str, Any], s: dict[str, Any], alike: int) -> dict[str, Any]:
    return {"t": _side(t, 1), "s": _side(s, alike)}


def _side(values: dict[str, Any], rows: int) -> dict[str, Any]:
    read = {name: value for name, value in values.items() if name != "id"}
    return {"row": {"id": values["id"]}, "values": read, "rows": rows}
