"""Where rows went: the violating rows of a load and the clean rest, as two Parquet outputs with all columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dc_engine.detection.codes import whole
from dc_engine.detection.plan import ROW_HASH
from dc_engine.detection.rows import LOAD_BITS, ROW_ID, take_rows
from dc_engine.detection.sources import quoted, row_hash, spark_errors
from dc_engine.detection.staging import CHANGE_TYPE, ROW_HASHES, StagedLoad
from dc_engine.errors import ChangesError
from dc_engine.masking import told
from dc_engine.request import Request
from dc_engine.state.files import DataFile
from dc_engine.state.parquet import Reader
from dc_engine.state.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RULES, VIOLATIONS = "_dc_rules", "_dc_violations"


def quarantine(
    spark: SparkSession,
    storage: Storage,
    changes: DataFrame,
    request: Request,
    staged: StagedLoad,
    listed: Mapping[str, Sequence[DataFile]],
    key: tuple[str, ...],
) -> dict[str, Any]:
    """Write both outputs. A row is recognised by its hash: rows that are alike in every column violate alike.

    Deletes are with the clean rest, except that of an update (by key) whose new row violates: both rows of it stay
    behind, so that who publishes the clean rest leaves the old row in place.
    """
    from pyspark.sql import functions as f

    assert request.quarantine is not None
    violating = _violating(spark, storage, staged, listed)
    rows = changes.withColumn(ROW_HASH, row_hash(changes, ROW_HASHES[0])).join(violating, ROW_HASH, "left")
    names = {name.lower(): name for name in changes.columns}
    if CHANGE_TYPE in names:
        inserts = f.col(quoted(names[CHANGE_TYPE])).isin("insert", "update_postimage")
        rows = rows.withColumn(RULES, f.when(inserts, f.col(RULES)))
        rows = rows.withColumn(VIOLATIONS, f.when(inserts, f.col(VIOLATIONS)))
        if key:
            rows = _with_their_updates(rows, inserts, [names[name.lower()] for name in key])
    rows = rows.drop(ROW_HASH)
    stays = f.col(VIOLATIONS).isNotNull()
    parts = {"violating": rows.where(stays), "clean": rows.where(~stays).drop(RULES, VIOLATIONS)}
    written: dict[str, Any] = {}
    for name, part in parts.items():
        path = f"{request.quarantine.rstrip('/')}/{name}"
        try:
            part.write.mode("overwrite").parquet(path)
            written |= {name: path, f"{name}_rows": spark.read.parquet(path).count()}
        except spark_errors() as error:
            raise ChangesError(
                f"The {name} rows of load '{request.load_id}' cannot be written to {path}: {told(error, request.mask)}",
                hint="'quarantine' is a folder that Spark may write to.",
            ) from (None if request.mask else error)
    total = written["violating_rows"] + written["clean_rows"]
    if total != staged.inserted + staged.deleted:
        raise ChangesError(
            f"The changes ({request.changes}) gave {staged.inserted + staged.deleted:,} rows when they were checked, "
            f"and {total:,} when they were written to the quarantine.",
            hint="Something wrote to them meanwhile: run the load again.",
        )
    return written


def _violating(
    spark: SparkSession, storage: Storage, staged: StagedLoad, listed_in: Mapping[str, Sequence[DataFile]]
) -> DataFrame:
    """The hash of each violating row, which rules it violates, and how often in all."""
    from pyspark.sql import functions as f

    tables = []
    for rule, files in listed_in.items():
        for file in files:
            reader = Reader(storage, file)
            rows = reader.read(range(len(reader.group_starts) - 1), ["row_id", "violations"])
            tables.append(rows.append_column("rule", pa.array([rule] * rows.num_rows)))
    types = {"row_id": pa.int64(), "violations": pa.int64(), "rule": pa.string()}
    empty = pa.table({name: pa.array([], arrow_type) for name, arrow_type in types.items()})
    listed = pa.concat_tables([empty, *tables])
    # a row of another load that comes back with this one may violate too, and is none of its rows
    loads = whole(listed.column("row_id")).to_numpy() >> LOAD_BITS
    listed = listed.filter(pa.array(np.isin(loads, [file.load for file in staged.inserts])))
    ids = whole(listed.column("row_id")).to_numpy()
    hashes = np.zeros(0, np.int64)
    if len(ids):
        rows = take_rows(storage, staged.inserts, ids, [ROW_HASH])
        place = np.searchsorted(whole(rows.column(ROW_ID)).to_numpy(), ids)
        hashes = whole(rows.column(ROW_HASH)).to_numpy()[place]
    frame = spark.createDataFrame(listed.drop_columns(["row_id"]).append_column(ROW_HASH, pa.array(hashes)))
    once = frame.dropDuplicates([ROW_HASH, "rule"])
    rules = f.sort_array(f.collect_list(f.struct("rule", "violations")))
    return once.groupBy(ROW_HASH).agg(rules.alias(RULES), f.sum("violations").alias(VIOLATIONS))


def _with_their_updates(rows: DataFrame, inserts: Any, key: list[str]) -> DataFrame:
    """Mark the deletes whose key a violating row of the same load has."""
    from pyspark.sql import functions as f

    mark = "_dc_update"
    places = [f"_dc_key_{place}" for place in range(len(key))]
    bad = rows.where(f.col(VIOLATIONS).isNotNull())
    keys = bad.select(*(f.col(quoted(name)).alias(place) for name, place in zip(key, places, strict=True))).distinct()
    condition = f.lit(True)
    for name, place in zip(key, places, strict=True):
        condition = condition & rows[quoted(name)].eqNullSafe(keys[place])
    joined = rows.join(keys.withColumn(mark, f.lit(True)), condition, "left").drop(*places)
    marked = joined.withColumn(
        VIOLATIONS, f.when(~inserts & f.col(mark), f.lit(0)).otherwise(f.col(VIOLATIONS)).cast("bigint")
    )
    return marked.drop(mark)
