"""States that are empty, unreachable or broken, and XComs that no gate has written: always a page that helps."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from airflow_dc_provider.pages import patience
from airflow_dc_provider.pages.recorded import STATE, VERDICT
from airflow_dc_provider.report import summary
from dc_engine.state.storage import Storage
from tests.pages.serving import Answer, Serving, Task
from tests.pages.states import MONDAY, Table

pytestmark = pytest.mark.xdist_group("pages")

PAGES: dict[str, dict[str, Any]] = {
    "verdict": {},
    "pairs": {"load_id": "tuesday", "constraint": "one_city"},
    "history": {},
    "dependencies": {},
    "dependency": {"dependency_id": "fd-50dd9d653dd2"},
}


def every_page(serving: Serving, task: Task) -> dict[str, Answer]:
    return {name: serving.get(name, **task.ids, **more) for name, more in PAGES.items()}


def is_told(answer: Answer, state: str) -> bool:
    """The page says that the state cannot be read, which one, and all that XCom knows."""
    note = answer.page.one("section", cls="note").text
    rows = answer.page.one("table").rows()
    known = [["paid", "warn", "1", "0", "1", "1", "WARN"], ["grown_up", "error", "0", "0", "0", "0", "PASS"]]
    return (
        answer.status == 200
        and note.startswith("This server cannot read the state. ")
        and state in note
        and answer.page.one("h1").text == "people · load tuesday FAIL"
        and rows[1] == ["pay_grows", "error", "10", "0", "10", "3", "FAIL"]
        and rows[3:] == known
    )


class TestUnreachable:
    def test_where_there_is_no_state(self, serving, table, tmp_path):
        state = str(tmp_path / "gone")
        for answer in every_page(serving, serving.add_gate(state, table.verdict())).values():
            assert is_told(answer, state)
            assert f"There is no state in {state}." in answer.text
            assert "the task used no connection (state_conn_id)" in answer.text

    def test_where_the_state_is_no_folder(self, serving, table, tmp_path):
        state = tmp_path / "file"
        state.write_text("x")
        for answer in every_page(serving, serving.add_gate(str(state), table.verdict())).values():
            assert is_told(answer, str(state))

    @pytest.mark.parametrize(
        ("state", "said"),
        [
            ("nosuch://bucket/people", "nosuch"),
            ("http://127.0.0.1:9/people", "http"),
            ("relative/people", "relative/people"),
            ("/etc/passwd", "/etc/passwd"),
            ("s3://", "s3"),
            ("~", "~"),
        ],
    )
    def test_a_state_on_no_filesystem_that_can_have_one(self, serving, table, state, said):
        for answer in every_page(serving, serving.add_gate(state, table.verdict())).values():
            assert is_told(answer, said)
            assert "root:" not in answer.html

    def test_a_connection_that_the_server_does_not_know(self, serving, table):
        task = serving.add_gate(table.state, table.verdict(), state_conn_id="lake_of_the_worker")
        for answer in every_page(serving, task).values():
            assert is_told(answer, table.state)
            assert "There is no Airflow connection 'lake_of_the_worker'" in answer.text
            assert "by the connection lake_of_the_worker" in answer.text

    @pytest.mark.parametrize(
        "connection",
        [
            {"conn_type": "fs"},
            {"conn_type": "aws", "extra": {"role_arn": "arn"}},
            {"conn_type": "generic", "extra": {"storage_options": "sesame"}},
            {"conn_type": "generic", "extra": {"storage_options": {"no_such_option": "sesame"}}},
            {"conn_type": "generic", "extra": {"storage_options": {"key": ["sesame"], "client_kwargs": "sesame"}}},
            {
                "conn_type": "aws",
                "login": "someone",
                "password": "sesame",
                "extra": {"storage_options": {"endpoint_url": "http://127.0.0.1:9", "secret": "sesame", "key": "k"}},
            },
        ],
        ids=str,
    )
    def test_a_connection_that_opens_nothing(self, serving, table, monkeypatch, connection):
        monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(connection))
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
        task = serving.add_gate("s3://lake/people", table.verdict(), state_conn_id="lake")
        for answer in every_page(serving, task).values():
            assert is_told(answer, "s3://lake/people")
            assert "by the connection lake" in answer.text
            assert "sesame" not in answer.html

    def test_a_storage_that_hangs(self, serving, table, monkeypatch):
        """Nobody waits for ever, and it takes nothing from other states; when it is back, so are the pages."""
        back = Event()
        plain = Storage.read
        hangs = serving.add_gate(f"{table.state}/../{Path(table.state).name}", table.verdict())
        other = serving.add_gate(table.state, table.verdict())

        def read(storage: Storage, path: str, **more: Any) -> bytes:
            if "/../" in storage.uri:
                back.wait()
            return plain(storage, path, **more)

        monkeypatch.setattr(Storage, "read", read)
        with monkeypatch.context() as impatient:
            impatient.setattr(patience, "SECONDS", 0.05)
            for answer in (answer for _ in range(2) for answer in every_page(serving, hangs).values()):
                assert is_told(answer, "/../")
                assert "did not answer within" in answer.text
                assert "Open the page again." in answer.text
        assert serving.get("verdict", **other.ids).page.one("h1").text == "people · load tuesday FAIL"
        back.set()
        assert not serving.get("verdict", **hangs.ids).page.all("section", cls="note")

    def test_a_task_that_never_had_a_verdict(self, serving, tmp_path):
        state = str(tmp_path / "gone")
        task = serving.add_gate(state, task_state="running")
        assert "The gate has no verdict yet: its job has not finished." in serving.get("verdict", **task.ids).text
        answer = serving.get("history", **task.ids)
        assert answer.page.one("h1").text == "The state cannot be read here"
        assert "The task has told Airflow no verdict." in answer.text

    def test_the_dag_s_tab_says_so_too(self, serving, table, tmp_path):
        state = str(tmp_path / "gone")
        task = serving.add_gate(state, table.verdict())
        assert is_told(serving.get("dag", dag_id=task.dag_id), state)

    def test_the_summary_is_only_shown_for_its_own_load(self, serving, table, tmp_path):
        task = serving.add_gate(str(tmp_path / "gone"), table.verdict())
        answer = serving.get("verdict", **task.ids, load_id="monday")
        assert not answer.page.all("table")
        assert "tuesday" not in answer.page.one("main").text


class TestNothingThere:
    def test_a_task_that_is_no_gate(self, serving):
        for state, said in (("success", "This task is no gate"), (None, "or it has not begun")):
            task = serving.add_task(state=state)
            answers = every_page(serving, task)
            assert {name: one.status for name, one in answers.items()} == dict.fromkeys(PAGES, 404) | {"verdict": 200}
            assert answers["verdict"].page.one("h1").text == "No verdict here"
            assert said in answers["verdict"].text
            listed = serving.get("dag", dag_id=task.dag_id)
            assert "No gate has run in this DAG yet." in listed.text

    @pytest.mark.parametrize(
        ("state", "cure"), [("failed", "and clear the task"), ("up_for_retry", "Open this page again")]
    )
    def test_a_gate_whose_job_failed(self, serving, table, state, cure):
        answer = serving.get("verdict", **serving.add_gate(table.state, task_state=state).ids)
        assert answer.page.one("h1").text == "No verdict yet"
        assert "The task failed before there was a verdict" in answer.text
        assert cure in answer.text

    def test_a_state_without_loads(self, serving, table, tmp_path):
        made = Table(str(tmp_path / "people"))
        verdict = made.load("tuesday", MONDAY)
        from dc_engine.maintain import maintain

        maintain(made.session, "retract", {"state": made.state, "load_id": "tuesday"})
        task = serving.add_gate(made.state, verdict)
        answers = every_page(serving, task)
        assert {name: one.status for name, one in answers.items()} == {
            "verdict": 404,
            "pairs": 404,
            "history": 200,
            "dependencies": 200,
            "dependency": 404,
        }
        assert "The state has no loads yet." in answers["verdict"].text
        assert "The state has no loads: all were taken out again" in answers["history"].text
        assert "No dependencies are kept in" in answers["dependencies"].text
        assert "Run a DcDiscoverOperator" in answers["dependencies"].text


def files_of(table: Table) -> list[str]:
    """The newest file of each kind, and all that are listed for the rule whose violations are shown."""
    every = sorted(str(one.relative_to(table.state)) for one in Path(table.state).rglob("*") if one.is_file())
    return [*{one.split("/")[0]: one for one in every}.values(), *(one for one in every if "one_city" in one)]


class TestBroken:
    @pytest.mark.parametrize("damage", ["gone", "cut", "altered", "other"])
    def test_whatever_file_is_damaged(self, serving, table, tmp_path, damage):
        """A page is as it was, or says which file is damaged, with all that XCom knows; it never fails."""
        whole = {name: one.page.one("h1").text for name, one in every_page(serving, judged(serving, table)).items()}
        told = 0
        for number, name in enumerate(files_of(table)):
            state = tmp_path / str(number)
            shutil.copytree(table.state, state, copy_function=os.link)
            spoil(state / name, damage)
            for page, answer in every_page(serving, serving.add_gate(str(state), table.verdict())).items():
                assert answer.status in (200, 404), (page, name)
                if answer.page.one("h1").text != whole[page]:
                    told += 1
                    newest = name.startswith("snapshots") and damage == "gone"
                    assert newest or is_told(answer, str(state)), (page, name, answer.text)
        assert told >= 5, "pages read what is damaged"

    def test_a_state_of_a_later_version(self, serving, table, tmp_path):
        state = tmp_path / "people"
        shutil.copytree(table.state, state)
        newest = max((state / "snapshots").glob("*.json"))
        newest.write_text(json.dumps({**json.loads(newest.read_text()), "format_version": 99}))
        for answer in every_page(serving, serving.add_gate(str(state), table.verdict())).values():
            assert is_told(answer, str(state))
            assert "Upgrade airflow-dc-provider." in answer.text


def judged(serving: Serving, table: Table) -> Task:
    return serving.add_gate(table.state, table.verdict())


def spoil(path: Path, how: str) -> None:
    data = path.read_bytes()
    path.unlink()  # it is a link
    match how:
        case "cut":
            path.write_bytes(data[: len(data) // 2])
        case "altered":
            middle = len(data) // 2
            path.write_bytes(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])
        case "other":
            path.write_bytes(b'{"schema_version": 1, "constraints": [{}], "dependencies": []}')


NO_SUMMARIES: list[Any] = [
    None,
    "verdict",
    "[1, 2",
    "null",
    '{"table": "forged"',
    "[" * 100_000,
    17,
    [],
    {},
    {"constraints": []},
    {"table": "t", "load_id": "l", "snapshot": 1, "decision": "pass"},
    {"table": "t", "load_id": "l", "snapshot": 1, "decision": "pass", "constraints": {"a": None}},
    {"table": "t", "load_id": "l", "snapshot": 1, "decision": "pass", "constraints": {"a": {"passed": True}}},
    {"__classname__": "os.system", "__version__": 1, "__data__": "true"},
    '{"__classname__": "os.system", "__version__": 1, "__data__": "true"}',
    '{"__classname__": "airflow.models.Connection", "__version__": 1, "__data__": {"uri": "http://x"}}',
]
HUGE = int("9" * 4_000)


class TestForgedXComs:
    """Whoever may write XComs of a DAG may write anything."""

    @pytest.mark.parametrize("value", NO_SUMMARIES, ids=lambda value: repr(value)[:40])
    def test_what_is_no_summary_counts_for_nothing(self, serving, table, value):
        task = serving.add_gate(table.state, **{VERDICT: value})
        assert serving.get("verdict", **task.ids).page.one("h1").text == "No verdict yet"
        assert serving.get("dag", dag_id=task.dag_id).status == 200
        assert serving.get("gates").status == 200

    @pytest.mark.parametrize("value", NO_SUMMARIES, ids=lambda value: repr(value)[:40])
    def test_what_is_no_state_is_none(self, serving, value):
        task = serving.add_task(**{STATE: value})
        assert serving.get("verdict", **task.ids).page.one("h1").text == "No verdict here"
        assert serving.get("dag", dag_id=task.dag_id).status == 200
        assert serving.get("gates").status == 200

    @pytest.mark.parametrize(
        "forged",
        [
            {"table": None, "load_id": None, "decision": None, "snapshot": None},
            {"table": ["a"], "load_id": {"b": 1}, "decision": 3, "snapshot": "x"},
            {"load_id": 7, "snapshot": [], "decided": "yes"},
            {"decided": {"answer": None, "by": 3, "reason": ["x"]}},
            {"decided": {"answer": {"a": 1}}},
            {"load_id": "\ud800", "table": "\udfff"},
            {"load_id": "tuesday\0", "decision": "x" * 100_000},
            {"load_id": "x" * 100_000},
            {"constraints": {}},
            {"dependencies": 3, "rows": "many", "seconds": None, "quarantine": 5},
        ],
        ids=lambda value: repr(value)[:60],
    )
    @pytest.mark.parametrize("there", [True, False])
    def test_a_summary_with_other_values_is_shown_or_not_but_never_fails(self, serving, table, tmp_path, forged, there):
        state = table.state if there else str(tmp_path / "gone")
        value = {**summary(table.verdict(), state), **forged}
        task = serving.add_gate(state, **{VERDICT: value})
        for answer in (*every_page(serving, task).values(), serving.get("dag", dag_id=task.dag_id)):
            assert answer.status in (200, 404)
        assert serving.get("gates").status == 200

    @pytest.mark.parametrize("number", [HUGE, -1, 10**30])
    def test_numbers_of_any_size(self, serving, table, tmp_path, number):
        value = summary(table.verdict(), "gone")
        value["constraints"]["paid"]["new_violations"] = number
        task = serving.add_gate(str(tmp_path / "gone"), **{VERDICT: value})
        assert serving.get("verdict", **task.ids).status == 200

    @pytest.mark.parametrize("value", [True, 1.5, "3", None, [1]])
    def test_counts_that_are_no_numbers(self, serving, table, tmp_path, value):
        forged = summary(table.verdict(), "gone")
        forged["constraints"]["paid"]["new_violations"] = value
        task = serving.add_gate(str(tmp_path / "gone"), **{VERDICT: forged})
        assert serving.get("verdict", **task.ids).page.one("h1").text == "No verdict yet"

    @pytest.mark.parametrize(
        "where", [{"state": ["a"]}, {"state": {}}, {"state": 3}, {"state": "\0"}, {"state": "\ud800"}]
    )
    @pytest.mark.parametrize("conn_id", [None, 3, ["x"], "a\0b", "x" * 9_999, "../x"])
    def test_places_that_are_none(self, serving, table, where, conn_id):
        task = serving.add_gate("", table.verdict(), **{STATE: {**where, "state_conn_id": conn_id}})
        for answer in every_page(serving, task).values():
            assert answer.status in (200, 404)
