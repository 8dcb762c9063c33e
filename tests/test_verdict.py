"""Verdicts as facts: what a mask takes out of them."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.verdict import MASKED, ConstraintVerdict, Verdict, masked

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
        dependencies={"invalidated": []},
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


@pytest.mark.parametrize("columns", [(), ["unknown"]])
def test_a_mask_of_nothing_that_is_shown_changes_nothing(columns):
    verdict = verdict_with([{"t": {"row": None, "values": {"zip": "1"}, "rows": 1}, "s": None}], [])
    assert masked(verdict, columns) == verdict
