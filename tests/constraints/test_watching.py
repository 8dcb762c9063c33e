"""The section of a constraint file about dependencies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.constraints.contradiction import check_bodies
from dc_engine.constraints.files import check_columns, load_constraints, to_mapping
from dc_engine.constraints.model import Body, Constraint, ConstraintSet, Watching
from dc_engine.constraints.naming import id_of
from dc_engine.constraints.normalise import normalise
from dc_engine.constraints.printer import formula
from dc_engine.errors import ConstraintError, SchemaError
from tests.constraints.documents import refusal, write
from tests.constraints.strategies import any_body, nulls

TAX = """\
version: 1
table: tax
constraints:
  - name: zip_decides_city
    fd: zip -> city
dependencies:
  watch: top:20
  severity: error
  pinned:
    - fd: zip -> state, county
      severity: warn
    - name: one phone
      unique: [area_code, phone]
      nulls: equal
    - formula: not (t.salary > s.salary and t.rate < s.rate)
"""


def watching(*pinned: dict[str, Any], **section: Any) -> ConstraintSet:
    dependencies = {**section, "pinned": list(pinned)}
    rules = [{"name": "taken", "fd": "zip -> city"}]
    return load_constraints({"version": 1, "table": "tax", "constraints": rules, "dependencies": dependencies})


class TestReading:
    def test_the_section_says_which_count_what_losing_one_means_and_which_are_pinned(self, tmp_path: Path) -> None:
        found = load_constraints(write(tmp_path, TAX)).dependencies
        assert (found.watch, found.top, found.severity) == ("top", 20, "error")
        assert [(one.name, one.severity, one.nulls, formula(one)) for one in found.pinned] == [
            ("zip -> state", "warn", "ignore", "not (t.zip = s.zip and t.state != s.state)"),
            ("zip -> county", "warn", "ignore", "not (t.zip = s.zip and t.county != s.county)"),
            ("one phone", "error", "equal", "not (t.area_code = s.area_code and t.phone = s.phone)"),
            (
                "salary > -> rate >=",
                "error",
                "ignore",
                "not (t.salary > s.salary and t.rate < s.rate)",
            ),
        ]
        assert all(one.pinned for one in found.pinned)

    def test_everything_in_it_has_a_default(self) -> None:
        assert watching().dependencies == Watching("pinned", None, "warn", ())
        assert load_constraints({"version": 1, "table": "tax", "constraints": []}).dependencies == Watching()

    @pytest.mark.parametrize(
        ("watch", "meant"),
        [("pinned", ("pinned", None)), ("all", ("all", None)), ("none", ("none", None)), ("top:1", ("top", 1))],
    )
    def test_watch_is_one_of_four_words(self, watch: str, meant: tuple[str, int | None]) -> None:
        found = watching(watch=watch).dependencies
        assert (found.watch, found.top) == meant

    def test_pinned_rules_are_counted_after_the_constraints_unless_nothing_is_watched(self) -> None:
        assert [one.name for one in watching({"fd": "zip -> state"}).rules] == ["taken", "zip -> state"]
        ignored = watching({"fd": "zip -> state"}, watch="none")
        assert [one.name for one in ignored.rules] == ["taken"]
        assert len(ignored.dependencies.pinned) == 1

    def test_a_rule_without_a_name_is_called_by_its_text_where_that_can_be_shown(self) -> None:
        long = "x" * 250
        found = watching(
            {"unique": ["a", "b"]}, {"unique": ["a", "b"], "nulls": "equal"}, {"unique": [long]}, {"unique": ["a\nb"]}
        ).dependencies.pinned
        assert [one.name for one in found] == [
            "unique [a, b]",
            "unique [a, b] (nulls: equal)",
            id_of(found[2]),
            id_of(found[3]),
        ]

    def test_a_name_with_several_right_columns_gets_the_column_as_for_constraints(self) -> None:
        found = watching({"fd": "zip -> state, county", "name": "zip decides"}).dependencies.pinned
        assert [one.name for one in found] == ["zip decides.state", "zip decides.county"]

    def test_a_rule_may_be_pinned_and_a_constraint_at_once(self) -> None:
        assert len(watching({"fd": "zip -> city"}).rules) == 2


REFUSALS: list[tuple[str, int, str, str]] = [
    ("dependencies: all", 4, "'dependencies' has to be a mapping, not text.", "watch, severity and pinned"),
    ("dependencies:", 4, "'dependencies' has to be a mapping, not nothing.", ""),
    ("dependencies: {wach: all}", 4, "dependencies: unknown key 'wach'.", "Did you mean 'watch'?"),
    (
        "dependencies:\n  watch: pined",
        5,
        "dependencies: 'watch' has to be pinned, top:N, all or none, not 'pined'.",
        "'pinned'",
    ),
    ("dependencies:\n  watch: 20", 5, "top:N, all or none, not 20.", "top:20"),
    ("dependencies:\n  watch:", 5, "top:N, all or none, not nothing.", "top:20"),
    ("dependencies:\n  watch: top", 5, "top:N, all or none, not 'top'.", "top:20"),
    ("dependencies:\n  watch: top:-1", 5, "top:N, all or none, not 'top:-1'.", "top:20"),
    ("dependencies:\n  watch: top:0", 5, "'watch: top:0' watches nothing.", "'none'"),
    (
        "dependencies:\n  severity: fatal",
        5,
        "dependencies: 'severity' has to be 'error' or 'warn', not 'fatal'.",
        "",
    ),
    ("dependencies:\n  pinned: zip -> city", 5, "dependencies: 'pinned' has to be a list, not text.", "- fd:"),
    ("dependencies:\n  pinned:\n    - zip -> city", 5, "pinned 1 has to be a mapping, not text.", "- fd:"),
    ("dependencies:\n  pinned:\n    - name: x", 6, "pinned 'x': has no rule.", "deny, unique"),
    ("dependencies:\n  pinned:\n    - fd: a -> b\n      unqiue: [a]", 7, "pinned 1: unknown key 'unqiue'.", "'unique'"),
    ("dependencies:\n  pinned:\n    - fd: a ->", 6, "pinned 1: 'fd': a column is missing", ""),
    (
        "dependencies:\n  pinned:\n    - fd: a -> b\n    - deny: t.a <= 0",
        7,
        "pinned 2: a pinned rule is not a dependency: it is about one row.",
        "constraint",
    ),
    (
        "dependencies:\n  pinned:\n    - fd: a -> b\n      max_new_violations: 3",
        7,
        "pinned 1: 'max_new_violations' does not go with a pinned rule.",
        "holds or it does not",
    ),
    (
        "dependencies:\n  pinned:\n    - fd: a -> b\n    - deny: t.b != s.b and t.A = s.a\n      name: again",
        7,
        "pinned 'again': 'again' says the same as pinned 'a -> b' before it.",
        "Keep one",
    ),
    (
        "dependencies:\n  pinned:\n    - fd: a -> b\n      name: Taken",
        7,
        "pinned 'Taken': the name 'Taken' is taken by constraint 'taken'.",
        "'name' of its own",
    ),
    (
        "dependencies:\n  pinned:\n    - {fd: a -> b, name: x}\n    - {fd: a -> c, name: X}",
        7,
        "pinned 'X': the name 'X' is taken by pinned 'x'.",
        "unique, ignoring case",
    ),
    (
        "dependencies:\n  pinned:\n    - fd: a -> _change_type",
        6,
        "pinned 1: 'fd' names the column _change_type, which belongs to the change data feed",
        "another name",
    ),
]


@pytest.mark.parametrize(("text", "line", "message", "hint"), REFUSALS)
def test_a_mistake_is_one_sentence_with_its_line_and_a_hint(
    tmp_path: Path, text: str, line: int, message: str, hint: str
) -> None:
    rules = "constraints: [{name: taken, fd: a -> c}]"
    error = refusal(write(tmp_path, f"version: 1\ntable: tax\n{rules}\n{text}\n"))
    assert message in error.message
    assert error.message.startswith(f"{tmp_path}/tax.yml:{line}: ")
    assert hint in error.hint


def test_columns_of_pinned_rules_are_looked_for_like_those_of_constraints() -> None:
    rules = watching({"fd": "zip -> state"})
    check_columns(rules, ["Zip", "CITY", "State"], source="the changes")
    with pytest.raises(SchemaError) as caught:
        check_columns(rules, ["zip", "city", "stat"], source="the changes")
    assert caught.value.message == "Column state, which pinned 'zip -> state' needs, is not in the changes."
    assert caught.value.hint == "Did you mean 'stat'?"


class TestMapping:
    def test_the_section_survives_json(self, tmp_path: Path) -> None:
        tax = load_constraints(write(tmp_path, TAX))
        assert load_constraints(json.loads(json.dumps(to_mapping(tax)))) == tax

    def test_without_a_section_there_is_none_in_the_mapping(self) -> None:
        assert "dependencies" not in to_mapping(load_constraints({"version": 1, "table": "x", "constraints": []}))

    @given(st.lists(any_body, max_size=4), nulls, st.sampled_from(["pinned", "all", "none", "top"]))
    def test_any_pinned_rule_survives_json(self, bodies: list[Body], way: str, watch: str) -> None:
        pinned: dict[str, Constraint] = {}
        for number, body in enumerate(map(normalise, bodies)):
            try:
                check_bodies((body,))
            except ConstraintError:
                continue
            rule = Constraint(f"p{number}", "deny", (body,), way, "warn", pinned=True)
            if rule.rows == 2:
                pinned.setdefault(id_of(rule), rule)
        section = Watching(watch, 7 if watch == "top" else None, "error", tuple(pinned.values()))
        whole = ConstraintSet("tax", (), (), section)
        assert load_constraints(json.loads(json.dumps(to_mapping(whole)))) == whole
