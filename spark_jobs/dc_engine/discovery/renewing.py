"""The dependencies after patterns came or went, from those before: a class that they do not touch stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from dc_engine.discovery.boxes import Box, literals_of, of_literals, violated
from dc_engine.discovery.classes import Spend
from dc_engine.discovery.enumerating import Enumerated, Sets, enumerator
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.problem import points_of, problem_of
from dc_engine.discovery.store import Store
from dc_engine.discovery.upkeep import after_gone, after_new


@dataclass(frozen=True, slots=True)
class Difference:
    """Patterns that came and that went, and (read only if needed) all that are there now."""

    new: np.ndarray
    gone: np.ndarray
    now: Callable[[], np.ndarray]


def renewed(
    layout: Layout,
    classes: Iterable[str],
    before: Sets,
    difference: Difference,
    max_terms: int,
    spend: Callable[[], Spend],
) -> Enumerated:
    """The dependencies of up to so many terms, from all those before."""
    broken = {name: violated(layout, before[name], difference.new) for name in classes}
    touched = [name for name, some in broken.items() if some.any() or len(difference.gone)]
    if not touched:
        return Enumerated(before)
    patterns = difference.now()
    sets = dict(before)
    if "dc" in touched and 2 * broken["dc"].sum() <= len(before["dc"]):
        found = _dcs(layout, before["dc"], difference, patterns, max_terms, spend())
        if found is not None:
            sets["dc"] = found
            touched.remove("dc")
    again = enumerator(layout, touched, max_terms, spend)(patterns)
    return Enumerated({**sets, **again.sets}).cut(again.bound, again.stopped)


def _dcs(
    layout: Layout, boxes: Sequence[Box], difference: Difference, patterns: np.ndarray, max_terms: int, spend: Spend
) -> list[Box] | None:
    """The denial constraints, searched for only where patterns came or went; nothing if that takes too much."""
    terms, new, gone = layout.terms, difference.new, difference.gone
    sets, most, seconds = [literals_of(terms, box) for box in boxes], spend.most, spend.seconds
    if len(gone):
        ones = np.ones(len(new), np.int64)
        stayed = problem_of(layout, patterns[Store(new, ones, ones, ones).pairs_of(patterns) == 0])
        points = _points(layout, gone)
        left = after_gone(sets, stayed, points, max_terms=max_terms, most=most, seconds=seconds)
        if left is None:
            return None
        sets = left
    if len(new):
        points = _points(layout, new)
        now = after_new(sets, problem_of(layout, patterns), points, max_terms=max_terms, most=most, seconds=seconds)
        if now is None:
            return None
        sets = now
    return [of_literals(terms, one) for one in sets]


def _points(layout: Layout, patterns: np.ndarray) -> np.ndarray:
    return points_of(layout, np.concatenate([patterns, layout.mirrored(patterns)])).points
