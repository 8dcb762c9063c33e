"""What Spark runs on its workers, step by step: encode a load, probe the indexes, report what was found.

Each step is a callable from Arrow batches to Arrow batches. Everything that a task writes has a name of its own, and
only what its messages name is committed: a task that Spark runs twice changes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from dc_engine.detection.consumers import LISTING, VIOLATING
from dc_engine.detection.dead import read_dead
from dc_engine.detection.documents import Document, SkippedRows, as_batch, failed
from dc_engine.detection.encode import columns_of, encode, skipped_null_rows, together, with_hash
from dc_engine.detection.plan import Group
from dc_engine.detection.report import Report
from dc_engine.detection.rows import ROW_ID, read_living
from dc_engine.detection.runs import HASH
from dc_engine.detection.unit import probe_unit
from dc_engine.detection.work import DOCUMENT, Work, received, send, tell
from dc_engine.errors import DcError
from dc_engine.sizes import SIZES
from dc_engine.state.packing import in_parts
from dc_engine.state.parquet import Reader

WHOLE = "whole"
"""A message to the probe of a slice, to take all rows of the load."""


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
                    yield tell(failed(error))

    def _encode(self, task: int) -> Iterator[pa.RecordBatch]:
        work = self.work
        skipped = {one.number: 0 for one in work.plan.constraints}
        for rows, sign in pieces(work, work.columns, self.tasks, task):
            for constraint in work.plan.constraints if not sign else ():
                skipped[constraint.number] += skipped_null_rows(constraint, rows)
            for chunk in encode(work.plan, work.spread, rows, sign):
                task_of = work.task_of(chunk.group, chunk.unit)
                for part in in_parts(chunk.rows, SIZES.message_bytes):
                    yield send(task_of, chunk.role, part, number=chunk.group, unit=chunk.unit)
        yield tell(SkippedRows(list(skipped.items())))
        for number, spread in work.spread.items() if task == 0 else ():
            for unit in range(spread.buckets, spread.units):
                yield send(work.task_of(number, unit), WHOLE, b"", number=number, unit=unit)


def pieces(work: Work, columns: Sequence[str], tasks: int = 1, task: int = 0) -> Iterator[tuple[pa.Table, str]]:
    """One of several equal shares of the row groups of inserted and deleted rows, with row ids, in their order."""
    dead = read_dead(work.storage, work.dead)
    turn = 0
    for file, sign in work.changed:
        reader = Reader(work.storage, file)
        for group in range(len(reader.group_starts) - 1):
            turn += 1
            if turn % tasks != task:
                continue
            for rows in read_living(reader, file, dead, columns, [group]):
                if rows.num_rows:
                    yield rows, sign


@dataclass(frozen=True, slots=True)
class Probe:
    """Take the chunks of one task, probe unit by unit, write the new runs, yield what was found for the report."""

    work: Work

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._probe(batches)
        except DcError as error:
            yield tell(failed(error))

    def _probe(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        units: dict[tuple[int, int], dict[str, list[pa.Table]]] = defaultdict(lambda: defaultdict(list))
        whole_units: list[tuple[int, int]] = []
        for message in received(batches):
            if message.kind == DOCUMENT:
                yield tell(message.document)
            elif message.kind == WHOLE:
                whole_units.append((message.number, message.unit))
            else:
                units[message.number, message.unit][message.kind].append(message.table)
        groups = together(self.work.plan)
        for number, unit in sorted(units):
            yield from self._unit(groups[number], unit, units.pop((number, unit)))
        for number, unit in sorted(whole_units):
            yield from self._unit(groups[number], unit, self._all_rows(groups[number], unit))

    def _unit(
        self, groups: Sequence[Group], unit: int, tables: Mapping[str, Sequence[pa.Table]]
    ) -> Iterator[pa.RecordBatch]:
        """One unit of each group whose rows came together."""
        roles = {role: _in_row_order(own) for role, own in tables.items()}
        for group in groups if roles else ():
            own = {role: _of_group(group, rows) for role, rows in roles.items()}
            yield from probe_unit(self.work, group, self.work.spread[groups[0].number].slice_of(unit), own)
            pa.default_memory_pool().release_unused()  # Spark keeps the process for other tasks

    def _all_rows(self, groups: Sequence[Group], unit: int) -> dict[str, list[pa.Table]]:
        """All rows of the load in the block of a slice, read where they were staged."""
        roles: dict[str, list[pa.Table]] = defaultdict(list)
        part = self.work.spread[groups[0].number].slice_of(unit)
        columns = columns_of(groups)
        for rows, sign in pieces(self.work, columns):
            hashed, hashes = with_hash(groups[0].indexes[0], rows.select([ROW_ID, *columns]))
            own = hashed if part is None or part.block is None else hashed.filter(pa.array(hashes == part.block))
            if own.num_rows:
                roles[f"{sign}both"].append(own)
        return roles


def _of_group(group: Group, rows: pa.Table) -> pa.Table:
    """The columns of one group, of rows that were sent for several."""
    others = [name for name in rows.column_names if name not in group.columns and name not in (HASH, ROW_ID)]
    return rows.drop_columns(others) if others else rows


def _in_row_order(tables: Sequence[pa.Table]) -> pa.Table:
    """The rows of several chunks in the order of their ids: the same whatever order the shuffle brought them in."""
    return pa.concat_tables(sorted(tables, key=lambda one: one.column(ROW_ID)[0].as_py()))


@dataclass(frozen=True, slots=True)
class ReportStep:
    """Add up what the probes found, write it for people, and report to the driver."""

    work: Work

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        documents: list[Document] = []
        try:
            documents.extend(self._documents(batches))
        except DcError as error:  # what was written before is reported as well, so that the driver can remove it
            documents.append(failed(error))
        yield as_batch(documents)

    def _documents(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Document]:
        work = self.work
        report = Report(work.storage, work.load, work.max_listed, work.max_samples, work.mask)
        for message in received(batches):
            if message.kind == LISTING:
                report.add_listing(message.number, message.table)
            elif message.kind == VIOLATING:
                report.add_rows(message.number, message.table)
            else:
                yield message.document
        yield from report.finish({one.number: one for one in work.plan.constraints})
