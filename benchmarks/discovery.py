"""Whole discoveries, from codes in memory to the set: ``python -m benchmarks.discovery`` prints its table.

Seconds are of the clock, the least of some runs, after one that compiles. ``benchmarks/peers.py`` compares with others.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from benchmarks.lines import Line, say
from dags_examples.tax_data import tax_table
from dc_engine.changing import advanced
from dc_engine.constraints.files import load_constraints
from dc_engine.detection.rows import LOAD_BITS, ROW_ID, write_rows
from dc_engine.discovery.coded import Coded, encoded
from dc_engine.discovery.files import read_patterns, write_patterns
from dc_engine.discovery.keeping import changed, found
from dc_engine.discovery.known import COUNTED, WITNESSED, Known, Turnover
from dc_engine.discovery.space import Asked, Limits, Space, space_of
from dc_engine.discovery.store import Store
from dc_engine.history.change import Change
from dc_engine.maintained.base import Ground, Kept
from dc_engine.maintained.dependencies import Dependencies
from dc_engine.state.files import DataFile
from dc_engine.state.snapshots import Snapshot
from dc_engine.state.storage import Storage

SEED = 7
TWELVE = (
    "zip",
    "city",
    "state",
    "area_code",
    "salary",
    "rate",
    "single_exemp",
    "child_exemp",
    "marital_status",
    "has_child",
    "gender",
    "last_name",
)
ORDERED = ("salary", "rate")
TYPES = {pa.int64(): "bigint", pa.int32(): "int", pa.string(): "string", pa.bool_(): "boolean", pa.float64(): "double"}
KEYS_AND_FDS = Asked(classes=("unique", "fd"), exclude=("id",))
T = TypeVar("T")


def discoveries(seed: int = SEED, share: float = 1) -> list[Line]:
    """Lines of the table, with a share of the rows."""
    _compiled(seed)
    return [
        *_denials(max(int(30_000 * share), 3_000), seed),
        *_keys_and_fds(int(100_000 * share), seed),
        *_million(int(1_000_000 * share), seed),
        *_wide(seed),
    ]


class Table:
    """A tax table, with rows that come later."""

    def __init__(self, rows: int, more: int, columns: Sequence[str], asked: Asked, seed: int, broken: int = 0) -> None:
        first = tax_table(rows, seed=seed)
        then = tax_table(more, seed=seed, first_id=rows + 1, broken={"zip_decides_city": broken} if broken else None)
        self.all = pa.concat_tables([first, then]).select(list(columns) or first.column_names)
        types = {field.name: TYPES.get(field.type, "decimal(38,10)") for field in self.all.schema}
        self.space: Space = space_of(asked, types, {})
        self.codes: Coded = encoded(self.space, {name: self.all.column(name) for name in types}, np.arange(rows + more))
        self.before = np.arange(rows + more) < rows

    def first(self) -> Coded:
        return self.codes.chosen(self.before)

    def later(self) -> pa.Table:
        """The rows that come later, as values."""
        return self.all.slice(int(self.before.sum()))

    def grown(self, known: Known) -> Known:
        return changed(self.space, known, Turnover(self.codes, self.before, np.ones(len(self.before), bool)))

    def shrunk(self, known: Known, every: int) -> Known:
        gone = self.before & (np.arange(len(self.before)) % every != 3)
        return changed(self.space, known, Turnover(self.codes, self.before, gone))


class Seconds(float):
    """Seconds of the clock, with those of all processors: where others work too, these tell more."""

    cpu: float


def timed(work: Callable[[], T], runs: int = 3) -> tuple[T, Seconds]:
    """What work gives, and the least time that it took."""
    clock, cpu = float("inf"), float("inf")
    for _ in range(runs):
        started, before = time.perf_counter(), time.process_time()
        result = work()
        clock, cpu = min(clock, time.perf_counter() - started), min(cpu, time.process_time() - before)
    seconds = Seconds(clock)
    seconds.cpu = cpu
    return result, seconds


def _compiled(seed: int) -> None:
    for mode in (COUNTED, WITNESSED):
        table = Table(3_000, 200, TWELVE, Asked(limits=Limits(max_terms=3)), seed)
        known = found(table.space, table.first(), mode)
        table.grown(known)
        table.shrunk(known, 10)


def _denials(rows: int, seed: int) -> list[Line]:
    table = Table(rows, rows // 10, TWELVE, Asked(classes=("dc",), ordered=ORDERED), seed)
    known, scratch = timed(lambda: found(table.space, table.first(), COUNTED))
    _, grown = timed(lambda: table.grown(known))
    _, shrunk = timed(lambda: table.shrunk(known, 100))
    data = f"{rows:,} tax rows x {len(TWELVE)} columns, seed {seed}"
    what = f"{len(known.sets['dc']):,} rules with mirror images, from {len(known.store):,} patterns"
    more = f"dc, {rows // 10:,} rows more"
    return [
        in_time(f"dc, {data}", what, scratch, 2),
        _share(more, grown, scratch, grown <= max(scratch / 5, 0.2), "1/5 or 0.2 s"),
        _share("dc, 1% of the rows deleted", shrunk, scratch, shrunk <= scratch, "at most 1"),
    ]


def _keys_and_fds(rows: int, seed: int) -> list[Line]:
    table = Table(rows, rows // 100, (), KEYS_AND_FDS, seed)
    known, scratch = timed(lambda: found(table.space, table.first(), WITNESSED))
    after, grown = timed(lambda: table.grown(known))
    counts = f"{len(known.sets['fd']):,} fds, {len(known.sets['unique']):,} keys"
    data = f"{rows:,} tax rows x {len(table.space.columns)} columns, seed {seed}"
    more = f"fd and unique, 1% more rows, {_lost(known, after):,} fall"
    return [
        in_time(f"fd and unique, {data}", counts, scratch, 3),
        _share(more, grown, scratch, grown <= scratch / 5, "1/5"),
    ]


def _million(rows: int, seed: int) -> list[Line]:
    asked = Asked(exclude=("id",), limits=Limits(max_terms=4))
    table = Table(rows, 1_000, (), asked, seed)
    known, scratch = timed(lambda: found(table.space, table.first(), WITNESSED), 1)
    same, grown = timed(lambda: table.grown(known))
    worse = Table(rows, 1_000, (), asked, seed, broken=10)
    after, fell = timed(lambda: worse.grown(known))
    counts = ", ".join(f"{len(some):,} {name}" for name, some in known.sets.items())
    data = f"{rows:,} tax rows x {len(table.space.columns)} columns, up to 4 comparisons, seed {seed}"
    more, broken = "1,000 rows more", "1,000 rows more, 10 of them broken"
    with tempfile.TemporaryDirectory() as folder:
        state = _State(Path(folder), table)
        inside = [timed(lambda one=one: state.load(one.later()))[1] for one in (table, worse)]
        _, outside = timed(lambda: state.load(table.later(), remembering=False))
    fall = f"{_lost(known, after):,} fall"
    return [
        in_time(f"all classes, {data}", counts, scratch, 45),
        in_time(f"all classes, {more}", f"{_lost(known, same):,} fall", grown, 0.3),
        in_time(f"all classes, {broken}", fall, fell, 1),
        in_time(f"what {more} add to a gate", "reading and writing too; a session that remembers", inside[0], 0.3),
        in_time(f"what {more} add to a gate", "the same in a process that remembers nothing", outside, 0.3),
        in_time(f"what {broken}, add to a gate", f"{fall}, all ranked anew; a session that remembers", inside[1], 1),
    ]


class _State:
    """The first rows of a table in a state that keeps their dependencies, and what a load does to these."""

    def __init__(self, folder: Path, table: Table) -> None:
        rules = load_constraints({"version": 1, "table": "tax", "constraints": [{"name": "x", "fd": "zip -> city"}]})
        self.storage, self.kept = Storage(str(folder)), Dependencies(table.space, WITNESSED, rules)
        first = table.all.slice(0, int(table.before.sum()))
        files = [self._file(first, 1)]
        self.base = self.kept.caught_up(self._ground(), Snapshot(1, None, "tax", rows=first.num_rows, files=files))

    def load(self, rows: pa.Table, *, remembering: bool = True) -> Kept:
        change = Change(inserts=[self._file(rows, 2)])
        return advanced(self._ground(remembering=remembering), self.base, [self.kept], change).kept[0]

    def _ground(self, *, remembering: bool = True) -> Ground:
        engine: Any = SimpleNamespace(searching=lambda *_: None, has_workers=False)  # all is done here
        storage = Storage(self.storage.uri)
        storage.remembers = remembering
        return Ground(engine, storage)

    def _file(self, rows: pa.Table, load: int) -> DataFile:
        ids = pa.array(np.arange(rows.num_rows) + (load << LOAD_BITS))
        return write_rows(self.storage, rows.add_column(0, ROW_ID, ids))


def _lost(before: Known, after: Known) -> int:
    return sum(len(set(before.sets[name]) - set(after.sets[name])) for name in before.sets)


def _wide(seed: int) -> list[Line]:
    """Only the agree sets: of so many columns the dependencies may be millions."""
    chance = np.random.default_rng(seed)
    codes = {f"c{place}": chance.integers(0, 20, 1_050).astype(np.int32) for place in range(200)}
    space = Space(dict.fromkeys(codes, "int"), classes=("unique",), limits=Limits(max_terms=1))
    rows = Coded(np.arange(1_050), codes)
    before, now = np.arange(1_050) < 1_000, np.ones(1_050, bool)
    known = found(space, rows.chosen(before), COUNTED)

    def grown(runs: tuple[Store, ...]) -> Known:
        return changed(space, replace(known, runs=runs), Turnover(rows, before, now))

    _, seconds = timed(lambda: grown(known.runs), 9)
    with tempfile.TemporaryDirectory() as folder:
        storage = Storage(folder)
        files = write_patterns(storage, space, known, 0, known.store)
        _, reading = timed(lambda: grown(read_patterns(storage, space, (), COUNTED, files)), 9)
    what = "counted agree sets, 1,000 rows x 200 columns, 50 rows more"
    return [
        in_time(what, f"{len(known.store):,} sets before, seed {seed}", seconds, 0.015),
        in_time(what, "with their reading, in a session that remembers files", reading, 0.1),
    ]


def _share(what: str, seconds: float, scratch: float, met: bool, limit: str) -> Line:
    say(f"{what}: {seconds:.3f} s, from scratch {scratch:.3f} s")
    return Line(what, f"{seconds:.3f} s, from scratch {scratch:.3f} s", f"{seconds / scratch:.2f} times", limit, met)


def in_time(what: str, measured: str, seconds: Seconds, limit: float) -> Line:
    say(f"{what}: {seconds:.3f} s, {seconds.cpu:.3f} s of CPU")
    text = f"{measured}; {seconds.cpu:.3f} s of CPU"
    return Line(what, text, f"{seconds:.3f} s", f"at most {limit:g} s", seconds <= limit)


if __name__ == "__main__":
    print("| what | measured | result | limit | met |\n| --- | --- | --- | --- | --- |")
    print(*discoveries(share=float(sys.argv[1]) if len(sys.argv) > 1 else 1), sep="\n")
