"""How the cost of a gate grows: with the table, the rules, the damage, the cores and the workers.

``python -m benchmarks.scale [--rows 10000000] [PART ...]`` prints its table. Rows in place are a tenth of ``--rows``
and all of them. Both sides of a ratio are taken in one run. DuckDB is compared with where it is installed
(``pip install duckdb``). Bytes are those that a process reads which remembers nothing, seconds those of a warm session.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.joins import BODIES
from benchmarks.lines import Line, say
from benchmarks.scaled import (
    GIB,
    INEQUALITIES,
    LOAD_ROWS,
    ROWS,
    SEED,
    TAX,
    TEN,
    Reads,
    Run,
    counted_reads,
    many_rules,
    pay_table,
    wide_table,
)
from benchmarks.submit import session
from dags_examples.tax_data import tax_table
from dc_engine.apply_load import apply_load
from dc_engine.shipping import build_engine_zip


def first_load(run: Run) -> list[Line]:
    """The table as one load, small and large, each in a process tree of its own."""
    speeds, finished = [], None
    for rows in (run.rows // 10, run.rows):
        finished, verdict = run.submit(run.request(f"tax-{rows}", run.table("tax", rows), TAX))
        speeds.append(rows / verdict["seconds"]["total"])
        steps = ", ".join(f"{name} {spent:.1f}" for name, spent in verdict["seconds"].items())
        say(f"first load: {rows:,} rows, {speeds[-1]:,.0f} rows/s; {steps}; {finished.cpu}")
    assert finished is not None
    peak = finished.peak_bytes / GIB
    what, cpu = f"first load, {run.rows:,} rows", ", ".join(f"{a} {b:.0f} s" for a, b in sorted(finished.cpu.items()))
    slower = speeds[0] / speeds[1]
    return [
        Line(what, f"{steps} s; processors: {cpu}", f"{speeds[1]:,.0f} rows/s", "at least 200,000", speeds[1] >= 2e5),
        Line(f"{what}, time of a row", f"against {run.rows // 10:,} rows", f"{slower:.2f} times", "1.2", slower <= 1.2),
        Line(f"{what}, memory", "peak of JVM, driver and workers", f"{peak:.2f} GiB", "under 4 GiB", peak < 4),
    ]


def table_scale(run: Run, rounds: int) -> list[Line]:
    """The same loads on a tenth of the table and on all of it."""
    spark, lines = session(), []
    for name, make, rules in (("tax", tax_table, TAX), ("pay", pay_table, INEQUALITIES)):
        seconds: dict[int, list[float]] = defaultdict(list)
        reads: dict[int, Reads] = {}
        sizes = (run.rows // 10, run.rows)
        for rows in sizes:
            if not (run.folder / f"{name}-{rows}").exists():
                apply_load(spark, run.request(f"{name}-{rows}", run.table(name, rows, make=make), rules))
        for turn in range(rounds + 2):
            for rows in sizes:
                load = run.table(name, LOAD_ROWS, run.rows + 1 + turn * LOAD_ROWS, make)
                request = run.request(f"{name}-{rows}", load, rules)
                if turn > rounds:
                    with counted_reads() as reads[rows]:
                        apply_load(spark, request)
                    continue
                started = time.monotonic()
                verdict = apply_load(spark, request).to_dict()
                seconds[rows].append(time.monotonic() - started)
                say(f"{name}, {rows:,}: {seconds[rows][-1]:.2f} s {verdict['seconds']}")
        small, large = (median(seconds[rows][1:]) for rows in sizes)
        lines += _scale_lines(
            f"{', '.join(one['name'] for one in rules)}: {sizes[1]:,} rows in place",
            small,
            large,
            max(seconds[sizes[1]][1:]),
            reads[sizes[0]],
            reads[sizes[1]],
            sizes[0],
        )
        if name == "tax" and importlib.util.find_spec("duckdb"):
            lines.append(beside_duckdb(run, small, rounds))
    spark.stop()
    return lines


def _scale_lines(what: str, small: float, large: float, worst: float, few: Reads, many: Reads, rows: int) -> list[Line]:
    ratio, read = large / small, many.bytes / max(few.bytes, 1)
    measured = f"{large:.2f} s (the slowest {worst:.2f} s), {small:.2f} s with {rows:,}"
    bytes_ = f"{many.bytes / 1e6:.1f} MB in {many.groups:,} row groups, {few.bytes / 1e6:.1f} MB in {few.groups:,}"
    return [
        Line(f"{what}, {LOAD_ROWS:,} more, warm", measured, f"{ratio:.2f} times", "at most 1.5", ratio <= 1.5),
        Line(f"{what}, bytes of indexes read", bytes_, f"{read:.2f} times", "at most 2", read <= 2),
    ]


def beside_duckdb(run: Run, gate: float, rounds: int) -> Line:
    """The joins of the same loads by DuckDB, its table in memory."""
    import duckdb

    rows = run.rows // 10
    connection = duckdb.connect()
    connection.execute("set threads = 2")
    connection.execute(f"create table old as from read_parquet('{run.table('tax', rows)}/*.parquet')")
    seconds = []
    for turn in range(rounds + 1):
        load = run.table("tax", LOAD_ROWS, run.rows + 1 + turn * LOAD_ROWS)
        started = time.monotonic()
        connection.execute(f"create or replace table new as from read_parquet('{load}/*.parquet')")
        for body in BODIES.values():
            connection.execute(f"select count(*) from new t join old s on {body}").fetchall()
            connection.execute(f"select count(*) from new t join new s on {body} and s.id < t.id").fetchall()
        seconds.append(time.monotonic() - started)
    ratio = median(seconds[1:]) / gate
    measured = f"gate {gate:.2f} s, DuckDB {duckdb.__version__} {median(seconds[1:]):.2f} s (2 threads)"
    what = f"warm, {LOAD_ROWS:,} rows on {rows:,}, beside DuckDB in memory"
    return Line(what, measured, f"{ratio:.1f} times faster", "at least 1", ratio >= 1)


def rule_scale(run: Run, rounds: int) -> list[Line]:
    """Few and many rules on the same rows, in turn; and how much ten indexes take."""
    spark, rows = session(), run.rows // 50
    cases = {"few": many_rules(10, 10), "many": many_rules(100, 30)}
    seconds: dict[str, list[float]] = defaultdict(list)
    for turn in range(rounds + 2):
        load = run.folder / f"wide-{turn}.parquet"
        pq.write_table(wide_table(LOAD_ROWS if turn else rows, 30, SEED + turn), load)
        for name, rules in cases.items():
            started = time.monotonic()
            verdict = apply_load(spark, run.request(f"wide-{name}", load, rules)).to_dict()
            seconds[name].append(time.monotonic() - started)
            say(f"{name} rules: {seconds[name][-1]:.2f} s {verdict['seconds']}")
    few, many = (median(seconds[name][2:]) for name in cases)
    what = f"100 rules on 30 column sets against 10 rules, {rows:,} rows in place"
    lines = [
        Line(f"{what}, warm", f"{many:.2f} s, {few:.2f} s", f"{many / few:.1f} times", "at most 6", many <= 6 * few),
        index_bytes(run, spark),
    ]
    spark.stop()
    return lines


def index_bytes(run: Run, spark: Any) -> Line:
    rows = run.rows // 10
    load = run.table("tax", rows)
    apply_load(spark, run.request("ten", load, TEN))
    used = sorted({name for name in tax_table(1).column_names for one in TEN if name in json.dumps(one)})
    columns, sizes = pq.read_table(load, columns=used), {}
    for compression in ("snappy", "zstd"):  # the first is what Spark and Arrow take unless they are told otherwise
        plain = run.folder / f"plain-{compression}.parquet"
        pq.write_table(columns, plain, compression=compression)
        sizes[compression] = plain.stat().st_size
    for one in ("index", "rows"):
        sizes[one] = sum(f.stat().st_size for f in (run.folder / "ten" / one).rglob("*.parquet"))
    ratio, smaller = (sizes["index"] / sizes[one] for one in ("snappy", "zstd"))
    index, snappy, zstd, kept = (sizes[one] / 1e6 for one in ("index", "snappy", "zstd", "rows"))
    measured = f"{index:.0f} MB, {len(used)} columns in Parquet {snappy:.0f} MB; as zstd has them {zstd:.0f} MB"
    measured += f" ({smaller:.1f} times), with the hash of each row, as the state has them, {kept:.0f} MB"
    what = f"indexes of ten rules, {rows:,} rows"
    return Line(what, measured, f"{ratio:.1f} times", "at most 2", ratio <= 2)


def damage(run: Run, rounds: int) -> list[Line]:
    """Loads that violate nothing, and loads of the same size in which nearly all pairs of rows violate."""
    spark, rows = session(), run.rows // 50
    rules = [{"name": "decides", "fd": "g -> v"}]
    chance, found, seconds = np.random.default_rng(SEED), 0, defaultdict(list)
    for turn in range(rounds + 1):
        for listing in (False, True):
            for name in ("clean", "damaged"):
                g = chance.integers(0, rows, rows) if name == "clean" else np.zeros(rows, np.int64)
                v = g * 7 if name == "clean" else chance.integers(0, 1_000, rows)
                load = run.folder / f"{name}-{listing}-{turn}.parquet"
                pq.write_table(pa.table({"id": np.arange(rows), "g": g, "v": v}), load)
                more = {"quarantine": str(run.folder / f"quarantine-{name}-{turn}")} if listing else {"max_listed": 0}
                started = time.monotonic()
                verdict = apply_load(spark, run.request(load.stem, load, rules, **more)).to_dict()
                seconds[name, listing].append(time.monotonic() - started)
                found = max(found, verdict["constraints"][0]["new_violations"])
                say(f"{load.stem}: {seconds[name, listing][-1]:.2f} s {verdict['seconds']}")
    spark.stop()
    lines = []
    for listing, limit, what in ((False, 2, "only counted"), (True, 3, "with quarantine and listings")):
        clean, damaged = (median(seconds[name, listing][1:]) for name in ("clean", "damaged"))
        ratio = damaged / clean
        what = f"{found:,} violating pairs in a load of {rows:,} rows, {what}"
        measured = f"{damaged:.2f} s, clean {clean:.2f} s"
        lines.append(Line(what, measured, f"{ratio:.2f} times", f"at most {limit}", ratio <= limit))
    return lines


def skew(run: Run) -> list[Line]:
    """One block with all rows, and one with half of them, on one and on two cores."""
    rows, chance = run.rows // 10, np.random.default_rng(SEED)
    a = chance.integers(0, 10**9, rows)
    load = run.folder / "skewed.parquet"
    block = np.where(chance.random(rows) < 0.5, 0, chance.integers(1, rows, rows))
    pq.write_table(pa.table({"g": block, "a": a, "b": a + chance.integers(0, 10**6, rows)}), load)
    cases = {"a rule without equality": "", "a block with half of all rows": "t.g = s.g and "}
    lines = []
    for number, (name, equal) in enumerate(cases.items()):
        seconds = {}
        for cores in (1, 2):
            rules = [{"name": "skewed", "deny": f"{equal}t.a > s.a and t.b < s.b"}]
            request = run.request(f"skew-{number}-{cores}", load, rules, engine="spark")
            _, verdict = run.submit(request, master=f"local[{cores}]", cores=cores)
            seconds[cores] = verdict["seconds"]["probe"]
            say(f"{name}, {cores} cores: {verdict['seconds']}")
        ratio = seconds[1] / max(seconds[2], 0.001)
        measured = f"check {seconds[1]:.1f} s with one core, {seconds[2]:.1f} s with two"
        lines.append(
            Line(f"{name}, {rows:,} rows", measured, f"{ratio:.2f} times faster", "at least 1.5", ratio >= 1.5)
        )
    return lines


def scale_out(run: Run) -> list[Line]:
    """The first load on one worker and on two, which share nothing but the files; each has a core of the machine."""
    rows, seconds, said = run.rows // 10, {}, []
    for workers in (1, 2):
        log = run.folder / f"events-{workers}"
        log.mkdir()
        conf = {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": f"file://{log}",
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
        }
        request = run.request(f"out-{workers}", run.table("tax", rows), TAX, engine="spark")
        _, verdict = run.submit(request, master=f"local-cluster[{workers},1,2048]", conf=conf, cores=workers)
        seconds[workers] = verdict["seconds"]["total"]
        said.append(f"{workers}: {seconds[workers]:.1f} s ({_shares(log)})")
        say(f"scale out, {said[-1]}")
    ratio = seconds[1] / max(seconds[2], 0.001)
    what = f"first load of {rows:,} rows, `local-cluster` with 1 and 2 workers"
    return [Line(what, "; ".join(said), f"{ratio:.2f} times faster", "at least 1.5", ratio >= 1.5)]


def _shares(log: Path) -> str:
    """Tasks, and bytes read and shuffled, of each worker."""
    tasks: Counter[str] = Counter()
    size: Counter[str] = Counter()
    for line in (line for path in log.iterdir() for line in path.read_text().splitlines()):
        event = json.loads(line)
        if event["Event"] == "SparkListenerTaskEnd":
            who, metrics = event["Task Info"]["Executor ID"], event["Task Metrics"]
            shuffled = metrics["Shuffle Read Metrics"]
            tasks[who] += 1
            size[who] += metrics["Input Metrics"]["Bytes Read"]
            size[who] += shuffled["Local Bytes Read"] + shuffled["Remote Bytes Read"]
    return ", ".join(f"worker {who}: {tasks[who]} tasks, {size[who] / 1e6:.0f} MB" for who in sorted(tasks))


def scale(folder: Path, engine: Path, rows: int = ROWS, rounds: int = 5, parts: Sequence[str] = ()) -> list[Line]:
    """Lines of the table, or of some parts of it."""
    run = Run(folder, engine, rows)
    every = {
        "first": lambda: first_load(run),
        "table": lambda: table_scale(run, 2 * rounds),
        "rules": lambda: rule_scale(run, rounds),
        "damage": lambda: damage(run, rounds),
        "skew": lambda: skew(run),
        "out": lambda: scale_out(run),
    }
    return [line for name, part in every.items() if not parts or name in parts for line in part()]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS, help="rows of the large table")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", help="keep data and states there, for another run")
    parser.add_argument("parts", nargs="*", help="some of first, table, rules, damage, skew, out")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="scale-benchmark-") as name:
        folder = Path(options.folder or name)
        lines = scale(folder, build_engine_zip(Path(name)), options.rows, options.rounds, options.parts)
    print("| what | measured | result | limit | met |\n| --- | --- | --- | --- | --- |")
    print(*lines, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
