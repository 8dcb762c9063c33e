"""Approximate keys and functional dependencies of tables of any length, from the sizes of groups.

How many pairs of rows agree on some columns follows from how many rows share each combination of their values. The
more columns, the fewer pairs, so the search goes up from small sets of columns, and never beyond one that will do.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from dc_engine.detection.codes import combine
from dc_engine.discovery.boxes import Box, agreeing
from dc_engine.discovery.table import Table

Places = frozenset[int]


@dataclass
class Grouped:
    """What was found: boxes with their numbers of violating pairs, all of up to so many terms."""

    violations: dict[str, dict[Box, int]] = field(default_factory=dict)
    terms: int = 0
    """Up to how many terms the search is complete."""
    complete: bool = False


def approximate_by_groups(
    table: Table, classes: Sequence[str], allowed: int, max_terms: int | None, seconds: float
) -> Grouped:
    """The smallest dependencies of some classes that at most ``allowed`` pairs of rows violate."""
    terms = table.layout.terms
    columns = list(terms.own)
    end = time.monotonic() + seconds
    counts = _Counts(table)
    found = Grouped({name: {} for name in classes})
    targets: list[tuple[str, str | None]] = [("unique", None)] if "unique" in classes else []
    targets += [("fd", name) for name in columns] if "fd" in classes else []
    smallest: dict[tuple[str, str | None], list[Places]] = {target: [] for target in targets}
    most = len(columns) if max_terms is None else min(max_terms, len(columns))
    for size in range(most + 1):
        level: dict[str, dict[Box, int]] = {name: {} for name in classes}
        undecided = size == 0
        for kind, right in targets:
            done = smallest[kind, right]
            if size - (kind == "fd") < 0:
                continue
            for left in combinations([name for name in columns if name != right], size - (kind == "fd")):
                if time.monotonic() > end:
                    return found
                places = frozenset(terms.own[name] for name in left)
                if any(one <= places for one in done):
                    continue
                undecided = True
                pairs = counts.violations(places, None if right is None else terms.own[right])
                if pairs <= allowed:
                    level[kind][agreeing(terms, left, right)] = pairs
                    done.append(places)
        for kind, boxes in level.items():
            found.violations[kind] |= boxes
        found.terms = size
        if not undecided:  # nor will it be with more columns
            found.terms = most
            break
    found.complete = most == len(columns)
    return found


class _Counts:
    """Numbers of pairs that agree on columns, each set of columns coded once from a smaller one."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._codes: dict[Places, np.ndarray] = {}

    def violations(self, left: Places, right: int | None) -> int:
        """How many pairs of rows agree on the left side and (if there is one) differ on the right side."""
        if right is None:
            return self._agreeing(left, np.ones(self._table.rows, bool))
        valued = self._table.left[right] >= 0
        return self._agreeing(left, valued) - self._agreeing(left | {right}, valued)

    def _agreeing(self, places: Places, rows: np.ndarray) -> int:
        codes = self._coded(places)
        sizes = np.bincount(codes[(codes >= 0) & rows], minlength=1)
        return int((sizes * (sizes - 1) // 2).sum())

    def _coded(self, places: Places) -> np.ndarray:
        """Codes that are the same where rows agree, -1 where there is a NULL; up to ``_REMEMBERED`` are remembered."""
        if places in self._codes:
            return self._codes[places]
        columns = [self._table.left[place].astype(np.int64) for place in sorted(places)]
        if not columns:
            return np.zeros(self._table.rows, np.int64)
        valid = np.logical_and.reduce([one >= 0 for one in columns])
        codes = np.where(valid, combine(columns), -1)
        if len(self._codes) * self._table.rows > _REMEMBERED:
            self._codes.clear()
        self._codes[places] = codes
        return codes


_REMEMBERED = 50_000_000
"""How many codes are held in memory."""
