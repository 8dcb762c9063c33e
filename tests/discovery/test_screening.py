"""New rows that break nothing are recognised without a look at the whole table, whatever their values are."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.discovery import screening
from dc_engine.discovery.boxes import Box, said, widest
from dc_engine.discovery.coded import Coded, encoded
from dc_engine.discovery.coding import coding_of
from dc_engine.discovery.keeping import found
from dc_engine.discovery.known import WITNESSED, Known
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.screening import Standing, breaks_nothing
from dc_engine.discovery.space import Asked, Space, space_of
from dc_engine.discovery.terms import Outcome, Terms
from dc_engine.maintained import passage
from dc_engine.maintained.standing import _halves
from dc_engine.sizes import other_sizes
from dc_engine.state.memory import Shelf
from tests.discovery.tables import Table
from tests.discovery.test_keeping import TYPES, compared, histories

NUMBERS = itertools.count()


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


def passes(known: Known, old: Sequence[Standing], rows: Sequence[tuple[Any, ...]]) -> bool:
    """Whether new rows break nothing of what is known about old ones."""
    space, layout = old[0].space, old[0].layout
    return breaks_nothing(layout, widest(layout.terms, known.boxes), old, standing(space, layout, rows, stays=False))


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


class TestNewRows:
    @given(
        histories(),
        st.integers(0, 9),
        st.integers(0, 3),
        st.booleans(),
        st.sampled_from([0, 1, 400]),
        st.sampled_from([1, 4]),
        st.sampled_from([0, 3, 1 << 16]),
        st.sampled_from([30, 1 << 30]),
    )
    def test_they_break_something_exactly_if_a_pair_of_rows_does(
        self, history, old, cut, stays, partners, first, combinations, passed
    ):
        space, rows, _ = history
        old = min(old, len(rows))
        if old < 2 or old == len(rows):
            return
        nullable = coded(space, rows).nullable
        known = found(space, coded(space, rows[:old]), WITNESSED, nullable)
        terms = space.terms(nullable)
        layout, parts = Layout(terms), [some for some in (rows[:cut], rows[cut:old]) if some]
        for_each_box = Fraction(1, 1_000_000)  # all pairs may be compared, so that it never takes too long to tell
        looked_at = {"_PARTNERS": partners, "_MOST_COMBINATIONS": combinations, "_COMPARED": for_each_box}
        small = {"_FIRST": first, "_ANSWERS": first, "_MANY_TEXTS": 0, "_ALONE": 2, "_PASSED": passed}
        with mock.patch.multiple(screening, **looked_at, **small), other_sizes(cells=2):
            there = [standing(space, layout, some, stays=stays) for some in parts]
            answers = [passes(known, there, rows[old:]) for _ in range(2)]
        named = [dict(zip(space.columns, row, strict=True)) for row in rows]
        pairs = [(t, s) for t in range(old, len(rows)) for s in range(t)]
        broken = any(
            lies_in(space, terms, box, named[one], named[two])
            for box in known.boxes
            for t, s in pairs
            for one, two in ((t, s), (s, t))
        )
        assert answers == [not broken] * 2

    def test_where_all_would_have_to_be_compared_nothing_is_said(self):
        space = space_of(Asked(classes=("dc",)), {"a": "int", "b": "int"}, {})
        old = [(place, place) for place in range(50)]
        known = found(space, coded(space, old), WITNESSED)
        layout = Layout(space.terms())
        there = [standing(space, layout, old, stays=False)]
        with mock.patch.multiple(screening, _PARTNERS=0, _MOST_COMBINATIONS=0, _FIRST=0, _COMPARED=1 << 40):
            assert not passes(known, there, [(7, 7), (70, 70)])
        assert passes(known, there, [(70, 70), (80, 80)])

    def test_partners_are_looked_for_by_few_rules_at_a_time_until_there_is_one(self):
        space = space_of(Asked(classes=("dc",)), {"a": "int", "b": "int", "c": "int"}, {})
        old = [(place, -place, 2 * place) for place in range(50)]
        known = found(space, coded(space, old), WITNESSED)
        there = standing(space, Layout(space.terms()), old, stays=False)
        with (
            mock.patch.multiple(screening, _PARTNERS=0, _MOST_COMBINATIONS=0, _ANSWERS=2),
            mock.patch.object(screening, "find", side_effect=screening.find) as find,
        ):
            assert passes(known, [there], [(60, -60, 120)])
            many = find.call_count
            assert not passes(known, [there], [(60, 60, 60)])
        assert all(call.args[3].size <= 2 for call in find.call_args_list)
        assert find.call_count - many < many

    @pytest.mark.parametrize("code", [0, 1])
    def test_values_that_come_in_turns_are_known_to_be_frequent(self, code):
        space = space_of(Asked(classes=("fd",)), {"a": "int", "b": "int"}, {})
        there = standing(space, Layout(space.terms()), [(row % 2, row) for row in range(2_000)], stays=False)
        with mock.patch.object(screening, "_SAMPLE", 200):
            assert there.partners(0, np.array([2 * code + 1] * 3)) == pytest.approx(3_000, rel=0.5)


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


class TestLaterRows:
    @given(st.integers(0, 300))
    def test_are_in_few_parts_of_which_few_change(self, count):
        edges = _halves(count)
        assert edges[0] == 0
        assert edges[-1] == count
        assert len(edges) <= 1 + count.bit_length()
        assert edges == sorted(set(edges))
