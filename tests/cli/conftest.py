"""A small state with a load that passes and one that fails, and the command in this process."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest

from dc_engine.apply_load import apply_load
from dc_engine.cli import main
from dc_engine.cli.session import Sessions
from tests.inprocess import Session, Source

RULES = """\
version: 1
table: orders
key: [id]
constraints:
  - name: one_amount
    fd: customer -> amount
  - name: positive
    deny: t.amount <= 0
    severity: warn
"""
TYPES = {"id": "bigint", "customer": "string", "amount": "bigint"}


class Done(NamedTuple):
    code: int
    out: str
    err: str


Dcgate = Callable[..., Done]


@pytest.fixture(scope="session")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("begun")
    (folder / "rules.yml").write_text(RULES)
    (folder / "orders.csv").write_text("id,customer,amount\n1,a,700\n2,b,3\n")
    days = {
        "mon": {"id": [1, 2], "customer": ["a", "b"], "amount": [700, 3]},
        "tue": {"id": [3, 4], "customer": ["a", "it's"], "amount": [70, -1]},
    }
    session = Session({day: Source(pa.table(rows), TYPES) for day, rows in days.items()})
    for day in days:
        request = {"state": str(folder / "state"), "load_id": day, "changes": {"path": day}}
        apply_load(session, {**request, "constraints": str(folder / "rules.yml")})
    return folder


@pytest.fixture
def folder(begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the command runs: ``state``, ``rules.yml`` and ``orders.csv``."""
    shutil.copytree(begun, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.fixture
def dcgate(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Dcgate:
    """The command, where no Spark may be started."""

    def started(_: Sessions) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(Sessions, "start", started)

    def call(*arguments: str) -> Done:
        code = main([*arguments])
        return Done(code, *capsys.readouterr())

    return call
