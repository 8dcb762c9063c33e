"""Order dependencies are those of the definition, in tables of every type, in both stores, while rows come and go."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.constraints.naming import meaning_in
from dc_engine.discovery import orders
from dc_engine.discovery.asking import asked_of
from dc_engine.discovery.boxes import Box, body_of, carried
from dc_engine.discovery.coded import Coded
from dc_engine.discovery.keeping import changed, found
from dc_engine.discovery.known import COUNTED, WITNESSED, Known, Turnover
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.space import Limits, Space
from dc_engine.discovery.terms import Terms
from dc_engine.discovery.wording import worded
from dc_engine.errors import RequestError
from dc_engine.maintained.stored import read_set
from dc_engine.sizes import other_sizes
from tests.discovery.oracle import Order, minimal_orders
from tests.discovery.tables import Table
from tests.discovery.test_certificates import with_set
from tests.discovery.test_keeping import History, compared, histories, rule_of
from tests.discovery.test_search import WAYS

MODES = st.sampled_from([COUNTED, WITNESSED])
CLASSES = st.sampled_from([("od",), ("fd", "od"), ("unique", "fd", "od", "dc")])


def order_of(terms: Terms, box: Box) -> Order:
    """A box as the definition has it."""
    rule = rule_of(terms, box)
    context = frozenset(name for name, op, _ in rule if op == "=")
    others = sorted((name, op) for name, op, _ in rule if op != "=")
    if len(others) == 1:
        assert others[0][1] == "!="
        return context, others[0][0], "", ""
    (one, first), (other, second) = others
    assert {first, second} <= {"<", ">"}
    return context, one, other, "down" if first == second else "up"


def found_orders(space: Space, known: Known) -> set[Order]:
    terms = space.terms(known.nullable)
    found = [order_of(terms, box) for box in known.sets["od"]]
    assert len(found) == len(set(found)), "each once"
    return set(found)


def expected(space: Space, rows: Sequence[tuple[Any, ...]]) -> set[Order]:
    names = list(space.columns)
    values = [
        {name: None if value is None else compared(value) for name, value in zip(names, row, strict=True)}
        for row in rows
    ]
    return minimal_orders(names, values, descending=space.descending)


@given(histories(), MODES, WAYS, CLASSES, st.booleans(), st.lists(st.booleans(), min_size=4, max_size=4))
def test_after_every_change_order_dependencies_are_those_that_hold_then(history, mode, ways, classes, down, switches):
    space, rows, steps = history
    space = replace(space, classes=classes, descending=down)
    history = History(space, rows, mode)
    with other_sizes(**ways):
        for step, switch in zip(steps, switches, strict=False):
            known, living = history.after(*step)
            assert found_orders(space, known) == expected(space, living)
            if switch:
                other = COUNTED if known.mode == WITNESSED else WITNESSED
                known = history.known = found(space, history.coded(history.there), other, known.nullable)
                assert found_orders(space, known) == expected(space, living)


@st.composite
def tables(draw: st.DrawFn) -> tuple[Space, Coded]:
    """Codes of a few rows and columns, perhaps with NULLs that other classes ignore."""
    width, rows = draw(st.integers(1, 5)), draw(st.integers(0, 9))
    cells = st.lists(st.integers(draw(st.sampled_from([0, -1])), 2), min_size=rows, max_size=rows)
    codes = {f"c{one}": np.array(draw(cells), np.int32) for one in range(width)}
    classes = draw(st.sampled_from([("od",), ("unique", "od"), ("fd", "od")]))
    space = Space(dict.fromkeys(codes, "int"), classes=classes, descending=draw(st.booleans()))
    return space, Coded(np.arange(rows), codes)


def expected_of(space: Space, rows: Coded) -> set[Order]:
    columns = {name: [None if one < 0 else one for one in codes.tolist()] for name, codes in rows.codes.items()}
    values = [{name: column[place] for name, column in columns.items()} for place in range(len(rows.ids))]
    return minimal_orders(list(columns), values, descending=space.descending)


@given(tables(), MODES, st.booleans(), st.none() | st.integers(1, 5))
def test_with_few_columns_or_many_and_up_to_any_number_of_them(table, mode, tabled, most):
    space, rows = table
    space = replace(space, limits=Limits(max_terms=most))
    with pytest.MonkeyPatch.context() as patch:
        if not tabled:
            patch.setattr(orders, "TABLED", 0)
        known = found(space, rows, mode)
    wanted = {one for one in expected_of(space, rows) if most is None or len(one[0]) + 1 + bool(one[2]) <= most}
    assert found_orders(space, known) == wanted
    assert known.bound == (None if most is None or most >= len(rows.codes) else most)


@given(tables(), WAYS, st.data())
def test_rows_with_few_values_and_many_nulls_come_and_go(table, ways, data):
    space, rows = table
    number = len(rows.ids)
    there = [np.array(data.draw(st.lists(st.booleans(), min_size=number, max_size=number)), bool) for _ in range(3)]
    with other_sizes(**ways):
        known = found(space, rows.chosen(there[0]), WITNESSED)
        for before, after in itertools.pairwise(there):
            known = changed(space, known, Turnover(rows, before, after))
            assert found_orders(space, known) == expected_of(space, rows.chosen(after))


def test_seventy_columns_have_the_orders_that_they_were_made_with():
    chance = np.random.default_rng(3)
    codes = {f"c{one}": chance.integers(0, 50, 400).astype(np.int32) for one in range(70)}
    codes["c68"], codes["c69"] = codes["c1"] // 7, 90 - codes["c2"]
    space = Space(dict.fromkeys(codes, "int"), classes=("od",), descending=True, limits=Limits(max_terms=2))
    known = found(space, Coded(np.arange(400), codes), WITNESSED)
    one, other = frozenset({"c2"}), frozenset({"c69"})
    assert found_orders(space, known) == {
        (frozenset({"c1"}), "c68", "", ""),
        (one, "c69", "", ""),
        (other, "c2", "", ""),
        (frozenset(), "c1", "c68", "up"),
        (frozenset(), "c2", "c69", "down"),
    }


def test_time_that_is_up_is_not_spent_again_for_each_two_of_many_columns():
    rows = np.random.default_rng(0).integers(0, 3, (60, 100)).astype(np.int32)
    rows[0] = 0
    columns = dict.fromkeys((f"c{place}" for place in range(60)), "int")
    space = Space(columns, classes=("od",), descending=True, limits=Limits(seconds=0))
    known = found(space, Coded(np.arange(100), dict(zip(columns, rows, strict=True))))
    assert known.because == "the search took more than 0 s"
    assert known.bound in (1, 2)  # the first step may be done before the clock is looked at
    assert found_orders(space, known) == {(frozenset(), "c0", "", "")}


def test_nulls_that_come_first_need_no_bits():
    space = Space({"a": "int", "b": "string"}, ordered=("a",), classes=("unique", "od", "dc"))
    without, some = (Layout(space.terms(nullable)) for nullable in ((), ("b",)))
    assert [len(one.terms.terms) for one in (without, some)] == [2, 3]
    assert [one.bits for one in (without, some)] == [4, 5], "the one that is there because others ignore NULLs"
    assert some.slots[2] == replace(some.slots[1], null=None)
    assert space.terms(("b",)).first == {"a": 0, "b": 2}


ROWS = [("Ohio", 10, 1), ("Ohio", 20, 1), ("Utah", 10, 2), ("Utah", 30, 2)]


@pytest.mark.parametrize("mode", ["counted", "witnessed"])
def test_when_what_is_constant_falls_what_goes_together_is_there_again(tmp_path: Path, mode: str) -> None:
    table = Table(tmp_path, "state salary rate", state="string")
    table.apply("1", *ROWS)
    assert "rate constant within [state]" in table.discover(mode, classes=["od"])
    assert not any(text.startswith(("rate ~ salary", "salary ~ rate")) for text in texts_of(table))
    told = table.told("2", ("Utah", 40, 3))
    (lost,) = [one for one in told.invalidated if one.text == "rate constant within [state]"]
    assert lost.violations == 2
    assert {lost.example["t"]["values"]["state"], lost.example["s"]["values"]["state"]} == {"Utah"}
    assert "rate ~ salary within [state]" in [one["text"] for one in lost.instead]
    assert "rate ~ salary within [state]" in texts_of(table)
    told = table.told("3", ("Utah", 41, 1))
    assert "rate ~ salary within [state]" in [one.text for one in told.invalidated]
    table.maintain("retract", load_id="3")
    table.maintain("retract", load_id="2")
    assert "rate constant within [state]" in texts_of(table)
    assert not any(text.startswith("rate ~ salary") for text in texts_of(table))
    assert not table.problems


def texts_of(table: Table) -> dict[str, str]:
    """The texts of what holds, with ids and formulas."""
    return {one["text"]: f"{one['id']} {one['formula']}" for one in table.listed()}


@pytest.mark.parametrize("mode", ["counted", "witnessed"])
def test_the_first_null_of_a_column_breaks_what_it_breaks_and_renames_nothing(tmp_path: Path, mode: str) -> None:
    table = Table(tmp_path, "a b c")
    table.apply("1", (1, 1, 1), (1, 1, 2), (2, 3, 3))
    table.discover(mode, classes=["fd", "od"])
    before = texts_of(table)
    assert {"b constant within [a]", "a -> b", "a ~ c", "b ~ c"} <= before.keys()
    told = table.told("2", (1, None, 4))
    after = texts_of(table)
    lost = [one.text for one in told.invalidated]
    assert "b constant within [a]" in lost, "a NULL is a value that differs"
    assert "a -> b" not in lost, "a NULL compares with nothing"
    assert "b ~ c" in lost, "it comes before all values"
    assert {text: before[text] for text in before.keys() & after.keys()} == {
        text: after[text] for text in before.keys() & after.keys()
    }
    assert table.facts["nullable"] == ["b"]
    assert not table.problems


def test_what_cannot_be_asked_for_is_told_in_a_sentence():
    with pytest.raises(RequestError, match="'descending' in the request must be true or false, not 'yes'"):
        asked_of({"space": {"descending": "yes"}})
    with pytest.raises(RequestError, match="'descending' in the request is about class 'od', which is not asked for"):
        asked_of({"space": {"descending": True}})
    assert not asked_of({"space": {"descending": False}}).descending
    assert asked_of({"classes": ["od"], "space": {"descending": True}}).descending


@pytest.mark.parametrize(
    ("nullable", "box", "sentence", "rule", "value", "nulls"),
    [
        ((), (2, 5), "Rows with the same a have the same b.", "fd", "a -> b", "ignore"),
        (
            ("b",),
            (2, 7, 5),
            "Rows with the same a have the same b. A NULL counts as a value, the first of its column.",
            "fd",
            "a -> b",
            "equal",
        ),
        ((), (1, 4), "A row with a higher a never has a lower b.", "deny", "t.a < s.a and t.b > s.b", "ignore"),
        (
            ("b",),
            (1, 7, 1),
            "A row with a higher a never has a higher b. A NULL counts as a value, the first of its column.",
            "deny",
            "t.a < s.a and t.b < s.b",
            "equal",
        ),
    ],
)
def test_an_order_dependency_is_suggested_with_the_reading_of_nulls_that_comes_nearest(
    nullable, box, sentence, rule, value, nulls
):
    terms = Space({"a": "int", "b": "int"}, classes=("fd", "od")).terms(nullable)
    worded_so = worded(terms, box, "od", ())
    assert (worded_so.sentence, worded_so.rule, worded_so.value, worded_so.nulls) == (sentence, rule, value, nulls)


def test_where_the_first_null_comes_a_rule_keeps_its_formula():
    space = Space({"a": "int", "b": "int", "c": "int"}, classes=("unique", "od"))
    before, after = space.terms(), space.terms(("a", "c"))
    for box in [(1, 2, 4), (2, 5, 7), (1, 1, 2)]:
        other = carried(before, after, "od", box)
        assert len(other) == len(after.terms)
        assert body_of(after, other) == body_of(before, box)
        assert carried(before, after, "unique", box) == (*box, 7, 7)


@pytest.mark.parametrize("mode", ["witnessed", "counted"])
def test_an_order_dependency_that_was_altered_is_named(tmp_path: Path, mode: str) -> None:
    table = Table(tmp_path, "a b c")
    table.apply("1", (1, 1, 1), (1, 2, 1), (2, 2, 3))
    table.discover(mode, classes=["fd", "od"])
    table.apply("2", (3, 1, None), (3, 1, 2))
    every = read_set(table.storage, table.snapshot)
    orders_there = [one for one in every if one.kind == "od" and one.until is None]
    assert len(orders_there) > 1
    for one in orders_there:
        with_set(table, lambda some, left_out=one.id: [other for other in some if other.id != left_out])
        assert table.problems == [f"Dependency {one.text} of class od is missing."]
        with_set(table, lambda _: every)
    wrong = replace(orders_there[0], box=(1, 4, 7, 7))
    with_set(table, lambda some: [wrong, *some])
    assert "Dependency a ~ b of class od does not follow from the patterns." in table.problems
    assert "Dependency a ~ b does not hold: 4 violations." in table.problems


def test_what_is_constant_and_pinned_is_told_once(tmp_path: Path) -> None:
    table = Table(tmp_path, "a b")
    table.apply("1", (1, 1), (1, 1), (2, None))
    table.discover(classes=["od"])
    (constant,) = [one for one in table.listed() if one["text"] == "b constant within [a]"]
    table.rules["dependencies"]["pinned"] = [{"formula": constant["formula"], "nulls": "equal"}]
    assert [one.text for one in table.told("2").watched].count("a -> b") == 1
    told = table.told("3", (2, 2))
    assert [one.text for one in told.invalidated if meaning_in(one.id) == meaning_in(constant["id"])] == ["a -> b"]


def test_an_order_that_falls_alone_counts_where_errors_are_allowed(tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.apply("first", *((one, 10 * one + two) for one in range(5) for two in ((0, 1) if one < 2 else (0, 0))))
    found = table.discover("witnessed", classes=["fd", "od"], max_error=0.2, view="merged")
    assert {"a -> b", "b constant within [a]"} <= set(found)
    told = table.told("second", (2, 21))
    assert [(one.text, one.watched) for one in told.invalidated] == [("b constant within [a]", True)]
    assert "a -> b" in [one.text for one in told.watched]
