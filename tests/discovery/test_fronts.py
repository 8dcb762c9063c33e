"""Rows lie in a box with one of a table exactly if they do with one of its rows, compared one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.kernels.fronts import combined, meet

LESS, EQUAL, GREATER = 1, 2, 4
ADMITTED = [LESS, EQUAL, LESS | EQUAL, GREATER, LESS | GREATER, GREATER | EQUAL]
IN_ORDER = [LESS, LESS | EQUAL, GREATER, GREATER | EQUAL]


@st.composite
def tables(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Codes of a table by term, and the places of other rows' values among them; some are NULL."""
    terms, rows, others = draw(st.integers(1, 4)), draw(st.integers(1, 30)), draw(st.integers(1, 8))
    tops = draw(st.lists(st.sampled_from([0, 1, 5, 40]), min_size=terms, max_size=terms))
    codes = [draw(st.lists(st.integers(-1, top), min_size=rows, max_size=rows)) for top in tops]
    mine = [draw(st.lists(st.integers(-1, 2 * top + 2), min_size=others, max_size=others)) for top in tops]
    return np.array(codes, np.int32), np.array(mine, np.int32)


@given(tables(), st.data())
def test_what_reaches_far_enough_is_found(given, data):
    codes, mine = given
    terms = data.draw(st.permutations(range(len(codes))))
    last, rest = terms[0], terms[1:]
    first = rest.pop() if rest and data.draw(st.booleans()) else -1
    box = np.array([data.draw(st.sampled_from(ADMITTED)) for _ in codes], np.uint8)
    for place in {last, first} - {-1}:
        box[place] = data.draw(st.sampled_from(IN_ORDER))
    asked = (mine >= 0).all(axis=0) & np.array(data.draw(st.lists(st.booleans(), min_size=8, max_size=8)))[
        : mine.shape[1]
    ]
    few, tops = np.array(rest, np.int64), codes.max(axis=1, initial=0).astype(np.int64)
    found = meet(codes, tops, mine, box, asked, few, combined(codes, tops, few), first, last)
    assert found == any(
        all(_admits(box[term], int(mine[term, row]), int(codes[term, other])) for term in range(len(codes)))
        for row in np.flatnonzero(asked)
        for other in range(codes.shape[1])
    )


def _admits(admitted: int, place: int, code: int) -> bool:
    if code < 0:
        return False
    value = 2 * code + 1
    return bool(admitted & (LESS if place < value else EQUAL if place == value else GREATER))


def test_very_many_combinations_are_not_told_apart():
    codes = np.arange(3_000, dtype=np.int32)[None]
    numbers, rows = combined(codes, np.array([2_999]), np.array([0]))
    assert (len(numbers), len(rows)) == (0, 0)
