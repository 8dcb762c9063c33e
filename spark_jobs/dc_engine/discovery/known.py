"""What is known about the dependencies of a table, in one of two modes: which fits a table, and what a change adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from dc_engine.discovery.boxes import Box, carried
from dc_engine.discovery.coded import Coded
from dc_engine.discovery.enumerating import Sets, Violations
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.space import Space
from dc_engine.discovery.store import Store, added_up, joined, laid_out
from dc_engine.errors import RequestError
from dc_engine.sizes import SIZES

COUNTED, WITNESSED = "counted", "witnessed"
_MOST_COUNTED_PAIRS = 20_000_000_000


@dataclass(frozen=True)
class Known:
    """What is known about the dependencies of a table."""

    mode: str
    nullable: frozenset[str]
    """The columns in which a NULL was ever seen: patterns have a bit for each."""
    runs: tuple[Store, ...]
    """The patterns; those of a change are a run of their own."""
    sets: Sets
    bound: int | None = None
    """The sets have all dependencies of up to so many terms; without it all there are."""
    because: str = ""
    """Why they are not complete."""
    violations: Violations = field(default_factory=dict)

    @property
    def store(self) -> Store:
        """All patterns as one."""
        return added_up(self.runs) if self.mode == COUNTED else joined(self.runs)

    def same_sets(self, other: Known) -> bool:
        """Whether the same dependencies hold, with the same errors."""
        if self is other:
            return True
        mine, others = ({name: set(some) for name, some in one.sets.items()} for one in (self, other))
        return mine == others and self.violations == other.violations

    @property
    def keys(self) -> Sequence[Box]:
        """The sets of columns on which no two rows agree, as far as they were looked for."""
        return [box for box in self.sets.get("unique", ()) if not self.violations.get("unique", {}).get(box)]

    @cached_property
    def boxes(self) -> list[Box]:
        """All dependencies of all classes."""
        return sorted({box for some in self.sets.values() for box in some})


@dataclass(frozen=True, slots=True)
class Turnover:
    """All rows that were or are there, and which: before a change, and after it."""

    rows: Coded
    before: np.ndarray
    after: np.ndarray


def outgrown(known: Known, mode: str, rows: int, space: Space) -> bool:
    """Whether patterns that were counted are counted no longer, because there are so many rows."""
    many = known.mode == COUNTED and pairs_among(rows) > 4 * SIZES.counted_pairs
    return mode == "auto" and many and not needs_counts(space)


def with_nulls(space: Space, known: Known, nullable: frozenset[str]) -> Known:
    """The same with room for NULLs in these columns, which are at least those that had some before."""
    if nullable == known.nullable:
        return known
    before, after = (Layout(space.terms(some)) for some in (known.nullable, nullable))
    runs = (replace(one, patterns=laid_out(before, after, one.patterns)) for one in known.runs)
    sets, terms = known.sets, after.terms
    if len(terms.terms) > len(before.terms.terms):
        sets = {kind: [carried(before.terms, terms, kind, box) for box in some] for kind, some in sets.items()}
    return replace(known, runs=tuple(runs), nullable=nullable, sets=sets)


def difference(space: Space, before: Known, after: Known) -> Store:
    """What has to be added to the patterns of ``before`` to have those of ``after``."""
    if before.mode != after.mode:
        return after.store
    old, new = (Layout(space.terms(one.nullable)) for one in (before, after))
    if len(before.runs) <= len(after.runs) and all(
        one.pairs is other.pairs for one, other in zip(before.runs, after.runs, strict=False)
    ):  # what was there goes on, perhaps with room for more NULLs
        more = [Store.empty(new), *after.runs[len(before.runs) :]]
        return added_up(more) if after.mode == COUNTED else joined(more)
    if after.mode == COUNTED:
        patterns = [laid_out(old, new, one.patterns) for one in before.runs]
        away = [Store(some, -one.pairs, one.t, one.s) for some, one in zip(patterns, before.runs, strict=True)]
        return added_up([Store.empty(new), *away, *after.runs])
    known = set(zip(before.store.t.tolist(), before.store.s.tolist(), strict=True))
    lines = after.store
    fresh = [pair not in known for pair in zip(lines.t.tolist(), lines.s.tolist(), strict=True)]
    return lines.taken(np.flatnonzero(fresh))


def pairs_among(rows: int) -> int:
    """How many pairs so many rows have."""
    return rows * (rows - 1) // 2


def mode_of(space: Space, rows: int, mode: str) -> str:
    """Which patterns are kept of a table with so many rows; an error if what is asked for cannot be done."""
    pairs = pairs_among(rows)
    if mode == "auto":
        few = pairs <= SIZES.counted_pairs and {"od", "pod"}.isdisjoint(space.classes)
        mode = COUNTED if few or needs_counts(space) else WITNESSED
    if mode == COUNTED and pairs > _MOST_COUNTED_PAIRS:
        raise RequestError(
            f"The table has {pairs:,} pairs of rows, too many to count the patterns of all ({_MOST_COUNTED_PAIRS:,}).",
            hint="Use fewer rows, or mode 'witnessed', without 'pod' and 'dc' if some errors are allowed.",
        )
    if mode == WITNESSED and needs_counts(space):
        raise RequestError(
            "Rules of classes 'pod' and 'dc' that a few pairs may violate are found only where all pairs are counted.",
            hint="Use mode 'counted', leave out these classes, or set 'max_error' to 0.",
        )
    return mode


def needs_counts(space: Space) -> bool:
    """Whether what is asked for can only be found where all patterns are counted."""
    return space.max_error > 0 and not {"pod", "dc"}.isdisjoint(space.classes)
