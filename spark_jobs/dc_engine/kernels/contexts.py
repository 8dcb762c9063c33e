"""Smallest sets of columns that tell rows apart, for so few columns that every set of them has a place in a table."""

from __future__ import annotations

import numpy as np

from dc_engine.kernels.compiling import kernel


@kernel
def smallest_left_sides(edges: np.ndarray, columns: int, right: int, max_columns: int) -> np.ndarray:
    """The smallest sets of columns, as bits, that have a column in common with each edge (bits as well).

    ``right`` is a column that is in no set, though it may be in edges; -1 for none. A set tells apart what differs in
    an edge unless the edge lies outside of it. So all sets that contain an edge are marked; the complements of those
    that are not, but would be with any one column more, are the smallest.
    """
    size = 1 << columns
    marked = np.zeros(size, np.uint8)
    for edge in edges:
        marked[edge] = 1
    for column in range(columns):
        _spread(marked, 1 << column)
    full = np.ones(size, np.uint8)
    for column in range(columns):
        if column != right:
            _hold_against(full, marked, 1 << column)
    found = np.empty(size, np.int64)
    number = 0
    for outside in range(size):
        if full[outside] and not marked[outside] and (right < 0 or outside >> right & 1):
            inside = size - 1 - outside
            if _bits(inside) <= max_columns:
                found[number] = inside
                number += 1
    return found[:number].copy()


@kernel
def signs(patterns: np.ndarray, words: np.ndarray, shifts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of each pattern the columns that differ, and those of them that are less, as bits; each has two bits of order."""
    wide = (words.size + 63) // 64 if words.size else 1
    differs = np.zeros((patterns.shape[0], wide), np.uint64)
    less = np.zeros((patterns.shape[0], wide), np.uint64)
    for place in range(patterns.shape[0]):
        for column in range(words.size):
            bits = patterns[place, words[column]] >> shifts[column] & np.uint64(3)
            shift = np.uint64(column & 63)
            differs[place, column >> 6] |= np.uint64(bits != 3) << shift
            less[place, column >> 6] |= np.uint64(bits == 1) << shift
    return differs, less


@kernel
def opposed(differs: np.ndarray, less: np.ndarray, one: int, other: int, same: bool) -> np.ndarray:
    """What else differs where two columns do, as bits without those of the two: a smaller number comes first.

    ``differs`` and ``less`` are bits of all columns. The two go in opposite directions, or in the ``same``.
    """
    found = np.empty(differs.size, np.int64)
    number = 0
    for place in range(differs.size):
        bits, turned = differs[place], less[place] >> one ^ less[place] >> other
        if bits >> one & bits >> other & 1 and (turned & 1 == 0) == same:
            low, high = bits & (1 << one) - 1, bits >> other + 1
            between = bits >> one + 1 & (1 << other - one - 1) - 1
            found[number] = low | between << one | high << other - 1
            number += 1
    return found[:number].copy()


@kernel
def _spread(marked, step):  # type: ignore[no-untyped-def]
    """Mark every set that is a marked one with one column more."""
    for start in range(0, marked.size, 2 * step):
        without, with_it = marked[start : start + step], marked[start + step : start + 2 * step]
        for place in range(step):
            with_it[place] |= without[place]


@kernel
def _hold_against(full, marked, step):  # type: ignore[no-untyped-def]
    """Leave only sets that are marked with one column more, or have it."""
    for start in range(0, marked.size, 2 * step):
        without, with_it = full[start : start + step], marked[start + step : start + 2 * step]
        for place in range(step):
            without[place] &= with_it[place]


@kernel
def _bits(number: int) -> int:
    count = 0
    while number:
        number &= number - 1
        count += 1
    return count
