"""Spark: rows from any of its sources, steps on its workers, or small work in the driver. DataFrame API only."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dc_engine.constraints.reserved import CHANGE_TYPE
from dc_engine.detection.comparable import Family, family
from dc_engine.detection.documents import DOCUMENT_SCHEMA
from dc_engine.detection.fetched import (
    PACKED_SCHEMA,
    PIECE_NUMBER,
    Columns,
    Measured,
    Pack,
    ReadPacked,
    measured,
    unpacked,
)
from dc_engine.detection.light import OnWorker
from dc_engine.detection.plan import Plan
from dc_engine.detection.sources import (
    checked_types,
    column_types,
    instant_in,
    kept,
    kept_name,
    read_changes,
    reading,
    row_hash,
)
from dc_engine.detection.staging import SALT, Stage, StagedLoad, gather, stage_rows
from dc_engine.detection.value_hash import quoted
from dc_engine.detection.work import MESSAGE_SCHEMA
from dc_engine.discovery.distant import Distant
from dc_engine.engines.base import Engine, Here, Left, Source, Staging, Step, Tasks
from dc_engine.engines.comparing import differences
from dc_engine.engines.dealing import dealt
from dc_engine.engines.direct import Reading, StageFiles, columns_here
from dc_engine.engines.files import Files, NotPlainError, arrow_type, plain_parquet
from dc_engine.engines.quarantine import quarantine
from dc_engine.engines.reach import Later, is_local, master_of, schemes_of, threads_of
from dc_engine.engines.widening import widen
from dc_engine.errors import counted
from dc_engine.request import Changes, Request
from dc_engine.shipping import check_versions, is_connect, ship_engine
from dc_engine.sizes import SIZES
from dc_engine.state.files import DataFile
from dc_engine.state.snapshots import Snapshot
from dc_engine.state.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger("airflow_dc_provider.engine")

MOST_ROWS_HERE = 5_000
"""Up to how many rows, reading at most how many bytes of the state, are processed in the driver."""
MOST_BYTES_HERE = 256 * 2**20
MOST_FILES_HERE = 64 * 2**20
"""Rows in files of more bytes than that are not fetched to the driver to find out how many they are."""

MOST_BYTES_BY_CONNECT = 96 * 2**20
"""Spark Connect takes messages of up to 128 MB: codes of more bytes stay in the driver."""


class OnSpark(Tasks):
    """Steps run on Spark's workers."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def run(self, count: int, first: Step, *further: tuple[int, Step]) -> list[str]:
        """See ``Tasks.run``."""
        return _documents(self._spark.range(0, count, 1, count), first, *further)


def _documents(frame: DataFrame, first: Step, *further: tuple[int, Step]) -> list[str]:
    """What the last of some steps reports; the first gets the rows of the frame."""
    frame = frame.mapInArrow(OnWorker(first), MESSAGE_SCHEMA if further else DOCUMENT_SCHEMA)
    for place, (tasks, step) in enumerate(further, 1):
        schema = MESSAGE_SCHEMA if place < len(further) else DOCUMENT_SCHEMA
        frame = dealt(frame, tasks).mapInArrow(OnWorker(step), schema)
    return [row["document"] for row in frame.collect()]


class Packed(Distant):
    """Rows of a source, packed in pieces that Spark keeps."""

    def __init__(self, pieces: DataFrame, rows: int, names: Sequence[str]) -> None:
        self._pieces, self.rows, self.reading = pieces, rows, ReadPacked(tuple(names))

    def run(self, first: Step, *further: tuple[int, Step]) -> list[str]:
        """See ``Distant``."""
        return _documents(self._pieces, first, *further)


class SparkEngine(Engine):
    """Spark, started when it is first needed; ``mode`` says where steps run: ``auto``, ``spark`` or ``local``."""

    def __init__(self, start: Callable[[], SparkSession], mode: str = "auto") -> None:
        self._mode = mode
        self._later = start if isinstance(start, Later) else Later(start)
        self.has_workers = mode != "local"

    @cached_property
    def spark(self) -> SparkSession:
        """The session."""
        session = self._later()
        check_versions(session)
        ship_engine(session)
        return session

    def read(self, source: Changes, what: str = "changes", *, mask: Collection[str] = ()) -> DataFrame | Files:
        """See ``Engine``. Plain Parquet files are read without Spark, unless the request asks for it."""
        if self._mode != "spark":
            try:
                known = self._later.schemes
                files = plain_parquet(source, schemes_of(self.spark) if known is None else known)
                log.info("the %s (%s): %s, read without Spark", what, source, counted(files.rows, "row"))
                return files
            except NotPlainError as reason:
                if str(reason):
                    log.info("the %s (%s): read by Spark, because %s", what, source, reason)
        return read_changes(self.spark, source, what, mask=mask)

    def _frame(self, rows: Source, source: Changes, what: str, mask: Collection[str]) -> DataFrame:
        """Rows as Spark has them."""
        return read_changes(self.spark, source, what, mask=mask) if isinstance(rows, Files) else rows

    def _chosen(self, rows: Source, columns: Mapping[str, str], source: Changes, mask: Collection[str]) -> DataFrame:
        """Some columns of a table."""
        frame = self._frame(rows, source, "table", mask)
        return frame.selectExpr(*kept(frame, columns))

    def types(self, rows: Source, source: Changes) -> dict[str, str]:
        """See ``Engine``."""
        return checked_types(rows.types.items(), source) if isinstance(rows, Files) else column_types(rows, source)

    def fetch(
        self, rows: Source, columns: Mapping[str, str], source: Changes, *, mask: Collection[str] = ()
    ) -> Columns:
        """See ``Engine``. Values of a large table, or of one of unknown size, come packed by workers."""
        if self._is_read_here(rows, columns):
            return columns_here(rows, columns, f"table ({source})", mask)
        chosen, names = self._chosen(rows, columns, source, mask), list(columns)
        small = self._mode == "local" or (self._mode == "auto" and is_small(source))
        with reading(source, "table", mask=mask):
            if not small:
                pieces = chosen.mapInArrow(OnWorker(Pack()), PACKED_SCHEMA).toArrow()
                if pieces.num_rows:
                    return unpacked(pieces, names)
            return Columns.of(chosen.toArrow().rename_columns(names))

    def leave(
        self, rows: Source, columns: Mapping[str, str], source: Changes, *, mask: Collection[str] = ()
    ) -> Left | Columns:
        """See ``Engine``. Packed rows are kept by Spark until it is known how many they are."""
        if self._mode == "local" or (self._mode == "auto" and is_small(source)) or self._is_read_here(rows, columns):
            return self.fetch(rows, columns, source, mask=mask)
        chosen, names = self._chosen(rows, columns, source, mask), list(columns)
        packed = chosen.mapInArrow(OnWorker(Pack()), PACKED_SCHEMA)
        pieces = packed.selectExpr(f"{PIECE_NUMBER} as piece", *packed.columns).persist()
        left = False
        try:
            with reading(source, "table", mask=mask):
                found = measured([tuple(row) for row in pieces.select("rows", "facts").collect()], names)
                if found.rows * len(names) > SIZES.large_cells:
                    left = True
                    return Left(Packed(pieces, found.rows, names), found, pieces.unpersist)
                if found.rows:
                    return unpacked(pieces.toArrow(), names)
                return Columns.of(chosen.toArrow().rename_columns(names))
        finally:
            if not left:
                pieces.unpersist()

    def measure(
        self, rows: Source, columns: Mapping[str, str], source: Changes, *, mask: Collection[str] = ()
    ) -> Measured:
        """See ``Engine``."""
        if self._is_read_here(rows, columns):
            return Measured.of(self.fetch(rows, columns, source, mask=mask))
        chosen = self._chosen(rows, columns, source, mask)
        sizes = [
            f"sum(octet_length({kept_name(place)}))" if family(spark_type) in (Family.STRING, Family.BINARY) else "null"
            for place, spark_type in enumerate(columns.values())
        ]
        counts = [f"count({kept_name(place)})" for place in range(len(columns))]
        with reading(source, "table", mask=mask):
            total, *found = chosen.selectExpr("count(1)", *counts, *sizes).collect()[0]
        nbytes = (size or 0 for size in found[len(columns) :])
        return Measured(total, dict(zip(columns, found, strict=False)), dict(zip(columns, nbytes, strict=True)))

    def _is_read_here(self, rows: Source, columns: Mapping[str, str]) -> bool:
        """Whether these columns come to this process without Spark."""
        plain = isinstance(rows, Files) and bool(columns)
        return plain and (self._mode == "local" or rows.size <= MOST_FILES_HERE)

    def instant(self, value: datetime) -> int:
        """See ``Engine``."""
        return instant_in(self.spark)(value)

    def tasks(self, rows: int, size: int) -> Tasks:
        """See ``Engine``. Workers that share the driver's processors do the same, but all of it goes through Java."""
        small = rows <= MOST_ROWS_HERE and size <= MOST_BYTES_HERE
        if self._mode == "local" or (self._mode == "auto" and small):
            return Here()
        alone = self._mode == "auto" and is_local(self._master)
        return Here(threads_of(self._master)) if alone else OnSpark(self.spark)

    def searching(self, pairs: float, size: int) -> Tasks | None:
        """See ``Engine``."""
        many = self._mode == "auto" and pairs > SIZES.pairs_here
        wanted = self._mode == "spark" or (many and not is_local(self._master))
        if not wanted or (is_connect(self.spark) and size > MOST_BYTES_BY_CONNECT):
            return None
        return OnSpark(self.spark)

    @cached_property
    def _master(self) -> str:
        known = self._later.master
        return master_of(self.spark) if known is None else known

    def stage(self, rows: Source, asked: Staging) -> StagedLoad:
        """See ``Engine``. A small load is fetched to the driver, so that no worker has to be started for it."""
        if isinstance(rows, Files) and all(map(arrow_type, asked.columns.values())):
            documents = self._staged_from(rows, asked)
        else:
            documents = self._staged_by_spark(self._frame(rows, asked.source, asked.what, asked.mask), asked)
        return gather(documents, asked.storage, asked.load, list(asked.types.items()))

    def _staged_from(self, files: Files, asked: Staging) -> list[str]:
        """What is reported of files that are read without Spark, here or by tasks."""
        shares = tuple(map(tuple, files.shares()))
        reading = Reading(dict(files.types), f"{asked.what} ({asked.source})", tuple(asked.mask))
        step = StageFiles(shares, reading, asked.storage, asked.load, dict(asked.columns))
        return self.tasks(files.rows, files.size).run(len(shares), step)

    def _staged_by_spark(self, rows: DataFrame, asked: Staging) -> list[str]:
        change_type = [f"{quoted(name)} as {CHANGE_TYPE}" for name in asked.types if name.lower() == CHANGE_TYPE]
        chosen = rows.selectExpr(*kept(rows, asked.columns), *change_type, f"{row_hash(rows, SALT)} as {SALT}")
        with reading(asked.source, asked.what, mask=asked.mask):
            documents = self._staged_here(chosen, asked)
            if documents is None:
                stage = Stage(asked.storage, asked.load, tuple(asked.columns))
                documents = [row["document"] for row in chosen.mapInArrow(OnWorker(stage), DOCUMENT_SCHEMA).collect()]
        return documents

    def _staged_here(self, rows: DataFrame, asked: Staging) -> list[str] | None:
        """What a worker would report, for rows that came to the driver; ``None`` when they are for the workers.

        Spark cannot bring every nested value to the driver: not fields that are never NULL in a struct that is.
        """
        if self._mode == "spark" or any("<" in spark_type for spark_type in asked.columns.values()):
            return None
        if self._mode == "auto" and is_large(asked.source):
            return None
        table = (rows if self._mode == "local" else rows.limit(MOST_ROWS_HERE + 1)).toArrow()
        if self._mode == "auto" and table.num_rows > MOST_ROWS_HERE:
            return None
        staged = stage_rows(asked.storage, asked.load, tuple(asked.columns), 0, iter(table.to_batches()))
        return [json.dumps(asdict(staged))]

    def widen(
        self, storage: Storage, snapshot: Snapshot, plan: Plan, source: Changes, *, mask: Collection[str] = ()
    ) -> list[DataFile]:
        """See ``Engine``."""
        return widen(self.spark, storage, snapshot, plan, source, mask)

    def differences(
        self, storage: Storage, snapshot: Snapshot, source: Changes, *, mask: Collection[str] = ()
    ) -> list[str]:
        """See ``Engine``."""
        return differences(self.spark, storage, snapshot, source, mask)

    def quarantine(self, storage: Storage, rows: Source, request: Request, *given: Any) -> dict[str, Any]:
        """See ``Engine``."""
        frame = self._frame(rows, request.changes, "changes", request.mask)
        return quarantine(self.spark, storage, frame, request, *given)


def is_large(source: Changes, most: int = MOST_FILES_HERE) -> bool:
    """Whether all of some large local files is to be read, so that there is no use in fetching a few rows first."""
    files = _local_files(source) if source.where is None else []
    return sum(one.stat().st_size for one in files if one.is_file()) > most


def is_small(source: Changes, most: int = MOST_FILES_HERE) -> bool:
    """Whether it is known that a source has few bytes."""
    files = _local_files(source)
    return bool(files) and all(one.is_file() for one in files) and sum(one.stat().st_size for one in files) <= most


def _local_files(source: Changes) -> list[Path]:
    """The local files of a source, and folders in it; none if it is another one, or cannot be read."""
    path = Path((source.path or "").removeprefix("file://"))
    try:
        return [] if source.path is None else list(path.iterdir()) if path.is_dir() else [path] if path.exists() else []
    except OSError:  # Spark will say what is wrong with it
        return []


def engine_of(given: Any, mode: str = "auto") -> Engine:
    """An engine from what a job is given: one, a Spark session, or what starts one."""
    if isinstance(given, Engine):
        return given
    return SparkEngine(given if callable(given) else lambda: given, mode)
