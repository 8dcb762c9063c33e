"""Whether the table still has the rows that the state has."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from dc_engine.detection.plan import ROW_HASH
from dc_engine.detection.rows import ROW_ID
from dc_engine.detection.sources import kept, read_changes, reading
from dc_engine.detection.table import misfit, rows_of_state
from dc_engine.errors import counted
from dc_engine.request import Changes
from dc_engine.state.files import FileKind
from dc_engine.state.snapshots import Snapshot
from dc_engine.state.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def differences(
    spark: SparkSession, storage: Storage, snapshot: Snapshot, source: Changes, mask: Collection[str] = ()
) -> list[str]:
    """In which rows the table and the state differ, as far as the kept columns tell."""
    table = read_changes(spark, source, "table", mask=mask)
    wrong = misfit(snapshot.schema, table, source)
    if wrong:
        return [wrong]
    dead = snapshot.files_of(FileKind.DEAD)
    columns, types = list(snapshot.schema), list(snapshot.schema.values())
    state = rows_of_state(spark, storage, snapshot.files_of(FileKind.ROWS), dead, columns, types)
    ours, theirs = state.drop(ROW_ID, ROW_HASH), table.selectExpr(*kept(table, snapshot.schema))
    names = ("state", f"table ({source})")
    sides = ((ours, theirs, *names), (theirs, ours, *reversed(names)))
    with reading(source, "table", mask=mask):
        counts = [(one.exceptAll(other).count(), has, lacks) for one, other, has, lacks in sides]
    return [
        f"The {has} has {counted(count, 'row')} that the {lacks} does not have."
        for count, has, lacks in counts
        if count
    ]
