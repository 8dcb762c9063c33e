"""Where a search ends before it is complete, and what can be said about what it found."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from dc_engine.discovery.boxes import said
from dc_engine.discovery.classes import TABLED, Spend
from dc_engine.discovery.enumerating import Enumerated
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.space import Limits
from dc_engine.discovery.spreading import Workers, nobody
from dc_engine.errors import counted

_STEPS = (4, 6, 8, 12, 16, 24, 32, 48, 64)
_FIRST_STEPS = (2, 3)
"""Of many columns even short dependencies are many: a search that is stopped should have all of some length."""


@dataclass(frozen=True, slots=True)
class Clock:
    """What a search may still spend."""

    limits: Limits
    workers: Workers = nobody
    started: float = field(default_factory=time.monotonic)

    def spend(self) -> Spend:
        """The sets that may be found (mirror images count too), and the seconds that are left."""
        left = self.limits.seconds - (time.monotonic() - self.started)
        return Spend(2 * self.limits.max_dependencies + 2, max(left, 0.01), self.workers)


def terms_of(layout: Layout) -> int:
    """The most terms that a dependency can have."""
    return sum(bool(term.ops) for term in layout.terms.terms) or len(layout.terms.first)


def most_terms(layout: Layout, limits: Limits, bound: int | None = None) -> int:
    """How many terms to search up to: all, unless that is limited or was bounded before."""
    return min(one for one in (terms_of(layout), limits.max_terms, bound) if one is not None)


def steps(layout: Layout, limits: Limits) -> list[int]:
    """How many terms to search up to, in turn."""
    most = most_terms(layout, limits)
    first = _FIRST_STEPS if terms_of(layout) > TABLED else ()
    return [*(one for one in (*first, *_STEPS) if one < most), most]


def told(because: str, limits: Limits) -> str:
    """Why a set is not complete, with what was asked for."""
    least = counted(limits.min_support or 0, "pair")
    few = f"only dependencies with a support of at least {least} of rows are looked for"
    return because if not limits.min_support or few in because else "; ".join(filter(None, (because, few)))


def kept(found: Enumerated, asked: int, layout: Layout, limits: Limits) -> tuple[Enumerated, str]:
    """What is kept of what was found with up to so many terms, with its bound; and why it is not complete, if so.

    Of more dependencies than are allowed those with the fewest terms are kept, all of one number or none.
    """
    bound = asked if found.bound is None else found.bound
    because = f"the search took more than {limits.seconds:g} s" if found.stopped == "seconds" else ""
    boxes = [len(said(box)) for some in found.sets.values() for box in some]
    if found.stopped == "sets" or len(boxes) > limits.max_dependencies:
        because = f"there are more than {limits.max_dependencies:,} dependencies of up to {asked} comparisons"
        while sum(size <= bound for size in boxes) > limits.max_dependencies:
            bound -= 1
    cut = found.cut(bound, found.stopped)
    if because:
        return cut, because
    if bound >= terms_of(layout):
        return Enumerated(found.sets, None, "", found.violations), ""
    looked_for = f"only dependencies of up to {bound} comparisons are looked for"
    return cut, looked_for if bound == limits.max_terms else ""
