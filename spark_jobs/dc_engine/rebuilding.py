"""Build the indexes of a state anew: from the rows in it, or from the table itself."""

from __future__ import annotations

from dataclasses import replace

from dc_engine.changing import plan_of
from dc_engine.constraints.files import check_columns, load_constraints
from dc_engine.continuity import check_types
from dc_engine.engines.base import Engine, Staging
from dc_engine.errors import ChangesError
from dc_engine.indexing import index_rows
from dc_engine.request import Changes
from dc_engine.state.drafts import Drafts
from dc_engine.state.files import Action, FileKind
from dc_engine.state.snapshots import Snapshot, advance, with_loads
from dc_engine.state.storage import Storage


def rebuilt(engine: Engine, storage: Storage, snapshot: Snapshot, table: Changes | None, drafts: Drafts) -> Snapshot:
    """The snapshot with new indexes and recounted violations, not yet committed.

    From the table also the rows are new. All loads stay known with their verdicts, but they are settled: their rows
    can no longer be told apart, so none of them can be taken out any more.
    """
    kept = replace(snapshot, files=[file for file in snapshot.files if not file.kind.derived])
    if table is not None:
        kept = _from_table(engine, storage, snapshot, table, drafts)
    plan = plan_of(snapshot)
    constraints = load_constraints(snapshot.constraints).constraints
    indexed = index_rows(engine, storage, kept, plan, constraints)
    drafts += indexed.files
    totals = {one.name: indexed.totals.get(one.name, 0) for one in constraints}
    return advance(snapshot, replace(kept, totals=totals, files=[*kept.files, *indexed.files]), Action.REBUILD)


def _from_table(engine: Engine, storage: Storage, snapshot: Snapshot, table: Changes, drafts: Drafts) -> Snapshot:
    frame = engine.read(table, "table", mask=snapshot.mask)
    types = engine.types(frame, table)
    check_columns(load_constraints(snapshot.constraints), types, source=f"the table ({table})")
    check_types(snapshot, types)
    plan, number = plan_of(snapshot), snapshot.number + 1
    staged = engine.stage(frame, Staging(table, types, storage, number, plan.schema, snapshot.mask))
    drafts += [*staged.inserts, *staged.deletes]
    if staged.deleted:
        raise ChangesError(f"The table ({table}) has deletes; it must give the rows that are there, and nothing else.")
    loads = [one if one.discarded else replace(one, settled=True) for one in snapshot.loads(storage).since()]
    records = snapshot.files_of(FileKind.LOADS)
    return with_loads(replace(snapshot, rows=staged.inserted, files=[*staged.inserts, *records]), *loads)
