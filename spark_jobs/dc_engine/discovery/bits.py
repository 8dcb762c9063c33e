"""Rows of truth values as rows of words, and back."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

_AT_ONCE = 4_096
"""Rows that stay in the cache while they become columns; a multiple of 8."""
_MANY = 4_096
"""So many keys are worth a kernel."""


def packed(bits: np.ndarray) -> np.ndarray:
    """Rows of truth values as rows of words, the first value in the lowest bit; at least one word a row."""
    return _words(np.packbits(bits, axis=1, bitorder="little"))


def packed_columns(bits: np.ndarray) -> np.ndarray:
    """The same of the columns of truth values."""
    rows, width = bits.shape
    octets = np.zeros((width, -(-rows // 8)), np.uint8)
    for start in range(0, rows, _AT_ONCE):
        turned = np.ascontiguousarray(bits[start : start + _AT_ONCE].T)
        octets[:, start // 8 : (start + _AT_ONCE) // 8] = np.packbits(turned, axis=1, bitorder="little")
    return _words(octets)


def _words(octets: np.ndarray) -> np.ndarray:
    rows, width = octets.shape
    padded = np.zeros((rows, -(-max(width, 1) // 8) * 8), np.uint8)
    padded[:, :width] = octets
    return padded.view(np.uint64)


def unpacked(words: np.ndarray, width: int) -> np.ndarray:
    """The first truth values of rows of words."""
    bits = np.unpackbits(np.ascontiguousarray(words).view(np.uint8), axis=1, bitorder="little")
    return bits[:, :width].astype(bool)


def sets_of(words: np.ndarray, width: int) -> list[frozenset[int]]:
    """The numbers of the bits that are set in each row."""
    rows, columns = np.nonzero(unpacked(words, width))
    edges = np.searchsorted(rows, np.arange(len(words) + 1)).tolist()
    numbers = columns.tolist()
    return [frozenset(numbers[first:last]) for first, last in pairwise(edges)]


def truth_of(sets: Sequence[frozenset[int]], width: int) -> np.ndarray:
    """Sets of numbers as rows of truth values."""
    bits = np.zeros((len(sets), width), bool)
    rows = np.repeat(np.arange(len(sets)), [len(one) for one in sets])
    bits[rows, np.fromiter((number for one in sets for number in one), np.int64, len(rows))] = True
    return bits


def first_of_each(words: np.ndarray) -> np.ndarray:
    """The places of distinct rows of words, in the order of the rows' values."""
    if not len(words):
        return np.zeros(0, np.int64)
    order = np.lexsort(words.T[::-1])
    ordered = words[order]
    return order[np.concatenate([[True], (ordered[1:] != ordered[:-1]).any(axis=1)])]


def mixed(words: np.ndarray) -> np.ndarray:
    """One word for each row of words, the same for the same rows, and mostly another for others."""
    if words.shape[1] == 1:
        return words[:, 0]
    keys = np.zeros(len(words), np.uint64)
    for place in range(words.shape[1]):
        keys = (keys ^ words[:, place]) * np.uint64(0x9E3779B97F4A7C15)
        keys ^= keys >> np.uint64(32)
    return keys


def order_of(keys: np.ndarray) -> np.ndarray:
    """A stable order of keys, which are mostly spread evenly over all words: then it takes an eighth of the time."""
    if len(keys) >= _MANY:
        from dc_engine.kernels.sorting import spread_order  # numba

        if len(order := spread_order(keys)):
            return order
    return np.argsort(keys, kind="stable")


def grouped(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An order in which the same rows are neighbours, as they were among themselves; and where each of them begins."""
    if not len(words):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    keys = mixed(words)
    order = order_of(keys)
    ordered = keys[order]
    same = np.flatnonzero(ordered[1:] == ordered[:-1]) + 1
    differ = (words[order[same]] != words[order[same - 1]]).any(axis=1)
    if differ.any():  # rows that were mixed to one word
        order = np.lexsort(words.T[::-1])
        return order, np.flatnonzero(np.concatenate([[True], (words[order[1:]] != words[order[:-1]]).any(axis=1)]))
    begins = np.ones(len(words), bool)
    begins[same] = False
    return order, np.flatnonzero(begins)
