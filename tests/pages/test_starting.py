"""What it costs that there are pages: nothing where nobody asks for them, and no wait for the first who does."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from threading import Event
from typing import Any

import pytest

from airflow_dc_provider.pages import plugin
from tests.operators.test_provider import modules_after

pytestmark = pytest.mark.xdist_group("pages")

_ASK = """
import json, sys
from unittest.mock import patch
from fastapi.testclient import TestClient
from airflow_dc_provider.pages import access, plugin, routes

plugin._prepare()
app, (state, pages) = plugin._pages(), json.loads(sys.argv[1])
app.dependency_overrides[access._readable_dag] = lambda dag_id: dag_id
client = TestClient(app)
client.get("/gates")  # who asks is Airflow's own business
before = set(sys.modules)
with patch.object(routes, "recorded_by", lambda *ids: access.Recorded(*ids, "failed", state)):
    for page, query in pages:
        answer = client.get(page, params={"dag_id": "d", "task_id": "t", "run_id": "r", **query})
        assert answer.status_code == 200, answer.text
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def imported_by_pages(state: str, pages: Sequence[tuple[str, dict[str, Any]]]) -> list[str]:
    """What pages import of which none has been asked for before."""
    command = [sys.executable, "-c", _ASK, json.dumps([state, pages])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_no_page_has_anything_left_to_import(table):
    """So that the first one is as fast as the others."""
    rule = {"load_id": "tuesday", "constraint": "one_city"}
    pages = [
        ("verdict", {"load_id": "tuesday"}),
        ("pairs", rule),
        ("history", {}),
        ("dependencies", {}),
        ("dependencies", {"show": "lost"}),
        ("dependency", {"dependency_id": "fd-50dd9d653dd2"}),
    ]
    assert imported_by_pages(table.state, pages) == []


def test_an_api_server_makes_them_ready_when_it_has_started(serving, monkeypatch):
    ready = Event()
    monkeypatch.setattr(plugin, "_prepare", ready.set)
    with serving._client:
        assert ready.wait(60)


def test_other_processes_of_airflow_pay_nothing_for_them():
    """Each of them loads all plugins."""
    alone = modules_after("import airflow.plugins_manager")
    made = modules_after("from airflow_dc_provider.pages.plugin import DcPagesPlugin\nDcPagesPlugin().on_load()")
    added = {name for name in made - alone if not name.startswith(("asyncio", "_asyncio", "concurrent"))}
    assert added <= {f"airflow_dc_provider{name}" for name in ("", ".pages", ".pages.plugin", ".pages.recorded")}
