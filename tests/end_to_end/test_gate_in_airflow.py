"""Gates in an Airflow that really runs: people answer by its REST API, tasks are cleared, assets trigger other DAGs."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet
import pytest

from dc_engine.state.storage import Storage
from dc_engine.stored import read_verdict
from tests.end_to_end.airflow_running import ApiError, RunningAirflow

pytestmark = pytest.mark.xdist_group("running_airflow")

DAGS = """
import os
from datetime import datetime, timedelta
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset
from airflow_dc_provider.assets import require_constraints
from airflow_dc_provider.operators.branch import DcBranchOperator
from airflow_dc_provider.operators.gate import DcGateOperator

RULES = {"version": 1, "table": "zips", "key": ["id"], "constraints": [
    {"name": "one_city", "fd": "zip -> city"}, {"name": "id_is_positive", "deny": "t.id <= 0"}]}
HOME = os.environ["AIRFLOW_HOME"]
CITIES = Asset("cities")


def arguments(name, **more):
    load = "{{ dag_run.conf.get('load', 'broken') }}"
    return {"task_id": "gate", "constraints": RULES, "changes": {"path": HOME + "/landing/" + load + ".parquet"},
            "state": HOME + "/state/" + name, "load_id": load, **more}


def gated(name, schedule=None, **more):
    with DAG(name, schedule=schedule, start_date=datetime(2026, 1, 1), end_date=datetime(2026, 1, 9), catchup=False):
        DcGateOperator(**arguments(name, **more)) >> EmptyOperator(task_id="publish")


gated("asking", on_violation="ask", asset=CITIES)
gated("discarding", on_violation="ask", rejected_load="discard")
gated("impatient", on_violation="ask", response_timeout=timedelta(seconds=5))
gated("warning", on_violation="warn", asset=CITIES)
gated("skipping", on_violation="skip", asset=CITIES)
gated("in_order", schedule="@daily", on_violation="ask", depends_on_past=True, load_id="{{ ds }}",
      changes={"path": HOME + "/landing/{{ ds }}.parquet"})

with DAG("mapped", schedule=None):
    changes = [{"path": HOME + "/landing/" + name + ".parquet"} for name in ("clean", "broken", "worse")]
    DcGateOperator.partial(
        task_id="gate", constraints=RULES, state=HOME + "/state/mapped", on_violation="ask", asset=Asset("many"),
        max_active_tis_per_dag=1,
    ).expand(changes=changes) >> EmptyOperator(task_id="publish")

with DAG("branching", schedule=None):
    DcBranchOperator(
        **arguments("branching", follow_if_pass="publish", follow_if_violated="quarantine")
    ) >> [EmptyOperator(task_id="publish"), EmptyOperator(task_id="quarantine")]

with DAG("strict_consumer", schedule=CITIES):
    require_constraints(CITIES) >> EmptyOperator(task_id="use")
with DAG("other_consumer", schedule=CITIES):
    require_constraints(CITIES, "id_is_positive", max_age=timedelta(hours=1)) >> EmptyOperator(task_id="use")
"""
ROWS = {"clean": (1, "Berlin"), "broken": (2, "Berln"), "worse": (3, "Brlin")}


def land(airflow: RunningAirflow, name: str, *rows: tuple[int, str]) -> None:
    """Write a load: rows of one zip."""
    ids, cities = zip(*rows, strict=True)
    folder = airflow.home / "landing"
    folder.mkdir(exist_ok=True)
    pyarrow.parquet.write_table(
        pa.table({"id": ids, "zip": ["10115"] * len(ids), "city": cities}), folder / f"{name}.parquet"
    )


@pytest.fixture(scope="module")
def running(airflow: RunningAirflow) -> RunningAirflow:
    for name, row in ROWS.items():
        land(airflow, name, row)
    airflow.add_dags("gates", DAGS)
    return airflow


def verdict(running: RunningAirflow, state: str, load_id: str = "broken"):
    return read_verdict(Storage(str(running.home / "state" / state)), load_id)


def trigger(running: RunningAirflow, load: str, *dags: str) -> dict[str, str]:
    """Run DAGs for a load, all at once; the id of each run."""
    return {dag: running.trigger(dag, conf={"load": load}) for dag in dags}


def begin(running: RunningAirflow, *dags: str) -> dict[str, dict[str, str]]:
    """Run DAGs for a clean load, and then for a broken one, whose gates have not ended; the ids of the runs."""
    clean = trigger(running, "clean", *dags)
    for dag, run in clean.items():
        assert set(running.wait_for_run(dag, run).values()) <= {"success", "skipped"}
    return {"clean": clean, "broken": trigger(running, "broken", *dags)}


@pytest.fixture(scope="module")
def runs(running: RunningAirflow) -> dict[str, dict[str, str]]:
    """Runs that go on beside the tests, which wait less for them."""
    running.trigger("mapped", run_id="many")
    return begin(running, "asking", "discarding", "impatient", "branching")


def test_a_person_approves_and_all_can_see_it(running, runs):
    run = runs["broken"]["asking"]
    running.wait_for("asking", run, "gate", "awaiting_input")
    asked = running.asked("asking", run, "gate")
    assert asked["subject"] == "Load broken of table zips broke 1 of 2 rules. Let it pass?"
    assert "| one\\_city | error | 1 | 1 | 1 | 0 new violations |" in asked["body"]
    assert running.xcom("asking", run, "gate", "verdict")["decision"] == "fail"
    with pytest.raises(ApiError, match="403"):
        running.answer("asking", run, "gate", "Approve", user="victor")
    running.answer("asking", run, "gate", "Approve", {"reason": "a typo", "snapshot": 2})
    assert running.wait_for_run("asking", run) == {"gate": "success", "publish": "success"}

    decided = running.xcom("asking", run, "gate")["decided"]
    assert (decided["answer"], decided["by"], decided["reason"]) == ("approved", "ada", "a typo")
    assert verdict(running, "asking").decided.by == "ada"
    running.wait_for_log("Approved by ada at 2", "asking", run, "gate")
    events = running.until(lambda: found if len(found := running.events("cities")) == 2 else None, "two events")
    assert [one["extra"]["load_id"] for one in events] == ["clean", "broken"]
    assert events[1]["extra"]["decided"] == decided

    running.clear("asking", run, "gate")
    again = running.wait_for("asking", run, "gate", "success")
    assert again["try_number"] == 2, "with the same rows nobody is asked again"
    assert running.xcom("asking", run, "gate")["decided"] == decided


def test_consumers_get_what_they_require(running):
    """Both run for each event of the asset; the newest one is of a load that broke a rule and was approved."""

    def last(dag: str) -> dict[str, str] | None:
        runs = running.get(f"dags/{dag}/dagRuns", order_by="-run_after")["dag_runs"]
        ended = runs and all(one["state"] in ("success", "failed") for one in runs)
        return running.states(dag, runs[0]["dag_run_id"]) if ended and len(runs) >= 2 else None

    strict = running.until(lambda: last("strict_consumer"), "the strict consumer ran")
    assert strict == {"require_cities": "failed", "use": "upstream_failed"}
    other = running.until(lambda: last("other_consumer"), "the other consumer ran")
    assert other == {"require_cities": "success", "use": "success"}


def test_rejecting_fails_and_what_was_discarded_stays_out_until_it_is_approved(running, runs):
    run = runs["broken"]["discarding"]
    running.wait_for("discarding", run, "gate", "awaiting_input")
    assert "which were discarded" in running.asked("discarding", run, "gate")["body"]
    running.answer("discarding", run, "gate", "Reject", {"reason": "look first", "snapshot": 2})
    assert running.wait_for_run("discarding", run) == {"gate": "failed", "publish": "upstream_failed"}
    running.wait_for_log("Rejected by ada", "discarding", run, "gate")
    rejected = verdict(running, "discarding")
    assert (rejected.decided.answer, rejected.discarded) == ("rejected", True)

    running.clear("discarding", run, "gate")
    running.wait_for("discarding", run, "gate", "awaiting_input")
    running.answer("discarding", run, "gate", "Approve", {"reason": None, "snapshot": 2})
    assert running.wait_for_run("discarding", run) == {"gate": "success", "publish": "success"}
    approved = verdict(running, "discarding")
    assert (approved.decided.answer, approved.discarded, approved.rows["total"]) == ("approved", False, 2)
    assert approved.constraints[0].total_violations == 1


def test_other_rows_are_asked_about_again_and_an_old_question_approves_nothing(running, runs):
    land(running, "changing", (5, "Berln"))
    run = trigger(running, "changing", "asking")["asking"]
    running.wait_for("asking", run, "gate", "awaiting_input")
    snapshot = running.xcom("asking", run, "gate", "verdict")["snapshot"]
    running.answer("asking", run, "gate", "Approve", {"snapshot": snapshot})
    running.wait_for_run("asking", run)

    land(running, "changing", (5, "Berln"), (6, "Brln"))
    running.clear("asking", run, "gate")
    running.wait_for("asking", run, "gate", "awaiting_input")
    newer = running.xcom("asking", run, "gate", "verdict")["snapshot"]
    assert newer > snapshot
    assert f"snapshot {snapshot}" in running.asked("asking", run, "gate")["body"], "Airflow shows the first question"
    running.answer("asking", run, "gate", "Approve", {"snapshot": snapshot})
    assert running.wait_for_run("asking", run)["gate"] == "failed"
    running.wait_for_log("nothing was decided", "asking", run, "gate")
    assert verdict(running, "asking", "changing").decided is None

    running.clear("asking", run, "gate")
    running.wait_for("asking", run, "gate", "awaiting_input")
    running.answer("asking", run, "gate", "Approve", {"snapshot": newer})
    assert running.wait_for_run("asking", run)["gate"] == "success"
    assert verdict(running, "asking", "changing").approved


def test_a_reason_that_is_junk_decides_nothing(running, runs):
    run = trigger(running, "worse", "discarding")["discarding"]
    running.wait_for("discarding", run, "gate", "awaiting_input")
    running.answer("discarding", run, "gate", "Approve", {"reason": {"a": "x" * 2_000}})
    assert running.wait_for_run("discarding", run)["gate"] == "failed"
    running.wait_for_log("must be a text of at most 1,000 characters: nothing was decided", "discarding", run, "gate")
    assert verdict(running, "discarding", "worse").decided is None


def test_silence_rejects(running, runs):
    run = runs["broken"]["impatient"]
    assert running.wait_for_run("impatient", run) == {"gate": "failed", "publish": "upstream_failed"}
    decided = verdict(running, "impatient").decided
    assert (decided.answer, decided.by) == ("rejected", "")


def test_mapped_gates_ask_each_for_itself(running, runs):
    run = "many"
    for index, option in ((1, "Approve"), (2, "Reject")):
        running.wait_for("mapped", run, "gate", "awaiting_input", map_index=index)
        running.answer("mapped", run, "gate", option, map_index=index)
    states = running.wait_for_run("mapped", run)
    assert states == {"gate[0]": "success", "gate[1]": "success", "gate[2]": "failed", "publish": "upstream_failed"}
    assert verdict(running, "mapped", "many-1").approved
    told = running.until(lambda: found if len(found := running.events("many")) == 2 else None, "two events")
    assert {one["extra"]["load_id"] for one in told} == {"many-0", "many-1"}


def test_a_backfill_waits_day_by_day_for_its_answers(running):
    land(running, "2026-01-02", (1, "Berlin"), (2, "Berln"))
    land(running, "2026-01-03", (3, "Brln"))
    body = {"dag_id": "in_order", "from_date": "2026-01-02T00:00:00Z", "to_date": "2026-01-03T00:00:00Z"}
    running.request("POST", "backfills", {**body, "reprocess_behavior": "failed"})
    runs: list[str] = []

    def both() -> bool:
        found = running.get("dags/in_order/dagRuns", order_by="logical_date")["dag_runs"]
        runs[:] = [one["dag_run_id"] for one in found if one["run_type"] == "backfill"]
        return len(runs) == 2

    running.until(both, "two runs of the backfill")
    running.wait_for("in_order", runs[0], "gate", "awaiting_input")
    assert running.task("in_order", runs[1], "gate")["state"] is None, "it depends on the day before"
    for run in runs:
        running.wait_for("in_order", run, "gate", "awaiting_input")
        running.answer("in_order", run, "gate", "Approve")
        assert running.wait_for_run("in_order", run) == {"gate": "success", "publish": "success"}


def test_a_gate_that_warns_or_skips_tells_nobody_of_a_broken_load(running):
    runs = begin(running, "warning", "skipping")["broken"]
    assert running.wait_for_run("warning", runs["warning"]) == {"gate": "success", "publish": "success"}
    assert running.wait_for_run("skipping", runs["skipping"]) == {"gate": "skipped", "publish": "skipped"}

    def told() -> list[str]:
        return [one["extra"]["load_id"] for one in running.events("cities") if one["source_dag_id"] in runs]

    assert running.until(lambda: len(told()) >= 2, "an event of each clean load")
    assert told() == ["clean", "clean"]


def test_a_branch_follows_the_verdict_and_a_cleared_task_is_skipped_again(running, runs):
    clean = {"gate": "success", "publish": "success", "quarantine": "skipped"}
    assert running.wait_for_run("branching", runs["clean"]["branching"]) == clean
    run = runs["broken"]["branching"]
    broken = {"gate": "success", "publish": "skipped", "quarantine": "success"}
    assert running.wait_for_run("branching", run) == broken
    assert running.xcom("branching", run, "gate")["decision"] == "fail"
    running.clear("branching", run, "publish")
    running.wait_for("branching", run, "publish", "skipped")


def test_a_task_that_is_failed_by_hand_while_it_asks_is_not_woken_by_a_late_answer(running, runs):
    land(running, "late", (7, "Brn"))
    run = trigger(running, "late", "discarding")["discarding"]
    running.wait_for("discarding", run, "gate", "awaiting_input")
    running.request("PATCH", f"dags/discarding/dagRuns/{run}/taskInstances/gate", {"new_state": "failed"})
    running.answer("discarding", run, "gate", "Approve")
    assert running.wait_for_run("discarding", run)["gate"] == "failed"
    assert verdict(running, "discarding", "late").decided is None
