"""A partner for each of some rows that satisfies some comparisons with it, looked for in cells of similar rows."""

from __future__ import annotations

import numpy as np

from dc_engine.kernels.compiling import kernel

_LESS, _EQUAL, _GREATER, _ALL = 1, 2, 4, 7
BLOCK = 32
"""So many cells are left out together, if none of them can have a partner."""
_AT_ONCE = 64
"""So many pairs are compared together."""
_WORD = 8
"""So many flags of blocks are looked at together, as one word."""


@kernel
def count_in(cells, codes, values, counts):  # type: ignore[no-untyped-def]
    """Count the rows of each cell with each value, of which NULL is the first."""
    for row in range(cells.size):
        counts[cells[row] * values + codes[row] + 1] += 1


@kernel
def move(cells, step, codes, values, places):  # type: ignore[no-untyped-def]
    """Give each row a cell by the one that it had, times ``step``, and the place of its cell and value."""
    for row in range(cells.size):
        cells[row] = cells[row] * step + places[cells[row] * values + codes[row] + 1]


@kernel
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


@kernel
def find_ends(codes, cells, low, high):  # type: ignore[no-untyped-def]
    """Note the smallest and largest code of each cell but for NULL: row by row, because the cells fit in the cache."""
    for row in range(cells.size):
        code, cell = codes[row], cells[row]
        if code >= 0:
            low[cell] = min(low[cell], code)
            high[cell] = max(high[cell], code)


@kernel
def _narrow(codes, place, said, box, low, high, first, size, near):  # type: ignore[no-untyped-def]
    """Flag cells, from ``first`` on, in whose ranges some value may have an admitted outcome with that of a row.

    Plain loops over what lies side by side, to be vectorised.
    """
    for cell in range(size):
        near[cell] = 1
    for term in said:
        code, admitted = codes[term, place], box[term]
        equal = np.int32(1 if admitted & _EQUAL else 0)
        if admitted == _LESS | _GREATER:
            for cell in range(size):
                near[cell] &= (low[term, first + cell] != code) | (high[term, first + cell] != code)
            continue
        if not admitted & _GREATER:
            least = np.int32(code + 1 - equal)
            for cell in range(size):
                near[cell] &= high[term, first + cell] >= least
        if not admitted & _LESS:
            most = np.int32(code - 1 + equal)
            for cell in range(size):
                near[cell] &= low[term, first + cell] <= most


@kernel
def _partner(codes, place, own, others, terms, order, first, last, box, said, flags):  # type: ignore[no-untyped-def]
    """The first other row of a cell with which a row lies in a box, or -1.

    Rows are far apart in memory, so each term is looked at in several, that the machine waits for all of them at once.
    """
    while first < last:
        size, left = min(flags.size, last - first), True
        for number in range(size):
            flags[number] = order[first + number] != own
        for term in said:
            if not left:
                break
            code, line, admitted, left = codes[term, place], terms[term], box[term], False
            for number in range(size):
                value = 2 * others[line, order[first + number]] + 1
                outcome = _LESS * (code < value) + _EQUAL * (code == value) + _GREATER * (code > value)
                flags[number] &= (value >= 0) & (outcome & admitted != 0)
                left |= flags[number] != 0
        if left:
            for number in range(size):
                if flags[number]:
                    return order[first + number]
        first += size
    return -1


@kernel
def _has_values(codes, place, said):  # type: ignore[no-untyped-def]
    """Whether a row has no NULL in some terms."""
    least = 0
    for term in said:
        least = min(least, codes[term, place])
    return least >= 0


@kernel
def find_partners(codes, own, all_cells, boxes, asked, first, last, found, most):  # type: ignore[no-untyped-def]
    """For each asked row (from ``first`` to before ``last``) and box the first partner with which it lies in the box.

    ``codes`` has the places of the rows' values among those of the others, by term: 2c + 1 for the value of code c, 2c
    for one just before it, -1 for NULL; ``own`` has which of the others a row is itself, or -1. So have the cells their
    smallest and largest ones. Cells of up to ``most`` rows in all are looked at: returned are those that are left,
    below 0 when there were more.
    """
    others, terms, order, starts, low, high, least, greatest = all_cells
    count, cells = least.shape[1], starts.size - 1
    near_blocks = np.zeros((count + _WORD - 1) // _WORD * _WORD, np.uint8)
    near_words, near, flags = near_blocks.view(np.uint64), np.empty(BLOCK, np.uint8), np.empty(_AT_ONCE, np.uint8)
    for number in range(boxes.shape[0]):
        box = boxes[number]
        said = np.flatnonzero(box != _ALL)
        for place in range(first, last):
            if not asked[number, place] or found[number, place] >= 0 or not _has_values(codes, place, said):
                continue
            _narrow(codes, place, said, box, least, greatest, 0, count, near_blocks)
            block = -1
            while block + 1 < count:
                block += 1
                if not near_words[block // _WORD]:
                    block |= _WORD - 1
                if not near_blocks[block]:
                    continue
                begin, size = block * BLOCK, min(BLOCK, cells - block * BLOCK)
                _narrow(codes, place, said, box, low, high, begin, size, near)
                for cell in range(begin, begin + size):
                    if near[cell - begin] and found[number, place] < 0:
                        most -= starts[cell + 1] - starts[cell]
                        found[number, place] = _partner(
                            codes,
                            place,
                            own[place],
                            others,
                            terms,
                            order,
                            starts[cell],
                            starts[cell + 1],
                            box,
                            said,
                            flags,
                        )
                if found[number, place] >= 0 or most < 0:
                    break
            if most < 0:
                return most
    return most
