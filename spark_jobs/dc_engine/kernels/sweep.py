"""Weighted dominance counting in two dimensions, block by block: a sweep over a Fenwick tree."""

from __future__ import annotations

import numpy as np

from dc_engine.kernels.compiling import kernel


@kernel
def dominated_weight(block: np.ndarray, rank: np.ndarray, weight: np.ndarray, is_query: np.ndarray) -> np.ndarray:
    """For each query, the weight of the entries before it in its block with a smaller ``rank``.

    Queries and entries come in one list, sorted by block and then in the order of the first dimension. The ranks of a
    block's entries count from 0.
    """
    counts = np.zeros(block.size, np.int64)
    tree = np.zeros(block.size + 1, np.int64)
    start = 0
    while start < block.size:
        end = start
        entries = 0
        while end < block.size and block[end] == block[start]:
            entries += not is_query[end]
            end += 1
        tree[: entries + 1] = 0
        for one in range(start, end):
            if is_query[one]:
                node = rank[one]
                while node > 0:
                    counts[one] += tree[node]
                    node -= node & -node
            else:
                node = rank[one] + 1
                while node <= entries:
                    tree[node] += weight[one]
                    node += node & -node
        start = end
    return counts
