"""Rows that were coded before and rows that come later get codes as if all had been coded together."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.discovery.coded import encoded
from dc_engine.discovery.coding import coding_of, united
from dc_engine.discovery.space import Asked, Space, space_of, with_cross
from tests.discovery.test_keeping import TYPES

MORE = {
    "int": [*range(-3, 9)],
    "bigint": [-(2**63), 2**63 - 1, *range(9)],
    "double": [math.nan, -math.inf, math.inf, -0.0, 0.0, 0.5, -1e300, 5e-324],
    "decimal(5,2)": [Decimal(cents) / 100 for cents in (-99_999, -1, 0, 1, 100, 99_999)],
    "string": ["", "a", "b", "ab", "ä", "é", "\x00"],
}


@st.composite
def tables(draw: st.DrawFn) -> tuple[Space, list[dict[str, pa.ChunkedArray]]]:
    """A space, and its columns in several parts."""
    kinds = draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=3))
    types = {f"c{place}": kind for place, kind in enumerate(kinds)}
    ordered = [name for name in types if draw(st.booleans())]
    unordered = [name for name in types if name not in ordered]
    nulls = draw(st.sampled_from(["ignore", "equal"]))
    asked = Asked(nulls=nulls, ordered=tuple(ordered) if nulls == "ignore" else (), unordered=tuple(unordered))
    space = space_of(asked, types, {})
    if kinds[0] == kinds[-1] and len(kinds) > 1 and nulls == "ignore" and draw(st.booleans()):
        space = with_cross(space, [("c0", f"c{len(kinds) - 1}")], both=False)
    parts = []
    for _ in range(draw(st.integers(1, 4))):
        size = draw(st.integers(1, 5))
        columns = {}
        for name, kind in types.items():
            values = [*TYPES[kind][1], *MORE.get(kind, ()), None]
            cells = draw(st.lists(st.sampled_from(values), min_size=size, max_size=size))
            cut = draw(st.integers(0, size))
            arrays = [pa.array(some, TYPES[kind][0]) for some in (cells[:cut], cells[cut:])]
            columns[name] = pa.chunked_array(arrays)
        parts.append(columns)
    return space, parts


def ranks(codes: np.ndarray, others: np.ndarray, *, ordered: bool) -> list[int]:
    """Codes of a class as the numbers of their values: in their order, or by where they are first."""
    values = np.unique(others) if ordered else np.array(list(dict.fromkeys(others.tolist())))
    number: dict[Any, int] = {value: place for place, value in enumerate(values.tolist())}
    return [number[code] for code in codes.tolist()]


@given(tables(), st.data())
def test_parts_that_were_coded_before_are_coded_as_if_together(table, data):
    space, parts = table
    before = [coding_of(space, [part]) if data.draw(st.booleans()) else part for part in parts]
    together = {
        name: pa.chunked_array([chunk for part in parts for chunk in part[name].chunks]) for name in space.columns
    }
    rows = sum(len(part["c0"]) for part in parts)
    expected = encoded(space, together, np.arange(rows)).codes
    found = united(space, before, rows)
    assert list(found) == list(expected)
    for same in space.order_classes:
        ordered = bool(space.in_order & set(same.members))
        one, two = (np.concatenate([codes[name] for name in same.members]) for codes in (found, expected))
        assert one.dtype == np.int32
        assert ranks(one, one, ordered=ordered) == ranks(two, two, ordered=ordered)
        assert ((one < 0) == (two < 0)).all(), "NULL is negative, where it is ignored"


@given(tables(), st.data())
def test_some_of_the_rows_keep_their_codes(table, data):
    space, parts = table
    coding = coding_of(space, parts[:1])
    rows = len(parts[0]["c0"])
    chosen = np.array(data.draw(st.lists(st.booleans(), min_size=rows, max_size=rows)))
    whole, some = united(space, [coding], rows), united(space, [coding.chosen(chosen)], int(chosen.sum()))
    assert {name: codes[chosen].tolist() for name, codes in whole.items()} == {k: v.tolist() for k, v in some.items()}
