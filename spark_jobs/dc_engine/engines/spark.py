"""Spark: rows from any of its sources, steps on its workers, or small work in the driver. DataFrame API only."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict
from datetime import datetime
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dc_engine.detection.documents import DOCUMENT_SCHEMA
from dc_engine.detection.light import OnWorker
from dc_engine.detection.plan import Plan
from dc_engine.detection.sources import column_types, instant_in, kept, read_changes, reading, row_hash
from dc_engine.detection.staging import CHANGE_TYPE, SALT, Stage, StagedLoad, gather, stage_rows
from dc_engine.detection.value_hash import quoted
from dc_engine.detection.work import MESSAGE_SCHEMA
from dc_engine.engines.base import Engine, Here, Staging, Step, Tasks
from dc_engine.engines.comparing import differences
from dc_engine.engines.quarantine import quarantine
from dc_engine.engines.widening import widen
from dc_engine.request import Changes
from dc_engine.shipping import is_connect, ship_engine
from dc_engine.sizes import SIZES
from dc_engine.state.files import DataFile
from dc_engine.state.snapshots import Snapshot
from dc_engine.state.storage import Storage

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

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
        schema = MESSAGE_SCHEMA if further else DOCUMENT_SCHEMA
        frame = self._spark.range(0, count, 1, count).mapInArrow(OnWorker(first), schema)
        for place, (tasks, step) in enumerate(further, 1):
            schema = MESSAGE_SCHEMA if place < len(further) else DOCUMENT_SCHEMA
            frame = frame.repartitionById(tasks, frame["task"]).mapInArrow(OnWorker(step), schema)
        return [row["document"] for row in frame.collect()]


class SparkEngine(Engine):
    """Spark, started when it is first needed; ``mode`` says where steps run: ``auto``, ``spark`` or ``local``."""

    def __init__(self, start: Callable[[], SparkSession], mode: str = "auto") -> None:
        self._start, self._mode = start, mode

    @cached_property
    def spark(self) -> SparkSession:
        """The session."""
        session = self._start()
        ship_engine(session)
        return session

    def read(self, source: Changes, what: str = "changes", *, mask: Collection[str] = ()) -> DataFrame:
        """See ``Engine``."""
        return read_changes(self.spark, source, what, mask=mask)

    def types(self, rows: DataFrame, source: Changes) -> dict[str, str]:
        """See ``Engine``."""
        return column_types(rows, source)

    def fetch(
        self, rows: DataFrame, columns: Mapping[str, str], source: Changes, *, mask: Collection[str] = ()
    ) -> pa.Table:
        """See ``Engine``."""
        with reading(source, "table", mask=mask):
            return rows.selectExpr(*kept(rows, columns)).toArrow().rename_columns(list(columns))

    def instant(self, value: datetime) -> int:
        """See ``Engine``."""
        return instant_in(self.spark)(value)

    def tasks(self, rows: int, size: int) -> Tasks:
        """See ``Engine``."""
        here = self._mode == "local" or (self._mode == "auto" and rows <= MOST_ROWS_HERE and size <= MOST_BYTES_HERE)
        return Here() if here else OnSpark(self.spark)

    def searching(self, pairs: float, size: int) -> Tasks | None:
        """See ``Engine``."""
        wanted = self._mode == "spark" or (self._mode == "auto" and pairs > SIZES.pairs_here)
        if not wanted or (is_connect(self.spark) and size > MOST_BYTES_BY_CONNECT):
            return None
        return OnSpark(self.spark)

    def stage(self, rows: DataFrame, asked: Staging) -> StagedLoad:
        """See ``Engine``. A small load is fetched to the driver, so that no worker has to be started for it."""
        change_type = [f"{quoted(name)} as {CHANGE_TYPE}" for name in asked.types if name.lower() == CHANGE_TYPE]
        chosen = rows.selectExpr(*kept(rows, asked.columns), *change_type, f"{row_hash(rows, SALT)} as {SALT}")
        with reading(asked.source, asked.what, mask=asked.mask):
            documents = self._staged_here(chosen, asked)
            if documents is None:
                stage = Stage(asked.storage, asked.load, tuple(asked.columns))
                documents = [row["document"] for row in chosen.mapInArrow(OnWorker(stage), DOCUMENT_SCHEMA).collect()]
        return gather(documents, asked.storage, asked.load, list(asked.types.items()))

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

    def quarantine(self, *given: Any, **named: Any) -> dict[str, Any]:
        """See ``Engine``."""
        return quarantine(self.spark, *given, **named)


def is_large(source: Changes, most: int = MOST_FILES_HERE) -> bool:
    """Whether all of some large local files is to be read, so that there is no use in fetching a few rows first."""
    if source.path is None or source.where is not None:
        return False
    path = Path(source.path.removeprefix("file://"))
    try:
        files = path.iterdir() if path.is_dir() else [path]
        return any(size > most for size in accumulate(one.stat().st_size for one in files if one.is_file()))
    except OSError:  # Spark will say what is wrong with them
        return False


def engine_of(given: Any, mode: str = "auto") -> Engine:
    """An engine from what a job is given: one, a Spark session, or a function that starts one."""
    if isinstance(given, Engine):
        return given
    return SparkEngine(given if callable(given) else lambda: given, mode)
