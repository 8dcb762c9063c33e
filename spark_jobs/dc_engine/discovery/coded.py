"""From columns of values to codes, and what the values say about a space: which columns are of use, which compare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pyarrow as pa

from dc_engine.detection.codes import codes_of
from dc_engine.detection.comparable import common_family, family
from dc_engine.detection.fetched import Measured
from dc_engine.discovery.coding import united
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.space import Space
from dc_engine.discovery.table import Table

_LONG_TEXT = 256
"""Texts of more bytes, on average, are not looked at: nobody writes rules about them."""
_COMMON = 0.3
"""The share of common values from which columns of one type are compared with each other."""
_SAMPLE = 50_000


@dataclass(frozen=True, slots=True)
class Coded:
    """The rows of a table as codes, with their ids; NULL is -1 where it is ignored, and the first code where not."""

    ids: np.ndarray
    codes: Mapping[str, np.ndarray]

    @property
    def nullable(self) -> frozenset[str]:
        """The columns with a NULL that is ignored."""
        return frozenset(name for name, codes in self.codes.items() if codes.min(initial=0) < 0)

    def chosen(self, rows: np.ndarray) -> Coded:
        """Some of the rows, in the same codes."""
        ids = self.ids[rows]
        lines = np.empty((len(self.codes), len(ids)), np.int32)
        for line, codes in zip(lines, self.codes.values(), strict=True):
            line[:] = codes[rows]
        return Coded(ids, dict(zip(self.codes, lines, strict=True)))

    def table(self, space: Space, nullable: frozenset[str]) -> Table:
        """The table in the terms of a space."""
        return Table.of(Layout(space.terms(nullable)), self.codes)


def encoded(space: Space, columns: Mapping[str, pa.ChunkedArray], ids: np.ndarray) -> Coded:
    """The codes of all columns of a space."""
    return Coded(ids, united(space, [columns], len(ids)))


def useless(types: Mapping[str, str], measured: Measured) -> dict[str, str]:
    """Columns that have nothing to compare, with the reason."""
    reasons = {}
    for name, values in measured.values.items():
        average = measured.nbytes[name] // max(measured.rows, 1)
        if types[name] == "void" or (measured.rows and not values):
            reasons[name] = "only NULLs"
        elif average > _LONG_TEXT:
            reasons[name] = f"long texts, {average:,} bytes on average"
    return reasons


def alike(space: Space, columns: Mapping[str, pa.ChunkedArray]) -> list[tuple[str, str]]:
    """Pairs of columns of one type that have enough values in common to be compared, on a sample of a large table."""
    some = {name: _sampled(columns[name]) for name in space.columns}
    pairs = []
    for left, right in combinations(space.columns, 2):
        one, two = family(space.columns[left]), family(space.columns[right])
        common = common_family({one or "", two or ""})
        if one == two and common is not None and _overlap(some[left], some[right], common) >= _COMMON:
            pairs.append((left, right))
    return pairs


def _overlap(left: pa.ChunkedArray, right: pa.ChunkedArray, common: str) -> float:
    """How many values two columns share, each as often as it is in both, of the values of the one with fewer."""
    one, two = codes_of([left, right], common, ordered=False)
    size = int(max(one.max(initial=0), two.max(initial=0))) + 1
    counts = [np.bincount(codes[codes >= 0], minlength=size) for codes in (one, two)]
    fewest = min(int(some.sum()) for some in counts)
    return float(np.minimum(*counts).sum()) / fewest if fewest else 0.0


def _sampled(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if len(column) <= _SAMPLE:
        return column
    return column.take(pa.array(np.arange(0, len(column), len(column) // _SAMPLE)))
