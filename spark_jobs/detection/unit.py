"""One unit of work: the rows that a load brings to some blocks of a group, against the index and each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from spark_jobs.detection.codes import whole
from spark_jobs.detection.encode import ROW_ID
from spark_jobs.detection.frames import Frame, make_frames
from spark_jobs.detection.listing import MOST_ROW_IDS, Origin, Origins, list_pairs, list_rows
from spark_jobs.detection.plan import ConstraintPlan, Group, IndexPlan
from spark_jobs.detection.probe import Blocks, Counted, Tally, count_pairs, violating_rows
from spark_jobs.detection.runs import HASH, ROW_IDS, ROWS, Found, find_entries
from spark_jobs.detection.work import Work, send

ENTRIES = "entries "
"""The kind of message that carries new entries of an index; its id follows."""
_ROWS_PER_REPORT = 2**20


def probe_unit(work: Work, group: Group, unit: int, roles: Mapping[str, pa.Table]) -> Iterator[pa.RecordBatch]:
    """One unit: what its new rows violate, and the entries that they add to the indexes."""
    if not group.indexes:
        yield from _probe_single_rows(work, group, roles["both"])
        return
    shares = work.spread[group.number].shares
    blocks, origins = _blocks(work, group, roles, (unit if shares > 1 else 0, shares))
    row_ids = (_row_ids(blocks.new_t), _row_ids(blocks.new_s))
    for constraint in group.constraints:
        counted = count_pairs(constraint, blocks)
        listing = None
        if counted.pairs_with_old or counted.pairs_among_new_twice:
            listing = list_pairs(constraint, counted, blocks, origins, group.columns, work.most_found)
        yield from _facts(work, constraint, counted, violating_rows(counted, blocks, row_ids), listing)
    for index in work.writes(group) if blocks.pairs_new else []:
        frame = blocks.new_t if index == group.t_index else blocks.new_s
        task = unit * work.report_tasks // work.spread[group.number].units
        if frame.size:  # where t and s lie in different blocks, a unit may have rows in one role only
            yield send(task, f"{ENTRIES}{index.id}", _entries(frame, group.columns))


def _blocks(work: Work, group: Group, roles: Mapping[str, pa.Table], share: tuple[int, int]) -> tuple[Blocks, Origins]:
    """The new rows of a unit and what the indexes hold for them, as frames with codes in common orders."""
    nothing = next(iter(roles.values())).slice(0, 0)
    if group.two_sided:
        # a new t asks for the old rows that lie as s in its block, and the other way round
        new = [roles.get("t", nothing), roles.get("s", nothing)]
        old = [_find(work, group, index, rows, share) for index, rows in zip(group.indexes, reversed(new), strict=True)]
    else:
        new = [roles["both"]]
        old = [_find(work, group, group.indexes[0], roles["both"], share)]
    tables = [(rows, np.ones(rows.num_rows, np.int64)) for rows in new]
    for found in old:
        entries = found.entries if found.entries.num_columns else nothing.append_column(ROWS, pa.array([], pa.int64()))
        tables.append((entries, entries.column(ROWS).to_numpy()))
    frames = make_frames(tables, group.columns, group.classes)
    new_t, new_s, old_t, old_s = frames if group.two_sided else (frames[0], frames[0], frames[1], frames[1])
    origins = Origins(_new_origin(new_t), _new_origin(new_s), _old_origin(old_t, old[0]), _old_origin(old_s, old[-1]))
    return Blocks(new_t, new_s, old_t, old_s, pairs_new=share[0] == 0), origins


def _find(work: Work, group: Group, index: IndexPlan, asking: pa.Table, share: tuple[int, int]) -> Found:
    wanted = _wanted_hashes(group, asking) if index.key else None
    return find_entries(work.storage, work.index_files.get(index.id, ()), group.columns, wanted, share)


def _row_ids(frame: Frame) -> np.ndarray:
    return whole(frame.table.column(ROW_ID)).to_numpy()


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
        listing = list_rows(origin, group.columns, np.flatnonzero(violating), work.most_found)
        row_ids = (_row_ids(frame), _row_ids(frame))
        yield from _facts(work, constraint, counted, violating_rows(counted, blocks, row_ids), listing)


def _facts(
    work: Work, constraint: ConstraintPlan, counted: Counted, rows: pa.Table, listing: pa.Table | None
) -> Iterator[pa.RecordBatch]:
    """What the report needs; rows go to the report by ranges of their ids, so that no report grows with the load."""
    number = constraint.number
    pairs = {"with_old": counted.pairs_with_old, "among_new_twice": counted.pairs_among_new_twice}
    if counted.pairs_with_old or counted.pairs_among_new_twice:
        yield send(0, "pairs", pairs, number=number)
    if listing is not None and listing.num_rows:
        yield send(number % work.report_tasks, "listed", listing, number=number)
    if rows.num_rows:
        ranges = rows.column("row_id").to_numpy() // _ROWS_PER_REPORT
        for one in np.unique(ranges):
            part = rows.filter(pa.array(ranges == one))
            yield send(int(number + one) % work.report_tasks, "rows", part, number=number)


def _new_origin(frame: Frame) -> Origin:
    ids = _row_ids(frame)

    def row_ids(chosen: np.ndarray) -> list[list[int]]:
        return [ids[frame.members_of(one)[:MOST_ROW_IDS]].tolist() for one in chosen]

    return Origin(frame, row_ids, new=True)


def _old_origin(frame: Frame, found: Found) -> Origin:
    def row_ids(chosen: np.ndarray) -> list[list[int]]:
        members = [frame.members_of(one) for one in chosen]
        ids = iter(found.row_ids(np.concatenate([*members, np.zeros(0, np.int64)]), MOST_ROW_IDS))
        return [[id_ for _ in mine for id_ in next(ids)][:MOST_ROW_IDS] for mine in members]

    return Origin(frame, row_ids, new=False)


def _entries(frame: Frame, columns: Sequence[str]) -> pa.Table:
    """The projections of new rows as entries of an index."""
    ids = _row_ids(frame)[frame.members]
    chosen = frame.table.take(pa.array(frame.first))
    facts = {HASH: chosen.column(HASH)} | {name: chosen.column(name) for name in columns}
    facts[ROWS] = pa.array(frame.weights)
    facts[ROW_IDS] = pa.ListArray.from_arrays(pa.array(frame.starts, pa.int32()), pa.array(ids))
    return pa.table(facts)
