"""The engine without Spark: the same worker functions, chained by hand over an in-memory state."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from dc_engine.constraints.model import ConstraintSet, microseconds
from dc_engine.detection import hashing
from dc_engine.detection.documents import Failed, from_text
from dc_engine.detection.encode import Slice, Spread
from dc_engine.detection.hashing import range_of
from dc_engine.detection.planning import make_plan
from dc_engine.detection.rows import take_rows
from dc_engine.detection.runs import Runs
from dc_engine.detection.sizing import make_work
from dc_engine.detection.staging import SALT, Staged, gather, stage_rows
from dc_engine.detection.steps import Encode, Probe, ReportStep
from dc_engine.detection.zones import with_zones
from dc_engine.maintained.judging import Findings, add_up
from dc_engine.request import Changes, Request
from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.packing import parquet_bytes
from dc_engine.state.parquet import store_parquet
from dc_engine.state.storage import Storage

_numbers = itertools.count()


@contextmanager
def colliding() -> Iterator[None]:
    """Hashes of so few bits that different keys often have the same."""
    mixed = hashing.mixed
    with patch.object(hashing, "mixed", lambda lanes: mixed(lanes) & np.uint64(3 << 62)):
        yield


@dataclass
class Engine:
    """A table's state, loaded step by step."""

    constraint_set: ConstraintSet
    schema: Mapping[str, str]
    units: int = 1
    max_listed: int = 10_000
    max_samples: int = 20
    mask: tuple[str, ...] = ()
    loads: int = 0
    index_files: dict[str, tuple[DataFile, ...]] = field(default_factory=dict)
    rows_files: list[DataFile] = field(default_factory=list)
    spread: Mapping[int, Spread] = field(default_factory=dict)
    """How the work of the newest load was cut up."""

    def __post_init__(self) -> None:
        self.storage = Storage(f"memory://engine/{next(_numbers)}")
        self.plan = make_plan(with_zones(self.constraint_set, self.schema, microseconds), self.schema)

    def load(self, rows: pa.Table, deleted: Sequence[int] = ()) -> list[Findings]:
        """Apply a load: rows that come, and the ids of those that go; what it did to each constraint."""
        self.loads += 1
        staged = gather(
            [_document(self._stage(part, number)) for number, part in enumerate(_parts(rows))],
            self.storage,
            self.loads,
            [],
        )
        request = Request(
            state=self.storage.uri,
            load_id=str(self.loads),
            changes=Changes(path="in memory"),
            constraints="in memory",
            max_listed=self.max_listed,
            max_samples=self.max_samples,
            mask=self.mask,
        )
        work = make_work(
            self.storage,
            self.plan,
            self.loads,
            self.index_files,
            request,
            inserts=staged.inserts,
            deletes=self._deleted(deleted),
        )
        if self.units > 1:
            spread = {number: self._forced(number) for number in work.spread}
            units = [one.units for one in spread.values()]
            first_units = dict(zip(spread, itertools.accumulate(units, initial=0), strict=False))
            work = replace(work, spread=spread, first_units=first_units, probe_tasks=min(3, sum(units)))
        self.spread = work.spread
        chunks = list(Encode(work, 1)([pa.RecordBatch.from_pydict({"id": [0]})]))
        facts = list(_by_task(chunks, work.probe_tasks, Probe(work)))
        reported = list(_by_task(facts, work.report_tasks, ReportStep(work)))
        documents = [from_text(text) for batch in reported for text in batch.column(0).to_pylist()]
        for document in documents:
            if isinstance(document, Failed):
                raise document.error
        findings, files = add_up(documents, len(self.plan.constraints))
        for file in files:
            self.index_files[file.owner] = (*self.index_files.get(file.owner, ()), file)
        self.rows_files += staged.inserts
        return findings

    def _deleted(self, ids: Sequence[int]) -> list[DataFile]:
        """The rows of some ids as a file of deletes."""
        if not len(ids):
            return []
        rows = take_rows(self.storage, self.rows_files, np.array(ids, np.int64), self.plan.stored)
        data = parquet_bytes(rows)
        path = f"deletes/{self.loads}.parquet"
        return [store_parquet(self.storage, path, data, kind=FileKind.DELETES, load=self.loads, rows=rows.num_rows)]

    def _stage(self, rows: pa.Table, partition: int) -> Staged:
        batches = rows.select(list(self.plan.columns)).to_batches()
        batches = [batch.append_column(SALT, pa.array(np.zeros(batch.num_rows, np.int64))) for batch in batches]
        return stage_rows(self.storage, self.loads, self.plan.columns, partition, iter(batches))

    def _forced(self, number: int) -> Spread:
        indexes = self.plan.groups[number].indexes
        if not indexes or indexes[0].key:
            return Spread(self.units)
        files = self.index_files.get(indexes[0].id, ())
        if indexes[0].ordered and files:
            ranges = Runs(self.storage, files).ranges(self.units)
        elif indexes[0].ordered:
            ends = [2**64 * one // self.units - 2**63 for one in range(self.units + 1)]
            ranges = tuple((low, end - 1) for low, end in itertools.pairwise(ends))
        else:
            ranges = tuple(range_of(one, self.units) for one in range(self.units))
        return Spread(0, tuple(Slice({number: one}) for one in ranges))


def _parts(rows: pa.Table) -> list[pa.Table]:
    half = math.ceil(rows.num_rows / 2)
    return [rows.slice(0, half), rows.slice(half)]


def _document(staged: Staged) -> str:
    from dataclasses import asdict

    return json.dumps(asdict(staged))


def _by_task(batches: Sequence[pa.RecordBatch], tasks: int, step: Any) -> Any:
    for task in range(tasks):
        mine = [batch for batch in batches if batch.column(0)[0].as_py() == task]
        yield from step(mine)
