"""A k-d tree over the entries of a block list, for any conjunction of comparisons: count partners, or list them.

Every dimension carries one operator. A node knows the box and the weight of what lies below it, so a search leaves
out the boxes in which nothing can match, adds up the boxes in which everything does, and opens only the others.
"""

from __future__ import annotations

import numpy as np

from dc_engine.kernels.compiling import kernel

EQ, NE, LT, LE, GT, GE = range(6)
"""Codes of the operators: ``entry op query``."""

LEAF = 24
_BEYOND = 2**62
"""More than any two codes differ by."""


@kernel
def _holds(op: int, entry: int, query: int) -> bool:
    if op == EQ:
        return entry == query
    if op == NE:
        return entry != query
    if op == LT:
        return entry < query
    if op == LE:
        return entry <= query
    if op == GT:
        return entry > query
    return entry >= query


@kernel
def _box_holds(op: int, low: int, high: int, query: int) -> int:
    """0 when no value of the box matches, 2 when all do, 1 otherwise."""
    if op == NE:
        if low == high:
            return 0 if low == query else 2
        return 2 if query < low or query > high else 1
    if op == EQ:
        if low == high:
            return 2 if low == query else 0
        return 0 if query < low or query > high else 1
    at_low = _holds(op, low, query)
    at_high = _holds(op, high, query)
    if at_low and at_high:
        return 2
    return 1 if at_low or at_high else 0


@kernel
def _select(order: np.ndarray, values: np.ndarray, start: int, end: int, middle: int) -> None:
    """Reorder ``order[start:end]`` so that the value at ``middle`` separates the smaller from the larger ones."""
    left = start
    right = end - 1
    while left < right:
        pivot = values[order[(left + right) // 2]]
        i = left
        j = right
        while i <= j:
            while values[order[i]] < pivot:
                i += 1
            while values[order[j]] > pivot:
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if middle <= j:
            right = j
        elif middle >= i:
            left = i
        else:
            return


@kernel
def build(points: np.ndarray, weights: np.ndarray, ops: np.ndarray) -> tuple:
    """The tree over ``points`` (one row per dimension): order, node bounds, boxes and weights.

    Node ``i`` has the children ``2i + 1`` and ``2i + 2``; a node with at most ``LEAF`` entries has none. Dimensions of
    equalities are split before all others: a query then goes straight to its block.
    """
    dimensions, size = points.shape
    nodes = 1
    widest = size
    while widest > LEAF:
        widest = (widest + 1) // 2
        nodes = 2 * nodes + 1
    order = np.arange(size)
    bounds = np.zeros((nodes, 2), np.int64)
    boxes = np.zeros((nodes, dimensions, 2), np.int64)
    totals = np.zeros(nodes, np.int64)
    bounds[0, 1] = size
    for node in range(nodes):
        start = bounds[node, 0]
        end = bounds[node, 1]
        if start == end:
            continue
        split = 0
        spread = -1
        for d in range(dimensions):
            low = points[d, order[start]]
            high = low
            for i in range(start, end):
                value = points[d, order[i]]
                low = min(low, value)
                high = max(high, value)
            boxes[node, d, 0] = low
            boxes[node, d, 1] = high
            wide = high - low
            if ops[d] == EQ and wide > 0:
                wide += _BEYOND
            if wide > spread:
                spread = wide
                split = d
        for i in range(start, end):
            totals[node] += weights[order[i]]
        if end - start > LEAF:
            middle = (start + end) // 2
            _select(order, points[split], start, end, middle)
            bounds[2 * node + 1] = (start, middle)
            bounds[2 * node + 2] = (middle, end)
    return order, bounds, boxes, totals


@kernel
def _relation(boxes: np.ndarray, node: int, ops: np.ndarray, query: np.ndarray) -> int:
    least = 2
    for d in range(ops.size):
        one = _box_holds(ops[d], boxes[node, d, 0], boxes[node, d, 1], query[d])
        if one == 0:
            return 0
        least = min(least, one)
    return least


@kernel
def _matches(points: np.ndarray, entry: int, ops: np.ndarray, query: np.ndarray) -> bool:
    for d in range(ops.size):  # noqa: SIM110 (numba compiles the loop, not the generator)
        if not _holds(ops[d], points[d, entry], query[d]):
            return False
    return True


@kernel
def count_matches(
    points: np.ndarray,
    weights: np.ndarray,
    order: np.ndarray,
    bounds: np.ndarray,
    boxes: np.ndarray,
    totals: np.ndarray,
    ops: np.ndarray,
    queries: np.ndarray,
) -> np.ndarray:
    """For each query (a row), the weight of the entries that match it in every dimension."""
    counts = np.zeros(len(queries), np.int64)
    stack = np.empty(256, np.int64)
    for q in range(len(queries)):
        top = 0
        stack[0] = 0
        while top >= 0:
            node = stack[top]
            top -= 1
            start = bounds[node, 0]
            end = bounds[node, 1]
            if start == end:
                continue
            relation = _relation(boxes, node, ops, queries[q])
            if relation == 2:
                counts[q] += totals[node]
            elif relation == 1:
                if end - start <= LEAF:
                    for i in range(start, end):
                        if _matches(points, order[i], ops, queries[q]):
                            counts[q] += weights[order[i]]
                else:
                    stack[top + 1] = 2 * node + 2
                    stack[top + 2] = 2 * node + 1
                    top += 2
    return counts


@kernel
def list_matches(
    points: np.ndarray,
    order: np.ndarray,
    bounds: np.ndarray,
    boxes: np.ndarray,
    ops: np.ndarray,
    queries: np.ndarray,
    most: int,
) -> tuple:
    """For each query, up to ``most`` matching entries: two arrays, the query's number and the entry's."""
    found_query = np.empty(len(queries) * most, np.int64)
    found_entry = np.empty(len(queries) * most, np.int64)
    found = 0
    stack = np.empty(256, np.int64)
    for q in range(len(queries)):
        left = most
        top = 0
        stack[0] = 0
        while top >= 0 and left > 0:
            node = stack[top]
            top -= 1
            start = bounds[node, 0]
            end = bounds[node, 1]
            if start == end or _relation(boxes, node, ops, queries[q]) == 0:
                continue
            if end - start > LEAF:
                stack[top + 1] = 2 * node + 2
                stack[top + 2] = 2 * node + 1
                top += 2
                continue
            for i in range(start, end):
                if left > 0 and _matches(points, order[i], ops, queries[q]):
                    found_query[found] = q
                    found_entry[found] = order[i]
                    found += 1
                    left -= 1
    return found_query[:found], found_entry[:found]
