"""Weighted dominance counting in two dimensions with numpy alone, for processes that have not imported numba.

It takes a few passes over the arrays for each bit of a rank. Up to a million rows that is done before numba would be
imported, let alone have compiled its sweep (``kernels/sweep.py``), which is many times as fast.
"""

from __future__ import annotations

import numpy as np


def dominated_weight(block: np.ndarray, rank: np.ndarray, weight: np.ndarray, is_query: np.ndarray) -> np.ndarray:
    """For each query, the weight of the entries before it in its block with a smaller ``rank``.

    Queries and entries come in one list, sorted by block and then in the order of the first dimension. The ranks of a
    block's entries count from 0.
    """
    entries, queries = np.flatnonzero(~is_query), np.flatnonzero(is_query)
    # entries of earlier blocks come first; with smaller ranks as well they count for everyone, and are taken off again
    earlier = np.searchsorted(block[entries], block)
    ranks = earlier + rank
    before = np.cumsum(~is_query)
    sums = _summed(weight[entries])
    counts = np.zeros(len(block), np.int64)
    counts[queries] = _weights(ranks[entries], weight[entries], before[queries], ranks[queries])
    counts[queries] -= sums[earlier[queries]]
    return counts


def _weights(ranks: np.ndarray, weights: np.ndarray, reach: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """For each query, the weight of the first ``reach`` entries that have a rank below ``limit``.

    The ranks are all numbers from 0 on. Entries are divided by the bits of their ranks, the highest first, and keep
    their order within each part. A query follows the part that its limit lies in: when that is the upper half, all of
    the lower half within its reach counts.
    """
    total, start = np.zeros(len(limit), np.int64), np.zeros(len(limit), np.int64)
    for bit in reversed(range(len(ranks).bit_length())):
        half = 1 << bit
        is_low = ranks & half == 0
        lows, sums = _summed(is_low), _summed(np.where(is_low, weights, 0))
        mine, above = lows[reach] - lows[start], limit & half != 0
        total += np.where(above, sums[reach] - sums[start], 0)
        reach = np.where(above, reach + half - mine, start + mine)
        start = np.where(above, start + half, start)
        part = ranks >> bit + 1 << bit + 1  # a part starts at its lowest rank, because no rank is missing
        own = lows[:-1] - lows[part]
        order = np.empty(len(ranks), np.int64)
        order[np.where(is_low, part + own, np.arange(len(ranks)) + half - own)] = np.arange(len(ranks))
        ranks, weights = ranks[order], weights[order]
    return total


def _summed(numbers: np.ndarray) -> np.ndarray:
    """The sums of the first numbers: of none, of one, and so on."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(numbers, dtype=np.int64)])
