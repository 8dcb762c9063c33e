"""Where rows went: the violating rows of a load and the clean rest, as two Parquet outputs with all columns."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dc_engine.constraints.reserved import CHANGE_TYPE
from dc_engine.detection.codes import take, whole
from dc_engine.detection.light import OnWorker
from dc_engine.detection.plan import ROW_HASH
from dc_engine.detection.rows import LOAD_BITS, take_rows
from dc_engine.detection.sources import quoted, row_hash, spark_errors
from dc_engine.detection.staging import SALT, StagedLoad
from dc_engine.detection.work import MESSAGE_SCHEMA, received, send
from dc_engine.engines.dealing import dealt
from dc_engine.errors import ChangesError, counted
from dc_engine.masking import told
from dc_engine.request import Request
from dc_engine.sizes import SIZES
from dc_engine.state.files import DataFile
from dc_engine.state.parquet import Reader
from dc_engine.state.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RULES, VIOLATIONS = "_dc_rules", "_dc_violations"
_PLACES, _COUNTS = "_dc_places", "_dc_counts"
_ROWS_A_BATCH = 10_000


def quarantine(
    spark: SparkSession,
    storage: Storage,
    changes: DataFrame,
    request: Request,
    staged: StagedLoad,
    listed: Mapping[str, Sequence[DataFile]],
    key: tuple[str, ...],
) -> dict[str, Any]:
    """Write both outputs. A row is recognised by its hash: rows identical in every column violate alike.

    Deletes are with the clean rest, except that of an update (by key) whose new row violates: both its rows stay
    behind, so that whoever publishes the clean rest leaves the old row in place.
    """
    from pyspark.sql import functions as f

    # by a merge: Spark thinks that what comes from few files is small, and would send it to every worker
    violating = _violating(spark, storage, staged, listed).hint("merge")
    rows = changes.withColumn(ROW_HASH, f.expr(row_hash(changes, SALT))).join(violating, ROW_HASH, "left")
    names = {name.lower(): name for name in changes.columns}
    if CHANGE_TYPE in names:
        inserts = f.col(quoted(names[CHANGE_TYPE])).isin("insert", "update_postimage")
        rows = rows.withColumn(RULES, f.when(inserts, f.col(RULES)))
        rows = rows.withColumn(VIOLATIONS, f.when(inserts, f.col(VIOLATIONS)))
        if key:
            rows = _with_their_updates(rows, inserts, [names[name.lower()] for name in key])
    rows = rows.drop(ROW_HASH)
    stays = f.col(VIOLATIONS).isNotNull()
    written = _written(spark, request, "violating", rows.where(stays))
    written |= _written(spark, request, "clean", rows.where(~stays).drop(RULES, VIOLATIONS))
    total = written["violating_rows"] + written["clean_rows"]
    if total != staged.inserted + staged.deleted:
        checked = counted(staged.inserted + staged.deleted, "row")
        raise ChangesError(
            f"The changes ({request.changes}) gave {checked} when they were checked, "
            f"and {total:,} when they were written to the quarantine.",
            hint="Something wrote to them meanwhile: run the load again.",
        )
    return written


def _written(spark: SparkSession, request: Request, name: str, rows: DataFrame) -> dict[str, Any]:
    """Write one output: where it is, and how many rows it has."""
    assert request.quarantine is not None
    path = f"{request.quarantine.rstrip('/')}/{name}"
    try:
        rows.write.mode("overwrite").parquet(path)
        return {name: path, f"{name}_rows": spark.read.parquet(path).count()}
    except spark_errors() as error:
        raise ChangesError(
            f"The {name} rows of load '{request.load_id}' cannot be written to {path}: {told(error, request.mask)}",
            hint="'quarantine' is a folder that Spark may write to.",
        ) from (None if request.mask else error)


def _violating(
    spark: SparkSession, storage: Storage, staged: StagedLoad, listed_in: Mapping[str, Sequence[DataFile]]
) -> DataFrame:
    """The hash of each violating row, which rules it violates, and how often in all.

    Workers read the files of violating rows, send the rows out by ranges of ids, look up their hashes, and send them
    out by ranges of those, so that identical rows meet. Until then Spark moves chunks of many rows.
    """
    names = tuple(sorted(listed_in))
    files = tuple((place, file) for place, name in enumerate(names) for file in listed_in[name])
    tasks = math.ceil(max(sum(file.rows for _, file in files), 1) / SIZES.quarantine_rows)
    read = _ReadFiles(storage, files, tuple(staged.inserts), SIZES.range_ids, tasks)
    found = spark.range(0, len(files), 1, max(len(files), 1)).mapInArrow(OnWorker(read), MESSAGE_SCHEMA)
    gather = _GatherRules(storage, tuple(staged.inserts), tasks)
    gathered = dealt(found, tasks).mapInArrow(OnWorker(gather), MESSAGE_SCHEMA)
    schema = f"{ROW_HASH} bigint, {RULES} array<struct<rule: string, violations: bigint>>, {VIOLATIONS} bigint"
    return dealt(gathered, tasks).mapInArrow(OnWorker(_EachHashOnce(names)), schema)


@dataclass(frozen=True, slots=True)
class _ReadFiles:
    """The function that Spark runs: the input rows say which files are ours; their rows go out by ranges of ids."""

    storage: Storage
    files: tuple[tuple[int, DataFile], ...]
    """Files of violating rows, each with the place of its rule."""
    inserts: tuple[DataFile, ...]
    ids_a_range: int
    tasks: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            place, file = self.files[number]
            reader = Reader(self.storage, file)
            rows = reader.read(range(len(reader.group_starts) - 1), ["row_id", "violations"])
            ids = whole(rows.column("row_id")).to_numpy()
            ranges = np.where(self._are_ours(ids), (ids & (2**LOAD_BITS - 1)) // self.ids_a_range, -1)
            order = np.argsort(ranges, kind="stable")
            present, starts = np.unique(ranges[order], return_index=True)
            placed = rows.take(pa.array(order))
            for one, start, end in zip(present.tolist(), starts, [*starts[1:], len(order)], strict=True):
                if one >= 0:
                    yield send(one % self.tasks, "rows", placed.slice(start, end - start), number=place, unit=one)

    def _are_ours(self, ids: np.ndarray) -> np.ndarray:
        """Which rows the load itself brings: a row of another load that comes back with it may violate too."""
        return np.isin(ids >> LOAD_BITS, [file.load for file in self.inserts])


@dataclass(frozen=True, slots=True)
class _GatherRules:
    """The function that Spark runs: one line per violating row of a range, from its violations of all rules."""

    storage: Storage
    inserts: tuple[DataFile, ...]
    tasks: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        ranges: dict[int, list[tuple[int, pa.Table]]] = defaultdict(list)
        for message in received(batches):
            ranges[message.unit].append((message.number, message.table))
        for one in sorted(ranges):
            rows = self._rows(sorted(ranges.pop(one), key=lambda part: part[0]))
            tasks = rows.column(ROW_HASH).to_numpy() % self.tasks
            for task in np.unique(tasks).tolist():
                yield send(task, "rows", rows.filter(pa.array(tasks == task)))

    def _rows(self, parts: Sequence[tuple[int, pa.Table]]) -> pa.Table:
        """The rows of one range, from violations in the order of their rules."""
        together = pa.concat_tables([rows for _, rows in parts])
        rules = np.repeat([place for place, _ in parts], [rows.num_rows for _, rows in parts])
        ids, violations = (whole(together.column(name)).to_numpy() for name in ("row_id", "violations"))
        order = np.argsort(ids, kind="stable")
        distinct, starts = np.unique(ids[order], return_index=True)
        hashes = take_rows(self.storage, self.inserts, distinct, [ROW_HASH]).column(ROW_HASH)
        bounds = pa.array([*starts, len(order)], pa.int32())
        return pa.table(
            {
                ROW_HASH: whole(hashes),
                _PLACES: pa.ListArray.from_arrays(bounds, pa.array(rules[order], pa.int32())),
                _COUNTS: pa.ListArray.from_arrays(bounds, pa.array(violations[order])),
                VIOLATIONS: np.add.reduceat(violations[order], starts),
            }
        )


@dataclass(frozen=True, slots=True)
class _EachHashOnce:
    """The function that Spark runs: one of each set of identical violating rows, with the names of its rules."""

    names: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tables = [message.table for message in received(batches)]
        if not tables:
            return
        rows = pa.concat_tables(tables)
        _, first = np.unique(whole(rows.column(ROW_HASH)).to_numpy(), return_index=True)
        for start in range(0, len(first), _ROWS_A_BATCH):
            chosen = take(rows, first[start : start + _ROWS_A_BATCH])
            places, counts = whole(chosen.column(_PLACES)), whole(chosen.column(_COUNTS))
            facts = [pa.array(self.names).take(places.flatten()), counts.flatten()]
            pairs = pa.StructArray.from_arrays(facts, names=["rule", "violations"])
            lists = pa.ListArray.from_arrays(places.offsets, pairs)
            yield pa.RecordBatch.from_pydict(
                {ROW_HASH: whole(chosen.column(ROW_HASH)), RULES: lists, VIOLATIONS: whole(chosen.column(VIOLATIONS))}
            )


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
