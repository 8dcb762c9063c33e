"""Verdicts as facts: their document, the decision, what a mask takes out of them."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.verdict import (
    MASKED,
    ConstraintVerdict,
    Dependencies,
    DependencyVerdict,
    LostDependency,
    Verdict,
    as_lines,
    decide,
    masked,
)

NAMES = st.sampled_from(
    ["id", "ID", "zip", "Zip", "City", "Größe", "rows", "row", "values", "violations", "t", "_row_id"]
)
CELLS = st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2)
ROWS = st.dictionaries(NAMES, CELLS, max_size=4)
SIDES = st.fixed_dictionaries({"row": st.none() | ROWS, "values": ROWS, "rows": st.integers(1, 9)})
SAMPLES = st.fixed_dictionaries({"t": SIDES}, optional={"s": st.none() | SIDES})
WORST = st.fixed_dictionaries({"row": st.none() | ROWS, "violations": st.integers(1, 9)})


def verdict_with(samples: list[dict[str, Any]], worst_rows: list[dict[str, Any]]) -> Verdict:
    return Verdict(
        table="tax",
        load_id="zip",
        snapshot=1,
        replayed=False,
        decision="fail",
        rows={"inserted": 1},
        constraints=[
            ConstraintVerdict(
                name="zip",
                kind="fd",
                formula="not (t.zip = s.zip and t.city != s.city)",
                severity="error",
                passed=False,
                new_violations=1,
                removed_violations=0,
                total_violations=1,
                violating_rows=1,
                skipped_null_rows=0,
                max_new_violations=0,
                samples=samples,
                worst_rows=worst_rows,
            )
        ],
        dependencies=Dependencies(),
        seconds={"total": 1.0},
        columns={"zip": "string"},
    )


def expected(document: Any, hidden: set[str], *, holds_values: bool = False) -> Any:
    """The definition: below ``row`` and ``values`` of samples and worst rows, cells of hidden columns are masked."""
    if not isinstance(document, dict):
        return document
    if holds_values:
        return {name: MASKED if name.lower() in hidden else value for name, value in document.items()}
    return {name: expected(one, hidden, holds_values=name in ("row", "values")) for name, one in document.items()}


@given(st.lists(SAMPLES, max_size=3), st.lists(WORST, max_size=3), st.lists(NAMES, max_size=4))
def test_a_mask_hides_the_values_of_its_columns_and_changes_nothing_else(samples, worst, columns):
    verdict = verdict_with(samples, worst)
    before = deepcopy(verdict)
    hidden = {name.lower() for name in columns}
    shown = [expected(one, hidden) for one in samples], [expected(one, hidden) for one in worst]
    assert masked(verdict, columns) == verdict_with(*shown)
    assert verdict == before, "the verdict that was given stays as it was"
    assert masked(masked(verdict, columns), columns) == masked(verdict, columns)


def test_column_names_compare_without_case_and_null_is_masked_too():
    side = {"row": {"ID": 17}, "values": {"Zip": None, "city": "Berln"}, "rows": 1}
    (rule,) = masked(verdict_with([{"t": side}], [{"row": {"ID": 17}, "violations": 2}]), ["id", "zIP"]).constraints
    assert rule.samples == [{"t": {"row": {"ID": MASKED}, "values": {"Zip": MASKED, "city": "Berln"}, "rows": 1}}]
    assert rule.worst_rows == [{"row": {"ID": MASKED}, "violations": 2}]


def dependency(**facts: Any) -> LostDependency:
    return LostDependency("fd-1", "fd", "zip -> city", "not (t.zip = s.zip and t.city != s.city)", **facts)


@given(SAMPLES, st.lists(NAMES, max_size=4))
def test_a_mask_hides_values_in_the_example_of_a_lost_dependency_too(example, columns):
    found = Dependencies(invalidated=[dependency(example=example)])
    shown = masked(replace(verdict_with([], []), dependencies=found), columns).dependencies.invalidated[0].example
    assert shown == expected(example, {name.lower() for name in columns})


@pytest.mark.parametrize(
    ("severity", "watched", "decision"),
    [("error", True, "fail"), ("warn", True, "warn"), ("error", False, "pass"), ("warn", False, "pass")],
)
def test_a_lost_dependency_decides_by_its_severity_if_it_is_watched(severity, watched, decision):
    found = Dependencies(invalidated=[dependency(severity=severity, watched=watched)])
    assert decide([], found) == decision
    broken = verdict_with([], []).constraints
    assert decide(broken, found) == "fail"
    assert decide([replace(broken[0], severity="warn")], found) == ("fail" if decision == "fail" else "warn")


def test_the_document_of_a_verdict_says_class_and_comes_back_the_same():
    lost = dependency(example={"t": {"row": None, "values": {}, "rows": 1}}, instead=[{"id": "a", "text": "b"}])
    holds = DependencyVerdict("unique-1", "unique", "unique [id]", "not (t.id = s.id)", since="monday")
    found = Dependencies(valid={"fd": 2}, watched=[holds], invalidated=[lost], added=[holds])
    verdict = replace(verdict_with([], []), dependencies=found)
    document = json.loads(json.dumps(verdict.to_dict()))
    assert [one["class"] for one in document["dependencies"]["invalidated"]] == ["fd"]
    assert Verdict.from_dict(document) == verdict


@pytest.mark.parametrize("columns", [(), ["unknown"]])
def test_a_mask_of_nothing_that_is_shown_changes_nothing(columns):
    verdict = verdict_with([{"t": {"row": None, "values": {"zip": "1"}, "rows": 1}, "s": None}], [])
    assert masked(verdict, columns) == verdict


_PLAIN = st.none() | st.booleans() | st.integers() | st.text()
_DOCUMENTS = st.dictionaries(
    st.text(),
    st.recursive(_PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)),
)


@given(_DOCUMENTS)
def test_lines_are_the_document(document):
    assert json.loads(as_lines(document)) == document


def test_each_entry_of_a_list_is_a_line():
    lines = as_lines({"rows": 1, "dependencies": {"valid": {}, "lost": [{"id": "a"}, {"id": "b"}]}}).splitlines()
    assert '   {"id": "a"},' in lines
    assert '   {"id": "b"}' in lines
    assert ' "rows": 1,' in lines
