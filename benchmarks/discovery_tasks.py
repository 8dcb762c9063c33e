"""A large search in the driver's threads against Spark's workers: ``python -m benchmarks.discovery_tasks``.

Both have the same processors here, so nothing is to be gained: what is measured is what sharing out costs. The sets and
patterns that both find are compared; a difference ends the benchmark with an error.
"""

from __future__ import annotations

import sys
import time
from statistics import median

import numpy as np

from benchmarks.discovery import ORDERED, SEED, TWELVE, Table
from benchmarks.lines import Line, say
from benchmarks.submit import session
from dc_engine.discovery.keeping import found
from dc_engine.discovery.known import COUNTED, WITNESSED, Known
from dc_engine.discovery.space import Asked, Limits
from dc_engine.discovery.spreading import Workers, nobody
from dc_engine.engines.spark import SparkEngine
from dc_engine.engines.work import searchers


def discovery_tasks(seed: int = SEED, share: float = 1, rounds: int = 3) -> list[Line]:
    """Lines of the table, with a share of the rows: all pairs, and keys and rules of a longer table."""
    pairs = Table(int(100_000 * share), 1, TWELVE, Asked(classes=("dc",), ordered=ORDERED), seed)
    rules = Table(int(1_000_000 * share), 1, (), Asked(exclude=("id",), limits=Limits(max_terms=4)), seed)
    spark = session()
    workers = searchers(SparkEngine(lambda: spark, "spark"))
    lines = [
        _line("all pairs", pairs, COUNTED, workers, rounds),
        _line("keys and rules, up to 4 comparisons", rules, WITNESSED, workers, rounds),
    ]
    spark.stop()
    return lines


def _line(what: str, table: Table, mode: str, workers: Workers, rounds: int) -> Line:
    rows = table.first()
    seconds: dict[str, list[float]] = {}
    for name, who in (("driver", nobody), ("workers", workers)):  # numba, and Spark's workers, are started first
        found(table.space, rows.chosen(np.arange(min(3_000, len(rows.ids)))), mode, workers=who)
        seconds[name] = []
    for _ in range(rounds):
        results = {}
        for name, who in (("driver", nobody), ("workers", workers)):
            started = time.perf_counter()
            results[name] = found(table.space, rows, mode, workers=who)
            seconds[name].append(time.perf_counter() - started)
            say(f"{what}, {name}: {seconds[name][-1]:.1f} s")
        _same(results["driver"], results["workers"])
    driver, shared = (median(some) for some in seconds.values())
    data = f"{len(rows.ids):,} tax rows x {len(table.space.columns)} columns, seed {SEED}"
    text = f"driver {driver:.1f} s, `local[2]` workers {shared:.1f} s (medians of {rounds})"
    return Line(f"{what}, {data}", text, f"{shared / driver:.2f} times", "at most 1.5", shared <= 1.5 * driver)


def _same(one: Known, other: Known) -> None:
    lines = all(np.array_equal(getattr(one.store, name), getattr(other.store, name)) for name in ("patterns", "pairs"))
    if one.sets != other.sets or not lines:
        raise SystemExit("Workers find other dependencies than the driver.")


if __name__ == "__main__":
    print("| what | measured | result | limit | met |\n| --- | --- | --- | --- | --- |")
    print("\n".join(map(str, discovery_tasks(share=float(sys.argv[1]) if len(sys.argv) > 1 else 1))))
