"""Which of the listed violations a verdict shows: the worst, and of each new projection one before any second."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.detection.report import Report
from dc_engine.state.storage import Storage

Line = dict[str, Any]


@st.composite
def lines(draw: st.DrawFn, sides: tuple[str, ...]) -> Line:
    """A listed violation; what it says of a row is its number."""
    line = {"pairs": draw(st.integers(1, 3)), "violations": draw(st.integers(1, 3))}
    for side in sides:
        row = draw(st.integers(0, 4))
        facts = {"": {"x": row}, "_rows": 1, "_new": draw(st.booleans()), "_row_ids": [row, row + 10]}
        line |= {f"{side}{name}": fact for name, fact in facts.items()}
    return line


def expected(listing: list[Line], sides: tuple[str, ...], most: int) -> list[Line]:
    """The same, one by one."""
    first, more, seen = [], [], set()
    for line in sorted(listing, key=lambda one: (-one["violations"], -one["pairs"])):
        new = tuple(line[f"{side}_row_ids"][0] for side in sides if line[f"{side}_new"])
        (more if new in seen else first).append(line)
        seen.add(new)
    return (first + more)[:most]


@given(data=st.data(), sides=st.sampled_from([("t",), ("t", "s")]), most=st.integers(0, 6))
def test_the_worst_are_shown_of_each_new_projection_one_first(
    data: st.DataObject, sides: tuple[str, ...], most: int
) -> None:
    listing = data.draw(st.lists(lines(sides), min_size=1, max_size=12))
    shown = Report(Storage("memory://samples"), 1, 100, most, ())._samples(pa.Table.from_pylist(listing))
    assert [[pair[side]["values"]["x"] for side in sides] for pair in shown] == [
        [line[side]["x"] for side in sides] for line in expected(listing, sides, most)
    ]
