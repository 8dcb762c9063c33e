"""Numbers, values and pairs of rows as people read them on a page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from math import log10
from typing import Any

from dc_engine.verdict import MASKED
from dc_engine.wording import MAX_TEXT, plain

MAX_CELL = 40
_SIDES = ("t", "s")
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
_UNITS = ("B", "KB", "MB", "GB")
_TIMES = ("date", "timestamp", "time")
_MORE, _LESS, _OTHER = ("▲", "greater"), ("▼", "less"), ("≠", "different")


@dataclass(frozen=True, slots=True)
class Cell:
    """A value of a row: on one line, cut; whole when it was cut."""

    text: str
    whole: str = ""
    mark: tuple[str, str] | None = None
    """How it differs from that of the other row, as a sign and a word."""
    number: bool = False


@dataclass(frozen=True, slots=True)
class Side:
    """One of the rows of a violation."""

    name: str
    cells: Sequence[Cell]
    alike: int
    origin: str
    """Which load brought it; empty where that is not known."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A violation: its rows below each other."""

    sides: Sequence[Side]


@dataclass(frozen=True, slots=True)
class Pairs:
    """Violations of one rule, the same columns in the same place."""

    columns: Sequence[str]
    found: Sequence[Pair]
    alike: bool
    """Whether a row stands for several."""
    origins: bool
    """Whether it is known which load brought a row."""


def pairs_of(samples: Iterable[Mapping[str, Any]], types: Mapping[str, str]) -> Pairs:
    """Samples of a verdict, or listed violations, for a page; ``types`` are those of the columns, as Spark's."""
    every = [{name: one[name] for name in _SIDES if one.get(name)} for one in samples]
    sides = [side for one in every for side in one.values()]
    columns = list(dict.fromkeys(name for part in ("row", "values") for side in sides for name in side.get(part) or {}))
    kinds = {name.lower(): kind for name, kind in types.items()}
    found = [Pair(_sides(one, columns, kinds)) for one in every]
    shown = [side for one in found for side in one.sides]
    return Pairs(
        [text(one, MAX_CELL) for one in columns],
        found,
        any(side.alike > 1 for side in shown),
        any(side.origin for side in shown),
    )


def _sides(sample: Mapping[str, Any], columns: Sequence[str], kinds: Mapping[str, str]) -> list[Side]:
    values = {name: {**(one.get("row") or {}), **(one.get("values") or {})} for name, one in sample.items()}
    made = []
    for name, side in sample.items():
        other = next((values[one] for one in values if one != name), {})
        read = side.get("values") or {}
        cells = [
            _cell(values[name], other, column, kinds.get(column.lower(), ""), marked=column in read)
            for column in columns
        ]
        made.append(Side(name, cells, side.get("rows") or 1, _origin(side)))
    return made


def _origin(side: Mapping[str, Any]) -> str:
    if side.get("new"):
        return "this load"
    return f"load {text(side['load'], MAX_CELL)}" if side.get("load") else ""


def _cell(mine: Mapping[str, Any], other: Mapping[str, Any], column: str, kind: str, *, marked: bool) -> Cell:
    if column not in mine:
        return Cell("")
    value = mine[column]
    short, whole = text(value, MAX_CELL), text(value, 1_000)
    mark = _mark(value, other[column], kind) if marked and column in other else None
    return Cell(short, whole if whole != short else "", mark, kind.startswith(_NUMBERS) and value is not None)


def _mark(mine: Any, other: Any, kind: str) -> tuple[str, str] | None:
    if mine == other or MASKED in (mine, other):
        return None
    if mine is None or other is None:
        return _OTHER
    if kind.startswith(_NUMBERS):
        try:
            first, second = Decimal(str(mine)), Decimal(str(other))
        except InvalidOperation:
            return _OTHER
        if first.is_nan() or second.is_nan():
            return _OTHER
        return (_MORE if first > second else _LESS) if first != second else None
    if kind.startswith(_TIMES):
        return _MORE if str(mine) > str(other) else _LESS
    return _OTHER


def number(value: float | None) -> str:
    """With thousands apart."""
    return "" if value is None else f"{value:,}"


def text(value: Any, most: int = MAX_TEXT) -> str:
    """On one line; what does not print is escaped, what is very long is cut."""
    return plain(value, most)


def seconds(value: float | None) -> str:
    """``1.4 s``, ``12 min``."""
    if value is None:
        return ""
    return f"{value:.1f} s" if value < 600 else f"{value / 60:,.0f} min"


def share(value: float | None) -> str:
    """A share of pairs or rows, as percent; nothing for an exact dependency."""
    return "" if not value else f"{100 * value:.2g} %"


def size(value: float) -> str:
    """Bytes: ``12 KB``, ``3.4 GB``."""
    power = min(int(log10(max(value, 1))) // 3, 3)
    scaled = value / 1_000**power
    return f"{scaled:,.1f} {_UNITS[power]}" if power and scaled < 10 else f"{scaled:,.0f} {_UNITS[power]}"
