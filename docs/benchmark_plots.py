"""The pictures of docs/benchmarks.md, drawn from its tables: ``python docs/benchmark_plots.py``.

One shows every figure beside its limit, the other where the seconds of a gate go. Nothing is measured here: what is
drawn is what the tables say.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

FOLDER = Path(__file__).parent
MET, MISSED, INK, PALE = "#3a7d44", "#d1495b", "#222", "#ddd"
PARTS = {
    "Java": "#8e6c8a",
    "Python": "#4b5a6b",
    "imports": "#999",
    "session": "#c08cb8",
    "Spark": "#d9a3c9",
    "planning": "#0b3954",
    "reading": "#1b6ca8",
    "hashing": "#5fa8d3",
    "encoding": "#9bd0e8",
    "look-up": "#b8860b",
    "decoding": "#e0b84c",
    "counting": "#e07a3f",
    "writing": "#3a7d44",
    "judging": "#7fb069",
    "commit": "#d1495b",
}
OTHER = "#ccc"
SHARE, WIDEST = 16.0, 70
"""The largest ratio that is drawn, either way, and how many characters a name may have."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A line of a table."""

    section: str
    what: str
    measured: str
    result: str
    limit: str

    @property
    def share(self) -> float | None:
        """What is used of the limit: 1 is all of it; nothing if one of the two is no number."""
        result = re.search(r"[\d.,]*\d", self.result)
        limit = re.search(r"(at most|at least|under) ([\d.,]*\d)", self.limit)
        if not result or not limit:
            return None
        value, bound = (float(one.replace(",", "")) for one in (result[0], limit[2]))
        if not bound or not value:
            return None
        return bound / value if limit[1] == "at least" else value / bound


def figures(text: str) -> Iterator[Figure]:
    """All lines of all tables that have a result and a limit."""
    section = ""
    for line in text.splitlines():
        if line.startswith("#"):
            section = line.strip("# ")
        cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
        if line.startswith("| ") and len(cells) == 5 and cells[0] != "what" and not cells[0].startswith("---"):
            yield Figure(section, *cells[:4])


def beside_limits(lines: Sequence[Figure]) -> str:
    """A bar for each figure: left of the line in the middle is within the limit, right of it is not."""
    drawn = [(line, share) for line in lines if (share := line.share) is not None]
    left, wide, row, top = 520, 300, 18, 60
    middle, height = left + wide / 2, top + row * len(drawn) + 20

    def at(share: float) -> float:
        return middle + wide / 2 * math.log(min(max(share, 1 / SHARE), SHARE)) / math.log(SHARE)

    parts = [*_opened("Figures beside their limits", left + wide + 130, height)]
    for share in (1 / 16, 1 / 4, 1.0, 4.0, 16.0):
        name = "limit" if share == 1 else f"{share:g} x" if share > 1 else f"1/{1 / share:g}"
        parts.append(f'<text x="{at(share):.1f}" y="{top - 12}" text-anchor="middle">{name}</text>')
        colour = INK if share == 1 else PALE
        parts.append(f'<path d="M{at(share):.1f},{top - 6}V{height - 16}" stroke="{colour}"/>')
    for place, (line, share) in enumerate(drawn):
        y = top + row * place
        what = line.what if len(line.what) <= WIDEST else f"{line.what[: WIDEST - 1]}…"
        start, end = sorted((middle, at(share)))
        colour = MET if share <= 1 else MISSED
        parts += [
            f'<text x="{left - 8}" y="{y + 10}" text-anchor="end">{escape(what.replace("`", ""))}</text>',
            f'<rect x="{start:.1f}" y="{y}" width="{max(end - start, 1):.1f}" height="12" fill="{colour}"/>',
            f'<text x="{left + wide + 10}" y="{y + 10}" fill="{colour}">{escape(line.result)}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])


def where_seconds_go(lines: Sequence[Figure]) -> str:
    """The parts of a load, largest first: when Java and Python have to be started, and when they are there."""
    told = [(_load(one.what), one.measured) for one in lines if one.what.startswith("where a ")]
    left, wide, top, column = 110, 620, 84, 90
    parts = _opened("Where the seconds of a load go", left + wide + 90, top + 64 * len(told) + 10)
    for place, (name, colour) in enumerate([*PARTS.items(), ("other", OTHER)]):
        x, y = left + column * (place % 8), 36 + 20 * (place // 8)
        parts.append(f'<rect x="{x}" y="{y}" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{x + 17}" y="{y + 10}">{name}</text>')
    for place, (name, text) in enumerate(told):
        spent = {part: float(value) for part, value in re.findall(r"([\w-]+) ([\d.]+)", text)}
        y, x, total = top + 64 * place, float(left), sum(spent.values())
        parts.append(f'<text x="{left - 8}" y="{y + 26}" text-anchor="end">{name}</text>')
        for part, seconds in spent.items():
            width = wide * seconds / total
            colour = PARTS.get(part, OTHER)
            parts.append(f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="40" fill="{colour}"/>')
            if width > 50:
                parts.append(f'<text x="{x + 5:.1f}" y="{y + 26}" fill="#fff">{seconds:.2f} s</text>')
            x += width
        parts.append(f'<text x="{left + wide + 8}" y="{y + 26}">{total:.2f} s</text>')
    return "\n".join([*parts, "</svg>", ""])


def _load(what: str) -> str:
    """What a line is about, in a word or two."""
    return what.partition("seconds go, ")[2] or "first load"


def _opened(title: str, width: float, height: float) -> list[str]:
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" font-family="sans-serif" '
        f'font-size="12" role="img"><title>{escape(title)}</title>',
        f'<rect width="{width:g}" height="{height:g}" fill="#fff"/>',
        f'<text x="12" y="24" font-size="16">{escape(title)}</text>',
    ]


def main() -> None:
    """Draw both."""
    lines = list(figures((FOLDER / "benchmarks.md").read_text(encoding="utf-8")))
    (FOLDER / "figures-beside-limits.svg").write_text(beside_limits(lines), encoding="utf-8")
    (FOLDER / "where-seconds-go.svg").write_text(where_seconds_go(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
