"""The search: patterns that are known are enumerated, what follows from them is proven or refuted, until all is proven.

The known patterns are a subset of those that occur. When every minimal hitting set of the known ones hits all that
occur, they are the minimal hitting sets of all: whatever hits all hits the known ones, so it contains one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dc_engine.discovery.boxes import Box, follow, in_any
from dc_engine.discovery.enumerating import Enumerate, Enumerated, Sets
from dc_engine.discovery.proving import Prover
from dc_engine.discovery.table import Ranges, Shown, Table, patterns_among

_SAMPLED = 200_000
"""Rows that are compared with two neighbours each."""


@dataclass(frozen=True, slots=True)
class Settled:
    """What holds, and the patterns that show that nothing more general does."""

    found: Enumerated
    known: Shown


def first_patterns(table: Table) -> Shown:
    """Patterns of some pairs: neighbours in the order of each column, and in no order.

    Rows with the same value are in the order of the next columns, so that neighbours agree on several: it takes such
    pairs to refute what many columns decide.
    """
    rows, random = table.rows, np.random.default_rng(0)
    if rows < 2:
        return Shown.of(table.layout)
    places = np.arange(1, rows)
    if rows > _SAMPLED:
        places = np.sort(random.choice(places, _SAMPLED, replace=False))
    near = np.zeros(rows, bool)
    near[np.concatenate([places, places - 1, np.maximum(places - 2, 0)])] = True
    needed = np.flatnonzero(near)
    here = np.searchsorted(needed, places)
    ranges = Ranges(here, np.searchsorted(needed, np.maximum(places - 2, 0)), here)
    columns = table.left if table.left is table.right else np.concatenate([table.left, table.right])
    sizes = [int(codes.max()) + 2 for codes in columns]  # NULL is a value too
    met = []
    for first in range(-1, len(columns)):
        order = random.permutation(rows).astype(np.int32)
        if first >= 0:
            order = _sorted(columns, sizes, first, order)
        some = order[needed]
        ordered = table.taken(some)
        found = patterns_among(ordered, ordered, ranges)
        met.append(Shown(found.patterns, some[found.t], some[found.s]))
    return Shown.of(table.layout, met)


def _sorted(columns: np.ndarray, sizes: Sequence[int], first: int, order: np.ndarray) -> np.ndarray:
    """Rows by one column and then by as many of the next as could tell them all apart."""
    from dc_engine.kernels.partitions import sorted_rows  # numba

    chosen, values = [first], sizes[first]
    while values < len(order) and len(chosen) < len(columns):
        chosen.append((first + len(chosen)) % len(columns))
        values *= sizes[chosen[-1]]
    for column in reversed(chosen):
        order = sorted_rows(columns[column] + 1, sizes[column], order)
    return order


def settle(
    whole: Prover,
    known: Shown,
    enumerate_: Enumerate,
    *,
    fresh: Prover | None = None,
    before: Sets | None = None,
    valid: Sequence[Box] = (),
) -> Settled:
    """All dependencies of a table: ``whole`` decides boxes on all its pairs. ``known`` are patterns that occur.

    If ``fresh`` decides them on pairs with a new row, ``valid`` are boxes that are empty among the other rows, so that
    these and all within them need be looked at only there. ``before`` is what the known patterns are known to leave.
    """
    layout = whole.table.layout
    while True:
        found = Enumerated(before) if before is not None else enumerate_(known.patterns)
        boxes = sorted({box for some in found.sets.values() for box in some})
        if fresh is None:
            undecided = whole.open(boxes)
            met = whole.look(undecided) if undecided else None
        else:
            met = _look(fresh, whole, boxes, valid)
        if met is not None and before is not None:  # a load that breaks nothing adds nothing
            met = met.taken(np.flatnonzero(in_any(layout, boxes, met.patterns)))
        if met is None or (before is not None and not len(met)):
            return Settled(found, known)
        known, before = Shown.of(layout, [known, met]), None


def _look(fresh: Prover, whole: Prover, boxes: Sequence[Box], valid: Sequence[Box]) -> Shown | None:
    """Look at pairs with new rows for all boxes, and at all pairs for those that were not known to be empty."""
    terms, before = fresh.table.layout.terms, set(valid)
    others = [box for box in boxes if box not in before]
    unknown = {box for box, follows in zip(others, follow(terms, others, valid), strict=True) if not follows}
    wanted, rest = whole.open(unknown), fresh.open(box for box in boxes if box not in unknown)
    met = [prover.look(some) for prover, some in ((whole, wanted), (fresh, rest)) if some]
    return Shown.of(fresh.table.layout, met) if met else None
