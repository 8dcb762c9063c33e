"""Build the indexes of a state anew: from the rows in it, or from the table itself."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dc_engine.changing import Drafts, plan_of
from dc_engine.constraints.files import check_columns, load_constraints
from dc_engine.continuity import check_types
from dc_engine.detection import spark as engine
from dc_engine.detection.sources import column_types, read_changes
from dc_engine.errors import ChangesError
from dc_engine.indexing import index_rows
from dc_engine.request import Changes
from dc_engine.state.snapshots import Snapshot
from dc_engine.state.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rebuilt(
    spark: SparkSession, storage: Storage, snapshot: Snapshot, table: Changes | None, drafts: Drafts
) -> Snapshot:
    """The snapshot with new indexes and recounted violations, not yet committed.

    From the table also the rows are new. All loads stay known with their verdicts, but they are settled: their rows
    can no longer be told apart, so none of them can be taken out any more.
    """
    number = snapshot.number + 1
    kept = replace(snapshot, files=[file for file in snapshot.files if file.kind != "index"])
    if table is not None:
        kept = _from_table(spark, storage, snapshot, table, drafts)
    plan = plan_of(snapshot)
    constraints = load_constraints(snapshot.constraints).constraints
    indexed = index_rows(spark, storage, kept, plan, constraints)
    drafts += indexed.files
    totals = {one.name: indexed.totals.get(one.name, 0) for one in constraints}
    return replace(
        kept,
        number=number,
        parent=snapshot.number,
        load_id="",
        action="rebuild",
        last_change=number,
        totals=totals,
        totals_before=totals,
        files=[*kept.files, *indexed.files],
    )


def _from_table(spark: SparkSession, storage: Storage, snapshot: Snapshot, table: Changes, drafts: Drafts) -> Snapshot:
    frame = read_changes(spark, table, "table")
    types = column_types(frame, table)
    check_columns(load_constraints(snapshot.constraints), types, source=f"the table ({table})")
    check_types(snapshot, types)
    staged = engine.stage_load(frame, table, storage, snapshot.number + 1, plan_of(snapshot), types)
    drafts += [*staged.inserts, *staged.deletes]
    if staged.deleted:
        raise ChangesError(f"The table ({table}) has deletes; it must give the rows that are there, and nothing else.")
    loads = [one if one.discarded else replace(one, settled=True) for one in snapshot.loads]
    return replace(snapshot, rows=staged.inserted, loads=loads, files=staged.inserts)
