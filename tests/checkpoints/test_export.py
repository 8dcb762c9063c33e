"""What an export leaves in a context, however many loads, tables and repetitions there are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import great_expectations as gx
import pytest
from great_expectations.checkpoint import SlackNotificationAction, UpdateDataDocsAction
from great_expectations.checkpoint.actions import ValidationAction

from airflow_dc_provider.checkpoints.expectations import ExpectDenialConstraintToHold
from airflow_dc_provider.checkpoints.export import export_checkpoint
from dc_engine.errors import RequestError, StateError
from dc_engine.verdict import Dependencies, DependencyVerdict, LostDependency
from tests.checkpoints.conftest import files_of
from tests.checkpoints.verdicts import RULES, SAMPLES, verdict

pytestmark = pytest.mark.xdist_group("gx")
BROKEN = {"zip_decides_city": 31}
DEFINITIONS = ("great_expectations.yml", "gx/expectations/", "gx/checkpoints/", "gx/validation_definitions/")


class Unreachable(ValidationAction):
    """An action of somebody's own that cannot reach what it notifies."""

    type: Literal["unreachable"] = "unreachable"

    def run(self, checkpoint_result, action_context=None):
        raise ConnectionError("no route to the pager")


def runs_in(folder: Path) -> list[str]:
    return sorted(path.parent.parent.name for path in (folder / "gx" / "uncommitted" / "validations").rglob("*.json"))


def pages_in(folder: Path) -> list[str]:
    site = folder / "gx" / "uncommitted" / "data_docs" / "local_site" / "validations"
    return sorted(path.parent.parent.name for path in site.rglob("*.html"))


def statistics_in(folder: Path) -> dict[str, dict[str, Any]]:
    """The statistics of every run."""
    stored = (folder / "gx" / "uncommitted" / "validations").rglob("*.json")
    return {path.parent.parent.name: json.loads(path.read_text())["statistics"] for path in stored}


def ids_of(context: Any, name: str) -> dict[str, Any]:
    suite = context.suites.get(name)
    datasource = context.data_sources.get(name)
    return {
        "suite": suite.id,
        "expectations": {one.id for one in suite.expectations},
        "definition": context.validation_definitions.get(name).id,
        "checkpoint": context.checkpoints.get(name).id,
        "datasource": datasource.id,
        "assets": {asset.name: asset.id for asset in datasource.assets},
    }


class TestOneExport:
    def test_a_clean_load_passes(self, folder):
        exported = export_checkpoint(verdict(), folder)
        assert (exported.checkpoint, exported.run, exported.success) == ("dcgate.tax", "monday_v1", True)
        assert Path(exported.docs.removeprefix("file://")).exists()
        assert Path(exported.index.removeprefix("file://")).exists()

    def test_a_broken_rule_fails_the_checkpoint(self, folder):
        exported = export_checkpoint(verdict(broken=BROKEN), folder)
        assert not exported.success
        assert [line for line in exported.lines if line.startswith("FAIL")] == [
            "FAIL zip_decides_city: 31 new violations by 31 of the load's 1,000 rows, 0 removed, 31 in all"
        ]

    def test_its_statistics_count_rules_and_not_checks_on_the_verdict(self, folder, open_context):
        broken = dict.fromkeys(["zip_decides_city", "salary_is_positive"], 31)
        lost = LostDependency("d1", "fd", "a -> b", "not x", violations=1)
        kept = DependencyVerdict("d2", "fd", "a -> c", "not y")
        dependencies = Dependencies(watched=[kept], invalidated=[lost])
        export_checkpoint(verdict(broken=broken, dependencies=dependencies), folder)
        statistics = {"evaluated_expectations": 5, "successful_expectations": 2, "unsuccessful_expectations": 3}
        assert statistics_in(folder)["monday_v1"] == {**statistics, "success_percent": 40.0}
        open_context().suites.get("dcgate.tax").add_expectation(gx.expectations.ExpectColumnToExist(column="gone"))
        exported = export_checkpoint(verdict("tuesday", 2, rules=RULES[:1]), folder)
        assert not exported.success
        statistics = {"evaluated_expectations": 2, "successful_expectations": 1, "unsuccessful_expectations": 1}
        assert statistics_in(folder)["tuesday_v2"] == {**statistics, "success_percent": 50.0}

    def test_a_run_by_hand_counts_as_great_expectations_does(self, folder, open_context):
        export_checkpoint(verdict(), folder)
        (result,) = open_context().checkpoints.get("dcgate.tax").run().run_results.values()
        assert result.statistics["evaluated_expectations"] == len(RULES) + 5

    def test_severities_are_those_of_great_expectations(self, folder, open_context):
        export_checkpoint(verdict(broken={"salary_is_positive": 1}), folder)
        context = open_context()
        (key,) = context.validation_results_store.list_keys()
        result = context.validation_results_store.get(key)
        assert not result.success
        assert result.get_max_severity_failure() == "warning"
        export_checkpoint(verdict("tuesday", 2, broken=BROKEN), folder)
        by_run = {key.run_id.run_name: key for key in context.validation_results_store.list_keys()}
        assert context.validation_results_store.get(by_run["tuesday_v2"]).get_max_severity_failure() == "critical"

    @pytest.mark.parametrize(
        ("tolerance", "wanted"),
        [
            ({}, {"max_new_violations": 0}),
            ({"max_new_violations": 40}, {"max_new_violations": 40}),
            ({"max_violating_rows": 40}, {"max_violating_rows": 40}),
            ({"max_violating_rows": "4%"}, {"max_violating_rows": "4%"}),
        ],
    )
    def test_tolerances_decide(self, folder, open_context, tolerance, wanted):
        rules = [{**RULES[0], **tolerance}]
        exported = export_checkpoint(verdict(rules=rules, broken=BROKEN), folder)
        assert exported.success == bool(tolerance)
        (rule,) = (
            one
            for one in open_context().suites.get("dcgate.tax").expectations
            if one.expectation_type == "expect_denial_constraint_to_hold"
        )
        assert {name: getattr(rule, name) for name in wanted} == wanted

    def test_watched_dependencies_are_expected_to_hold(self, folder):
        holds = DependencyVerdict("fd-1", "fd", "a -> b", "not (t.a = s.a and t.b != s.b)", since="monday")
        assert export_checkpoint(verdict(dependencies=Dependencies(watched=[holds])), folder).success
        fallen = ("fd-2", "fd", "a -> c", "not (t.a = s.a and t.c != s.c)")
        instead = [{"id": "fd-3", "text": "a, b -> c"}]
        lost = LostDependency(*fallen, severity="error", violations=2, example=SAMPLES[0], instead=instead)
        bad = verdict("tuesday", 2, dependencies=Dependencies(watched=[holds], invalidated=[lost]))
        assert bad.decision == "fail"
        exported = export_checkpoint(bad, folder)
        assert not exported.success
        assert "FAIL a -> c: no longer holds: 2 violations" in exported.lines

    def test_a_lost_dependency_that_nobody_watches_is_none_of_the_checkpoints_business(self, folder):
        fallen = ("fd-2", "fd", "a -> c", "not (t.a = s.a and t.c != s.c)")
        lost = LostDependency(*fallen, severity="error", watched=False, violations=2)
        found = verdict(dependencies=Dependencies(invalidated=[lost]))
        assert found.decision == "pass"
        assert export_checkpoint(found, folder).success

    def test_an_open_context_and_a_document_will_do(self):
        context = gx.get_context(mode="ephemeral")
        first = export_checkpoint(json.loads(json.dumps(verdict().to_dict())), context)
        second = export_checkpoint(verdict("tuesday", 2, broken=BROKEN), context)
        assert (first.success, second.success) == (True, False)
        assert not context.checkpoints.get("dcgate.tax").run().success

    def test_an_open_file_context_will_do(self, folder, open_context):
        context = open_context()
        assert export_checkpoint(verdict(), context).success
        assert export_checkpoint(verdict("tuesday", 2), context).success
        assert context.checkpoints.get("dcgate.tax").run(batch_parameters={"path": "monday.jsonl"}).success

    def test_a_context_that_others_added_to_meanwhile_is_refused(self, folder, open_context):
        outdated = open_context()
        export_checkpoint(verdict(table="other"), folder)
        with pytest.raises(StateError, match=r"was opened before dcgate\.other came into it"):
            export_checkpoint(verdict(), outdated)

    @pytest.mark.parametrize(
        ("table", "load_id"),
        [
            ("db.tax", "scheduled__2026-01-01T00:00:00+00:00"),
            ("my table", "a/../b"),
            ("a/b\\c", "profiling"),
            ("..", "%20 #?"),
            ("Größe", "größer"),
            ("x" * 200, "y" * 300),
        ],
    )
    def test_any_table_and_load_has_its_page(self, folder, table, load_id):
        exported = export_checkpoint(verdict(load_id, table=table), folder)
        assert exported.success
        assert len(pages_in(folder)) == 1
        assert folder in Path(exported.docs.removeprefix("file://")).resolve().parents

    def test_what_is_no_verdict_is_refused(self, folder):
        with pytest.raises(RequestError, match="not a verdict document"):
            export_checkpoint({"schema_version": 1, "table": "tax"}, folder)
        assert not folder.exists()

    @pytest.mark.parametrize("limit", [{"keep_runs": 0}, {"keep_days": -1}])
    def test_limits_that_make_no_sense_are_refused(self, folder, limit):
        with pytest.raises(RequestError, match=next(iter(limit))):
            export_checkpoint(verdict(), folder, **limit)


class TestManyExports:
    def test_many_loads_of_three_tables_leave_one_of_everything(self, folder, open_context):
        """With repetitions, replaced loads, rules that change, and old runs that go."""
        tables = ("tax", "people", "orders")
        for table in tables:
            export_checkpoint(verdict("load 0", table=table), folder, keep_runs=2)
        before = {table: ids_of(open_context(), f"dcgate.{table}") for table in tables}
        for number in range(1, 19):
            table = tables[number % 3]
            broken = BROKEN if number % 7 == 0 else None
            rules = RULES[:2] if 6 <= number < 12 else RULES
            given = verdict(f"load {number}", number + 1, table=table, broken=broken, rules=rules)
            exported = export_checkpoint(given, folder, keep_runs=2)
            assert exported.success == (broken is None)
            if number % 5 == 0:
                assert export_checkpoint(given, folder, keep_runs=2).repeated
        context = open_context()
        assert {table: ids_of(context, f"dcgate.{table}") for table in tables} == before
        assert len(context.checkpoints.all()) == len(list(context.suites.all())) == len(tables)
        assert len(runs_in(folder)) == len(pages_in(folder)) == 2 * len(tables)
        batches = sorted(path.name for path in (folder / "gx" / "dcgate").rglob("*.jsonl"))
        assert len(batches) == (2 + 1) * len(tables)

    def test_what_does_not_change_is_not_written(self, folder):
        export_checkpoint(verdict(), folder)
        export_checkpoint(verdict("tuesday", 2), folder)
        before = files_of(folder)
        export_checkpoint(verdict("wednesday", 3, broken=BROKEN), folder)
        after = files_of(folder)
        changed = {name for name in after if after[name] != before.get(name)}
        assert not [name for name in changed if name.startswith(DEFINITIONS) or name in DEFINITIONS]
        assert not [name for name in changed if "monday" in name or "tuesday" in name]

    def test_the_same_verdict_again_writes_nothing(self, folder):
        first = export_checkpoint(verdict(broken=BROKEN), folder)
        before = files_of(folder)
        again = export_checkpoint(verdict(broken=BROKEN), folder)
        assert files_of(folder) == before
        assert again.repeated
        assert (again.docs, again.success, again.lines) == (first.docs, False, first.lines)

    def test_another_verdict_of_the_same_name_replaces_the_run(self, folder):
        """A state that was begun anew numbers its snapshots from 1 again."""
        export_checkpoint(verdict(broken=BROKEN), folder)
        exported = export_checkpoint(verdict(), folder)
        assert exported.success
        assert not exported.repeated
        assert runs_in(folder) == pages_in(folder) == ["monday_v1"]

    def test_both_attempts_of_a_replaced_load_stay(self, folder):
        export_checkpoint(verdict(broken=BROKEN), folder)
        export_checkpoint(verdict("monday", 2), folder)
        assert runs_in(folder) == pages_in(folder) == ["monday_v1", "monday_v2"]

    def test_old_runs_go_by_age(self, folder, monkeypatch):
        for number in range(3):
            export_checkpoint(verdict(f"load-{number}", number + 1), folder)
        export_checkpoint(verdict("last", 9), folder, keep_days=0)
        assert runs_in(folder) == pages_in(folder) == ["last_v9"]

    def test_what_people_added_stays(self, folder, open_context):
        export_checkpoint(verdict(), folder)
        context = open_context()
        checkpoint = context.checkpoints.get("dcgate.tax")
        slack = SlackNotificationAction(name="slack", slack_webhook="https://hooks.invalid/x", notify_on="info")
        checkpoint.actions = [slack]
        checkpoint.save()
        suite = context.suites.get("dcgate.tax")
        suite.add_expectation(gx.expectations.ExpectColumnToExist(column="outcome"))
        export_checkpoint(verdict("tuesday", 2, rules=RULES[:1]), folder)
        context = open_context()
        actions = context.checkpoints.get("dcgate.tax").actions
        assert [action for action in actions if action.name == "slack"] == [slack]
        assert any(isinstance(action, UpdateDataDocsAction) for action in actions)
        kinds = {one.expectation_type for one in context.suites.get("dcgate.tax").expectations}
        assert "expect_column_to_exist" in kinds

    def test_an_action_that_fails_is_an_error_and_the_export_is_tried_again(self, folder, open_context):
        export_checkpoint(verdict(), folder)
        checkpoint = open_context().checkpoints.get("dcgate.tax")
        checkpoint.actions.append(Unreachable(name="mine"))
        checkpoint.save()
        for _ in range(2):
            with pytest.raises(StateError, match="ConnectionError: no route to the pager") as raised:
                export_checkpoint(verdict("tuesday", 2), folder)
            assert "an action of the checkpoint failed" in raised.value.hint
        checkpoint.actions.pop()
        checkpoint.save()
        assert not export_checkpoint(verdict("tuesday", 2), folder).repeated
        assert runs_in(folder) == pages_in(folder) == ["monday_v1", "tuesday_v2"]

    def test_suites_of_others_are_left_alone(self, folder, open_context):
        suite = gx.ExpectationSuite(name="theirs", expectations=[gx.expectations.ExpectColumnToExist(column="a")])
        open_context().suites.add(suite)
        before = files_of(folder)
        export_checkpoint(verdict(), folder)
        after = files_of(folder)
        assert after["gx/expectations/theirs.json"] == before["gx/expectations/theirs.json"]


class TestTheLatestLoad:
    def test_it_is_what_the_checkpoint_runs_over(self, folder, open_context):
        export_checkpoint(verdict(), folder)
        export_checkpoint(verdict("tuesday", 2, broken=BROKEN), folder)
        checkpoint = open_context().checkpoints.get("dcgate.tax")
        assert not checkpoint.run().success
        assert checkpoint.run(batch_parameters={"path": "monday.jsonl"}).success

    def test_an_older_load_is_judged_by_its_own_rules_and_does_not_become_the_latest(self, folder, open_context):
        export_checkpoint(verdict("tuesday", 2), folder)
        before = files_of(folder)
        older = verdict("monday", 1, rules=RULES[:1], broken=BROKEN)
        exported = export_checkpoint(older, folder)
        assert not exported.success
        assert sum(line.startswith(("ok", "FAIL")) for line in exported.lines) == 2
        suite = "gx/expectations/dcgate/tax.json"
        assert files_of(folder)[suite][0] == before[suite][0]
        assert open_context().checkpoints.get("dcgate.tax").run().success

    def test_the_newest_load_of_a_state_that_was_begun_anew_is_the_latest(self, folder, open_context):
        export_checkpoint(verdict("long ago", 70), folder)
        export_checkpoint(verdict("monday", 1, broken=BROKEN), folder, newest=True)
        assert not open_context().checkpoints.get("dcgate.tax").run().success

    def test_an_old_day_that_was_run_again_does_not_hide_the_newest_load(self, folder, open_context):
        export_checkpoint(verdict("tuesday", 2, broken=BROKEN), folder, newest=True)
        export_checkpoint(verdict("monday", 3), folder, newest=False)
        assert not open_context().checkpoints.get("dcgate.tax").run().success

    def test_the_load_before_is_the_latest_again_when_the_newest_was_taken_out(self, folder, open_context):
        export_checkpoint(verdict(), folder, newest=True)
        export_checkpoint(verdict("tuesday", 2, broken=BROKEN), folder, newest=True)
        assert export_checkpoint(verdict(), folder, newest=True).repeated
        assert open_context().checkpoints.get("dcgate.tax").run().success

    def test_a_damaged_one_is_replaced(self, folder, open_context):
        export_checkpoint(verdict("tuesday", 2), folder)
        latest = folder / "gx" / "dcgate" / "tax" / "~latest.jsonl"
        latest.write_text(latest.read_text()[:100])
        export_checkpoint(verdict(), folder)
        assert open_context().checkpoints.get("dcgate.tax").run().success

    def test_the_page_of_the_suite_shows_its_rules_also_after_an_older_load(self, folder):
        export_checkpoint(verdict("tuesday", 2), folder)
        export_checkpoint(verdict("monday", 1, rules=RULES[:1]), folder)
        site = folder / "gx" / "uncommitted" / "data_docs" / "local_site"
        assert "phone_is_unique" in (site / "expectations" / "dcgate" / "tax.html").read_text()


class TestWhatIsMissing:
    """An export makes it again, also when the verdict itself had been exported before."""

    @pytest.fixture
    def context(self, folder: Path, open_context) -> Any:
        export_checkpoint(verdict(), folder)
        return open_context()

    def again(self, folder: Path, open_context) -> None:
        assert export_checkpoint(verdict(), folder).repeated
        context = open_context()
        assert context.checkpoints.get("dcgate.tax").run().success
        assert "dcgate" in context.config.stores

    def test_the_checkpoint(self, context, folder, open_context):
        context.checkpoints.delete("dcgate.tax")
        self.again(folder, open_context)

    def test_the_validation_definition(self, context, folder, open_context):
        context.checkpoints.delete("dcgate.tax")
        context.validation_definitions.delete("dcgate.tax")
        self.again(folder, open_context)

    def test_the_rules_of_the_suite(self, context, folder, open_context):
        suite = context.suites.get("dcgate.tax")
        suite.expectations = []
        suite.save()
        self.again(folder, open_context)

    def test_the_guard(self, context, folder, open_context):
        path = folder / "gx" / "great_expectations.yml"
        lines = path.read_text().splitlines(keepends=True)
        start = next(place for place, line in enumerate(lines) if line.startswith("  dcgate:"))
        del lines[start : start + 3]
        path.write_text("".join(lines))
        assert "GateStore" not in path.read_text()
        self.again(folder, open_context)


class TestWhatIsRefused:
    def test_expectations_of_a_class_that_is_not_known_here_are_not_lost(self, folder):
        export_checkpoint(verdict(), folder)
        path = folder / "gx" / "expectations" / "dcgate" / "tax.json"
        document = json.loads(path.read_text())
        theirs = {**document["expectations"][0], "type": "expect_something_of_theirs", "id": None, "meta": {}}
        path.write_text(json.dumps({**document, "expectations": [*document["expectations"], theirs]}))
        before = path.read_text()
        for rules in (RULES, RULES[:1]):
            with pytest.raises(StateError, match="cannot be loaded here: expect_something_of_theirs"):
                export_checkpoint(verdict("tuesday", 2, rules=rules), folder)
        assert path.read_text() == before

    def test_a_rule_that_great_expectations_judges_otherwise(self, folder, monkeypatch):
        judge = ExpectDenialConstraintToHold.judge
        monkeypatch.setattr(
            ExpectDenialConstraintToHold, "judge", lambda self, given: {**judge(self, given), "problem": None}
        )
        with pytest.raises(StateError, match="disagree: ok   zip_decides_city: 31 new violations"):
            export_checkpoint(verdict(broken=BROKEN), folder)
        assert runs_in(folder) == []

    def test_an_expectation_that_raises(self, folder, monkeypatch):
        def broken(self, given):
            raise RuntimeError("out of order")

        monkeypatch.setattr(ExpectDenialConstraintToHold, "judge", broken)
        with pytest.raises(StateError, match="FAIL expect_denial_constraint_to_hold: out of order"):
            export_checkpoint(verdict(), folder)

    def test_a_page_that_cannot_be_rendered_is_not_passed_over(self, folder, monkeypatch):
        def broken(result):
            raise RuntimeError("no ink")

        monkeypatch.setattr("airflow_dc_provider.checkpoints.rendering.examples", broken)
        for _ in range(2):
            with pytest.raises(StateError, match=r"could not render a page of Data Docs.*no ink"):
                export_checkpoint(verdict(), folder)
        monkeypatch.undo()
        assert not export_checkpoint(verdict(), folder).repeated

    def test_a_verdict_of_a_later_version(self, folder):
        with pytest.raises(StateError, match="schema version 99; this version reads 1"):
            export_checkpoint({**verdict().to_dict(), "schema_version": 99}, folder)


class TestRulesForGreatExpectationsAlone:
    def test_an_older_load_leaves_them_as_they_are(self, folder, open_context):
        export_checkpoint(verdict("tuesday", 2), folder, export_builtin=True)
        exported = export_checkpoint(verdict("monday", 1, rules=RULES[1:2]), folder, export_builtin=True)
        assert len(open_context().suites.get("dcgate_builtin.tax").expectations) == 2
        assert not [line for line in exported.lines if "built-in" in line]

    def test_rules_that_are_left_out_are_named(self, folder):
        exported = export_checkpoint(verdict(), folder, export_builtin=True)
        assert "No built-in expectation says what zip_decides_city says." in exported.lines


class TestOtherSites:
    def test_data_docs_may_be_updated_on_one_of_several_sites(self, folder, open_context):
        export_checkpoint(verdict(), folder)
        context = open_context()
        backend = {"class_name": "TupleFilesystemStoreBackend", "base_directory": "uncommitted/data_docs/second"}
        builder = {"class_name": "DefaultSiteIndexBuilder"}
        context.add_data_docs_site(
            "second", {"class_name": "SiteBuilder", "store_backend": backend, "site_index_builder": builder}
        )
        checkpoint = context.checkpoints.get("dcgate.tax")
        checkpoint.actions = [UpdateDataDocsAction(name="mine", site_names=["second"])]
        checkpoint.save()
        exported = export_checkpoint(verdict("tuesday", 2), folder)
        assert "/data_docs/second/validations/" in exported.docs
        assert exported.index.endswith("/data_docs/second/index.html")
        assert [action.name for action in open_context().checkpoints.get("dcgate.tax").actions] == ["mine"]


class TestNeverByAccident:
    """A checkpoint fails on a verdict that is not the one it was made for."""

    @pytest.fixture
    def latest(self, folder: Path) -> Path:
        export_checkpoint(verdict(), folder)
        return folder / "gx" / "dcgate" / "tax" / "~latest.jsonl"

    def problems(self, open_context) -> str:
        result = open_context().checkpoints.get("dcgate.tax").run()
        assert not result.success
        (validated,) = result.run_results.values()
        details = [one.result.get("details", {}).get("problem") for one in validated.results if not one.success]
        return " ".join(filter(None, details))

    def test_a_rule_is_missing(self, latest, open_context):
        lines = latest.read_text().splitlines(keepends=True)
        latest.write_text("".join(line for line in lines if "phone_is_unique" not in line))
        said = self.problems(open_context)
        assert "says nothing about the rule 'phone_is_unique'" in said
        assert "it has 2 of 3 rules" in said

    def test_a_rule_has_another_formula(self, latest, open_context):
        latest.write_text(latest.read_text().replace("t.zip = s.zip", "t.zip = s.zap"))
        said = self.problems(open_context)
        assert "another rule of this name" in said
        assert "checksum does not match" in said

    def test_a_count_was_altered(self, latest, open_context):
        latest.write_text(latest.read_text().replace('total_violations\\": 0', 'total_violations\\": 1', 1))
        assert "checksum does not match" in self.problems(open_context)

    @pytest.mark.parametrize(
        ("before", "after"),
        [(r"load_id\": \"monday", r"load_id\": \"sunday"), (r"snapshot\": 1", r"snapshot\": 2")],
    )
    def test_the_run_was_altered(self, latest, open_context, before, after):
        assert before in latest.read_text()
        latest.write_text(latest.read_text().replace(before, after))
        assert "checksum does not match" in self.problems(open_context)

    def test_it_is_of_another_table(self, latest, folder, open_context):
        export_checkpoint(verdict(table="people"), folder)
        latest.write_bytes((folder / "gx" / "dcgate" / "people" / "~latest.jsonl").read_bytes())
        assert "of another table: 'people'" in self.problems(open_context)

    def test_it_is_two_verdicts(self, latest, open_context):
        latest.write_bytes(latest.read_bytes() * 2)
        assert "two lines for" in self.problems(open_context)

    def test_it_was_cut(self, latest, open_context):
        latest.write_text(latest.read_text().splitlines()[0] + "\n")
        assert "not complete" in self.problems(open_context)

    def test_a_later_rule_is_not_in_an_older_verdict(self, latest, folder, open_context):
        more = [*RULES, {"name": "new", "fd": "a -> b"}]
        export_checkpoint(verdict("tuesday", 2, rules=more), folder)
        checkpoint = open_context().checkpoints.get("dcgate.tax")
        assert checkpoint.run().success
        assert not checkpoint.run(batch_parameters={"path": "monday.jsonl"}).success
