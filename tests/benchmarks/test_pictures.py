"""The pictures of the benchmarks show what the tables beside them say."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
SCRIPT = runpy.run_path(str(DOCS / "benchmark_plots.py"))


@pytest.mark.parametrize(
    ("name", "draw"), [("figures-beside-limits", "beside_limits"), ("where-seconds-go", "where_seconds_go")]
)
def test_a_picture_is_drawn_from_the_tables_as_they_are(name: str, draw: str) -> None:
    lines = list(SCRIPT["figures"]((DOCS / "benchmarks.md").read_text(encoding="utf-8")))
    again = f"Run python docs/benchmark_plots.py: {name}.svg is not what the tables say."
    assert (DOCS / f"{name}.svg").read_text(encoding="utf-8") == SCRIPT[draw](lines), again


def test_a_figure_uses_its_limit_from_below_or_from_above() -> None:
    def share(result: str, limit: str) -> float | None:
        return SCRIPT["Figure"]("", "", "", result, limit).share

    assert share("1.50 times", "at most 2") == 0.75
    assert share("20 times faster", "the same; at least 10") == 0.5
    assert share("100,000 rows/s", "at least 200,000") == 2
    assert share("equal", "equal") is None
