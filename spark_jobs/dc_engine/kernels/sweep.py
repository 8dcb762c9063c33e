"""Weighted dominance counting in two dimensions, block by block: a sweep over a Fenwick tree."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def dominated_weight(
    query_block: np.ndarray,
    query_x: np.ndarray,
    query_rank: np.ndarray,
    entry_block: np.ndarray,
    entry_x: np.ndarray,
    entry_rank: np.ndarray,
    entry_weight: np.ndarray,
) -> np.ndarray:
    """For each query, the weight of the entries of its block with ``x < query_x`` and ``rank < query_rank``.

    Queries and entries come sorted by (block, x); the ranks of a block's entries count from 0.
    """
    counts = np.zeros(query_block.size, np.int64)
    tree = np.zeros(entry_block.size + 1, np.int64)
    start = 0
    query = 0
    while query < query_block.size:
        block = query_block[query]
        while start < entry_block.size and entry_block[start] < block:
            start += 1
        end = start
        while end < entry_block.size and entry_block[end] == block:
            end += 1
        size = end - start
        tree[: size + 1] = 0
        entry = start
        while query < query_block.size and query_block[query] == block:
            while entry < end and entry_x[entry] < query_x[query]:
                node = entry_rank[entry] + 1
                while node <= size:
                    tree[node] += entry_weight[entry]
                    node += node & -node
                entry += 1
            node = query_rank[query]
            total = 0
            while node > 0:
                total += tree[node]
                node -= node & -node
            counts[query] = total
            query += 1
        start = end
    return counts
