"""A table too long for a driver's memory as values: ``python -m benchmarks.large [ROWS]`` prints its table.

Everything runs by ``spark-submit`` on two processors: a discovery without a state, one with a state, loads onto it, and
more of these as if it were too large for the codes of its rows.
The memory is that of all its processes together: Java, the driver and the workers. On a machine that others use too,
processor time says more than the clock.
"""

from __future__ import annotations

import sys
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks.lines import Line, say
from benchmarks.submit import Finished, submit_request
from dags_examples.tax_data import tax_table
from dc_engine.shipping import build_engine_zip

SEED = 7
ROWS = 10_000_000
COLUMNS = ("area_code", "phone", "zip", "city", "state", "has_child", "salary", "rate")
ASKED: dict[str, Any] = {"classes": ["unique", "fd", "od"], "limits": {"max_terms": 5}}
"""Also two columns that go together, within up to three."""
GIB = 2**30
MOST_GIB = 6
JAVA = {"spark.driver.memory": "1g"}
_PART = 500_000
_LOAD = 1_000


@dataclass(frozen=True, slots=True)
class _Run:
    """Where a run has its files."""

    folder: Path
    engine: Path
    rows: int

    def table(self, name: str, rows: int, first_id: int = 1) -> dict[str, str]:
        """Rows in Parquet files, made part by part."""
        target = self.folder / name
        target.mkdir()
        for first in range(0, rows, _PART):
            part = tax_table(min(_PART, rows - first), seed=SEED, first_id=first_id + first)
            pq.write_table(part.select(list(COLUMNS)), target / f"{first:010}.parquet")
        return {"format": "parquet", "path": str(target)}

    def submit(self, job: str, request: Mapping[str, Any]) -> tuple[Finished, dict[str, Any]]:
        """Run a job: how it went, and what it answers."""
        return submit_request(self.folder, request, self.engine, job, conf=JAVA)


def large(folder: Path, engine: Path, rows: int = ROWS) -> list[Line]:
    """Lines of the table."""
    run = _Run(folder, engine, rows)
    say(f"{rows:,} rows are generated")
    table = run.table("large", rows)
    state = str(folder / "large-state")
    data = f"{rows:,} tax rows x {len(COLUMNS)} columns, seed {SEED}"
    runs = {
        "unique, fd, and od within up to 3 columns": ASKED,
        "the same, kept in a state": {**ASKED, "state": state},
    }
    lines = []
    for name, asked in runs.items():
        finished, answer = run.submit("discover", {"table": table, **asked})
        found = ", ".join(f"{_number(answer, kind):,} {kind}" for kind in asked["classes"])
        lines.append(_line(f"{name}, {data}", f"{found}; {_steps(answer)}", finished, _limit(rows)))
    larger = replace(run, engine=_of_small_drivers(folder, engine))
    runs_of_loads = {
        "by codes, which are made": (run, 20e-6),
        "by codes": (run, 5e-6),
        "as onto a larger state": (larger, 20e-6),
        "by indexes, which are made": (larger, 100e-6),
        "by indexes": (larger, 5e-6),
    }
    for number, (name, (mine, each)) in enumerate(runs_of_loads.items(), 1):
        more = run.table(f"more-{number}", _LOAD, rows + 1 + number * _LOAD)
        request = {"state": state, "load_id": str(1 + number), "changes": more, "constraints": _rules()}
        finished, verdict = mine.submit("apply_load", request)
        told = verdict["dependencies"]
        found = ", ".join(f"{number:,} {kind}" for kind, number in told["valid"].items())
        measured = f"{len(told['invalidated']):,} lost, {found} hold now; {_steps(verdict)}"
        lines.append(_line(f"{_LOAD:,} rows more, {name}", measured, finished, _limit(rows, each)))
    return lines


def _of_small_drivers(folder: Path, engine: Path) -> Path:
    """The engine with a size changed, so that it leaves the rows of smaller tables where they are when loads come."""
    target, name, size = folder / f"larger-{engine.name}", "dc_engine/sizes.py", "load_cells: int = "
    with zipfile.ZipFile(engine) as whole, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as changed:
        for one in whole.namelist():
            content = whole.read(one).decode()
            assert one != name or size in content
            changed.writestr(one, content.replace(size, f"{size}0 * ") if one == name else content)
    return target


def _rules() -> dict[str, Any]:
    return {"version": 1, "table": "large", "constraints": []}


def _number(answer: Mapping[str, Any], kind: str) -> int:
    return sum(one["class"] == kind for one in answer["dependencies"])


def _steps(answer: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {seconds:.1f} s" for name, seconds in answer["seconds"].items() if seconds >= 0.05)


def _limit(rows: int, each: float = 20e-6) -> float:
    """Seconds that are allowed: to start, and for each row."""
    return 20 + rows * each


def _line(what: str, measured: str, finished: Finished, seconds: float) -> Line:
    peak = finished.peak_bytes / GIB
    cpu = ", ".join(f"{who} {seconds:.0f} s" for who, seconds in sorted(finished.cpu.items()))
    measured = f"{measured}; processors: {cpu}"
    say(f"{what}: {finished.seconds:.1f} s, {peak:.2f} GiB; {measured}")
    met = finished.seconds <= seconds and peak <= MOST_GIB
    limit = f"at most {seconds:.0f} s and {MOST_GIB} GiB"
    return Line(what, measured, f"{finished.seconds:.1f} s, {peak:.2f} GiB", limit, met)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="large-benchmark-") as name:
        found = large(Path(name), build_engine_zip(Path(name)), int(sys.argv[1]) if len(sys.argv) > 1 else ROWS)
    print("| what | measured | result | limit | met |\n| --- | --- | --- | --- | --- |")
    print(*found, sep="\n")
