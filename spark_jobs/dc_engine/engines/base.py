"""What every engine does, and how steps run in this process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa

from dc_engine.detection.documents import Document, Failed, file_of, from_text
from dc_engine.detection.fetched import Columns, Measured
from dc_engine.detection.plan import Plan
from dc_engine.detection.staging import StagedLoad
from dc_engine.discovery.distant import Distant, Step
from dc_engine.engines.piles import Pile, Piles
from dc_engine.request import Changes, Request
from dc_engine.state.drafts import Drafts
from dc_engine.state.files import DataFile
from dc_engine.state.snapshots import Snapshot
from dc_engine.state.storage import Storage
from dc_engine.threads import processors

Source = Any
"""Rows as an engine holds them before they are staged: Spark's is a DataFrame, or ``files.Files``."""


@dataclass(frozen=True, slots=True)
class Staging:
    """What to do with the rows of a source."""

    source: Changes
    types: Mapping[str, str]
    """All its columns, with their Spark types: they are part of the fingerprint."""
    storage: Storage | None = None
    """Without it nothing is written, and only the fingerprint is made."""
    load: int = 0
    columns: Mapping[str, str] = field(default_factory=dict)
    """Those that are kept."""
    mask: Collection[str] = ()
    what: str = "changes"
    """What errors call the source."""


@dataclass(frozen=True, slots=True)
class Left:
    """Rows of a large table that stay with the workers until they are given up."""

    rows: Distant
    measured: Measured
    give_up: Callable[[], object]


class Engine(ABC):
    """Reads rows, and runs steps."""

    has_workers: bool = True
    """Whether steps may run elsewhere than in this process."""

    @abstractmethod
    def read(self, source: Changes, what: str = "changes", *, mask: Collection[str] = ()) -> Source:
        """The rows of a source; nothing is read yet but what is needed to know the columns."""

    @abstractmethod
    def types(self, rows: Source, source: Changes) -> dict[str, str]:
        """Their columns, with their Spark types."""

    @abstractmethod
    def fetch(
        self, rows: Source, columns: Mapping[str, str], source: Changes, *, mask: Collection[str] = ()
    ) -> Columns:
        """Some columns (with their types) of all rows, for this process."""

    @abstractmethod
    def leave(
        self, rows: Source, columns: Mapping[str, str], source: Changes, *, mask: Collection[str] = ()
    ) -> Left | Columns:
        """The same, or (of a large table) where the rows are, for tasks to read them there."""

    @abstractmethod
    def measure(
        self, rows: Source, columns: Mapping[str, str], source: Changes, *, mask: Collection[str] = ()
    ) -> Measured:
        """How much there is in some columns of all rows, without bringing them here."""

    @abstractmethod
    def instant(self, value: datetime) -> int:
        """Which instant, in microseconds since 1970, a timestamp without a zone stands for."""

    @abstractmethod
    def stage(self, rows: Source, asked: Staging) -> StagedLoad:
        """Read the rows once: write the columns that are asked for to the state, and make a fingerprint."""

    @abstractmethod
    def tasks(self, rows: int, size: int) -> Tasks:
        """Where to run steps on ``rows`` rows that read files of ``size`` bytes."""

    @abstractmethod
    def searching(self, pairs: float, size: int) -> Tasks | None:
        """Where to run a search that looks at so many pairs of rows in codes of ``size`` bytes; without: right here."""

    @abstractmethod
    def widen(
        self, storage: Storage, snapshot: Snapshot, plan: Plan, source: Changes, *, mask: Collection[str] = ()
    ) -> list[DataFile]:
        """Files of all rows in the state with all columns of the plan, found in the table."""

    @abstractmethod
    def differences(
        self, storage: Storage, snapshot: Snapshot, source: Changes, *, mask: Collection[str] = ()
    ) -> list[str]:
        """In which rows the table and the state differ."""

    @abstractmethod
    def quarantine(self, storage: Storage, rows: Source, request: Request, *given: Any) -> dict[str, Any]:
        """Write the violating rows of a load and the clean rest."""


class Tasks(ABC):
    """Where steps run."""

    @abstractmethod
    def run(self, count: int, first: Step, *further: tuple[int, Step]) -> list[str]:
        """The documents of the last step. The first gets the numbers up to ``count``, one each.

        Each further step runs in its number of tasks; a message goes to the task that it names.
        """

    def documents(self, storage: Storage, count: int, first: Step, *further: tuple[int, Step]) -> list[Document]:
        """The same, read. An error among them is raised, and what the others wrote is removed."""
        documents = [from_text(text) for text in self.run(count, first, *further)] if count else []
        for failure in documents:
            if isinstance(failure, Failed):
                Drafts(filter(None, map(file_of, documents))).remove_all(storage)
                raise failure.error
        return documents


class Here(Tasks):
    """Steps run in this process, in as many threads as there are processors."""

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads or processors()

    def run(self, count: int, first: Step, *further: tuple[int, Step]) -> list[str]:
        """See ``Tasks.run``."""
        numbers = [[pa.RecordBatch.from_pydict({"id": [number]})] for number in range(count)]
        done = self._map(first, numbers)
        with ExitStack() as stack:
            for tasks, step in further:
                piles = Piles(tasks, stack)
                for batches in done:
                    piles.add(batches)
                done = self._map(step, self._ordered(piles.piles))
            return [text for batches in done for batch in batches for text in batch.column(0).to_pylist()]

    def _map(self, step: Step, parts: Sequence[Iterable[pa.RecordBatch]]) -> Iterator[list[pa.RecordBatch]]:
        """What a step makes of each part, in their order."""
        if len(parts) == 1 or self._threads == 1:
            yield from (list(step(iter(part))) for part in parts)
        else:
            with ThreadPoolExecutor(self._threads) as pool:
                yield from pool.map(lambda part: list(step(iter(part))), parts)

    def _ordered(self, piles: Sequence[Pile]) -> Sequence[Pile]:
        """The messages as tasks get them."""
        return piles
