"""Rows of a table that is too large for the driver: they stay where they are, and tasks read them there.

What comes to the driver is how much there is in each column, a sample, and rows that were asked for by their ids.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dc_engine.detection.codes import whole
from dc_engine.detection.documents import Brought, Document, Failed, as_batch, failed, from_text
from dc_engine.detection.fetched import Columns, Measured
from dc_engine.detection.hashing import mixed
from dc_engine.detection.rows import ROW_ID, is_in
from dc_engine.errors import DcError
from dc_engine.sizes import SIZES

Step = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""What a task does. The batches of the first step hold one number each; steps yield messages, the last documents."""
Reading = Callable[[Iterable[pa.RecordBatch], Sequence[str]], Iterator[pa.Table]]
"""How a task reads the rows that its input leads to, with their ids: some columns, piece by piece. It travels."""


class Distant(ABC):
    """Rows that tasks can read."""

    rows: int
    reading: Reading

    @abstractmethod
    def run(self, first: Step, *further: tuple[int, Step]) -> list[str]:
        """The documents of the last step: see ``Tasks``. The first gets what leads to the rows."""

    def documents(self, first: Step, *further: tuple[int, Step]) -> list[Document]:
        """The same, read; an error among them is raised."""
        found = [from_text(text) for text in self.run(first, *further)]
        for one in found:
            if isinstance(one, Failed):
                raise one.error
        return found

    def measured(self, columns: Sequence[str]) -> Measured:
        """How much there is in some columns."""
        return _measured(columns, self.documents(Bring(self.reading, tuple(columns))))

    def sample(self, columns: Sequence[str]) -> pa.Table:
        """Some columns of some rows: the same, with their ids, as long as the rows have the same ids."""
        every = max(1, self.rows // max(SIZES.sampled_rows, 1))
        return _rows(columns, self.documents(Bring(self.reading, tuple(columns), every)))

    def taken(self, ids: np.ndarray, columns: Sequence[str]) -> pa.Table:
        """Some columns of the rows with these ids."""
        return _rows(columns, self.documents(Bring(self.reading, tuple(columns), ids=np.sort(ids))))


def _measured(columns: Sequence[str], documents: Iterable[Document]) -> Measured:
    parts = [Measured(one.rows, one.values, one.nbytes) for one in documents if isinstance(one, Brought)]
    return Measured.together(columns, parts)


def no_rows(columns: Sequence[str]) -> pa.Table:
    """Columns without rows."""
    return pa.table({ROW_ID: pa.array([], pa.int64()), **{name: pa.nulls(0) for name in columns}})


def _rows(columns: Sequence[str], documents: Iterable[Document]) -> pa.Table:
    streams = [b64decode(one.content) for one in documents if isinstance(one, Brought) and one.content]
    tables = [pa.ipc.open_stream(stream).read_all() for stream in streams]
    return pa.concat_tables(tables).sort_by(ROW_ID) if tables else no_rows(columns)


@dataclass(frozen=True, slots=True)
class Bring:
    """The step that measures columns, and brings some rows to the driver: one of so many, or those with some ids."""

    reading: Reading
    columns: tuple[str, ...]
    every: int = 0
    ids: np.ndarray | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield as_batch([self._brought(batches)])
        except DcError as error:
            yield as_batch([failed(error)])

    def _brought(self, batches: Iterable[pa.RecordBatch]) -> Brought:
        parts, chosen = [], []
        for table in self.reading(batches, self.columns):
            if self.ids is None and not self.every:
                parts.append(Measured.of(Columns.of(table.select(list(self.columns)))))
                continue
            some = table.filter(pa.array(self._chosen(whole(table.column(ROW_ID)).to_numpy())))
            if some.num_rows:
                chosen.append(some)
        found = Measured.together(self.columns, parts)
        return Brought(found.rows, dict(found.values), dict(found.nbytes), _stream(chosen) if chosen else "")

    def _chosen(self, ids: np.ndarray) -> np.ndarray:
        if self.ids is not None:
            return is_in(ids, self.ids)
        return mixed(ids.view(np.uint64)).view(np.int64) % self.every == 0


def _stream(tables: Sequence[pa.Table]) -> str:
    table, sink = pa.concat_tables(tables), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_table(table)
    return b64encode(sink.getvalue()).decode()
