"""Looks at a state or at files, cheap enough to be taken every minute: the same ones by a task and in the triggerer.

A look remembers the newest snapshot that it has seen, and reads nothing else while that is still the newest.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from airflow_dc_provider.credentials import state_access
from airflow_dc_provider.landing import Arrived, Landing, Naming
from dc_engine.state.snapshots import newest_number, read_snapshot
from dc_engine.state.storage import Storage
from dc_engine.stored import counts_as, verdict_of

if TYPE_CHECKING:
    from dc_engine.state.snapshots import Snapshot
    from dc_engine.verdict import Verdict


def is_answer(verdict: Verdict | None, accept: Sequence[str], *, wait_for_pass: bool) -> bool:
    """Whether the wait for a verdict is over."""
    return verdict is not None and (not wait_for_pass or is_accepted(verdict, accept))


def is_accepted(verdict: Verdict, accept: Sequence[str]) -> bool:
    """Whether those who wait for a load may go on: the one place where that is decided."""
    return counts_as(verdict) in accept


class StateLook:
    """Whether a state has a newer snapshot than at the last look."""

    def __init__(self, state: str, state_conn_id: str | None = None) -> None:
        self._state, self._conn_id = state, state_conn_id
        self._seen: int | None = None

    def newer(self) -> tuple[Storage, Snapshot | None] | None:
        """The newest snapshot, unless it was seen before; a state that was removed since has none."""
        storage = Storage(self._state, state_access(self._conn_id).options)
        number = newest_number(storage)
        if number == self._seen:
            return None
        snapshot = None if number is None else read_snapshot(storage, number)
        self._seen = number
        return storage, snapshot


class VerdictLook(StateLook):
    """The verdict of a load."""

    def __init__(self, state: str, load_id: str, state_conn_id: str | None = None) -> None:
        super().__init__(state, state_conn_id)
        self._load_id = load_id
        self._verdict: Verdict | None = None

    def __call__(self) -> Verdict | None:
        """The verdict as it is now; nothing while there is none."""
        if (found := self.newer()) is not None:
            storage, snapshot = found
            load = snapshot.loads(storage).find(self._load_id) if snapshot else None
            self._verdict = verdict_of(storage, load, snapshot.mask) if snapshot and load else None
        return self._verdict


class PendingLook(StateLook):
    """The loads that have arrived and that a state does not have."""

    def __init__(
        self,
        path: str,
        state: str,
        pattern: str = "*",
        load_id_pattern: str | None = None,
        marker: str | None = None,
        changes_conn_id: str | None = None,
        state_conn_id: str | None = None,
    ) -> None:
        super().__init__(state, state_conn_id)
        self._path, self._changes_conn_id = path, changes_conn_id
        self._naming = Naming(pattern, load_id_pattern, marker)
        self._known: Collection[str] = frozenset()

    def __call__(self, most: int) -> list[Arrived]:
        """The first of them by their paths."""
        if (found := self.newer()) is not None:
            storage, snapshot = found
            self._known = snapshot.loads(storage).ids() if snapshot else frozenset()
        landing = Landing(self._path, state_access(self._changes_conn_id).options)
        return list(islice(landing.arrived(self._naming, self._known), most))


class FilesLook:
    """Whether files have changed since they were seen, and rest now: somebody may be at work on them.

    Without a path there is nothing to look at: every look but the first says yes.
    """

    def __init__(self, path: str | None, conn_id: str | None, seen: str | None) -> None:
        self._path, self._conn_id, self._seen = path, conn_id, seen
        self._last: str | None = None
        self._looked = False

    def __call__(self) -> bool:
        """Whether to look into the files now."""
        before, looked, self._looked = self._last, self._looked, True
        if self._path is None:
            return looked
        self._last = Landing(self._path, state_access(self._conn_id).options).fingerprint()
        return self._last is not None and self._last != self._seen and self._last == before
