"""The review pages on a large state: many loads, violations and dependencies. Seconds to the first byte, and sizes.

``python -m benchmarks.pages`` takes about six minutes, most of them to make the state. An API server runs, and is asked
as a browser asks it: Airflow's own part (who asks, and what its task has recorded) is in the numbers. The first page
of the table, the first time, is the first page after the start of the server; all pages have to be as fast the first
time as later.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from fastapi.testclient import TestClient

from airflow_dc_provider.pages import access, routes
from airflow_dc_provider.pages.app import pages
from benchmarks.lines import Line, say
from benchmarks.long_history import RULES, History
from benchmarks.server import IDS, server
from dc_engine.apply_load import apply_load
from dc_engine.discover import discover
from dc_engine.reviewing import known_dependencies
from dc_engine.state.snapshots import read_current
from dc_engine.state.storage import Storage
from tests.inprocess import Source

LOADS, VIOLATIONS, DEPENDENCIES = 2_000, 1_000_000, 5_000
SECONDS, BYTES = 0.3, 200_000
_ROUNDS = 7
_COLUMNS = 14
_OPENING = 3
"""Seconds after the start of the server at which the first page is asked for: someone has to log in and find it."""
_GROWTH = 400
"""MB: how much more memory the server may take after all pages."""
Ask = Callable[[str, dict[str, Any]], tuple[float, int]]
"""Asks for a page; the seconds to its first byte, and its bytes."""


def review_pages(folder: Path, seed: int, share: float = 1, *, served: bool = False) -> list[Line]:
    """Make the state, and look at every page of it: in this process, or in an API server that runs."""
    many, wide = folder / "many", folder / "wide"
    listed = _many_loads(many, seed, int(LOADS * share), int(VIOLATIONS * share))
    known = _many_dependencies(wide, seed, max(int(60 * share), 20))
    rule = {"load_id": "wrong", "constraint": "zip_decides_city"}
    looked = {
        "verdict of a load": ("many", "verdict", {"load_id": "wrong"}),
        "its violations, the first page": ("many", "pairs", rule),
        "its violations, the last page": ("many", "pairs", {**rule, "number": (listed - 1) // routes.PAIRS}),
        "history, the newest loads": ("many", "history", {}),
        "history, the oldest loads": ("many", "history", {"number": 10**6}),
        f"{len(known):,} dependencies": ("wide", "dependencies", {}),
        f"{len(known):,} dependencies, a search": ("wide", "dependencies", {"search": "c1 c2", "sort": "text"}),
        "one of them": ("wide", "dependency", {"dependency_id": known[-1]}),
    }
    state = f"{int(LOADS * share):,} loads, {listed:,} listed violations"
    states = {"many": many, "wide": wide}
    if not served:
        return _lines(_here(states), looked, state)
    with server(folder / "airflow", states) as running:
        before = running.memory
        time.sleep(_OPENING)
        lines = _lines(running.get, looked, state)
        after = running.memory
        again = _lines(running.get, looked, state)
        return [*lines, _memory_line(before, after, running.memory, len(again))]


def _memory_line(before: float, after: float, later: float, pages: int) -> Line:
    times = pages * (1 + _ROUNDS)
    measured = f"{before:.0f} MB before, {after:.0f} MB after {times} pages, {later:.0f} MB after {2 * times}"
    limit = f"at most {_GROWTH} MB more"
    return Line("memory of the API server", measured, f"{later - before:+.0f} MB", limit, later - before <= _GROWTH)


def _here(states: Mapping[str, Path]) -> Ask:
    """Pages made in this process, as Airflow's API server makes them but for Airflow's own part."""
    app = pages()
    app.dependency_overrides[access._readable_dag] = lambda dag_id: dag_id
    client = TestClient(app)

    def ask(page: str, query: dict[str, Any]) -> tuple[float, int]:
        with patch.object(routes, "recorded_by", lambda *ids: access.Recorded(*ids, "failed", str(states[ids[0]]))):
            started = time.perf_counter()
            answer = client.get(f"/{page}", params=query)
        answer.raise_for_status()
        return time.perf_counter() - started, len(answer.content)

    return ask


def _many_loads(folder: Path, seed: int, loads: int, violations: int) -> int:
    """A state of many small loads, and one that breaks a rule very often; how many of its violations are listed."""
    history = History(folder, seed)
    for number in range(loads - 1):
        history.apply(number)
        if number % 500 == 499:
            say(f"pages: {number + 1:,} loads")
    rows = int((8 * violations) ** 0.5) + 8
    ids = np.arange(10**9, 10**9 + rows)
    columns = {
        "id": pa.array(ids),
        "zip": pa.array(["wrong"] * rows),
        "city": pa.array([f"city {one // 2}" for one in range(rows)]),
        "day": pa.array(ids),
        "pay": pa.array(ids),
        "rate": pa.array(ids),
    }
    history.session.sources["load"] = Source(pa.table(columns), {name: history_type(name) for name in columns})
    request = {"state": str(folder), "load_id": "wrong", "changes": {"path": "load"}, "constraints": RULES}
    verdict = apply_load(history.session, {**request, "max_listed": violations})
    broken = verdict.constraints[0]
    found = next(one for one in read_current(Storage(str(folder))).recent if one.load_id == "wrong")
    listed = sum(one.rows for one in found.files if one.kind == "violations")
    say(f"pages: {broken.new_violations:,} violations, {listed:,} listed")
    return listed


def history_type(name: str) -> str:
    return "string" if name in ("zip", "city") else "bigint"


def _many_dependencies(folder: Path, seed: int, rows: int) -> list[str]:
    """A state with thousands of dependencies; their ids."""
    chance = np.random.default_rng(seed)
    history = History(folder, seed)
    names = [f"c{place}" for place in range(_COLUMNS)]
    columns = {name: pa.array(chance.integers(0, 4, rows)) for name in names}
    history.session.sources["load"] = Source(pa.table(columns), dict.fromkeys(names, "bigint"))
    rules = {"version": 1, "table": "wide", "constraints": []}
    table = {"path": "load"}
    discover(
        history.session,
        {"state": str(folder), "table": table, "classes": ["unique", "fd"], "constraints": rules, "load_id": "first"},
    )
    storage = Storage(str(folder))
    known = known_dependencies(storage, read_current(storage))
    say(f"pages: {len(known.holding):,} dependencies")
    return [one.id for one in known.holding]


def _lines(ask: Ask, looked: Mapping[str, tuple[str, str, dict[str, Any]]], state: str) -> list[Line]:
    return [_line(ask, what, state, *where) for what, where in looked.items()]


def _line(ask: Ask, what: str, state: str, of_state: str, name: str, query: dict[str, Any]) -> Line:
    (first, size), *more = [ask(name, {"dag_id": of_state, **IDS, **query}) for _ in range(1 + _ROUNDS)]
    seconds = statistics.median(taken for taken, _ in more)
    say(f"pages: {what} {seconds * 1000:.0f} ms (the first time {first * 1000:.0f} ms), {size:,} bytes")
    measured = f"{state if of_state == 'many' else 'a state of its own'}; "
    measured += f"the first time {first * 1000:.0f} ms; {size / 1000:.0f} KB"
    limit = f"at most {SECONDS * 1000:.0f} ms, also the first time, {BYTES // 1000} KB"
    met = max(first, seconds) <= SECONDS and size <= BYTES
    return Line(f"page: {what}", measured, f"{seconds * 1000:.0f} ms", limit, met)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--share", type=float, default=1)
    given = parser.parse_args()
    logging.disable(logging.INFO)
    with tempfile.TemporaryDirectory(prefix="dc-pages-") as folder:
        lines = review_pages(Path(folder), given.seed, given.share, served=True)
    print("\n".join(map(str, lines)))
    return 0 if all(line.met for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
