"""Many writers of one state: whoever lost a race does its work again, before those who come later.

A commit is safe without any of this: of two writers one creates the snapshot, the other begins again. But a large load
among small ones would lose every race. So the loser leaves a mark in ``waiting/``, and whoever is about to begin waits
for the first mark in line, for twice the time that its owner's lost try took. Marks are a courtesy: one that its owner
left behind, or that is ignored, costs time and nothing else. Places in line are numbers of snapshots, not times.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import math
import random
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from dc_engine.errors import ConflictError, DcError, StateError, counted
from dc_engine.state.snapshots import newest_number
from dc_engine.state.storage import Storage

FOLDER = "waiting"
_NAME = re.compile(r"(\d{20})-([0-9a-f]{16})-(\d{1,9})-(\d{1,9})")
_LEAST_SECONDS = 2
_PAUSES = (0.05, 5.0)
_POLLS = 40

log = logging.getLogger("airflow_dc_provider.turns")
Result = TypeVar("Result")


class Mark(NamedTuple):
    """A place in line: the snapshot that won when its owner first lost; the owner, its tries, how long to wait."""

    place: int
    owner: str
    tries: int
    seconds: int

    @property
    def path(self) -> str:
        """Where the mark is within the state; a new one for each try, so that others wait again."""
        return f"{FOLDER}/{self.place:020d}-{self.owner}-{self.tries}-{self.seconds}"

    @property
    def pause(self) -> float:
        """How long to wait before looking again."""
        return min(max(self.seconds / _POLLS, _PAUSES[0]), _PAUSES[1])


def marks_in(names: Iterable[str]) -> list[Mark]:
    """The marks among the names of a folder, first in line first."""
    found = (_NAME.fullmatch(name) for name in names)
    return sorted(Mark(int(one[1]), one[2], int(one[3]), int(one[4])) for one in found if one)


def ahead_of(owner: str, marks: list[Mark]) -> Mark | None:
    """The mark that an owner has to wait for: the first in line, unless that is its own."""
    return marks[0] if marks and marks[0].owner != owner else None


def is_lost_race(error: StateError, before: int | None, after: int | None, told: str) -> bool:
    """Whether somebody else's commit explains an error; ``told`` is what the try before failed with.

    A file may be gone because a vacuum on top of another commit removed it. A failure that repeats word for word
    is damage, whoever commits meanwhile.
    """
    return isinstance(error, ConflictError) or (before != after and error.message != told)


def take_turns(
    storage: Storage,
    who: str,
    attempt: Callable[[], Result],
    *,
    max_wait_seconds: float,
    waits: bool = True,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Result:
    """Make an attempt, and again while others commit before it; ``who`` names the work, also after a restart.

    It queues behind those who lost a race before it; with ``waits`` false, for work that only reads, it does not.
    """
    started = clock()
    line = _Line(storage, hashlib.sha256(who.encode()).hexdigest()[:16], started + max_wait_seconds, clock, sleep)
    told, tries = "", 0
    try:
        while True:
            if waits:
                line.wait()
            begun, before = clock(), newest_number(storage)
            tries += 1
            try:
                return attempt()
            except StateError as error:
                after = newest_number(storage)
                if not is_lost_race(error, before, after, told):
                    raise
                if clock() >= started + max_wait_seconds:
                    raise _given_up(error, tries, clock() - started, max_wait_seconds) from error
                told, waits = error.message, True
                log.warning("%s Trying again on top of that.", error.message)
                line.join(after or 0, tries, clock() - begun)
    finally:
        line.leave()


def _given_up(error: StateError, tries: int, seconds: float, limit: float) -> StateError:
    return type(error)(
        f"{error.message} After {counted(tries, 'try', 'tries')} in {seconds:.0f} s it gave up: others were faster.",
        hint=f"Run it again. Fewer at once, or a 'max_wait_seconds' above {limit:g}, give it more chances.",
    )


@dataclass(slots=True)
class _Line:
    """One writer in the line of those waiting for a state."""

    storage: Storage
    owner: str
    until: float
    clock: Callable[[], float]
    sleep: Callable[[float], None]
    own: list[Mark] = field(default_factory=list)
    """Its marks: that of its last try, and any that an earlier start of the same work left."""
    seen: dict[Mark, float] = field(default_factory=dict)
    """Since when each mark has been the first in line."""

    def wait(self) -> None:
        """Let those who lost before go first, each for as long as it asked, all together until the limit."""
        while (first := self._ahead()) and (now := self.clock()) < self.until:
            since = self.seen.setdefault(first, now)
            if now - since >= first.seconds:
                log.info("another writer waiting for %s did not come; going on", self.storage.uri)
                self.storage.remove(first.path)
                continue
            if since == now:
                log.info("waiting at most %s s for another writer of %s", first.seconds, self.storage.uri)
            self.sleep(min(first.pause * random.uniform(0.5, 1), self.until - now))  # noqa: S311

    def _ahead(self) -> Mark | None:
        marks = marks_in(self.storage.names(FOLDER))
        self.own += [one for one in marks if one.owner == self.owner and one not in self.own]
        return ahead_of(self.owner, marks)

    def join(self, place: int, tries: int, seconds: float) -> None:
        """Take a place in line, or keep it with a new mark; without one, the work is only done again no sooner."""
        old = list(self.own)
        place = min([place, *(one.place for one in old)])
        mark = Mark(place, self.owner, tries, _LEAST_SECONDS + math.ceil(2 * seconds))
        with contextlib.suppress(DcError):  # what is wrong with the state, the next try will say
            self.storage.write(mark.path, b"")
            self.own = [mark, *(one for one in old if one != mark)]
            for one in self.own[1:]:
                self.storage.remove(one.path)
            self.own = [mark]

    def leave(self) -> None:
        """Leave the line; a mark that cannot be removed costs others some time, and what led here matters more."""
        for one in self.own:
            with contextlib.suppress(DcError):
                self.storage.remove(one.path)
