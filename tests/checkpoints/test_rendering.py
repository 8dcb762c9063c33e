"""What the pages say, and that no text of a verdict is ever more than text in them."""

from __future__ import annotations

import string
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import great_expectations as gx
import pytest
from great_expectations.render.renderer.inline_renderer import InlineRenderer

from airflow_dc_provider.checkpoints.expectations import ExpectDenialConstraintToHold
from airflow_dc_provider.checkpoints.export import export_checkpoint
from airflow_dc_provider.checkpoints.rendering import WHAT_IS_JUDGED
from dc_engine.verdict import MASKED, Decided, Dependencies, DependencyVerdict, LostDependency, Verdict
from dc_engine.wording import plain
from tests.checkpoints.hostile import ATTACKS, TAME, hostile
from tests.checkpoints.verdicts import RULES, SAMPLES, pair, verdict

pytestmark = pytest.mark.xdist_group("gx")
VOID = {"area", "br", "col", "hr", "img", "input", "link", "meta", "source"}
SITE = Path("gx", "uncommitted", "data_docs", "local_site")


@dataclass
class Node:
    """An element of a page."""

    tag: str
    attributes: dict[str, str | None] = field(default_factory=dict)
    children: list[Node | str] = field(default_factory=list)

    def all(self, tag: str = "") -> Iterator[Node]:
        """The elements inside of this one, in the order of the page."""
        for child in self.children:
            if isinstance(child, Node):
                if tag in ("", child.tag):
                    yield child
                yield from child.all(tag)

    @property
    def text(self) -> str:
        """What a reader sees of it, with single spaces."""
        parts = (one if isinstance(one, str) else one.text for one in self.children if not _is_code(one))
        return " ".join(" ".join(parts).split())


def _is_code(child: Node | str) -> bool:
    return isinstance(child, Node) and child.tag in ("script", "style")


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open = [Node("page")]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = Node(tag, dict(attrs))
        self.open[-1].children.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_endtag(self, tag: str) -> None:
        places = [place for place, node in enumerate(self.open) if node.tag == tag]
        if places:
            del self.open[places[-1] :]

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)

    def handle_comment(self, data: str) -> None:
        self.open[-1].children.append(Node("comment"))


def read(path: Path) -> Node:
    reader = _Reader()
    reader.feed(path.read_text())
    reader.close()
    return reader.open[0]


def pages(judged: Verdict, folder: Path) -> dict[str, Node]:
    """The pages of a run, of its suite, and the start page."""
    exported = export_checkpoint(judged, folder)
    assert exported.docs
    (suite,) = (folder / SITE / "expectations").rglob("*.html")
    found = {"run": Path(exported.docs.removeprefix("file://")), "suite": suite, "start": folder / SITE / "index.html"}
    return {name: read(path) for name, path in found.items()}


def row_of(page: Node, text: str) -> list[Node]:
    """The cells of the expectation with a text: status, expectation, observed value."""
    for row in page.all("tr"):
        cells = [cell for cell in row.children if isinstance(cell, Node) and cell.tag == "td"]
        if len(cells) == 3 and text in cells[1].text and next(cells[1].all("strong"), None) is not None:
            return cells
    raise AssertionError(f"No row of the page has {text!r}.")


def examples_in(cell: Node) -> list[list[str]]:
    """The table of examples in a cell, its header first; what is bold is between asterisks."""
    (table,) = cell.all("table")
    rows = [[one for one in row.children if isinstance(one, Node)] for row in table.all("tr")]
    return [[f"*{one.text}*" if next(one.all("strong"), None) else one.text for one in row] for row in rows]


def rule(name: str, **facts: Any) -> Verdict:
    """A verdict about one rule of the examples, with other facts."""
    found = verdict(rules=[one for one in RULES if one["name"] == name], broken={name: 31})
    return replace(found, constraints=[replace(found.constraints[0], **facts)])


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Node]:
    """Pages full of hostile texts."""
    return pages(hostile(), tmp_path_factory.mktemp("attacked"))


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Node]:
    """Pages of a load that broke two of three rules."""
    judged = verdict(broken={"zip_decides_city": 31, "salary_is_positive": 2})
    decided = Decided("approved", "Ada", "noon", "<b>a typo</b> $name")
    judged = replace(judged, notes=["The rule x is new."], replaced=True, decided=decided)
    return pages(judged, tmp_path_factory.mktemp("shown"))


class TestHostileTexts:
    def test_no_text_adds_an_element_or_attribute_to_a_page(self, attacked, tmp_path):
        for name, tame in pages(hostile(TAME), tmp_path / "tame").items():
            wanted = [(one.tag, list(one.attributes)) for one in tame.all()]
            assert [(one.tag, list(one.attributes)) for one in attacked[name].all()] == wanted

    @pytest.mark.parametrize("name", ATTACKS)
    def test_every_text_is_shown_as_it_is(self, attacked, name):
        text = ATTACKS[name]
        _, expectation, _ = row_of(attacked["run"], f"sentence of {name}:")
        said = expectation.text
        for piece in (f"{name} {text}", f"sentence of {name}: {text}", f"formula of {name}: {text}"):
            assert squeezed(plain(piece, 2000)) in said
        assert squeezed(f"{plain(text)}={plain(text)} (2 violations)") in said
        assert squeezed(plain(f"/violations/{name}/{text}", 500)) in said

    @pytest.mark.parametrize("name", ATTACKS)
    def test_values_names_and_keys_of_examples_are_shown_as_they_are(self, attacked, name):
        text = ATTACKS[name]
        column, value = squeezed(plain(f"{name} {text}")), squeezed(plain(text))
        _, expectation, _ = row_of(attacked["run"], f"sentence of {name}:")
        assert examples_in(expectation) == [
            ["t.id", f"t.{column}", "t.b", "s.id", f"s.{column}"],
            [squeezed(plain(f"key {text}")), f"*{value}*", "1", value, "*2*"],
        ]

    @pytest.mark.parametrize("name", ATTACKS)
    def test_notes_and_dependencies_are_shown_as_they_are(self, attacked, name):
        _, run, _ = row_of(attacked["run"], "The verdict is complete")
        assert squeezed(plain(f"note of {name}: {ATTACKS[name]}", 500)) in run.text
        _, dependency, _ = row_of(attacked["run"], squeezed(plain(f"dependency {name} {ATTACKS[name]}", 2000)))
        assert squeezed(plain(f"not {ATTACKS[name]}", 2000)) in dependency.text

    @pytest.mark.parametrize("name", ATTACKS)
    def test_the_page_of_the_suite_shows_them_as_they_are(self, attacked, name):
        points = [point.text for point in attacked["suite"].all("li")]
        (point,) = (one for one in points if f"sentence of {name}:" in one)
        assert squeezed(plain(f"formula of {name}: {ATTACKS[name]}", 2000)) in point

    def test_the_load_and_the_table_are_shown_as_they_are(self, attacked):
        judged = hostile()
        _, expectation, observed = row_of(attacked["run"], "The verdict is complete")
        assert squeezed(plain(f"A verdict of table {judged.table}", 2000)) in expectation.text
        assert squeezed(f"load {plain(judged.load_id, 100)}, snapshot 1") in observed.text

    def test_long_texts_are_cut(self, attacked):
        assert ATTACKS["long"][:2001] not in attacked["run"].text + attacked["suite"].text

    def test_a_second_site_of_data_docs_escapes_nothing_twice(self, tmp_path):
        context = gx.get_context(mode="file", project_root_dir=tmp_path)
        store = {"class_name": "TupleFilesystemStoreBackend", "base_directory": "second"}
        index = {"class_name": "DefaultSiteIndexBuilder"}
        context.add_data_docs_site(
            "second", {"class_name": "SiteBuilder", "store_backend": store, "site_index_builder": index}
        )
        first = pages(rule("zip_decides_city", description=ATTACKS["entity"]), tmp_path)["run"]
        (path,) = (tmp_path / "gx" / "second" / "validations").rglob("*.html")
        cells = [row_of(page, "zip_decides_city")[1].text for page in (first, read(path))]
        assert cells[0] == cells[1]
        assert ATTACKS["entity"] in cells[1]


class TestAPageOfARun:
    def test_it_has_name_sentence_formula_and_tolerance_of_each_rule(self, shown):
        _, expectation, _ = row_of(shown["run"], "zip_decides_city")
        assert expectation.text.startswith(
            "zip_decides_city A zip code lies in one city. not (t.zip = s.zip and t.city != s.city) "
            "Tolerated per load: 0 new violations. Beyond what is tolerated: 0 new violations. "
            "Worst rows: id=17 (31 violations) Violations (Parquet): /state/violations/1/zip_decides_city.parquet"
        )

    def test_it_has_the_counts_with_load_and_snapshot(self, shown):
        _, _, observed = row_of(shown["run"], "zip_decides_city")
        assert observed.text == (
            "31 new violations by 31 of the load's 1,000 rows 0 removed 31 in all load monday, snapshot 1"
        )

    def test_it_says_what_was_judged_what_is_to_be_known_and_who_approved_it_why(self, shown):
        _, expectation, observed = row_of(shown["run"], "The verdict is complete")
        assert expectation.text == (
            f"The verdict is complete A verdict of table tax over 3 rules. {WHAT_IS_JUDGED} Note: The rule x is new."
        )
        assert observed.text == (
            "3 rules, decision fail rows: 1,000 inserted, 0 deleted, 1,000 in all it replaced an earlier attempt "
            "Approved by Ada at noon: <b>a typo</b> $name load monday, snapshot 1"
        )

    def test_rules_of_severity_warn_are_marked(self, shown):
        texts = {name: row_of(shown["run"], name)[1].text for name in ("salary_is_positive", "zip_decides_city")}
        assert texts["salary_is_positive"].startswith("salary_is_positive severity warn not (t.salary <= 0)")
        assert "severity" not in texts["zip_decides_city"]

    def test_rules_that_hold_have_no_examples_and_no_problem(self, shown):
        _, expectation, observed = row_of(shown["run"], "phone_is_unique")
        assert not list(expectation.all("table"))
        assert expectation.text.endswith("Tolerated per load: 0 new violations.")
        assert observed.text.startswith("0 new violations")

    @pytest.mark.parametrize(
        ("tolerance", "words"),
        [
            ({"max_new_violations": 40}, "40 new violations."),
            ({"max_violating_rows": 1}, "1 violating row."),
            ({"max_violating_rows": "0.5%"}, "violations by 0.5% of the load's rows."),
            ({"max_new_violations": 1, "nulls": "equal"}, "1 new violation; NULL equals NULL."),
        ],
    )
    def test_tolerances_are_said_in_words(self, tmp_path, tolerance, words):
        found = pages(verdict(rules=[{**RULES[0], **tolerance}]), tmp_path)
        for text in (row_of(found["run"], "zip_decides_city")[1].text, found["suite"].text):
            assert f"Tolerated per load: {words}" in text

    def test_rows_that_a_null_left_out_are_counted(self, tmp_path):
        found = pages(rule("phone_is_unique", skipped_null_rows=1200), tmp_path)
        assert "Skipped because of a NULL: 1,200 rows" in row_of(found["run"], "phone_is_unique")[1].text

    def test_dependencies_say_whether_they_hold(self, tmp_path):
        holds = DependencyVerdict("fd-1", "fd", "a -> b", "not (t.a = s.a and t.b != s.b)", since="sunday")
        instead = [{"id": "fd-3", "text": "a, b -> c"}]
        fallen = ("fd-2", "fd", "a -> c", "not (t.a = s.a and t.c != s.c)")
        lost = LostDependency(*fallen, severity="error", violations=2, example=SAMPLES[0], instead=instead)
        page = pages(verdict(dependencies=Dependencies(watched=[holds], invalidated=[lost])), tmp_path)["run"]
        assert row_of(page, "fd-1")[1].text == (
            "fd-1 severity warn a -> b not (t.a = s.a and t.b != s.b) "
            "A watched dependency of class fd. It has held since load sunday."
        )
        assert row_of(page, "fd-1")[2].text == "holds load monday, snapshot 1"
        assert row_of(page, "fd-2")[1].text.startswith(
            "fd-2 a -> c not (t.a = s.a and t.c != s.c) A watched dependency of class fd. "
            "The load invalidated it. What holds instead: a, b -> c. 1 example: "
        )
        assert row_of(page, "fd-2")[2].text.startswith("no longer holds: 2 violations")

    def test_what_cannot_be_judged_says_why_as_text(self, folder, open_context, monkeypatch):
        export_checkpoint(verdict(), folder)

        def fail(*_: Any) -> None:
            raise ValueError(ATTACKS["image"])

        monkeypatch.setattr(ExpectDenialConstraintToHold, "judge", fail)
        assert not open_context().checkpoints.get("dcgate.tax").run().success
        (path,) = (one for one in (folder / SITE / "validations").rglob("*.html") if "monday_v1" not in one.parts)
        page = read(path)
        _, expectation, observed = row_of(page, "zip_decides_city")
        assert expectation.text.endswith(f"It could not be judged: {ATTACKS['image']}")
        assert observed.text == "--"
        assert not [image for image in page.all("img") if image.attributes.get("src") == "x"]


class TestExamples:
    def examples(self, folder: Path, samples: list[dict[str, Any]], name: str = "zip_decides_city") -> list[list[str]]:
        return examples_in(row_of(pages(rule(name, samples=samples), folder)["run"], name)[1])

    def test_two_rows_are_side_by_side_and_what_differs_is_bold(self, shown):
        _, expectation, _ = row_of(shown["run"], "zip_decides_city")
        assert examples_in(expectation) == [
            ["t.id", "t.zip", "t.city", "rows like t", "s.id", "s.zip", "s.city", "rows like s"],
            ["17", "10115", "*Berln*", "8", "3", "10115", "*Berlin*", "8"],
        ]
        assert "1 example: the rows t and s of a violation side by side, differences in bold" in expectation.text

    def test_a_rule_of_one_row_has_one_row(self, tmp_path):
        sample = {"t": {"row": {"id": 4}, "values": {"salary": -1}, "rows": 1}}
        assert self.examples(tmp_path, [sample, sample], "salary_is_positive") == [
            ["t.id", "t.salary"],
            ["4", "-1"],
            ["4", "-1"],
        ]

    def test_how_many_rows_are_alike_is_shown_only_where_there_are_some(self, tmp_path):
        samples = [pair({"id": 1, "zip": "a"}, {"id": 2, "zip": "a"})]
        assert self.examples(tmp_path, samples) == [["t.id", "t.zip", "s.id", "s.zip"], ["1", "a", "2", "a"]]

    def test_masked_values_stay_masked(self, tmp_path):
        samples = [pair({"id": 1, "zip": "a", "city": MASKED}, {"id": 2, "zip": "a", "city": MASKED})]
        assert self.examples(tmp_path, samples)[1] == ["1", "a", "***", "2", "a", "***"]

    def test_null_is_not_the_text_null_and_differs_from_what_is_empty(self, tmp_path):
        samples = [pair({"id": 1, "zip": None, "city": ""}, {"id": 2, "zip": "", "city": ""})]
        assert self.examples(tmp_path, samples)[1] == ["1", "*NULL*", "", "2", "", ""]

    def test_rows_without_key_will_do(self, tmp_path):
        sides = {side: {"row": None, "values": {"zip": side}, "rows": 1} for side in ("t", "s")}
        assert self.examples(tmp_path, [sides]) == [["t.zip", "s.zip"], ["*t*", "*s*"]]

    def test_a_key_that_the_rule_reads_has_one_column(self, tmp_path):
        sides = {side: {"row": {"id": side}, "values": {"zip": 1, "id": side}, "rows": 1} for side in ("t", "s")}
        assert self.examples(tmp_path, [sides]) == [["t.id", "t.zip", "s.id", "s.zip"], ["*t*", "1", "*s*", "1"]]


class TestOtherForms:
    def test_the_page_of_the_suite_has_one_point_for_each_rule(self, shown):
        points = [point.text for point in shown["suite"].all("li")]
        assert (
            "zip_decides_city A zip code lies in one city. not (t.zip = s.zip and t.city != s.city) "
            "Tolerated per load: 0 new violations."
        ) in points
        assert any(WHAT_IS_JUDGED in point for point in points)

    def test_the_start_page_has_the_run(self, shown):
        assert any("monday_v1" in str(script.children) for script in shown["start"].all("script"))

    @pytest.fixture
    def results(self, folder, open_context) -> list[Any]:
        export_checkpoint(verdict(broken={"zip_decides_city": 31}), folder)
        context = open_context()
        (key,) = context.validation_results_store.list_keys()
        return context.validation_results_store.get(key).results

    def texts(self, shown: Any) -> dict[str, str]:
        """The atomic form, filled in as others do."""
        found = {}
        for one in InlineRenderer(render_object=shown).get_rendered_content():
            values = {name: given["value"] for name, given in one.value.params.items()}
            found[str(one.name)] = string.Template(one.value.template).substitute(values)
        return found

    def test_the_atomic_form_has_sentence_formula_and_counts(self, results):
        (result,) = (one for one in results if one.expectation_config.kwargs.get("constraint") == "zip_decides_city")
        expected = (
            "zip_decides_city A zip code lies in one city. not (t.zip = s.zip and t.city != s.city) "
            "Tolerated per load: 0 new violations."
        )
        found = "31 new violations by 31 of the load's 1,000 rows, 0 removed, 31 in all"
        assert self.texts(result.expectation_config) == {"atomic.prescriptive.summary": expected}
        assert self.texts(result)["atomic.diagnostic.observed_value"] == found

    def test_the_atomic_form_puts_nothing_into_hostile_texts(self, folder, open_context):
        export_checkpoint(hostile(), folder)
        context = open_context()
        (key,) = context.validation_results_store.list_keys()
        for result in context.validation_results_store.get(key).results:
            self.texts(result)
            name = str(result.expectation_config.kwargs.get("constraint", "")).partition(" ")[0]
            if name:
                text = self.texts(result.expectation_config)["atomic.prescriptive.summary"]
                assert plain(f"sentence of {name}: {ATTACKS[name]}", 2000) in text


def squeezed(text: str) -> str:
    """A text as a reader of a page sees it: spaces that follow each other are one."""
    return " ".join(text.split())
