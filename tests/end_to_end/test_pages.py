"""The review pages where people see them: in the UI of an Airflow that runs, in a browser."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from dc_engine.maintain import maintain
from dc_engine.stored import read_verdict
from tests.end_to_end.airflow_running import RunningAirflow
from tests.end_to_end.browsing import Browser, browser, needs_browser
from tests.end_to_end.reviewed import ASKING, GREEN, land, run_gates, state_of
from tests.pages.states import TUESDAY

pytest.importorskip("playwright", reason="Playwright is not installed: pip install playwright")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python")
pytestmark = [pytest.mark.xdist_group("running_airflow"), needs_browser]

RED = "people · load tuesday FAIL"
PASSED = "people · load tuesday PASS"


@pytest.fixture(scope="module")
def runs(airflow: RunningAirflow) -> dict[str, str]:
    return run_gates(airflow)


@pytest.fixture(scope="module")
def ada(airflow: RunningAirflow, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(airflow, "ada", tmp_path_factory.mktemp("ada")) as opened:
        yield opened


@pytest.fixture(autouse=True)
def nothing_is_noted(ada: Browser) -> Iterator[None]:
    """No error, and nothing that the policy of a page had to stop."""
    ada.noted.clear()
    yield
    assert ada.noted == []


def of_task(dag_id: str, run_id: str) -> str:
    return f"/dags/{dag_id}/runs/{run_id}/tasks/gate"


def address(runs: dict[str, str], name: str, dag_id: str = "pages_red", **more: str) -> str:
    """A page by itself, without Airflow's around it."""
    ids = {"dag_id": dag_id, "task_id": "gate", "run_id": runs[dag_id], "map_index": "{MAP_INDEX}"}
    return f"/dc/{name}?{urlencode({**ids, **more})}"


def shows(where: Browser, title: str) -> None:
    """The tab has a page with this title."""
    where.frame.get_by_role("heading", name=title, exact=True).wait_for()


def barriers(page: Any) -> list[tuple[str, str]]:
    """What keeps people from reading a page."""
    found = axe.Axe().run(page).response["violations"]
    return [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")]


def test_a_red_gate_links_to_what_broke_and_which_rows(ada, runs):
    page = ada.open(f"{of_task('pages_red', runs['pages_red'])}/details")
    page.get_by_role("link", name="Gate verdict").nth(1).click()  # the first is the tab itself
    page.wait_for_url(re.compile("/plugin/dc-verdict"))
    shows(ada, RED)
    assert ada.frame.get_by_text("✗ pay_grows").is_visible()
    row = ada.frame.locator("table.pair").first.locator("tbody tr").first
    assert row.inner_text().split()[:2] == ["t", "100"]
    assert row.is_visible()
    ada.frame.get_by_role("link", name=re.compile("^All that are listed")).first.click()
    shows(ada, "pay_grows · load tuesday FAIL")
    ada.frame.get_by_role("link", name="Back to the verdict").click()
    shows(ada, RED)
    ada.frame.get_by_role("link", name="Dependencies", exact=True).click()
    shows(ada, "people · dependencies")
    ada.frame.get_by_role("searchbox", name="Search").fill("zip city")
    ada.frame.get_by_role("button", name="Search").click()
    ada.frame.locator("input[value='zip city']").wait_for()  # as the server says it, so the page is the new one
    ada.frame.get_by_text(re.compile(r"^\d+ of \d+ that hold")).wait_for()
    ada.frame.get_by_text("city -> zip").first.click()
    ada.frame.get_by_role("link", name="Rows that come closest to breaking it").first.click()
    shows(ada, "city -> zip")
    assert ada.frame.get_by_text("They would break it if t.zip != s.zip.").first.is_visible()


def test_a_dag_has_its_history_from_which_one_comes_to_a_load(ada, runs):
    page = ada.open("/dags/pages_red")
    page.get_by_role("link", name="Gates", exact=True).click()
    shows(ada, "people · history")
    ada.frame.get_by_role("row").get_by_role("link", name="monday", exact=True).click()
    shows(ada, "people · load monday PASS")
    ada.frame.get_by_role("link", name="History", exact=True).click()
    shows(ada, "people · history")
    ada.frame.locator("svg.map a").last.focus()
    ada.page.keyboard.press("Enter")
    shows(ada, RED)


def test_the_navigation_leads_to_all_gates(ada, runs):
    ada.open("/").get_by_role("link", name="Data gates").click()
    shows(ada, "Gates")
    assert ada.frame.get_by_text("pages_red · gate").is_visible()


def test_a_formula_is_copied(ada, runs):
    page = ada.open(address(runs, "verdict"))
    ada.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=ada.url)
    page.get_by_role("button", name="Copy the formula").first.click()
    page.get_by_role("button", name="Copy the formula").first.get_by_text("copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == "not (t.age > s.age and t.pay < s.pay)"


class TestLooks:
    def pages(self, runs: dict[str, str]) -> dict[str, str]:
        rule = {"load_id": "tuesday", "constraint": "pay_grows"}
        return {
            "verdict": address(runs, "verdict"),
            "waiting or decided": address(runs, "verdict", "pages_approved"),
            "green": address(runs, "verdict", load_id="monday"),
            "no such load": address(runs, "verdict", load_id="none"),
            "pairs": address(runs, "pairs", **rule),
            "history": address(runs, "history"),
            "dependencies": address(runs, "dependencies"),
            "lost": address(runs, "dependencies", show="lost"),
            "dependency": address(runs, "dependency", dependency_id="fd-50dd9d653dd2"),
            "gates": "/dc/gates",
            "nothing": "/dc/none",
        }

    def test_nobody_is_kept_from_reading_them_and_a_narrow_window_does_not_scroll_sideways(self, ada, runs):
        for name, path in self.pages(runs).items():
            page = ada.open(path)
            page.locator("details").evaluate_all("all => all.forEach(one => { one.open = true; })")
            for scheme in ("dark", "light"):
                page.emulate_media(color_scheme=scheme)
                assert barriers(page) == [], (name, scheme)
            page.set_viewport_size({"width": 700, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= 700, name
            page.set_viewport_size({"width": 1280, "height": 900})

    def test_a_tab_has_airflow_s_own_theme(self, ada, runs):
        ada.open(f"{of_task('pages_red', runs['pages_red'])}/plugin/dc-verdict")
        shows(ada, RED)
        grounds = {}
        for theme in ("dark", "light"):
            ada.page.evaluate(f"document.documentElement.className = '{theme}'")
            ada.frame.locator(f":root.{theme}").wait_for()
            grounds[theme] = ada.frame.locator("body").evaluate("one => getComputedStyle(one).backgroundColor")
        assert grounds["dark"] != grounds["light"]


class TestTroubledStates:
    """A gate was green; since then its state was emptied, damaged, or taken away from the server."""

    @pytest.fixture
    def state(self, airflow: RunningAirflow, runs: dict[str, str]) -> Iterator[Path]:
        """The state of the green gate; afterwards it is as it was."""
        state = Path(state_of(airflow, GREEN).state)
        kept = shutil.copytree(state, state.with_name("kept"))
        yield state
        shutil.rmtree(state, ignore_errors=True)
        kept.rename(state)

    def tab(self, ada: Browser, runs: dict[str, str]) -> Any:
        ada.open(f"{of_task(GREEN, runs[GREEN])}/plugin/dc-verdict")
        return ada.frame

    def every_page(self, ada: Browser, runs: dict[str, str]) -> Iterator[tuple[str, Any]]:
        """Each page of the gate, one after the other; all can be read, also in a narrow window."""
        ada.page.set_viewport_size({"width": 700, "height": 900})
        more = {"pairs": {"load_id": "tuesday", "constraint": "pay_grows"}, "dependency": {"dependency_id": "fd-0"}}
        for name in ("verdict", "pairs", "history", "dependencies", "dependency", "dag"):
            page = ada.open(address(runs, name, GREEN, **more.get(name, {})))
            assert barriers(page) == [], name
            assert page.evaluate("document.documentElement.scrollWidth") <= 700, name
            yield name, page
        ada.page.set_viewport_size({"width": 1280, "height": 900})

    def tells_what_airflow_knows(self, page: Any, state: Path) -> None:
        """That the state cannot be read and which one, and the rules as they are in XCom."""
        assert page.get_by_role("heading", level=1).inner_text() == PASSED
        assert page.get_by_text("This server cannot read the state.").is_visible()
        assert page.get_by_role("note").get_by_text(f"access to {state}").is_visible()
        rows = [one.split() for one in page.locator("tbody tr").all_inner_texts()]
        names = ("one_city", "pay_grows", "paid", "grown_up")
        severities = ["warn" if name == "paid" else "error" for name in names]
        expected = [[name, severity, *"0000", "PASS"] for name, severity in zip(names, severities, strict=True)]
        assert sorted(rows) == sorted(expected)

    def test_while_all_is_well_the_page_is_green(self, airflow, ada, runs):
        frame = self.tab(ada, runs)
        shows(ada, PASSED)
        verdict = read_verdict(state_of(airflow, GREEN).storage, "tuesday")
        assert frame.get_by_text(f"All {len(verdict.constraints)} rules hold.").is_visible()
        assert frame.get_by_text(f"{verdict.rows['inserted']} rows in, 0 out").is_visible()
        assert frame.get_by_text("✗").count() == 0

    def test_an_empty_state_says_what_fills_it(self, airflow, ada, runs, state):
        table = state_of(airflow, GREEN)
        maintain(table.session, "retract", {"state": table.state, "load_id": "tuesday"})
        frame = self.tab(ada, runs)
        shows(ada, "No such load")
        assert frame.get_by_text("The state has no loads yet.").is_visible()
        frame.get_by_role("link", name="All loads").click()
        shows(ada, "people · history")
        said = {
            "verdict": ("No such load", "has no load 'tuesday'"),
            "pairs": ("No such load", "has no load 'tuesday'"),
            "history": ("people · history", "Run the gate, and it will be here."),
            "dependencies": ("No dependencies", "Run a DcDiscoverOperator on this state once"),
            "dependency": ("Not Found", "The state knows no such dependency."),
            "dag": ("people · history", "Run the gate, and it will be here."),
        }
        for name, page in self.every_page(ada, runs):
            assert page.get_by_role("heading", level=1).inner_text() == said[name][0]
            assert page.get_by_text(said[name][1]).is_visible(), name

    def test_a_damaged_state_is_told_with_the_file_and_what_airflow_knows(self, ada, runs, state):
        newest = max((state / "snapshots").glob("*.json"))
        newest.write_bytes(newest.read_bytes()[:-9])
        frame = self.tab(ada, runs)
        shows(ada, PASSED)
        self.tells_what_airflow_knows(frame, state)
        for _, page in self.every_page(ada, runs):
            self.tells_what_airflow_knows(page, state)
            assert page.get_by_role("note").get_by_text(newest.name).is_visible()

    def test_a_state_that_the_server_does_not_find_is_told_too(self, ada, runs, state):
        shutil.rmtree(state)
        frame = self.tab(ada, runs)
        shows(ada, PASSED)
        self.tells_what_airflow_knows(frame, state)
        for _, page in self.every_page(ada, runs):
            self.tells_what_airflow_knows(page, state)
            assert page.get_by_text(f"There is no state in {state}.").is_visible()


@pytest.mark.parametrize("dag_id", ASKING)
def test_what_a_person_clicks_is_on_the_page(airflow, ada, runs, dag_id):
    task, answer = of_task(dag_id, runs[dag_id]), ASKING[dag_id]
    page = ada.open(f"{task}/plugin/dc-verdict")
    shows(ada, RED)
    assert ada.frame.get_by_text("A person has to decide.").is_visible()
    page.goto(f"{ada.url}{task}/required_actions")
    page.get_by_role("button", name=answer).click()
    airflow.wait_for(dag_id, runs[dag_id], "gate", "success" if answer == "Approve" else "failed")
    word = "Approved" if answer == "Approve" else "Rejected"
    ada.open(f"{task}/plugin/dc-verdict")
    shows(ada, f"{RED} {word.upper()}")
    decided = read_verdict(state_of(airflow, dag_id).storage, "tuesday").decided
    assert decided.by == "ada"
    assert ada.frame.get_by_text(f"{word} by ada at {decided.at}").is_visible()


def test_below_another_path_all_is_found(ada, runs, below):
    url, _ = below
    other = Browser(ada.context, url)  # cookies are of a host, whatever the port
    page = other.open(f"{of_task('pages_red', runs['pages_red'])}/plugin/dc-verdict")
    shows(other, RED)
    assert other.frame.get_by_role("button", name="Copy the formula").first.is_visible(), "its script runs"
    other.frame.get_by_role("link", name="History").click()
    shows(other, "people · history")
    other.open("/dc/none/such").get_by_role("link", name="All gates").click()
    page.get_by_role("heading", name="Gates", exact=True).wait_for()
    assert page.url == f"{url}/dc/gates"
    assert other.noted == []
    page.close()


def test_a_load_that_was_replaced_says_so(airflow, ada, runs):
    """The last test: the red gate runs again."""
    land(airflow, "pages_red", [{**TUESDAY[0], "id": 500}])
    airflow.clear("pages_red", runs["pages_red"], "gate")
    airflow.until(lambda: airflow.task("pages_red", runs["pages_red"], "gate")["try_number"] == 2, "it runs again")
    airflow.wait_for("pages_red", runs["pages_red"], "gate", "failed")
    ada.open(f"{of_task('pages_red', runs['pages_red'])}/plugin/dc-verdict")
    shows(ada, RED)
    assert ada.frame.get_by_text("It replaced an earlier attempt of this load").is_visible()
    assert ada.frame.get_by_text("id=500").first.is_visible()
