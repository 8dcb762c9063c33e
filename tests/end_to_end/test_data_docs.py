"""Data Docs in an Airflow that really runs: the link on the task, the page in a browser, who may not see it."""

from __future__ import annotations

import http.client
import json
import re
import shutil
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.checkpoints.test_browser import ARGUMENTS
from tests.end_to_end.airflow_running import RunningAirflow
from tests.s3 import REGION, S3Server, s3_server

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install playwright")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.xdist_group("running_airflow")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="There is no Chromium: apt-get install chromium")

DAGS = """
import os
from airflow.sdk import DAG
from airflow_dc_provider.operators.export_checkpoint import DcExportCheckpointOperator
from airflow_dc_provider.operators.gate import DcGateOperator

RULES = {"version": 1, "table": "zips", "key": ["id"], "constraints": [
    {"name": "one_city", "fd": "zip -> city", "description": "</td><script>window.hacked=2</script><b id=hacked>"},
    {"name": "id_is_positive", "deny": "t.id <= 0"}]}
HOME = os.environ["AIRFLOW_HOME"]
with DAG("reviewed", schedule=None):
    gate = DcGateOperator(
        task_id="gate", constraints=RULES, changes={"path": HOME + "/landing/reviewed.parquet"},
        state=HOME + "/state/reviewed", load_id="monday",
    )
    given = {"state": gate.state, "load_id": "monday", "trigger_rule": "all_done"}
    gate >> [
        DcExportCheckpointOperator(task_id="data_docs", context_folder=HOME + "/quality", **given),
        DcExportCheckpointOperator(task_id="on_s3", context_folder="S3", context_conn_id="quality", **given),
    ]
"""
SHOWN = "1 new violation"
HOSTILE = "<img src=x onerror=window.hacked=1>"


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as running:
        yield running


@pytest.fixture(scope="module")
def run(airflow: RunningAirflow, server: S3Server) -> str:
    """A run whose load broke a rule, and whose verdict is in Data Docs, on a disk and on S3."""
    extra = json.dumps({"endpoint_url": server.endpoint, "region_name": REGION})
    connection = {"conn_type": "aws", "login": server.key, "password": server.secret, "extra": extra}
    airflow.request("POST", "connections", {"connection_id": "quality", **connection})
    (airflow.home / "landing").mkdir(exist_ok=True)
    rows = pa.table({"id": [1, 2], "zip": ["10115"] * 2, "city": ["Berlin", HOSTILE]})
    pyarrow.parquet.write_table(rows, airflow.home / "landing" / "reviewed.parquet")
    airflow.add_dags("reviewed", DAGS.replace("S3", server.uri()))
    found = airflow.trigger("reviewed", "manual__2026-01-01T00:00:00+00:00")
    states = airflow.wait_for_run("reviewed", found)
    assert states == {"gate": "failed", "data_docs": "success", "on_s3": "success"}
    return found


def link_of(airflow: RunningAirflow, run: str, task: str = "data_docs") -> str:
    return airflow.get(f"dags/reviewed/dagRuns/{run}/taskInstances/{task}/links")["extra_links"]["Data Docs"]


def asked(url: str, path: str, token: str | None = None) -> tuple[int, dict[str, str], str]:
    """The answer to a path that is sent as it is."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    connection.putrequest("GET", path, skip_accept_encoding=True)
    if token:
        connection.putheader("Authorization", f"Bearer {token}")
    connection.endheaders()
    answer = connection.getresponse()
    found = answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read().decode()
    connection.close()
    return found


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A browser that reaches this machine alone."""
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch_persistent_context(
            tmp_path_factory.mktemp("profile"),
            executable_path=CHROMIUM,
            args=ARGUMENTS,
            viewport={"width": 1280, "height": 900},
        )
        opened.route(re.compile(r"^(?!https?://127\.0\.0\.1|data:)"), lambda route: route.abort())
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page for somebody who has yet to log in."""
    browser.clear_cookies()
    opened = browser.new_page()
    opened.set_default_timeout(60_000)
    yield opened
    opened.close()


class Said:
    """What a browser says of a page in its console: what the policy refused, what failed, what was not found."""

    def __init__(self, page: Any) -> None:
        self.lines: list[str] = []
        page.on("console", lambda said: self.lines.append(f"{said.type}: {said.text}"))
        page.on("pageerror", lambda error: self.lines.append(f"error: {error.message}"))
        page.on("requestfailed", self._failed)
        page.on("dialog", lambda dialog: (self.lines.append("dialog"), dialog.dismiss()))

    def _failed(self, request: Any) -> None:
        """Airflow's own page may still ask for something when it is left, and gives that up."""
        if "/dc/" in request.url or request.failure != "net::ERR_ABORTED":
            self.lines.append(f"failed: {request.url}")


def check_page(shown: Any) -> None:
    """A page of a run, or a frame with one: whole, styled, harmless, and it does what Great Expectations' does."""
    assert shown.get_by_text(SHOWN, exact=True).is_visible()
    assert shown.get_by_text(HOSTILE, exact=True).first.is_visible()
    assert shown.get_by_text("<script>window.hacked=2</script>").first.is_visible()
    assert shown.evaluate("window.hacked") is None
    assert shown.locator("#hacked, img[src=x]").count() == 0
    assert shown.evaluate("getComputedStyle(document.querySelector('.alert-secondary')).backgroundColor") == (
        "rgb(226, 227, 229)"
    )
    assert shown.evaluate("document.querySelector('.navbar-brand img').naturalWidth") > 0
    assert "✖" in shown.evaluate("getComputedStyle(document.querySelector('.fa-times'), '::before').content")
    more = shown.get_by_text("Great Expectations Version")
    assert not more.is_visible()
    shown.get_by_text("Show more info...").click()
    assert more.is_visible()
    shown.get_by_text("Failed Only").click()
    assert not shown.get_by_text("id_is_positive", exact=True).is_visible()
    assert shown.get_by_text("one_city", exact=True).is_visible()
    shown.get_by_text("Show All").click()
    assert shown.get_by_text("id_is_positive", exact=True).is_visible()


def check_start_page(page: Any) -> None:
    """The start page lists the run, and leads to it."""
    page.get_by_role("link", name="Home", exact=True).click()
    page.wait_for_url("**/index.html")  # loaded, with all that it needs
    run = page.get_by_role("link", name="monday_v1")
    page.get_by_label("Filter this list").first.fill("tuesday")
    run.wait_for(state="hidden")
    page.get_by_label("Filter this list").first.fill("MONDAY")
    run.wait_for(state="visible")
    page.get_by_role("tab", name="Expectation Suites").click()
    page.get_by_role("link", name="dcgate.zips").locator("visible=true").first.click()
    page.wait_for_url("**/expectations/dcgate/zips.html")
    assert page.get_by_text("one_city").first.is_visible()
    page.go_back()
    run.click()
    page.wait_for_url("**/validations/**/*.html")
    assert page.get_by_text(SHOWN, exact=True).is_visible()


def follow_the_link(page: Any, url: str, token: str, run: str) -> None:
    """From the task to its page in Data Docs, and to the first page, as someone does who has logged in."""
    page.context.add_cookies([{"name": "_token", "value": token, "url": url}])
    page.goto(f"{url}/dags/reviewed/runs/{run}/tasks/data_docs/details")
    link = page.get_by_role("link", name="Data Docs")
    link.wait_for()
    said = Said(page)
    link.click()
    page.wait_for_url(re.compile(rf"^{re.escape(url)}/dc/docs/reviewed/data_docs/.*\.html$"))
    check_page(page)
    check_start_page(page)
    assert said.lines == []


@needs_browser
class TestInABrowser:
    def test_the_link_on_the_task_leads_to_the_page(self, airflow, run, page):
        airflow.request("GET", "dags", user="victor")
        follow_the_link(page, airflow.url, airflow.tokens["victor"], run)

    def test_below_a_base_path(self, run, page, below):
        follow_the_link(page, *below, run)

    def test_it_works_in_a_frame_as_airflow_makes_them(self, airflow, run, page):
        airflow.request("GET", "dags", user="victor")
        page.context.add_cookies([{"name": "_token", "value": airflow.tokens["victor"], "url": airflow.url}])
        page.goto(f"{airflow.url}/api/v2/version")
        said = Said(page)
        page.evaluate(
            """source => {
                const frame = document.createElement("iframe");
                frame.sandbox = "allow-scripts allow-same-origin allow-forms allow-downloads";
                frame.src = source;
                frame.width = 1200; frame.height = 800;
                document.body.replaceChildren(frame);
            }""",
            f"{airflow.url}/{link_of(airflow, run)}",
        )
        frame = page.wait_for_selector("iframe").content_frame()
        frame.wait_for_url(re.compile(r"\.html$"))
        check_page(frame)
        assert [line for line in said.lines if "sandbox" not in line] == [], "the frame itself is frowned upon"


class TestWhoMaySee:
    @pytest.fixture
    def address(self, airflow: RunningAirflow, run: str) -> str:
        return f"/{link_of(airflow, run)}"

    @pytest.fixture
    def token(self, airflow: RunningAirflow) -> str:
        airflow.request("GET", "dags", user="victor")
        return airflow.tokens["victor"]

    def test_a_viewer_of_the_dag(self, airflow, address, token):
        status, headers, _ = asked(airflow.url, address, token)
        assert status == 302
        status, headers, text = asked(airflow.url, address + headers["location"], token)
        assert (status, SHOWN in text) == (200, True)
        assert "script-src 'nonce-" in headers["content-security-policy"]
        assert "unsafe-eval" not in headers["content-security-policy"]

    def test_nobody_else(self, airflow, address):
        for path in (address, f"{address}index.html", f"{address}static/images/logo-long.png", "/dc/static/docs.js"):
            for token, refused in ((None, 401), ("no.such.token", 403)):
                status, _, text = asked(airflow.url, path, token)
                assert (status, SHOWN in text) == (refused, False)

    def test_a_page_on_s3_is_read_with_the_connection_of_the_task(self, airflow, run, token, server):
        address = f"/{link_of(airflow, run, 'on_s3')}"
        _, headers, _ = asked(airflow.url, address, token)
        status, _, text = asked(airflow.url, address + headers["location"], token)
        assert (status, SHOWN in text) == (200, True)
        assert server.secret not in text

    @pytest.mark.parametrize(
        "path",
        [
            "../../../../../../airflow.cfg",
            "..%2f..%2f..%2f..%2f..%2fairflow.cfg",
            "%2e%2e/%2e%2e/%2e%2e/great_expectations.yml",
            "..%252f..%252fgreat_expectations.yml",
            "..%5c..%5cgreat_expectations.yml",
            "%2fetc%2fpasswd",
            "//etc/passwd",
            "index.html%00",
        ],
    )
    def test_no_path_leads_out_of_the_site(self, airflow, address, token, path):
        status, _, text = asked(airflow.url, address + path, token)
        assert status == 404
        assert "root:" not in text
        assert "config_version" not in text

    def test_what_airflow_does_not_know(self, airflow, run, address, token):
        for other in (
            address.replace("/reviewed/", "/no_such_dag/"),
            address.replace("/data_docs/", "/no_such_task/"),
            address.replace("/data_docs/", "/gate/"),
            address.replace("/-1/", "/3/"),
        ):
            assert asked(airflow.url, f"{other}index.html", token)[0] == 404, other
