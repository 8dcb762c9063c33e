"""One change of the rows of a state, whoever asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dc_engine.detection.staging import StagedLoad
from dc_engine.detection.work import NOTHING_UNDONE, Undone
from dc_engine.state.files import DataFile
from dc_engine.state.loads import Load


@dataclass(frozen=True, slots=True)
class Attempt:
    """A load to be applied, perhaps in place of another."""

    load_id: str
    number: int
    staged: StagedLoad
    missing_deletes: str
    duplicate_keys: str


@dataclass(slots=True)
class Change:
    """What happens to the rows of a state.

    When a load replaces an earlier attempt, ``inserts`` and ``deletes`` are what it does itself, as if it came
    last; everything else that differs now comes before, as ``undone``.
    """

    inserts: Sequence[DataFile] = ()
    """Rows that come; when a load is taken out, those that no load deletes any more."""
    deletes: Sequence[DataFile] = ()
    """Rows that go."""
    undone: Undone = NOTHING_UNDONE
    """Rows that come back and rows that go when an earlier attempt is undone."""
    rows: int = 0
    """How many more (or fewer) rows there are afterwards."""
    turned: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    """The ids of rows, in files that stay, that were alive and are now dead, or the other way round."""
    lines: list[DataFile] = field(default_factory=list)
    """The deletes of loads, to be recorded in place of the earlier ones."""
    amended: list[Load] = field(default_factory=list)
    """Later loads whose deletes now find other rows."""
    deleted: int = 0
    """How many rows the load deletes."""
    missing: int = 0
    """Deletes of the load that find no row."""
    named: list[dict[str, Any]] = field(default_factory=list)
    """Some of these."""
    replaced: int = 0
    """Rows that inserts of the load replace."""
    scratch: list[DataFile] = field(default_factory=list)
    """Temporary files for the workers."""
    gone: str = ""
    """The load that is taken out of the history, or replaced in it."""

    @property
    def recorded(self) -> int:
        """How many lines the load's own deletes have."""
        return self.deleted + self.missing
