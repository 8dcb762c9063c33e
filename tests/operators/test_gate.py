"""The operator with a fake ``spark-submit``: what it asks, what it makes of the answer."""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from pathlib import Path

import pytest

from airflow_dc_provider.exceptions import DcGateError, DcViolationError, DcViolationRetryError
from tests.operators.conftest import LOST


def flat(text: str) -> str:
    """A log without its line breaks."""
    return " ".join(text.split())


class TestOpenGate:
    def test_returns_a_small_summary_and_pushes_it_as_verdict(self, gate, fake_spark, ti, passing, state):
        fake_spark.answers(passing)
        returned = gate().execute({"ti": ti})
        assert ti.pushed == {"dc_state": {"state": str(state), "state_conn_id": None}, "verdict": returned}
        assert returned == {
            "table": "tax",
            "load_id": "2026-01-03",
            "snapshot": 3,
            "replayed": False,
            "replaced": False,
            "discarded": False,
            "decision": "pass",
            "decided": None,
            "rows": {"inserted": 1000, "deleted": 0, "total": 22000},
            "constraints": {
                name: {
                    "new_violations": 0,
                    "removed_violations": 0,
                    "total_violations": 0,
                    "violating_rows": 0,
                    "passed": True,
                    "severity": severity,
                }
                for name, severity in (("zip_decides_city", "error"), ("salary_is_positive", "warn"))
            },
            "dependencies": {"watched": 0, "invalidated": []},
            "quarantine": None,
            "state": str(state),
            "seconds": {"read": 0.4, "probe": 0.7, "commit": 0.1, "total": 1.4},
        }

    def test_logs_a_table_after_and_apart_from_what_spark_says(self, gate, fake_spark, ti, passing, capfd):
        fake_spark.answers(passing)
        gate().execute({"ti": ti})
        log = capfd.readouterr().out
        in_order = (
            "::group::Spark",
            "a line of Spark",
            "::endgroup::",
            "Load 2026-01-03 of table tax: PASS; rows: 1,000 inserted, 22,000 in all",
            "rule                severity  new  total  violating rows  decision",
            "zip_decides_city    error       0      0               0  pass",
            "salary_is_positive  warn        0      0               0  pass",
        )
        places = [log.find(text) for text in in_order]
        assert -1 not in places
        assert places == sorted(places)

    def test_asks_the_job_for_what_it_was_given(self, gate, fake_spark, ti, passing, state):
        fake_spark.answers(passing)
        gate(max_listed=7, max_samples=3, mask=["ssn"]).execute({"ti": ti})
        request = fake_spark.call["request"]
        assert request["state"] == str(state)
        assert request["load_id"] == "2026-01-03"
        assert request["changes"]["path"] == "/landing/wednesday.parquet"
        assert (request["max_listed"], request["max_samples"], request["mask"]) == (7, 3, ["ssn"])
        assert [rule["name"] for rule in request["constraints"]["constraints"]] == [
            "zip_decides_city",
            "salary_is_positive",
        ]

    def test_asks_for_nothing_special_unless_told(self, gate, fake_spark, ti, passing):
        fake_spark.answers(passing)
        gate().execute({"ti": ti})
        request = fake_spark.call["request"]
        assert (request["rejected_load"], request["missing_deletes"], request["duplicate_keys"]) == (
            "keep",
            "error",
            "error",
        )
        assert (request["table"], request["quarantine"]) == (None, None)
        assert (request["engine"], request["max_wait_seconds"]) == ("auto", 3600)

    @pytest.mark.parametrize("engine", ["auto", "spark", "local"])
    def test_hands_on_where_to_work_and_how_long_to_wait(self, gate, fake_spark, ti, passing, engine):
        fake_spark.answers(passing)
        gate(engine=engine, max_wait_seconds=0).execute({"ti": ti})
        request = fake_spark.call["request"]
        assert (request["engine"], request["max_wait_seconds"]) == (engine, 0)

    def test_hands_on_how_to_treat_rejected_loads_deletes_keys_and_new_rules(self, gate, fake_spark, ti, passing):
        fake_spark.answers(passing)
        gate(
            rejected_load="discard",
            missing_deletes="ignore",
            duplicate_keys="replace",
            table={"table": "lake.tax", "where": "day < '2026-01-03'"},
            quarantine="s3://lake/quarantine/tax",
        ).execute({"ti": ti})
        request = fake_spark.call["request"]
        assert request["rejected_load"] == "discard"
        assert request["missing_deletes"] == "ignore"
        assert request["duplicate_keys"] == "replace"
        assert (request["table"]["table"], request["table"]["where"]) == ("lake.tax", "day < '2026-01-03'")
        assert request["quarantine"] == "s3://lake/quarantine/tax"

    def test_sends_a_constraint_file_by_value_found_beside_the_dag(self, gate, fake_spark, ti, passing, tmp_path):
        from airflow.sdk import DAG

        fake_spark.answers(passing)
        (tmp_path / "rules.yml").write_text("version: 1\ntable: tax\nconstraints:\n  - {name: a, unique: [b]}\n")
        with DAG("d", schedule=None) as dag:
            dag.fileloc = str(tmp_path / "dag.py")
            operator = gate(constraints="rules.yml")
        operator.execute({"ti": ti})
        assert fake_spark.call["request"]["constraints"]["constraints"][0]["name"] == "a"

    def test_leaves_nothing_of_the_exchange_behind(self, gate, fake_spark, ti, passing, state):
        fake_spark.answers(passing)
        gate().execute({"ti": ti})
        assert not [path for path in state.rglob("*") if path.is_file() or path.parent.name == "runs"]

    def test_spark_trouble_after_the_verdict_does_not_undo_it(self, gate, fake_spark, ti, passing, capfd):
        fake_spark.answers(passing, exit_code=1)
        assert gate().execute({"ti": ti})["decision"] == "pass"
        assert "after the job had written its verdict" in capfd.readouterr().out


class TestSubmission:
    def test_ships_the_engine_after_the_users_own_files(self, gate, fake_spark, ti, passing):
        fake_spark.answers(passing)
        gate(py_files="/mine/one.py,/mine/two.zip").execute({"ti": ti})
        arguments = fake_spark.call["arguments"]
        files = arguments[arguments.index("--py-files") + 1].split(",")
        assert files[:2] == ["/mine/one.py", "/mine/two.zip"]
        assert re.search(r"/dc_engine_\w+\.zip$", files[2])
        assert fake_spark.call["engine_was_there"]
        assert not Path(files[2]).exists()

    def test_runs_the_installed_job(self, gate, fake_spark, ti, passing):
        import dc_engine

        fake_spark.answers(passing)
        gate().execute({"ti": ti})
        arguments = fake_spark.call["arguments"]
        assert str(Path(dc_engine.__file__).parent / "apply_load.py") in arguments
        assert arguments[arguments.index("--name") + 1] == "dc_gate"

    def test_local_spark_is_quiet_starts_fast_and_uses_this_python(self, gate, fake_spark, ti, passing):
        fake_spark.answers(passing)
        gate().execute({"ti": ti})
        assert fake_spark.conf() == {
            "spark.log.level": "WARN",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
            "-XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=25",
        }
        assert fake_spark.call["environment"]["PYSPARK_PYTHON"] == sys.executable

    def test_the_users_settings_win(self, gate, fake_spark, ti, passing):
        fake_spark.answers(passing)
        own = {"spark.log.level": "DEBUG", "spark.driver.extraJavaOptions": "-Xmx3g", "spark.x": "y"}
        gate(conf=own, env_vars={"PYSPARK_PYTHON": "/their/python"}).execute({"ti": ti})
        assert fake_spark.conf() == {**own, "spark.ui.showConsoleProgress": "false"}
        assert fake_spark.call["environment"]["PYSPARK_PYTHON"] == "/their/python"

    def test_a_cluster_gets_no_local_settings(self, gate, fake_spark, ti, passing, monkeypatch):
        monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", '{"conn_type": "spark", "host": "spark://localhost", "port": 7077}')
        fake_spark.answers(passing)
        gate(conn_id="cluster").execute({"ti": ti})
        assert "spark://localhost:7077" in fake_spark.call["arguments"]
        assert "spark.driver.extraJavaOptions" not in fake_spark.conf()
        assert "PYSPARK_PYTHON" not in fake_spark.call["environment"]

    def test_a_gate_that_runs_twice_in_one_process_does_not_add_up(self, gate, fake_spark, ti, passing):
        fake_spark.answers(passing)
        operator = gate()
        for _ in range(2):
            operator.prepare_for_execution().execute({"ti": ti})
        arguments = fake_spark.call["arguments"]
        assert "," not in arguments[arguments.index("--py-files") + 1]


class TestClosedGate:
    def test_fails_without_retry_and_keeps_what_it_pushed(self, gate, fake_spark, ti, failing):
        from airflow.sdk.exceptions import AirflowFailException

        fake_spark.answers(failing)
        with pytest.raises(DcViolationError) as caught:
            gate().execute({"ti": ti})
        assert isinstance(caught.value, AirflowFailException)
        assert ti.pushed["verdict"]["decision"] == "fail"
        assert ti.pushed["verdict"]["constraints"]["zip_decides_city"]["new_violations"] == 31
        assert caught.value.summary == ti.pushed["verdict"]
        assert "Berln" not in json.dumps(ti.pushed)

    def test_the_log_has_all_that_is_needed_at_night_and_ends_with_what_is_needed_first(
        self, gate, fake_spark, ti, failing, capfd, state
    ):
        fake_spark.answers(failing)
        with pytest.raises(DcViolationError):
            gate().execute({"ti": ti})
        log = capfd.readouterr().out
        in_order = (
            "Load 2026-01-03 of table tax broke 1 of 2 rules. The gate is closed",
            "zip_decides_city (error): 31 new violations by 4 of the load's 1,000 rows; tolerated: 0 new",
            "A zip code lies in one city.",
            "not (t.zip = s.zip and t.city != s.city)",
            "worst rows: id=17 (8 violations); id=18 (1 violation)",
            "/state/violations/3/zip_decides_city.parquet",
            "/state/violations/3/zip_decides_city.rows.parquet",
            "What to do:",
            "Load 2026-01-03 of table tax: FAIL; rows: 1,000 inserted",
            "rule                severity  new  total  violating rows  decision",
            "zip_decides_city    error      31     40               4  FAIL",
            "Load 2026-01-03 of table tax broke 1 of 2 rules. The gate is closed: tasks behind it do not run.",
            "Is the data wrong? Fix it at the source, and run this task again under the same load_id.",
            "Is it known? Mark this task as success",
        )
        places = [log.rfind(text) if place > 7 else log.find(text) for place, text in enumerate(in_order)]
        assert -1 not in places
        assert places == sorted(places)
        assert [line.split() for line in log.splitlines() if "Berl" in line] == [["city", "Berln", "Berlin"]]
        assert "Hambrg" in log
        assert "Muenchn" not in log
        end = log[places[8] :].partition(" [airflow.task")[0]
        assert max(len(line) for line in end.splitlines() if str(state) not in line) <= 120, "the page cuts longer ones"
        assert len(end.splitlines()) < 15

    def test_the_exception_tells_it_in_one_short_line(self, gate, fake_spark, ti, failing):
        fake_spark.answers(failing)
        with pytest.raises(DcViolationError) as caught:
            gate().execute({"ti": ti})
        assert str(caught.value) == (
            "Load 2026-01-03 of table tax broke 1 of 2 rules: zip_decides_city (31 new violations). The gate is closed."
        )

    def test_many_broken_rules_make_no_long_line(self, gate, fake_spark, ti, failing):
        first = failing["constraints"][0]
        failing["constraints"] = [{**first, "name": f"rule_{number}" + "x" * 500} for number in range(300)]
        fake_spark.answers(failing)
        with pytest.raises(DcViolationError, match="and 295 more") as caught:
            gate().execute({"ti": ti})
        assert len(str(caught.value)) < 600

    def test_says_where_the_rows_went_before_it_fails(self, gate, fake_spark, ti, failing, quarantined, capfd):
        fake_spark.answers(failing)
        with pytest.raises(DcViolationError):
            gate(quarantine="/quarantine").execute({"ti": ti})
        assert "4 violating rows (Parquet) in /quarantine/3/violating" in capfd.readouterr().out
        assert ti.pushed["quarantine_clean"] == "/quarantine/3/clean"
        assert ti.pushed["quarantine_violating"] == "/quarantine/3/violating"
        assert ti.pushed["verdict"]["quarantine"] == quarantined

    def test_can_be_asked_to_let_airflow_retry(self, gate, fake_spark, ti, failing, capfd):
        from airflow.sdk.exceptions import AirflowFailException

        fake_spark.answers(failing)
        with pytest.raises(DcViolationRetryError) as caught:
            gate(retry_on_violation=True).execute({"ti": ti})
        assert "Fix it at the source, and wait for the next retry." in capfd.readouterr().out
        assert not isinstance(caught.value, AirflowFailException)
        assert ti.pushed["verdict"]["decision"] == "fail"

    def test_tells_of_a_discarded_load(self, gate, fake_spark, ti, failing, capfd):
        fake_spark.answers({**failing, "discarded": True})
        with pytest.raises(DcViolationError):
            gate(rejected_load="discard").execute({"ti": ti})
        log = flat(capfd.readouterr().out)
        assert "the state is as it was without it" in log
        assert "how to let it in after all stands above" in log
        assert ti.pushed["verdict"]["discarded"] is True

    def test_stays_open_when_asked_only_to_warn(self, gate, fake_spark, ti, failing, capfd):
        fake_spark.answers(failing)
        assert gate(on_violation="warn").execute({"ti": ti})["decision"] == "fail"
        log = capfd.readouterr().out
        assert "broke 1 of 2 rules. The gate stays open." in log
        assert "Berln  Berlin" in log

    def test_says_when_it_stays_open_for_a_load_that_was_discarded(self, gate, fake_spark, ti, failing, capfd):
        fake_spark.answers({**failing, "discarded": True})
        gate(on_violation="warn", rejected_load="discard").execute({"ti": ti})
        assert "tasks behind the gate must not add them to the table" in flat(capfd.readouterr().out)

    def test_stays_open_when_only_rules_of_severity_warn_are_broken(self, gate, fake_spark, ti, failing):
        failing["decision"] = failing["constraints"][0]["severity"] = "warn"
        fake_spark.answers(failing)
        assert gate().execute({"ti": ti})["decision"] == "warn"

    def test_values_cannot_break_the_log(self, gate, fake_spark, ti, failing, capfd):
        values = failing["constraints"][0]["samples"][0]["t"]["values"]
        values["city"] = "Ber\nln\r\x1b[31m\u202e" + "x" * 10_000
        fake_spark.answers(failing)
        with pytest.raises(DcViolationError):
            gate().execute({"ti": ti})
        line = next(line for line in capfd.readouterr().out.splitlines() if "Ber\\nln\\r\\x1b[31m\\u202e" in line)
        assert len(line) < 200


class TestMask:
    def test_a_verdict_is_masked_when_it_is_given_whatever_it_shows(self, gate, fake_spark, ti, failing, capfd):
        fake_spark.answers({**failing, "replayed": True})
        with pytest.raises(DcViolationError) as caught:
            gate(mask=["CITY", "id"]).execute({"ti": ti})
        log = capfd.readouterr().out
        for place in (str(caught.value), str(caught.value.summary), str(ti.pushed), log):
            assert "Berl" not in place
            assert "id=17" not in place
        assert "worst rows: id=*** (8 violations)" in log
        assert re.search(r"zip +10115 +10115", log), "what is not masked is shown"

    def test_an_open_gate_masks_too(self, gate, fake_spark, ti, failing, capfd):
        fake_spark.answers(failing)
        gate(mask=["city"], on_violation="warn").execute({"ti": ti})
        assert "Berl" not in capfd.readouterr().out

    @pytest.mark.parametrize(("mask", "level"), [((), "WARN"), (["city"], "FATAL")])
    def test_spark_keeps_quiet_of_values(self, gate, fake_spark, ti, passing, mask, level):
        fake_spark.answers(passing)
        gate(mask=mask).execute({"ti": ti})
        assert fake_spark.conf()["spark.log.level"] == level
        gate(mask=mask, conf={"spark.log.level": "INFO"}).execute({"ti": ti})
        assert fake_spark.conf()["spark.log.level"] == "INFO"

    @pytest.mark.parametrize("result", [None, "passing"])
    def test_lines_of_spark_that_may_quote_values_are_left_out(self, gate, fake_spark, ti, passing, capfd, result):
        own = "12:34:56 airflow_dc_provider.apply_load load one: 2 rows inserted"
        spark = "[CAST_INVALID_INPUT] The value 'Berln' of the type"
        fake_spark.answers(passing if result else None, exit_code=1, say=f"{own}\n{spark}")
        if result:
            gate(mask=["city"]).execute({"ti": ti})
        else:
            with pytest.raises(DcGateError, match="because columns are masked and Spark's errors quote") as caught:
                gate(mask=["city"]).execute({"ti": ti})
            assert "Berln" not in str(caught.value)
            assert caught.value.__cause__ is None, "it has the lines as they are"
        log = capfd.readouterr().out
        assert "Berln" not in log
        assert own in log
        assert "1 line of Spark left out: columns are masked" in log

    def test_without_a_mask_all_lines_are_shown(self, gate, fake_spark, ti, passing, capfd):
        fake_spark.answers(passing, say="The value 'Berln'")
        gate().execute({"ti": ti})
        log = capfd.readouterr().out
        assert "The value 'Berln'" in log
        assert "left out" not in log


HOLDS = {name: LOST[name] for name in ("class", "formula", "severity")}


@pytest.fixture
def losing(passing):
    """A verdict of a load that lost one of three watched dependencies, and another that nobody watches."""
    held = [{**HOLDS, "id": f"fd-{number}", "text": f"zip -> a{number}"} for number in range(2)]
    unwatched = {**LOST, "id": "fd-9", "text": "city -> zip", "watched": False, "example": None, "instead": []}
    return {**passing, "decision": "fail", "dependencies": {"watched": held, "invalidated": [LOST, unwatched]}}


class TestLostDependencies:
    def test_losing_one_of_severity_error_closes_the_gate(self, gate, fake_spark, ti, losing, capfd):
        fake_spark.answers(losing)
        with pytest.raises(DcViolationError) as caught:
            gate().execute({"ti": ti})
        log = flat(capfd.readouterr().out)
        why = (
            "zip -> state (error), because row {id: 17} and row {id: 4} agree on zip and differ in state (3 violations)"
            "; now holds: zip, city -> state"
        )
        assert str(caught.value) == (
            "Load 2026-01-03 of table tax lost 1 of 3 watched dependencies: zip -> state (lost). The gate is closed."
        )
        assert f"Lost: {why}" in log
        assert "state BB BE" in log
        assert "The dependency was a coincidence" in log
        assert "The rule is too strict" not in log
        assert f"1 of 3 watched dependencies was lost: {why}" in log
        assert "No longer holds, and nobody watches it: city -> zip" in log

    def test_the_summary_has_them_without_any_value(self, gate, fake_spark, ti, losing):
        fake_spark.answers(losing)
        with pytest.raises(DcViolationError):
            gate().execute({"ti": ti})
        found = ti.pushed["verdict"]["dependencies"]
        assert found["watched"] == 2
        assert found["invalidated"][0] == {
            "id": "fd-5e1f5e1f5e1f",
            "class": "fd",
            "text": "zip -> state",
            "severity": "error",
            "watched": True,
            "violations": 3,
        }
        assert "BB" not in json.dumps(ti.pushed)

    @pytest.mark.parametrize("severity", ["error", "warn"])
    @pytest.mark.parametrize("on_invalidated", [None, "severity", "fail", "warn", "ignore"])
    @pytest.mark.parametrize("on_violation", ["fail", "warn"])
    def test_the_argument_says_what_losing_one_means(
        self, gate, fake_spark, ti, losing, capfd, severity, on_invalidated, on_violation
    ):
        decision = {"error": "fail", "warn": "warn"}[severity]
        losing["dependencies"]["invalidated"][0] = {**LOST, "severity": severity}
        fake_spark.answers({**losing, "decision": decision})
        task = gate(on_invalidated=on_invalidated, on_violation=on_violation)
        if {None: decision, "severity": decision}.get(on_invalidated, on_invalidated) == "fail":
            with pytest.raises(DcViolationError):
                task.execute({"ti": ti})
        else:
            assert task.execute({"ti": ti})["decision"] == decision
            assert ("The gate stays open." in capfd.readouterr().out) is (on_invalidated != "ignore")

    def test_a_decision_for_an_unknown_reason_closes_it_all_the_same(self, gate, fake_spark, ti, passing):
        fake_spark.answers({**passing, "decision": "fail"})
        with pytest.raises(DcViolationError):
            gate(on_invalidated="ignore").execute({"ti": ti})

    def test_one_that_nobody_watches_never_closes_it(self, gate, fake_spark, ti, losing):
        losing["dependencies"]["invalidated"] = losing["dependencies"]["invalidated"][1:]
        fake_spark.answers({**losing, "decision": "pass"})
        assert gate(on_invalidated="fail").execute({"ti": ti})["decision"] == "pass"

    def test_a_broken_rule_closes_it_whatever_is_ignored(self, gate, fake_spark, ti, failing, losing):
        fake_spark.answers({**failing, "dependencies": losing["dependencies"]})
        with pytest.raises(DcViolationError, match=r"broke 1 of 2 rules and lost 1 of 3 watched dependencies: "):
            gate(on_invalidated="ignore").execute({"ti": ti})

    def test_a_load_that_was_discarded_for_one_is_told_of_even_if_that_is_ignored(
        self, gate, fake_spark, ti, losing, capfd
    ):
        fake_spark.answers({**losing, "discarded": True})
        gate(on_invalidated="ignore", rejected_load="discard").execute({"ti": ti})
        assert "tasks behind the gate must not add them to the table" in flat(capfd.readouterr().out)

    def test_values_are_masked(self, gate, fake_spark, ti, losing, capfd):
        fake_spark.answers({**losing, "replayed": True})
        with pytest.raises(DcViolationError) as caught:
            gate(mask=["state", "ID"]).execute({"ti": ti})
        log = flat(capfd.readouterr().out)
        for place in (str(caught.value), str(ti.pushed), log):
            assert "BB" not in place
            assert "{id: 17}" not in place
        assert "row {id: ***} and row {id: ***} agree on zip and differ in state" in log

    def test_values_cannot_break_the_log(self, gate, fake_spark, ti, losing, capfd):
        lost = json.loads(json.dumps(LOST))
        lost["example"]["t"] = {"row": {"a\nb": "x\ny\x1b[2J"}, "values": {"state": "Ber\nln"}, "rows": 1}
        losing["dependencies"]["invalidated"] = [lost]
        fake_spark.answers(losing)
        with pytest.raises(DcViolationError):
            gate().execute({"ti": ti})
        log = capfd.readouterr().out
        assert "row {a\\nb: x\\ny\\x1b[2J}" in log
        assert "\x1b[2J" not in log


FORGED = "x\n::endgroup::\nLoad one of table tax: PASS\r\x1b[2J\u2028"


class TestNothingForgesALine:
    """Texts from elsewhere stand on one line each, and end no group of the log."""

    def test_no_line_of_spark_does(self, gate, fake_spark, ti, passing, capfd):
        fake_spark.answers(passing, say="a\x1b[2Jb\x07 ::endgroup:: c\n::group::mine")
        gate().execute({"ti": ti})
        log = capfd.readouterr().out
        assert "a\\x1b[2Jb\\x07 \\x3a:endgroup:: c" in log
        assert "\\x3a:group::mine" in log
        assert (log.count("::endgroup::"), log.count("::group::")) == (1, 1)

    @pytest.mark.parametrize("part", ["message", "hint"])
    def test_no_error_of_the_job_does(self, gate, fake_spark, ti, part):
        error = {"type": "SchemaError", "message": "Wrong.", "hint": "Mend it.", part: FORGED}
        fake_spark.answers({"schema_version": 1, "error": error}, exit_code=1)
        with pytest.raises(DcGateError) as caught:
            gate().execute({"ti": ti})
        assert len(str(caught.value).splitlines()) == 2
        assert "x\\n::endgroup::\\nLoad one" in str(caught.value)

    def test_no_last_line_of_spark_does(self, gate, fake_spark, ti):
        fake_spark.answers(None, exit_code=1, say="died\x1b[2J")
        with pytest.raises(DcGateError, match=r"died\\x1b\[2J") as caught:
            gate().execute({"ti": ti})
        assert caught.value.__cause__ is None, "it has them as they are"

    def test_no_text_of_a_verdict_does(self, gate, fake_spark, ti, failing, quarantined, capfd):
        rule = failing["constraints"][0]
        rule |= {"name": FORGED, "formula": FORGED, "description": FORGED, "violations": FORGED}
        rule["violating_rows_listed"] = [FORGED]
        failing["dependencies"] = {"invalidated": [{**LOST, "text": FORGED, "formula": FORGED}]}
        failing["dependencies"]["invalidated"][0]["instead"] = [{"id": "x", "text": FORGED}]
        quarantined |= {"violating": FORGED, "clean": FORGED}
        fake_spark.answers({**failing, "table": FORGED, "load_id": FORGED, "notes": [FORGED], "discarded": True})
        with pytest.raises(DcViolationError) as caught:
            gate(rejected_load="discard").execute({"ti": ti})
        log = capfd.readouterr().out
        for said in (str(caught.value), log):
            assert not [line for line in said.splitlines() if line.startswith(("::endgroup::", "Load one of"))]
            assert "\x1b[2J" not in said

    def test_no_state_that_cannot_be_written_does(self, gate, fake_spark, ti, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(DcGateError) as caught:
            gate(state=f"{tmp_path}/file/a\nb").execute({"ti": ti})
        assert "/file/a\\nb cannot be written" in str(caught.value)


class TestToolErrors:
    def test_the_jobs_error_document_is_the_error(self, gate, fake_spark, ti, state):
        error = {
            "type": "SchemaError",
            "message": "Column 'zip' is missing.",
            "hint": "Did you mean 'zip_code'?",
        }
        fake_spark.answers({"schema_version": 1, "error": error}, exit_code=1)
        with pytest.raises(DcGateError, match=r"(?s)Column 'zip' is missing\..*Hint: Did you mean 'zip_code'\?"):
            gate().execute({"ti": ti})
        assert list(ti.pushed) == ["dc_state"]
        assert not [path for path in state.rglob("*") if path.is_file()]

    def test_is_retried(self):
        from airflow.sdk.exceptions import AirflowException, AirflowFailException

        assert issubclass(DcGateError, AirflowException)
        assert not issubclass(DcGateError, AirflowFailException)

    def test_without_an_error_document_spark_has_the_last_word(self, gate, fake_spark, ti):
        fake_spark.answers(None, exit_code=1, say="java.lang.OutOfMemoryError: Java heap space")
        with pytest.raises(DcGateError, match=r"(?s)before the job could say why.*Java heap space"):
            gate().execute({"ti": ti})

    def test_success_without_a_verdict_is_an_error(self, gate, fake_spark, ti):
        fake_spark.answers(None)
        with pytest.raises(DcGateError, match="left no verdict"):
            gate().execute({"ti": ti})

    @pytest.mark.parametrize("text", ["", "[]", '{"schema'])
    def test_half_a_result_is_an_error(self, gate, fake_spark, ti, text):
        fake_spark.answers(text)
        with pytest.raises(DcGateError, match="cannot be read as a JSON object"):
            gate().execute({"ti": ti})

    def test_a_verdict_of_another_engine_is_refused(self, gate, fake_spark, ti, passing):
        fake_spark.answers({**passing, "schema_version": 2})
        with pytest.raises(DcGateError, match=r"schema version 2.*reads 1"):
            gate().execute({"ti": ti})

    def test_a_state_that_cannot_be_written_is_named(self, gate, fake_spark, ti, passing, tmp_path):
        fake_spark.answers(passing)
        (tmp_path / "file").write_text("")
        with pytest.raises(DcGateError, match=rf"The state folder {tmp_path}/file/tax cannot be written"):
            gate(state=f"{tmp_path}/file/tax").execute({"ti": ti})
        assert not fake_spark.was_called

    @pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
    def test_a_read_only_state_is_named(self, gate, fake_spark, ti, passing, tmp_path):
        fake_spark.answers(passing)
        folder = tmp_path / "locked"
        folder.mkdir(mode=stat.S_IRUSR | stat.S_IXUSR)
        with pytest.raises(DcGateError, match="cannot be written"):
            gate(state=str(folder)).execute({"ti": ti})

    def test_an_unknown_filesystem_is_named(self, gate, ti):
        with pytest.raises(DcGateError, match=r"nowhere://state cannot be written"):
            gate(state="nowhere://state").execute({"ti": ti})
