"""The two pictures of docs/discovery.md, drawn from what is measured now: ``python docs/plots.py``.

The rows are those of the example table, with seed 7; both pictures take a few minutes on two cores.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np
import pyarrow as pa

from dags_examples.tax_data import tax_table
from dc_engine.discovery.coded import Coded, encoded
from dc_engine.discovery.keeping import changed, found
from dc_engine.discovery.known import WITNESSED, Turnover
from dc_engine.discovery.space import CLASSES, Asked, Limits, Space, space_of

SEED = 7
COLUMNS = ("zip", "city", "state", "area_code", "salary", "rate", "single_exemp", "child_exemp", "has_child", "gender")
ASKED = Asked(classes=CLASSES, ordered=("salary", "rate", "single_exemp", "child_exemp"), limits=Limits(max_terms=4))
TYPES = {pa.int64(): "bigint", pa.int32(): "int", pa.string(): "string", pa.bool_(): "boolean", pa.float64(): "double"}
FIRST, LOAD, LOADS, BROKEN, RETRACTED = 5_000, 500, 24, 12, 18
SIZES = (12_500, 25_000, 50_000, 100_000, 200_000, 400_000)
COLOURS = dict(zip(CLASSES, ("#1b6ca8", "#d1495b", "#3a7d44", "#8e6c8a", "#b8860b"), strict=True))

Line = Sequence[tuple[float, float]]


def coded(table: pa.Table, classes: tuple[str, ...]) -> tuple[Space, Coded]:
    """A table in the space of some classes."""
    types = {one.name: TYPES.get(one.type, "decimal(38,10)") for one in table.schema}
    space = space_of(replace(ASKED, classes=classes), types, {})
    return space, encoded(space, {name: table.column(name) for name in types}, np.arange(table.num_rows))


def over_loads() -> dict[str, Line]:
    """How many dependencies of each class hold after each load; one load is broken, and taken out again later."""
    parts = [tax_table(FIRST, seed=SEED)]
    for number in range(1, LOADS + 1):
        broken = {"zip_decides_city": 5, "rate_follows_salary": 5} if number == BROKEN else None
        parts.append(tax_table(LOAD, seed=SEED, first_id=FIRST + LOAD * (number - 1) + 1, broken=broken))
    space, rows = coded(pa.concat_tables(parts).select(list(COLUMNS)), CLASSES)
    load_of = np.concatenate([np.full(part.num_rows, number) for number, part in enumerate(parts)])
    there = load_of == 0
    known = found(space, rows.chosen(there), WITNESSED)
    counts: dict[str, list[tuple[float, float]]] = {name: [(0, len(known.sets[name]))] for name in CLASSES}
    for number in range(1, LOADS + 1):
        after = there | (load_of == number)
        if number == RETRACTED:
            after &= load_of != BROKEN
        known, there = changed(space, known, Turnover(rows, there, after)), after
        for name in CLASSES:
            counts[name].append((number, len(known.sets[name])))
    return dict(counts)


def over_rows() -> dict[str, Line]:
    """The seconds from codes in memory to the set of each class by itself, after a run that compiles."""
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in CLASSES}
    whole = tax_table(max(SIZES), seed=SEED).select(list(COLUMNS))
    for name in CLASSES:
        space, rows = coded(whole, (name,))
        found(space, rows.chosen(np.arange(whole.num_rows) < 1_000), WITNESSED)
        for size in SIZES:
            some = rows.chosen(np.arange(whole.num_rows) < size)
            started = time.perf_counter()
            found(space, some, WITNESSED)
            seconds[name].append((size, time.perf_counter() - started))
    return dict(seconds)


def drawn(title: str, across: str, up: str, lines: Mapping[str, Line], *, logarithmic: bool) -> str:
    """Lines as a picture, with a scale on either side."""
    width, height, left, right, top, bottom = 760, 400, 70, 90, 46, 52
    xs, ys = ([point[axis] for line in lines.values() for point in line] for axis in (0, 1))

    def scaled(value: float, values: Sequence[float], start: float, end: float) -> float:
        low, high = (min(values), max(values)) if logarithmic else (0, max(values) * 1.05)
        if logarithmic:
            value, low, high = math.log(value), math.log(low), math.log(high)
        return start + (end - start) * (value - low) / ((high - low) or 1)

    def at(x: float, y: float) -> str:
        return f"{scaled(x, xs, left, width - right):.1f},{scaled(y, ys, height - bottom, top):.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        f'font-size="13" role="img"><title>{escape(title)}</title>',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text x="{left}" y="24" font-size="16">{escape(title)}</text>',
        f'<text x="{(left + width - right) / 2}" y="{height - 12}" text-anchor="middle">{escape(across)}</text>',
        f'<text x="16" y="{height / 2}" transform="rotate(-90 16 {height / 2})" text-anchor="middle">',
        f"{escape(up)}</text>",
    ]
    for value in _marks(xs, logarithmic=logarithmic):
        x = at(value, min(ys)).split(",")[0]
        parts.append(f'<text x="{x}" y="{height - bottom + 18}" text-anchor="middle">{_number(value)}</text>')
    for value in _marks(ys, logarithmic=logarithmic):
        y = at(min(xs), value).split(",")[1]
        parts.append(f'<path d="M{left},{y}H{width - right}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 8}" y="{float(y) + 4:.1f}" text-anchor="end">{_number(value)}</text>')
    ends = sorted(lines, key=lambda name: -lines[name][-1][1])
    below = 0.0
    for name in ends:
        colour, last = COLOURS[name], at(*lines[name][-1]).split(",")
        path = " ".join(at(x, y) for x, y in lines[name])
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        below = max(float(last[1]) + 4, below + 16)
        parts.append(f'<text x="{float(last[0]) + 8:.1f}" y="{below:.1f}" fill="{colour}">{name}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _marks(values: Sequence[float], *, logarithmic: bool) -> list[float]:
    """Where a scale has numbers."""
    if logarithmic:
        wanted = [base * 10.0**power for power in range(-4, 8) for base in (1, 2, 5)]
        return [one for one in wanted if min(values) <= one <= max(values)]
    most = max(values) or 1
    step = next(one for power in range(8) for one in (10**power, 2 * 10**power, 5 * 10**power) if most / one <= 8)
    return [float(one) for one in range(0, int(most) + 1, step)]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def main() -> None:
    """Draw both."""
    folder = Path(__file__).parent
    title = f"Dependencies that hold: load {BROKEN} breaks some, and is taken out with load {RETRACTED}"
    changes = drawn(title, "load", "dependencies", over_loads(), logarithmic=False)
    (folder / "dependencies-over-loads.svg").write_text(changes, encoding="utf-8")
    title = f"From scratch, {len(COLUMNS)} columns, up to 4 comparisons, two cores"
    seconds = drawn(title, "rows", "seconds", over_rows(), logarithmic=True)
    (folder / "seconds-over-rows.svg").write_text(seconds, encoding="utf-8")


if __name__ == "__main__":
    main()
