"""New rows that break nothing are recognised without a look at the whole table, whatever their values are."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from random import Random
from threading import current_thread, main_thread
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.discovery import screening
from dc_engine.discovery import standing as standing_rows
from dc_engine.discovery.boxes import Box, said, widest
from dc_engine.discovery.coded import Coded, encoded
from dc_engine.discovery.coding import coding_of
from dc_engine.discovery.files import read_dependencies
from dc_engine.discovery.keeping import found
from dc_engine.discovery.known import WITNESSED, Known
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.screening import Ways, breaks_nothing
from dc_engine.discovery.space import Asked, Cross, Space, space_of
from dc_engine.discovery.standing import Standing
from dc_engine.discovery.terms import Outcome, Terms
from dc_engine.errors import ChangesError, StateError
from dc_engine.maintained import dependencies, passage
from dc_engine.maintained.standing import together
from dc_engine.maintained.stored import read_set, set_file
from dc_engine.sizes import other_sizes
from dc_engine.state.memory import Shelf
from tests.discovery.tables import Table
from tests.discovery.test_keeping import TYPES, compared, histories

NUMBERS = itertools.count()
CROSSWISE = {"cross": [["a", "b", ["="]], ["b", "a", ["="]]], "ordered": []}


def columns_of(space: Space, rows: Sequence[tuple[Any, ...]]) -> dict[str, pa.ChunkedArray]:
    kinds = [TYPES[kind][0] for kind in space.columns.values()]
    return {
        name: pa.chunked_array([pa.array([row[place] for row in rows], kinds[place])])
        for place, name in enumerate(space.columns)
    }


def coded(space: Space, rows: Sequence[tuple[Any, ...]]) -> Coded:
    return encoded(space, columns_of(space, rows), np.arange(len(rows)))


def standing(space: Space, layout: Layout, rows: Sequence[tuple[Any, ...]], *, stays: bool) -> Standing:
    coding = coding_of(space, [columns_of(space, rows)])
    codes = {name: some[0].astype(np.int32) for name, some in coding.codes.items()}
    return Standing(space, layout, len(rows), lambda: codes, coding.values, Shelf(next(NUMBERS) if stays else None))


def passes(known: Known, old: Sequence[Standing], newest: Standing, since: int) -> bool:
    """Whether the rows of the newest part from one on break nothing of what is known about the others."""
    layout = newest.layout
    return breaks_nothing(Ways(layout, widest(layout.terms, known.boxes)), old, newest, since)


def lies_in(space: Space, terms: Terms, box: Box, t: dict[str, Any], s: dict[str, Any]) -> bool:
    """Whether a pair of rows lies in a box, value by value."""
    for place in said(box):
        term = terms.terms[place]
        one, two = t[term.left], s[term.right]
        if (one is None or two is None) and not term.first and space.nulls != "equal":
            return False
        mine, other = ((value is not None, 0 if value is None else compared(value)) for value in (one, two))
        outcome = Outcome.LESS if mine < other else Outcome.EQUAL if mine == other else Outcome.GREATER
        if not outcome & box[place]:
            return False
    return True


def rows_of_codes() -> st.SearchStrategy[Any]:
    row = st.tuples(*[st.none() | st.integers(0, 3)] * 2)
    return st.tuples(st.lists(row, min_size=1, max_size=12), st.lists(row, min_size=1, max_size=6))


class TestNewRows:
    @given(
        histories(),
        st.lists(st.integers(0, 9), min_size=3, max_size=3).map(sorted),
        st.booleans(),
        st.sampled_from([0, 1, 400]),
        st.sampled_from([0, 3]),
        st.sampled_from([0, 2, 1 << 19]),
        st.sampled_from([30, 1 << 30]),
    )
    def test_they_break_something_exactly_if_a_pair_of_rows_does(
        self, history, cuts, stays, partners, first, steps, passed
    ):
        space, rows, _ = history
        one, two, old = (min(cut, len(rows)) for cut in cuts)
        if old < 2 or old == len(rows):
            return
        nullable = coded(space, rows).nullable
        known = found(space, coded(space, rows[:old]), WITNESSED, nullable)
        terms = space.terms(nullable)
        layout, parts = Layout(terms), [some for some in (rows[:one], rows[one:two]) if some]
        for_each_box = Fraction(1, 1_000_000)  # all pairs may be compared, so that it never takes too long to tell
        keys = {"_PARTNERS": partners, "_PAIRS": 4 * partners, "_FEW_PARTNERS": partners // 2}
        looked_at = {"_COMPARED": for_each_box, "_ANSWERS": first, "_PASSED": passed}
        made = {"_FIRST": first, "_MANY_TEXTS": 0, "_MOST_STEPS": steps}
        with (
            mock.patch.multiple(screening, **keys, **looked_at),
            mock.patch.multiple(standing_rows, **made),
            other_sizes(cells=2),
        ):
            there = [standing(space, layout, some, stays=stays) for some in parts]
            ends = (old + 1, len(rows), len(rows))  # a load of one row comes first, with other questions
            newest = [standing(space, layout, rows[two:end], stays=stays) for end in ends]
            answers = [passes(known, there, one, old - two) for one in newest]
        named = [dict(zip(space.columns, row, strict=True)) for row in rows]
        for end, answer in zip(ends, answers, strict=True):
            pairs = [(t, s) for t in range(old, end) for s in range(t)]
            assert answer != any(
                lies_in(space, terms, box, named[one], named[two])
                for box in known.boxes
                for t, s in pairs
                for one, two in ((t, s), (s, t))
            )

    def test_a_row_that_satisfies_a_rule_between_two_columns_with_itself_breaks_nothing(self):
        space = space_of(Asked(classes=("dc",)), {"a": "int", "b": "int"}, {})
        space = replace(space, cross=(Cross("a", "b", ("<", ">")),))
        old = [(place, place) for place in range(20)]
        known = found(space, coded(space, [*old, (30, 40)]), WITNESSED)
        layout = Layout(space.terms())
        newest = standing(space, layout, [*old, (30, 40), (50, 60)], stays=False)
        pairs = [(newest.rows - 1, other) for other in range(newest.rows - 1)]
        named = [dict(zip("ab", row, strict=True)) for row in [*old, (30, 40), (50, 60)]]
        broken = any(
            lies_in(space, layout.terms, box, named[one], named[two])
            for box in known.boxes
            for t, s in pairs
            for one, two in ((t, s), (s, t))
        )
        for partners in (0, 400):
            with mock.patch.multiple(screening, _PARTNERS=partners, _PAIRS=partners):
                assert passes(known, [], newest, newest.rows - 1) == (not broken)

    def test_a_key_is_made_of_equal_columns_and_not_of_those_that_are_equal_crosswise(self, tmp_path):
        table = Table(tmp_path, "a b c")
        rising = [(2, 0, 1), (1, 0, 1), (2, 1, 1)]
        table.apply("first", *(6 * [*rising, *((b, a, 2) for a, b, _ in rising), (4, 3, 1), (4, 3, 2)]))
        table.discover(classes=["dc"], mode="witnessed", limits={"max_terms": 3}, space=CROSSWISE)
        lost = table.told("last", (0, 2, 1)).invalidated
        assert [(one.text, one.violations) for one in lost] == [("not (t.c = s.c and t.a = s.b and t.b = s.a)", 6)]

    def test_where_all_would_have_to_be_compared_nothing_is_said(self):
        space = space_of(Asked(classes=("dc",)), {"a": "int", "b": "int"}, {})
        old = [(place, place) for place in range(50)]
        known = found(space, coded(space, old), WITNESSED)
        layout = Layout(space.terms())
        there = [standing(space, layout, old, stays=False)]
        few, many = (standing(space, layout, rows, stays=False) for rows in ([(7, 7), (70, 70)], [(70, 70), (80, 80)]))
        none = {"_PARTNERS": 0, "_PAIRS": 0, "_PASSED": 0, "_ALWAYS": 0, "_COMPARED": 1 << 40}
        with mock.patch.multiple(screening, **none):
            assert not passes(known, there, few, 0)
        assert passes(known, there, many, 0)

    def test_partners_are_looked_for_by_few_rules_at_a_time_until_there_is_one(self):
        space = space_of(Asked(classes=("dc",)), {"a": "int", "b": "int", "c": "int"}, {})
        old = [(place, -place, 2 * place) for place in range(50)]
        known = found(space, coded(space, old), WITNESSED)
        layout = Layout(space.terms())
        there = standing(space, layout, old, stays=False)
        clean, bad = (standing(space, layout, [row], stays=False) for row in ((60, -60, 120), (60, 60, 60)))
        with (
            mock.patch.multiple(screening, _PARTNERS=0, _PAIRS=0, _PASSED=0, _ANSWERS=2),
            mock.patch.object(screening, "find", side_effect=screening.find) as find,
        ):
            assert passes(known, [there], clean, 0)
            many = find.call_count
            assert not passes(known, [there], bad, 0)
        assert all(call.args[4].size <= 2 for call in find.call_args_list)
        assert find.call_count - many < many

    def test_whom_nulls_spare_takes_little_more_room_than_the_answers(self):
        space = space_of(Asked(classes=("fd",)), dict.fromkeys("abcd", "int"), {})
        chance = np.random.default_rng(0)
        ways = Ways(Layout(space.terms("abcd")), np.where(chance.random((4_000, 4)) < 0.5, 2, 7).astype(np.uint8))
        mine = np.where(chance.random((4, 1_000)) < 0.2, -1, 1)
        tracemalloc.start()
        asked = ways.asked(mine)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert most < 2 * asked.nbytes
        assert (asked == [~(mine[box] < 0).any(axis=0) for box in ways.masks < 7]).all()

    @pytest.mark.parametrize("code", [0, 1])
    def test_values_that_come_in_turns_are_known_to_be_frequent(self, code):
        rows = [(row % 2 if row % 2 == code else row, row) for row in range(2_000)]
        space = space_of(Asked(classes=("fd",)), {"a": "int", "b": "int"}, {})
        there = standing(space, Layout(space.terms()), rows, stays=False)
        with mock.patch.object(standing_rows, "_SAMPLE", 200):
            assert there.partners(0) == pytest.approx(500, rel=0.5)


class TestKeys:
    @given(rows_of_codes(), st.booleans())
    def test_rows_are_grouped_by_the_values_of_two_columns(self, rows, stays):
        space = space_of(Asked(classes=("fd",)), {"a": "int", "b": "int"}, {})
        there, others = rows
        layout = Layout(space.terms(("a", "b")))
        part, mine = (standing(space, layout, some, stays=stays) for some in (there, others))
        (order, starts), asks = part.groups((0, 1), part.places(mine, 0))
        for row, ask in zip(others, asks.tolist(), strict=True):
            same = [] if ask < 0 else order[starts[ask >> 1] : starts[(ask >> 1) + 1]].tolist()
            assert same == [place for place, one in enumerate(there) if one == row and None not in row]


class TestALoad:
    @pytest.fixture
    def looks(self, monkeypatch):
        seen = []
        whole = passage.coming_and_going
        monkeypatch.setattr(passage, "coming_and_going", lambda *given: seen.append(1) or whole(*given))
        return seen

    def test_that_breaks_nothing_needs_no_codes_of_all_rows(self, tmp_path, looks):
        table = Table(tmp_path, "a b")
        table.apply("first", *((one, one // 10) for one in range(200)))
        table.discover(classes=["unique", "fd", "od"], mode="witnessed")
        for number in range(9):
            assert not table.told(f"{number}", (300 + number, 30 + number)).invalidated
        assert not looks
        lost = table.told("last", (300, 7)).invalidated
        assert looks
        assert {one.text for one in lost} >= {"unique [a]", "a -> b"}

    def test_looks_among_the_rows_of_all_loads_before(self, tmp_path, looks):
        table = Table(tmp_path, "a b")
        table.apply("first", *((one, one // 10) for one in range(200)))
        table.discover(classes=["unique"], mode="witnessed")
        for number in range(9):
            table.apply(f"{number}", (300 + number, 1))
        assert not looks
        for number in range(9):
            with_a_twin = table.told(f"twin of {number}", (300 + number, 1))
            assert bool(with_a_twin.invalidated) == (number == 0)

    def test_that_only_deleted_brings_its_rows_back_when_it_is_taken_out(self, tmp_path):
        table = Table(tmp_path, "a b")
        table.apply("first", *((one, one // 10) for one in range(200)), (7, 7))
        table.apply("second", deletes=[(7, 7)])
        table.discover(classes=["unique"], mode="witnessed")
        table.apply("third", (300, 30))
        assert table.formulas == {("unique", "not (t.a = s.a)")}
        table.maintain("retract", load_id="second")
        assert table.formulas == {("unique", "not (t.a = s.a and t.b = s.b)")}
        assert not table.problems

    def test_breaks_a_rule_between_columns_of_few_values_beside_one_of_many(self, tmp_path):
        table, chance = Table(tmp_path, "a b many some"), Random(1)
        many = chance.sample(range(1_200), 1_200)
        rows = [(row, row, many[row], chance.randrange(2)) for row in range(1_200)]
        rows[600:602] = [(600, 601, 1_150, 1), (601, 600, 5, 0)]
        table.apply("first", *rows)
        table.discover(classes=["dc"], mode="witnessed", limits={"max_terms": 3})
        lost = table.told("last", (1_300, -5, -1, 1)).invalidated
        assert [(one.text, one.violations) for one in lost] == [
            ("not (t.a <= s.a and t.b >= s.b and t.some <= s.some)", 1_200)
        ]

    @pytest.mark.parametrize("more", [{}, {"max_error": 0.2}, {"limits": {"min_support": 2}}])
    def test_remembers_the_set_that_it_wrote_as_it_would_be_read(self, tmp_path, more):
        table = Table(tmp_path, "a b c", c="string")
        table.apply("first", *((one, one // 10, f"{one % 7}") for one in range(60)))
        table.discover(classes=["unique", "fd", "dc"], **more)
        for number in range(4):
            table.apply(f"{number}", (300 + number, number % 2, "x"), (number, 9 - number, None))
            written = read_set(table.storage, table.snapshot)
            read = read_dependencies(table.storage, set_file(table.snapshot))
            assert [*map(repr, written)] == [*map(repr, read)]


class TestBeside:
    """What is found out in a thread of its own."""

    @pytest.fixture
    def table(self, tmp_path, monkeypatch):
        monkeypatch.setattr(dependencies, "_WORTH_A_THREAD", 0)
        table = Table(tmp_path, "a b")
        table.rules["key"] = ["a"]
        table.apply("first", *((one, one // 10) for one in range(200)))
        table.discover(classes=["unique", "fd", "od"], mode="witnessed")
        return table

    def test_is_what_is_found_out_one_after_the_other(self, table, monkeypatch):
        threads = []
        look = dependencies.leaves_known
        monkeypatch.setattr(
            dependencies, "leaves_known", lambda *given: threads.append(current_thread()) or look(*given)
        )
        for number in range(5):
            assert not table.told(f"{number}", (300 + number, 30 + number)).invalidated
        assert {one.text for one in table.told("last", (310, 7)).invalidated} == {"a ~ b"}
        assert len(threads) == 6
        assert main_thread() not in threads
        assert not table.problems

    def test_goes_wrong_after_the_rules_did_and_leaves_nothing_behind(self, table, monkeypatch):
        def fails(*given):
            raise StateError("It is damaged.")

        monkeypatch.setattr(dependencies, "leaves_known", fails)
        before = {one.path for one in table.storage.files()}
        with pytest.raises(ChangesError, match="already present"):
            table.apply("twice", (7, 7))
        with pytest.raises(StateError, match=r"It is damaged\."):
            table.apply("new", (300, 30))
        assert {one.path for one in table.storage.files()} == before


class TestLaterRows:
    @given(st.lists(st.integers(0, 50), max_size=40))
    def test_are_in_few_parts_of_which_one_changes(self, sizes):
        edges = together(sizes)
        rows = [sum(sizes[first:last]) for first, last in pairwise(edges)]
        assert (edges[0], edges[-1]) == (0, len(sizes))
        assert all(one >= 2 * other for one, other in pairwise(rows))
        if sizes:
            assert edges[:-1] == together(sizes[:-1])[: len(edges) - 1]
