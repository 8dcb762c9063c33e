"""Data Docs as a browser shows them: hostile texts do nothing there, and the pages are found and read."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_dc_provider.checkpoints.export import Exported, export_checkpoint
from dc_engine.wording import plain
from tests.checkpoints.hostile import ATTACKS, TAME, hostile
from tests.checkpoints.verdicts import pair, verdict

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install playwright")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.xdist_group("gx"),
    pytest.mark.skipif(CHROMIUM is None, reason="There is no Chromium: apt-get install chromium"),
]
ARGUMENTS = [
    "--no-sandbox",  # in containers tests run as root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-prefers-reduced-motion",
    "--js-flags=--no-opt --no-maglev",  # no page is there long enough to be worth compiling well
]
# Data Docs fetch jQuery and bootstrap-table from elsewhere; the start page has no rows without them.
STAND_IN = """
const clicked = {};
window.$ = (what) => ({
  ready: (then) => then(),
  on: (event, then) => { clicked[what] = then; },
  bootstrapTable: (given) => {
    for (const row of given.data ?? []) {
      const line = document.querySelector(what).insertRow();
      for (const column of given.columns) line.insertCell().innerHTML = row[column.field];
      const attributes = rowAttributesLinks(row);
      line.onclick = () => clicked[what](null, row, { data: (name) => attributes[`data-${name}`] });
    }
  },
});
"""
ELEMENTS = "[...document.querySelectorAll('*')].map(one => [one.tagName, ...one.getAttributeNames()].join(' '))"
POINT_AT_ALL = "document.querySelectorAll('*').forEach(one => one.dispatchEvent(new MouseEvent('mouseover')))"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A browser that reaches files alone."""
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch_persistent_context(
            tmp_path_factory.mktemp("profile"),
            executable_path=CHROMIUM,
            args=ARGUMENTS,
            viewport={"width": 1280, "height": 900},
        )
        opened.route(re.compile("^(?!file:)"), lambda route: route.abort())
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    opened = browser.new_page()
    opened.set_default_timeout(10_000)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """Pages full of hostile texts."""
    return export_checkpoint(hostile(), tmp_path_factory.mktemp("attacked"))


class Watched:
    """A page, and whatever happened on it that no one sees."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.happened: list[str] = []
        page.on("dialog", self._dismiss)
        page.on("console", lambda said: self.happened.append(f"{said.type}: {said.text}"))
        page.on("pageerror", lambda error: self.happened.append(f"error: {error.message}"))
        page.on("popup", lambda popup: self.happened.append(f"popup: {popup.url}"))

    def _dismiss(self, dialog: Any) -> None:
        self.happened.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def visit(self, address: str) -> tuple[list[str], list[str]]:
        """What happens on a page when one points at all of it, and its elements."""
        self.happened = []
        self.page.goto(address)
        self.page.evaluate(POINT_AT_ALL)
        return sorted(self.happened), self.page.evaluate(ELEMENTS)


def addresses(exported: Exported) -> list[str]:
    """The page of a run, the start page, the page of the suite."""
    assert exported.docs
    assert exported.index
    site = Path(exported.index.removeprefix("file://")).parent
    (suite,) = (site / "expectations").rglob("*.html")
    return [exported.docs, exported.index, suite.as_uri()]


class TestHostileTexts:
    def test_nothing_in_them_runs_and_nothing_becomes_an_element(self, page, attacked, tmp_path):
        tame = export_checkpoint(hostile(TAME), tmp_path)
        watched = Watched(page)
        for hostile_page, tame_page in zip(addresses(attacked), addresses(tame), strict=True):
            happened, elements = watched.visit(hostile_page)
            assert page.evaluate("window.hacked") is None
            assert page.locator("#hacked, img[src=x]").count() == 0
            assert (happened, elements) == watched.visit(tame_page)

    def test_they_are_there_to_be_read(self, page, attacked):
        page.goto(attacked.docs)
        text = " ".join(page.locator("body").inner_text().split())
        for name, attack in ATTACKS.items():
            assert " ".join(plain(f"sentence of {name}: {attack}", 2000).split()) in text


class TestAPageOfARun:
    @pytest.fixture
    def exported(self, tmp_path: Path) -> Exported:
        samples = [
            pair({"id": 17, "zip": "10115", "city": "Berln"}, {"id": 3, "zip": "10115", "city": "Berlin"}),
            pair({"id": 18, "zip": "80331", "city": None}, {"id": 4, "zip": "80331", "city": "***"}),
        ]
        return export_checkpoint(verdict(broken={"zip_decides_city": 1234}, samples=samples), tmp_path)

    def test_names_formulas_counts_and_examples_are_seen(self, page, exported):
        page.goto(exported.docs)
        text = page.locator("body").inner_text()
        for name in ("zip_decides_city", "phone_is_unique", "salary_is_positive", "The verdict is complete"):
            assert name in text
        assert "not (t.zip = s.zip and t.city != s.city)" in text
        assert "load monday, snapshot 1" in text
        assert page.get_by_text("1,234 new violations", exact=True).is_visible()
        table = page.locator("table table").filter(has_text="t.zip")
        assert [one.split() for one in table.locator("tr").all_inner_texts()] == [
            ["t.id", "t.zip", "t.city", "s.id", "s.zip", "s.city"],
            ["17", "10115", "Berln", "3", "10115", "Berlin"],
            ["18", "80331", "NULL", "4", "80331", "***"],
        ]
        assert all(row.is_visible() for row in table.locator("tr").all())
        assert table.locator("strong").all_inner_texts() == ["Berln", "Berlin", "NULL", "***"]

    def test_the_start_page_leads_to_it(self, page, exported):
        page.add_init_script(STAND_IN)
        page.goto(exported.index)
        page.get_by_text("monday_v1", exact=True).click()
        page.wait_for_url(exported.docs)
        assert page.get_by_text("zip_decides_city", exact=True).is_visible()
        page.get_by_role("link", name="Home", exact=True).click()
        page.wait_for_url(re.compile("/index.html"))
