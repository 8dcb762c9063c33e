"""The fewest rows without which a dependency holds, class by class; see ``kernels/partitions`` for classes."""

from __future__ import annotations

import numpy as np

from dc_engine.kernels.compiling import kernel


@kernel
def minorities(order, starts, codes, values, most):  # type: ignore[no-untyped-def]
    """The rows of each class but those with its most frequent code; it is stopped when they are more than so many."""
    removed = np.empty(order.size, np.int32)
    counts = np.zeros(values, np.int32)
    found = 0
    for number in range(starts.size - 1):
        rows = order[starts[number] : starts[number + 1]]
        best = codes[rows[0]]
        for row in rows:
            counts[codes[row]] += 1
            if counts[codes[row]] > counts[best]:
                best = codes[row]
        for row in rows:
            counts[codes[row]] = 0
            if codes[row] != best:
                removed[found] = row
                found += 1
        if found > most:
            break
    return removed[:found].copy()


@kernel
def strays(order, starts, ends, codes, sign, most):  # type: ignore[no-untyped-def]
    """The rows of each class but those of a longest sequence in which a column never falls (never rises: -1 as sign).

    It is stopped when they are more than so many: then it gives any rows, one more than that.
    """
    removed = np.empty(order.size, np.int32)
    tails = np.empty(order.size, np.int32)
    before = np.empty(order.size, np.int32)
    found = 0
    for number in range(ends.size):
        rows = order[starts[number] : ends[number]]
        length = 0
        for place in range(rows.size):
            code = sign * codes[rows[place]]
            low, high = 0, length
            while low < high:  # the first sequence that ends beyond this code
                middle = (low + high) // 2
                if sign * codes[rows[tails[middle]]] > code:
                    high = middle
                else:
                    low = middle + 1
            before[place] = tails[low - 1] if low else -1
            tails[low] = place
            length = max(length, low + 1)
            if found + place + 1 - length > most:  # so many of the rows so far are in no sequence
                return order[: most + 1].copy()
        kept = tails[length - 1] if length else -1
        for place in range(rows.size - 1, -1, -1):
            if place == kept:
                kept = before[place]
            else:
                removed[found] = rows[place]
                found += 1
    return removed[:found].copy()
