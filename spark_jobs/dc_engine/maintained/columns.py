"""Columns that are asked for now and were not kept so far, for the rows that are in the state."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from dc_engine.constraints.model import ConstraintSet
from dc_engine.detection.plan import Plan
from dc_engine.errors import ConstraintError
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
        users = [
            f"constraint '{one.name}'" for one in rules.constraints if {name.lower() for name in one.columns} & lacking
        ]
        raise ConstraintError(
            f"Column {', '.join(map(repr, unknown))}, which {users[0] if users else 'the key'} needs, is not known "
            f"of the {before.rows:,} rows that are in the state, or not in the type that it has now.",
            hint="Give the whole table, as it was before this load, as 'table' in the request.",
        )
    log.info("reading column %s of the rows that are there from %s", ", ".join(unknown), table)
    widened = ground.engine.widen(ground.storage, before, plan, table, mask=ground.mask)
    ground.drafts.extend(widened)
    return replace(before, files=[*(one for one in before.files if one.kind is not FileKind.ROWS), *widened])


def unknown_columns(storage: Storage, snapshot: Snapshot, plan: Plan, staged: Sequence[DataFile]) -> list[str]:
    """Columns that a plan reads, and that are not known of all rows in the state, or not in today's type."""
    today = {one.name: one.type for file in staged[:1] for one in Reader(storage, file).schema}
    unknown: set[str] = set()
    by_columns = {file.owner: file for file in snapshot.files_of(FileKind.ROWS) if snapshot.rows}
    for file in by_columns.values():
        known = {one.name: one.type for one in Reader(storage, file).schema}
        unknown |= {name for name in plan.columns if name not in known or today.get(name, known[name]) != known[name]}
    return sorted(unknown)
