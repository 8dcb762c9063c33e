"""A partner for each of some rows that satisfies some comparisons with it, looked for in cells of similar rows."""

from __future__ import annotations

import numpy as np
from numba import njit

_LESS, _EQUAL, _GREATER, _ALL = 1, 2, 4, 7
_EIGHT = 8
"""Flags of so many cells are looked at as one word."""


@njit(cache=True, nogil=True)
def count_in(cells, codes, values, counts):  # type: ignore[no-untyped-def]
    """Count the rows of each cell with each value, of which NULL is the first."""
    for row in range(cells.size):
        counts[cells[row] * values + codes[row] + 1] += 1


@njit(cache=True, nogil=True)
def move(cells, step, codes, values, places):  # type: ignore[no-untyped-def]
    """Give each row a cell by the one that it had, times ``step``, and the place of its cell and value."""
    for row in range(cells.size):
        cells[row] = cells[row] * step + places[cells[row] * values + codes[row] + 1]


@njit(cache=True, nogil=True)
def sorted_by(cells, count):  # type: ignore[no-untyped-def]
    """The rows in the order of their cells, and where each of ``count`` cells begins (and the last one ends)."""
    starts = np.zeros(count + 1, np.int64)
    for cell in cells:
        starts[cell + 1] += 1
    for cell in range(count):
        starts[cell + 1] += starts[cell]
    order, free = np.empty(cells.size, np.int64), starts[:-1].copy()
    for row in range(cells.size):
        order[free[cells[row]]] = row
        free[cells[row]] += 1
    return order, starts


@njit(cache=True, nogil=True)
def take(codes, order, starts, taken, low, high):  # type: ignore[no-untyped-def]
    """Put the codes of a term in the order of cells, and note the smallest and largest of each cell but for NULL."""
    for cell in range(low.size):
        least, most = np.int32(2147483647), np.int32(-1)
        for place in range(starts[cell], starts[cell + 1]):
            code = codes[order[place]]
            taken[place] = code
            if code >= 0:
                least = min(least, code)
                most = max(most, code)
        low[cell], high[cell] = least, most


@njit(cache=True, nogil=True)
def _narrow(near, code, low, high, admitted):  # type: ignore[no-untyped-def]
    """Take away cells in whose range no value has an admitted outcome with a code: plain loops, to be vectorised."""
    if admitted == _LESS | _GREATER:
        for cell in range(near.size):
            near[cell] &= (low[cell] != code) | (high[cell] != code)
        return
    if not admitted & _GREATER:
        least = code if admitted & _EQUAL else code + 1
        for cell in range(near.size):
            near[cell] &= high[cell] >= least
    if not admitted & _LESS:
        most = code if admitted & _EQUAL else code - 1
        for cell in range(near.size):
            near[cell] &= low[cell] <= most


@njit(cache=True, nogil=True)
def _partner(codes, place, others, first, last, box, said):  # type: ignore[no-untyped-def]
    """The first other row of a cell with which a row lies in a box, or -1."""
    for other in range(first, last):
        inside = True
        for term in said:
            code, value = codes[term, place], others[term, other]
            outcome = _LESS if code < value else _EQUAL if code == value else _GREATER
            if value < 0 or not outcome & box[term]:
                inside = False
                break
        if inside:
            return other
    return -1


@njit(cache=True, nogil=True)
def find_partners(codes, low, high, others, starts, boxes, asked, first, last, found, most):  # type: ignore[no-untyped-def]
    """For each asked row (from ``first`` to before ``last``) and box the first partner with which it lies in the box.

    ``codes`` has the values of the rows by term, ``low`` and ``high`` the ends of each cell, ``others`` the values of
    all other rows in the order of cells, which begin at ``starts``. -1 stands for NULL. Cells of up to ``most`` rows in
    all are looked at: returned are those that are left, below 0 when there were more.
    """
    cells = starts.size - 1
    flags = np.zeros((cells + _EIGHT - 1) // _EIGHT * _EIGHT, np.uint8)
    near, words = flags[:cells], flags.view(np.uint64)
    for number in range(boxes.shape[0]):
        box = boxes[number]
        said = np.flatnonzero(box != _ALL)
        for place in range(first, last):
            if not asked[number, place] or found[number, place] >= 0:
                continue
            near[:] = 1
            for term in said:
                if codes[term, place] < 0:
                    near[:] = 0
                _narrow(near, codes[term, place], low[term], high[term], box[term])
            for word in range(words.size):
                if words[word] == 0:
                    continue
                for cell in range(word * _EIGHT, min(word * _EIGHT + _EIGHT, cells)):
                    if near[cell] and found[number, place] < 0:
                        most -= starts[cell + 1] - starts[cell]
                        found[number, place] = _partner(codes, place, others, starts[cell], starts[cell + 1], box, said)
                if found[number, place] >= 0:
                    break
            if most < 0:
                return most
    return most
