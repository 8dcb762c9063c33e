from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dc_engine.constraints.files import load_constraints
from tests.constraints.documents import one, refusal, write

FILE_REFUSALS = [
    ("", "tax.yml: is empty.", "version, table and constraints"),
    ("- a\n", "tax.yml:1: has to be a mapping.", "version, table and constraints"),
    ("version: 1\ntable: [\n", "tax.yml:3: is not valid YAML", ""),
    ("version: 1\ntable: `tax`\n", "tax.yml:2: is not valid YAML", "in quotes"),
    ("version: 1\ntable: t.a: b\n", "tax.yml:2: is not valid YAML", "in quotes"),
    ("version: 1\nconstraints:\n\t- name: a\n", "tax.yml:3: is not valid YAML", "a tab"),
    ("version: 1\nconstraints:\n - name: a\n \tfd: a -> b\n", "tax.yml:4: is not valid YAML", "a tab"),
    ("version: 1\nconstraints:\n  - name: a\n   fd: a -> b\n", "tax.yml:4: is not valid YAML", "the indentation"),
    ("version: 1\nconstraints:\n  - name: a\n      fd: a -> b\n", "tax.yml:4: is not valid YAML", "the indentation"),
    ("version: 1\nconstraints:\n  - name: a\n  fd: a -> b\n", "tax.yml:4: is not valid YAML", "the indentation"),
    ("version: 1\n table: tax\n", "tax.yml:2: is not valid YAML", "the indentation"),
    ("version: 1\nconstraints:\n - name:a\n   fd: a -> b\n", "tax.yml:4: is not valid YAML", "a space after 'name:'"),
    ("version: 1\n---\nversion: 1\n", "tax.yml:2: a second document begins here.", "Keep one"),
    ("--- # nothing\n", "tax.yml:2: has to be a mapping.", ""),
    ("# nothing\n", "tax.yml: is empty.", ""),
    ("version: 1\ntable: \x01\n", "tax.yml: is not valid YAML", ""),
    ("version: 1\nversion: 1\n", "tax.yml:2: the key 'version' is here and on line 1.", "Keep one"),
    ("version: 1\n[a]: 1\n", "tax.yml:2: a key has to be a word.", ""),
    ("version: 1\ntable: !secret x\n", "tax.yml:2: the tag '!secret' means nothing here.", ""),
    ("version: 1\na: &a\n  b: *a\n", "tax.yml:3: the alias '*a' means nothing here.", "Write out"),
    ("version: 1\na: [&a x, *a]\n", "tax.yml:2: the alias '*a' means nothing here.", "Write out"),
    ("version: 1\nkey: " + "[" * 9, "tax.yml:2: is nested too deeply.", "lists of columns"),
    ("version: 1\nkey: " + "{a: " * 9, "tax.yml:2: is nested too deeply.", "lists of columns"),
    ("version: 1\nkey:\n  " + "- " * 9, "tax.yml:3: is nested too deeply.", "lists of columns"),
    ("table: tax\nconstraints: []\n", "tax.yml:1: 'version' is missing.", "version: 1"),
    ("version: 2\n", "tax.yml:1: version 2 is not supported.", "version: 1"),
    ("version: '1'\n", "tax.yml:1: version '1' is not supported.", "version: 1"),
    ("version: yes\n", "tax.yml:1: version True is not supported.", "version: 1"),
    ("version: 1\nconstraints: []\n", "tax.yml:1: 'table' is missing.", "Name the table"),
    ("version: 1\ntable: 5\n", "tax.yml:2: 'table' has to be text, not a number (5).", "in quotes"),
    ("version: 1\ntable:\n", "tax.yml:2: 'table' has to be text, not nothing.", ""),
    ("version: 1\ntable: ' '\n", "tax.yml:2: 'table' is empty.", ""),
    ("version: 1\ntabel: tax\n", "tax.yml:2: unknown key 'tabel'.", "Did you mean 'table'?"),
    ("version: 1\ntable: tax\n", "tax.yml:1: there are no constraints.", "constraints: []"),
    ("version: 1\ntable: tax\nconstraints:\n", "tax.yml:3: there are no constraints.", "constraints: []"),
    (
        "version: 1\ntable: tax\nconstraints:\n  a: 1\n",
        "tax.yml:3: 'constraints' has to be a list, not a mapping.",
        "- name:",
    ),
    (
        "version: 1\ntable: tax\nconstraints: [a]\n",
        "tax.yml:3: constraint 1 has to be a mapping, not text.",
        "- name:",
    ),
    (
        "version: 1\ntable: tax\nkey: [no]\n",
        "tax.yml:3: 'key' has to be a list of columns, not a list with true or false (False).",
        "in quotes",
    ),
    ("version: 1\ntable: tax\nkey: []\n", "tax.yml:3: 'key' is an empty list.", "at least one"),
    ("version: 1\ntable: tax\nkey: {}\n", "tax.yml:3: 'key' has to be a list of columns, not a mapping.", ""),
    ("version: 1\ntable: tax\nkey: [id, ID]\n", "tax.yml:3: 'key': column ID is named twice.", ""),
    (
        "version: 1\ntable: tax\nkey: a b\n",
        "tax.yml:3: 'key': expected ',' or the end, found 'b' at character 3",
        "commas",
    ),
]


@pytest.mark.parametrize(("text", "message", "hint"), FILE_REFUSALS)
def test_a_bad_file_is_refused_with_its_line_and_a_hint(tmp_path: Path, text: str, message: str, hint: str) -> None:
    error = refusal(write(tmp_path, text))
    assert message in error.message
    assert error.message.startswith(str(tmp_path / "tax.yml"))
    assert hint in error.hint


ENTRY_REFUSALS: list[tuple[str, int, str, str]] = [
    (
        "deny: t.a = s.a or t.b = s.b",
        5,
        "'deny': 'or' is not allowed in a body at character 11",
        "one constraint for each side",
    ),
    (
        "deny: t.a < s.a and t.a > s.a",
        5,
        "'deny': it can never be violated: 't.a < s.a' and 't.a > s.a' exclude",
        "",
    ),
    ("deny: t.a = 'x # y'", 5, "'deny': expected a column or a constant, found '''", "' #' starts a comment"),
    ("deny: [t.a = s.a]", 5, "'deny' has to be text, not a list with text.", ""),
    ("deny:", 5, "'deny' has to be text, not nothing.", ""),
    ("formula: t.a = s.a", 5, "'formula': expected 'not'", "'deny'"),
    (
        "formula: not (t.a = s.a) and not (t.b = s.b)",
        5,
        "'formula': one pair of rows can satisfy two",
        "for each body",
    ),
    (
        "formula: not (t.a = s.a)\n    kind: unqiue",
        6,
        "'kind' has to be 'deny' or 'unique' or",
        "Did you mean 'unique'?",
    ),
    ("fd: zip => city", 5, "'fd': expected '->', found '='", "'->'"),
    ("pod: a => -> b >", 5, "'pod': expected '->', found '>'", "'>='"),
    ("fd: zip -> zip", 5, "'fd': column zip is on both sides", "Leave it out"),
    ("order: a, b -> a", 5, "'order': a table sorted by a, b is always sorted by a", "Leave it out"),
    ("pod: a > -> a >", 5, "'pod': it can never be violated", ""),
    ("pod: a -> b >", 5, "'pod': expected an operator", "a >"),
    ("unique: 5", 5, "'unique' has to be a list of columns, not a number (5).", ""),
    ("unique: [a, 5]", 5, "'unique' has to be a list of columns, not a list with a number (5).", "in quotes"),
    ("unique: [a, '']", 5, "'unique' has to be a list of columns, not a list with text.", ""),
    ("severity: warn", 4, "has no rule.", "deny, unique, fd, order, pod, formula"),
    ("fd: a -> b\n    unique: [a]", 5, "has 'unique' and 'fd'.", "one constraint for each rule"),
    ("unqiue: [a]", 5, "unknown key 'unqiue'.", "Did you mean 'unique'?"),
    ("fd: a -> b\n    serverity: warn", 6, "unknown key 'serverity'.", "Did you mean 'severity'?"),
    (
        "fd: a -> b\n    severity: errors",
        6,
        "'severity' has to be 'error' or 'warn', not 'errors'.",
        "Did you mean 'error'?",
    ),
    (
        "fd: a -> b\n    severity: no",
        6,
        "'severity' has to be 'error' or 'warn', not true or false (False).",
        "",
    ),
    (
        "fd: a -> b\n    severity: [error]",
        6,
        "'severity' has to be 'error' or 'warn', not a list with text.",
        "",
    ),
    (
        "fd: a -> b\n    nulls: equals",
        6,
        "'nulls' has to be 'ignore' or 'equal', not 'equals'.",
        "Did you mean 'equal'?",
    ),
    ("fd: a -> b\n    kind: fd", 6, "'kind' goes with 'formula' only.", "Leave it out"),
    (
        "fd: a -> b\n    within: [c]",
        6,
        "'within' goes with 'order' and 'pod', not with 'fd'.",
        "left side of the fd",
    ),
    (
        "unique: [a]\n    within: [c]",
        6,
        "'within' goes with 'order' and 'pod', not with 'unique'.",
        "to the list",
    ),
    (
        "deny: t.a = s.a\n    within: [c]",
        6,
        "'within' goes with 'order' and 'pod', not with 'deny'.",
        "t.column = s.column",
    ),
    ("order: a -> b\n    within: [B]", 5, "'order': column B is in 'within' and in the order.", ""),
    ("fd: a -> b\n    max_new_violations: -1", 6, "'max_new_violations' is negative (-1).", ""),
    (
        "fd: a -> b\n    max_new_violations: 1.5",
        6,
        "'max_new_violations' has to be a whole number, not a number (1.5).",
        "",
    ),
    (
        "fd: a -> b\n    max_new_violations: yes",
        6,
        "'max_new_violations' has to be a whole number, not true or false",
        "",
    ),
    (
        "fd: a -> b\n    max_new_violations: 5%",
        6,
        "'max_new_violations' has to be a whole number, not text.",
        "",
    ),
    (
        "fd: a -> b\n    max_violating_rows: 0.1",
        6,
        "'max_violating_rows' has to be a whole number or a percentage",
        '"0.1%"',
    ),
    (
        "fd: a -> b\n    max_violating_rows: 101%",
        6,
        "'max_violating_rows' has to be a whole number or a percentage",
        '"0.1%"',
    ),
    (
        "fd: a -> b\n    max_violating_rows: -1%",
        6,
        "'max_violating_rows' has to be a whole number or a percentage",
        '"0.1%"',
    ),
    (
        "fd: a -> b\n    max_violating_rows: '%'",
        6,
        "'max_violating_rows' has to be a whole number or a percentage",
        '"0.1%"',
    ),
    ("fd: a -> b\n    max_violating_rows: -1", 6, "'max_violating_rows' is negative (-1).", ""),
    (
        "fd: a -> b\n    max_new_violations: 1\n    max_violating_rows: 1",
        7,
        "has both 'max_new_violations' and 'max_violating_rows'.",
        "Keep the one",
    ),
    ("fd: a -> b\n    description: [a]", 6, "'description' has to be text, not a list with text.", ""),
    (
        "fd: a -> b\n  - name: RULE\n    fd: a -> c",
        6,
        "the name 'RULE' is taken by an earlier constraint.",
        "unique",
    ),
]


def test_lists_in_brackets_are_told_to_be_quoted(tmp_path: Path) -> None:
    text = "version: 1\ntable: tax\nconstraints:\n  - name: rule\n    order: {0}\n"
    error = refusal(write(tmp_path, text.format("[a, b] -> [c]")))
    assert ":5: is not valid YAML" in error.message
    assert "Leave the brackets out" in error.hint
    for written in ('"[a, b] -> [c]"', "a, b -> c"):
        read = load_constraints(write(tmp_path, text.format(written)))
        assert [one.name for one in read.constraints] == ["rule.c", "rule.a ~ c", "rule.b ~ c"]


@pytest.mark.parametrize(("entry", "line", "message", "hint"), ENTRY_REFUSALS)
def test_a_bad_constraint_is_refused_with_line_name_and_hint(
    tmp_path: Path, entry: str, line: int, message: str, hint: str
) -> None:
    path = write(tmp_path, f"version: 1\ntable: tax\nconstraints:\n  - name: rule\n    {entry}\n")
    error = refusal(path)
    assert error.message.casefold().startswith(f"{path}:{line}: constraint 'rule': {message}".casefold())
    assert hint in error.hint


class TestNames:
    @pytest.mark.parametrize(
        ("name", "message"),
        [
            (None, "constraints: constraint 1: 'name' has to be text, not nothing."),
            ("", "constraints: constraint 1: 'name' is empty."),
            (
                "a\nb",
                "constraints: constraint 1: 'name' has control characters, or spaces at its ends: 'a\\nb'.",
            ),
            (" a", "constraints: constraint 1: 'name' has control characters, or spaces at its ends: ' a'."),
            ("a" * 201, "constraints: constraint 1: 'name' has 201 characters; 200 are allowed."),
            ("a\ud800", "constraints: constraint 1: 'name': character 2 is not valid Unicode."),
        ],
    )
    def test_a_name_that_cannot_be_shown_is_refused(self, name: Any, message: str) -> None:
        assert refusal(one(name=name, fd="a -> b")).message == message

    def test_a_constraint_without_a_name_is_refused(self) -> None:
        document = {"version": 1, "table": "tax", "constraints": [{"fd": "a -> b"}]}
        assert refusal(document).message == "constraints: constraint 1: 'name' is missing."

    def test_names_are_unique_after_an_fd_is_written_out(self) -> None:
        document = one(fd="a -> b, c")
        document["constraints"].append({"name": "X.B", "fd": "d -> b"})
        assert refusal(document).message == (
            "constraints: constraint 'X.B': the name 'X.B' is taken by an earlier constraint."
        )

    def test_a_name_that_grows_too_long_is_refused(self) -> None:
        assert "has 202 characters" in refusal(one(name="a" * 198, fd="a -> bcd, efg")).message


@pytest.mark.parametrize("column", ["_change_type", "_COMMIT_version", "_commit_timestamp", "_dc_row", "_DC_x"])
@pytest.mark.parametrize(
    "entry",
    [
        {"deny": "t.a = s.a and t.{0} < s.{0}"},
        {"deny": "t.{0} = 1"},
        {"formula": "not (t.a = s.`{0}`)"},
        {"unique": ["a", "{0}"]},
        {"fd": "a -> b, {0}"},
        {"order": "a -> {0}"},
        {"order": "a -> b", "within": ["{0}"]},
        {"pod": "{0} > -> b >"},
    ],
)
def test_columns_of_the_feed_and_of_the_gate_are_refused_in_rules(column: str, entry: dict[str, Any]) -> None:
    filled = {
        key: [part.format(column) for part in value] if isinstance(value, list) else value.format(column)
        for key, value in entry.items()
    }
    error = refusal(one(**filled))
    assert error.message.startswith("constraints: constraint 'x': '")
    owner = "the gate" if "_dc_" in column.lower() else "the change data feed"
    assert f"names the column {column}, which belongs to {owner} and not to the table." in error.message
    assert "another name in the changes, for instance with 'sql'" in error.hint


@pytest.mark.parametrize("column", ["_change_type", "_commit_version", "_commit_timestamp", "_dc_row"])
def test_columns_of_the_feed_and_of_the_gate_are_refused_in_the_key(tmp_path: Path, column: str) -> None:
    error = refusal(write(tmp_path, f"version: 1\ntable: tax\nkey: [id, {column}]\nconstraints: []\n"))
    assert f"tax.yml:3: 'key' names the column {column}, which belongs to" in error.message
