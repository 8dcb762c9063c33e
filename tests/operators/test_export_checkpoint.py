"""The task that shows a verdict in Great Expectations, with a verdict that a job stored and a real context."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import airflow_dc_provider.checkpoints
from airflow_dc_provider.exceptions import DcGateError
from airflow_dc_provider.links.data_docs import DATA_DOCS, DataDocsLink
from airflow_dc_provider.operators.export_checkpoint import DcExportCheckpointOperator, page_address
from airflow_dc_provider.pages.recorded import DOCS
from dc_engine.apply_load import apply_load
from dc_engine.errors import RequestError
from tests.inprocess import Session, Source
from tests.s3 import REGION, s3_server

pytestmark = pytest.mark.xdist_group("gx")


@pytest.fixture
def loaded(state: Path, rules: dict[str, Any]) -> Path:
    """A state with a clean load and a broken one, whose cities are masked."""
    return load_into(state, rules, mask=["city"])


def load_into(state: Path, rules: dict[str, Any], *, mask: list[str]) -> Path:
    types = {"id": "bigint", "zip": "string", "city": "string", "salary": "double"}
    loads = {
        "monday": {"id": [1, 2], "zip": ["1", "2"], "city": ["Berlin", "Bonn"], "salary": [1.0, 2.0]},
        "tuesday": {"id": [3], "zip": ["1"], "city": ["Berln"], "salary": [1.0]},
    }
    spark = Session()
    for load_id, rows in loads.items():
        spark.sources[load_id] = Source(pa.table(rows), types)
        request = {"state": str(state), "load_id": load_id, "changes": {"path": load_id}, "constraints": rules}
        apply_load(spark, {**request, "mask": mask})
    return state


@pytest.fixture
def export(loaded: Path, tmp_path: Path) -> Any:
    def build(**arguments: Any) -> DcExportCheckpointOperator:
        given = {"state": str(loaded), "load_id": "tuesday", "context_folder": str(tmp_path / "quality")}
        return DcExportCheckpointOperator(**{"task_id": "data_docs", **given, **arguments})

    return build


def shown(tmp_path: Path, text: str) -> list[Path]:
    """The files of the context with a text in them."""
    files = [path for path in (tmp_path / "quality").rglob("*") if path.is_file()]
    return [path for path in files if text in path.read_text(errors="replace")]


def link_of(task: DcExportCheckpointOperator, ti: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where the link on the task leads."""
    found = lambda *, ti_key, key: ti_key.pushed.get(key)  # noqa: E731
    monkeypatch.setattr("airflow_dc_provider.links.data_docs.XCom.get_value", found)
    (link,) = task.operator_extra_links
    assert isinstance(link, DataDocsLink)
    return link.get_link(task, ti_key=ti)


class TestExport:
    def test_a_red_load_is_shown_and_the_task_succeeds(self, export, ti, capfd):
        returned = export().execute({"ti": ti})
        assert (returned["checkpoint"], returned["run"], returned["success"]) == ("dcgate.tax", "tuesday_v2", False)
        page = Path(returned["data_docs"].removeprefix("file://")).read_text()
        assert "zip_decides_city" in page
        assert "1 new violation" in page
        log = capfd.readouterr().out
        assert "FAIL zip_decides_city: 1 new violation" in log
        assert "Checkpoint dcgate.tax, run tuesday_v2: does not pass." in log
        assert "[great_expectations." not in log, "what it says to itself is no use to anybody here"

    def test_a_masked_column_is_masked_everywhere(self, export, ti, capfd, tmp_path):
        export().execute({"ti": ti})
        files = [path.read_text(errors="replace") for path in (tmp_path / "quality").rglob("*") if path.is_file()]
        assert any("***" in text for text in files)
        assert not [
            text for text in [*files, capfd.readouterr().out, str(ti.pushed)] if "Berln" in text or "Berlin" in text
        ]

    def test_its_own_mask_counts_too_in_stored_results_and_pages(self, export, ti, capfd, tmp_path, rules):
        state = load_into(tmp_path / "unmasked", rules, mask=[])
        export(state=str(state)).execute({"ti": ti})
        assert shown(tmp_path, "Berln"), "the verdict has it"
        export(state=str(state), mask=["CITY", "zip"]).execute({"ti": ti})
        assert not shown(tmp_path, "Berln"), "an export of the same load without the mask goes"
        assert shown(tmp_path, "***")
        assert "Berln" not in capfd.readouterr().out

    def test_what_the_newest_load_masks_is_masked_in_older_verdicts(self, export, ti, tmp_path, rules):
        state = load_into(tmp_path / "grown", rules, mask=[])
        spark = Session()
        types = {"id": "bigint", "zip": "string", "city": "string", "salary": "double"}
        spark.sources["late"] = Source(pa.table({"id": [9], "zip": ["9"], "city": ["X"], "salary": [1.0]}), types)
        request = {"state": str(state), "load_id": "late", "changes": {"path": "late"}, "constraints": rules}
        apply_load(spark, {**request, "mask": ["City"]})
        export(state=str(state)).execute({"ti": ti})
        assert not shown(tmp_path, "Berln")
        assert shown(tmp_path, "***")

    def test_a_mask_is_a_list_of_names(self, export, ti):
        with pytest.raises(RequestError, match="'mask' in the request must be a list of column names, not 'city'"):
            export(mask="city")
        task = export(mask="{{ var.json.mask }}")
        task.mask = None
        with pytest.raises(DcGateError, match="must be a list of column names, not None"):
            task.execute({"ti": ti})

    def test_a_green_load_is_shown(self, export, ti):
        assert export(load_id="monday").execute({"ti": ti})["success"]

    def test_an_older_load_does_not_become_the_latest(self, export, ti, tmp_path):
        export(load_id="monday").execute({"ti": ti})
        latest = (tmp_path / "quality" / "gx" / "dcgate" / "tax" / "~latest.jsonl").read_text()
        assert '\\"monday\\"' in latest, "nothing newer was exported yet"
        export().execute({"ti": ti})
        export(load_id="monday").execute({"ti": ti})
        latest = (tmp_path / "quality" / "gx" / "dcgate" / "tax" / "~latest.jsonl").read_text()
        assert '\\"tuesday\\"' in latest

    def test_the_same_again_writes_nothing(self, export, ti, capfd):
        export().execute({"ti": ti})
        assert export().execute({"ti": ti})["repeated"]
        assert "it had been exported before" in capfd.readouterr().out

    def test_rules_for_great_expectations_alone_are_written_on_request(self, export, ti, tmp_path):
        export(export_builtin=True).execute({"ti": ti})
        suite = tmp_path / "quality" / "gx" / "expectations" / "dcgate_builtin" / "tax.json"
        assert "expect_column_values_to_be_between" in suite.read_text()


class TestElsewhere:
    def test_the_context_may_be_on_s3_with_the_credentials_of_a_connection(self, export, ti, monkeypatch, capfd):
        with s3_server() as server:
            extra = {"endpoint_url": server.endpoint, "region_name": REGION}
            connection = {"conn_type": "aws", "login": server.key, "password": server.secret, "extra": extra}
            monkeypatch.setenv("AIRFLOW_CONN_QUALITY", json.dumps(connection))
            uri = server.uri()
            returned = export(context_folder=uri, context_conn_id="quality").execute({"ti": ti})
            site = f"{uri}/gx/uncommitted/data_docs/local_site/"
            assert returned["data_docs"].startswith(f"{site}validations/dcgate/tax/")
            page = returned["data_docs"].removeprefix(site)
            assert ti.pushed[DOCS] == {"folder": f"{uri}/gx", "docs_conn_id": "quality", "page": page}
            with pytest.raises(DcGateError, match="cannot be"):
                export(context_folder=uri).execute({"ti": ti})
            assert server.secret not in capfd.readouterr().out


class TestTheLink:
    def test_it_is_pushed_for_the_link_on_the_task(self, export, ti, monkeypatch):
        task = export(docs_url="https://docs.example.com/quality/")
        returned = task.execute({"ti": ti})
        assert ti.pushed[DATA_DOCS] == returned["data_docs"]
        assert returned["data_docs"].startswith("https://docs.example.com/quality/validations/dcgate/tax/tuesday_v2/")
        assert link_of(task, ti, monkeypatch) == returned["data_docs"]

    def test_without_an_address_of_the_web_it_leads_to_the_page_in_airflow(self, export, ti, monkeypatch, tmp_path):
        task = export(context_folder=str(tmp_path / "with space"))
        assert link_of(task, ti, monkeypatch) == ""
        page = task.execute({"ti": ti})["data_docs"]
        folder = tmp_path / "with space" / "gx"
        page = page.removeprefix(f"file://{folder}/uncommitted/data_docs/local_site/")
        assert ti.pushed[DOCS] == {"folder": str(folder), "docs_conn_id": None, "page": page}
        ti.dag_id, ti.task_id, ti.run_id, ti.map_index = (
            "tax",
            "group.data_docs",
            "manual__2026-01-01T00:00:00+00:00",
            3,
        )
        assert link_of(task, ti, monkeypatch) == (
            "dc/docs/tax/group.data_docs/manual__2026-01-01T00%3A00%3A00%2B00%3A00/3/"
        )

    def test_data_docs_at_a_place_of_their_own_are_not_shown_by_airflow(self, export, ti, monkeypatch, tmp_path):
        export().execute({"ti": ti})
        configuration = tmp_path / "quality" / "gx" / "great_expectations.yml"
        text = configuration.read_text().replace("uncommitted/data_docs/local_site/", str(tmp_path / "elsewhere"))
        configuration.write_text(text)
        ti.pushed.clear()
        task = export(load_id="monday")
        returned = task.execute({"ti": ti})
        assert returned["data_docs"].startswith(f"file://{tmp_path}/elsewhere/")
        assert DOCS not in ti.pushed
        assert link_of(task, ti, monkeypatch) == returned["data_docs"]

    @pytest.mark.parametrize(
        ("page", "index", "docs_url", "address"),
        [
            (None, None, "https://d", None),
            ("file:///q/site/v/1.html", "file:///q/site/index.html", None, "file:///q/site/v/1.html"),
            ("s3://b/site/v/1.html", "s3://b/site/index.html", "https://d/x", "https://d/x/v/1.html"),
        ],
    )
    def test_it_leads_to_where_data_docs_are_served(self, page, index, docs_url, address):
        assert page_address(page, index, docs_url) == address


class TestRefusals:
    def test_a_load_without_a_verdict(self, export, ti):
        with pytest.raises(DcGateError, match="has no verdict of load 'tusday'") as raised:
            export(load_id="tusday").execute({"ti": ti})
        assert "Did you mean 'tuesday'?" in str(raised.value)

    def test_a_state_without_loads(self, export, ti, tmp_path):
        with pytest.raises(DcGateError, match="No load was applied"):
            export(state=str(tmp_path / "empty")).execute({"ti": ti})

    def test_a_relative_folder(self, export):
        with pytest.raises(RequestError, match="context_folder is 'quality', and must be an absolute path"):
            export(context_folder="quality")

    @pytest.mark.parametrize(("name", "value"), [("keep_runs", 0), ("keep_days", -1), ("keep_runs", "all")])
    def test_limits_that_make_no_sense(self, export, name, value):
        with pytest.raises(ValueError, match=f"{name} is {value!r}"):
            export(**{name: value})

    def test_great_expectations_is_not_installed(self, export, ti, monkeypatch):
        # The failed import below puts another package in this place, which other tests must not meet.
        monkeypatch.setattr(airflow_dc_provider, "checkpoints", airflow_dc_provider.checkpoints)
        for name in list(sys.modules):
            if name.startswith("airflow_dc_provider.checkpoints"):
                monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "great_expectations", None)
        monkeypatch.setitem(sys.modules, "great_expectations.core", None)
        with pytest.raises(DcGateError, match=r"pip install 'airflow-dc-provider\[gx\]'"):
            export().execute({"ti": ti})

    def test_templated_folders_are_checked_when_they_are_known(self, export, ti):
        task = export(context_folder="{{ var.value.quality }}")
        task.context_folder = "quality"
        with pytest.raises(DcGateError, match="must be an absolute path"):
            task.execute({"ti": ti})
