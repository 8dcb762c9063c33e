"""Whether some rows lie in a box with a row of a table: all rows are passed over once for each box, however many ask.

For each combination of values that the table has in the columns of few values, and for each value that is asked about
in one column more, it is noted how far a last column reaches among the rows that go together with these.
"""

from __future__ import annotations

import numpy as np

from dc_engine.kernels.compiling import kernel

_LESS, _EQUAL, _GREATER = 1, 2, 4
_NOWHERE = np.int32(-(2**31))
_MOST = 1_024
"""So many combinations are told apart."""


@kernel
def combined(codes, tops, terms):  # type: ignore[no-untyped-def]
    """The number of each row's combination of values in some terms, -1 for NULL; and a row with each combination.

    There are none of these if they would be too many.
    """
    strides, size = np.empty(terms.size, np.int64), np.int64(1)
    for number in range(terms.size):
        strides[number] = size
        size *= tops[terms[number]] + 1
    numbers, seen, count = np.full(size, -1, np.int16), np.zeros(_MOST, np.int64), 0
    combinations = np.empty(codes.shape[1], np.int16)
    for row in range(codes.shape[1]):
        place, least = np.int64(0), np.int64(0)
        for number in range(terms.size):
            code = np.int64(codes[terms[number], row])
            least = min(least, code)
            place += code * strides[number]
        if least < 0:
            combinations[row] = -1
            continue
        if numbers[place] < 0:
            if count == _MOST:
                return combinations[:0], seen[:0]
            numbers[place] = count
            seen[count] = row
            count += 1
        combinations[row] = numbers[place]
    return combinations, seen[:count]


@kernel
def _steps(values, top, admitted):  # type: ignore[no-untyped-def]
    """For each code the first of some places, in order, from which on all are admitted with it.

    If smaller places are admitted instead of larger ones, places are counted from the other end.
    """
    steps, passed = np.empty(top + 1, np.int32), 0
    equal = admitted & _EQUAL != 0
    for code in range(top + 1):
        place = 2 * code + 1
        if admitted & _GREATER:
            while passed < values.size and (values[passed] < place or (values[passed] == place and not equal)):
                passed += 1
            steps[code] = passed
        else:
            while passed < values.size and (values[passed] < place or (values[passed] == place and equal)):
                passed += 1
            steps[code] = values.size - passed
    return steps


@kernel
def _reached(combinations, firsts, steps, lasts, sign, far):  # type: ignore[no-untyped-def]
    """Note, for each step and combination, the furthest last place among all rows up to it."""
    for row in range(combinations.size):
        combination, code, step = combinations[row], lasts[row], 0
        if firsts.size:
            step = -1 if firsts[row] < 0 else steps[firsts[row]]
        if combination >= 0 and code >= 0 and 0 <= step < far.shape[0]:
            far[step, combination] = max(far[step, combination], sign * (2 * code + 1))
    for step in range(1, far.shape[0]):
        for combination in range(far.shape[1]):
            far[step, combination] = max(far[step, combination], far[step - 1, combination])


@kernel
def _alike(mine, rows, terms, tops):  # type: ignore[no-untyped-def]
    """The numbers of the combinations of places that rows have in some terms, and a row with each."""
    keys = np.zeros(rows.size, np.int64)
    for term in terms:
        for number in range(rows.size):
            keys[number] = keys[number] * (2 * tops[term] + 3) + mine[term, rows[number]]
    values = np.unique(keys)
    numbers, some = np.searchsorted(values, keys), np.empty(values.size, np.int64)
    for number in range(rows.size):
        some[numbers[number]] = rows[number]
    return numbers, some


@kernel
def _going_together(mine, rows, codes, others, terms, box):  # type: ignore[no-untyped-def]
    """Which rows have admitted outcomes with which others in some terms."""
    result = np.ones((rows.size, others.size), np.uint8)
    for term in terms:
        for number in range(rows.size):
            one = np.int64(mine[term, rows[number]])
            for other in range(others.size):
                two = 2 * np.int64(codes[term, others[other]]) + 1
                outcome = _LESS * (one < two) + _EQUAL * (one == two) + _GREATER * (one > two)
                result[number, other] &= outcome & box[term] != 0
    return result


@kernel
def meet(codes, tops, mine, box, asked, terms, groups, first, last):  # type: ignore[no-untyped-def]
    """Whether an asked row lies in a box with one of the others.

    ``codes`` are those of the others by term, ``tops`` the largest of these, ``mine`` the places of the rows' values
    among them (2c + 1 for the value of code c, 2c for one just before it). The box compares the terms of few values,
    in which the others are ``combined``, one by order as the ``first`` (or -1), and one by order as the ``last``.
    """
    (combinations, seen), rows, firsts = groups, np.flatnonzero(asked), codes[max(first, 0)]
    values = np.unique(mine[max(first, 0)][rows]) if first >= 0 else np.zeros(1, np.int32)
    steps = _steps(values, tops[max(first, 0)], box[max(first, 0)])
    sign = np.int32(1 if box[last] & _LESS else -1)
    far = np.full((values.size, seen.size), _NOWHERE, np.int32)
    _reached(combinations, firsts if first >= 0 else firsts[:0], steps, codes[last], sign, far)
    numbers, some = _alike(mine, rows, terms, tops)
    together = _going_together(mine, some, codes, seen, terms, box)
    for place in range(rows.size):
        row, step = rows[place], np.int64(0)
        if first >= 0:
            step = np.searchsorted(values, mine[first, row])
            step = step if box[first] & _GREATER else values.size - 1 - step
        least, found = sign * mine[last, row] + (0 if box[last] & _EQUAL else 1), np.uint8(0)
        for one in range(seen.size):
            found |= together[numbers[place], one] & (far[step, one] >= least)
        if found:
            return True
    return False
