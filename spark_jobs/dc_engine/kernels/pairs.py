"""The patterns of many pairs of rows: how often each occurs, and the first pair that shows it.

A tile of the old rows stays in the cache while all new rows are compared with it, a block of it at a time and all terms
of a block before the next, so that the compiler can use vector instructions. Slices are taken before the loops:
indexing into the whole table inside of them would prevent that. Patterns are made of halves of words, 32 bits each,
because codes have 32 bits too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dc_engine.kernels.compiling import kernel

BLOCK = 2_048
"""Old rows that are compared with one row at a time."""
_MIX, _STIR = np.uint32(0x9E3779B1), np.uint32(0x85EBCA77)


class Marks(NamedTuple):
    """What a term adds to a half of the pattern; a term whose bits lie in two halves is here twice.

    ``low`` is added where the new row's code is not greater (or, in an unordered term, equal), ``high`` where it is
    not less, ``null`` where one of the two is NULL.
    """

    term: np.ndarray
    half: np.ndarray
    ordered: np.ndarray
    low: np.ndarray
    high: np.ndarray
    null: np.ndarray


class Work(NamedTuple):
    """Rows (first, last) to be compared with those of a tile that come after them, and how many pairs are before.

    ``visit`` numbers the pairs in the order in which they are compared, so that the first does not depend on how the
    work is shared out: a row's first pair with the tile has the number ``visit + row * step``.
    """

    first: int
    last: int
    start: int
    end: int
    visit: int
    step: int


@kernel
def _order(bits, code, others, low, high):  # type: ignore[no-untyped-def]
    none = low ^ low
    for place in range(others.size):
        value = others[place]
        bits[place] |= (low if code <= value else none) | (high if code >= value else none)


@kernel
def _equality(bits, code, others, mark):  # type: ignore[no-untyped-def]
    none = mark ^ mark
    for place in range(others.size):
        bits[place] |= mark if code == others[place] else none


@kernel
def _nulls(bits, others, mark):  # type: ignore[no-untyped-def]
    none = mark ^ mark
    for place in range(others.size):
        bits[place] |= mark if others[place] < 0 else none


@kernel
def _compare(bits, new, row, old, start, end, marks):  # type: ignore[no-untyped-def]
    """The patterns of a row with each of the old rows from start to end, half by half."""
    bits[:, : end - start] = 0
    for entry in range(marks.term.size):
        term, null = marks.term[entry], marks.null[entry]
        code = new[term, row]
        others = old[term, start:end]
        block = bits[marks.half[entry], : end - start]
        if marks.ordered[entry]:
            _order(block, code, others, marks.low[entry], marks.high[entry])
        else:
            _equality(block, code, others, marks.low[entry])
        if null and code < 0:
            block |= null
        elif null:
            _nulls(block, others, null)


@kernel
def count_direct(new, old, marks, work, bits, small, counts, visits):  # type: ignore[no-untyped-def]
    """Patterns of so few bits that each has a place in a table.

    ``visits`` gets the number of the first pair of each pattern and has -1 until there is one. Counters have one byte,
    so that most of them fit the cache. One that is 0 again has counted 256 pairs; those are added to ``counts`` when
    the pattern comes next.
    """
    for row in range(work.first, work.last):
        start = max(work.start, row + 1)
        while start < work.end:
            end = min(start + BLOCK, work.end)
            _compare(bits, new, row, old, start, end, marks)
            visit = work.visit + row * work.step + start - work.start
            block = bits[0, : end - start]
            for place in range(block.size):
                pattern = block[place]
                count = small[pattern]
                if count == 0:
                    if visits[pattern] < 0:
                        visits[pattern] = visit + place
                    else:
                        counts[pattern] += 256
                small[pattern] = np.uint8(count + 1)
            start = end


@kernel
def _slots(bits, width, slots):  # type: ignore[no-untyped-def]
    """Where the search for each pattern of a block begins, before it is cut to the size of the table."""
    mixed = slots[:width]
    mixed[:] = 0
    for half in range(bits.shape[0]):
        block = bits[half, :width]
        for place in range(width):
            one = (mixed[place] ^ block[place]) * _MIX
            mixed[place] = (one ^ (one >> np.uint32(15))) * _STIR
    for place in range(width):
        mixed[place] ^= mixed[place] >> np.uint32(13)


@kernel(inline="always")
def _find(table, visits, bits, place, slot):  # type: ignore[no-untyped-def]
    """The slot of a pattern, or the free one where it belongs; patterns are compared, not only their hashes."""
    halves = bits.shape[0]
    last = np.uint32(table.shape[0] - 1)
    slot &= last
    while True:
        same = table[slot, 0] == bits[0, place]
        for half in range(1, halves):
            same &= table[slot, half] == bits[half, place]
        if same or (table[slot, halves] == 0 and visits[slot] < 0):
            return slot
        slot = (slot + np.uint32(1)) & last


@kernel
def count_hashed(  # type: ignore[no-untyped-def]
    new, old, marks, work, row, start, bits, slots, table, counts, visits, used
):
    """Patterns of any number of halves, in a hash table whose lines are a pattern and the lower half of its count.

    It begins with a row and the place of the first old one, and stops when the table is half full: returned are how
    many slots are used, and where to go on. The upper half of a count is in ``counts``.
    """
    halves = bits.shape[0]
    while row < work.last:
        if start <= row:
            start = row + 1
        while start < work.end:
            if 2 * used > table.shape[0]:
                return used, row, start
            end = min(start + BLOCK, work.end)
            _compare(bits, new, row, old, start, end, marks)
            _slots(bits, end - start, slots)
            visit = work.visit + row * work.step + start - work.start
            for place in range(end - start):
                slot = _find(table, visits, bits, place, slots[place])
                if table[slot, halves] == 0 and visits[slot] < 0:
                    visits[slot] = visit + place
                    used += 1
                    for half in range(halves):
                        table[slot, half] = bits[half, place]
                table[slot, halves] += np.uint32(1)
                if table[slot, halves] == 0:
                    counts[slot] += 1
            start = end
        row += 1
        start = work.start
    return used, row, start


@kernel
def moved(table, counts, visits, new_table, new_counts, new_visits):  # type: ignore[no-untyped-def]
    """Put all patterns of a hash table into a larger one."""
    bits = np.zeros((table.shape[1] - 1, 1), np.uint32)
    slots = np.zeros(1, np.uint32)
    for place in range(table.shape[0]):
        if visits[place] >= 0:
            bits[:, 0] = table[place, :-1]
            _slots(bits, 1, slots)
            slot = _find(new_table, new_visits, bits, 0, slots[0])
            new_table[slot] = table[place]
            new_counts[slot] = counts[place]
            new_visits[slot] = visits[place]
