"""Rows in groups of the same value, and whether others lie in a box with one of their group."""

from __future__ import annotations

import numpy as np

from dc_engine.kernels.compiling import kernel

_LESS, _EQUAL, _GREATER, _NULL = 1, 2, 4, 8
OUTCOMES = 16
"""So many terms have their outcomes in one word: one bit for each of less, equal, greater, and that a NULL is there."""
NONE, SOME, TOO_MANY = 0, 1, 2
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
def _slot(lines, row, size):  # type: ignore[no-untyped-def]
    """Where to begin to look for the values of a row in a table of a power of two."""
    mixed = np.uint64(0)
    for line in range(lines.shape[0]):
        mixed = (mixed ^ np.uint64(lines[line, row])) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return np.int64(mixed & np.uint64(size - 1))


@kernel
def numbered(lines):  # type: ignore[no-untyped-def]
    """Number the different combinations of codes in some lines: that of each row, -1 with NULL; their table; they."""
    rows, size = lines.shape[1], 2
    while size < 2 * rows:
        size *= 2
    table, numbers, firsts, count = np.full(size, -1, np.int32), np.empty(rows, np.int32), np.empty(rows, np.int32), 0
    for row in range(rows):
        numbers[row], slot, there = -1, _slot(lines, row, size), True
        for line in range(lines.shape[0]):
            there &= lines[line, row] >= 0
        while there and numbers[row] < 0:
            known = table[slot]
            if known < 0:
                table[slot], firsts[count], known = count, row, count
                count += 1
            same = True
            for line in range(lines.shape[0]):
                same &= lines[line, firsts[known]] == lines[line, row]
            if same:
                numbers[row] = known
            slot = (slot + 1) & (size - 1)
    combinations = np.empty((lines.shape[0], count), np.int32)
    for line in range(lines.shape[0]):
        for number in range(count):
            combinations[line, number] = lines[line, firsts[number]]
    return numbers, table, combinations


@kernel
def placed(mine, table, combinations):  # type: ignore[no-untyped-def]
    """The places of rows among numbered combinations, by those of their values: 2n + 1 for number n, else -1."""
    places, codes = np.full(mine.shape[1], -1, np.int32), mine >> 1
    for row in range(mine.shape[1]):
        there, slot = True, _slot(codes, row, table.size)
        for line in range(mine.shape[0]):
            there &= mine[line, row] >= 0 and mine[line, row] & 1 == 1
        while there and table[slot] >= 0:
            known, same = table[slot], True
            for line in range(mine.shape[0]):
                same &= combinations[line, known] == codes[line, row]
            if same:
                places[row] = 2 * known + 1
                break
            slot = (slot + 1) & (table.size - 1)
    return places


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
def _compare(mine, row, near, size, places, shifts, masks, terms, outcomes):  # type: ignore[no-untyped-def]
    """Note how a row compares with some others in some terms, of each pair in the bits of few words."""
    for word in range(outcomes.shape[0]):
        for place in range(size):
            outcomes[word, place] = 0
    for number in range(terms.size):
        term, kept, bits = terms[number], number // OUTCOMES, np.uint64(4 * (number % OUTCOMES))
        one, word, shift, mask = np.int64(mine[term, row]), places[term], shifts[term], masks[term]
        for place in range(size):
            two = 2 * np.int64(near[place, word] >> shift & mask) - 1
            there = np.int64((one >= 0) & (two >= 0))
            outcome = there * (_LESS * (one < two) + _EQUAL * (one == two) + _GREATER * (one > two))
            outcomes[kept, place] |= np.uint64(outcome + _NULL * (1 - there)) << bits


@kernel
def _inside(outcomes, place, forbidden, bad):  # type: ignore[no-untyped-def]
    """Whether a pair has no outcome that some of many boxes forbids: those have nothing ``bad`` then."""
    for box in range(bad.size):
        bad[box] = outcomes[0, place] & forbidden[0, box]
    for word in range(1, forbidden.shape[0]):
        for box in range(bad.size):
            bad[box] |= outcomes[word, place] & forbidden[word, box]
    found = False
    for box in range(bad.size):
        found |= bad[box] == 0
    return found


@kernel
def _pairs(asks, starts):  # type: ignore[no-untyped-def]
    """How many rows there are in the groups of some others."""
    pairs = np.int64(0)
    for code in asks:
        if code >= 0 and code & 1 and code >> 1 < starts.size - 1:
            pairs += starts[(code >> 1) + 1] - starts[code >> 1]
    return pairs


@kernel
def meet_in_groups(mine, since, others, groups, asks, compared, forbidden, asked, known, most):  # type: ignore[no-untyped-def]
    """Whether some row lies in a box with one of its group; rows that have all values of another are noted.

    ``mine`` has the places of the values of rows among those of the others, by term: 2c + 1 for the value of code c,
    2c for one just before it, -1 for NULL. The rows may themselves be the last of the others, ``since`` a place (or
    -1): then each is held against those before it. The others are packed words, and where in these the terms are.
    ``groups`` are the others in the order of what they are grouped by and where each group begins, ``asks`` the place
    of each row there. ``compared`` are the other terms that boxes and sets speak of, ``forbidden`` has for each box,
    and then for each set of terms, what must not be (a set wants only equality). ``asked`` says for each box and row
    whether it is to be looked at, ``known`` whether a row has all values of another in the terms of a set. Of more
    pairs than ``most`` nothing is looked at.
    """
    words, fields, shifts, masks = others
    order, starts = groups
    if _pairs(asks, starts) > most:
        return TOO_MANY
    boxes, outcomes = asked.shape[0], np.empty((forbidden.shape[0], _AT_ONCE), np.uint64)
    bad = np.empty(forbidden.shape[1], np.uint64)
    near = np.empty((_AT_ONCE, words.shape[1]), np.uint64)
    for row in range(mine.shape[1]):
        code = asks[row]
        if code < 0 or not code & 1 or code >> 1 >= starts.size - 1:
            continue
        end = starts[(code >> 1) + 1]
        while since >= 0 and end > starts[code >> 1] and order[end - 1] >= since + row:
            end -= 1
        for first in range(starts[code >> 1], end, _AT_ONCE):
            size = min(_AT_ONCE, end - first)
            _fetch(words, order, first, first + size, near)
            _compare(mine, row, near, size, fields, shifts, masks, compared, outcomes)
            for place in range(size):
                if _inside(outcomes, place, forbidden, bad):
                    for box in range(boxes):
                        if bad[box] == 0 and asked[box, row]:
                            return SOME
                    for one in range(known.shape[0]):
                        known[one, row] |= bad[boxes + one] == 0
    return NONE
