"""Questions about many sets of literals at once: which of them miss a point, which have needless literals."""

from __future__ import annotations

import numpy as np

from dc_engine.kernels.compiling import kernel
from dc_engine.kernels.packing import Whole

_ONE = np.uint64(1)


@kernel
def missing(sets: np.ndarray, points: np.ndarray) -> np.ndarray:
    """For each set whether it has nothing in common with some point; both are rows of words."""
    result = np.zeros(sets.shape[0], np.bool_)
    for number in range(sets.shape[0]):
        for point in range(points.shape[0]):
            common = np.uint64(0)
            for word in range(sets.shape[1]):
                common |= sets[number, word] & points[point, word]
            if not common:
                result[number] = True
                break
    return result


@kernel
def hit_once(sets: np.ndarray, points: np.ndarray) -> np.ndarray:
    """For each set whether it has exactly one literal in common with some point."""
    result = np.zeros(sets.shape[0], np.bool_)
    for number in range(sets.shape[0]):
        for point in range(points.shape[0]):
            some, more = False, False
            for word in range(sets.shape[1]):
                common = sets[number, word] & points[point, word]
                more |= common & (common - _ONE) != 0 or (some and common != 0)
                some |= common != 0
            if some and not more:
                result[number] = True
                break
    return result


@kernel
def needed(whole: Whole, sets: np.ndarray) -> np.ndarray:
    """For each set whether each of its literals is the only one to hit some point where it is vital."""
    words = whole.hit.shape[1]
    once, twice = np.zeros(words, np.uint64), np.zeros(words, np.uint64)
    result = np.ones(sets.shape[0], np.bool_)
    for number in range(sets.shape[0]):
        once[:] = 0
        twice[:] = 0
        for literal in range(whole.hit.shape[0]):
            if (sets[number, literal >> 6] >> np.uint64(literal & 63)) & _ONE:
                mine = whole.hit[literal]
                for word in range(words):
                    twice[word] |= once[word] & mine[word]
                    once[word] |= mine[word]
        for literal in range(whole.hit.shape[0]):
            chosen = (sets[number, literal >> 6] >> np.uint64(literal & 63)) & _ONE
            if chosen and not _any_left(whole.vital[literal], twice):
                result[number] = False
                break
    return result


@kernel
def _any_left(points: np.ndarray, without: np.ndarray) -> bool:
    left = np.uint64(0)
    for word in range(points.size):
        left |= points[word] & ~without[word]
    return left != 0
