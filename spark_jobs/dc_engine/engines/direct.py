"""Rows of Parquet files, read by this process or by tasks without Spark: staged, or as columns."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import groupby

import pyarrow as pa
import pyarrow.parquet as pq

from dc_engine.constraints.reserved import CHANGE_TYPE
from dc_engine.detection.fetched import Columns
from dc_engine.detection.row_hashes import row_hashes
from dc_engine.detection.sources import kept_name
from dc_engine.detection.staging import SALT, stage_rows
from dc_engine.engines.files import Files, Share, arrow_type
from dc_engine.errors import ChangesError
from dc_engine.masking import told
from dc_engine.sizes import SIZES
from dc_engine.state.storage import Storage

_ROWS = 16_384
"""The most rows that are read at once."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How the rows of some files are read, and what errors call them."""

    types: Mapping[str, str]
    """The columns that are read, with their Spark types."""
    named: str
    mask: tuple[str, ...] = ()

    def __call__(self, shares: Iterable[Share]) -> Iterator[pa.RecordBatch]:
        """The rows of some shares, as Spark would hand them over."""
        try:
            for path, own in groupby(shares, lambda share: share.path):
                file = pq.ParquetFile(path, coerce_int96_timestamp_unit="us")
                for share in own:
                    yield from map(self._cast, self._batches(file, share))
        except (OSError, pa.ArrowException) as error:
            raise ChangesError(
                f"The {self.named} cannot be read: {told(error, self.mask)}",
                hint="The files were found, but reading their rows failed: are they whole?",
            ) from (None if self.mask else error)

    def _batches(self, file: pq.ParquetFile, share: Share) -> Iterator[pa.RecordBatch]:
        footer = file.metadata
        if footer.num_row_groups <= share.group or footer.row_group(share.group).num_rows != share.of:
            raise ChangesError(
                f"The {self.named} cannot be read: {share.path} has changed meanwhile.", hint="Run the job again."
            )
        width = footer.row_group(share.group).total_byte_size // max(share.of, 1)
        at_once = max(1, min(_ROWS, SIZES.group_bytes // max(width, 1)))
        place, last = 0, share.first + share.rows
        for batch in file.iter_batches(at_once, [share.group], list(self.types), use_threads=False):
            start, end = max(share.first - place, 0), min(last - place, batch.num_rows)
            if start < end:
                yield batch.slice(start, end - start)
            place += batch.num_rows
            if place >= last:
                return

    def _cast(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = []
        for name, spark_type in self.types.items():
            column, wanted = batch.column(name), arrow_type(spark_type)
            arrays.append(column if column.type == wanted else column.cast(wanted))
            if pa.types.is_decimal(wanted):
                column.validate(full=True)  # else a number with too many digits would be taken as it is
        return pa.RecordBatch.from_arrays(arrays, list(self.types))


@dataclass(frozen=True, slots=True)
class StageFiles:
    """The step that stages files: the input says which shares of them are ours."""

    shares: tuple[tuple[Share, ...], ...]
    reading: Reading
    storage: Storage | None
    load: int
    columns: Mapping[str, str]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            staged = stage_rows(self.storage, self.load, tuple(self.columns), number, self._rows(self.shares[number]))
            yield pa.RecordBatch.from_pydict({"document": [json.dumps(asdict(staged))]})

    def _rows(self, shares: Iterable[Share]) -> Iterator[pa.RecordBatch]:
        """The kept columns, what kind of change a row is if the files say so, and the hash of the whole row."""
        names = {name.lower(): name for name in self.reading.types}
        for batch in self.reading(shares):
            chosen: dict[str, pa.Array] = {}
            for place, (name, spark_type) in enumerate(self.columns.items()):
                own = names.get(name.lower())
                nulls = None if own else pa.nulls(batch.num_rows, arrow_type(spark_type))
                chosen[kept_name(place)] = batch.column(own) if own else nulls
            if CHANGE_TYPE in names:
                chosen[CHANGE_TYPE] = batch.column(names[CHANGE_TYPE])
            chosen[SALT] = pa.array(row_hashes(batch, SALT))
            yield pa.RecordBatch.from_pydict(chosen)


def columns_here(files: Files, columns: Mapping[str, str], named: str, mask: Collection[str]) -> Columns:
    """Some columns of all rows, in this process."""
    names = {name.lower(): name for name in files.types}
    wanted = {names[name.lower()]: spark_type for name, spark_type in columns.items()}
    reading = Reading(wanted, named, tuple(mask))
    schema = pa.schema([pa.field(name, arrow_type(one)) for name, one in wanted.items()])
    table = pa.Table.from_batches(reading(group for group, _ in files.groups), schema)
    return Columns.of(table.rename_columns(list(columns)))
