"""What Spark runs on its workers, step by step: encode a load, probe the indexes, report what was found.

Each step is a callable from Arrow batches to Arrow batches. Everything that a task writes has a name of its own, and
only what its messages name is committed: a task that Spark runs twice changes nothing.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.detection.encode import ROW_ID, encode, skipped_null_rows
from spark_jobs.detection.report import Report
from spark_jobs.detection.runs import HASH, Reader, write_run
from spark_jobs.detection.unit import ENTRIES, probe_unit
from spark_jobs.detection.work import Work, received, send
from spark_jobs.errors import DcError

DOCUMENT_SCHEMA = "document string"


@dataclass(frozen=True, slots=True)
class Encode:
    """Read staged row groups, yield chunks for the probes. The input rows say which part of the load is ours."""

    work: Work
    tasks: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.column(0).to_pylist():
                try:
                    yield from self._encode(task)
                except DcError as error:
                    yield send(0, "error", error.to_dict())

    def _encode(self, task: int) -> Iterator[pa.RecordBatch]:
        work = self.work
        skipped = [0] * len(work.plan.constraints)
        for rows in self._pieces(task):
            for number, constraint in enumerate(work.plan.constraints):
                skipped[number] += skipped_null_rows(constraint, rows)
            for chunk in encode(work.plan, work.spread, rows):
                task_of = work.task_of(chunk.group, chunk.unit)
                yield send(task_of, chunk.role, chunk.rows, number=chunk.group, unit=chunk.unit)
        yield send(0, "skipped", {"rows": skipped})

    def _pieces(self, task: int) -> Iterator[pa.Table]:
        """The task's share of the load's row groups, with row ids."""
        turn = 0
        for file in self.work.staged:
            reader = Reader(self.work.storage, file)
            starts = reader.group_starts
            for group in range(len(starts) - 1):
                turn += 1
                if turn % self.tasks != task:
                    continue
                rows = reader.read([group], self.work.plan.columns)
                first = (file.first_row_id or 0) + int(starts[group])
                yield rows.append_column(ROW_ID, pa.array(np.arange(first, first + rows.num_rows)))


@dataclass(frozen=True, slots=True)
class Probe:
    """Take the chunks of one task, probe unit by unit, yield what was found and the new entries for the report."""

    work: Work

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._probe(batches)
        except DcError as error:
            yield send(0, "error", error.to_dict())

    def _probe(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        units: dict[tuple[int, int], dict[str, list[pa.Table]]] = defaultdict(lambda: defaultdict(list))
        for message in received(batches):
            if message.kind in ("error", "skipped"):
                yield send(0, message.kind, message.document)
            else:
                units[message.number, message.unit][message.kind].append(message.table)
        for number, unit in sorted(units):
            group = self.work.plan.groups[number]
            roles = {role: _in_row_order(tables) for role, tables in units.pop((number, unit)).items()}
            yield from probe_unit(self.work, group, unit, roles)


def _in_row_order(tables: Sequence[pa.Table]) -> pa.Table:
    """The rows of several chunks in the order of their ids: the same whatever order the shuffle brought them in."""
    return pa.concat_tables(sorted(tables, key=lambda one: one.column(ROW_ID)[0].as_py()))


@dataclass(frozen=True, slots=True)
class ReportStep:
    """Add up what the probes found, write it for people, write the new runs, and tell the driver."""

    work: Work

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            documents = list(self._documents(batches))
        except DcError as error:
            documents = [{"kind": "error", "constraint": 0, **error.to_dict()}]
        yield pa.RecordBatch.from_pydict({"document": [json.dumps(one) for one in documents]})

    def _documents(self, batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
        work = self.work
        report = Report(work.storage, work.load, work.max_listed, work.max_samples, work.mask)
        runs: dict[str, list[pa.Table]] = defaultdict(list)
        for message in received(batches):
            if message.kind == "listed":
                report.add_listing(message.number, message.table)
            elif message.kind == "rows":
                report.add_rows(message.number, message.table)
            elif message.kind.startswith(ENTRIES):
                runs[message.kind.removeprefix(ENTRIES)].append(message.table)
            else:
                yield {"kind": message.kind, "constraint": message.number, **message.document}
        for index_id, tables in sorted(runs.items()):
            file = write_run(work.storage, index_id, work.load, pa.concat_tables(tables).sort_by(HASH))
            yield {"kind": "run", "constraint": 0, "file": asdict(file)}
        yield from report.finish({one.number: one.name for one in work.plan.constraints})
