"""What every maintained thing can do, and what a change hands to it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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

Look = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Ground:
    """What it takes to change a state: what moves the work, where the files are, which of them are new."""

    engine: Engine
    storage: Storage
    drafts: Drafts = field(default_factory=Drafts)
    mask: Collection[str] = ()
    """Columns whose values no error may show."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What a change did to one maintained thing."""

    files: Sequence[DataFile]
    """Files that it needs from now on, besides those it had."""
    facts: Any
    """What the snapshot says about it."""
    listed: Sequence[DataFile] = ()
    """Files for people, which the record of the load names."""
    found: Any = None
    """What the verdict is made of."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """How long its parts took, added up over tasks."""


class Maintained(ABC):
    """Something maintained. Its facts are in the snapshot under its name; its files have kinds of their own."""

    name: ClassVar[str]

    @abstractmethod
    def news(self, before: Snapshot) -> list[str]:
        """What is asked of it now and was not before, in sentences for the verdict."""

    @abstractmethod
    def caught_up(self, ground: Ground, base: Snapshot) -> Snapshot:
        """The snapshot with everything that is asked of it, for the rows already there; it keeps what it had."""

    @abstractmethod
    def merges(self, files: Sequence[DataFile], *, everything: bool) -> list[Merge]:
        """How to merge its files when there are many, or all of them. ``files`` are all that may be merged now."""

    def look(self, ground: Ground, base: Snapshot, change: Change) -> Look | None:  # noqa: ARG002
        """What is worth to be found out in a thread, beside all that is done for a change: nothing is written."""
        return None

    @abstractmethod
    def changed(self, ground: Ground, base: Snapshot, change: Change, *, owner: int, seen: Look | None) -> Kept:
        """Apply a change of rows. What it writes belongs to the load ``owner`` alone, or (0) to none.

        ``seen`` waits for what was found out beside.
        """

    @abstractmethod
    def judged(self, verdict: Verdict, kept: Kept, names: RowNames) -> Verdict:
        """The verdict with its part added."""

    @abstractmethod
    def rejected(self, verdict: Verdict, stays: Snapshot) -> Verdict:
        """The verdict of a load that is not kept: counts over all rows are those of the state that stays."""

    @abstractmethod
    def problems(self, ground: Ground, snapshot: Snapshot) -> Iterator[str]:
        """What is wrong with the snapshot's facts: all are computed again from its rows and compared."""
