"""The store of patterns: lines, each with a pattern and a number of pairs, or with two rows that show it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dc_engine.discovery.bits import first_of_each
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.scan import Counted, merged
from dc_engine.discovery.table import Shown


@dataclass(frozen=True, slots=True)
class Store:
    """Patterns with numbers of pairs (counted), or with the ids of rows that show them (witnessed)."""

    patterns: np.ndarray
    pairs: np.ndarray
    """0 where pairs are not counted."""
    t: np.ndarray
    s: np.ndarray

    @staticmethod
    def empty(layout: Layout) -> Store:
        """The store of no rows."""
        nothing = np.zeros(0, np.int64)
        return Store(np.zeros((0, layout.words), np.uint64), nothing, nothing, nothing)

    def taken(self, places: np.ndarray) -> Store:
        """Some of its lines."""
        return Store(self.patterns[places], self.pairs[places], self.t[places], self.s[places])

    def __len__(self) -> int:
        """How many lines it has."""
        return len(self.patterns)


def added_up(layout: Layout, parts: list[Counted]) -> Store:
    """Numbers of pairs added up; a pattern that no pair has any more is left out."""
    total = merged(layout, parts)
    places = np.flatnonzero(total.pairs)
    return Store(total.patterns[places], total.pairs[places], total.t[places], total.s[places])


def lines_of(store: Store) -> Counted:
    """The lines of a store, to be added up."""
    return Counted(store.patterns, store.pairs, store.t, store.s)


def alive(store: Store, layout: Layout, ids: np.ndarray) -> Shown:
    """The patterns that rows with these ids show, by their places."""
    t, s = (places_of(ids, one) for one in (store.t, store.s))
    both = np.flatnonzero((t >= 0) & (s >= 0))
    return Shown.of(layout, [Shown(store.patterns[both], t[both], s[both])])


def places_of(ids: np.ndarray, some: np.ndarray) -> np.ndarray:
    """The places of some ids among others; -1 for those that are not there."""
    if not len(ids):
        return np.full(len(some), -1, np.int64)
    order = np.argsort(ids, kind="stable")
    where = np.minimum(np.searchsorted(ids, some, sorter=order), len(ids) - 1)
    return np.where(ids[order[where]] == some, order[where], -1)


def unknown(now: Shown, before: Shown) -> Shown:
    """Patterns that were not known before."""
    both = np.concatenate([before.patterns, now.patterns])
    first = first_of_each(both)
    return now.taken(np.sort(first[first >= len(before.patterns)]) - len(before.patterns))


def shown_lines(ids: np.ndarray, shown: Shown) -> Store:
    return Store(shown.patterns, np.zeros(len(shown), np.int64), ids[shown.t], ids[shown.s])


def laid_out(before: Layout, after: Layout, patterns: np.ndarray) -> np.ndarray:
    """Patterns with room for NULLs in more columns."""
    if before.slots == after.slots:
        return patterns
    result = np.zeros((len(patterns), after.words), np.uint64)
    for old, new in zip(before.slots, after.slots, strict=True):
        width = np.uint64(3 if old.ordered else 1)
        result[:, new.word] |= ((patterns[:, old.word] >> np.uint64(old.shift)) & width) << np.uint64(new.shift)
        if old.null is not None and new.null is not None:
            flag = (patterns[:, old.word] >> np.uint64(old.null)) & np.uint64(1)
            result[:, new.word] |= flag << np.uint64(new.null)
    return after.canonical(result)
