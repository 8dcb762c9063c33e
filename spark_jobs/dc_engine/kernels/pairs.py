"""The patterns of many pairs of rows: how often each occurs, and the first pair that shows it.

Codes are compared block by block, all terms of a block of rows before the next, so that they stay in the cache and the
compiler can use vector instructions. Slices are taken before the loops: indexing into the whole table inside of them
would prevent that.
"""

from __future__ import annotations

import numpy as np
from numba import njit

BLOCK = 2_048
"""Rows that are compared with one row at a time."""


@njit(cache=True, nogil=True, inline="always")
def _compare(bits, code, others, ordered, one, shift, null_shift):  # type: ignore[no-untyped-def]
    """Add the bits of one term to those of a block of pairs: a row's code against the codes of others."""
    if ordered:
        for place in range(others.size):
            value = others[place]
            bits[place] |= (one & (code <= value)) << shift | (one & (code >= value)) << (shift + one)
    else:
        for place in range(others.size):
            bits[place] |= (one & (code == others[place])) << shift
    if null_shift > 0:
        if code < 0:
            for place in range(others.size):
                bits[place] |= one << null_shift
        else:
            for place in range(others.size):
                bits[place] |= (one & (others[place] < 0)) << null_shift


@njit(cache=True, nogil=True)
def count_direct(  # type: ignore[no-untyped-def]
    new, old, weights, other_weights, ordered, shift, null_shift, rows, triangle, bits, counts, pairs
):
    """Patterns of so few bits that each has a place in a table: those of the rows in ``rows`` with all others.

    ``new`` and ``old`` have the codes of each term. With ``triangle`` they are the same rows, and each is compared with
    those after it. ``pairs`` gets the first pair of each pattern and has -1 until there is one.
    """
    one = shift.dtype.type(1)
    for row in range(rows[0], rows[1]):
        start = row + 1 if triangle else 0
        while start < old.shape[1]:
            end = min(start + BLOCK, old.shape[1])
            block = bits[: end - start]
            block[:] = 0
            for term in range(new.shape[0]):
                others = old[term, start:end]
                _compare(block, new[term, row], others, ordered[term], one, shift[term], null_shift[term])
            weight = weights[row]
            for place in range(block.size):
                pattern = block[place]
                if pairs[pattern, 0] < 0:
                    pairs[pattern, 0] = row
                    pairs[pattern, 1] = start + place
                counts[pattern] += weight * other_weights[start + place]
            start = end


@njit(cache=True, nogil=True)
def count_hashed(  # type: ignore[no-untyped-def]
    new,
    old,
    weights,
    other_weights,
    ordered,
    word_of,
    shift,
    null_shift,
    row,
    start,
    last,
    triangle,
    bits,
    keys,
    counts,
    pairs,
    used,
):
    """The same for patterns of any number of words, in a hash table; patterns are compared by their words.

    It begins with a row and the place of the first other one, and stops when the table is half full: returned are how
    many places are used, and where to go on.
    """
    one = np.uint64(1)
    last_slot = np.uint64(keys.shape[0] - 1)
    while row < last:
        if triangle and start <= row:
            start = row + 1
        while start < old.shape[1]:
            if 2 * used > keys.shape[0]:
                return used, row, start
            end = min(start + BLOCK, old.shape[1])
            width = end - start
            for word in range(bits.shape[0]):
                bits[word, :width] = 0
            for term in range(new.shape[0]):
                block = bits[word_of[term], :width]
                others = old[term, start:end]
                _compare(block, new[term, row], others, ordered[term], one, shift[term], null_shift[term])
            weight = weights[row]
            for place in range(width):
                slot = np.uint64(0)
                for word in range(bits.shape[0]):
                    slot = (slot ^ bits[word, place]) * np.uint64(0x9E3779B97F4A7C15)
                    slot ^= slot >> np.uint64(32)
                slot &= last_slot
                while pairs[slot, 0] >= 0:
                    same = True
                    for word in range(bits.shape[0]):
                        same &= keys[slot, word] == bits[word, place]
                    if same:
                        break
                    slot = (slot + one) & last_slot
                if pairs[slot, 0] < 0:
                    for word in range(bits.shape[0]):
                        keys[slot, word] = bits[word, place]
                    pairs[slot, 0] = row
                    pairs[slot, 1] = start + place
                    used += 1
                counts[slot] += weight * other_weights[start + place]
            start = end
        row += 1
        start = 0
    return used, row, start


@njit(cache=True, nogil=True)
def moved(keys, counts, pairs, new_keys, new_counts, new_pairs):  # type: ignore[no-untyped-def]
    """Put all patterns of a hash table into a larger one."""
    last_slot = np.uint64(new_keys.shape[0] - 1)
    for place in range(keys.shape[0]):
        if pairs[place, 0] < 0:
            continue
        slot = np.uint64(0)
        for word in range(keys.shape[1]):
            slot = (slot ^ keys[place, word]) * np.uint64(0x9E3779B97F4A7C15)
            slot ^= slot >> np.uint64(32)
        slot &= last_slot
        while new_pairs[slot, 0] >= 0:
            slot = (slot + np.uint64(1)) & last_slot
        new_keys[slot] = keys[place]
        new_counts[slot] = counts[place]
        new_pairs[slot] = pairs[place]
