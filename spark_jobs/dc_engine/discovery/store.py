"""The store of patterns: lines, each with a pattern and a number of pairs, or with two rows that show it.

What is known is the sum of several runs: a change adds one and leaves the others as they are, so that it costs what it
brings and not what is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dc_engine.discovery.bits import first_of_each, grouped, mixed, order_of
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.scan import Counted
from dc_engine.discovery.table import Shown


@dataclass(frozen=True)
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

    @property
    def nbytes(self) -> int:
        """What it takes, with its index."""
        return 2 * self.patterns.nbytes + self.pairs.nbytes + self.t.nbytes + self.s.nbytes

    @cached_property
    def _index(self) -> tuple[np.ndarray, np.ndarray]:
        """The keys of all lines in order, and whose they are."""
        keys = mixed(self.patterns)
        order = np.arange(len(keys)) if (keys[1:] >= keys[:-1]).all() else order_of(keys)
        return keys[order], order

    def pairs_of(self, patterns: np.ndarray) -> np.ndarray:
        """The numbers of pairs of some patterns, in a run that has each pattern once; 0 for those that it has not."""
        keys, order = self._index
        wanted = mixed(patterns)
        at = np.searchsorted(keys, wanted)
        result, left = np.zeros(len(patterns), np.int64), np.arange(len(patterns))
        while len(left):  # more than once where others have the same key
            left = left[at[left] < len(keys)]
            left = left[keys[at[left]] == wanted[left]]
            lines = order[at[left]]
            same = (self.patterns[lines] == patterns[left]).all(axis=1)
            result[left[same]] = self.pairs[lines[same]]
            left = left[~same]
            at[left] += 1
        return result

    def taken(self, places: np.ndarray) -> Store:
        """Some of its lines."""
        return Store(self.patterns[places], self.pairs[places], self.t[places], self.s[places])

    def __len__(self) -> int:
        """How many lines it has."""
        return len(self.patterns)


def joined(runs: Sequence[Store]) -> Store:
    """The lines of all runs."""
    if len(runs) == 1:
        return runs[0]
    names = ("patterns", "pairs", "t", "s")
    return Store(*(np.concatenate([getattr(one, name) for one in runs]) for name in names))


def added_up(runs: Sequence[Store]) -> Store:
    """Numbers of pairs added up, each pattern once with its first rows, without those that no pair has any more."""
    lines = joined(runs)
    if not len(lines):
        return lines
    order, first = grouped(lines.patterns)
    pairs = np.add.reduceat(lines.pairs[order], first)
    there = np.flatnonzero(pairs)
    places = order[first[there]]
    return Store(lines.patterns[places], pairs[there], lines.t[places], lines.s[places])


def run_of(layout: Layout, ids: np.ndarray, counted: Sequence[Counted]) -> Store:
    """What was counted as a run; places become ids of rows."""
    parts = [Store(layout.canonical(one.patterns), one.pairs, ids[one.t], ids[one.s]) for one in counted]
    return added_up(parts or [Store.empty(layout)])


def alive(store: Store, layout: Layout, ids: np.ndarray) -> Shown:
    """The patterns that rows with these ids show, by their places."""
    t, s = np.split(places_of(ids, np.concatenate([store.t, store.s])), 2)
    both = np.flatnonzero((t >= 0) & (s >= 0))
    return Shown.of(layout, [Shown(store.patterns[both], t[both], s[both])])


def places_of(ids: np.ndarray, some: np.ndarray) -> np.ndarray:
    """The places of some ids among others; -1 for those that are not there."""
    if not len(ids):
        return np.full(len(some), -1, np.int64)
    order = None if (ids[1:] > ids[:-1]).all() else np.argsort(ids, kind="stable")
    where = np.minimum(np.searchsorted(ids, some, sorter=order), len(ids) - 1)
    places = where if order is None else order[where]
    return np.where(ids[places] == some, places, -1)


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
    for old, new in zip(before.slots[: before.terms.compared], after.slots[: after.terms.compared], strict=True):
        width = np.uint64(3 if old.ordered else 1)
        result[:, new.word] |= ((patterns[:, old.word] >> np.uint64(old.shift)) & width) << np.uint64(new.shift)
        if old.null is not None and new.null is not None:
            flag = (patterns[:, old.word] >> np.uint64(old.null)) & np.uint64(1)
            result[:, new.word] |= flag << np.uint64(new.null)
    return after.canonical(result)
