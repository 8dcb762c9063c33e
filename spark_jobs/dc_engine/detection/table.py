"""The rows of a state and the table that they come from, side by side as DataFrames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from dc_engine.detection.dead import read_dead
from dc_engine.detection.documents import Found, as_batch
from dc_engine.detection.light import OnWorker
from dc_engine.detection.plan import ROW_HASH
from dc_engine.detection.rows import ROW_ID, read_living, write_rows
from dc_engine.detection.sources import column_types, kept_name, kept_type
from dc_engine.detection.staging import canonical
from dc_engine.request import Changes
from dc_engine.state.files import DataFile
from dc_engine.state.parquet import Reader
from dc_engine.state.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def misfit(schema: Mapping[str, str], table: DataFrame, source: Changes) -> str | None:
    """What is wrong, if a table lacks one of these columns or has it with another type."""
    types = {name.lower(): one for name, one in column_types(table, source).items()}
    for name, spark_type in schema.items():
        if types.get(name.lower()) != spark_type:
            has = f"has it as {types[name.lower()]}" if name.lower() in types else "does not have it"
            return f"Column '{name}' of type {spark_type} is needed, but the table ({source}) {has}."
    return None


def frame_schema(types: Sequence[str]) -> str:
    """The schema of rows on their way: the id, the columns by their places, the hash of the whole row."""
    columns = [f"{kept_name(place)} {kept_type(one)}" for place, one in enumerate(types)]
    return ", ".join([f"{ROW_ID} bigint", *columns, f"{ROW_HASH} bigint"])


@dataclass(frozen=True, slots=True)
class ReadRows:
    """The function that Spark runs: the input rows say which files are ours."""

    storage: Storage
    files: tuple[DataFile, ...]
    dead: tuple[DataFile, ...]
    columns: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        dead = read_dead(self.storage, self.dead)
        names = [ROW_ID, *(kept_name(place) for place in range(len(self.columns))), ROW_HASH]
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            file = self.files[number]
            reader = Reader(self.storage, file)
            groups = range(len(reader.group_starts) - 1)
            for rows in read_living(reader, file, dead, [*self.columns, ROW_HASH], groups):
                ordered = rows.select([ROW_ID, *self.columns, ROW_HASH]).rename_columns(names)
                yield from ordered.combine_chunks().to_batches()


def rows_of_state(
    spark: SparkSession,
    storage: Storage,
    files: Sequence[DataFile],
    dead: Sequence[DataFile],
    columns: Sequence[str],
    types: Sequence[str],
) -> DataFrame:
    """The rows in the state as a DataFrame."""
    read = ReadRows(storage, tuple(files), tuple(dead), tuple(columns))
    return spark.range(0, len(files), 1, max(len(files), 1)).mapInArrow(OnWorker(read), frame_schema(types))


@dataclass(frozen=True, slots=True)
class WriteRows:
    """The function that Spark runs to write rows with their ids to the state; all rows with one id are in one task."""

    storage: Storage
    columns: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tables = [batch for batch in batches if batch.num_rows]
        if not tables:
            return
        rows = canonical(pa.Table.from_batches(tables)).rename_columns([ROW_ID, *self.columns, ROW_HASH])
        different = pc.count_distinct(rows.column(ROW_ID)).as_py()
        yield as_batch([Found(write_rows(self.storage, rows), different)])
