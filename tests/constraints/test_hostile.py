"""Whatever is given as constraints, the answer is a set of constraints or a ConstraintError, and comes soon."""

from __future__ import annotations

import subprocess
import sys
from collections import UserDict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.constraints.files import load_constraints, to_mapping
from dc_engine.constraints.model import ConstraintSet
from dc_engine.errors import ConstraintError
from tests.constraints.documents import one, refusal, write

HEAD = "version: 1\ntable: tax\nconstraints:\n  - name: x\n    "
NASTY = {
    "40,000 brackets": "[" * 40_000,
    "a million brackets": "[" * 1_000_000,
    "a million closed brackets": "[" * 1_000_000 + "]" * 1_000_000,
    "a million braces": "{" * 1_000_000,
    "a million mappings in a row": "{a: " * 1_000_000,
    "a million dashes": "- " * 1_000_000,
    "a million question marks": "? " * 1_000_000,
    "2,000 blocks in each other": "\n".join(" " * depth + "a:" for depth in range(2_000)),
    "brackets in a rule": HEAD + "unique: " + "[" * 1_000_000,
    "aliases that multiply": "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    + "".join(f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 10)}]\n" for n in range(9)),
    "an alias of itself": "a: &a [*a]\n",
    "many anchors": "".join(f"a{n}: &a{n} x\n" for n in range(20_000)),
    "many tags": "! " * 100_000,
    "many documents": "---\n" * 100_000,
    "a key without end": "? " + "k" * 1_000_000,
    "parentheses": HEAD + "deny: " + "(" * 1_000_000,
    "closed parentheses": HEAD + "deny: " + "(" * 200_000 + "t.a = s.a" + ")" * 200_000,
    "100,000 predicates": HEAD + "deny: " + " and ".join(f"t.a{n} = s.a{n}" for n in range(100_000)),
    "3,000 constants": HEAD + "deny: " + " and ".join(f"t.a < {n}" for n in range(3_000)),
    "3,000 constants that are all but equal": HEAD + "deny: " + " and ".join(f"t.a < 1.{n:09}" for n in range(3_000)),
    "100,000 bodies": HEAD + "formula: " + " and ".join(f"not (t.a = {n})" for n in range(100_000)),
    "100,000 columns": HEAD + "unique: [" + ", ".join(f"c{n}" for n in range(100_000)) + "]",
    "100,000 columns on the right": HEAD + "fd: a -> " + ", ".join(f"c{n}" for n in range(100_000)),
    "quotes without end": HEAD + "deny: t.a = '" + "''" * 500_000,
    "backticks without end": HEAD + "deny: t.`" + "``" * 500_000,
    "a number of a million digits": HEAD + "deny: t.a = " + "1" * 1_000_000,
    "a tolerance of a million digits": HEAD + "fd: a -> b\n    max_new_violations: " + "9" * 1_000_000,
    "a share of a million digits": HEAD + "fd: a -> b\n    max_violating_rows: " + "9" * 1_000_000 + "%",
    "an exponent": HEAD + "deny: t.a = 1e999999999",
    "nothing but zeros": "\0" * 1_000_000,
    "more than 4 MiB": "#" * (5 << 20),
}
PROGRAM = """
import sys, time, yaml
from dc_engine.constraints.files import load_constraints
from dc_engine.errors import ConstraintError
if sys.argv[1] == "python":
    del yaml.CSafeLoader
for path in sys.argv[2:]:
    print(path, flush=True)
    begun = time.process_time()
    try:
        load_constraints(path)
    except ConstraintError as error:
        assert len(str(error)) < 5_000, len(str(error))
    assert time.process_time() - begun < 10, f"took {time.process_time() - begun} s"
"""


@pytest.mark.parametrize("loader", ["c", "python"])
def test_no_text_ends_the_process_or_takes_long(loader: str, tmp_path: Path) -> None:
    paths = []
    for name, text in NASTY.items():
        if loader == "c" or not text.startswith(HEAD):  # what is wrong with a rule has nothing to do with YAML
            paths.append(tmp_path / f"{name}.yml")
            paths[-1].write_text(text, encoding="utf-8")
    done = subprocess.run([sys.executable, "-c", PROGRAM, loader, *paths], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout.splitlines()[-1:]}: {done.stderr[-2000:]}"
    assert len(done.stdout.splitlines()) == len(paths) > 10


def test_nesting_and_aliases_are_refused_with_their_line(tmp_path: Path) -> None:
    deep = refusal(write(tmp_path, HEAD + "unique: " + "[" * 1_000_000))
    assert deep.message.endswith("tax.yml:5: is nested too deeply.")
    alias = refusal(write(tmp_path, NASTY["aliases that multiply"]))
    assert alias.message.endswith("tax.yml:2: the alias '*a0' means nothing here.")
    assert refusal(write(tmp_path, NASTY["more than 4 MiB"])).message.endswith(
        "is larger than 4 MiB, which no constraint file needs."
    )


FRAGMENTS = st.sampled_from(
    [
        *"[]{}-?:,&*!|>'\"%@`#\n \t\\()=<.",
        *("version: 1\n", "table: t\n", "key: [id]\n", "constraints:\n", "  - name: x\n", "    deny: ", "    unique: "),
        *(
            "    fd: a -> b\n",
            "    order: ",
            "    pod: ",
            "    formula: not (",
            "    within: [a]\n",
            "    nulls: equal\n",
        ),
        *(
            "t.a = s.a",
            " and ",
            "t.a < 1",
            "not ",
            "date '2026-01-31'",
            "&a ",
            "*a",
            "!!int ",
            "0.1%",
            "1e5",
            "~",
            "yes",
        ),
        *("    max_violating_rows: ", "    max_new_violations: ", "_change_type", "\ufeff", "\u2028", "\0", "\ud7ff"),
    ]
)
TEXTS = st.one_of(
    st.lists(FRAGMENTS, max_size=40).map("".join),
    st.lists(FRAGMENTS, max_size=20).map(lambda parts: HEAD + "".join(parts)),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=60),
)


@given(TEXTS)
def test_any_text_is_a_set_of_constraints_or_a_constraint_error(tmp_path_factory: Any, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "hostile.yml"
    path.write_text(text, encoding="utf-8", newline="")
    _check(path)


KEYS = st.sampled_from(
    [
        *(
            "version",
            "table",
            "key",
            "constraints",
            "name",
            "deny",
            "unique",
            "fd",
            "order",
            "pod",
            "formula",
            "within",
        ),
        *("nulls", "severity", "kind", "max_new_violations", "max_violating_rows", "description", "x"),
    ]
)
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.binary(max_size=3),
        FRAGMENTS,
        st.lists(FRAGMENTS, max_size=6).map("".join),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner),
        st.dictionaries(st.one_of(KEYS, st.integers()), inner, max_size=4),
    ),
    max_leaves=12,
)


@given(st.dictionaries(KEYS, VALUES, max_size=6), st.booleans())
def test_any_mapping_is_a_set_of_constraints_or_a_constraint_error(mapping: dict[str, Any], whole: bool) -> None:
    entry = {"name": "x", **mapping}
    _check({"version": 1, "table": "t", "constraints": [entry]} if whole else mapping)


def _check(source: Any) -> None:
    try:
        found = load_constraints(source)
    except ConstraintError:
        return
    assert isinstance(found, ConstraintSet)
    assert load_constraints(to_mapping(found)) == found


def nested(depth: int) -> list[Any]:
    inner: list[Any] = []
    for _ in range(depth):
        inner = [inner]
    return inner


def test_a_mapping_that_is_nested_without_end_is_refused() -> None:
    itself: dict[str, Any] = {"version": 1, "table": "t"}
    itself["constraints"] = [itself]
    circle: list[Any] = []
    circle.append(circle)
    wide: Any = ["x"] * 100
    for _ in range(30):
        wide = [wide] * 100
    for value in (nested(100_000), circle, wide, {"a": nested(100_000)}, UserDict(a=circle)):
        for key in ("unique", "deny", "max_violating_rows", "nulls", "name"):
            assert "nested too deeply" in refusal(one(**{"fd": "a -> b", key: value})).message
    assert "nested too deeply" in refusal(itself).message
    assert "nested too deeply" in refusal({"version": circle}).message


def test_a_list_that_holds_another_many_times_is_described_in_a_few_words() -> None:
    wide: Any = ["x"] * 1_000
    for _ in range(3):
        wide = [wide] * 1_000
    assert refusal({"version": wide}).message == "constraints: version a list is not supported."
    assert refusal(one(fd="a -> b", max_violating_rows=wide)).message.endswith(", not a list.")


def test_a_number_that_no_count_reaches_and_a_key_that_is_no_word_are_refused() -> None:
    assert refusal(one(fd="a -> b", max_new_violations=10**5_000)).message == "constraints: a number is out of range."
    assert refusal(one(fd="a -> b", x={1: 2})).message == "constraints: a key has to be a word."


def test_the_longest_rules_are_read_again_from_what_is_stored_of_them() -> None:
    names = [f"c{number}" for number in range(1_000)]
    left = ", ".join(f"{name} >" for name in names)
    for entry in (
        {"unique": names},
        {"fd": f"{', '.join(names)} -> z"},
        {"order": "x -> y", "within": names},
        {"pod": f"{left} -> z >", "within": [f"w{number}" for number in range(1_000)]},
    ):
        found = load_constraints(one(**entry))
        assert load_constraints(to_mapping(found)) == found


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"deny": " and ".join(["t.a = s.a"] * 3_001)}, "more than 3,000 predicates"),
        ({"deny": "(" * 51 + "t.a = s.a" + ")" * 51}, "more than 50 nested parentheses"),
        ({"formula": " and ".join(f"not (t.a = {n})" for n in range(101))}, "more than 100 bodies"),
        ({"unique": [f"c{n}" for n in range(1_001)]}, "1,001 columns are named in one place; 1,000 are allowed"),
        ({"fd": "a -> " + ", ".join(f"c{n}" for n in range(1_001))}, "1,001 columns are named"),
        ({"pod": ", ".join(f"c{n} >" for n in range(1_001)) + " -> z >"}, "1,001 columns are named"),
    ],
)
def test_a_rule_beyond_all_measure_is_refused(entry: dict[str, Any], message: str) -> None:
    error = refusal(one(**entry))
    assert message in error.message
    assert error.message.startswith("constraints: constraint 'x': ")
