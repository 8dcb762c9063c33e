"""The minimal sets of literals that hit all points of a problem, as far as limits allow."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from dc_engine.discovery.bits import sets_of
from dc_engine.discovery.problem import Problem, whole_of
from dc_engine.discovery.searching import Limits, all_of, searched
from dc_engine.discovery.spreading import Workers, nobody

_NO_LIMIT = 1 << 62


@dataclass(frozen=True, slots=True)
class Hitting:
    """Minimal hitting sets, and whether they are all of them.

    A search that was stopped has all that use up to ``complete_terms`` terms, and no others.
    """

    sets: list[frozenset[int]] = field(default_factory=list)
    nodes: int = 0
    complete: bool = True
    complete_terms: int | None = None
    stopped: str = ""
    """What stopped it: ``sets``, ``nodes`` or ``seconds``."""

    @property
    def bound(self) -> int | None:
        """Up to how many terms they are all; nothing if they are."""
        return None if self.complete else self.complete_terms or 0


def minimal_hitting_sets(
    problem: Problem,
    *,
    max_terms: int | None = None,
    most: int = 10_000_000,
    max_nodes: int = _NO_LIMIT,
    seconds: float | None = None,
    threads: int | None = None,
    workers: Workers = nobody,
) -> Hitting:
    """All minimal hitting sets.

    When there are more than ``most`` sets, or ``max_nodes`` nodes or ``seconds`` do not do for all, the result has
    those of 1, 2, 3 ... terms, as far as they could be completed.
    """
    points = problem.points
    if not len(points):
        return Hitting([frozenset()])
    terms = len(problem.most_of) if max_terms is None else min(max_terms, len(problem.most_of))
    if not points.shape[1] or terms <= 0 or not points.any(axis=1).all():
        return Hitting()  # no literal may be chosen, or there is a point that nothing hits
    whole = whole_of(problem, terms)
    end = None if seconds is None else time.monotonic() + seconds

    def attempt(limits: Limits, up_to: int) -> list[frozenset[int]]:
        some = whole._replace(max_terms=up_to)
        found = searched(some, all_of(some), limits, threads, workers)
        return [] if limits.stopped else sets_of(found, points.shape[1])

    # At first a third of what may be spent goes into all of them: mostly it does, and costs nothing more.
    limits = Limits(most, max_nodes // 3, None if seconds is None else time.monotonic() + seconds / 3)
    sets = attempt(limits, terms)
    if not limits.stopped:
        return Hitting(sets, limits.nodes)
    sets, done, stopped = [], 0, limits.stopped
    while done < terms - (stopped == "sets"):
        limits = Limits(most, max_nodes, end, nodes=limits.nodes)
        more = attempt(limits, done + 1)
        if limits.stopped:
            stopped = limits.stopped
            break
        sets, done = more, done + 1
    return Hitting(sets, limits.nodes) if done == terms else Hitting(sets, limits.nodes, False, done, stopped)
