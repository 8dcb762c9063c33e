"""Texts that are looked for among many others: where these are in order, or by a table of their hashes."""

from __future__ import annotations

import numpy as np

from dc_engine.kernels.compiling import kernel

_START, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)


@kernel
def _slot(data, first, last, slots):  # type: ignore[no-untyped-def]
    """Where to begin to look for a text in a table of a power of two."""
    code = _START
    for place in range(first, last):
        code = (code ^ np.uint64(data[place])) * _PRIME
    return np.int64((code ^ code >> np.uint64(32)) & np.uint64(slots - 1))


@kernel
def hashed(offsets, data, slots):  # type: ignore[no-untyped-def]
    """The number of a text in each slot of a table, or -1: each in the first free one from where looking begins."""
    table = np.full(slots, -1, np.int32)
    for number in range(offsets.size - 1):
        slot = _slot(data, offsets[number], offsets[number + 1], slots)
        while table[slot] >= 0:
            slot = (slot + 1) & (slots - 1)
        table[slot] = number
    return table


@kernel
def _same(data, first, last, other, begin, end):  # type: ignore[no-untyped-def]
    same = last - first == end - begin
    place = 0
    while same and place < last - first:
        same = data[first + place] == other[begin + place]
        place += 1
    return same


@kernel
def look_up(offsets, data, table, mine, texts):  # type: ignore[no-untyped-def]
    """The number of each of some texts in a table, or -1."""
    found = np.full(mine.size - 1, -1, np.int32)
    for number in range(mine.size - 1):
        slot = _slot(texts, mine[number], mine[number + 1], table.size)
        while table[slot] >= 0:
            known = table[slot]
            if _same(data, offsets[known], offsets[known + 1], texts, mine[number], mine[number + 1]):
                found[number] = known
                break
            slot = (slot + 1) & (table.size - 1)
    return found


@kernel
def _compared(data, first, last, other, begin, end):  # type: ignore[no-untyped-def]
    """Below 0, 0 or above as one text comes before another, is the same or comes after it, byte by byte."""
    for place in range(min(last - first, end - begin)):
        if data[first + place] != other[begin + place]:
            return np.int64(data[first + place]) - np.int64(other[begin + place])
    return (last - first) - (end - begin)


@kernel
def places_among(offsets, data, mine, texts):  # type: ignore[no-untyped-def]
    """Where texts are among others in order: 2c + 1 for the one with number c, 2c for one just before it."""
    places = np.empty(mine.size - 1, np.int64)
    for number in range(mine.size - 1):
        low, high = 0, offsets.size - 1
        while low < high:
            half = (low + high) // 2
            if _compared(data, offsets[half], offsets[half + 1], texts, mine[number], mine[number + 1]) < 0:
                low = half + 1
            else:
                high = half
        there = low < offsets.size - 1 and _same(
            data, offsets[low], offsets[low + 1], texts, mine[number], mine[number + 1]
        )
        places[number] = 2 * low + there
    return places
