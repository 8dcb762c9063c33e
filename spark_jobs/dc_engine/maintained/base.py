"""What everything that is kept up can do, and what a change hands to it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dc_engine.detection.compact import Merge
from dc_engine.engines.base import Engine
from dc_engine.history.change import Change
from dc_engine.maintained.naming import RowNames
from dc_engine.state.drafts import Drafts
from dc_engine.state.files import DataFile
from dc_engine.state.snapshots import Snapshot
from dc_engine.state.storage import Storage
from dc_engine.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Ground:
    """What it takes to change a state: who moves the work, where the files are, which of them are new."""

    engine: Engine
    storage: Storage
    drafts: Drafts = field(default_factory=Drafts)
    mask: Collection[str] = ()
    """Columns whose values no error may show."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What a change did to one thing."""

    files: Sequence[DataFile]
    """Those that it needs from now on besides the ones it had."""
    facts: Any
    """What the snapshot says of it."""
    listed: Sequence[DataFile] = ()
    """Files for people, which the record of the load names."""
    found: Any = None
    """What the verdict is made of."""


class Maintained(ABC):
    """Something that is kept up. Its facts are in the snapshot under its name, its files are of kinds of its own."""

    name: ClassVar[str]

    @abstractmethod
    def news(self, before: Snapshot) -> list[str]:
        """What is asked of it now and was not before, in sentences for the verdict."""

    @abstractmethod
    def caught_up(self, ground: Ground, base: Snapshot) -> Snapshot:
        """The snapshot with everything that is asked of it, for the rows that are there; with what it had for those."""

    @abstractmethod
    def merges(self, files: Sequence[DataFile], *, everything: bool) -> list[Merge]:
        """How to merge those of its files that are many, or all of them. ``files`` are all that may be merged now."""

    @abstractmethod
    def changed(self, ground: Ground, base: Snapshot, change: Change, *, owner: int) -> Kept:
        """Let a change of rows happen to it. What it writes is of the load ``owner`` alone, or (0) of none."""

    @abstractmethod
    def judged(self, verdict: Verdict, kept: Kept, names: RowNames) -> Verdict:
        """The verdict with what is to be said of it."""

    @abstractmethod
    def rejected(self, verdict: Verdict, stays: Snapshot) -> Verdict:
        """The verdict of a load that is not kept: whatever counts all rows is that of the state that stays."""

    @abstractmethod
    def problems(self, ground: Ground, snapshot: Snapshot) -> Iterator[str]:
        """Whether the snapshot's facts are those of its rows: all of them are made anew and compared."""
