"""Messages between steps that run in this process: held in memory while they are few, else on the disk until read."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa

from dc_engine.sizes import SIZES


class Pile:
    """The messages for one task, in the order in which they came."""

    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []
        self._files: list[str] = []

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for path in self._files:
            with pa.OSFile(path) as file:
                yield from pa.ipc.open_stream(file)
        yield from self.batches

    def put_away(self, path: Path) -> None:
        """Write what is held to the disk."""
        if self.batches:
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, self.batches[0].schema) as stream:
                for batch in self.batches:
                    stream.write_batch(batch)
            self._files.append(str(path))
            self.batches = []


class Piles:
    """The messages for all tasks of a step. What is on the disk goes when the stack is closed."""

    def __init__(self, tasks: int, stack: ExitStack) -> None:
        self.piles = [Pile() for _ in range(tasks)]
        self._stack, self._held = stack, 0

    def add(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Each message to the task that it names."""
        for batch in batches:
            for place, task in enumerate(batch.column(0).to_pylist()):
                self.piles[task].batches.append(batch.slice(place, 1))
            self._held += batch.nbytes
        if self._held > SIZES.held_bytes:
            folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="dc-messages-")))
            for task, pile in enumerate(self.piles):
                pile.put_away(folder / str(task))
            self._held = 0
