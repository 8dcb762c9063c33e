"""Weighted dominance counting in three dimensions, block by block: divide and conquer over a Fenwick tree.

In the order of x, what lies in the left half of a range is below what lies in the right half, and only y and z are left
to compare: a sweep. Swept halves are merged into the order of y, so every level of the division is one pass.
"""

from __future__ import annotations

import numpy as np

from dc_engine.kernels.compiling import kernel

LEAF = 32
"""How few queries and entries are compared pair by pair."""


@kernel
def dominated_weight(
    block: np.ndarray, y: np.ndarray, rank: np.ndarray, weight: np.ndarray, is_query: np.ndarray
) -> np.ndarray:
    """For each query, the weight of the entries before it in its block with a smaller ``y`` and ``rank``.

    Queries (whose weight is 0) and entries come in one list, sorted by block and then in the order of the first
    dimension. The ranks of a block's entries count from 0.
    """
    counts = np.zeros(block.size, np.int64)
    order = np.arange(block.size)
    merged = np.empty(block.size, np.int64)
    tree = np.zeros(block.size + 1, np.int64)
    start = 0
    while start < block.size:
        end = start
        entries = 0
        while end < block.size and block[end] == block[start]:
            entries += not is_query[end]
            end += 1
        for low in range(start, end, LEAF):
            _compare_all(order[low : min(low + LEAF, end)], y, rank, weight, is_query, counts)
        width = LEAF
        while width < end - start:
            for low in range(start, end - width, 2 * width):
                middle = low + width
                high = min(middle + width, end)
                left, right = order[low:middle], order[middle:high]
                _sweep(left, right, y, rank, weight, is_query, tree[: entries + 1], counts)
                _merge(left, right, y, merged[low:high])
                order[low:high] = merged[low:high]
            width *= 2
        start = end
    return counts


@kernel
def _compare_all(
    items: np.ndarray,
    y: np.ndarray,
    rank: np.ndarray,
    weight: np.ndarray,
    is_query: np.ndarray,
    counts: np.ndarray,
) -> None:
    """Compare the items of a leaf pair by pair, and bring them into the order of y."""
    for place in range(items.size):
        one = items[place]
        if is_query[one]:
            for other in range(items[0], one):
                if y[other] < y[one] and rank[other] < rank[one]:
                    counts[one] += weight[other]
    for place in range(1, items.size):
        one = items[place]
        before = place - 1
        while before >= 0 and y[items[before]] > y[one]:
            items[before + 1] = items[before]
            before -= 1
        items[before + 1] = one


@kernel
def _sweep(
    left: np.ndarray,
    right: np.ndarray,
    y: np.ndarray,
    rank: np.ndarray,
    weight: np.ndarray,
    is_query: np.ndarray,
    tree: np.ndarray,
    counts: np.ndarray,
) -> None:
    """Add the weights of the entries on the left to the queries on the right; both are in the order of y."""
    added = 0
    for query in right:
        if not is_query[query]:
            continue
        while added < left.size and y[left[added]] < y[query]:
            _add(tree, rank[left[added]], weight[left[added]])
            added += 1
        if added:
            node = rank[query]
            while node > 0:
                counts[query] += tree[node]
                node -= node & -node
    for place in range(added):
        _add(tree, rank[left[place]], -weight[left[place]])


@kernel
def _add(tree: np.ndarray, rank: int, weight: int) -> None:
    if weight:
        node = rank + 1
        while node < tree.size:
            tree[node] += weight
            node += node & -node


@kernel
def _merge(left: np.ndarray, right: np.ndarray, y: np.ndarray, merged: np.ndarray) -> None:
    i = 0
    j = 0
    for place in range(merged.size):
        if j == right.size or (i < left.size and y[left[i]] <= y[right[j]]):
            merged[place] = left[i]
            i += 1
        else:
            merged[place] = right[j]
            j += 1
