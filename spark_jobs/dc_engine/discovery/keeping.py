"""What is known about the dependencies of a table, found once and kept exact when rows come and go.

Two stores of patterns, one format. *Counted*: all patterns with their numbers of pairs, to which a change adds and from
which it subtracts. *Witnessed*: some patterns, each with a pair of rows that shows it; with the dependencies that were
proven they are a certificate. Rows that go can only take witnesses away, rows that come can only bring violations.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dc_engine.discovery.bits import first_of_each
from dc_engine.discovery.boxes import Box
from dc_engine.discovery.coded import Coded
from dc_engine.discovery.enumerating import Sets, enumerator
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.proving import Effort, Prover
from dc_engine.discovery.scan import Counted, merged
from dc_engine.discovery.search import first_patterns, settle
from dc_engine.discovery.space import Limits, Space
from dc_engine.discovery.table import Shown, Table, pairs_of
from dc_engine.errors import RequestError, counted
from dc_engine.sizes import SIZES

log = logging.getLogger("airflow_dc_provider.discover")

COUNTED, WITNESSED = "counted", "witnessed"
_MOST_COUNTED_PAIRS = 20_000_000_000
_MOST_PATTERNS = 4_000_000


@dataclass(frozen=True, slots=True)
class Store:
    """Patterns with numbers of pairs (counted), or with the ids of rows that show them (witnessed)."""

    patterns: np.ndarray
    pairs: np.ndarray
    """0 where pairs are not counted."""
    t: np.ndarray
    s: np.ndarray

    @staticmethod
    def empty(layout: Layout) -> Store:
        """The store of no rows."""
        nothing = np.zeros(0, np.int64)
        return Store(np.zeros((0, layout.words), np.uint64), nothing, nothing, nothing)

    def taken(self, places: np.ndarray) -> Store:
        """Some of its lines."""
        return Store(self.patterns[places], self.pairs[places], self.t[places], self.s[places])

    def __len__(self) -> int:
        """How many lines it has."""
        return len(self.patterns)


@dataclass(frozen=True, slots=True)
class Known:
    """What is known about the dependencies of a table."""

    mode: str
    nullable: frozenset[str]
    """The columns in which a NULL was ever seen: patterns have a bit for each."""
    store: Store
    sets: Sets
    bound: int | None = None
    """The sets have all dependencies of up to so many terms; without it all there are."""
    because: str = ""
    """Why they are not complete."""
    effort: Effort | None = None

    def same_sets(self, other: Known) -> bool:
        """Whether the same dependencies hold."""
        mine, others = ({name: set(some) for name, some in one.sets.items()} for one in (self, other))
        return mine == others

    @property
    def boxes(self) -> list[Box]:
        """All dependencies of all classes."""
        return sorted({box for some in self.sets.values() for box in some})


@dataclass(frozen=True, slots=True)
class Turnover:
    """All rows that were or are there, and which: before a change, and after it."""

    rows: Coded
    before: np.ndarray
    after: np.ndarray


def found(space: Space, rows: Coded, mode: str = "auto", nullable: frozenset[str] = frozenset()) -> Known:
    """The dependencies of a table, from scratch; ``nullable`` are columns that had NULLs before."""
    table = rows.table(space, rows.nullable | nullable)
    chosen = _mode(space, table, mode)
    log.info("looking for dependencies of %s, patterns %s", counted(table.rows, "row"), chosen)
    if chosen == COUNTED:
        store = _summed(table.layout, [_scanned(table, np.arange(table.rows), None, 1)], rows.ids)
        return _enumerated(space, table.layout, table.layout.terms.nullable, store)
    return _witnessed(space, rows, table, Shown.of(table.layout, [first_patterns(table)]))


def changed(space: Space, known: Known, turnover: Turnover, mode: str = "") -> Known:
    """The same after rows have come and gone. With mode ``auto`` a table may become too long to count all pairs."""
    if mode == "auto" and known.mode == COUNTED and _pairs(int(turnover.after.sum())) > 4 * SIZES.counted_pairs:
        return found(space, turnover.rows.chosen(turnover.after), WITNESSED, known.nullable)
    nullable = known.nullable | turnover.rows.nullable
    table = turnover.rows.table(space, nullable)
    before = Layout(space.terms(known.nullable))
    store = replace(known.store, patterns=laid_out(before, table.layout, known.store.patterns))
    known = replace(known, store=store, nullable=nullable)
    gone, new = turnover.before & ~turnover.after, turnover.after & ~turnover.before
    if known.mode == COUNTED:
        return _recounted(space, known, turnover, table, gone, new)
    return _rewitnessed(space, known, turnover, table, new)


def turned(space: Space, known: Known, rows: Coded, mode: str) -> Known:
    """The same in the other mode."""
    if mode == known.mode:
        return known
    if mode == COUNTED:
        return found(space, rows, COUNTED, known.nullable)
    table = rows.table(space, known.nullable)
    return _witnessed(space, rows, table, _alive(known.store, table.layout, rows.ids))


def difference(space: Space, before: Known, after: Known) -> Store:
    """What has to be added to the patterns of ``before`` to have those of ``after``."""
    if before.mode != after.mode or not len(before.store):
        return after.store
    layout = Layout(space.terms(after.nullable))
    patterns = laid_out(Layout(space.terms(before.nullable)), layout, before.store.patterns)
    old, new = before.store, after.store
    if after.mode == COUNTED:
        parts = [Counted(new.patterns, new.pairs, new.t, new.s), Counted(patterns, -old.pairs, old.t, old.s)]
        total = merged(layout, parts)
        places = np.flatnonzero(total.pairs)
        return Store(total.patterns[places], total.pairs[places], total.t[places], total.s[places])
    known = set(zip(old.t.tolist(), old.s.tolist(), strict=True))
    fresh = [pair not in known for pair in zip(new.t.tolist(), new.s.tolist(), strict=True)]
    return new.taken(np.flatnonzero(fresh))


def _pairs(rows: int) -> int:
    return rows * (rows - 1) // 2


# counted


def _mode(space: Space, table: Table, mode: str) -> str:
    pairs = _pairs(table.rows)
    if mode == "auto":
        approximate = space.max_error > 0 and "dc" in space.classes
        return COUNTED if pairs <= SIZES.counted_pairs or approximate else WITNESSED
    if mode == COUNTED and pairs > _MOST_COUNTED_PAIRS:
        raise RequestError(
            f"The table has {pairs:,} pairs of rows, too many to count the patterns of all ({_MOST_COUNTED_PAIRS:,}).",
            hint="Use mode 'witnessed', or fewer rows.",
        )
    return mode


def _scanned(table: Table, some: np.ndarray, others: np.ndarray | None, sign: int) -> Counted:
    """The patterns of rows with others, or (without) with each other, with their numbers of pairs and places."""
    found = pairs_of(table, some, others)
    if len(found.patterns) > _MOST_PATTERNS:
        raise RequestError(
            f"Pairs of rows have {len(found.patterns):,} different patterns; {_MOST_PATTERNS:,} can be counted.",
            hint="Use mode 'witnessed', fewer columns, or fewer ordered ones.",
        )
    return replace(found, pairs=sign * found.pairs)


def _summed(layout: Layout, parts: Sequence[Counted], ids: np.ndarray, base: Store | None = None) -> Store:
    """Counts added up; a pattern that no pair has any more is left out. A pair that came shows a pattern best."""
    coming = [Counted(one.patterns, one.pairs, ids[one.t], ids[one.s]) for one in parts]
    old = [Counted(base.patterns, base.pairs, base.t, base.s)] if base else []
    total = merged(layout, [*old, *coming])
    if (total.pairs < 0).any():
        raise AssertionError("patterns have fewer than no pairs: the stored counts are not those of the rows")
    places = np.flatnonzero(total.pairs)
    return Store(total.patterns[places], total.pairs[places], total.t[places], total.s[places])


def _recounted(
    space: Space, known: Known, turnover: Turnover, table: Table, gone: np.ndarray, new: np.ndarray
) -> Known:
    away, come = np.flatnonzero(gone), np.flatnonzero(new)
    stay = np.flatnonzero(turnover.before & turnover.after)
    parts = []
    for some, sign in ((away, -1), (come, 1)):
        if len(some):
            parts += [_scanned(table, some, stay, sign), _scanned(table, some, None, sign)]
    store = _summed(table.layout, parts, turnover.rows.ids, known.store)
    same = len(store) == len(known.store) and (store.patterns == known.store.patterns).all()
    if same:
        return replace(known, store=store)
    now = _enumerated(space, table.layout, known.nullable, store, known.bound)
    return now if now.bound is None or now.because else replace(now, because=known.because)


def _enumerated(
    space: Space, layout: Layout, nullable: frozenset[str], store: Store, bound: int | None = None
) -> Known:
    """The dependencies that all patterns leave."""
    clock = _Clock(space.limits)
    known = Known(COUNTED, nullable, store, {name: [] for name in space.classes}, 0)
    for most in _bounds(layout, space.limits, bound):
        sets = enumerator(layout, space.classes, most)(store.patterns)
        stop = clock.stop(sets, most)
        if stop:
            return replace(known, because=stop)
        known = replace(known, sets=sets, bound=most)
    return _finished(known, layout, space.limits)


# witnessed


def _witnessed(space: Space, rows: Coded, table: Table, shown: Shown) -> Known:
    clock, whole = _Clock(space.limits), Prover(table)
    nothing: Sets = {name: [] for name in space.classes}
    known = Known(WITNESSED, table.layout.terms.nullable, _store(rows.ids, shown), nothing, 0, effort=whole.effort)
    for most in _bounds(table.layout, space.limits, None):
        settled = settle(whole, shown, enumerator(table.layout, space.classes, most))
        shown = settled.known
        stop = clock.stop(settled.sets, most)
        if stop:
            return replace(known, because=stop)
        known = replace(known, sets=settled.sets, bound=most, store=_store(rows.ids, shown))
    return _finished(known, table.layout, space.limits)


def _rewitnessed(space: Space, known: Known, turnover: Turnover, table: Table, new: np.ndarray) -> Known:
    places = np.flatnonzero(turnover.after)
    ids = turnover.rows.ids[places]
    shown = _alive(known.store, table.layout, ids)
    if not new.any() and len(shown) == len(first_of_each(known.store.patterns)):
        return known
    present = table.taken(places) if len(places) < table.rows else table
    whole, fresh = Prover(present), Prover(present, new[places])
    enumerate_ = enumerator(table.layout, space.classes, known.bound)
    before = known.sets if len(shown) == len(first_of_each(known.store.patterns)) else None
    settled = settle(whole, shown, enumerate_, fresh=fresh, before=before, valid=known.boxes)
    added = _store(ids, _unknown(settled.known, shown))
    if not len(added) and Known(WITNESSED, nullable=frozenset(), store=added, sets=settled.sets).same_sets(known):
        return known
    both = (np.concatenate([getattr(one, name) for one in (known.store, added)]) for name in Store.__slots__)
    return replace(known, store=Store(*both), sets=settled.sets, effort=fresh.effort)


def _alive(store: Store, layout: Layout, ids: np.ndarray) -> Shown:
    """The patterns that rows with these ids show, by their places."""
    t, s = (places_of(ids, one) for one in (store.t, store.s))
    alive = np.flatnonzero((t >= 0) & (s >= 0))
    return Shown.of(layout, [Shown(store.patterns[alive], t[alive], s[alive])])


def places_of(ids: np.ndarray, some: np.ndarray) -> np.ndarray:
    """The places of some ids among others; -1 for those that are not there."""
    if not len(ids):
        return np.full(len(some), -1, np.int64)
    order = np.argsort(ids, kind="stable")
    where = np.minimum(np.searchsorted(ids, some, sorter=order), len(ids) - 1)
    return np.where(ids[order[where]] == some, order[where], -1)


def _unknown(now: Shown, before: Shown) -> Shown:
    """Patterns that were not known before."""
    both = np.concatenate([before.patterns, now.patterns])
    first = first_of_each(both)
    return now.taken(np.sort(first[first >= len(before.patterns)]) - len(before.patterns))


def _store(ids: np.ndarray, shown: Shown) -> Store:
    return Store(shown.patterns, np.zeros(len(shown), np.int64), ids[shown.t], ids[shown.s])


# both


@dataclass(slots=True)
class _Clock:
    """When a search has to end."""

    limits: Limits
    started: float = 0.0

    def __post_init__(self) -> None:
        self.started = time.monotonic()

    def stop(self, sets: Sets, bound: int | None) -> str:
        """Why what was found last cannot be kept, or (empty) that it can."""
        number = sum(map(len, sets.values()))
        if number > self.limits.max_dependencies:
            return f"there are more than {self.limits.max_dependencies:,} dependencies of up to {bound} comparisons"
        if time.monotonic() - self.started > self.limits.seconds:
            return f"the search took more than {self.limits.seconds:g} s"
        return ""


def _bounds(layout: Layout, limits: Limits, bound: int | None) -> list[int]:
    """How many terms to search up to, in turn: what was found before a limit ends the search is complete so far."""
    terms = sum(bool(term.ops) for term in layout.terms.terms)
    most = min(one for one in (terms, limits.max_terms, bound) if one is not None)
    if bound is not None or most <= 4:
        return [most]
    return sorted({4, 6, 8, 12, 16, 24, 32, 48, 64, most} & set(range(1, most + 1)))


def _finished(known: Known, layout: Layout, limits: Limits) -> Known:
    """All bounds were reached: the sets are complete, unless terms were bounded."""
    terms = sum(bool(term.ops) for term in layout.terms.terms)
    if known.bound is not None and known.bound >= terms:
        return replace(known, bound=None, because="")
    if limits.max_terms is not None and known.bound == limits.max_terms:
        return replace(known, because=f"only dependencies of up to {limits.max_terms} comparisons are looked for")
    return known


def laid_out(before: Layout, after: Layout, patterns: np.ndarray) -> np.ndarray:
    """Patterns with room for NULLs in more columns."""
    if before.slots == after.slots:
        return patterns
    result = np.zeros((len(patterns), after.words), np.uint64)
    for old, new in zip(before.slots, after.slots, strict=True):
        width = np.uint64(3 if old.ordered else 1)
        result[:, new.word] |= ((patterns[:, old.word] >> np.uint64(old.shift)) & width) << np.uint64(new.shift)
        if old.null is not None and new.null is not None:
            flag = (patterns[:, old.word] >> np.uint64(old.null)) & np.uint64(1)
            result[:, new.word] |= flag << np.uint64(new.null)
    return after.canonical(result)
