"""A scan finds the pattern of every pair of rows, counts it, and shows a pair that has it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.discovery import scan as scanning
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.scan import Counted, merged, rows_of, scan
from dc_engine.discovery.terms import EQUALITY, SIX, Term, Terms

Row = tuple[int, ...]


def layout_of(columns: int, nullable: bool, cross: bool) -> Layout:
    names = [f"c{place}" for place in range(columns)]
    terms = [Term(one, one, SIX if place % 2 else EQUALITY, bool(place % 2)) for place, one in enumerate(names)]
    if cross and columns > 1:
        terms += [Term("c0", "c1", SIX, True), Term("c1", "c0", (), True)]
    return Layout(Terms(tuple(terms), frozenset(names) if nullable else frozenset()))


def expected(layout: Layout, pairs: list[tuple[Row, Row]]) -> Counter[tuple[int, ...]]:
    """Each pair by itself, in plain Python: the bits of its pattern one after the other."""
    found: Counter[tuple[int, ...]] = Counter()
    for t, s in pairs:
        found[min(pattern(layout, t, s), pattern(layout, s, t))] += 1
    return found


def pattern(layout: Layout, t: Row, s: Row) -> tuple[int, ...]:
    words = [0] * layout.words
    for term, slot in zip(layout.terms.terms, layout.slots, strict=True):
        a, b = t[int(term.left[1:])], s[int(term.right[1:])]
        bits = ((a <= b) | (a >= b) << 1) if term.ordered else int(a == b)
        words[slot.word] |= bits << slot.shift
        if slot.null is not None:
            words[slot.word] |= (a < 0 or b < 0) << slot.null
    return tuple(words)


def counts(found: Counted) -> dict[tuple[int, ...], int]:
    return {tuple(map(int, one)): int(pairs) for one, pairs in zip(found.patterns, found.pairs, strict=True)}


def codes(rows: list[Row], columns: int) -> dict[str, np.ndarray]:
    return {f"c{place}": np.array([row[place] for row in rows], np.int64) for place in range(columns)}


@st.composite
def cases(draw: st.DrawFn) -> tuple[Layout, int, list[Row], list[Row]]:
    columns = draw(st.sampled_from([1, 2, 5, 12, 60]))
    nullable, cross = draw(st.booleans()), draw(st.booleans())
    cells = st.integers(-1 if nullable else 0, 2)
    rows = st.lists(st.tuples(*[cells] * columns), max_size=7)
    return layout_of(columns, nullable, cross), columns, draw(rows), draw(rows)


@given(cases(), st.booleans())
def test_pairs_of_new_rows_with_old_ones_and_with_each_other(case, roomy):
    layout, columns, new, old = case
    both = [*new, *old]
    rows = rows_of(layout, codes(both, columns))
    for first in (len(new), None):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(scanning, "_DIRECT_ROOM", 1 << 22 if roomy else 1)
            found = scan(layout, rows, first)
        ones = both[:first]
        pairs = [(t, s) for place, t in enumerate(ones) for s in both[place + 1 :]]
        assert counts(found) == expected(layout, pairs)
        for one, t, s in zip(found.patterns, found.t, found.s, strict=True):
            ways = (pattern(layout, both[t], both[s]), pattern(layout, both[s], both[t]))
            assert tuple(map(int, one)) == min(ways), "the pair shows it, one way or the other"
            assert t < len(ones), "t is a new row"


@pytest.mark.parametrize(("columns", "size", "new"), [(6, 3_000, 3_000), (6, 3_000, 1_700), (14, 1_200, 1_200)])
def test_many_rows_in_several_threads_and_tables_that_grow(columns, size, new, monkeypatch):
    monkeypatch.setattr("dc_engine.discovery.scan._FEW_PAIRS", 0)
    layout = layout_of(columns, nullable=True, cross=True)
    chance = np.random.default_rng(5)
    table = {f"c{place}": chance.integers(-1, 4, size) for place in range(columns)}
    rows = rows_of(layout, table)
    found = scan(layout, rows, new, threads=3)
    t, s = np.triu_indices(size, 1)
    t, s = t[t < new], s[t < new]
    assert found.pairs.sum() == len(t)
    terms = layout.terms.terms
    packed = layout.canonical(
        layout.pack([table[one.left][t] for one in terms], [table[one.right][s] for one in terms])
    )
    words = {str(place): packed[:, place] for place in range(packed.shape[1])}
    distinct = pa.table(words).group_by([*words]).aggregate([([], "count_all")])
    distinct = distinct.sort_by([(word, "ascending") for word in words])
    assert (found.patterns == np.stack([distinct[word] for word in words], axis=1)).all()
    assert (found.pairs == distinct["count_all"].to_numpy()).all()


def test_counts_of_parts_add_up_and_patterns_that_cancel_stay_with_none():
    layout = layout_of(1, nullable=False, cross=False)
    one = Counted(np.array([[1]], np.uint64), np.array([3]), np.array([7]), np.array([9]))
    gone = Counted(np.array([[1]], np.uint64), np.array([-3]), np.array([4]), np.array([5]))
    both: Any = merged(layout, [one, gone])
    assert (both.pairs.tolist(), both.t.tolist(), both.s.tolist()) == ([0], [4], [5])
