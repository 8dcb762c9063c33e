"""Who may see a page, which ones exist, and what every answer says about itself."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.routing import Match

from airflow_dc_provider.pages import access
from airflow_dc_provider.pages.app import HEADERS, pages
from airflow_dc_provider.pages.recorded import DOCS, SITE
from tests.pages.serving import NOBODY, OTHER, VIEWER, Answer, Serving, Task
from tests.pages.states import Table

pytestmark = pytest.mark.xdist_group("pages")

OF_A_TASK: dict[str, dict[str, Any]] = {
    "verdict": {},
    "pairs": {"load_id": "tuesday", "constraint": "one_city"},
    "history": {},
    "dependencies": {},
    "dependency": {"dependency_id": "fd-50dd9d653dd2"},  # city -> zip
}
STATIC = ("static/review.css", "static/review.js")
DOCS_PAGES = ("docs/index.html", "docs/static/logo.png", "docs/")
"""Of the Data Docs of a task; what names the task comes before the path."""
OF_A_DAG = [*OF_A_TASK, "dag", *DOCS_PAGES]
EVERY = [*OF_A_DAG, "gates", *STATIC]
NUMBERED = ["pairs", "history", "dependencies"]


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a task records that wrote Data Docs."""
    folder = tmp_path_factory.mktemp("gx")
    for name in ("index.html", "static/logo.png"):
        (folder / SITE / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / SITE / name).write_text("<!DOCTYPE html><html><body><p>Data Docs of people</p></body></html>")
    return {DOCS: {"folder": str(folder), "docs_conn_id": None, "page": "index.html"}}


@pytest.fixture(scope="module")
def gate(serving: Serving, table: Table, docs: dict[str, Any]) -> Task:
    """A gate that everybody may see."""
    return serving.add_gate(table.state, table.verdict(), Task("open"), **docs)


@pytest.fixture(scope="module")
def private(serving: Serving, table: Table, docs: dict[str, Any]) -> Task:
    """One that not everybody may see."""
    return serving.add_gate(table.state, table.verdict(), Task("private_gate", run_id="private run"), **docs)


def address(path: str, task: Task) -> str:
    """The path of a page; those of Data Docs name their task in it."""
    start, slash, rest = path.partition("/")
    return f"docs/{'/'.join(map(str, task.ids.values()))}/{rest}" if start + slash == "docs/" else path


def asked(serving: Serving, path: str, task: Task, user: str = VIEWER, **more: Any) -> Answer:
    if path in DOCS_PAGES:
        return serving.get(address(path, task), user=user)
    ids = task.ids if path in OF_A_TASK else {"dag_id": task.dag_id} if path == "dag" else {}
    return serving.get(path, user=user, **{**ids, **OF_A_TASK.get(path, {}), **more})


def is_friendly(answer: Answer, status: int) -> bool:
    """A page that says what is wrong and what to do."""
    said = [one.text for one in answer.page.one("main").all("p")]
    return answer.status == status and len(said) >= 2 and all(one.endswith((".", "gates")) for one in said)


def is_headed(answer: Answer) -> bool:
    return all(answer.headers[name] == value for name, value in HEADERS.items() if name != "Cache-Control")


def test_all_routes_are_tested_here(gate):
    """A route that none of these addresses leads to would be one whose rights nobody has tried."""
    routes = pages().routes

    def leads_to(path: str) -> str:
        scope = {"type": "http", "method": "GET", "path": f"/{address(path, gate)}", "root_path": "", "headers": []}
        (found,) = [one for one in routes if one.matches(scope)[0] is Match.FULL]
        return found.path

    assert {leads_to(path) for path in EVERY} == {one.path for one in routes}
    assert {leads_to(path) for path in OF_A_DAG} == {one.path for one in routes if _asks_for_a_dag(one.dependant)}


def _asks_for_a_dag(dependant: Any) -> bool:
    """Whether Airflow is asked, before a page is made, who may see what the tasks of a DAG left."""
    return any(one.call is access._readable_dag for one in dependant.dependencies)


class TestWho:
    @pytest.mark.parametrize("path", EVERY)
    def test_one_who_has_not_logged_in_sees_nothing(self, serving, gate, path):
        answer = asked(serving, path, gate, NOBODY)
        assert is_friendly(answer, 401)
        assert is_headed(answer)
        assert "people" not in answer.html

    @pytest.mark.parametrize("path", EVERY)
    def test_a_forged_token_is_no_way_in(self, serving, gate, path, monkeypatch):
        monkeypatch.setitem(serving.tokens, VIEWER, serving.tokens[VIEWER][:-3])
        assert is_friendly(asked(serving, path, gate), 403)

    @pytest.mark.parametrize("path", OF_A_DAG)
    def test_one_who_may_not_read_a_dag_sees_nothing_of_it(self, serving, private, path):
        answer = asked(serving, path, private, OTHER)
        assert is_friendly(answer, 403)
        assert is_headed(answer)
        for known in ("people", "private", "one_city", "tuesday"):
            assert known not in answer.html

    @pytest.mark.parametrize("path", OF_A_DAG)
    def test_nor_whether_it_exists(self, serving, private, path):
        unknown = asked(serving, path, Task("private_unknown"), OTHER)
        assert (unknown.status, unknown.html) == (403, asked(serving, path, private, OTHER).html)

    @pytest.mark.parametrize("path", EVERY)
    @pytest.mark.parametrize("user", [VIEWER, OTHER])
    def test_a_viewer_of_a_dag_sees_its_pages(self, serving, gate, path, user):
        answer = asked(serving, path, gate, user)
        assert answer.status == (302 if path == "docs/" else 200)
        assert is_headed(answer) or path in DOCS_PAGES  # which have a policy of their own
        if path not in (*STATIC, *DOCS_PAGES):
            assert "people" in answer.page.one("h1").text + answer.page.one("main").text

    def test_the_list_has_only_what_one_may_read(self, serving, gate, private):
        def listed(user: str) -> set[str]:
            rows = serving.get("gates", user=user).page.one("table").rows()[1:]
            return {one[4] for one in rows}

        assert {"open · gate", "private_gate · gate"} <= listed(VIEWER)
        assert listed(OTHER) == {one for one in listed(VIEWER) if not one.startswith("private")}

    def test_gates_that_one_may_not_read_leave_room_for_others(self, serving, gate, monkeypatch):
        """They are the newest, and the list is bounded."""
        task = serving.add_gate("/old")
        for number in range(3):
            serving.add_gate("/new", None, Task(f"private_{number}"))
        monkeypatch.setattr(access, "_MOST_GATES", 2)
        assert task.dag_id in serving.get("gates", user=OTHER).text
        assert len(serving.get("gates").page.one("table").rows()) == 3

    @pytest.mark.parametrize("path", [*OF_A_TASK, "dag"])
    def test_one_dag_named_and_another_meant(self, serving, gate, private, path):
        """Parameters that come twice, and tasks of another DAG."""
        for first, second in ((gate, private), (private, gate)):
            rest = "&".join(
                f"{key}={value}" for key, value in {**private.ids, **OF_A_TASK.get(path, {})}.items() if key != "dag_id"
            )
            answer = serving.get(f"{path}?dag_id={first.dag_id}&dag_id={second.dag_id}&{rest}", user=OTHER)
            assert "private" not in answer.html
            assert answer.status in (403, 404) or path == "dag"
        if path != "dag":
            answer = asked(serving, path, Task("open", private.task_id, private.run_id), OTHER)
            assert is_friendly(answer, 404)


class TestWhatDoesNotExist:
    @pytest.mark.parametrize("path", OF_A_TASK)
    @pytest.mark.parametrize(
        "wrong",
        [
            {"dag_id": "none"},
            {"run_id": "none"},
            {"task_id": "none"},
            {"map_index": "7"},
            {"dag_id": "~"},
            {"dag_id": ""},
            {"dag_id": "o" * 5_000},
            {"run_id": "../../etc/passwd"},
            {"task_id": "gate' or '1'='1"},
            {"map_index": "999999999"},
        ],
        ids=str,
    )
    def test_an_id(self, serving, gate, path, wrong):
        answer = asked(serving, path, gate, **wrong)
        assert is_friendly(answer, 422 if len(wrong.get("dag_id", "")) > 1_000 else 404)
        assert is_headed(answer)

    @pytest.mark.parametrize("load_id", ["tuesdy", "../tuesday", "/etc/passwd", "x" * 900, "%s%n", "\u202e\ud7ff"])
    @pytest.mark.parametrize("path", ["verdict", "pairs"])
    def test_a_load(self, serving, gate, path, load_id):
        answer = asked(serving, path, gate, load_id=load_id)
        assert answer.status == 404
        assert answer.page.one("h1").text == "No such load"
        assert ("Did you mean 'tuesday'?" in answer.text) == ("tuesd" in load_id)

    @pytest.mark.parametrize("constraint", ["none", "../one_city", "", "ONE_CITY"])
    def test_a_rule(self, serving, gate, constraint):
        assert is_friendly(asked(serving, "pairs", gate, constraint=constraint), 404)

    @pytest.mark.parametrize("wrong", ["none", "", "fd-", "../fd-50dd9d653dd2", "<b>", "f" * 900])
    def test_a_dependency(self, serving, gate, wrong):
        assert is_friendly(asked(serving, "dependency", gate, dependency_id=wrong), 404)

    @pytest.mark.parametrize("path", NUMBERED)
    @pytest.mark.parametrize("number", [1, 2, 10**9])
    def test_a_page_beyond_the_end_is_the_last_one(self, serving, gate, path, number):
        answer = asked(serving, path, gate, number=number)
        assert (answer.status, answer.html) == (200, asked(serving, path, gate).html)

    @pytest.mark.parametrize("path", NUMBERED)
    @pytest.mark.parametrize("number", ["-1", "two", "1.5", str(10**9 + 1), "9" * 5_000, "", "٣", "\0"])
    def test_a_page_that_is_no_number(self, serving, gate, path, number):
        assert is_friendly(asked(serving, path, gate, number=number), 422)

    @pytest.mark.parametrize("path", [*OF_A_TASK, "dag"])
    def test_an_address_that_is_not_whole(self, serving, path):
        assert is_friendly(serving.get(path), 422)

    @pytest.mark.parametrize("path", OF_A_TASK)
    @pytest.mark.parametrize("name", ["dag_id", "task_id", "run_id", "map_index"])
    def test_text_that_no_database_holds(self, serving, gate, path, name):
        """PostgreSQL refuses NUL, which would be an error of the server."""
        assert is_friendly(asked(serving, path, gate, **{name: "a\0b"}), 422)
        assert is_friendly(asked(serving, path, gate, **{name: "x" * 1_001}), 422)

    @pytest.mark.parametrize("path", ["", "none", "verdict/none", "static/", "static/none", "docs_of_fastapi"])
    def test_a_path(self, serving, path):
        answer = serving.get(path)
        assert is_friendly(answer, 404)
        assert is_headed(answer)

    @pytest.mark.parametrize("path", ["docs", "redoc", "openapi.json"])
    def test_a_description_of_the_application(self, serving, path):
        assert serving.get(path).status == 404

    @pytest.mark.parametrize(
        "name", ["../app.py", "..%2fapp.py", "%2e%2e/app.py", "..%5capp.py", "review.css%00", "/etc/passwd", "."]
    )
    def test_a_file_beside_the_style_sheet(self, serving, name):
        answer = serving.get(f"static/{name}")
        assert answer.status in (401, 404)
        assert "def " not in answer.html

    @pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
    def test_something_to_change(self, serving, gate, method):
        for path in EVERY:
            answer = serving.ask(method, address(path, gate), **gate.ids)
            assert is_friendly(answer, 405)
            assert is_headed(answer)


class TestAddresses:
    @pytest.mark.parametrize("literal", ["{MAP_INDEX}", "", "-1", "²"])
    def test_what_airflow_leaves_of_a_task_that_is_not_mapped(self, serving, gate, literal):
        assert asked(serving, "verdict", gate, map_index=literal).html == asked(serving, "verdict", gate).html

    def test_a_mapped_task_has_a_page_each(self, serving, table):
        for index, load_id in enumerate(("monday", "tuesday")):
            serving.add_gate(table.state, table.verdict(load_id), Task("mapped", map_index=index))
        for index, load_id in enumerate(("monday", "tuesday")):
            answer = serving.get("verdict", **Task("mapped", map_index=index).ids)
            assert f"load {load_id}" in answer.page.one("h1").text
            assert f"mapped · gate [{index}]" in answer.page.one("nav").text
        assert serving.get("verdict", **Task("mapped").ids).status == 404

    def test_another_state_cannot_be_named(self, serving, gate, tmp_path):
        plain = asked(serving, "verdict", gate).html
        assert asked(serving, "verdict", gate, state=str(tmp_path), state_conn_id="x", folder="/etc").html == plain

    def test_every_link_of_every_page_leads_to_a_page(self, serving, gate):
        """As a viewer clicks: from the list of gates to all that is linked, and what that links."""
        seen: set[str] = set()
        waiting = ["gates", "dag?dag_id=open"]
        while waiting:
            path = waiting.pop()
            seen.add(path)
            answer = serving.get(path)
            assert answer.status == 200, path
            for one in answer.page:
                for name in ("href", "src", "action"):
                    target = one.attributes.get(name, "")
                    assert ":" not in target.split("?")[0], target
                    assert not target.startswith(("/", ".")), target
                    if target and "open" in target and target not in seen:
                        waiting.append(target)
        assert {one.split("?")[0] for one in seen} == {*OF_A_TASK, "dag", "gates"}
