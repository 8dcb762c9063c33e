"""Plots as numbers: where things are in a drawing. Templates draw them as SVG, with the same numbers as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log10

from dc_engine.reviewing import Line

MOST_RULES = 20
_STEPS = 5
_CELL, _LEFT = 16, 200
_BARS, _GAP = 44, 8


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar that stands on the ground of its plot."""

    x: int
    y: float
    height: float
    value: int


def bars(values: Sequence[float], height: int, step: int, *, left: int = 0, scaled: bool = False) -> list[Bar]:
    """One bar a value; with ``scaled`` by the logarithm, so that one violation beside a million is seen."""
    sizes = [log10(1 + value) if scaled else value for value in values]
    top = max(sizes, default=0) or 1
    made = []
    for place, (value, size) in enumerate(zip(values, sizes, strict=True)):
        tall = round(max(height * size / top, 1.5), 1) if value else 0
        if tall:
            made.append(Bar(left + place * step, round(height - tall, 1), tall, int(value)))
    return made


@dataclass(frozen=True, slots=True)
class Spot:
    """New violations of a rule by a load; ``step`` says how dark."""

    x: int
    y: int
    step: int
    title: str


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Rules by loads."""

    rules: Sequence[tuple[str, int]]
    """Each with its place from above."""
    spots: Sequence[Spot]
    rows: Sequence[Bar]
    durations: Sequence[Bar]
    marks: Sequence[tuple[int, str, str]]
    """Dependencies lost and gained: where, a sign, and what it says."""
    columns: Sequence[tuple[int, Line]]
    """Where each load is."""
    more_rules: int
    width: int
    height: int
    cell: int = _CELL
    map_top: int = _BARS + _GAP

    @property
    def map_bottom(self) -> int:
        """Where the map ends."""
        return self.map_top + _CELL * max(len(self.rules), 1)


def heat_map(lines: Sequence[Line]) -> HeatMap:
    """Some loads of a history, in its order."""
    totals: dict[str, int] = {}
    for line in lines:
        for rule, new in line.new.items():
            totals[rule] = totals.get(rule, 0) + new
    worst = sorted(totals, key=lambda rule: (-totals[rule], rule))
    top = _BARS + _GAP
    places = {rule: top + _CELL * place for place, rule in enumerate(worst[:MOST_RULES])}
    darkest = max((new for line in lines for new in line.new.values()), default=1)
    columns = [(_LEFT + _CELL * place, line) for place, line in enumerate(lines)]
    spots = [
        Spot(x, places[rule], _step(new, darkest), f"{rule}: {new:,} new by load {line.load_id}")
        for x, line in columns
        for rule, new in line.new.items()
        if rule in places
    ]
    marks = [
        (x, sign, f"{number} {what} by load {line.load_id}")
        for x, line in columns
        for sign, number, what in (("▼", line.lost, "lost"), ("▲", line.gained, "gained"))
        if number
    ]
    return HeatMap(
        rules=list(places.items()),
        spots=spots,
        rows=bars([line.rows.get("inserted", 0) for line in lines], _BARS, _CELL, left=_LEFT),
        durations=bars([line.seconds or 0 for line in lines], _BARS, _CELL, left=_LEFT),
        marks=marks,
        columns=columns,
        more_rules=max(len(worst) - MOST_RULES, 0),
        width=_LEFT + _CELL * max(len(lines), 1) + _GAP,
        height=top + _CELL * max(len(places), 1) + 2 * _CELL + _BARS + 3 * _GAP,
    )


def _step(new: int, darkest: int) -> int:
    """From 1, light, to 5, dark, by the logarithm."""
    return 1 + round((_STEPS - 1) * log10(new) / log10(darkest)) if darkest > 1 else _STEPS


@dataclass(frozen=True, slots=True)
class Share:
    """How many rows have so many violations, and how long its bar is, in percent of the longest."""

    what: str
    rows: int
    width: float


def spread_bars(spread: Sequence[tuple[int, int]]) -> list[Share]:
    """How violations spread over rows: each number is the least of a range that ends before ten times as many."""
    most = max((rows for _, rows in spread), default=1) or 1
    return [Share(f"{low:,} to {10 * low - 1:,}", rows, round(100 * rows / most, 1)) for low, rows in spread]
