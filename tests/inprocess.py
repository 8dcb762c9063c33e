"""The jobs without Spark: tasks run one after the other in this process, rows come from Arrow tables in memory.

What is replaced is Spark's part alone (reading a source, moving messages between tasks); everything else is the
product's own code, so that hundreds of random histories take seconds.
"""

from __future__ import annotations

import functools
import importlib
import json
import pkgutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from types import FunctionType, ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

import dc_engine
from dc_engine.constraints.model import microseconds
from dc_engine.detection import sources, spark
from dc_engine.detection.plan import Plan
from dc_engine.detection.staging import CHANGE_TYPE, FEED_COLUMNS, ROW_HASHES, StagedLoad, gather, stage_rows
from dc_engine.request import Changes
from dc_engine.state.storage import Storage


@dataclass(frozen=True)
class Source:
    """An Arrow table with the Spark types of its columns, in the place of a DataFrame."""

    table: pa.Table
    types: dict[str, str]


@dataclass
class Frame:
    """Just as much of a DataFrame as the engine uses between its steps."""

    parts: list[list[pa.RecordBatch]]

    def __getitem__(self, name: str) -> str:
        return name

    def mapInArrow(self, step: Callable, schema: str) -> Frame:
        return Frame([list(step(iter(part))) for part in self.parts])

    def repartitionById(self, parts: int, column: str) -> Frame:
        dealt: list[list[pa.RecordBatch]] = [[] for _ in range(parts)]
        for batch in (batch for part in self.parts for batch in part):
            for number in range(parts):
                mine = batch.filter(pa.array(batch.column(0).to_numpy() == number))
                if mine.num_rows:
                    dealt[number].append(mine)
        return Frame(dealt)

    def collect(self) -> list[dict[str, Any]]:
        return [row for part in self.parts for batch in part for row in batch.to_pylist()]


@dataclass
class Session:
    """In the place of a Spark session: sources by their path."""

    sources: dict[str, Source] = field(default_factory=dict)

    def range(self, start: int, end: int, step: int, parts: int) -> Frame:
        assert (start, step, parts) == (0, 1, end)
        return Frame([[pa.RecordBatch.from_pydict({"id": [number]})] for number in range(end)])


def _row_hashes(table: pa.Table) -> list[np.ndarray]:
    """Two numbers for each row, from all columns but those of a change feed; NULLs do not count."""
    columns = [name for name in table.column_names if name.lower() not in FEED_COLUMNS]
    lists = [[_plain(value) for value in table.column(name).to_pylist()] for name in columns]
    rows = [
        tuple((name.lower(), value) for name, value in zip(columns, row, strict=True) if value is not None)
        for row in zip(*lists, strict=True)
    ]
    return [np.array([hash((salt, repr(row))) for row in rows], np.int64) for salt in (1, 2)]


def _plain(value: Any) -> Any:
    """One text for equal numbers."""
    return 0.0 if isinstance(value, float) and value == 0 else value


def stage(
    changes: Source,
    source: Changes,
    storage: Storage | None,
    load: int,
    plan: Plan | None,
    types: Mapping[str, str],
    *,
    mask: Collection[str] = (),
) -> StagedLoad:
    table = changes.table
    by_name = {name.lower(): name for name in table.column_names}
    columns = plan.columns if plan else ()
    arrays = []
    for name in columns:
        present = by_name.get(name.lower())
        arrays.append(table.column(present) if present else pa.nulls(table.num_rows, _arrow_type(changes, name)))
    names = [*columns]
    if CHANGE_TYPE in by_name:
        arrays.append(table.column(by_name[CHANGE_TYPE]))
        names.append(CHANGE_TYPE)
    arrays += [pa.array(lane) for lane in _row_hashes(table)]
    whole = pa.table(arrays, names=[*names, *ROW_HASHES])
    half = -(-table.num_rows // 2)
    documents = []
    for number, part in enumerate((whole.slice(0, half), whole.slice(half))):
        staged = stage_rows(storage, load, columns, number, iter(part.to_batches()))
        documents.append(json.dumps(asdict(staged)))
    return gather(documents, storage, load, list(types.items()))


def _arrow_type(changes: Source, name: str) -> pa.DataType:
    return {key.lower(): value for key, value in ARROW_TYPES.items()}[name.lower()]


ARROW_TYPES: dict[str, pa.DataType] = {}
"""The Arrow types of columns that a source may leave out."""


def _read_changes(session: Session, changes: Changes, what: str = "changes", *, mask: Collection[str] = ()) -> Source:
    assert changes.path is not None
    return session.sources[changes.path]


def _fingerprint(changes: Source, source: Changes, types: Mapping[str, str], *, mask: Collection[str] = ()) -> str:
    return stage(changes, source, None, 0, None, types).fingerprint


STAND_INS: dict[Callable, Callable] = {
    sources.read_changes: _read_changes,
    sources.column_types: lambda frame, changes: frame.types,
    sources.instant_in: lambda session: microseconds,
    spark.stage_load: stage,
    spark.fingerprint_load: _fingerprint,
}
"""Spark's part, and what does it here."""


@functools.cache
def engine_modules() -> list[ModuleType]:
    """Every module of the engine but the kernels; one that was first imported later would keep a stand-in for ever."""
    found = pkgutil.walk_packages(dc_engine.__path__, "spark_jobs.")
    return [importlib.import_module(one.name) for one in found if not one.name.startswith("dc_engine.kernels.")]


@contextmanager
def without_spark() -> Iterator[Session]:
    """Run the jobs in this process; sources are given to the session by their path."""
    with ExitStack() as patches:
        for module in engine_modules():
            for name, real in list(vars(module).items()):
                if isinstance(real, FunctionType) and real in STAND_INS:
                    patches.enter_context(patch.object(module, name, STAND_INS[real]))
        yield Session()
