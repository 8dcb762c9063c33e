"""The gate against Spark itself, on a tax table: ``python benchmarks/gate.py`` prints one table of ratios.

Everything is measured in one run on one machine, so that the ratios say more than the seconds. A count that differs
from Spark's own ends the run with an error; a limit that is not met is only said.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow.csv as csv
import pyarrow.parquet as pq

from benchmarks.bounds import bounds
from benchmarks.checkpoints import checkpoints
from benchmarks.discovery import discoveries
from benchmarks.discovery_kernels import discovery_kernels
from benchmarks.discovery_tasks import discovery_tasks
from benchmarks.history import History, history
from benchmarks.import_cost import measure
from benchmarks.joins import cache_old, count_by_joins
from benchmarks.large import ROWS as LARGE
from benchmarks.large import large
from benchmarks.lines import Line, say
from benchmarks.orders import orders
from benchmarks.peers import beside_peers
from benchmarks.sampled import Watched
from benchmarks.scaled import TAX
from benchmarks.submit import MASTER, session, submit, submit_request
from dags_examples.tax_data import tax_table
from dc_engine.apply_load import apply_load
from dc_engine.constraints.files import load_constraints
from dc_engine.shipping import build_engine_zip

SEED = 7
LOAD_ROWS = 1_000
# Which rows every second load spoils, so that the counts compared are not all zero.
BROKEN = {
    "phone_is_unique": 2,
    "zip_decides_city": 2,
    "child_exemption_by_state": 2,
    "rate_follows_salary": 2,
}
RULES: dict[str, Any] = {
    "version": 1,
    "table": "tax",
    "key": ["id"],
    "constraints": list(TAX),
}
GIB = 2**30
PACKAGES = ("pyspark", "pyarrow", "numpy", "numba", "apache-airflow", "great-expectations")


@dataclass(slots=True)
class Table:
    """The data of a run: the rows in place, and the loads that were made so far."""

    folder: Path
    rows: int
    files: list[Path] = field(default_factory=list)

    @property
    def state(self) -> str:
        return str(self.folder / "state")

    def first(self) -> Path:
        return self._write(tax_table(self.rows, seed=SEED))

    def next_load(self) -> Path:
        """A thousand rows more; every second load has broken ones."""
        place = len(self.files) - 1
        first_id = self.rows + place * LOAD_ROWS + 1
        broken = BROKEN if place % 2 else None
        return self._write(tax_table(LOAD_ROWS, seed=SEED, first_id=first_id, broken=broken))

    def _write(self, rows: Any) -> Path:
        path = self.folder / f"load{len(self.files)}.parquet"
        pq.write_table(rows, path, row_group_size=131_072)
        self.files.append(path)
        return path

    def request(self, load: Path) -> dict[str, Any]:
        return {
            "state": self.state,
            "load_id": load.stem,
            "changes": {"format": "parquet", "path": str(load)},
            "constraints": RULES,
        }


def new_violations(verdict: Mapping[str, Any]) -> dict[str, int]:
    return {one["name"]: one["new_violations"] for one in verdict["constraints"]}


def first_load(table: Table, engine: Path) -> list[Line]:
    """The whole table as one load, in a process tree of its own: seconds and memory."""
    finished, verdict = submit_request(table.folder, table.request(table.first()), engine)
    if any(new_violations(verdict).values()):
        raise SystemExit(f"The first load has no violations, but the gate counts {new_violations(verdict)}.")
    say(f"first load: {finished.seconds:.1f} s, of them {verdict['seconds']}")
    job, peak = verdict["seconds"]["total"], finished.peak_bytes / GIB
    what = f"first load, {table.rows:,} rows"
    seconds = f"{finished.seconds:.1f} s from `spark-submit` to exit, {job:.1f} s of it the load"
    memory = "peak of JVM, driver and workers"
    return [
        Line(what, seconds, f"{finished.seconds:.1f} s", "at most 60 s", finished.seconds <= 60),
        Line(f"{what}, memory", memory, f"{peak:.2f} GiB", "under 4 GiB", peak < 4),
        _looked_at(
            table,
            {**table.request(table.files[0]), "state": f"{table.state} again"},
            engine,
            "a first load's seconds go",
        ),
    ]


def cold(table: Table, engine: Path, rounds: int) -> list[Line]:
    """A load by spark-submit against an empty job, in turn."""

    gates, empties = [], []
    job = str(Path(__file__).with_name("empty_job.py"))
    for _ in range(rounds):
        empties.append(submit(table.folder, job).seconds)
        gates.append(submit_request(table.folder, table.request(table.next_load()), engine)[0].seconds)
        say(f"cold: gate {gates[-1]:.1f} s, empty job {empties[-1]:.1f} s")
    plain = table.request(table.next_load())
    by_spark = table.request(table.next_load())
    by_spark["changes"] = _as_csv(Path(by_spark["changes"]["path"]))
    ratio = median(gates) / median(empties)
    measured = f"gate {median(gates):.1f} s, empty job {median(empties):.1f} s (medians of {rounds})"
    return [
        Line(
            "cold, 1,000 new rows, `spark-submit` to exit", measured, f"{ratio:.2f} times", "at most 1.3", ratio <= 1.3
        ),
        _looked_at(table, plain, engine, "a gate's seconds go, cold"),
        _looked_at(table, by_spark, engine, "a gate's seconds go, cold, CSV"),
    ]


def _looked_at(table: Table, request: Mapping[str, Any], engine: Path, what: str) -> Line:
    """A load by spark-submit, and what each second of it is spent on: around its process, and in its threads."""
    seen, asked = table.folder / "seen.json", table.folder / "request.json"
    asked.write_text(json.dumps(request))
    job = str(Path(__file__).with_name("sampled.py"))
    arguments = ("--request", str(asked), "--result", str(table.folder / "result.json"))
    finished = submit(table.folder, job, str(seen), "apply_load", *arguments, py_files=str(engine))
    told = json.loads(seen.read_text())
    around = {"Java": finished.seconds - (told["ended"] - told["born"]), "Python": told["begun"] - told["born"]}
    return _spent(what, {**around, **told["seconds"]})


def _spent(what: str, seconds: Mapping[str, float]) -> Line:
    """Most first, in seconds of all threads; what is less than a hundredth of all is left out."""
    total = sum(seconds.values())
    most = sorted(seconds.items(), key=lambda one: -one[1])
    parts = ", ".join(f"{name} {spent:.3f}" for name, spent in most if spent >= total / 100)
    return Line(f"where {what}", parts, f"{total:.2f} s", "", True)


def _as_csv(load: Path) -> dict[str, Any]:
    """The changes of a load in a format that Spark has to read."""
    rows = pq.read_table(load)
    csv.write_csv(rows, load.with_suffix(".csv"))
    names = {"int64": "BIGINT", "int32": "INT", "string": "STRING", "double": "DOUBLE", "bool": "BOOLEAN"}
    schema = ", ".join(f"{one.name} {names[str(one.type)]}" for one in rows.schema)
    return {"format": "csv", "path": str(load.with_suffix(".csv")), "options": {"header": "true"}, "schema": schema}


def warm(table: Table, rounds: int) -> list[Line]:
    """Loads in a session that is up, against Spark SQL joins with the cached table; the counts must be equal."""

    spark = session()
    gates, joins, totals = [], [], dict.fromkeys(("phi7", "phi8", "phi9", "phi10"), 0)
    for _ in range(rounds + 1):
        old = cache_old(spark, table.files)
        load = table.next_load()
        started = time.monotonic()
        counted = count_by_joins(spark, load)
        joined = time.monotonic()
        verdict = apply_load(spark, table.request(load)).to_dict()
        joins.append(joined - started)
        gates.append(time.monotonic() - joined)
        old.unpersist(blocking=True)
        found = new_violations(verdict)
        say(f"warm: gate {gates[-1]:.2f} s {verdict['seconds']}, joins {joins[-1]:.2f} s, counts {found}")
        if found != counted:
            raise SystemExit(f"{load.stem}: the gate counts {found}, Spark SQL {counted}.")
        totals = {name: totals[name] + count for name, count in found.items()}
    with Watched() as watched:
        for _ in range(rounds):
            apply_load(spark, table.request(table.next_load()))
    spark.stop()
    gate, join = median(gates[1:]), median(joins[1:])  # the first of each is the warm-up
    ratio = join / gate
    measured = f"gate {gate:.2f} s, Spark SQL joins {join:.2f} s (medians of {rounds} loads)"
    counts = ", ".join(f"{name} {count:,}" for name, count in totals.items())
    return [
        Line("warm session, 1,000 new rows", measured, f"{ratio:.1f} times faster", "at least 12", ratio >= 12),
        _spent("a gate's seconds go, warm", {name: spent / rounds for name, spent in watched.seconds.items()}),
        Line("new violations, gate and Spark SQL", f"{counts} (sums of {rounds + 1} loads)", "equal", "equal", True),
    ]


def parsing(folder: Path, rounds: int) -> list[Line]:
    """What a DAG file pays: the import, and a large constraint file."""

    _, empty, added = measure(rounds)
    paid = empty + added
    path = folder / "rules.yml"
    path.write_text(many_rules(1_000))
    seconds = []
    for _ in range(rounds):
        started = time.monotonic()
        assert len(load_constraints(str(path)).constraints) == 1_000
        seconds.append(time.monotonic() - started)
    parts = f"over importing `SparkSubmitOperator`: Airflow's first DAG {empty:.0f} ms, the gate {added:.0f} ms"
    return [
        Line("DAG file with one gate", parts, f"{paid:.0f} ms", "under 150 ms", paid < 150),
        Line("1,000 rules", "parse of the file", f"{median(seconds):.2f} s", "under 0.5 s", median(seconds) < 0.5),
    ]


def many_rules(count: int) -> str:
    """A constraint file in which all kinds take turns."""
    kinds = (
        "unique: [a{0}, b{0}]",
        "fd: a{0}, b{0} -> c{0}",
        "deny: t.a{0} = s.a{0} and t.b{0} > s.b{0} and t.c{0} < s.c{0}",
        "order: a{0} -> b{0}\n    within: [c{0}]",
        "deny: t.a{0} <= 0",
    )
    rules = [f"  - name: rule_{one}\n    {kinds[one % len(kinds)].format(one)}\n" for one in range(count)]
    return "version: 1\ntable: wide\nconstraints:\n" + "".join(rules)


def circumstances(rows: int) -> str:
    """What the numbers depend on."""
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return (
        f"Tax table of 16 columns, {rows:,} rows in place, seed {SEED}, loads of {LOAD_ROWS:,} rows, "
        f"rules phi7 to phi10, {MASTER}.\n{os.cpu_count()} cores, {memory:.0f} GiB, "
        f"{platform.system()} {platform.machine()}; "
        f"Python {platform.python_version()}, {java.splitlines()[0]}, {versions}."
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows in place before the loads")
    parser.add_argument("--quick", action="store_true", help="one round of each: to see that it runs")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="gate-benchmark-") as name:
        folder = Path(name)
        # What Airflow and numba keep below the home folder goes with the rest.
        os.environ |= {"AIRFLOW_HOME": str(folder / "airflow"), "XDG_CACHE_HOME": str(folder / "cache")}

        table, engine = Table(folder, options.rows), build_engine_zip(folder)
        say(f"first load of {options.rows:,} rows")
        lines = first_load(table, engine)
        lines += cold(table, engine, 1 if options.quick else 3)
        lines += warm(table, 1 if options.quick else 5)
        spark = session()
        run = History(spark, folder, table.state, RULES, table.files[0], SEED)
        lines += history(run, *((1, 5) if options.quick else (5, 200)))
        spark.stop()
        lines += bounds(folder, engine, SEED, 0.02 if options.quick else 1)
        lines += parsing(folder, 2 if options.quick else 7)
        lines += checkpoints(folder, *((1, 2) if options.quick else (5, 50)))
        lines += discovery_kernels(SEED, 0.1 if options.quick else 1)
        lines += discoveries(SEED, 0.02 if options.quick else 1)
        lines += beside_peers(SEED, 0.1 if options.quick else 1)
        lines += orders(SEED, 0.05 if options.quick else 1)
        lines += discovery_tasks(SEED, *((0.02, 1) if options.quick else (1, 3)))
        lines += large(folder, engine, 100_000 if options.quick else LARGE)
        from benchmarks.pages import review_pages  # Airflow reads where its home is when it is imported

        lines += review_pages(folder / "pages", SEED, 0.02 if options.quick else 1, served=not options.quick)
    print(f"{circumstances(options.rows)}\n")
    print("| what | measured | result | limit | met |\n| --- | --- | --- | --- | --- |")
    print(*lines, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
