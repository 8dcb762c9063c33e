"""A history of many thousand loads, in this process: what a gate, its memory and its files cost at its end.

``python -m benchmarks.long_history --loads 20000`` takes about half an hour. The gate after the first hundred loads and
the one after all of them are timed in turn, on a copy of the state as it was then; memory is that of a process of its
own which applies one load.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.lines import Line, say
from dc_engine.apply_load import apply_load
from dc_engine.maintain import maintain
from dc_engine.state.snapshots import newest_number, snapshot_path
from dc_engine.state.storage import Storage
from tests.inprocess import Session, Source

ROWS = 20
FEW = 100
RULES = {
    "version": 1,
    "table": "people",
    "key": ["id"],
    "constraints": [
        {"name": "zip_decides_city", "fd": "zip -> city"},
        {"name": "rate_follows_pay", "deny": "t.day = s.day and t.pay > s.pay and t.rate < s.rate"},
    ],
}
TYPES = {"id": "bigint", "zip": "string", "city": "string", "day": "bigint", "pay": "bigint", "rate": "bigint"}
CHANGE = {"_change_type": "string"}


class History:
    """A state that loads of twenty rows are applied to; every tenth deletes two rows of the load before.

    Both rules relate a new row to few others, however many there are: what grows is the history, not the blocks.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed, self.session = folder, seed, Session()

    def apply(self, number: int, folder: Path | None = None, city: str = "") -> float:
        """Apply a load, and say how long that took."""
        chance = np.random.default_rng((self.seed, number))
        ids = np.arange(number * ROWS, (number + 1) * ROWS)
        zips, pay = chance.integers(0, 30_000, ROWS), chance.integers(1_000, 9_000, ROWS)
        columns = {
            "id": pa.array(ids),
            "zip": pa.array([f"{one:05d}" for one in zips]),
            "city": pa.array([f"{city}{one // 10}" for one in zips]),
            "day": pa.array(np.full(ROWS, number // 10)),
            "pay": pa.array(pay),
            "rate": pa.array(pay // 100),
        }
        table, types = pa.table(columns), TYPES
        if number % 10 == 9:
            gone = pa.table({name: pa.nulls(2, table.schema.field(name).type) for name in TYPES})
            gone = gone.set_column(0, "id", pa.array(ids[:2] - ROWS))
            kinds = pa.array(["insert"] * ROWS + ["delete"] * 2)
            table, types = pa.concat_tables([table, gone]).append_column("_change_type", kinds), TYPES | CHANGE
        self.session.sources["load"] = Source(table, types)
        state = str(folder or self.folder)
        request = {"state": state, "load_id": f"load {number}", "changes": {"path": "load"}, "constraints": RULES}
        started = time.perf_counter()
        apply_load(self.session, request)
        return time.perf_counter() - started

    def maintain(self, action: str, **more: Any) -> float:
        started = time.perf_counter()
        done = maintain(self.session, action, {"state": str(self.folder), **more})
        if done.get("problems"):
            raise SystemExit(f"{action}: {done['problems']}")
        return time.perf_counter() - started


def peak(folder: Path, seed: int, number: int) -> float:
    """The most memory, in MiB, that a process takes which applies one load, as a task's does."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.long_history",
        "--seed",
        str(seed),
        "--apply",
        str(number),
        str(folder),
    ]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def long_history(folder: Path, seed: int, loads: int, few: int = FEW) -> list[Line]:
    """All of it, against the state after a few loads."""
    history = History(folder / "state", seed)
    early = folder / "early"
    for number in range(loads):
        history.apply(number)
        if number + 1 == few:
            shutil.copytree(history.folder, early)
        if (number + 1) % 1_000 == 0:
            say(f"{number + 1:,} loads")
    after_few, after_all = [], []
    for turn in range(11):
        after_few.append(history.apply(10 * (loads + turn), early))
        after_all.append(history.apply(10 * (loads + turn)))
    young, old = statistics.median(after_few), statistics.median(after_all)
    small, large = (peak(one, seed, 10 * (loads + 20)) for one in (early, history.folder))
    storage = Storage(str(history.folder))
    snapshot = storage.size(snapshot_path(newest_number(storage) or 0)) or 0
    size = sum(one.size for one in storage.files()) / loads
    what = f"after {loads:,} loads of {ROWS} rows"
    return [
        _at_most(f"a gate {what}", f"{1000 * old:.0f} ms, after {few} {1000 * young:.0f} ms", old / young, 1.3),
        _at_most(f"memory {what}", f"{large:.0f} MiB, after {few} {small:.0f} MiB", large / small, 1.2),
        Line(
            f"a snapshot {what}",
            f"the whole folder has {size / 1024:.0f} KB a load",
            f"{snapshot / 1024:.0f} KB",
            "under 200 KB",
            snapshot < 200 * 1024,
        ),
        *_lines(history, loads, what),
    ]


def _lines(history: History, loads: int, what: str) -> list[Line]:
    """What else can be asked for, each in seconds."""
    deeds: dict[str, Callable[[], float]] = {
        "the same load again, one of the first": lambda: history.apply(3),
        "replacing one of the first loads": lambda: history.apply(5, city="x"),
        "taking one of the first loads out": lambda: history.maintain("retract", load_id="load 7"),
        "taking out one from the middle": lambda: history.maintain("retract", load_id=f"load {loads // 2}"),
        "describe": lambda: history.maintain("describe"),
        "compact": lambda: history.maintain("compact"),
        "vacuum": lambda: history.maintain("vacuum", keep_snapshots=1, grace_hours=0),
        "verify": lambda: history.maintain("verify"),
    }
    return [Line(f"{name}, {what}", "", f"{deed():.2f} s", "", True) for name, deed in deeds.items()]


def _at_most(what: str, measured: str, ratio: float, most: float) -> Line:
    return Line(what, measured, f"{ratio:.2f} times", f"at most {most}", ratio <= most)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loads", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--apply", nargs=2, metavar=("NUMBER", "FOLDER"), help="one load on a state, in this process")
    options = parser.parse_args()
    if options.apply:
        number, state = options.apply
        History(Path(state), options.seed).apply(int(number))
        (most,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
        print(int(most) / 1024)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        for line in long_history(Path(folder), options.seed, options.loads):
            print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
