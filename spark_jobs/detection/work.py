"""What Spark runs on its workers, step by step: encode a load, probe the indexes, report what was found.

Each step is a callable from Arrow batches to Arrow batches. Between them rows travel as (task, what it is, payload),
where a payload is an Arrow stream or a JSON document. Everything that a task writes has a name of its own, and only
what its rows name is committed: a task that Spark runs twice changes nothing.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.detection.codes import whole
from spark_jobs.detection.encode import ROW_ID, Spread, encode, skipped_null_rows
from spark_jobs.detection.frames import Frame, make_frames
from spark_jobs.detection.listing import MOST_ROW_IDS, Origin, Origins, list_pairs, list_rows
from spark_jobs.detection.plan import ConstraintPlan, Group, IndexPlan, Plan
from spark_jobs.detection.probe import Blocks, Counted, Tally, count_pairs, violating_rows
from spark_jobs.detection.report import Report
from spark_jobs.detection.runs import HASH, ROW_IDS, ROWS, Found, Reader, find_entries, write_run
from spark_jobs.errors import DcError
from spark_jobs.state.snapshots import DataFile
from spark_jobs.state.storage import Storage

CHUNK_SCHEMA = "task int, kind string, number int, unit int, payload binary"
FACT_SCHEMA = "task int, kind string, number int, payload binary"
DOCUMENT_SCHEMA = "document string"
_ROWS_PER_REPORT = 2**20


@dataclass(frozen=True, slots=True)
class Work:
    """Everything that the workers need to know about one load."""

    storage: Storage
    plan: Plan
    load: int
    staged: tuple[DataFile, ...]
    index_files: Mapping[str, tuple[DataFile, ...]]
    spread: Mapping[int, Spread]
    probe_tasks: int
    report_tasks: int
    max_listed: int
    max_samples: int
    mask: tuple[str, ...]

    def task_of(self, group: int, unit: int) -> int:
        """The probe task of a unit: units are dealt out in turn, so that every task gets its part of each group."""
        before = sum(self.spread[number].units for number in range(group))
        return (before + unit) % self.probe_tasks

    def writes(self, group: Group) -> list[IndexPlan]:
        """The indexes that this group writes: those that no earlier group has."""
        earlier = {index.id for one in self.plan.groups[: group.number] for index in one.indexes}
        return [index for index in group.indexes if index.id not in earlier]


def to_bytes(table: pa.Table) -> bytes:
    """A table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()


def from_bytes(payload: bytes) -> pa.Table:
    """The inverse of ``to_bytes``."""
    return pa.ipc.open_stream(payload).read_all()


def _payload(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document).encode()


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
                    yield _chunk_batch(0, "error", 0, 0, _payload(error.to_dict()))

    def _encode(self, task: int) -> Iterator[pa.RecordBatch]:
        work = self.work
        skipped = [0] * len(work.plan.constraints)
        for rows in self._pieces(task):
            for number, constraint in enumerate(work.plan.constraints):
                skipped[number] += skipped_null_rows(constraint, rows)
            for chunk in encode(work.plan, work.spread, rows):
                place = work.task_of(chunk.group, chunk.unit)
                yield _chunk_batch(place, chunk.role, chunk.group, chunk.unit, to_bytes(chunk.rows))
        yield _chunk_batch(0, "skipped", 0, 0, _payload({"rows": skipped}))

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


def _chunk_batch(task: int, kind: str, number: int, unit: int, payload: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array([task], pa.int32()),
            pa.array([kind]),
            pa.array([number], pa.int32()),
            pa.array([unit], pa.int32()),
            pa.array([payload], pa.binary()),
        ],
        ["task", "kind", "number", "unit", "payload"],
    )


@dataclass(frozen=True, slots=True)
class Probe:
    """Take the chunks of one task, probe unit by unit, yield what was found and the new entries for the report."""

    work: Work

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._probe(batches)
        except DcError as error:
            yield _fact_batch(0, "error", 0, _payload(error.to_dict()))

    def _probe(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        units: dict[tuple[int, int], dict[str, list[pa.Table]]] = defaultdict(lambda: defaultdict(list))
        for batch in batches:
            for _, kind, number, unit, payload in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                if kind in ("error", "skipped"):
                    yield _fact_batch(0, kind, 0, payload)
                else:
                    units[number, unit][kind].append(from_bytes(payload))
        for number, unit in sorted(units):
            group = self.work.plan.groups[number]
            roles = {role: _in_row_order(tables) for role, tables in units.pop((number, unit)).items()}
            yield from probe_unit(self.work, group, unit, roles)


def _in_row_order(tables: Sequence[pa.Table]) -> pa.Table:
    """The rows of several chunks in the order of their ids: the same whatever order the shuffle brought them in."""
    return pa.concat_tables(sorted(tables, key=lambda one: one.column(ROW_ID)[0].as_py()))


def _fact_batch(task: int, kind: str, number: int, payload: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array([task], pa.int32()),
            pa.array([kind]),
            pa.array([number], pa.int32()),
            pa.array([payload], pa.binary()),
        ],
        ["task", "kind", "number", "payload"],
    )


def probe_unit(work: Work, group: Group, unit: int, roles: Mapping[str, pa.Table]) -> Iterator[pa.RecordBatch]:
    """One unit: what its new rows violate, and the entries that they add to the indexes."""
    if not group.indexes:
        yield from _probe_single_rows(work, group, roles["both"])
        return
    share = (unit, work.spread[group.number].shares)
    sample = next(iter(roles.values()))
    new = {role: roles.get(role, roles.get("both", sample.slice(0, 0))) for role in ("t", "s")}
    sides = ("t", "s") if group.two_sided else ("t",)
    old = {}
    for side in sides:
        index = group.t_index if side == "t" else group.s_index
        asking = new["s" if side == "t" else "t"] if group.two_sided else new["t"]
        assert index is not None
        wanted = _wanted_hashes(group, asking) if index.key else None
        old[side] = find_entries(work.storage, work.index_files.get(index.id, ()), group.columns, wanted, share)
    tables = [(new[side], np.ones(new[side].num_rows, np.int64)) for side in sides]
    for side in sides:
        found = old[side].entries
        if found.num_columns:
            tables.append((found, found.column(ROWS).to_numpy()))
        else:
            tables.append((sample.slice(0, 0), np.zeros(0, np.int64)))
    frames = make_frames(tables, group.columns, group.classes)
    new_frames, old_frames = frames[: len(sides)], frames[len(sides) :]
    blocks = Blocks(
        new_frames[0], new_frames[-1], old_frames[0], old_frames[-1], pairs_new=share[0] == 0 or share[1] == 1
    )
    origins = Origins(
        _new_origin(new_frames[0]),
        _new_origin(new_frames[-1]),
        _old_origin(old_frames[0], old["t"]),
        _old_origin(old_frames[-1], old[sides[-1]]),
    )
    for constraint in group.constraints:
        counted = count_pairs(constraint, blocks)
        row_ids = tuple(whole(frame.table.column(ROW_ID)).to_numpy() for frame in (blocks.new_t, blocks.new_s))
        listing = None
        if counted.pairs_with_old or counted.pairs_among_new_twice:
            listing = list_pairs(constraint, counted, blocks, origins, group.columns, work.max_listed)
        yield from _facts(work, constraint, counted, violating_rows(counted, blocks, row_ids), listing)
    if blocks.pairs_new:
        for index in work.writes(group):
            frame = blocks.new_t if index == group.t_index else blocks.new_s
            task = unit * work.report_tasks // work.spread[group.number].units
            if frame.size:  # of an index over two columns, this unit may have rows in one role only
                yield _fact_batch(task, f"entries {index.id}", 0, to_bytes(_entries(frame, group.columns)))


def _wanted_hashes(group: Group, rows: pa.Table) -> np.ndarray:
    """The hashes of the rows that can take part in a violation at all: rows with NULLs in the way ask for nothing."""
    matters = np.zeros(rows.num_rows, bool)
    for constraint in group.constraints:
        for needed in constraint.null_exclusions():
            present = np.ones(rows.num_rows, bool)
            for name in needed:
                if rows.column(name).null_count:
                    present &= rows.column(name).is_valid().to_numpy()
            matters |= present
    return np.unique(rows.column(HASH).to_numpy()[matters])


def _probe_single_rows(work: Work, group: Group, rows: pa.Table) -> Iterator[pa.RecordBatch]:
    (frame,) = make_frames([(rows, np.ones(rows.num_rows, np.int64))], group.columns, group.classes)
    origin = _new_origin(frame)
    for constraint in group.constraints:
        violating = np.zeros(frame.size, np.int64)
        for body in constraint.bodies:
            violating |= frame.allows(body, "t")
        found = int(np.dot(violating, frame.weights))
        if not found:
            continue
        counted = Counted(Tally(violating, np.zeros_like(violating)), None, found, 0)
        blocks = Blocks(frame, frame, frame, frame, pairs_new=False)
        row_ids = whole(rows.column(ROW_ID)).to_numpy()
        listing = list_rows(origin, group.columns, np.flatnonzero(violating), work.max_listed)
        yield from _facts(work, constraint, counted, violating_rows(counted, blocks, (row_ids, row_ids)), listing)


def _facts(
    work: Work, constraint: ConstraintPlan, counted: Counted, rows: pa.Table, listing: pa.Table | None
) -> Iterator[pa.RecordBatch]:
    """What the report needs; rows go to the report by ranges of their ids, so that no report grows with the load."""
    number = constraint.number
    pairs = {"with_old": counted.pairs_with_old, "among_new_twice": counted.pairs_among_new_twice}
    if counted.pairs_with_old or counted.pairs_among_new_twice:
        yield _fact_batch(0, "pairs", number, _payload(pairs))
    if listing is not None and listing.num_rows:
        yield _fact_batch(number % work.report_tasks, "listed", number, to_bytes(listing))
    if rows.num_rows:
        ranges = rows.column("row_id").to_numpy() // _ROWS_PER_REPORT
        for one in np.unique(ranges):
            part = rows.filter(pa.array(ranges == one))
            yield _fact_batch(int(number + one) % work.report_tasks, "rows", number, to_bytes(part))


def _new_origin(frame: Frame) -> Origin:
    ids = whole(frame.table.column(ROW_ID)).to_numpy()

    def row_ids(chosen: np.ndarray) -> list[list[int]]:
        return [ids[frame.members_of(one)[:MOST_ROW_IDS]].tolist() for one in chosen]

    return Origin(frame, row_ids, new=True)


def _old_origin(frame: Frame, found: Found) -> Origin:
    def row_ids(chosen: np.ndarray) -> list[list[int]]:
        lists = []
        for one in chosen:
            merged = [id_ for ids in found.row_ids(frame.members_of(one), MOST_ROW_IDS) for id_ in ids]
            lists.append(merged[:MOST_ROW_IDS])
        return lists

    return Origin(frame, row_ids, new=False)


def _entries(frame: Frame, columns: Sequence[str]) -> pa.Table:
    """The projections of new rows as entries of an index."""
    ids = whole(frame.table.column(ROW_ID)).to_numpy()[frame.members]
    chosen = frame.table.take(pa.array(frame.first))
    facts = {HASH: chosen.column(HASH)} | {name: chosen.column(name) for name in columns}
    facts[ROWS] = pa.array(frame.weights)
    facts[ROW_IDS] = pa.ListArray.from_arrays(pa.array(frame.starts, pa.int32()), pa.array(ids))
    return pa.table(facts)


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
        for batch in batches:
            for _, kind, number, payload in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                if kind == "listed":
                    report.add_listing(number, from_bytes(payload))
                elif kind == "rows":
                    report.add_rows(number, from_bytes(payload))
                elif kind.startswith("entries "):
                    runs[kind.removeprefix("entries ")].append(from_bytes(payload))
                else:
                    yield {"kind": kind, "constraint": number, **json.loads(payload)}
        for index_id, tables in sorted(runs.items()):
            file = write_run(work.storage, index_id, work.load, pa.concat_tables(tables).sort_by(HASH))
            yield {"kind": "run", "constraint": 0, "file": asdict(file)}
        yield from report.finish({one.number: one.name for one in work.plan.constraints})
