"""All classes of dependencies from the same patterns, as boxes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

import numpy as np

from dc_engine.discovery.approximate import Approximate, Bounds, approximate_dcs, approximate_fds, approximate_uniques
from dc_engine.discovery.boxes import Box, agreeing, of_literals, said
from dc_engine.discovery.classes import NO_LIMIT, TABLED, Spend, equalities, fds, raw_dcs, uniques
from dc_engine.discovery.orders import orders
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.pointwise import Family
from dc_engine.discovery.problem import Contexts
from dc_engine.discovery.support import Support

Sets = Mapping[str, Sequence[Box]]
"""The dependencies of each class; of ``dc`` all that are minimal, mirror images too."""
Violations = Mapping[str, Mapping[Box, int]]
"""By class: how many pairs of rows violate each, where a few may; of an order dependency how many rows have to go."""


@dataclass(frozen=True, slots=True)
class Enumerated:
    """What patterns leave. If it was stopped: all of up to so many terms."""

    sets: Sets
    bound: int | None = None
    stopped: str = ""
    violations: Violations = field(default_factory=dict)

    def cut(self, bound: int | None, stopped: str) -> Enumerated:
        """The same without what has more terms than a bound."""
        if bound is None:
            return self
        sets = {name: [box for box in some if len(said(box)) <= bound] for name, some in self.sets.items()}
        return Enumerated(sets, bound, stopped, self.violations)

    def supported(self, support: Support | None) -> Enumerated:
        """The same without what has too little support, if that is asked for."""
        if support is None:
            return self
        enough = support.enough({box for some in self.sets.values() for box in some})
        sets = {name: [box for box in some if box in enough] for name, some in self.sets.items()}
        violations = {
            name: {box: number for box, number in some.items() if box in enough}
            for name, some in self.violations.items()
        }
        return Enumerated(sets, self.bound, self.stopped, violations)

    def together(self, other: Enumerated) -> Enumerated:
        """The dependencies of other classes too: complete as far as both are."""
        bounds = {one.bound: one.stopped for one in (self, other) if one.bound is not None}
        bound = min(bounds, default=None)
        stopped = "" if bound is None else bounds[bound]
        return Enumerated({**self.sets, **other.sets}, bound, stopped, {**self.violations, **other.violations})


Enumerate = Callable[[np.ndarray], Enumerated]


def enumerator(
    layout: Layout,
    classes: Iterable[str],
    max_terms: int | None,
    spend: Callable[[], Spend] = lambda: NO_LIMIT,
    support: Support | None = None,
) -> Enumerate:
    """A function that finds the dependencies of up to so many terms that some patterns leave, with enough support."""
    search = _Search(layout, max_terms, spend, support)
    by_class = {"unique": search.uniques, "fd": search.fds, "od": search.orders, "pod": search.pods, "dc": search.dcs}
    chosen = tuple(classes)

    def enumerate_(patterns: np.ndarray) -> Enumerated:
        found = Enumerated({})
        for name in chosen:
            found = found.together(by_class[name](patterns))
        return found.cut(found.bound, found.stopped).supported(support)

    return enumerate_


@dataclass(frozen=True, slots=True)
class _Search:
    """Each class in its own way, as boxes."""

    layout: Layout
    max_terms: int | None
    spend: Callable[[], Spend]
    support: Support | None

    def uniques(self, patterns: np.ndarray) -> Enumerated:
        terms = self.layout.terms
        within = self._contexts(terms.own.values())
        found = uniques(self.layout, patterns, max_columns=self.max_terms, spend=self.spend(), contexts=within)
        boxes = [agreeing(terms, one) for one in found.left[""]]
        return Enumerated({"unique": boxes}, found.complete_columns, found.stopped)

    def fds(self, patterns: np.ndarray) -> Enumerated:
        """The right side is a term too."""
        terms = self.layout.terms
        most = None if self.max_terms is None else self.max_terms - 1
        within = self._contexts(terms.own.values())
        found = fds(self.layout, patterns, max_columns=most, spend=self.spend(), contexts=within)
        left = found.left if most != -1 else {}
        boxes = [agreeing(terms, one, right) for right, sides in left.items() for one in sides]
        bound = None if found.complete_columns is None else found.complete_columns + 1
        return Enumerated({"fd": boxes}, bound, found.stopped)

    def orders(self, patterns: np.ndarray) -> Enumerated:
        within = self._contexts(self.layout.terms.first.values())
        found = orders(self.layout, patterns, max_terms=self.max_terms, spend=self.spend(), within=within)
        return Enumerated({"od": found.boxes}, found.complete_terms, found.stopped)

    def pods(self, patterns: np.ndarray) -> Enumerated:
        family = Family(self.layout.terms)
        found = family.exactly(self.layout, patterns, self.max_terms, self.spend())
        return Enumerated({"pod": family.boxes(found.sets)}, found.bound, found.stopped)

    def dcs(self, patterns: np.ndarray) -> Enumerated:
        found = raw_dcs(self.layout, patterns, max_terms=self.max_terms, spend=self.spend())
        return Enumerated(
            {"dc": [of_literals(self.layout.terms, one) for one in found.sets]}, found.bound, found.stopped
        )

    def _contexts(self, places: Collection[int]) -> Contexts | None:
        """The contexts with enough support, where that is asked for and it takes less to know them before."""
        return self.support.contexts(list(places)) if self.support and len(places) > TABLED else None


def approximately(
    layout: Layout, classes: Sequence[str], patterns: np.ndarray, pairs: np.ndarray, bounds: Bounds
) -> Enumerated:
    """The dependencies that few pairs of rows violate, from all patterns with their numbers of pairs.

    The search goes twice as far each time, so that one that is stopped leaves all of up to some number of terms.
    """
    most = len(layout.terms.terms) if bounds.max_terms is None else bounds.max_terms
    done = Enumerated({name: [] for name in classes}, 0)
    for last in [*takewhile(lambda one: one < most, (2, 4, 8, 16, 32, 64)), most]:
        found = _approximately(layout, classes, patterns, pairs, replace(bounds, max_terms=last))
        if found.stopped:
            return replace(done, stopped=found.stopped)
        done = replace(found, bound=last)
    return replace(done, bound=None)


def _approximately(
    layout: Layout, classes: Iterable[str], patterns: np.ndarray, pairs: np.ndarray, bounds: Bounds
) -> Enumerated:
    terms = layout.terms
    names = equalities(layout, patterns)[0]
    sets: dict[str, dict[Box, int]] = {}
    stopped = ""
    for name in classes:
        if name == "dc":
            whole = approximate_dcs(layout, patterns, pairs, bounds)
            sets[name] = dict(zip((of_literals(terms, one) for one in whole.sets), whole.violations, strict=True))
            stopped = stopped or whole.stopped
            continue
        if name == "pod":
            sets[name], reason = Family(terms).approximately(layout, patterns, pairs, bounds)
            stopped = stopped or reason
            continue
        most = bounds.max_terms if name == "unique" or bounds.max_terms is None else bounds.max_terms - 1
        asked = Bounds(bounds.max_error, most, bounds.most, bounds.end)
        found: dict[str | None, Approximate] = {}
        if name == "unique":
            found[None] = approximate_uniques(layout, patterns, pairs, asked)
        elif most != -1:
            found = dict(approximate_fds(layout, patterns, pairs, asked).items())
        sets[name] = {
            agreeing(terms, (names[place] for place in one), right): violations
            for right, some in found.items()
            for one, violations in zip(some.sets, some.violations, strict=True)
        }
        stopped = next((some.stopped for some in found.values() if some.stopped), stopped)
    return Enumerated({name: list(some) for name, some in sets.items()}, None, stopped, sets)
