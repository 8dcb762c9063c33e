"""Runs the search for hitting sets: in threads, from one root or many, within limits."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from dc_engine.discovery.bits import packed, unpacked
from dc_engine.discovery.spreading import Crew, Lines, Units, Workers, nobody
from dc_engine.sizes import SIZES
from dc_engine.threads import processors

if TYPE_CHECKING:
    from dc_engine.kernels.packing import Whole

_ROOM = 4_096
"""Sets that a search may find before they are collected."""
_PATIENCE = 4_096
"""Nodes after which a search looks at the clock."""
_FEW_POINTS = 3_000
"""With so few a search is done before a second thread would have helped."""
_TRIAL = 50_000
"""A search of up to so many nodes is done before the points were packed for its parts."""
_PAIR = 2e-9
"""The seconds in which a pair of rows is looked at: work is measured in pairs."""
_MANY = 64
"""Roots that a thread takes at a time."""


@dataclass(slots=True)
class Limits:
    """How far searches may go, and how far they came; several threads report here."""

    most: int
    max_nodes: int
    deadline: float | None = None
    sets: int = 0
    nodes: int = 0
    stopped: str = ""
    """The limit that was reached: ``sets``, ``nodes`` or ``seconds``."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def took(self, sets: int, nodes: int) -> bool:
        """Note what was found, and how many nodes it took; whether to go on."""
        with self.lock:
            self.sets += sets
            self.nodes += nodes
            if self.sets > self.most:
                self.stopped = "sets"
            elif self.nodes > self.max_nodes:
                self.stopped = "nodes"
            elif self.deadline is not None and time.monotonic() > self.deadline:
                self.stopped = "seconds"
            return not self.stopped


@dataclass(frozen=True, slots=True)
class Task:
    """Literals that are chosen, and (in bits) those that may join them."""

    root: np.ndarray
    allowed: np.ndarray


def all_of(whole: Whole) -> Task:
    """The search for all sets: below the root in which nothing is chosen."""
    (task,) = tasks_of(whole, np.zeros((1, len(whole.term_of)), bool))
    return task


def tasks_of(whole: Whole, roots: np.ndarray, banned: np.ndarray | None = None) -> list[Task]:
    """The searches below several roots, given as rows of truth values, but for those that are too large for any set."""
    used = roots.astype(np.int64) @ (whole.term_of[:, None] == np.arange(len(whole.most_of)))
    terms, barred = (used > 0).sum(axis=1), roots @ unpacked(whole.bars, len(whole.term_of))
    small = (terms <= whole.max_terms) & (used <= whole.most_of).all(axis=1) & ~(roots & barred).any(axis=1)
    roots, used, terms, barred = roots[small], used[small], terms[small], barred[small]
    allowed = ~roots & ~barred & (used < whole.most_of)[:, whole.term_of]
    allowed &= (terms < whole.max_terms)[:, None] | (used > 0)[:, whole.term_of]
    if banned is not None:
        allowed &= ~banned
    chosen = np.ascontiguousarray(np.nonzero(roots)[1])  # kernels are compiled once more for an array with gaps
    literals = np.split(chosen, np.cumsum(roots.sum(axis=1))[:-1]) if len(roots) else []
    return [Task(root, below) for root, below in zip(literals, packed(allowed), strict=True)]


def searched(
    whole: Whole, task: Task, limits: Limits, threads: int | None = None, workers: Workers = nobody
) -> np.ndarray:
    """All sets below one root, as rows of words; some of them when it was stopped."""
    if len(whole.points) <= _FEW_POINTS or (_threads(threads) == 1 and workers is nobody):
        return _joined(whole, _one(whole, task, limits))
    trial = Limits(limits.most, min(_TRIAL, limits.max_nodes - limits.nodes), limits.deadline)
    found = _one(whole, task, trial)
    if not limits.took(trial.sets if trial.stopped != "nodes" else 0, trial.nodes) or not trial.stopped:
        return _joined(whole, found)
    with ThreadPoolExecutor(_threads(threads)) as pool:
        found, above = _split(whole, task)
        steps = list(pool.map(lambda one: _split(whole, one), above))
        tasks = [one for _, below in steps for one in below]
        found += [one for some, _ in steps for one in some]
        limits.took(sum(map(len, found)), 1 + len(above))
        parts = _below(whole, tasks, limits, pool, workers)
    return _joined(whole, [*found, *(one for part in parts for one in part)])


def _below(
    whole: Whole, tasks: Sequence[Task], limits: Limits, pool: ThreadPoolExecutor, workers: Workers
) -> list[list[np.ndarray]]:
    """The sets below each of many roots. Threads search for a while; what is not begun then is for workers, if much."""
    started = time.monotonic()

    def begun(task: Task) -> list[np.ndarray] | None:
        late = time.monotonic() - started >= SIZES.searched_seconds
        return None if late and workers is not nobody else _one(whole, task, limits)

    def finished(task: Task) -> list[np.ndarray]:
        return _one(whole, task, limits)

    parts = list(pool.map(begun, tasks))
    rest = [task for task, part in zip(tasks, parts, strict=True) if part is None]
    each = (time.monotonic() - started) * processors() / max(len(tasks) - len(rest), 1)
    crew = workers(len(rest) * each / _PAIR, _nbytes(whole)) if rest and not limits.stopped else None
    done = iter(_elsewhere(whole, rest, limits, crew)) if crew else pool.map(finished, rest)
    return [next(done) if part is None else part for part in parts]


def _nbytes(whole: Whole) -> int:
    return sum(one.nbytes for one in whole if isinstance(one, np.ndarray))


def _elsewhere(whole: Whole, tasks: Sequence[Task], limits: Limits, crew: Crew) -> list[list[np.ndarray]]:
    """The same, searched for by others. Neighbours take about as long as each other, and go to different units."""
    left = None if limits.deadline is None else limits.deadline - time.monotonic()
    ends = None if left is None else time.time() + left
    search = _Roots(whole, limits.most - limits.sets, limits.max_nodes - limits.nodes, ends)
    number = max(1, min(crew.units, len(tasks)))
    units = [tuple((place, tasks[place]) for place in range(first, len(tasks), number)) for first in range(number)]
    parts: list[list[np.ndarray]] = [[] for _ in tasks]
    for lines in crew.run(f"rules below {len(tasks):,} beginnings are searched for", Units(search, tuple(units))):
        for place in np.unique(lines.one).tolist():
            parts[place].append(lines.patterns[lines.one == place])
        limits.took(len(lines.patterns), lines.pairs)
        limits.stopped = limits.stopped or lines.stopped
    return parts


@dataclass(frozen=True, slots=True)
class _Roots:
    """A problem as workers get it, with what each of them may spend; a unit has some roots, with their numbers."""

    whole: Whole
    most: int
    max_nodes: int
    ends: float | None
    """When to stop, by the clock on the wall: other machines have it too."""

    @property
    def nbytes(self) -> int:
        """See ``Search``."""
        return _nbytes(self.whole)

    def look(self, unit: Sequence[tuple[int, Task]]) -> Lines:
        """See ``Search``: the sets, each with the number of its root."""
        deadline = None if self.ends is None else time.monotonic() + self.ends - time.time()
        limits = Limits(self.most, self.max_nodes, deadline)
        parts = [_joined(self.whole, _one(self.whole, task, limits)) for _, task in unit]
        numbers = np.repeat([number for number, _ in unit], [len(part) for part in parts]).astype(np.int64)
        return Lines(_joined(self.whole, parts), numbers, np.zeros_like(numbers), limits.nodes, limits.stopped)


def searched_all(whole: Whole, tasks: Sequence[Task], limits: Limits, batch: int = _MANY) -> np.ndarray:
    """All sets below many roots, some of them twice; not all when it was stopped. A thread takes a batch at a time."""
    batches = [tasks[first : first + batch] for first in range(0, len(tasks), batch)]
    with ThreadPoolExecutor(min(processors(), len(batches) or 1)) as pool:
        parts = list(pool.map(lambda some: _many(whole, some, limits), batches))
    return _joined(whole, [one for part in parts for one in part])


def _threads(threads: int | None) -> int:
    return threads or processors()


def _joined(whole: Whole, parts: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.zeros((0, whole.points.shape[1]), np.uint64), *parts])


def _split(whole: Whole, task: Task) -> tuple[list[np.ndarray], list[Task]]:
    """The searches one step below a root; or the root itself when it is a hitting set."""
    from dc_engine.kernels.hitting import split

    literals = np.zeros(len(whole.term_of), np.int64)
    below = np.zeros((len(literals), whole.points.shape[1]), np.uint64)
    number = split(whole, task.root, task.allowed, literals, below)
    if number < 0:
        chosen = np.zeros((1, len(literals)), bool)
        chosen[0, task.root] = True
        return [packed(chosen)], []
    return [], [Task(_with(whole, task.root, literals[one]), below[one]) for one in range(number)]


def _with(whole: Whole, root: np.ndarray, literal: int) -> np.ndarray:
    """A root with one more literal, which takes the place of a weaker one."""
    return np.append(root[root != whole.weaker[literal]], literal)


def _one(whole: Whole, task: Task, limits: Limits) -> list[np.ndarray]:
    """The sets below one root."""
    from dc_engine.kernels.hitting import search, start
    from dc_engine.kernels.packing import pack

    if limits.stopped:
        return []
    part = pack(whole, task.root, task.allowed)
    path = start(whole, part, task.root, task.allowed)
    found, parts, going = np.zeros((_ROOM, whole.points.shape[1]), np.uint64), [], True
    while path.state[0] >= 0 and going:
        sets, nodes = search(whole, part, path, found, _PATIENCE)
        parts.append(found[:sets].copy())
        going = limits.took(sets, nodes)
    return parts


def _many(whole: Whole, tasks: Sequence[Task], limits: Limits) -> list[np.ndarray]:
    """The sets below several roots; one that leaves much to search is searched by itself."""
    from dc_engine.kernels.hitting import search_roots

    if len(tasks) == 1:
        return _one(whole, tasks[0], limits)
    roots = np.concatenate([one.root for one in tasks])
    edges = np.cumsum([0, *(len(one.root) for one in tasks)])
    allowed = np.stack([one.allowed for one in tasks])
    found, parts, place = np.zeros((_ROOM, whole.points.shape[1]), np.uint64), [], 0
    while place < len(tasks) and not limits.stopped:
        done, sets, nodes = search_roots(whole, roots, edges, allowed, place, found, _PATIENCE)
        parts.append(found[:sets].copy())
        limits.took(sets, nodes)
        if done == place:
            parts += _one(whole, tasks[done], limits)
            done += 1
        place = done
    return parts
