"""Rows in groups of the same value, and whether others lie in a box with one of their group."""

from __future__ import annotations

import numpy as np

from dc_engine.kernels.compiling import kernel

_LESS, _EQUAL, _GREATER = 1, 2, 4
_AT_ONCE = 64
"""So many pairs are compared together."""


@kernel
def grouped(codes, values):  # type: ignore[no-untyped-def]
    """The rows by their codes, which are below ``values``, and where each group begins; NULLs, below 0, are in none."""
    starts = np.zeros(values + 2, np.int32)
    for code in codes:
        if code >= 0:
            starts[code + 2] += 1
    for value in range(values):
        starts[value + 2] += starts[value + 1]
    order = np.empty(starts[values + 1], np.int32)
    for row in range(codes.size):
        code = codes[row]
        if code >= 0:
            order[starts[code + 1]] = row
            starts[code + 1] += 1
    return order, starts[: values + 1]


@kernel
def pack(lines, places, shifts, words):  # type: ignore[no-untyped-def]
    """Put the codes of each row side by side, each with one more than it is into bits of a word of its own."""
    for row in range(lines.shape[1]):
        for term in range(lines.shape[0]):
            words[row, places[term]] |= np.uint64(lines[term, row] + 1) << shifts[term]


@kernel
def _fetch(words, order, first, last, near):  # type: ignore[no-untyped-def]
    """Copy rows that are far apart, nothing else in between, so that the machine waits for all of them at once."""
    for place in range(last - first):
        row = order[first + place]
        for word in range(words.shape[1]):
            near[place, word] = words[row, word]


@kernel
def _agreeing(mine, row, near, size, places, shifts, masks, same):  # type: ignore[no-untyped-def]
    """Keep those rows that agree with one in some terms: returns how many there are."""
    kept = 0
    for place in range(size):
        agrees = True
        for term in same:
            code = np.int64(near[place, places[term]] >> shifts[term] & masks[term])
            agrees &= 2 * code - 1 == mine[term, row]
        near[kept] = near[place]
        kept += agrees
    return kept


@kernel
def _compare(mine, row, near, size, places, shifts, masks, terms, outcomes):  # type: ignore[no-untyped-def]
    """Note how a row compares with some others in some terms."""
    for term in terms:
        one, word, shift, mask = np.int64(mine[term, row]), places[term], shifts[term], masks[term]
        for place in range(size):
            two = 2 * np.int64(near[place, word] >> shift & mask) - 1
            outcome = _LESS * (one < two) + _EQUAL * (one == two) + _GREATER * (one > two)
            outcomes[term, place] = outcome * ((one >= 0) & (two >= 0))


@kernel
def _some_inside(outcomes, size, places, admitted, first, last, flags):  # type: ignore[no-untyped-def]
    """Whether one of some pairs lies in a box, which is a part of a list of terms with what is admitted there."""
    for place in range(size):
        flags[place] = 1
    for number in range(first, last):
        term, mask = places[number], admitted[number]
        for place in range(size):
            flags[place] &= outcomes[term, place] & mask != 0
    found = np.uint8(0)
    for place in range(size):
        found |= flags[place]
    return found != 0


@kernel
def meet_in_groups(mine, others, groups, terms, boxes, sets, asked, known):  # type: ignore[no-untyped-def]
    """Whether some row lies in a box with one of its group; rows that have all values of another are noted.

    ``mine`` has the places of the values of rows among those of the others, by term: 2c + 1 for the value of code c,
    2c for one just before it, -1 for NULL. The others are packed words, and where in these the terms are. ``groups`` is
    the term by whose values they are grouped, their order and where each group begins; ``terms`` are those on which all
    boxes and sets ask for equality, and those that they speak of. Boxes, and sets of terms, are lists of terms with
    what is admitted, and where each begins. ``asked`` says for each box and row whether it is to be looked at,
    ``known`` for each set whether a row has all values of another in its terms.
    """
    words, fields, shifts, masks = others
    key, order, starts = groups
    same, compared = terms
    box_places, box_admits, box_ends = boxes
    set_places, set_admits, set_ends = sets
    outcomes = np.zeros((mine.shape[0], _AT_ONCE), np.uint8)
    near, flags = np.empty((_AT_ONCE, words.shape[1]), np.uint64), np.empty(_AT_ONCE, np.uint8)
    for row in range(mine.shape[1]):
        code = mine[key, row]
        if code < 0 or not code & 1 or code >> 1 >= starts.size - 1:
            continue
        end = starts[(code >> 1) + 1]
        for first in range(starts[code >> 1], end, _AT_ONCE):
            size = min(_AT_ONCE, end - first)
            _fetch(words, order, first, first + size, near)
            if same.size:
                size = _agreeing(mine, row, near, size, fields, shifts, masks, same)
                if not size:
                    continue
            _compare(mine, row, near, size, fields, shifts, masks, compared, outcomes)
            for box in range(box_ends.size - 1):
                ends = box_ends[box], box_ends[box + 1]
                if asked[box, row] and _some_inside(outcomes, size, box_places, box_admits, *ends, flags):
                    return True
            for one in range(set_ends.size - 1):
                ends = set_ends[one], set_ends[one + 1]
                if not known[one, row]:
                    known[one, row] = _some_inside(outcomes, size, set_places, set_admits, *ends, flags)
    return False
