"""The dependencies of a table on its page: those of the state, searched, sorted, to be copied."""

from __future__ import annotations

import pytest

from airflow_dc_provider.pages import routes
from dc_engine.constraints.files import load_text
from dc_engine.constraints.naming import id_of
from dc_engine.reviewing import closest, known_dependencies
from dc_engine.state.snapshots import read_current
from tests.pages.serving import Serving, Task
from tests.pages.states import TUESDAY, Table, red
from tests.pages.test_shown import bare

pytestmark = pytest.mark.xdist_group("pages")


@pytest.fixture(scope="module")
def gate(serving: Serving, table: Table) -> Task:
    return serving.add_gate(table.state, table.verdict())


class TestDependencies:
    def texts(self, serving: Serving, gate: Task, **asked: str) -> list[str]:
        """On all pages."""
        path, found, query = "dependencies", [], {**gate.ids, **asked}
        while path:
            page = serving.get(path, **query).page
            found += [one.one("span", cls="name").text for one in page.all("details", cls="rule")]
            path, query = next((one.attributes["href"] for one in page.all("a", rel="next")), ""), {}
        return [one.split(". ", 1)[-1] for one in found]

    @pytest.fixture(autouse=True)
    def small_pages(self, monkeypatch):
        monkeypatch.setattr(routes, "DEPENDENCIES", 4)

    def test_they_are_those_of_the_state_in_its_order(self, serving, gate, table):
        known = known_dependencies(table.storage, read_current(table.storage))
        assert self.texts(serving, gate) == [one.text for one in known.holding]
        assert sorted(self.texts(serving, gate, show="lost")) == sorted(one.text for one in known.lost)
        assert len(known.holding) > 4
        assert {"zip -> city", "age -> pay"} <= {one.text for one in known.lost}

    def test_they_are_searched_filtered_and_sorted(self, serving, gate, table):
        every = self.texts(serving, gate)
        assert self.texts(serving, gate, search="AGE city") == [one for one in every if "age" in one and "city" in one]
        assert self.texts(serving, gate, kind="unique") == [one for one in every if one.startswith("unique")]
        assert self.texts(serving, gate, sort="text") == sorted(every, key=str.lower)
        assert self.texts(serving, gate, search="nothing of that") == []
        assert self.texts(serving, gate, show="<b>", sort="drop table") == every
        supports = {
            one.text: one.support or 0 for one in known_dependencies(table.storage, read_current(table.storage)).holding
        }
        found = [supports[one] for one in self.texts(serving, gate, sort="support")]
        assert found == sorted(found, reverse=True)
        classes = [one.partition(" ")[0] == "unique" for one in self.texts(serving, gate, sort="kind")]
        assert classes == sorted(classes)

    def test_they_are_sorted_by_when_they_came_and_went_the_last_first(self, serving, tmp_path):
        made = red(str(tmp_path / "people"))
        made.load("again", [{**TUESDAY[0], "id": 701}])
        made.load("earlier", [{"id": 702, "zip": "z1", "city": "City 9", "age": 22, "pay": 102.5}])
        known = known_dependencies(made.storage, read_current(made.storage))
        order = ["earlier", "again", "tuesday", "monday"]
        task = serving.add_gate(made.state, made.verdict())
        since = {one.text: order.index(one.since) for one in known.holding}
        found = [since[one] for one in self.texts(serving, task, sort="since")]
        assert found == sorted(found)
        assert len({*found}) > 1
        lost = {one.text: order.index(one.until) for one in known.lost}
        found = [lost[one] for one in self.texts(serving, task, show="lost", sort="lost")]
        assert found == sorted(found)
        assert len({*found}) > 1

    def test_each_can_be_pasted_as_a_constraint(self, serving, gate, table, monkeypatch):
        monkeypatch.setattr(routes, "DEPENDENCIES", 100)
        known = {one.text: one for one in known_dependencies(table.storage, read_current(table.storage)).holding}
        shown = serving.get("dependencies", **gate.ids).page.all("details", cls="rule")
        for one in shown:
            yaml = "".join(part for part in one.one("pre").parts if isinstance(part, str))
            lines = "\n".join(f"  {line}" for line in yaml.splitlines())
            (rule,) = load_text(f"version: 1\ntable: people\nconstraints:\n{lines}\n").constraints
            assert id_of(rule) == known[one.one("span", cls="name").text.split(". ", 1)[-1]].id
        assert shown

    def test_each_has_a_page_with_what_comes_closest_to_breaking_it(self, serving, gate, table):
        snapshot = read_current(table.storage)
        for one in known_dependencies(table.storage, snapshot).holding:
            page = serving.get("dependency", **gate.ids, dependency_id=one.id).page
            found = closest(table.storage, snapshot, one)
            assert page.one("h1").text == one.text
            assert found.why in page.one("main").text
            lacks = [f"They would break it if {lacks}." for _, lacks in found.pairs]
            assert [text for text in lacks if text in page.one("main").text] == lacks
            for (pair, _), drawn in zip(found.pairs, page.all("table", cls="pair"), strict=True):
                for side, row in zip(("t", "s"), drawn.one("tbody").rows(), strict=True):
                    known = {**pair[side]["row"], **pair[side]["values"]}
                    shown = [bare(cell) for cell in row]
                    assert shown == [side, *map(str, known.values()), f"load {pair[side]['load']}"]

    def test_one_that_was_lost_leads_to_the_load_that_broke_it(self, serving, gate, table):
        (one,) = [
            one
            for one in known_dependencies(table.storage, read_current(table.storage)).lost
            if one.text == "zip -> city"
        ]
        page = serving.get("dependency", **gate.ids, dependency_id=one.id).page
        (link,) = [
            each.attributes["href"] for each in page.one("main").all("a") if "load_id" in each.attributes["href"]
        ]
        assert serving.get(link).page.one("h1").text == "people · load tuesday FAIL"

    def test_those_that_are_watched_are_marked(self, serving, gate, table):
        watched = [one.text for one in table.verdict().dependencies.watched]
        assert sorted(self.texts(serving, gate, show="marked")) == sorted(watched)
        assert watched


def test_what_follows_from_a_new_one_is_told_with_it(serving, tmp_path):
    """Rows that broke a dependency go: it holds again, and what held instead of it follows from it."""
    made = red(str(tmp_path / "people"))
    made.load("wednesday", [{**row, "_change_type": "delete"} for row in TUESDAY])
    found = made.verdict("wednesday").dependencies
    assert found.generalised
    page = serving.get("verdict", **serving.add_gate(made.state, made.verdict("wednesday")).ids).page
    (told,) = [one for one in page.all("details") if one.one("summary").text == "Generalised"]
    known = {one.id: one.text for one in (*known_dependencies(made.storage, read_current(made.storage)).holding,)}
    shown = [one.text for one in told.all("li")]
    assert shown == [f"{one['text']} follows from {known[one['by']]} now" for one in found.generalised[:50]]
