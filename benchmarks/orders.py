"""Order dependencies and pointwise ones: ``python -m benchmarks.orders`` prints its table.

From codes in memory to the set, least of three runs after one that compiles. Where Desbordante is installed (see
``benchmarks/peers.py``), its Fastod searches the same rows, and the sets must be the same.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as parquet

from benchmarks.discovery import SEED, in_time, timed
from benchmarks.lines import Line, say
from benchmarks.scaled import TAX
from benchmarks.submit import session, submit_request
from dags_examples.stock_data import stock_prices
from dags_examples.tax_data import tax_table
from dc_engine.apply_load import apply_load
from dc_engine.discover import discover
from dc_engine.discovery.boxes import Box, equalities, said
from dc_engine.discovery.coded import Coded, encoded
from dc_engine.discovery.keeping import changed, found
from dc_engine.discovery.known import WITNESSED, Known, Turnover
from dc_engine.discovery.space import Asked, Space, space_of
from dc_engine.discovery.terms import Outcome
from dc_engine.shipping import build_engine_zip

OD = Asked(classes=("od",), descending=True)
POD = Asked(classes=("pod",))
_COLD = 4
"""So many gates run in a process of their own; the first may compile kernels, and does not count."""
_GATED = (100_000, 1_000_000)
"""Rows of the tables that are gated."""
_SEARCHES = 5
"""So many times a whole job is done; the first two do not count."""
TYPES = {pa.int64(): "bigint", pa.string(): "string", pa.float64(): "double"}
_DIFFERENT, _LESS = int(Outcome.LESS | Outcome.GREATER), int(Outcome.LESS)
_CANONICAL = re.compile(r"\{([\d,]*)\} : (?:\[\] -> (\d+)<=|(\d+)[<>]= ~ (\d+)<=)")


def letters(rows: int, seed: int) -> pa.Table:
    """Twelve columns of small numbers that lean on each other, as the measures of printed letters do."""
    chance = np.random.default_rng(seed)
    size, slant = chance.normal(6, 2, rows), chance.normal(0, 1.5, rows)
    columns = {
        f"m{place}": np.clip(np.round(size * share + slant * (1 - share) + chance.normal(2, 1.8, rows)), 0, 15)
        for place, share in enumerate(np.linspace(0.1, 1, 12))
    }
    return pa.table({name: one.astype(np.int64) for name, one in columns.items()})


@dataclass(frozen=True)
class Rows:
    """A table in a space, coded."""

    space: Space
    codes: Coded
    first: int

    @staticmethod
    def of(table: pa.Table, asked: Asked, first: int | None = None) -> Rows:
        types = {one.name: TYPES[one.type] for one in table.schema}
        space = space_of(asked, types, {})
        columns = {name: table.column(name) for name in types}
        return Rows(space, encoded(space, columns, np.arange(table.num_rows)), first or table.num_rows)

    def found(self) -> Known:
        return found(self.space, self.codes.chosen(np.arange(len(self.codes.ids)) < self.first), WITNESSED)

    def grown(self, known: Known) -> Known:
        everything = np.ones(len(self.codes.ids), bool)
        return changed(self.space, known, Turnover(self.codes, np.arange(len(everything)) < self.first, everything))


def orders(seed: int = SEED, share: float = 1) -> list[Line]:
    """Lines of the table, with a share of the rows."""
    for asked in (OD, POD):
        few = Rows.of(stock_prices(3_000, seed), asked, 2_900)
        few.grown(few.found())
    stocks, measures = stock_prices(int(90_000 * share), seed), letters(int(20_000 * share), seed)
    gates = [(gated, rows) for gated in (_prices(seed), _taxes(seed)) for rows in _GATED]
    return [
        *_beside_fastod("stock prices", stocks, seed, 1),
        *_beside_fastod("letters", measures, seed, 10),
        *_longer(int(1_000_000 * share), seed),
        *_pods(int(90_000 * share), seed),
        *(line for gated, rows in gates for line in _gate(gated, int(rows * share), max(int(12 * share), 3))),
    ]


def _beside_fastod(name: str, table: pa.Table, seed: int, times: float) -> list[Line]:
    rows = Rows.of(table, OD)
    known, seconds = timed(rows.found)
    ours = _canonical(rows.space, known)
    data = f"od, {table.num_rows:,} {name} x {table.num_columns} columns, seed {seed}"
    if importlib.util.find_spec("desbordante") is None:
        return [in_time(data, f"{len(ours):,} ods", seconds, 1)]
    theirs, executed, loaded = _fastod(table)
    same = ours == theirs
    differ = f"{len(ours - theirs)} only here, {len(theirs - ours)} only there"
    text = f"{len(ours):,} ods, {'the same' if same else differ}"
    job = _whole_job(table)
    lines = [
        (f"{data}, beside Fastod", seconds, executed, times),
        (f"od, {name}, the warm job beside Fastod with its loading", job, executed + loaded, 2),
    ]
    for what, mine, its, _ in lines:
        say(f"{what}: {text}; {mine:.3f} s, {its:.2f} s")
    return [
        Line(
            what,
            f"{text}; {mine:.3f} s, {its:.2f} s",
            f"{its / mine:.1f} times faster",
            f"the same; at least {least:g}",
            same and its / mine >= least,
        )
        for what, mine, its, least in lines
    ]


def _fastod(table: pa.Table) -> tuple[set[Any], float, float]:
    """What Fastod finds, and how long it takes to search and to load."""
    import desbordante

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        csv.write_csv(table, path)
        algorithm = desbordante.od.algorithms.Fastod()
        begun = time.perf_counter()
        algorithm.load_data(table=(str(path), ",", True))
        started = time.perf_counter()
        algorithm.execute()
        seconds = time.perf_counter() - started
        lists = {
            "": algorithm.get_simple_ods(),
            "ascending": algorithm.get_asc_ods(),
            "descending": algorithm.get_desc_ods(),
        }
        return {_read(str(one), kind) for kind, some in lists.items() for one in some}, seconds, started - begun


def _read(text: str, kind: str) -> tuple[frozenset[int], frozenset[int], str]:
    """The context and the columns that are compared, by their places; Fastod names both orders of two columns."""
    context, constant, one, other = _CANONICAL.match(text).groups()  # type: ignore[union-attr]
    compared = [constant] if constant else [one, other]
    return _places(context.split(",")), _places(compared), kind


def _places(numbers: list[str]) -> frozenset[int]:
    return frozenset(int(one) - 1 for one in numbers if one)


def _canonical(space: Space, known: Known) -> set[Any]:
    assert all(term.own for term in space.terms(known.nullable).terms)
    return {_said(box) for box in known.sets["od"]}


def _said(box: Box) -> tuple[frozenset[int], frozenset[int], str]:
    context = equalities(box)
    compared = frozenset(said(box)) - context
    if any(box[place] == _DIFFERENT for place in compared):
        return context, compared, ""
    return context, compared, "descending" if len({box[place] for place in compared}) == 1 else "ascending"


def _whole_job(table: pa.Table) -> float:
    """The seconds of a search in a session that has done the same before."""
    spark = session()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        parquet.write_table(table, path)
        request = {"table": {"path": str(path)}, "classes": ["od"], "space": {"descending": True}}
        seconds = [discover(spark, request)["seconds"]["total"] for _ in range(_SEARCHES)]
    spark.stop()
    return median(seconds[2:])


def _longer(most: int, seed: int) -> list[Line]:
    """Four sizes, each twice the one before."""
    table = stock_prices(most, seed)
    sizes = [most // 8, most // 4, most // 2, most]
    seconds = {}
    for rows in sizes:
        some = Rows.of(table.slice(0, rows), OD)
        known, seconds[rows] = timed(some.found, 2)
    each = {rows: 1e9 * taken / rows for rows, taken in seconds.items()}
    text = ", ".join(f"{rows:,}: {taken:.2f} s" for rows, taken in seconds.items())
    ratio = each[most] / each[sizes[0]]
    say(f"od over rows: {text}")
    later = Rows.of(table, OD, most - most // 100)
    known = later.found()
    _, grown = timed(lambda: later.grown(known), 2)
    return [
        Line("od, time for a row, 8 times as many rows", text, f"{ratio:.2f} times", "at most 1.5", ratio <= 1.5),
        Line(
            "od, 1% more rows",
            f"{grown:.3f} s, from scratch {seconds[most]:.2f} s",
            f"{grown / seconds[most]:.2f} times",
            "1/5",
            grown <= seconds[most] / 5,
        ),
    ]


def _pods(rows: int, seed: int) -> list[Line]:
    more = {"": 0, "27,000 rows more": 3 * rows // 10, "900 rows more": rows // 100}
    table = stock_prices(rows + max(more.values()), seed)
    table = table.take(np.random.default_rng(seed).permutation(table.num_rows))
    lines = []
    for (what, number), limit in zip(more.items(), (1, 0.5, 0.1), strict=True):
        some = Rows.of(table.slice(0, rows + number), POD, rows)
        known = some.found()
        after, seconds = timed(some.found) if not number else timed(lambda: some.grown(known))  # noqa: B023
        name = f"pod, {what}" if what else f"pod, {rows:,} stock prices x {table.num_columns} columns, seed {seed}"
        lines.append(in_time(name, f"{len(after.sets['pod']):,} pods", seconds, limit))
    return lines


@dataclass(frozen=True)
class Gated:
    """A table with rules, to be gated with and without dependencies: so many rows first, then loads of 1,000."""

    name: str
    rules: Sequence[Mapping[str, Any]]
    made: Callable[[int], pa.Table]

    def write(self, folder: str, rows: int, loads: int) -> None:
        table = self.made(rows + 1_000 * loads)
        parquet.write_table(table.slice(0, rows), Path(folder) / "first.parquet")
        for number in range(loads):
            parquet.write_table(table.slice(rows + 1_000 * number, 1_000), Path(folder) / f"{number}.parquet")

    def request(self, folder: str, kept: str) -> dict[str, Any]:
        rules: dict[str, Any] = {"version": 1, "table": "gated", "constraints": list(self.rules)}
        watched = {"dependencies": {"watch": "top:50"}} if kept == "with" else {}
        return {"state": f"{folder}/{kept}", "constraints": {**rules, **watched}}


def _prices(seed: int) -> Gated:
    def made(rows: int) -> pa.Table:
        return stock_prices(rows, seed).append_column("id", pa.array(np.arange(rows)))

    return Gated("stock prices, one rule", [{"name": "one_row_a_day", "unique": ["date", "ticker"]}], made)


def _taxes(seed: int) -> Gated:
    return Gated("tax, rules phi7 to phi10", TAX, lambda rows: tax_table(rows, seed=seed))


def _gate(gated: Gated, rows: int, loads: int) -> list[Line]:
    """A load on a table whose dependencies of all classes are maintained, beside one on a table without.

    In turn, in one session, and then each as a task of Airflow runs it: in a process of its own.
    """
    spark = session()
    warm: dict[str, list[float]] = {"with": [], "without": []}
    cold: dict[str, list[float]] = {"with": [], "without": []}
    with tempfile.TemporaryDirectory() as folder:
        gated.write(folder, rows, loads + _COLD)
        first = {"path": f"{folder}/first.parquet"}
        for kept in warm:
            request = gated.request(folder, kept)
            apply_load(spark, {**request, "load_id": "first", "changes": first})
            if kept == "with":
                asked = {"classes": ["unique", "fd", "od", "pod", "dc"], "limits": {"max_terms": 4}}
                discover(spark, {**request, **asked, "table": first, "space": {"exclude": ["id"]}})
        engine = build_engine_zip(Path(folder))
        for number in range(loads + _COLD):
            for kept in warm:
                load = {"load_id": str(number), "changes": {"path": f"{folder}/{number}.parquet"}}
                request = {**gated.request(folder, kept), **load}
                if number < loads:
                    warm[kept].append(apply_load(spark, request).seconds["total"])
                else:
                    cold[kept].append(submit_request(Path(folder), request, engine)[0].seconds)
    spark.stop()
    what = f"a gate with dependencies of five classes kept, {gated.name}, {rows:,} rows, 1,000 more"
    return [
        _beside(f"{what}, by `spark-submit`", *(median(some[1:]) for some in cold.values())),
        _beside(f"{what}, in a session", *(median(some[2:]) for some in warm.values())),
    ]


def _beside(what: str, kept_up: float, plain: float) -> Line:
    text = f"{kept_up:.3f} s, without them {plain:.3f} s"
    say(f"{what}: {text}")
    return Line(what, text, f"{kept_up / plain:.2f} times", "at most 1.5", kept_up <= 1.5 * plain)


if __name__ == "__main__":
    print("| what | measured | result | limit | met |\n| --- | --- | --- | --- | --- |")
    print(*orders(share=float(sys.argv[1]) if len(sys.argv) > 1 else 1), sep="\n")
