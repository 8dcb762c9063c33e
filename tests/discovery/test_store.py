"""The store of counted patterns is a sum of runs: what a change adds to it gives what counting anew gives."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.discovery import bits, store
from dc_engine.discovery.bits import grouped, packed, packed_columns, unpacked
from dc_engine.discovery.boxes import containing, in_any, violated
from dc_engine.discovery.coded import Coded
from dc_engine.discovery.files import small_runs
from dc_engine.discovery.keeping import changed, found
from dc_engine.discovery.known import COUNTED, Known, Turnover, difference
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.space import Limits, Space
from dc_engine.discovery.store import Store, added_up
from dc_engine.errors import StateError
from dc_engine.state.files import DataFile, FileKind
from tests.discovery.test_hitting import terms_of
from tests.discovery.test_search import Box, histories, table_of

LINES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.integers(-3, 3)), max_size=12)


@st.composite
def wide_histories(draw: st.DrawFn) -> tuple[Space, Coded, list[np.ndarray]]:
    """A table of so many columns that patterns have several words, and which rows are there at each step."""
    columns, rows = draw(st.sampled_from([3, 18, 65, 130])), draw(st.integers(1, 7))
    chance = np.random.default_rng(draw(st.integers(0, 2**32)))
    least = draw(st.sampled_from([0, -1]))
    codes = {f"c{one}": chance.integers(least, 2 + one % 2, rows).astype(np.int32) for one in range(columns)}
    ordered = frozenset(draw(st.sets(st.sampled_from(sorted(codes)), max_size=3)))
    classes = ("unique", "fd") if columns > 18 else ("unique", "fd", "dc")
    limits = Limits(max_terms=1 if columns > 18 else 2)
    space = Space(dict.fromkeys(codes, "int"), ordered=ordered, classes=classes, limits=limits)
    there = draw(st.lists(st.lists(st.booleans(), min_size=rows, max_size=rows), min_size=2, max_size=4))
    return space, Coded(np.arange(rows), codes), [np.array(one) for one in there]


def sums(runs: Any) -> Counter[tuple[int, ...]]:
    total: Counter[tuple[int, ...]] = Counter()
    for run in runs:
        for pattern, pairs in zip(run.patterns.tolist(), run.pairs.tolist(), strict=True):
            total[tuple(pattern)] += pairs
    return Counter({pattern: pairs for pattern, pairs in total.items() if pairs})


def sets_of(known: Known) -> dict[str, set[Box]]:
    return {name: set(some) for name, some in known.sets.items()}


@given(wide_histories())
def test_what_changes_add_up_to_is_what_counting_anew_gives(history):
    space, rows, steps = history
    nullable = rows.nullable
    known = found(space, rows.chosen(steps[0]), COUNTED, nullable)
    for before, after in pairwise(steps):
        last, known = known, changed(space, known, Turnover(rows, before, after), COUNTED)
        again = found(space, rows.chosen(after), COUNTED, nullable)
        assert sums(known.runs) == sums(again.runs) == sums([known.store])
        assert sets_of(known) == sets_of(again)
        assert (known.bound, known.because) == (again.bound, again.because)
        assert sums([*last.runs, difference(space, last, known)]) == sums(known.runs)
        assert sums([*last.runs, difference(space, last, again)]) == sums(known.runs)


@given(LINES, LINES, st.booleans())
def test_runs_are_added_up_also_where_keys_are_the_same(one, other, alike):
    with pytest.MonkeyPatch.context() as patch:
        if alike:
            for room in (bits, store):
                patch.setattr(room, "mixed", lambda words: words[:, 0] & np.uint64(1))
        runs = []
        for lines in (one, other):
            patterns = np.array([line[:2] for line in lines], np.uint64).reshape(len(lines), 2)
            pairs, places = np.array([line[2] for line in lines], np.int64), np.arange(len(lines))
            runs.append(added_up([Store(patterns, pairs, places, places)]))
        total = added_up(runs)
        expected = Counter[tuple[int, ...]]()
        for first, second, pairs in [*one, *other]:
            expected[first, second] += pairs
        assert sums([total]) == Counter({key: pairs for key, pairs in expected.items() if pairs})
        assert len(total) == len(sums([total])), "each pattern once"
        asked = np.array([(first, second) for first in range(6) for second in range(3)], np.uint64)
        have = sums([total])
        assert total.pairs_of(asked).tolist() == [have[tuple(one)] for one in asked.tolist()]
        order, begins = grouped(asked[np.array([0, 3, 0, 5, 3, 0])])
        assert sorted(np.diff([*begins, 6]).tolist()) == [1, 2, 3]
        assert order[begins].tolist() in ([0, 1, 3], [0, 3, 1], [1, 0, 3], [1, 3, 0], [3, 0, 1], [3, 1, 0])


@given(
    st.integers(0, 2**32),
    st.sampled_from([2, 3, 64, 65, 1_000, 5_000]),
    st.sampled_from([1, 2**12, 2**64 - 1]),
    st.sampled_from([0, 5, 60]),
)
def test_keys_are_sorted_as_a_stable_sort_does_it_however_they_are_spread(seed, size, most, shift):
    keys = np.random.default_rng(seed).integers(0, most, size, np.uint64, endpoint=True) >> np.uint64(shift)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bits, "_MANY", 2)
        assert bits.order_of(keys).tolist() == np.argsort(keys, kind="stable").tolist()


@given(histories(), st.data())
def test_which_boxes_have_a_pattern_and_which_patterns_have_a_box(history, data):
    ops, rows, *_ = history
    layout = Layout(terms_of(ops, rows))
    table = table_of(layout, rows)
    t, s = (one.ravel() for one in np.meshgrid(np.arange(len(rows)), np.arange(len(rows))))
    patterns = table.patterns(t, s)
    kinds = [st.sampled_from([1, 2, 3, 4, 5, 6, 7] if one.ordered else [2, 5, 7]) for one in layout.terms.terms]
    boxes = data.draw(st.lists(st.tuples(*kinds), max_size=5))
    inside = [containing(layout, box, patterns) for box in boxes]
    assert violated(layout, boxes, patterns).tolist() == [bool(one.any()) for one in inside]
    assert in_any(layout, boxes, patterns).tolist() == [any(one[place] for one in inside) for place in range(len(t))]


@pytest.mark.parametrize("rows", [0, 1, 63, 64, 65, 4_096, 4_097, 9_000])
@pytest.mark.parametrize("width", [0, 1, 64, 130])
def test_truth_values_are_packed_by_rows_and_by_columns(rows, width):
    values = np.random.default_rng(rows).random((rows, width)) < 0.5
    assert (unpacked(packed(values), width) == values).all()
    assert (packed_columns(values) == packed(values.T)).all()


@pytest.mark.parametrize(
    ("rows", "merged"),
    [
        ([1000, 10, 10, 10], [10, 10, 10]),
        ([100, 90, 80], [80, 90, 100]),
        ([1, 1000, 2, 9000], [1, 2]),
        ([5], [5]),
        ([], []),
    ],
)
def test_large_runs_are_left_alone(rows, merged):
    files = [DataFile(str(place), FileKind.PATTERNS, "", 0, 1, "", lines) for place, lines in enumerate(rows)]
    assert [one.rows for one in small_runs(files)] == merged


def test_counts_that_are_not_those_of_the_rows_are_told_as_that():
    rows = Coded(np.arange(4), {"a": np.array([0, 0, 1, 1], np.int32), "b": np.array([0, 1, 0, 1], np.int32)})
    space = Space({"a": "int", "b": "int"}, classes=("unique",))
    others = Coded(np.arange(4), {name: np.arange(4, dtype=np.int32) for name in rows.codes})
    all_, some = np.ones(4, bool), np.array([True, True, False, False])
    known = found(space, others, COUNTED)
    with pytest.raises(StateError, match=r"not those of its rows.*Rebuild"):
        changed(space, known, Turnover(rows, all_, some))
