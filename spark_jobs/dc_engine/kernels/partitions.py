"""Rows in classes: those that agree on some columns together, classes of one row left out.

``order`` has the rows class by class, in each by their number; ``starts`` where each class begins, and the last ends.
Codes below 0 are NULLs that nothing equals: such rows are in no class, and compare with no other.
"""

from __future__ import annotations

import numpy as np

from dc_engine.kernels.compiling import kernel

_FEW = 32
"""So few rows are sorted by insertion."""
_NOTHING = -(1 << 40)


@kernel
def sorted_rows(codes, values, rows):  # type: ignore[no-untyped-def]
    """Rows in the order of their codes, which are below ``values``; those without a value are left out."""
    places = np.zeros(values + 1, np.int32)
    for row in rows:
        if codes[row] >= 0:
            places[codes[row] + 1] += 1
    for value in range(values):
        places[value + 1] += places[value]
    order = np.empty(places[values], np.int32)
    for row in rows:
        code = codes[row]
        if code >= 0:
            order[places[code]] = row
            places[code] += 1
    return order


@kernel
def _sort(keys, size):  # type: ignore[no-untyped-def]
    """Sort the first keys in place."""
    if size > _FEW:
        keys[:size].sort()
        return
    for place in range(1, size):
        key = keys[place]
        while place > 0 and keys[place - 1] > key:
            keys[place] = keys[place - 1]
            place -= 1
        keys[place] = key


@kernel
def _split_few(rows, codes, keys, found, starts, classes):  # type: ignore[no-untyped-def]
    """Split a class of few rows by sorting it; how many classes the result has now."""
    size, used = 0, starts[classes]
    for place in range(rows.size):
        code = np.int64(codes[rows[place]])
        if code >= 0:
            keys[size] = code << 32 | place
            size += 1
    _sort(keys, size)
    first = 0
    for place in range(1, size + 1):
        if place < size and keys[place] >> 32 == keys[first] >> 32:
            continue
        if place - first > 1:
            for one in range(first, place):
                found[used] = rows[keys[one] & 0xFFFFFFFF]
                used += 1
            classes += 1
            starts[classes] = used
        first = place
    return classes


@kernel
def _split_many(rows, codes, counts, found, starts, classes):  # type: ignore[no-untyped-def]
    """Split a class by counting its codes, which ``counts`` has a place for, all of them 0 before and after."""
    for row in rows:
        code = codes[row]
        if code >= 0:
            counts[code] += 1
    for row in rows:  # a positive count becomes the place of the next row of its class, below 0
        code = codes[row]
        if code < 0 or counts[code] == 1:
            continue
        if counts[code] > 0:
            classes += 1
            starts[classes] = starts[classes - 1] + counts[code]
            counts[code] = -1 - starts[classes - 1]
        found[-1 - counts[code]] = row
        counts[code] -= 1
    for row in rows:
        if codes[row] >= 0:
            counts[codes[row]] = 0
    return classes


@kernel
def split(order, starts, codes, values):  # type: ignore[no-untyped-def]
    """The classes of rows that also agree in one more column."""
    found = np.empty(order.size, np.int32)
    edges = np.zeros(order.size // 2 + 1, np.int32)
    keys = np.empty(_FEW, np.int64)
    counts = np.zeros(values, np.int32)
    classes = 0
    for number in range(starts.size - 1):
        rows = order[starts[number] : starts[number + 1]]
        if rows.size <= _FEW:
            classes = _split_few(rows, codes, keys, found, edges, classes)
        else:
            classes = _split_many(rows, codes, counts, found, edges, classes)
    return found[: edges[classes]].copy(), edges[: classes + 1].copy()


@kernel
def touched(order, starts, new):  # type: ignore[no-untyped-def]
    """The classes with at least one new row."""
    found, edges = np.empty_like(order), np.zeros_like(starts)
    used, classes = 0, 0
    for number in range(starts.size - 1):
        rows = order[starts[number] : starts[number + 1]]
        for row in rows:
            if new[row]:
                found[used : used + rows.size] = rows
                used += rows.size
                classes += 1
                edges[classes] = used
                break
    return found[:used].copy(), edges[: classes + 1].copy()


@kernel
def new_last(order, starts, new):  # type: ignore[no-untyped-def]
    """The rows of each class, new ones after the others."""
    found = np.empty_like(order)
    for number in range(starts.size - 1):
        first, last = starts[number], starts[number + 1]
        place = first
        for row in order[first:last]:
            if not new[row]:
                found[place] = row
                place += 1
        for row in order[first:last]:
            if new[row]:
                found[place] = row
                place += 1
    return found


@kernel
def sorted_classes(order, starts, codes):  # type: ignore[no-untyped-def]
    """The rows of each class in the order of a column, class by class: for classes with few rows in all."""
    found = np.empty_like(order)
    keys = np.empty(order.size, np.int64)
    for number in range(starts.size - 1):
        rows = order[starts[number] : starts[number + 1]]
        for place in range(rows.size):
            keys[place] = np.int64(codes[rows[place]]) << 32 | place
        _sort(keys, rows.size)
        for place in range(rows.size):
            found[starts[number] + place] = rows[keys[place] & 0xFFFFFFFF]
    return found


@kernel
def spread_classes(order, starts, by_code):  # type: ignore[no-untyped-def]
    """The same from all rows in the order of the column: in time that grows with the rows of the table.

    Rows without a value are not among those, so it also says where each class ends.
    """
    places, found = np.full(order.max() + 1, -1, np.int32), np.empty_like(order)
    ends = starts[:-1].copy()
    for number in range(starts.size - 1):
        for row in order[starts[number] : starts[number + 1]]:
            places[row] = number
    for row in by_code:
        if row < places.size and places[row] >= 0:
            number = places[row]
            found[ends[number]] = row
            ends[number] += 1
    return found, ends


@kernel
def differing(order, starts, codes, most):  # type: ignore[no-untyped-def]
    """Up to so many pairs of rows of one class that differ in a column, from as many classes as possible."""
    pairs = np.empty((most, 2), np.int64)
    found, each = 0, max(1, most // max(1, starts.size - 1))
    for number in range(starts.size - 1):
        first, last = -1, min(most, found + each)
        for row in order[starts[number] : starts[number + 1]]:
            code = codes[row]
            if code < 0:
                continue
            if first < 0:
                first = row
            elif code != codes[first]:
                pairs[found, 0], pairs[found, 1] = first, row
                found += 1
                if found == last:
                    break
        if found == most:
            break
    return pairs[:found]


@kernel
def swapped(order, starts, ends, one, other, sign, most):  # type: ignore[no-untyped-def]
    """The same for rows of which one column puts one first, another column the other.

    Rows are in the order of the first column. ``sign`` is -1 if the second is to fall where the first rises.
    """
    pairs = np.empty((most, 2), np.int64)
    found, each = 0, max(1, most // max(1, ends.size))
    for number in range(ends.size):
        best, best_row, now, now_row, value = _NOTHING, -1, _NOTHING, -1, -1
        last = min(most, found + each)
        for row in order[starts[number] : ends[number]]:
            code, with_it = one[row], sign * np.int64(other[row])
            if code < 0 or other[row] < 0:
                continue
            if code != value:
                if now > best:
                    best, best_row = now, now_row
                value, now = code, _NOTHING
            if with_it < best:
                pairs[found, 0], pairs[found, 1] = best_row, row
                found += 1
                if found == last:
                    break
            if with_it > now:
                now, now_row = with_it, row
        if found == most:
            break
    return pairs[:found]
