"""Which dates of a row come before which: one thing that is about a row alone, and that people always want to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations

import pyarrow as pa
import pyarrow.compute as pc

from dc_engine.detection.comparable import Family, family

_TIMES = (Family.DATE, Family.TIMESTAMP, Family.TIMESTAMP_NTZ)


@dataclass(frozen=True, slots=True)
class Before:
    """In no row is ``first`` after ``second``."""

    first: str
    second: str
    rows: int
    """Rows that have both."""
    apart: int
    """Rows in which they differ."""


def dates_of(types: Mapping[str, str]) -> list[str]:
    """The columns with dates or times."""
    return [name for name, spark_type in types.items() if family(spark_type) in _TIMES]


def orders(types: Mapping[str, str], columns: Mapping[str, pa.ChunkedArray]) -> list[Before]:
    """The orders between dates that hold in every row, without those that follow from two others."""
    found: dict[tuple[str, str], Before] = {}
    for first, second in permutations(dates_of(types), 2):
        if family(types[first]) != family(types[second]):
            continue
        one, two = columns[first], columns[second]
        rows = pc.sum(pc.and_(pc.is_valid(one), pc.is_valid(two))).as_py() or 0
        if rows and pc.all(pc.less_equal(one, two)).as_py() is not False:
            apart = pc.sum(pc.not_equal(one, two)).as_py() or 0
            if apart:
                found[first, second] = Before(first, second, rows, apart)
    between = {name for pair in found for name in pair}
    return [
        before
        for (first, second), before in found.items()
        if not any((first, other) in found and (other, second) in found for other in between)
    ]
