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

    def __init__(self, path: Path) -> None:
        self.batches: list[pa.RecordBatch] = []
        self._path, self._files = path, 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for number in range(self._files):
            with pa.OSFile(str(self._path_of(number))) as file:
                yield from pa.ipc.open_stream(file)
        yield from self.batches

    def put_away(self) -> None:
        """Write what is held to the disk."""
        if self.batches:
            path = str(self._path_of(self._files))
            with pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, self.batches[0].schema) as stream:
                for batch in self.batches:
                    stream.write_batch(batch)
            self._files += 1
            self.batches = []

    def _path_of(self, number: int) -> Path:
        return self._path.with_suffix(f".{number}")


class Piles:
    """The messages for all tasks of a step. What is on the disk goes when this is closed."""

    def __init__(self, tasks: int, stack: ExitStack) -> None:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dc-messages-")))
        self.piles = [Pile(folder / str(task)) for task in range(tasks)]
        self._held = 0

    def add(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Each message to the task that it names."""
        for batch in batches:
            for place, task in enumerate(batch.column(0).to_pylist()):
                self.piles[task].batches.append(batch.slice(place, 1))
            self._held += batch.nbytes
            if self._held > SIZES.held_bytes:
                for pile in self.piles:
                    pile.put_away()
                self._held = 0
