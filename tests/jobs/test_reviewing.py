"""What people look at in a state, part by part: it is what the verdicts, the listings and the rows say."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.constraints.editing import as_constraint
from dc_engine.constraints.files import load_text
from dc_engine.constraints.naming import id_of
from dc_engine.discover import discover
from dc_engine.reviewing import (
    known_dependencies,
    load_ids,
    loads_between,
    marked,
    some_violations,
    spread_over_rows,
)
from dc_engine.stored import each_verdict, find_load, read_dependencies, read_verdict, read_violations
from dc_engine.verdict import MASKED
from tests.faults.states import Gate, changes, history, made_rows

LOADS = history(random.Random(7), loads=4, rows=30)


@pytest.fixture(scope="module")
def gate(tmp_path_factory) -> Gate:
    made = Gate(str(tmp_path_factory.mktemp("reviewing") / "people"))
    for one in LOADS:
        made.apply(one)
    return made


def violations(gate: Gate, load_id: str, rule: str, first: int = 0, most: int = 10**6, mask: Any = ()) -> Any:
    snapshot, load = find_load(gate.storage, load_id)
    return some_violations(gate.storage, snapshot, load, rule, first, most, mask)


@given(st.integers(0, 5), st.integers(0, 5))
def test_any_part_of_a_history_has_the_numbers_of_its_verdicts(gate, first, most):
    lines = loads_between(gate.storage, gate.current, first, first + most)
    verdicts = list(each_verdict(gate.storage))[first : first + most]
    assert load_ids(gate.storage, gate.current) == [one.load_id for one in LOADS]
    for line, verdict in zip(lines, verdicts, strict=True):
        assert (line.load_id, line.decision, line.rows) == (verdict.load_id, verdict.decision, verdict.rows)
        assert line.violations == sum(one.new_violations for one in verdict.constraints)
        assert all(line.new.get(one.name, 0) == one.new_violations for one in verdict.constraints)
        assert set(line.broken) == {one.name for one in verdict.constraints if not one.passed}


@given(st.sampled_from([one.load_id for one in LOADS]), st.sampled_from(["city", "order", "alone"]), st.integers(1, 7))
def test_page_by_page_the_violations_are_those_that_are_listed(gate, load_id, rule, size):
    listed = [row for part in read_violations(gate.storage, load_id, rule) for row in part.to_pylist()]
    found: list[Any] = []
    while len(found) < len(listed):
        pairs, total = violations(gate, load_id, rule, len(found), size)
        assert total == len(listed)
        assert 0 < len(pairs) <= size
        found += pairs
    for pair, line in zip(found, listed, strict=True):
        assert pair["pairs"] == line["pairs"]
        for side in ("t", "s"):
            assert (side in pair) == (side in line)
            if side in pair:
                assert pair[side]["values"] == line[side]
                assert (pair[side]["rows"], pair[side]["new"]) == (line[f"{side}_rows"], line[f"{side}_new"])


def test_a_row_of_a_violation_has_its_key_and_the_load_that_brought_it(gate):
    brought = {(one.load_id, row["id"]): row for one in LOADS for row in one.inserts}
    sides = [pair[side] for pair in violations(gate, "load 1", "city")[0] for side in ("t", "s")]
    assert sides
    for side in sides:
        if side["row"] is not None:  # rows that were deleted since may be gone
            row = brought[side["load"], side["row"]["id"]]
            assert {name: row[name] for name in side["values"]} == side["values"]
        assert side["new"] == (side["load"] == "load 1")
    assert any(side["row"] for side in sides)


def test_masked_columns_are_hidden_in_values_and_in_keys(gate):
    pairs, _ = violations(gate, "load 1", "city", mask=["CITY", "id"])
    sides = [pair[side] for pair in pairs for side in ("t", "s")]
    assert {side["values"]["city"] for side in sides} == {MASKED}
    assert {side["row"]["id"] for side in sides if side["row"]} == {MASKED}


def test_what_a_later_load_masks_is_hidden_in_earlier_ones_too(tmp_path):
    made = Gate(str(tmp_path / "people"))
    rows = [
        {"id": 1, "zip": "1", "city": "a", "age": 3, "pay": 3.0},
        {"id": 2, "zip": "1", "city": "b", "age": 3, "pay": 3.0},
    ]
    made.apply(changes("first", rows, []))
    made.apply(changes("second", [{**rows[0], "id": 3, "zip": "2"}], []), mask=["city"])
    (pair,), _ = violations(made, "first", "city")
    assert pair["t"]["values"] == {"zip": "1", "city": MASKED}


@pytest.mark.parametrize("rule", ["city", "order", "alone"])
def test_the_spread_counts_every_violating_row_once(gate, rule):
    for one in LOADS:
        _, load = find_load(gate.storage, one.load_id)
        facts = next(each for each in read_verdict(gate.storage, one.load_id).constraints if each.name == rule)
        spread = spread_over_rows(gate.storage, load, rule)
        assert sum(rows for _, rows in spread) == facts.violating_rows
        assert all(low == 10**place for place, (low, _) in enumerate(spread))
        worst = [each["violations"] for each in facts.worst_rows]
        if worst:
            assert spread[-1][0] <= max(worst) < 10 * spread[-1][0]


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> Gate:
    made = Gate(str(tmp_path_factory.mktemp("dependencies") / "people"))
    chance = random.Random(3)
    made.apply(changes("first", made_rows(chance, 0, 12), []))
    discover(made.session, {"state": made.state, "classes": ["unique", "fd"]})
    for number in range(1, 4):
        made.apply(changes(f"load {number}", made_rows(chance, 100 * number, 12), []))
    return made


class TestDependencies:
    def test_without_a_discovery_there_are_none(self, gate):
        assert known_dependencies(gate.storage, gate.current) is None

    def test_they_are_those_that_the_state_tells_and_those_that_were_lost(self, kept):
        known = known_dependencies(kept.storage, kept.current)
        assert [one.to_dict() for one in known.holding] == read_dependencies(kept.storage)
        lost = {
            text for one in each_verdict(kept.storage) for text in (each.text for each in one.dependencies.invalidated)
        }
        assert lost
        assert {one.text for one in known.lost} >= lost - {one.text for one in known.holding}
        assert all(one.until for one in known.lost)

    def test_each_can_be_pasted_as_a_constraint_that_means_the_same(self, kept):
        known = known_dependencies(kept.storage, kept.current)
        for one in known.holding:
            text = as_constraint({"class": one.kind, "text": one.text, "formula": one.formula})
            lines = "\n".join(f"  {line}" for line in text.splitlines())
            (rule,) = load_text(f"version: 1\ntable: people\nconstraints:\n{lines}\n").constraints
            assert id_of(rule) == one.id

    def test_a_rule_of_the_file_is_known_by_its_name(self, kept):
        assert "constraint city" in marked(kept.storage, kept.current).values()
