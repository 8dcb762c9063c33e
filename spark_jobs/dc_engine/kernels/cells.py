"""A partner for each of some rows that satisfies some comparisons with it, looked for in cells of similar rows."""

from __future__ import annotations

import numpy as np
from numba import njit

_LESS, _EQUAL, _GREATER, _ALL = 1, 2, 4, 7
_BLOCK = 32
"""So many cells are left out together, if none of them can have a partner."""


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
def find_ends(codes, cells, low, high):  # type: ignore[no-untyped-def]
    """Note the smallest and largest code of each cell but for NULL: row by row, because the cells fit in the cache."""
    for row in range(cells.size):
        code, cell = codes[row], cells[row]
        if code >= 0:
            low[cell] = min(low[cell], code)
            high[cell] = max(high[cell], code)


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
def _partner(codes, place, others, terms, order, first, last, box, said):  # type: ignore[no-untyped-def]
    """The first other row of a cell with which a row lies in a box, or -1."""
    for number in range(first, last):
        other, inside = order[number], True
        for term in said:
            code, value = codes[term, place], others[terms[term], other]
            outcome = _LESS if code < value else _EQUAL if code == value else _GREATER
            if value < 0 or not outcome & box[term]:
                inside = False
                break
        if inside:
            return other
    return -1


@njit(cache=True, nogil=True)
def _blocks(low, high):  # type: ignore[no-untyped-def]
    """The smallest and largest code of each term in each block of cells."""
    terms, cells = low.shape
    count = (cells + _BLOCK - 1) // _BLOCK
    least, most = np.empty((terms, count), np.int32), np.empty((terms, count), np.int32)
    for term in range(terms):
        for block in range(count):
            least[term, block] = low[term, block * _BLOCK : (block + 1) * _BLOCK].min()
            most[term, block] = high[term, block * _BLOCK : (block + 1) * _BLOCK].max()
    return least, most


@njit(cache=True, nogil=True)
def find_partners(codes, all_cells, boxes, asked, first, last, found, most):  # type: ignore[no-untyped-def]
    """For each asked row (from ``first`` to before ``last``) and box the first partner with which it lies in the box.

    ``codes`` has the values of the rows by term, -1 for NULL. Cells of up to ``most`` rows in all are looked at:
    returned are those that are left, below 0 when there were more.
    """
    others, terms, order, starts, low, high = all_cells
    least, greatest = _blocks(low, high)
    near_blocks, near_cells = np.empty(least.shape[1], np.uint8), np.empty(_BLOCK, np.uint8)
    for number in range(boxes.shape[0]):
        box = boxes[number]
        said = np.flatnonzero(box != _ALL)
        for place in range(first, last):
            if not asked[number, place] or found[number, place] >= 0:
                continue
            near_blocks[:] = 1
            for term in said:
                if codes[term, place] < 0:
                    near_blocks[:] = 0
                _narrow(near_blocks, codes[term, place], least[term], greatest[term], box[term])
            for block in np.flatnonzero(near_blocks):
                begin, end = block * _BLOCK, min(block * _BLOCK + _BLOCK, starts.size - 1)
                near = near_cells[: end - begin]
                near[:] = 1
                for term in said:
                    _narrow(near, codes[term, place], low[term, begin:end], high[term, begin:end], box[term])
                for cell in range(begin, end):
                    if near[cell - begin] and found[number, place] < 0:
                        most -= starts[cell + 1] - starts[cell]
                        found[number, place] = _partner(
                            codes, place, others, terms, order, starts[cell], starts[cell + 1], box, said
                        )
                if found[number, place] >= 0 or most < 0:
                    break
            if most < 0:
                return most
    return most
