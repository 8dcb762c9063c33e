"""The link from a gate to its page, as the task leaves it for the UI."""

from __future__ import annotations

import pytest
from airflow.providers.common.compat.sdk import TaskInstanceKey

from airflow_dc_provider.links.review import VerdictLink
from airflow_dc_provider.operators.gate import DcGateOperator
from airflow_dc_provider.pages.plugin import DcPagesPlugin
from airflow_dc_provider.sensors.verdict import DcVerdictSensor


@pytest.mark.parametrize("base", ["", "http://airflow:8080", "https://host/deep/base/", "https://host/deep/base"])
@pytest.mark.parametrize("index", [-1, 3])
def test_it_leads_to_the_tab_of_the_task_below_the_path_of_airflow(monkeypatch, base, index):
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", base)
    key = TaskInstanceKey("my.dag", "group.gate", "manual__2026-01-01T00:00:00+00:00", 1, index)
    mapped = "/mapped/3" if index == 3 else ""
    run = "manual__2026-01-01T00%3A00%3A00%2B00%3A00"
    path = f"/dags/my.dag/runs/{run}/tasks/group.gate{mapped}/plugin/dc-verdict"
    assert VerdictLink().get_link(None, ti_key=key) == ("/deep/base" if "deep" in base else "") + path


def test_gates_have_it_and_the_tab_is_there():
    for one in (DcGateOperator, DcVerdictSensor):
        assert [link.name for link in one.operator_extra_links] == ["Gate verdict"]
    assert "dc-verdict" in [one["url_route"] for one in DcPagesPlugin.external_views]


def test_addresses_of_tabs_are_relative_and_their_routes_are_unique():
    views = DcPagesPlugin.external_views
    assert all(one["href"].startswith("dc/") for one in views)
    assert len({one["url_route"] for one in views}) == len(views) == len({one["destination"] for one in views})
