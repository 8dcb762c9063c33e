"""What it costs to show a verdict in Great Expectations, beyond importing Great Expectations itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.lines import Line, say

TABLES = ("tax", "people", "orders")
RULES = 20
EXAMPLES = 20
# In a process of its own, as the task: its import of Great Expectations is timed apart.
TIMED = """
import json, sys, time
start = time.perf_counter()
import great_expectations
imported = time.perf_counter()
from airflow_dc_provider.checkpoints.export import export_checkpoint
exported = export_checkpoint(json.load(open(sys.argv[1])), sys.argv[2])
assert not exported.repeated and not exported.success
print(imported - start, time.perf_counter() - imported)
"""


def verdict(table: str, number: int) -> dict[str, Any]:
    """A verdict with many rules, each of them broken and with as many examples as a verdict has at most."""
    side = {"row": {"id": number}, "values": {f"column_{n}": f"value {n}" for n in range(4)}, "rows": 3}
    rule = {
        "kind": "fd",
        "formula": "not (t.zip = s.zip and t.city != s.city)",
        "severity": "error",
        "passed": False,
        "new_violations": 1_000,
        "removed_violations": 0,
        "total_violations": 1_000,
        "violating_rows": 900,
        "skipped_null_rows": 0,
        "max_new_violations": 0,
        "samples": [{"t": side, "s": side}] * EXAMPLES,
        "worst_rows": [{"row": {"id": n}, "violations": 9} for n in range(EXAMPLES)],
    }
    return {
        "schema_version": 1,
        "table": table,
        "load_id": f"load {number}",
        "snapshot": number,
        "replayed": False,
        "decision": "fail",
        "rows": {"inserted": 1_000, "deleted": 0, "total": 1_000 * number},
        "constraints": [{"name": f"rule_{n}", **rule} for n in range(RULES)],
        "dependencies": {},
        "seconds": {"total": 1.0},
    }


def checkpoints(folder: Path, rounds: int, loads: int) -> list[Line]:
    """One more export to a context with a history of several tables, against the first one."""
    context = folder / "quality"
    first = _exports(folder, context, [1])
    _fill(context, loads)
    later = _exports(folder, context, range(loads + 2, loads + 2 + rounds))
    imports, exports = (median(column) for column in zip(*later, strict=True))
    say(f"checkpoints: import {imports:.1f} s, export {exports:.2f} s, the first {first[0][1]:.2f} s")
    measured = (
        f"{exports:.2f} s (median of {rounds}) after {loads} loads of each of {len(TABLES)} tables, the first "
        f"{first[0][1]:.2f} s; importing Great Expectations {imports:.1f} s"
    )
    what = f"export of a verdict with {RULES} broken rules to Data Docs"
    return [Line(what, measured, f"{exports:.2f} s", "at most 1 s", exports <= 1)]


def _exports(folder: Path, context: Path, numbers: Any) -> list[tuple[float, float]]:
    found = []
    for number in numbers:
        document = folder / "verdict.json"
        document.write_text(json.dumps(verdict(TABLES[0], number)))
        command = [sys.executable, "-c", TIMED, str(document), str(context)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        imported, exported = done.stdout.split()[-2:]
        found.append((float(imported), float(exported)))
    return found


def _fill(context: Path, loads: int) -> None:
    """All earlier loads, in one process."""
    script = (
        "import sys; from benchmarks.checkpoints import TABLES, verdict;"
        "from airflow_dc_provider.checkpoints.export import export_checkpoint;"
        "[export_checkpoint(verdict(table, number), sys.argv[1])"
        " for number in range(2, int(sys.argv[2]) + 2) for table in TABLES]"
    )
    command = [sys.executable, "-c", script, str(context), str(loads)]
    subprocess.run(command, capture_output=True, check=True, cwd=Path(__file__).parents[1])
