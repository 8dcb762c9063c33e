"""From columns of values to codes, and what the values say about a space: which columns are of use, which compare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pyarrow as pa

from dc_engine.detection.codes import codes_of
from dc_engine.detection.comparable import common_family, family
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
        return Coded(self.ids[rows], {name: codes[rows] for name, codes in self.codes.items()})

    def table(self, space: Space, nullable: frozenset[str]) -> Table:
        """The table in the terms of a space."""
        return Table.of(Layout(space.terms(nullable)), self.codes)


def encoded(space: Space, columns: Mapping[str, pa.ChunkedArray], ids: np.ndarray) -> Coded:
    """The codes of all columns of a space."""
    return Coded(ids, united(space, [columns]))


def useless(columns: Mapping[str, pa.ChunkedArray]) -> dict[str, str]:
    """Columns that have nothing to compare, with the reason."""
    reasons = {}
    for name, column in columns.items():
        if (len(column) and column.null_count == len(column)) or pa.types.is_null(column.type):
            reasons[name] = "only NULLs"
        elif _is_text(column.type) and column.nbytes > _LONG_TEXT * max(len(column), 1):
            reasons[name] = f"long texts, {column.nbytes // max(len(column), 1):,} bytes on average"
    return reasons


def _is_text(arrow_type: pa.DataType) -> bool:
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(test(arrow_type) for test in tests)


def alike(space: Space, columns: Mapping[str, pa.ChunkedArray]) -> list[tuple[str, str]]:
    """Pairs of columns of one type that have enough values in common to be compared, on a sample of a large table."""
    pairs = []
    for left, right in combinations(space.columns, 2):
        one, two = space.columns[left], space.columns[right]
        common = common_family({family(one) or "", family(two) or ""})
        if (
            family(one) == family(two)
            and common is not None
            and _overlap(columns[left], columns[right], common) >= _COMMON
        ):
            pairs.append((left, right))
    return pairs


def _overlap(left: pa.ChunkedArray, right: pa.ChunkedArray, common: str) -> float:
    """How many values two columns share, each as often as it is in both, of the values of the one with fewer."""
    one, two = codes_of([_sampled(left), _sampled(right)], common, ordered=False)
    size = int(max(one.max(initial=0), two.max(initial=0))) + 1
    counts = [np.bincount(codes[codes >= 0], minlength=size) for codes in (one, two)]
    fewest = min(int(some.sum()) for some in counts)
    return float(np.minimum(*counts).sum()) / fewest if fewest else 0.0


def _sampled(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if len(column) <= _SAMPLE:
        return column
    return column.take(pa.array(np.arange(0, len(column), len(column) // _SAMPLE)))
