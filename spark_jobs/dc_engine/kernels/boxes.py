"""Which patterns lie in which boxes, where a box says of some bits what they are."""

from __future__ import annotations

import numpy as np

from dc_engine.kernels.compiling import kernel


@kernel
def _lies_in(masks, values, patterns, box, place):  # type: ignore[no-untyped-def]
    wrong = np.uint64(0)
    for word in range(patterns.shape[1]):
        wrong |= (patterns[place, word] & masks[box, word]) ^ values[box, word]
    return wrong == 0


@kernel
def inside(masks: np.ndarray, values: np.ndarray, patterns: np.ndarray) -> np.ndarray:
    """For each pattern whether it lies in some box."""
    result = np.zeros(patterns.shape[0], np.bool_)
    for place in range(patterns.shape[0]):
        for box in range(masks.shape[0]):
            if _lies_in(masks, values, patterns, box, place):
                result[place] = True
                break
    return result


@kernel
def filled(masks: np.ndarray, values: np.ndarray, patterns: np.ndarray) -> np.ndarray:
    """For each box whether some pattern lies in it."""
    result = np.zeros(masks.shape[0], np.bool_)
    for box in range(masks.shape[0]):
        for place in range(patterns.shape[0]):
            if _lies_in(masks, values, patterns, box, place):
                result[box] = True
                break
    return result
