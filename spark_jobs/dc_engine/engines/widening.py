"""Columns that were not kept so far, for the rows in the state: from the table itself.

Each row of the state is found in the table by its key or, without one, by the hash of the whole row. The table may
have more rows (those of the load that is being applied), but it must have all that the state has.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import TYPE_CHECKING

from dc_engine.detection.documents import DOCUMENT_SCHEMA, Found, from_text
from dc_engine.detection.light import OnWorker
from dc_engine.detection.plan import ROW_HASH, Plan
from dc_engine.detection.rows import ROW_ID
from dc_engine.detection.sources import kept, kept_name, read_changes, reading, row_hash
from dc_engine.detection.staging import SALT
from dc_engine.detection.table import WriteRows, misfit, rows_of_state
from dc_engine.errors import ChangesError, SchemaError, counted
from dc_engine.request import Changes
from dc_engine.sizes import SIZES
from dc_engine.state.drafts import Drafts
from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.snapshots import Snapshot
from dc_engine.state.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def widen(
    spark: SparkSession, storage: Storage, snapshot: Snapshot, plan: Plan, source: Changes, mask: Collection[str] = ()
) -> list[DataFile]:
    """Files of all rows in the state with all columns of the plan; the rows keep their ids."""
    from pyspark.sql import functions as f

    table = read_changes(spark, source, "table", mask=mask)
    columns = plan.schema
    wrong = misfit(columns, table, source)
    if wrong:
        raise SchemaError(wrong, hint="Give the table that the loads go to, with the types that they have.")
    dead = snapshot.files_of(FileKind.DEAD)
    key_types = tuple(plan.types[: len(plan.key)])
    state = rows_of_state(spark, storage, snapshot.files_of(FileKind.ROWS), dead, plan.key, key_types)
    rows = table.selectExpr(*kept(table, columns), f"{row_hash(table, SALT)} as {ROW_HASH}")
    joined = _by_key(state, rows, len(plan.key)) if plan.key else _by_hash(state, rows)
    names = [ROW_ID, *(kept_name(place) for place in range(len(columns))), ROW_HASH]
    chosen = joined.select(*[f.col(name) for name in names])
    parts = math.ceil(max(snapshot.rows, 1) / SIZES.widened_rows)
    by_id = chosen.repartition(parts, ROW_ID)
    with reading(source, "table", mask=mask):
        written = by_id.mapInArrow(OnWorker(WriteRows(storage, plan.columns)), DOCUMENT_SCHEMA).collect()
    told = [one for one in (from_text(row["document"]) for row in written) if isinstance(one, Found)]
    files = [one.file for one in told]
    found, matches = sum(one.rows for one in told), sum(file.rows for file in files)
    if not found == matches == snapshot.rows:
        Drafts(files).remove_all(storage)
        twice = ", some of them more than once" if matches > found else ""
        raise ChangesError(
            f"The table ({source}) and the state do not have the same rows: "
            f"{counted(snapshot.rows, 'row')} in the state, {found:,} found in the table{twice}.",
            hint="'table' is the table as it was before this load: for a load that deletes or updates, give an older "
            "version of the table; or rebuild the state from the table.",
        )
    return files


def _by_key(state: DataFrame, rows: DataFrame, key: int) -> DataFrame:
    places = [kept_name(place) for place in range(key)]
    ids = state.select(ROW_ID, *(state[name].alias(f"{name}_in_state") for name in places))
    equal = [ids[f"{name}_in_state"].eqNullSafe(rows[name]) for name in places]
    condition = equal[0]
    for one in equal[1:]:
        condition = condition & one
    return rows.join(ids, condition)


def _by_hash(state: DataFrame, rows: DataFrame) -> DataFrame:
    """Identical rows are paired off in any order: they are the same in every column."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    turn = "_dc_turn"
    ids = state.select(ROW_ID, ROW_HASH).withColumn(
        turn, f.row_number().over(Window.partitionBy(ROW_HASH).orderBy(ROW_ID))
    )
    turned = rows.withColumn(turn, f.row_number().over(Window.partitionBy(ROW_HASH).orderBy(ROW_HASH)))
    return turned.join(ids, [ROW_HASH, turn])
