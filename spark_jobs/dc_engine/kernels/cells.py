"""A partner for each of some rows that satisfies some comparisons with it, looked for in cells of similar rows."""

from __future__ import annotations

import numpy as np
from numba import njit

_LESS, _EQUAL, _GREATER, _ALL = 1, 2, 4, 7
_EIGHT = 8
"""Flags of so many cells are looked at as one word."""


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
