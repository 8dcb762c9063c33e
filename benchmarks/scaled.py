"""What the benchmarks of scale share: tables that grow, loads onto them, and how much of the indexes is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.submit import Finished, submit_request
from dags_examples.tax_data import tax_table
from dc_engine.state import memory, parquet
from dc_engine.state.storage import Storage

SEED = 7
ROWS = 10_000_000
LOAD_ROWS = 1_000
GIB = 2**30
_PART = 500_000
TAX: tuple[dict[str, Any], ...] = (
    {"name": "phi7", "unique": ["area_code", "phone"]},
    {"name": "phi8", "fd": "zip -> city"},
    {"name": "phi9", "fd": "state, has_child -> child_exemp"},
    {"name": "phi10", "deny": "t.state = s.state and t.salary > s.salary and t.rate < s.rate"},
)
INEQUALITIES: tuple[dict[str, Any], ...] = ({"name": "phi_ineq", "deny": "t.salary > s.salary and t.rate < s.rate"},)
TEN: tuple[dict[str, Any], ...] = (
    *TAX,
    {"name": "zip_state", "fd": "zip -> state"},
    {"name": "single", "fd": "zip, marital_status -> single_exemp"},
    {"name": "married", "fd": "state, marital_status -> married_exemp"},
    {"name": "owner", "fd": "area_code, phone -> last_name"},
    {"name": "key", "unique": ["id"]},
    {"name": "rate_in_zip", "deny": "t.zip = s.zip and t.salary > s.salary and t.rate < s.rate"},
)


def pay_table(rows: int, seed: int, first_id: int = 1) -> pa.Table:
    """Rates that rise with salaries, all over the table; one row in 100,000 is off by a little."""
    chance = np.random.default_rng([seed, first_id])
    salary = chance.integers(0, 10**9, rows)
    rate = salary // 7
    off = chance.random(rows) < 1e-5
    rate[off] += 2_000
    return pa.table({"id": np.arange(first_id, first_id + rows), "salary": salary, "rate": rate})


def wide_table(rows: int, sets: int, seed: int) -> pa.Table:
    """Columns k, a, b for each set; a and b rise with k, so that no rule is broken."""
    chance = np.random.default_rng(seed)
    columns: dict[str, np.ndarray] = {}
    for one in range(sets):
        key = chance.integers(0, 10**6, rows)
        columns |= {f"k{one}": key, f"a{one}": key * 3 + one, f"b{one}": key // 2}
    return pa.table(columns)


def many_rules(count: int, sets: int) -> list[dict[str, Any]]:
    """Rules of which those with the same number modulo ``sets`` read the same columns."""
    tails = (
        "t.a{0} > s.a{0} and t.b{0} < s.b{0}",
        "t.a{0} != s.a{0} and t.b{0} != s.b{0}",
        "t.a{0} < s.a{0} and t.b{0} = s.b{0}",
        "t.a{0} != s.a{0} and t.b{0} = s.b{0}",
    )
    return [
        {"name": f"r{one}", "deny": f"t.k{one % sets} = s.k{one % sets} and " + tails[one // sets].format(one % sets)}
        for one in range(count)
    ]


@dataclass(frozen=True, slots=True)
class Run:
    """Where a run has its files, and how large it is."""

    folder: Path
    engine: Path
    rows: int

    def table(self, name: str, rows: int, first_id: int = 1, make: Any = tax_table) -> Path:
        """Rows in Parquet files, made part by part, once."""
        target = self.folder / f"{name}-{rows}-{first_id}"
        if not target.exists():
            target.mkdir()
            for first in range(0, rows, _PART):
                part = make(min(_PART, rows - first), seed=SEED, first_id=first_id + first)
                pq.write_table(part, target / f"{first:010}.parquet", row_group_size=131_072)
        return target

    def request(self, state: str, load: Path, rules: Sequence[Mapping[str, Any]], **more: Any) -> dict[str, Any]:
        constraints = {"version": 1, "table": "scaled", "constraints": list(rules)}
        changes = {"format": "parquet", "path": str(load)}
        where = str(self.folder / state)
        return {"state": where, "load_id": f"{load.name}", "changes": changes, "constraints": constraints, **more}

    def submit(self, request: Mapping[str, Any], **more: Any) -> tuple[Finished, dict[str, Any]]:
        """Apply a load in a process tree of its own."""
        return submit_request(self.folder, request, self.engine, **more)


@dataclass(slots=True)
class Reads:
    """What was read of the indexes."""

    bytes: int = 0
    groups: int = 0


@contextmanager
def counted_reads() -> Iterator[Reads]:
    """Count what is read of a state's indexes in this process, which remembers nothing."""
    reads, known = Reads(), memory.MEMORY
    into, part, groups = Storage.read_into, Storage.read_part, parquet.Reader._read

    def read_into(self: Storage, content: memoryview, path: str, spans: Sequence[tuple[int, int]]) -> None:
        reads.bytes += sum(end - start for start, end in spans) if path.startswith("index/") else 0
        into(self, content, path, spans)

    def read_part(self: Storage, path: str, start: int, end: int) -> bytes:
        reads.bytes += end - start if path.startswith("index/") else 0
        return part(self, path, start, end)

    def read_groups(self: parquet.Reader, wanted: Sequence[int], *given: Any, **named: Any) -> pa.Table:
        reads.groups += len(wanted) if self._file.path.startswith("index/") else 0
        return groups(self, wanted, *given, **named)

    Storage.read_into, Storage.read_part, parquet.Reader._read = read_into, read_part, read_groups  # type: ignore[method-assign]
    parquet.MEMORY = memory.Memory()
    try:
        yield reads
    finally:
        Storage.read_into, Storage.read_part, parquet.Reader._read = into, part, groups  # type: ignore[method-assign]
        parquet.MEMORY = known
