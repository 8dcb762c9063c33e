"""What pages show is what the verdicts, the listings and the dependencies of the state say."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest

from airflow_dc_provider.pages import routes
from airflow_dc_provider.pages.shown import seconds
from dc_engine.deciding import record_decision
from dc_engine.lost import lost_watched
from dc_engine.stored import each_verdict, read_violations
from dc_engine.verdict import Decided
from tests.pages.parsed import Element
from tests.pages.serving import Serving, Task
from tests.pages.states import MONDAY, TUESDAY, Table, red

pytestmark = pytest.mark.xdist_group("pages")


@pytest.fixture(scope="module")
def gate(serving: Serving, table: Table) -> Task:
    return serving.add_gate(table.state, table.verdict())


def sections(page: Element) -> dict[str, list[Element]]:
    """The rules below each heading."""
    found: dict[str, list[Element]] = {}
    for one in page.one("main").parts:
        if isinstance(one, Element) and one.tag == "h2":
            found[one.text] = []
        elif isinstance(one, Element) and one.attributes.get("class") == "rule":
            list(found.values())[-1].append(one)
    return found


def bare(cell: str) -> str:
    """A cell without the marks of a value that differs."""
    for mark in ("▲ (greater)", "▼ (less)", "≠ (different)", "▲", "▼", "≠"):
        cell = cell.removesuffix(mark).strip()
    return cell


class TestTheVerdict:
    @pytest.fixture
    def page(self, serving: Serving, gate: Task) -> Element:
        return serving.get("verdict", **gate.ids).page

    def test_what_happened_stands_first(self, page, table):
        spent = seconds(table.verdict().seconds["total"])
        assert page.one("h1").text == "people · load tuesday FAIL"
        assert page.all("p", cls="lead")[0].text == (
            f"3 of 4 rules broken, 6 watched dependencies lost. 3 rows in, 0 out · 11 in all · snapshot 3 · {spent}"
        )

    def test_rules_are_in_the_order_of_the_verdict_worst_first_with_their_counts(self, page, table):
        verdict = table.verdict()
        shown = sections(page)
        assert [one.one("span", cls="name").text for one in shown["Broken rules"]] == [
            "✗ pay_grows",
            "✗ one_city",
            "✗ paid",
        ]
        assert [one.one("span", cls="name").text for one in shown["Rules that hold"]] == ["✓ grown_up"]
        for rule, drawn in zip(verdict.broken, shown["Broken rules"], strict=True):
            rows = f"{rule.violating_rows} row{'s' if rule.violating_rows > 1 else ''}"
            counts = f"{rule.new_violations} new · {rule.total_violations} in all · by {rows}"
            assert drawn.one("span", cls="counts").text == counts
            assert rule.severity in drawn.one("summary").text
            assert drawn.all("code", cls="source")[0].text == rule.formula
            assert rule.description in drawn.text
            assert "open" in drawn.attributes
        assert "open" not in shown["Rules that hold"][0].attributes

    def test_examples_are_those_of_the_verdict(self, page, table):
        for rule, drawn in zip(table.verdict().broken, sections(page)["Broken rules"], strict=True):
            pairs = drawn.one("table", cls="pair").all("tbody")
            assert len(pairs) == min(len(rule.samples), 3)
            for sample, body in zip(rule.samples, pairs, strict=False):
                for side, row in zip(("t", "s") if "s" in sample else ("t",), body.rows(), strict=True):
                    known = {**sample[side]["row"], **sample[side]["values"]}
                    assert [bare(one) for one in row[: len(known) + 1]] == [side, *map(str, known.values())]

    def test_values_that_differ_are_marked_with_which_is_greater(self, page):
        (rule, *_) = sections(page)["Broken rules"]
        first = rule.one("table", cls="pair").all("tbody")[0]
        assert [one.text for one in first.all("td", cls="differs")][:2] == ["60▲ (greater)", "1.0▼ (less)"]
        assert len(first.all("td", cls="differs")) == 4

    def test_a_row_that_explains_most_is_named(self, page):
        assert "One row takes part in 10 of 10: id=100." in sections(page)["Broken rules"][0].text

    def test_where_none_does_those_with_the_most_are(self, serving, tmp_path):
        made = Table(str(tmp_path / "people"))
        made.load("monday", MONDAY)
        rows = [{**MONDAY[0], "id": 900 + one, "city": f"Elsewhere {one}"} for one in range(5)]
        verdict = made.load("tuesday", rows)
        worst = next(one for one in verdict.constraints if one.name == "one_city").worst_rows[:3]
        told = ", ".join(f"id={one['row']['id']} ({one['violations']})" for one in worst)
        page = serving.get("verdict", **serving.add_gate(made.state, verdict).ids).page
        assert f"Rows with the most: {told}." in sections(page)["Broken rules"][0].text

    def test_lost_dependencies_have_their_rows_and_what_holds_instead(self, page, table):
        lost = lost_watched(table.verdict())
        drawn = sections(page)["Dependencies lost"]
        assert len(lost) == 6
        for one, shown in zip(lost, drawn, strict=True):
            assert shown.one("span", cls="name").text == f"✗ {one.text}"
            assert f"held since load {one.since} · {one.violations} violation" in shown.one("summary").text
            sides = [one.example[side] for side in ("t", "s")]
            rows = shown.one("table", cls="pair").all("tbody")[0].rows()
            for side, row in zip(sides, rows, strict=True):
                assert [bare(cell) for cell in row][1:][: len(side["row"])] == [str(v) for v in side["row"].values()]
            instead = [each["text"] for each in one.instead]
            assert [code.text for code in shown.all("code") if "source" not in code.attributes.get("class", "")] == (
                instead[:5]
            )

    def test_each_rule_leads_to_its_violations(self, page, serving):
        for one in sections(page)["Broken rules"]:
            (link,) = [each.attributes["href"] for each in one.all("a") if each.attributes["href"].startswith("pairs")]
            name = parse_qs(urlsplit(link).query)["constraint"][0]
            assert one.one("span", cls="name").text == f"✗ {name}"
            assert serving.get(link).page.one("h1").text.startswith(f"{name} · load tuesday")

    def test_a_green_load_says_so(self, serving, table):
        answer = serving.get("verdict", **serving.add_gate(table.state, table.verdict("monday")).ids)
        assert answer.page.one("h1").text == "people · load monday PASS"
        assert answer.page.all("p", cls="lead")[0].text.startswith("All 4 rules hold.")
        assert [one.one("span", cls="name").text[0] for one in sections(answer.page)["Rules"]] == ["✓"] * 4
        assert "What to do" not in answer.text
        assert "the newest load: tuesday" in answer.text


class TestWhatPeopleDecide:
    @pytest.fixture
    def own(self, tmp_path) -> Table:
        return red(str(tmp_path / "people"))

    def test_a_gate_that_waits_says_what_to_decide(self, serving, own):
        task = serving.add_gate(own.state, own.verdict(), task_state="awaiting_input")
        assert "A person has to decide." in serving.get("verdict", **task.ids).text
        assert "A person has to decide." not in serving.get("verdict", **task.ids, load_id="monday").text

    @pytest.mark.parametrize(
        ("decided", "said"),
        [
            (Decided("rejected", "", "2026-01-01T00:00:00Z"), "Rejected, because nobody answered in time, at 2026"),
            (
                Decided("approved", "ada", "2026-01-02T00:00:00Z", "known"),
                "Approved by ada at 2026-01-02T00:00:00Z: “known”",
            ),
        ],
    )
    def test_who_decided_and_why(self, serving, own, decided, said):
        record_decision(own.storage, "tuesday", own.verdict().snapshot, decided)
        task = serving.add_gate(own.state, own.verdict())
        page = serving.get("verdict", **task.ids).page
        assert page.one("h1").text == f"people · load tuesday FAIL {decided.answer.upper()}"
        assert said in page.one("main").text
        assert decided.answer in serving.get("history", **task.ids).page.one("table").rows()[1][1]
        listed = serving.get("gates").page.one("table").rows()
        assert f"FAIL {decided.answer}" in {one[1] for one in listed}


def test_a_replaced_load_shows_what_counts_now(serving, tmp_path):
    made = red(str(tmp_path / "people"))
    task = serving.add_gate(made.state, made.verdict())
    made.load("tuesday", [{**TUESDAY[0], "id": 500}])
    page = serving.get("verdict", **task.ids).page
    assert page.one("h1").text == "people · load tuesday FAIL"
    assert "It replaced an earlier attempt of this load, with other rows." in page.one("main").text
    assert "of snapshot 4; the task's own was of snapshot 3." in page.one("main").text
    assert "id=500" in page.one("main").text
    assert "id=100" not in page.one("main").text


def test_a_discarded_load_says_that_its_rows_are_not_there(serving, tmp_path):
    made = Table(str(tmp_path / "people"))
    made.load("monday", MONDAY)
    verdict = made.load("tuesday", TUESDAY, rejected_load="discard")
    text = serving.get("verdict", **serving.add_gate(made.state, verdict).ids).text
    assert "The load was discarded: its rows are not in the state." in text
    assert "3 rows in, 0 out · 8 in all" in text


class TestPairs:
    @pytest.mark.parametrize("rule", ["pay_grows", "one_city", "paid"])
    def test_page_by_page_they_are_those_that_are_listed(self, serving, gate, table, rule, monkeypatch):
        monkeypatch.setattr(routes, "PAIRS", 4)
        listed = [row for part in read_violations(table.storage, "tuesday", rule) for row in part.to_pylist()]
        path, shown = "pairs", []
        query = {**gate.ids, "load_id": "tuesday", "constraint": rule}
        while path:
            page = serving.get(path, **query).page
            shown += [body.rows() for body in page.one("table", cls="pair").all("tbody")]
            path = next((one.attributes["href"] for one in page.all("a", rel="next")), "")
            query = {}
        assert len(shown) == len(listed) == {"pay_grows": 10, "one_city": 1, "paid": 1}[rule]
        for rows, line in zip(shown, listed, strict=True):
            for side, row in zip([one for one in ("t", "s") if one in line], rows, strict=True):
                values = [str(one) for one in line[side].values()]
                assert [bare(one) for one in row][2 : 2 + len(values)] == values
                assert row[-1] == ("this load" if line[f"{side}_new"] else "load monday")

    def test_the_worst_rows_and_the_spread_are_there(self, serving, gate, table):
        page = serving.get("pairs", **gate.ids, load_id="tuesday", constraint="pay_grows").page
        worst, spread, _ = (one.rows() for one in page.all("table"))
        assert worst[1:] == [["id=100", "10 of 10"], ["id=101", "1 of 10"], ["id=102", "1 of 10"]]
        assert [one[:2] for one in spread[1:]] == [["1 to 9", "2"], ["10 to 99", "1"]]
        assert page.all("p", cls="lead")[0].text.startswith("10 new violations by 3 of the load's 3 rows")

    def test_a_rule_that_holds_lists_none(self, serving, gate):
        assert "None is listed." in serving.get("pairs", **gate.ids, load_id="tuesday", constraint="grown_up").text


class TestHistory:
    def test_the_table_has_the_numbers_of_the_verdicts_newest_first(self, serving, gate, table, monkeypatch):
        for size in (1, 50):
            monkeypatch.setattr(routes, "LOADS", size)
            path, rows, query = "history", [], dict(gate.ids)
            while path:
                page = serving.get(path, **query).page
                rows += page.one("table").rows()[1:]
                path, query = next((one.attributes["href"] for one in page.all("a", rel="next")), ""), {}
            verdicts = list(each_verdict(table.storage))[::-1]
            assert [one[0] for one in rows] == ["tuesday", "monday"]
            for row, verdict in zip(rows, verdicts, strict=True):
                found = verdict.dependencies
                assert row == [
                    verdict.load_id,
                    verdict.decision.upper(),
                    *(str(verdict.rows[name]) for name in ("inserted", "deleted", "total")),
                    str(sum(one.new_violations for one in verdict.constraints)),
                    ", ".join(one.name for one in verdict.broken),
                    str(len(found.invalidated)),
                    str(len(found.added)),
                    seconds(verdict.seconds["total"]),
                ]

    def test_the_plot_has_a_spot_for_each_rule_and_load_with_violations(self, serving, gate):
        plot = serving.get("history", **gate.ids).page.one("svg")
        spots = [one.text for one in plot.all("rect") if one.attributes.get("class", "").startswith("heat")]
        assert sorted(spots) == [
            f"{name}: {new} new by load tuesday" for name, new in (("one_city", 4), ("paid", 1), ("pay_grows", 10))
        ]
        loads = [parse_qs(urlsplit(one.attributes["href"]).query)["load_id"] for one in plot.all("a")]
        assert loads == [["monday"], ["tuesday"]]

    def test_the_tab_of_a_dag_with_one_gate_is_its_history(self, serving, gate):
        assert serving.get("dag", dag_id=gate.dag_id).html == serving.get("history", **gate.ids).html

    def test_that_of_a_dag_with_several_is_their_list(self, serving, table):
        first = serving.add_gate(table.state, table.verdict())
        serving.add_gate("/elsewhere", None, Task(first.dag_id, "other"))
        rows = serving.get("dag", dag_id=first.dag_id).page.one("table").rows()[1:]
        assert {tuple(one[:4]) for one in rows} == {
            ("people", "FAIL", "tuesday", "3 of 4"),
            ("no verdict yet", "failed", "", ""),
        }


def test_what_is_to_be_copied_is_whole(serving, tmp_path):
    name = "c" * 300
    rules = {"version": 1, "table": "wide", "constraints": [{"name": "grows", "deny": f"t.{name} > s.{name}"}]}
    made = Table(str(tmp_path / "wide"), rules)
    task = serving.add_gate(made.state, made.load("monday", [{name: 1}, {name: 2}]))
    for path, more in (("verdict", {}), ("pairs", {"load_id": "monday", "constraint": "grows"})):
        page = serving.get(path, **task.ids, **more).page
        assert f"not (t.{name} > s.{name})" in [one.text for one in page.all("code", cls="source")]
