"""Which dependencies enough pairs of rows support: pairs that agree on all that a dependency asks to be equal.

Fewer columns have no fewer pairs that agree on them, so whatever is more general than a dependency with enough support
has enough too. The minimal dependencies that have enough are therefore the minimal ones among those that have enough.
Nothing else has to be proven: what hits all patterns, and has enough, contains a minimal hitting set of the known ones,
which has enough as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from dc_engine.discovery.boxes import Box, equalities, said
from dc_engine.discovery.partitions import Partitions
from dc_engine.discovery.problem import Contexts
from dc_engine.discovery.table import Table
from dc_engine.discovery.terms import Terms

Path = tuple[int, ...]
"""The terms of a context, those with many values first."""
_VISITS = 500_000_000
"""So many rows are put into classes at most to find all contexts: that takes some seconds."""


class Support:
    """Says of the dependencies of a table whether enough pairs of rows support them."""

    def __init__(self, table: Table, least: int) -> None:
        self._terms = table.layout.terms
        self._rows, self._least = table.rows, least
        self._partitions = Partitions(table.left)
        self._walk = self._partitions.walk()
        self._decided: dict[Path, bool] = {(): table.rows * (table.rows - 1) // 2 >= least}
        """By the paths of contexts; beyond one that has not enough none is looked at."""
        self._contexts: dict[Path, Contexts | None] = {}

    def enough(self, boxes: Iterable[Box]) -> set[Box]:
        """The boxes that have enough."""
        contexts = {box: contexts_of(self._terms, box) for box in boxes}
        paths = {one: self._partitions.path(one) for some in contexts.values() for one in some}
        few = {one for one in sorted(paths, key=paths.__getitem__) if not self._is_enough(paths[one])}
        return {box for box, some in contexts.items() if few.isdisjoint(some)}

    def contexts(self, places: Sequence[int]) -> Contexts | None:
        """All contexts of some terms that have enough, by the numbers of the terms; nothing if that takes long."""
        key = tuple(places)
        if key not in self._contexts:
            self._contexts[key] = self._searched(key)
        return self._contexts[key]

    def _searched(self, places: Path) -> Contexts | None:
        order, number = self._partitions.path(places), {place: one for one, place in enumerate(places)}
        found: list[list[int]] = []
        left: list[Path] = [()]
        visits = 0
        while left:
            path = left.pop()
            if not self._is_enough(path):
                continue
            found.append([number[place] for place in path])
            longer = order[order.index(path[-1]) + 1 if path else 0 :]
            visits += len(longer) * len(self._walk.to(path).order)
            if visits > _VISITS:
                return None
            left += [(*path, place) for place in reversed(longer)]
        return Contexts.of(len(places), found)

    def _is_enough(self, path: Path) -> bool:
        known = next(end for end in range(len(path), -1, -1) if path[:end] in self._decided)
        for end in range(known, len(path) + 1):
            if path[:end] not in self._decided:
                sizes = np.diff(self._walk.to(path[:end]).starts).astype(np.int64)
                self._decided[path[:end]] = int((sizes * (sizes - 1) // 2).sum()) >= self._least
            if not self._decided[path[:end]]:
                return False
        return True


def contexts_of(terms: Terms, box: Box) -> list[frozenset[int]]:
    """What the pairs that support a dependency agree on: the columns that it asks to be equal; of a key all but any."""
    agreeing = frozenset(place for place in equalities(box) if terms.terms[place].own)
    if len(agreeing) < len(said(box)) or not agreeing:
        return [agreeing]
    return [agreeing - {place} for place in agreeing]
