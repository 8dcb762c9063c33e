"""The same tables searched by Desbordante: the sets must be the same, and the times are compared.

``python -m benchmarks.peers`` prints its table. Desbordante's licence is AGPL, so nothing here installs it
(``pip install desbordante``); without it there are no lines. Both work in this process, on the same rows, with two
threads; what is compared is its ``execute`` and our way from codes to the set, both without loading, ours after a run
that compiles. One line compares whole searches: ours as a job of a running Spark session.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as parquet

from benchmarks.discovery import KEYS_AND_FDS, ORDERED, SEED, Table, timed
from benchmarks.lines import Line, say
from benchmarks.submit import session
from dags_examples.tax_data import tax_table
from dc_engine.constraints.model import Op
from dc_engine.discover import discover
from dc_engine.discovery.boxes import Box, equalities, op_of, said
from dc_engine.discovery.coded import encoded
from dc_engine.discovery.keeping import found
from dc_engine.discovery.known import COUNTED, WITNESSED, Known
from dc_engine.discovery.space import Asked, Space, space_of
from dc_engine.discovery.terms import Outcome

TWELVE = (
    *("phone", "zip", "city", "state", "last_name", "first_name", "gender", "marital_status", "has_child"),
    *("area_code", *ORDERED),
)

_LITERAL = re.compile(r"t\.(\w+) ([<>=!]+) s\.")
Said = frozenset[tuple[str, str]]
"""A denial without cross columns: columns with operators, the smaller of its two mirror images."""


def beside_peers(seed: int = SEED, share: float = 1) -> list[Line]:
    """Lines of the table, with a share of the rows; none without Desbordante."""
    if importlib.util.find_spec("desbordante") is None:
        say("Desbordante is not installed: nothing to compare with.")
        return []
    return [*_denials(int(30_000 * share), seed), *_keys_and_fds(int(100_000 * share), seed)]


@dataclass(frozen=True, slots=True)
class _Search:
    """What one of the two found, and how long it took."""

    seconds: float
    found: set[Any]
    loading: float = 0.0


def _denials(rows: int, seed: int) -> list[Line]:
    table = _as_text(tax_table(rows, seed=seed).select(list(TWELVE)))
    space = space_of(Asked(classes=("dc",), ordered=ORDERED), _types(table), {})
    codes = encoded(space, {name: table.column(name) for name in table.column_names}, np.arange(rows))
    found(space, codes, COUNTED)
    known, seconds = timed(lambda: found(space, codes, COUNTED))
    ours = _Search(seconds, {_said(space, box) for box in known.sets["dc"]})
    exact = {"evidence_threshold": 0.0, "allow_cross_columns": False, "threads": 2}
    theirs = _theirs("dc", "FastADC", table, lambda one: _mirrored(_LITERAL.findall(str(one))), **exact)
    data = f"{rows:,} tax rows x {len(TWELVE)} columns, seed {seed}"
    job = _Search(_whole_job(table), ours.found)
    loaded = _Search(theirs.seconds + theirs.loading, theirs.found)
    return [
        _line(f"dc, {data}, beside FastADC", "denials", ours, theirs, 8),
        _line("dc, the warm job with reading and ranking, beside FastADC with loading", "denials", job, loaded, 2),
    ]


def _whole_job(table: pa.Table) -> float:
    """The seconds of a search in a session that has done the same before."""
    spark = session()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        parquet.write_table(table, path)
        request = {"table": {"path": str(path)}, "classes": ["dc"], "space": {"ordered": list(ORDERED)}}
        seconds = [discover(spark, request)["seconds"]["total"] for _ in range(5)]
    spark.stop()
    return median(seconds[2:])


def _keys_and_fds(rows: int, seed: int) -> list[Line]:
    table = Table(rows, rows // 100, (), KEYS_AND_FDS, seed)
    known, seconds = timed(lambda: found(table.space, table.first(), WITNESSED))
    after, grown = timed(lambda: table.grown(known))
    everything = table.all.select(list(table.space.columns))
    first = everything.slice(0, rows)
    hyfd, later = (_theirs("fd", "HyFD", one, _fd_of) for one in (first, everything))
    hyucc = _theirs("ucc", "HyUCC", first, lambda one: frozenset(one.indices))
    keys = {equalities(box) for box in known.sets["unique"]}
    data = f"{rows:,} tax rows x {first.num_columns} columns, seed {seed}"
    return [
        _line(f"fd, {data}, beside HyFD", "fds", _Search(seconds, _fds(known)), hyfd, 3),
        _line("unique, the same rows, beside HyUCC", "keys", _Search(seconds, keys), hyucc),
        _line("fd, 1% more rows, beside HyFD", "fds", _Search(grown, _fds(after)), later, 50),
    ]


def _fds(known: Known) -> set[tuple[frozenset[int], int]]:
    """Left and right sides, by the places of columns."""
    return {(left, min(set(said(box)) - left)) for box in known.sets["fd"] for left in [equalities(box)]}


def _fd_of(one: Any) -> tuple[frozenset[int], int]:
    return frozenset(one.lhs_indices), one.rhs_index


def _theirs(room: str, name: str, table: pa.Table, read: Callable[[Any], Any], **options: Any) -> _Search:
    """What an algorithm found, each read while the algorithm lives: it owns what a result points to."""
    import desbordante

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        csv.write_csv(table, path)
        algorithm = getattr(getattr(desbordante, room).algorithms, name)()
        begun = time.perf_counter()
        algorithm.load_data(table=(str(path), ",", True))
        started = time.perf_counter()
        algorithm.execute(**options)
        seconds = time.perf_counter() - started
        return _Search(seconds, {read(one) for one in getattr(algorithm, f"get_{room}s")()}, started - begun)


def _as_text(table: pa.Table) -> pa.Table:
    """All but the ordered columns as texts that no one takes for numbers: as many operators for both."""
    return pa.table(
        {
            name: table.column(name) if name in ORDERED else [f"v{one}" for one in table.column(name).to_pylist()]
            for name in table.column_names
        }
    )


def _types(table: pa.Table) -> dict[str, str]:
    return {name: "double" if name in ORDERED else "string" for name in table.column_names}


def _said(space: Space, box: Box) -> Said:
    terms = space.terms().terms
    return _mirrored((terms[place].left, op_of(Outcome(box[place])).value) for place in said(box))


def _mirrored(literals: Iterable[tuple[str, str]]) -> Said:
    one = {(name, Op({"==": "="}.get(op, op))) for name, op in literals}
    ways = [frozenset((name, op.value) for name, op in way) for way in (one, {(name, op.flipped) for name, op in one})]
    return min(ways, key=sorted)


def _line(what: str, things: str, ours: _Search, theirs: _Search, times: float = 0) -> Line:
    same = ours.found == theirs.found
    ratio = theirs.seconds / ours.seconds
    differ = f"{len(ours.found - theirs.found)} only here, {len(theirs.found - ours.found)} only there"
    text = (
        f"{len(ours.found):,} {things}, {'the same' if same else differ}; {ours.seconds:.3f} s, {theirs.seconds:.2f} s"
    )
    say(f"{what}: {text}")
    limit = f"the same; at least {times:g}" if times else "the same"
    return Line(what, text, f"{ratio:.1f} times faster", limit, same and ratio >= times)


if __name__ == "__main__":
    print("| what | measured | result | limit | met |\n| --- | --- | --- | --- | --- |")
    print(*beside_peers(share=float(sys.argv[1]) if len(sys.argv) > 1 else 1), sep="\n")
