"""What the workers of one load need to know, and the messages that travel between their steps.

Messages go through Spark's shuffle as (task, kind, number, unit, payload): who gets it, what it is, of which group or
constraint, of which unit, and an Arrow stream or a JSON document. Arrow streams make Spark move a few hundred large
rows instead of one for each row of the load, whatever the columns and their types.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dc_engine.detection.documents import Document, from_text, to_text
from dc_engine.detection.encode import GONE, UNDO, Spread
from dc_engine.detection.plan import ConstraintPlan, Group, IndexPlan, Plan
from dc_engine.sizes import SIZES
from dc_engine.state.files import DataFile
from dc_engine.state.storage import Storage

MESSAGE_SCHEMA = "task int, kind string, number int, unit int, payload binary"
_ARROW_SCHEMA = pa.schema(
    [
        ("task", pa.int32()),
        ("kind", pa.string()),
        ("number", pa.int32()),
        ("unit", pa.int32()),
        ("payload", pa.binary()),
    ]
)


@dataclass(frozen=True, slots=True)
class Undone:
    """The rows that come back, and those that go, when an earlier attempt of a load is undone."""

    inserts: tuple[DataFile, ...] = ()
    deletes: tuple[DataFile, ...] = ()


NOTHING_UNDONE = Undone()


@dataclass(frozen=True, slots=True)
class Work:
    """Everything that the workers need to know about one load."""

    storage: Storage
    plan: Plan
    load: int
    """The number of the load for which violations are listed."""
    runs_of: int
    """The number of the load that the new runs belong to; 0 when they belong to no single load."""
    inserts: tuple[DataFile, ...]
    deletes: tuple[DataFile, ...]
    """Files of the rows that are deleted, under the ids that they have in the indexes."""
    undone: Undone
    """What comes and goes before, because an earlier attempt of the load is undone."""
    dead: tuple[DataFile, ...]
    """Files that say which rows to skip when they are met in other files: they were deleted earlier."""
    index_files: Mapping[str, tuple[DataFile, ...]]
    spread: Mapping[int, Spread]
    """By the number of the first group of those whose rows travel together."""
    first_units: Mapping[int, int]
    """The number of the first unit of each of them, counted over all."""
    writers: Mapping[str, int]
    """The group that writes each index: the first one that has it. What is not here is not written."""
    probe_tasks: int
    report_tasks: int
    max_listed: int
    max_samples: int
    mask: tuple[str, ...]
    lists: bool = True
    """Whether violations are listed for people, or only counted."""

    @property
    def changed(self) -> tuple[tuple[DataFile, str], ...]:
        """All files of rows that come and go, with the prefix of their rows' role."""
        parts = (
            (self.inserts, ""),
            (self.deletes, GONE),
            (self.undone.inserts, UNDO),
            (self.undone.deletes, UNDO + GONE),
        )
        return tuple((file, sign) for files, sign in parts for file in files)

    @property
    def columns(self) -> list[str]:
        """The columns that some group reads."""
        return sorted({name for group in self.plan.groups for name in group.columns})

    def most_found(self, constraint: ConstraintPlan) -> int:
        """How many violations a probe has to look up: enough to list, and enough to show samples of."""
        if not self.lists:
            return 0
        return min(self.max_samples, 1) if constraint.pinned else max(self.max_listed, self.max_samples)

    def task_of(self, group: int, unit: int) -> int:
        """The probe task of a unit: units are assigned in turn, so that every task gets its part of each group."""
        return (self.first_units[group] + unit) % self.probe_tasks

    def writes(self, group: Group) -> list[IndexPlan]:
        """The indexes that this group writes."""
        return [index for index in group.indexes if self.writers.get(index.id) == group.number]


@dataclass(frozen=True, slots=True)
class Message:
    """One row between two steps."""

    task: int
    kind: str
    number: int
    unit: int
    payload: pa.Buffer

    @property
    def table(self) -> pa.Table:
        """The payload as a table."""
        return pa.ipc.open_stream(self.payload).read_all()

    @property
    def document(self) -> Document:
        """The payload as a document."""
        return from_text(self.payload.to_pybytes())


DOCUMENT = "document"
"""The kind of message that goes on to the driver as it is."""


def tell(document: Document) -> pa.RecordBatch:
    """A message for the driver."""
    return send(0, DOCUMENT, to_text(document).encode())


def send(task: int, kind: str, content: pa.Table | bytes, *, number: int = 0, unit: int = 0) -> pa.RecordBatch:
    """A message as Spark takes it."""
    payload = _stream(content) if isinstance(content, pa.Table) else pa.py_buffer(content)
    facts = [
        pa.array([fact], field.type) for fact, field in zip((task, kind, number, unit), _ARROW_SCHEMA, strict=False)
    ]
    offsets = pa.py_buffer(np.array([0, payload.size], np.int32))
    column = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, payload])  # a view: payloads may be large
    return pa.RecordBatch.from_arrays([*facts, column], schema=_ARROW_SCHEMA)


def received(batches: Iterable[pa.RecordBatch]) -> Iterator[Message]:
    """The messages in the batches that Spark brings; their payloads stay where they are."""
    for batch in batches:
        tasks, kinds, numbers, units, payloads = batch.columns
        facts = zip(tasks.to_pylist(), kinds.to_pylist(), numbers.to_pylist(), units.to_pylist(), strict=True)
        for (task, kind, number, unit), payload in zip(facts, payloads, strict=True):
            yield Message(task, kind, number, unit, _aligned(payload.as_buffer()))


def _aligned(payload: pa.Buffer) -> pa.Buffer:
    """The payload where numbers of eight bytes can be read in place; a document before it may have shifted it."""
    return pa.py_buffer(payload.to_pybytes()) if payload.address % 8 else payload


def _stream(table: pa.Table) -> pa.Buffer:
    """The table as an Arrow stream; rows of long values are compressed, because all of it goes through the JVM."""
    compression = "zstd" if table.nbytes > SIZES.long_row * table.num_rows else None
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as stream:
        stream.write_table(table)
    return sink.getvalue()
