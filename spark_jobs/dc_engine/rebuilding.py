"""Rebuild everything maintained: from the rows in the state, or from the table itself."""

from __future__ import annotations

from dataclasses import replace

from dc_engine.changing import caught_up
from dc_engine.constraints.files import check_columns
from dc_engine.constraints.reserved import CHANGE_TYPE
from dc_engine.engines.base import Staging
from dc_engine.errors import ChangesError
from dc_engine.maintained.base import Ground
from dc_engine.maintained.continuity import check_types, rules_of
from dc_engine.maintained.everything import everything_of, further_columns, plan_of
from dc_engine.request import Changes
from dc_engine.state.files import Action, FileKind
from dc_engine.state.snapshots import Snapshot, advance, with_loads


def rebuilt(ground: Ground, snapshot: Snapshot, table: Changes | None) -> Snapshot:
    """The snapshot with new indexes and recounted violations, not yet committed.

    From the table, the rows are new too. All loads stay known with their verdicts, but they are settled: their rows
    can no longer be told apart, so none of them can be taken out any more.
    """
    kept = replace(snapshot, files=[file for file in snapshot.files if not file.kind.derived])
    if table is not None:
        kept = _from_table(ground, snapshot, table)
    bare = replace(kept, constraints={}, facts={})
    whole = caught_up(ground, bare, everything_of(replace(snapshot, schema=kept.schema)))
    return advance(snapshot, replace(whole, constraints=snapshot.constraints), Action.REBUILD)


def _from_table(ground: Ground, snapshot: Snapshot, table: Changes) -> Snapshot:
    engine, storage = ground.engine, ground.storage
    frame = engine.read(table, "table", mask=ground.mask)
    types = engine.types(frame, table)
    others = further_columns(snapshot.facts)
    check_columns(rules_of(snapshot), types, source=f"the table ({table})", others=others)
    check_types(snapshot, types)
    now = {name.lower(): spark_type for name, spark_type in types.items()}
    schema = {name: now.get(name.lower(), before) for name, before in snapshot.schema.items()}
    plan, number = plan_of(replace(snapshot, schema=schema)), snapshot.number + 1
    staged = engine.stage(frame, Staging(table, types, storage, number, plan.schema, ground.mask, "table"))
    ground.drafts.extend([*staged.inserts, *staged.deletes])
    if staged.deleted:
        raise ChangesError(
            f"The table ({table}) has deletes; it must give the rows that are there, and nothing else.",
            hint=f"Give the table itself, and not a feed of its changes, which has a column {CHANGE_TYPE}.",
        )
    loads = [one if one.discarded else replace(one, settled=True) for one in snapshot.loads(storage).since()]
    known = [file for kind in (FileKind.LOADS, FileKind.DEPENDENCIES) for file in snapshot.files_of(kind)]
    after = replace(snapshot, rows=staged.inserted, schema=plan.schema, files=[*staged.inserts, *known])
    return with_loads(after, *loads)
