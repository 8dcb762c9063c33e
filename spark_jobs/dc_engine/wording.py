"""Values, rows and pairs of rows as text: on one line, escaped, cut; no value can forge a line of the log."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dc_engine.errors import escaped

MAX_VALUE = 40
MAX_TEXT = 500
MAX_MESSAGE = 5000
MAX_LINE = 110
"""What Airflow's log page shows of a line, beside its time and level, on a usual screen."""


def plain(value: Any, width: int = MAX_VALUE) -> str:
    """A value on one line: what does not print is escaped, what is too long is cut."""
    if value is None:
        return "NULL"
    text = value if isinstance(value, str) else str(value)
    if len(text) <= width and text.isprintable():
        return text
    shown = escaped(text[: width + 1])
    if len(text) <= width and len(shown) <= width:
        return shown
    return shown[: width - 3] + "..."


def wrapped(lines: Iterable[str]) -> str:
    """Lines of a log, none longer than a page is wide, but where one word (a path) is; what follows is indented."""
    made: list[str] = []
    for line in lines:
        indent = line[: len(line) - len(line.lstrip())]
        more = f"{indent}    "
        made += textwrap.wrap(
            line, MAX_LINE, subsequent_indent=more, break_long_words=False, break_on_hyphens=False
        ) or [""]
    return "\n".join(made)


def align(rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> list[str]:
    """Rows of cells as lines of aligned columns; the columns in ``right`` are flush right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def row_name(key: Mapping[str, Any] | None) -> str:
    """How people recognise a row."""
    if not key:
        return "a row without a key"
    return ", ".join(f"{plain(name)}={plain(value)}" for name, value in key.items())


def example_lines(sample: Mapping[str, Any], title: str) -> list[str]:
    """One violation, its two rows side by side (or its one row): key, then the values that the rule reads."""
    names = [name for name in ("t", "s") if sample.get(name)]
    sides = [sample[name] for name in names]
    cells = [[title, *names]]
    shown = [{**(side.get("row") or {}), **(side.get("values") or {})} for side in sides]
    for column in dict.fromkeys(column for side in shown for column in side):
        cells.append([f"  {plain(column)}", *(plain(side[column]) if column in side else "" for side in shown)])
    alike = [side.get("rows") or 1 for side in sides]
    if max(alike, default=1) > 1:
        cells.append(["  rows alike", *(f"{number:,}" for number in alike)])
    return align(cells)
