"""The patterns that occur among chosen pairs of rows: each row with a range of others, in any order of the others.

A table has a place for each pattern: at its own number when patterns have few bits, else where its hash says.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dc_engine.kernels.compiling import kernel

BLOCK = 1_024
"""Rows that are compared with one row at a time."""
_FEW = 8
"""Ranges of up to so many rows are compared pair by pair: blocks would cost more to set up."""


class Slots(NamedTuple):
    """Where the bits of each term are; 0 stands for no bit for NULL."""

    ordered: np.ndarray
    word: np.ndarray
    shift: np.ndarray
    null_shift: np.ndarray


class Seen(NamedTuple):
    """Patterns by their place, and the first pair of each; -1 where there is none."""

    keys: np.ndarray
    pairs: np.ndarray
    direct: bool


@kernel
def _note(seen, words, place, row, other):  # type: ignore[no-untyped-def]
    """Note the pattern of a pair; 1 when it is new."""
    if seen.direct:
        slot = np.int64(words[0, place])
        if seen.pairs[slot, 0] >= 0:
            return 0
    else:
        last = np.uint64(seen.keys.shape[0] - 1)
        hashed = np.uint64(0)
        for word in range(words.shape[0]):
            hashed = (hashed ^ words[word, place]) * np.uint64(0x9E3779B97F4A7C15)
            hashed ^= hashed >> np.uint64(32)
        slot = np.int64(hashed & last)
        while seen.pairs[slot, 0] >= 0:
            same = True
            for word in range(words.shape[0]):
                same &= seen.keys[slot, word] == words[word, place]
            if same:
                return 0
            slot = np.int64(np.uint64(slot + 1) & last)
        for word in range(words.shape[0]):
            seen.keys[slot, word] = words[word, place]
    seen.pairs[slot, 0] = row
    seen.pairs[slot, 1] = other
    return 1


@kernel
def _one_pair(left, right, row, other, slots, words):  # type: ignore[no-untyped-def]
    """Write the pattern of one pair to the first place."""
    one = np.uint64(1)
    for word in range(words.shape[0]):
        words[word, 0] = 0
    for term in range(left.shape[0]):
        code, value = left[term, row], right[term, other]
        pattern = (one & (code == value)) << slots.shift[term]
        if slots.ordered[term]:
            pattern = (one & (code <= value)) << slots.shift[term] | (one & (code >= value)) << (
                slots.shift[term] + one
            )
        if slots.null_shift[term] > 0:
            pattern |= (one & ((code < 0) | (value < 0))) << slots.null_shift[term]
        words[slots.word[term], 0] |= pattern


@kernel
def _block(left, right, row, start, end, slots, words):  # type: ignore[no-untyped-def]
    """Write the patterns of a row with a block of others."""
    one = np.uint64(1)
    for word in range(words.shape[0]):
        words[word, : end - start] = 0
    for term in range(left.shape[0]):
        bits = words[slots.word[term], : end - start]
        others = right[term, start:end]
        code, shift, null_shift = left[term, row], slots.shift[term], slots.null_shift[term]
        if slots.ordered[term]:
            for place in range(others.size):
                value = others[place]
                bits[place] |= (one & (code <= value)) << shift | (one & (code >= value)) << (shift + one)
        else:
            for place in range(others.size):
                bits[place] |= (one & (code == others[place])) << shift
        if null_shift > 0:
            for place in range(others.size):
                bits[place] |= (one & ((code < 0) | (others[place] < 0))) << null_shift


@kernel
def scan_ranges(left, right, rows, first, last, slots, words, seen, used, number, start):  # type: ignore[no-untyped-def]
    """Note the patterns of ``rows[i]`` with the others from ``first[i]`` to before ``last[i]``.

    It begins with a range and an offset in it, and stops when the table is half full: returned are how many places
    are used, and where to go on.
    """
    while number < rows.size:
        row, end = rows[number], last[number]
        begin = first[number] + start
        while begin < end:
            if not seen.direct and 2 * (used + BLOCK) > seen.pairs.shape[0]:
                return used, number, begin - first[number]
            if end - begin <= _FEW:
                for other in range(begin, end):
                    _one_pair(left, right, row, other, slots, words)
                    used += _note(seen, words, 0, row, other)
                begin = end
            else:
                until = min(begin + BLOCK, end)
                _block(left, right, row, begin, until, slots, words)
                for place in range(until - begin):
                    used += _note(seen, words, place, row, begin + place)
                begin = until
        number += 1
        start = 0
    return used, number, 0


@kernel
def move(seen, larger):  # type: ignore[no-untyped-def]
    """Put all patterns of a table into a larger one."""
    words = np.zeros((seen.keys.shape[1], 1), np.uint64)
    for place in range(seen.pairs.shape[0]):
        if seen.pairs[place, 0] >= 0:
            for word in range(words.shape[0]):
                words[word, 0] = seen.keys[place, word]
            _note(larger, words, 0, seen.pairs[place, 0], seen.pairs[place, 1])
