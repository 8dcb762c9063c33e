"""Sorting keys that are spread evenly over all words, as hashes are."""

from __future__ import annotations

import numpy as np

from dc_engine.kernels.compiling import kernel

_CROWD = 64
"""More keys than this in one bucket, and they are not spread evenly."""


@kernel
def spread_order(keys: np.ndarray) -> np.ndarray:
    """A stable order of some keys, of which there are several; nothing if too many of them have the same first bits.

    There are about as many buckets as keys, so that few are left to be sorted within each.
    """
    bits = 1
    while 1 << bits < keys.size:
        bits += 1
    shift = np.uint64(64 - bits)
    ends = np.zeros((1 << bits) + 1, np.int64)
    for place in range(keys.size):
        ends[np.int64(keys[place] >> shift) + 1] += 1
    if ends.max() > _CROWD:
        return np.zeros(0, np.int64)
    for bucket in range(1, ends.size):
        ends[bucket] += ends[bucket - 1]
    order = np.empty(keys.size, np.int64)
    for place in range(keys.size):
        mine = np.int64(keys[place] >> shift)
        order[ends[mine]] = place
        ends[mine] += 1
    for at in range(1, order.size):  # buckets are in order already, so that no key goes far
        place, back = order[at], at
        while back and keys[order[back - 1]] > keys[place]:
            order[back] = order[back - 1]
            back -= 1
        order[back] = place
    return order
