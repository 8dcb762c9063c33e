"""Minimal hitting sets after points came or went, from those before: only what the change touches is searched.

After points came, each new set is stricter than one that misses a new point: it has its literals, or stronger ones of
the same terms, and more. After points went, each new set misses one of them; of the old ones those stay whose literals
are still needed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dc_engine.discovery.bits import first_of_each, packed, sets_of, truth_of
from dc_engine.discovery.hitting import minimal_hitting_sets
from dc_engine.discovery.problem import Problem, whole_of
from dc_engine.discovery.searching import Limits, searched_all, tasks_of

if TYPE_CHECKING:
    from dc_engine.kernels.packing import Whole

_MANY_GONE = 400
"""When so many points went, a search for all sets is quicker than one for each of the points."""
_NO_LIMIT = 1 << 62

Sets = Sequence[frozenset[int]]
Step = tuple[int, int]
"""From a literal to a stronger one of its term."""


def after_new(
    sets: Sets,
    problem: Problem,
    new: np.ndarray,
    *,
    max_terms: int | None = None,
    most: int = 10_000_000,
    seconds: float | None = None,
) -> list[frozenset[int]] | None:
    """The sets of a problem, from those without its new points (rows of truth values, and among the problem's).

    There is no result if they are more than ``most``, or take longer than so many seconds.
    """
    from dc_engine.kernels.sets import missing

    width = problem.points.shape[1]
    truth = truth_of(sets, width)
    violated = missing(packed(truth), packed(new)) if len(new) else np.zeros(len(sets), bool)
    if not violated.any():
        return list(sets)
    whole = whole_of(problem, _terms(problem, max_terms))
    limits = _limits(most - int((~violated).sum()), seconds)
    roots = _roots(problem, truth[violated], new)
    found = searched_all(whole, tasks_of(whole, roots), limits)
    kept = [one for one, broken in zip(sets, violated.tolist(), strict=True) if not broken]
    return None if limits.stopped else [*kept, *sets_of(found[first_of_each(found)], width)]


def after_gone(
    sets: Sets,
    problem: Problem,
    gone: np.ndarray,
    *,
    max_terms: int | None = None,
    most: int = 10_000_000,
    seconds: float | None = None,
) -> list[frozenset[int]] | None:
    """The same from those with points that it has no more (rows of truth values)."""
    if len(gone) > _MANY_GONE or not len(problem.points):
        every = minimal_hitting_sets(problem, max_terms=max_terms, most=most, seconds=seconds)
        return every.sets if every.complete else None
    width = problem.points.shape[1]
    whole = whole_of(problem, _terms(problem, max_terms))
    kept = _still_needed(sets, whole, gone)
    limits = _limits(most - len(kept), seconds)
    none = np.zeros((1, width), bool)
    tasks = [task for point in gone for task in tasks_of(whole, none, point)]
    found = searched_all(whole, tasks, limits, batch=1)
    return None if limits.stopped else [*kept, *sets_of(found[first_of_each(found)], width)]


def _terms(problem: Problem, max_terms: int | None) -> int:
    return len(problem.most_of) if max_terms is None else min(max_terms, len(problem.most_of))


def _limits(most: int, seconds: float | None) -> Limits:
    return Limits(most, _NO_LIMIT, None if seconds is None else time.monotonic() + seconds)


def _still_needed(sets: Sets, whole: Whole, gone: np.ndarray) -> list[frozenset[int]]:
    """The sets all of whose literals are needed without the points that went."""
    from dc_engine.kernels.sets import hit_once, needed

    words = packed(truth_of(sets, gone.shape[1]))
    good = np.ones(len(sets), bool)
    touched = np.flatnonzero(hit_once(words, packed(gone))) if len(gone) else np.zeros(0, np.int64)
    good[touched] = needed(whole, words[touched])
    return [one for one, stays in zip(sets, good.tolist(), strict=True) if stays]


def _roots(problem: Problem, sets: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Where the search for stricter sets begins: at those that miss a new point, also with stronger literals.

    A literal becomes a stronger one only for a missed point that nothing else hits.
    """
    if problem.weaker is None or (problem.weaker < 0).all():
        return sets
    stronger = [(int(weak), strong) for strong, weak in enumerate(problem.weaker) if weak >= 0]
    roots = []
    for one in sets:
        missed = new[~(new & one).any(axis=1)]
        useful = [(weak, strong) for weak, strong in stronger if one[weak] and missed[:, strong].any()]
        for steps in _steps(useful, missed, []):
            root = one.copy()
            root[[weak for weak, _ in steps]] = False
            root[[strong for _, strong in steps]] = True
            roots.append(root)
    return np.array(roots)


def _steps(useful: list[Step], missed: np.ndarray, taken: list[Step]) -> Iterator[list[Step]]:
    """All ways to make some literals stronger, each at most once and for a missed point that the others do not hit."""
    hits = missed[:, [strong for _, strong in taken]]
    alone = hits[hits.sum(axis=1) == 1]
    if not alone.any(axis=0).all():
        return
    yield taken
    for place, (weak, strong) in enumerate(useful):
        rest = [one for one in useful[place + 1 :] if one[0] != weak]
        yield from _steps(rest, missed, [*taken, (weak, strong)])
