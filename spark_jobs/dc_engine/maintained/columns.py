"""Columns that are asked for now and were not kept so far, for the rows in the state."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from dc_engine.constraints.model import ConstraintSet
from dc_engine.detection.dead import is_alive, read_dead
from dc_engine.detection.plan import Plan
from dc_engine.detection.rows import read_dead_rows, row_ids, write_rows
from dc_engine.errors import ConstraintError, counted
from dc_engine.maintained.base import Ground
from dc_engine.request import Changes
from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.parquet import Reader
from dc_engine.state.snapshots import Snapshot
from dc_engine.state.storage import Storage

log = logging.getLogger("airflow_dc_provider.apply_load")


def with_columns(
    ground: Ground,
    before: Snapshot,
    plan: Plan,
    rules: ConstraintSet,
    staged: Sequence[DataFile],
    table: Changes | None,
) -> Snapshot:
    """The snapshot with rows that have all columns of a plan: those that were not kept come from the table."""
    if not set(plan.columns) - set(before.schema) or not before.files_of(FileKind.ROWS):
        return before
    unknown = unknown_columns(ground.storage, before, plan, staged)
    if not unknown:
        return before
    if table is None:
        lacking = {name.lower() for name in unknown}
        users = [one.called for one in rules.rules if {name.lower() for name in one.columns} & lacking]
        raise ConstraintError(
            f"Column {', '.join(map(repr, unknown))}, which {users[0] if users else 'the key'} needs, is not known "
            f"for the {counted(before.rows, 'row')} in the state, or not in its present type.",
            hint="Give the whole table, as it was before this load, as 'table' in the request.",
        )
    log.info("reading column %s of the rows in the state from %s", ", ".join(unknown), table)
    if set(plan.key) & set(unknown):  # rows are found by all their values then
        plan = replace(plan, key=())
    files = ground.engine.widen(ground.storage, before, plan, table, mask=ground.mask)
    ground.drafts.extend(files)
    files = [*files, *_dead_rows(ground, before)]
    return replace(before, files=[*(one for one in before.files if one.kind is not FileKind.ROWS), *files])


def _dead_rows(ground: Ground, before: Snapshot) -> list[DataFile]:
    """The rows that no longer count, as they are: their loads may be taken out, and what deleted them too."""
    dead = read_dead(ground.storage, before.files_of(FileKind.DEAD))
    by_columns: dict[str, list[pa.Table]] = defaultdict(list)
    for file in before.files_of(FileKind.ROWS) if dead else ():
        by_columns[file.owner] += read_dead_rows(ground.storage, file, dead)
    files = [write_rows(ground.storage, pa.concat_tables(tables)) for tables in by_columns.values() if tables]
    ground.drafts.extend(files)
    return files


def unknown_columns(storage: Storage, snapshot: Snapshot, plan: Plan, staged: Sequence[DataFile]) -> list[str]:
    """Columns that a plan reads, and that are not known of all rows that count, or not in today's type.

    A load without rows does not show today's types: what was not kept last is unknown then.
    """
    today = {one.name: one.type for file in staged[:1] for one in Reader(storage, file).schema}
    dead = read_dead(storage, snapshot.files_of(FileKind.DEAD))
    by_columns: dict[str, list[DataFile]] = defaultdict(list)
    for file in snapshot.files_of(FileKind.ROWS) if snapshot.rows else ():
        by_columns[file.owner].append(file)
    unknown: set[str] = set()
    for files in by_columns.values():
        known = {one.name: one.type for one in Reader(storage, files[0]).schema}
        told = {**{name: known.get(name) for name in snapshot.schema}, **today}
        lacking = {name for name in plan.columns if name not in known or told.get(name) != known[name]}
        if lacking - unknown and is_alive(row_ids(storage, files), dead).any():
            unknown |= lacking
    return sorted(unknown)
