"""Rows lie in a box with one of a table exactly if they do with one of its rows, compared one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.kernels.fronts import build, combined, meet

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
    fronts, boxes = [], []
    for _ in range(data.draw(st.integers(1, 3))):
        terms = data.draw(st.permutations(range(len(codes))))
        last, rest = terms[0], terms[1:]
        first = rest.pop() if rest and data.draw(st.booleans()) else -1
        box = np.array([data.draw(st.sampled_from(ADMITTED)) for _ in codes], np.uint8)
        for place in {last, first} - {-1}:
            box[place] = data.draw(st.sampled_from(IN_ORDER))
        way = 1 if first < 0 or box[first] & GREATER else -1
        for _ in range(data.draw(st.integers(1, 2))):  # several boxes may ask for one front
            fronts.append((rest + [-1] * (4 - len(rest)), first, last, way, 1 if box[last] & LESS else -1))
            boxes.append(box.copy())
            box[rest] = data.draw(st.sampled_from(ADMITTED))
    flags = [data.draw(st.lists(st.booleans(), min_size=8, max_size=8)) for _ in boxes]
    asked = (mine >= 0).all(axis=0) & np.array(flags)[:, : mine.shape[1]]
    tops = codes.max(axis=1, initial=0).astype(np.int64)
    made_of = tuple(np.array(one, np.int64) for one in zip(*fronts, strict=True))
    built = build(codes, tops, made_of, data.draw(st.sampled_from([40, 3, 0])))
    known = built[0] >= 0
    found = meet(mine, asked, np.array(boxes), made_of, built)
    assert found == any(
        all(_admits(box[term], int(mine[term, row]), int(codes[term, other])) for term in range(len(codes)))
        for number, box in enumerate(boxes)
        if known[number]
        for row in np.flatnonzero(asked[number])
        for other in range(codes.shape[1])
    )


@given(st.integers(0, 3), st.integers(1, 3_000), st.sampled_from([1, -1]), st.sampled_from([1, -1]))
def test_of_many_steps_the_right_one_is_found(seed, rows, way, sign):
    chance = np.random.default_rng(seed)
    codes = chance.integers(-1, 2_000, (3, rows)).astype(np.int32)
    codes[0] %= 3
    mine = chance.integers(0, 4_000, (3, 40)).astype(np.int32)
    mine[0] = 2 * (mine[0] % 3) + 1
    made_of = tuple(np.array(one) for one in ([[0]], [1], [2], [way], [sign]))
    box = np.array([[EQUAL, GREATER if way > 0 else LESS | EQUAL, LESS if sign > 0 else GREATER | EQUAL]], np.uint8)
    built = build(codes, codes.max(axis=1, initial=0).astype(np.int64), made_of, 1 << 19)
    for row in range(40):
        asked = np.zeros((1, 40), bool)
        asked[0, row] = True
        two = 2 * codes + 1
        inside = (codes >= 0).all(axis=0)
        for term in range(3):
            one = mine[term, row]
            outcomes = LESS * (one < two[term]) + EQUAL * (one == two[term]) + GREATER * (one > two[term])
            inside &= outcomes & box[0, term] != 0
        assert meet(mine, asked, box, made_of, built) == inside.any()


def _admits(admitted: int, place: int, code: int) -> bool:
    if code < 0:
        return False
    value = 2 * code + 1
    return bool(admitted & (LESS if place < value else EQUAL if place == value else GREATER))


def test_very_many_combinations_are_not_told_apart():
    codes = np.arange(3_000, dtype=np.int32)[None]
    numbers, rows = combined(codes, np.array([2_999]), np.array([0]))
    assert (len(numbers), len(rows)) == (0, 0)


def test_a_front_that_cannot_be_had_leaves_those_after_it_as_they_are():
    rows = np.arange(2_000, dtype=np.int32)
    codes = np.stack([rows, rows, rows, rows % 2])
    made_of = tuple(np.array(one) for one in ([[0, -1], [3, -1]], [1, 1], [2, 2], [1, 1], [1, 1]))
    built = build(codes, codes.max(axis=1).astype(np.int64), made_of, 1 << 19)
    assert built[0].tolist() == [-1, 2]
    boxes = np.array([[EQUAL, GREATER, LESS, 7], [7, GREATER, LESS, EQUAL]], np.uint8)
    for far, meets in ((2_001, True), (7, False)):
        mine = np.array([[1], [far], [5], [1]], np.int32)
        assert meet(mine, np.array([[False], [True]]), boxes, made_of, built) == meets
