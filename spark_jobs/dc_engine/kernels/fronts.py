"""Whether some rows lie in a box with a row of a table: how far its rows reach is known beforehand.

Of a box that compares columns of few values, and by order one or two more, it is noted for each combination of the
few values how far the last column reaches among the rows up to each value of the first: a front of steps, which only
rise. Whoever asks looks for one step in each front.
"""

from __future__ import annotations

import numpy as np

from dc_engine.kernels.compiling import kernel
from dc_engine.kernels.groups import grouped

_LESS, _EQUAL, _GREATER = 1, 2, 4
_NOWHERE = np.int32(-(2**31))
_EVERYWHERE = np.int32(2**31 - 1)
_MOST = 1_024
"""So many combinations are told apart."""
_MOST_NUMBERS = 1 << 16
"""So many might be, as the largest codes have it."""
_CUTS = 256
"""In so many places it is noted how far all combinations reach up to there, which mostly answers for a step."""


@kernel
def combined(codes, tops, terms):  # type: ignore[no-untyped-def]
    """The number of each row's combination of values in some terms, -1 for NULL; and a row with each combination.

    There are none of these if they would be too many.
    """
    strides, size = np.empty(terms.size, np.int64), np.int64(1)
    combinations, seen, count = np.empty(codes.shape[1], np.int16), np.zeros(_MOST, np.int64), 0
    for number in range(terms.size):
        strides[number] = size
        size *= tops[terms[number]] + 1
        if size > _MOST_NUMBERS:
            return combinations[:0], seen[:0]
    numbers = np.full(size, -1, np.int16)
    for row in range(codes.shape[1]):
        place, least = np.int64(0), np.int64(0)
        for number in range(terms.size):
            code = np.int64(codes[terms[number], row])
            least = min(least, code)
            place += code * strides[number]
        if least < 0:
            combinations[row] = -1
            continue
        if numbers[place] < 0:
            if count == _MOST:
                return combinations[:0], seen[:0]
            numbers[place] = count
            seen[count] = row
            count += 1
        combinations[row] = numbers[place]
    return combinations, seen[:count]


@kernel
def stairs(combinations, count, by_first, lasts, way, sign, most):  # type: ignore[no-untyped-def]
    """For each combination where its steps begin; for each step from where on it counts, and how far it reaches.

    ``by_first`` are the rows by their codes in the first column and where each code begins, ``lasts`` the codes of the
    last column. With ``way`` -1 rows count from their value down. ``sign`` says which end of the last column is far.
    There are none if they would be more than ``most``.
    """
    order, starts = by_first
    owners, froms = np.empty(min(order.size, most), np.int16), np.empty(min(order.size, most), np.int32)
    reach, newest, far, used = np.empty(froms.size, np.int32), np.full(count, -1), np.full(count, _NOWHERE), 0
    for number in range(starts.size - 1):
        code = number if way > 0 else starts.size - 2 - number
        for place in range(starts[code], starts[code + 1]):
            one, last = combinations[order[place]], lasts[order[place]]
            if one < 0 or last < 0 or sign * (2 * last + 1) <= far[one]:
                continue
            far[one], begin = sign * (2 * last + 1), way * (2 * code + 1)
            if newest[one] < 0 or froms[newest[one]] != begin:
                if used == froms.size:
                    return np.zeros(0, np.int32), froms[:0], reach[:0]
                owners[used], froms[used], newest[one] = one, begin, used
                used += 1
            reach[newest[one]] = far[one]
    begins = np.zeros(count + 1, np.int32)
    for number in range(used):
        begins[owners[number] + 1] += 1
    begins = np.cumsum(begins).astype(np.int32)
    sorted_froms, sorted_reach, free = np.empty(used, np.int32), np.empty(used, np.int32), begins[:-1].copy()
    for number in range(used):
        place = free[owners[number]]
        sorted_froms[place], sorted_reach[place] = froms[number], reach[number]
        free[owners[number]] += 1
    return begins, sorted_froms, sorted_reach


@kernel
def _cut(begins, froms, reach):  # type: ignore[no-untyped-def]
    """Some places of the first column, and how far each combination reaches up to each of them and up to the end."""
    cuts = np.empty(min(_CUTS, froms.size, 4 * froms.size // max(begins.size - 1, 1) + 1), np.int32)
    some = np.sort(froms[:: max(1, froms.size // 1_024)])
    for number in range(cuts.size):
        cuts[number] = some[number * some.size // cuts.size]
    bounds = np.full((cuts.size + 1, begins.size - 1), _NOWHERE, np.int32)
    for one in range(begins.size - 1):
        step, last = begins[one], begins[one + 1]
        for number in range(cuts.size + 1):
            while step < last and (number == cuts.size or froms[step] <= cuts[number]):
                step += 1
            if step > begins[one]:
                bounds[number, one] = reach[step - 1]
    return cuts, bounds


@kernel
def _with_room(array, used, more):  # type: ignore[no-untyped-def]
    """An array with room for so many numbers more."""
    if used + more <= array.size:
        return array
    larger = np.empty(max(used + more, 2 * array.size), array.dtype)
    larger[:used] = array[:used]
    return larger


@kernel
def build(codes, tops, fronts, most):  # type: ignore[no-untyped-def]
    """The fronts of some boxes, side by side: how many combinations each has, its steps, and where it is cut.

    ``fronts`` are the terms of few values (filled up with -1), the first column (or -1) and the last one, which way
    and to which end, in order: what several are made of is made once. A front has -1 combinations if it cannot be had:
    all together have no more than ``most`` steps.
    """
    fews, firsts, lasts, ways, signs = fronts
    counts, at = np.full(lasts.size, -1, np.int64), np.zeros((lasts.size, 5), np.int64)
    cuts, cut, bounds, bounded = np.empty(64, np.int32), 0, np.empty(64, np.int32), 0
    begins, used = np.empty(64, np.int64), 0
    seen, noted = np.empty(64, np.int32), 0
    froms, reach, steps = np.empty(256, np.int32), np.empty(256, np.int32), 0
    combinations, rows = np.empty(0, np.int16), np.empty(0, np.int64)
    order, order_of = grouped(codes[0][:0], 0), np.int64(-2)
    for number in range(lasts.size):
        few, before = fews[number], max(number - 1, 0)
        terms = few[few >= 0]
        another = not number or (few != fews[before]).any()
        ends = firsts[number] == firsts[before] and lasts[number] == lasts[before]
        if not another and ends and ways[number] == ways[before] and signs[number] == signs[before]:
            counts[number], at[number] = counts[before], at[before]
            continue
        if another:
            combinations, rows = combined(codes, tops, terms)
        if not rows.size and codes.shape[1]:
            continue
        if firsts[number] != order_of:  # not those of the front before, which may have been left out
            alone, order_of = np.zeros(codes.shape[1], np.int32), firsts[number]
            order = grouped(codes[order_of], tops[order_of] + 1) if order_of >= 0 else grouped(alone, 1)
        its, its_froms, its_reach = stairs(
            combinations, rows.size, order, codes[lasts[number]], ways[number], signs[number], most - steps
        )
        if not its.size:
            continue
        counts[number], at[number] = rows.size, np.array([used, noted, cut, 0, bounded])
        its_cuts, its_bounds = _cut(its, its_froms, its_reach)
        at[number, 3] = its_cuts.size
        cuts, bounds = _with_room(cuts, cut, its_cuts.size), _with_room(bounds, bounded, its_bounds.size)
        cuts[cut : cut + its_cuts.size] = its_cuts
        bounds[bounded : bounded + its_bounds.size] = its_bounds.ravel()
        cut, bounded = cut + its_cuts.size, bounded + its_bounds.size
        begins = _with_room(begins, used, its.size)
        begins[used : used + its.size] = its + steps
        used += its.size
        seen = _with_room(seen, noted, terms.size * rows.size)
        for term in terms:
            for place in range(rows.size):
                seen[noted] = codes[term, rows[place]]
                noted += 1
        froms, reach = _with_room(froms, steps, its_froms.size), _with_room(reach, steps, its_froms.size)
        froms[steps : steps + its_froms.size] = its_froms
        reach[steps : steps + its_froms.size] = its_reach
        steps += its_froms.size
    return counts, at, begins[:used], seen[:noted], froms[:steps], reach[:steps], cuts[:cut], bounds[:bounded]


@kernel
def _admitted(mine, row, terms, box, seen, begin, count, found):  # type: ignore[no-untyped-def]
    """Note which combinations have admitted outcomes with a row: returns how many."""
    used = 0
    for one in range(count):
        inside = True
        for number in range(terms.size):
            mask, place = box[terms[number]], mine[terms[number], row]
            other = 2 * seen[begin + number * count + one] + 1
            outcome = _LESS * (place < other) + _EQUAL * (place == other) + _GREATER * (place > other)
            inside &= outcome & mask != 0
        found[used] = one
        used += inside
    return used


@kernel
def _step(froms, begin, end, wanted):  # type: ignore[no-untyped-def]
    """The last of some steps that begins at a place or before it; the one before all if there is none."""
    size, place = end - begin, begin - 1
    while size > 0:
        half = (size + 1) >> 1
        place += half if froms[place + half] <= wanted else 0
        size -= half
    return place


@kernel
def _alike(mine, rows, terms, numbers, some):  # type: ignore[no-untyped-def]
    """Number the combinations of places that rows have in some terms, and note a row of each: returns how many."""
    size = 2
    while size < 2 * rows.size:
        size *= 2
    table, count = np.full(size, -1, np.int32), 0
    for number in range(rows.size):
        mixed = np.uint64(0)
        for term in terms:
            mixed = (mixed ^ np.uint64(mine[term, rows[number]])) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(29)
        slot = np.int64(mixed & np.uint64(size - 1))
        while True:
            known = table[slot]
            if known < 0:
                table[slot], numbers[number], some[count] = count, count, rows[number]
                count += 1
                break
            same = True
            for term in terms:
                same &= mine[term, some[known]] == mine[term, rows[number]]
            if same:
                numbers[number] = known
                break
            slot = (slot + 1) & (size - 1)
    return count


@kernel
def _furthest(bounds, most):  # type: ignore[no-untyped-def]
    """The largest of some numbers, of each as much as is admitted."""
    far = _NOWHERE
    for one in range(bounds.size):
        far = max(far, min(bounds[one], most[one]))
    return far


@kernel
def meet(mine, asked, boxes, fronts, built):  # type: ignore[no-untyped-def]
    """Whether an asked row lies in a box with one of the others.

    ``mine`` has the places of the rows' values among those of the others, by term: 2c + 1 for the value of code c, 2c
    for one just before it. ``boxes`` has for each front that was built the box, ``asked`` whether each row asks there.
    """
    fews, firsts, lasts, ways, signs = fronts
    counts, at, begins, seen, froms, reach, cuts, bounds = built
    found = np.empty(_MOST, np.int64)
    for number in range(lasts.size):
        rows, box, few = np.flatnonzero(asked[number]), boxes[number], fews[number]
        if counts[number] <= 0 or not rows.size:
            continue
        terms, last, first, count = few[few >= 0], lasts[number], firsts[number], counts[number]
        begin, numbers, some = at[number, 0], np.empty(rows.size, np.int32), np.empty(rows.size, np.int64)
        kinds = _alike(mine, rows, terms, numbers, some)
        ends, lists, most = (
            np.zeros(kinds + 1, np.int64),
            np.empty(kinds * count, np.int32),
            np.empty((kinds, count), np.int32),
        )
        its_cuts, bound = cuts[at[number, 2] : at[number, 2] + at[number, 3]], at[number, 4]
        for kind in range(kinds):
            used = _admitted(mine, some[kind], terms, box, seen, at[number, 1], count, found)
            lists[ends[kind] : ends[kind] + used] = found[:used]
            ends[kind + 1] = ends[kind] + used
            most[kind] = _NOWHERE
            most[kind][found[:used]] = _EVERYWHERE
        for place in range(rows.size):
            row = rows[place]
            wanted = np.int64(1)
            if first >= 0:
                wanted = ways[number] * mine[first, row] - (0 if box[first] & _EQUAL else 1)
            least = signs[number] * mine[last, row] + (0 if box[last] & _EQUAL else 1)
            near = bound + count * np.searchsorted(its_cuts, wanted)
            if _furthest(bounds[near : near + count], most[numbers[place]]) < least:
                continue
            for one in lists[ends[numbers[place]] : ends[numbers[place] + 1]]:
                if bounds[near + one] < least:
                    continue
                step = _step(froms, begins[begin + one], begins[begin + one + 1], wanted)
                if step >= begins[begin + one] and reach[step] >= least:
                    return True
    return False
