"""What loads cost that delete, update, come again or are taken out; and what a gate costs after many loads."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from statistics import mean, median
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.lines import Line, say
from dags_examples.tax_data import tax_table
from dc_engine.apply_load import apply_load
from dc_engine.maintain import maintain

LOAD_ROWS = 1_000


class History:
    """Loads on a state that is there, timed one by one in a session that is up."""

    def __init__(self, spark: SparkSession, folder: Path, state: str, rules: dict[str, Any], first: Path, seed: int):
        self.spark, self.folder, self.state, self.rules, self.seed = spark, folder, state, rules, seed
        self.table = pq.read_table(first)
        self.left = random.Random(seed).sample(range(self.table.num_rows), min(self.table.num_rows, 100_000))
        self.next_id = 100 * self.table.num_rows
        self.count = 0

    def new(self) -> pa.Table:
        """Rows that were never loaded."""
        self.next_id += LOAD_ROWS
        return tax_table(LOAD_ROWS, seed=self.seed, first_id=self.next_id)

    def old(self) -> pa.Table:
        """Rows of the first load, here and there in it, each given out once."""
        chosen, self.left = self.left[:LOAD_ROWS], self.left[LOAD_ROWS:]
        return self.table.take(pa.array(sorted(chosen)))

    def apply(self, changes: pa.Table, load_id: str = "") -> float:
        """Apply a load; the seconds."""
        self.count += 1
        path = self.folder / f"change{self.count}.parquet"
        pq.write_table(changes, path)
        load_id = load_id or f"change{self.count}"
        request = {"state": self.state, "load_id": load_id, "changes": {"path": str(path)}, "constraints": self.rules}
        started = time.monotonic()
        apply_load(self.spark, request)
        seconds = time.monotonic() - started
        path.unlink()
        return seconds

    def retract(self, load_id: str) -> float:
        """Take a load out; the seconds."""
        started = time.monotonic()
        maintain(self.spark, "retract", {"state": self.state, "load_id": load_id})
        return time.monotonic() - started


def feed(rows: pa.Table, kind: str) -> pa.Table:
    return rows.append_column("_change_type", pa.array([kind] * rows.num_rows))


def history(run: History, rounds: int, many: int) -> list[Line]:
    """All of it, the kinds in turn so that each ratio is of loads side by side."""
    early = [run.apply(run.new()) for _ in range(rounds + 1)][1:]
    say(f"history: a gate before the many loads: {median(early):.2f} s")
    lines = change_sets(run, rounds)
    lines += replacing(run, rounds)
    lines.append(after_many(run, early, rounds, many))
    lines.append(counts_are_right(run))
    return lines


def change_sets(run: History, rounds: int) -> list[Line]:
    kinds: dict[str, Callable[[], pa.Table]] = {
        "inserts": run.new,
        "deletes of whole rows": lambda: feed(run.old(), "delete"),
        "deletes by key": lambda: feed(run.old().select(["id"]), "delete"),
        "updates": lambda: _update(run.old()),
    }
    seconds: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(rounds + 1):
        for name, make in kinds.items():
            seconds[name].append(run.apply(make()))
    medians = {name: median(own[1:]) for name, own in seconds.items()}
    say(f"history: {medians}")
    inserts = medians.pop("inserts")
    return [
        _ratio(f"{LOAD_ROWS:,} {name} against inserts", value, inserts, 1.5, f"{LOAD_ROWS:,} inserts")
        for name, value in medians.items()
    ]


def _update(old: pa.Table) -> pa.Table:
    place = old.schema.get_field_index("phone")
    phones = pa.array([f"9{phone}" for phone in old.column("phone").to_pylist()])
    new = old.set_column(place, "phone", phones)
    return pa.concat_tables([feed(old, "update_preimage"), feed(new, "update_postimage")])


def replacing(run: History, rounds: int) -> list[Line]:
    seconds: dict[str, list[float]] = {
        "apply": [],
        "replacing the newest load": [],
        "taking the newest load out": [],
        "replacing an older load": [],
        "taking an older load out": [],
    }
    for one in range(3 * rounds + 1):  # a limit of 1 asks for more than a few rounds
        name = f"new{one}"
        seconds["apply"].append(run.apply(run.new(), name))
        seconds["replacing the newest load"].append(run.apply(run.new(), name))
        seconds["taking the newest load out"].append(run.retract(name))
    for one in range(rounds + 1):
        name = f"again{one}"
        run.apply(run.new(), name)
        run.apply(run.new())
        seconds["replacing an older load"].append(run.apply(run.new(), name))
        seconds["taking an older load out"].append(run.retract(name))
    medians = {name: median(own[1:]) for name, own in seconds.items()}
    say(f"history: {medians}")
    apply = medians.pop("apply")
    return [
        _ratio(f"{name}, against applying it", value, apply, 2 if "older" in name else 1, "applying")
        for name, value in medians.items()
    ]


def after_many(run: History, early: list[float], rounds: int, many: int) -> Line:
    loads = [run.apply(run.new()) for _ in range(many)]
    late = loads[-rounds:]
    ratio = median(late) / median(early)
    share = mean(loads[-20:]) / median(early)
    measured = (
        f"{median(late):.2f} s, after the first {median(early):.2f} s (medians of {rounds}); the mean of the last 20, "
        f"merging of runs included, is {share:.2f} times"
    )
    return Line(f"a gate after {many} loads more", measured, f"{ratio:.2f} times", "at most 1.3", ratio <= 1.3)


def counts_are_right(run: History) -> Line:
    """All violations counted anew from the rows must be what the history of changes came to."""
    described = maintain(run.spark, "describe", {"state": run.state})
    before = {one["name"]: one["total_violations"] for one in described["constraints"]}
    checked = maintain(run.spark, "verify", {"state": run.state})
    if not checked["sound"]:
        raise SystemExit("\n".join(checked["problems"]))
    again = maintain(run.spark, "rebuild", {"state": run.state})["total_violations"]
    if again != before:
        raise SystemExit(f"After the history the gate counts {before}, and from the rows alone {again}.")
    counts = ", ".join(f"{name} {count:,}" for name, count in again.items())
    return Line("total violations after all that, and recounted", counts, "equal", "equal", True)


def _ratio(what: str, value: float, other: float, limit: float, name: str) -> Line:
    ratio = value / other
    return Line(
        what, f"{value:.2f} s, {name} {other:.2f} s", f"{ratio:.2f} times", f"at most {limit:g}", ratio <= limit
    )
