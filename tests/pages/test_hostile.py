"""Values, names and texts that would rather be markup, scripts or templates; and values that nobody may see."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from airflow_dc_provider.pages.recorded import VERDICT
from airflow_dc_provider.report import summary
from dc_engine.constraints.printer import quote_name
from dc_engine.deciding import record_decision
from dc_engine.state.files import Action, FileKind
from dc_engine.state.snapshots import advance, commit, read_current, with_loads
from dc_engine.verdict import Decided, Verdict
from dc_engine.wording import plain
from tests.checkpoints.hostile import ATTACKS as OF_DATA_DOCS
from tests.checkpoints.hostile import hostile
from tests.pages.serving import Answer, Serving, Task
from tests.pages.states import MONDAY, Table

pytestmark = pytest.mark.xdist_group("pages")

ATTACKS = {
    **OF_DATA_DOCS,
    "link": "javascript:alert(1)",
    "script_end": "</script><script>alert(1)</script>",
    "title_end": "</title></summary></details><svg onload=alert(1)>",
    "attribute": "' autofocus onfocus='alert(1)",
    "template": "{{7*7}}{% include 'page.html' %}{{ self.__init__ }}",
    "surrogate": "\ud83d",
    "bell": "\x07\x1b[31m\x00\r\n",
}
PRINTABLE = {name: text[:150] for name, text in ATTACKS.items() if text.isprintable()}
"""Those that the engine accepts as the name of a rule, a load or a table."""


def tamed(text: str) -> str:
    """The same without what markup is made of, as long as before."""
    return re.sub("[<>&\"']", "x", text)


def every_page(serving: Serving, task: Task, load_id: str, rule: str) -> dict[str, Answer]:
    asked: dict[str, dict[str, Any]] = {
        "verdict": {},
        "pairs": {"load_id": load_id, "constraint": rule},
        "history": {},
        "dependencies": {},
        "dependencies?show=lost": {},
        "dag": {},
        "gates": {},
    }
    found = {}
    for name, more in asked.items():
        path, _, show = name.partition("?show=")
        ids = task.ids if path not in ("dag", "gates") else {"dag_id": task.dag_id}
        found[name] = serving.get(path, **ids, **more, **({"show": show} if show else {}))
    for shown in ("holding", "lost"):
        found |= {
            target: serving.get(target)
            for one in found["dependencies" if shown == "holding" else "dependencies?show=lost"].page.all("a")
            if (target := one.attributes["href"]).startswith("dependency?")
        }
    found["none"] = serving.get("verdict", **task.ids, load_id=f"no {load_id}")
    return found


def is_tame(answer: Answer) -> bool:
    """No element, attribute or address is there that templates have not written."""
    for one in answer.page:
        assert one.tag not in ("img", "iframe", "object", "embed", "base", "style"), one
        assert not [name for name in one.attributes if name.startswith("on") or name == "style"], one
        assert one.tag != "script" or one.attributes.keys() == {"src"}, one
        for name in ("href", "src", "action", "xlink:href"):
            target = one.attributes.get(name, "")
            assert re.fullmatch(r"(?:static/review\.(?:css|js)|[a-z]*(?:\?[\w.+%=&~-]*)?)", target), target
    assert "Content-Security-Policy" in answer.headers
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069\u2028\u2029]", answer.html)
    return True


def stored(table: Table, load_id: str, change: Any) -> Verdict:
    """Put another verdict in the place of a load's, as if the engine had written it."""
    snapshot = read_current(table.storage)
    load = snapshot.loads(table.storage).find(load_id)
    changed = change(table.verdict(load_id))
    written = table.storage.write("verdicts/forged.json", json.dumps(changed.to_dict()).encode())
    files = [
        replace(one, path=written.path, size=written.size, sha256=written.sha256)
        if one.kind is FileKind.VERDICT
        else one
        for one in load.files
    ]
    after = with_loads(snapshot, replace(load, files=files))
    commit(table.storage, advance(snapshot, after, Action.DECIDE, load_id=load_id, changed=False))
    return changed


class TestTexts:
    def test_in_every_field_of_a_verdict_they_are_text_and_change_no_element(self, serving, tmp_path):
        shapes = []
        for number, texts in enumerate((ATTACKS, {name: tamed(text) for name, text in ATTACKS.items()})):
            made = Table(str(tmp_path / str(number)))
            made.load("monday", MONDAY)
            found = replace(hostile(texts), load_id="monday")
            task = serving.add_gate(made.state, stored(made, "monday", lambda _, found=found: found))
            answer = serving.get("verdict", **task.ids)
            assert answer.status == 200
            assert is_tame(answer)
            for name, text in texts.items():
                for what, most in (("sentence", 500), ("formula", 5_000), ("note", 500)):
                    assert " ".join(plain(f"{what} of {name}: {text}", most).split()) in answer.text
            shapes.append(answer.page.shape)
        assert shapes[0] == shapes[1]
        assert len(shapes[0]) > 500

    @pytest.mark.parametrize("name", PRINTABLE)
    def test_the_engine_s_own_names_and_values(self, serving, tmp_path, name):
        """Of columns, of a table, of rules, of loads; in data, in keys, in descriptions, in who decided and why."""
        text = PRINTABLE[name].replace("`", "'")
        column, key = f"col {text}", f"key {text}"
        rules = {
            "version": 1,
            "table": f"table {text}",
            "key": [quote_name(key)],
            "constraints": [
                {"name": f"rule {text}", "fd": f"{quote_name(column)} -> city", "description": f"about {text}"}
            ],
        }
        made = Table(str(tmp_path / "people"), rules)
        load_id = f"load {text}"
        made.load("first", [{key: f"k{n} {text}", column: f"{n}", "city": f"{n}"} for n in range(4)])
        made.discover("unique", "fd")
        made.load(load_id, [{key: f"new {text}", column: "1", "city": f"city {text}"}])
        decided = Decided("approved", f"by {ATTACKS[name]}", "2026-01-01", f"because {ATTACKS[name]}")
        record_decision(made.storage, load_id, made.verdict(load_id).snapshot, decided)
        task = serving.add_gate(made.state, made.verdict(load_id))
        answers = every_page(serving, task, load_id, f"rule {text}")
        for path, answer in answers.items():
            assert answer.status == (404 if path == "none" else 200), path
            assert is_tame(answer), path
        for path in ("verdict", "pairs"):
            for said in (f"rule {text}", f"city {text}", f"about {text}", f"col {text}", f"key {text}"):
                shown = " ".join(plain(said, 40).removesuffix("...").split())
                assert shown in answers[path].text, (path, said)
        assert " ".join(plain(f"by {ATTACKS[name]}", 500).split()) in answers["verdict"].text

    @pytest.mark.parametrize("name", ATTACKS)
    def test_in_xcom_where_the_state_is_gone(self, serving, table, tmp_path, name):
        text = ATTACKS[name]
        known = summary(table.verdict(), "gone")
        known |= {"table": text, "load_id": text, "decision": text, "snapshot": text}
        known["decided"] = {"answer": text, "by": text, "reason": text}
        known["constraints"][text] = {**known["constraints"]["paid"], "severity": text}
        state = f"{tmp_path}/{tamed(text)[:50]}<b>".replace("\0", "")
        task = serving.add_gate(state, state_conn_id=text[:200], **{VERDICT: known})
        for path in ("verdict", "history", "dependencies"):
            answer = serving.get(path, **task.ids)
            assert answer.status in (200, 404)
            assert is_tame(answer)
        assert is_tame(serving.get("gates"))

    @pytest.mark.parametrize("name", [one for one in ATTACKS if one not in ("surrogate", "long")])
    def test_in_the_ids_of_airflow_and_in_addresses(self, serving, table, name):
        """Airflow itself refuses such ids; whoever writes to its database does not."""
        text = ATTACKS[name].replace("\0", "")
        ids = Task(f"dag {text}", f"task {text}", f"run {text}")
        task = serving.add_gate(table.state, table.verdict(), ids)
        for path, answer in every_page(serving, task, text, text).items():
            if path != "gates":
                assert answer.status in (200, 404), path
                page = answer.page
                for one in page:
                    assert one.tag not in ("img", "script") or one.attributes.keys() == {"src"}
        for parameter in ("search", "kind", "show", "sort", "map_index"):
            assert serving.get("dependencies", **{**task.ids, parameter: text}).page.shape


class TestMasked:
    """Values that nobody may see are on no page, whatever was stored before they were masked."""

    SECRET = "Sekretopolis"

    def rows(self, first: int, city: str) -> list[dict[str, Any]]:
        return [{"id": first + n, "zip": "z", "city": f"{city} {n}", "age": 17, "pay": 1.0} for n in range(3)]

    @pytest.mark.parametrize("when", ["always", "later"])
    def test_they_are_nowhere(self, serving, tmp_path, when):
        made = Table(str(tmp_path / "people"))
        masked = {"mask": ["CITY", "id"]}
        made.load("first", [{"id": 1, "zip": "z", "city": self.SECRET, "age": 17, "pay": 1.0}], **masked)
        made.discover()
        made.load("second", self.rows(987_654_320, self.SECRET), **(masked if when == "always" else {"mask": []}))
        if when == "later":
            plain_page = serving.get("verdict", **serving.add_gate(made.state, made.verdict("second")).ids)
            assert self.SECRET in plain_page.html, "it was not masked then"
            made.load("third", [{"id": 2, "zip": "y", "city": self.SECRET, "age": 20, "pay": 2.0}], **masked)
        task = serving.add_gate(made.state, made.verdict("second"))
        pages = every_page(serving, task, "second", "one_city")
        assert pages["pairs"].page.all("table", cls="pair")
        assert "***" in pages["verdict"].text
        assert "***" in pages["pairs"].text
        for path, answer in pages.items():
            assert self.SECRET not in answer.html, path
            assert "98765432" not in answer.html.replace(",", ""), path
