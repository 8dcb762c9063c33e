"""What could get out of hand: many inequalities in one block, long values, a quarantine of a load that is all wrong."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.lines import Line, say
from benchmarks.submit import session, submit_request
from dc_engine.apply_load import apply_load

GIB = 2**30
TEXT_BYTES = 1_024


def bounds(folder: Path, engine: Path, seed: int, share: float = 1) -> list[Line]:
    """All three, with a share of the rows and rules."""
    chance = np.random.default_rng(seed)
    lines = long_values(folder, engine, chance, int(200_000 * share))
    spark = session()
    lines.append(three_inequalities(spark, folder, chance, int(300_000 * share)))
    lines.append(all_wrong(spark, folder, chance, int(1_000_000 * share), max(int(20 * share), 3)))
    spark.stop()
    return lines


def _request(folder: Path, name: str, rules: list[dict[str, str | list[str]]], rows: pa.Table) -> dict[str, Any]:
    path = folder / f"{name}.parquet"
    pq.write_table(rows, path, row_group_size=131_072)
    constraints = {"version": 1, "table": name, "constraints": rules}
    changes = {"path": str(path)}
    return {"state": str(folder / f"{name}_state"), "load_id": name, "changes": changes, "constraints": constraints}


def long_values(folder: Path, engine: Path, chance: np.random.Generator, rows: int) -> list[Line]:
    """A load of long texts in a process tree of its own: seconds and memory."""
    letters = chance.integers(97, 123, rows * TEXT_BYTES, dtype=np.uint8)
    ends = np.arange(0, (rows + 1) * TEXT_BYTES, TEXT_BYTES, dtype=np.int32)
    texts = pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(ends), pa.py_buffer(letters)])
    rules: list[dict[str, str | list[str]]] = [
        {"name": "decides", "fd": "text -> x"},
        {"name": "is_unique", "unique": ["text"]},
        {"name": "ordered", "deny": "t.text < s.text and t.x > s.x"},
    ]
    table = pa.table({"text": texts, "x": chance.integers(0, 10**6, rows)})
    finished, verdict = submit_request(folder, _request(folder, "texts", rules, table), engine)
    seconds, peak = verdict["seconds"]["total"], finished.peak_bytes / GIB
    say(f"bounds: long values {seconds:.1f} s, {peak:.2f} GiB")
    what = f"{rows:,} texts of 1 KB in three rules"
    return [
        Line(what, "the load, by `spark-submit`", f"{seconds:.1f} s", "at most 15 s", seconds <= 15),
        Line(f"{what}, memory", "peak of JVM, driver and workers", f"{peak:.2f} GiB", "at most 2 GiB", peak <= 2),
    ]


def three_inequalities(spark: SparkSession, folder: Path, chance: np.random.Generator, rows: int) -> Line:
    """A load without any equality, in which one pair of rows in four violates."""
    table = pa.table({name: chance.integers(0, 10 * rows, rows) for name in "abc"})
    rules: list[dict[str, str | list[str]]] = [{"name": "three", "deny": "t.a < s.a and t.b > s.b and t.c < s.c"}]
    apply_load(spark, _request(folder, "few", rules, table.slice(0, 10_000)))  # numba compiles once per machine
    request = _request(folder, "three", rules, table)
    started = time.monotonic()
    verdict = apply_load(spark, request).to_dict()
    seconds = time.monotonic() - started
    found = verdict["constraints"][0]["new_violations"]
    say(f"bounds: three inequalities {seconds:.1f} s, {found:,} violations")
    what = f"three inequalities in one block of {rows:,} rows"
    return Line(what, f"the load; {found:,} violations", f"{seconds:.1f} s", "at most 10 s", seconds <= 10)


def all_wrong(spark: SparkSession, folder: Path, chance: np.random.Generator, rows: int, rules: int) -> Line:
    """The quarantine of a load in which nearly every row breaks every rule."""
    columns = {"id": np.arange(rows)}
    for one in range(rules):
        columns |= {f"g{one}": chance.integers(0, rows // 100, rows), f"v{one}": chance.integers(0, 3, rows)}
    fds: list[dict[str, str | list[str]]] = [{"name": f"fd{one}", "fd": f"g{one} -> v{one}"} for one in range(rules)]
    request = _request(folder, "wrong", fds, pa.table(columns)) | {"quarantine": str(folder / "quarantine")}
    verdict = apply_load(spark, request).to_dict()
    seconds, written = verdict["seconds"], verdict["quarantine"]
    worst = max(one["violating_rows"] for one in verdict["constraints"])
    if written["violating_rows"] < worst or written["violating_rows"] + written["clean_rows"] != rows:
        raise SystemExit(f"The quarantine has {written}, and a rule of {rows:,} rows is broken by {worst:,}.")
    say(f"bounds: quarantine {seconds}")
    measured = f"{written['violating_rows']:,} violating rows; the check before it {seconds['probe']:.1f} s"
    what = f"quarantine of {rows:,} rows with {rules} broken rules"
    return Line(what, measured, f"{seconds['quarantine']:.1f} s", "at most 90 s", seconds["quarantine"] <= 90)
