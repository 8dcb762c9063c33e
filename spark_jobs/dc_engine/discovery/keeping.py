"""What is known about the dependencies of a table, found once and kept exact when rows come and go.

Two stores of patterns, one format. *Counted*: all patterns with their numbers of pairs, to which a change adds and from
which it subtracts. *Witnessed*: some patterns, each with a pair of rows that shows it; with the dependencies that were
proven they are a certificate. Rows that go can only take witnesses away, rows that come can only bring violations.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dc_engine.discovery.approximate import Bounds, allowed_pairs
from dc_engine.discovery.bits import first_of_each
from dc_engine.discovery.boxes import Box
from dc_engine.discovery.coded import Coded
from dc_engine.discovery.enumerating import Enumerated, Sets, approximately, enumerator
from dc_engine.discovery.grouping import approximate_by_groups
from dc_engine.discovery.limits import Clock, kept, most_terms, steps
from dc_engine.discovery.newcomers import prover_of
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.proving import Effort, Prover
from dc_engine.discovery.renewing import Difference, renewed
from dc_engine.discovery.scan import Counted
from dc_engine.discovery.search import first_patterns, settle
from dc_engine.discovery.space import Space
from dc_engine.discovery.spreading import Workers, nobody
from dc_engine.discovery.store import Store, added_up, alive, joined, laid_out, run_of, shown_lines, unknown
from dc_engine.discovery.table import Shown, Table, pairs_of
from dc_engine.errors import RequestError, StateError, counted
from dc_engine.sizes import SIZES

log = logging.getLogger("airflow_dc_provider.discover")

COUNTED, WITNESSED = "counted", "witnessed"
_MOST_COUNTED_PAIRS = 20_000_000_000
_MOST_PATTERNS = 4_000_000


@dataclass(frozen=True, slots=True)
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
    violations: Mapping[Box, int] = field(default_factory=dict)
    """Pairs of rows that violate each, where a few may."""
    effort: Effort | None = None

    @property
    def store(self) -> Store:
        """All patterns as one."""
        return added_up(self.runs) if self.mode == COUNTED else joined(self.runs)

    def same_sets(self, other: Known) -> bool:
        """Whether the same dependencies hold, with the same errors."""
        mine, others = ({name: set(some) for name, some in one.sets.items()} for one in (self, other))
        return mine == others and self.violations == other.violations

    @property
    def keys(self) -> Sequence[Box]:
        """The sets of columns on which no two rows agree, as far as they were looked for."""
        return [box for box in self.sets.get("unique", ()) if not self.violations.get(box)]

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


def found(
    space: Space,
    rows: Coded,
    mode: str = "auto",
    nullable: frozenset[str] = frozenset(),
    workers: Workers = nobody,
) -> Known:
    """The dependencies of a table, from scratch; ``nullable`` are columns that had NULLs before."""
    table = replace(rows.table(space, rows.nullable | nullable), workers=workers)
    chosen = _mode(space, table, mode)
    log.info("looking for dependencies of %s, patterns %s", counted(table.rows, "row"), chosen)
    if chosen == COUNTED:
        run = run_of(table.layout, rows.ids, [_scanned(table, np.arange(table.rows), None, 1)])
        return _enumerated(space, table, (run,))
    if space.max_error:
        return _grouped(space, table)
    return _witnessed(space, rows, table, Shown.of(table.layout, [first_patterns(table)]))


def changed(space: Space, known: Known, turnover: Turnover, mode: str = "", workers: Workers = nobody) -> Known:
    """The same after rows have come and gone. With mode ``auto`` a table may become too long to count all pairs."""
    outgrown = known.mode == COUNTED and _pairs(int(turnover.after.sum())) > 4 * SIZES.counted_pairs
    if mode == "auto" and outgrown and not _needs_counts(space):
        return found(space, turnover.rows.chosen(turnover.after), WITNESSED, known.nullable, workers)
    nullable = known.nullable | turnover.rows.nullable
    table = replace(turnover.rows.table(space, nullable), workers=workers)
    if nullable != known.nullable:
        before = Layout(space.terms(known.nullable))
        runs = (replace(one, patterns=laid_out(before, table.layout, one.patterns)) for one in known.runs)
        known = replace(known, runs=tuple(runs), nullable=nullable)
    if known.mode == COUNTED:
        return _recounted(space, known, turnover, table)
    if space.max_error:
        return _grouped(space, table.taken(np.flatnonzero(turnover.after)))
    return _rewitnessed(space, known, turnover, table)


def turned(space: Space, known: Known, rows: Coded, mode: str) -> Known:
    """The same in the other mode."""
    if mode == known.mode:
        return known
    if mode == COUNTED or space.max_error:
        return found(space, rows, mode, known.nullable)
    table = rows.table(space, known.nullable)
    return _witnessed(space, rows, table, alive(known.store, table.layout, rows.ids))


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


def _pairs(rows: int) -> int:
    return rows * (rows - 1) // 2


def _mode(space: Space, table: Table, mode: str) -> str:
    pairs = _pairs(table.rows)
    if mode == "auto":
        mode = COUNTED if pairs <= SIZES.counted_pairs or _needs_counts(space) else WITNESSED
    if mode == COUNTED and pairs > _MOST_COUNTED_PAIRS:
        raise RequestError(
            f"The table has {pairs:,} pairs of rows, too many to count the patterns of all ({_MOST_COUNTED_PAIRS:,}).",
            hint="Use fewer rows, or mode 'witnessed', without class 'dc' if some errors are allowed.",
        )
    if mode == WITNESSED and _needs_counts(space):
        raise RequestError(
            "Rules of class 'dc' that a few pairs may violate can be found only where all pairs are counted.",
            hint="Use mode 'counted', leave out class 'dc', or set 'max_error' to 0.",
        )
    return mode


def _needs_counts(space: Space) -> bool:
    return space.max_error > 0 and "dc" in space.classes


def _known(
    space: Space, mode: str, layout: Layout, runs: tuple[Store, ...], result: Enumerated, before: Known | None
) -> Known:
    """What is known now, and where it ends; a bound that was there before stays, with its reason."""
    asked = most_terms(layout, space.limits, before.bound if before else None)
    some, because = kept(result, asked, layout, space.limits)
    if before and some.bound is not None and not because:
        because = before.because
    return Known(mode, layout.terms.nullable, runs, some.sets, some.bound, because, some.violations)


# counted


def _scanned(table: Table, some: np.ndarray, others: np.ndarray | None, sign: int) -> Counted:
    """The patterns of rows with others, or (without) with each other, with their numbers of pairs and places."""
    found = pairs_of(table, some, others)
    if len(found.patterns) > _MOST_PATTERNS:
        raise RequestError(
            f"Pairs of rows have {len(found.patterns):,} different patterns; {_MOST_PATTERNS:,} can be counted.",
            hint="Use mode 'witnessed', fewer columns, or fewer ordered ones.",
        )
    return replace(found, pairs=sign * found.pairs)


def _recounted(space: Space, known: Known, turnover: Turnover, table: Table) -> Known:
    stay = np.flatnonzero(turnover.before & turnover.after)
    parts = []
    for some, sign in ((turnover.before & ~turnover.after, -1), (turnover.after & ~turnover.before, 1)):
        if some.any():
            places = np.flatnonzero(some)
            parts += [_scanned(table, places, stay, sign), _scanned(table, places, None, sign)]
    run = run_of(table.layout, turnover.rows.ids, parts)
    were = sum((one.pairs_of(run.patterns) for one in known.runs), np.zeros(len(run), np.int64))
    if (were + run.pairs < 0).any():
        raise StateError(
            "The numbers of pairs that the state keeps are not those of its rows.", hint="Rebuild the state."
        )
    runs = (*known.runs, run) if len(run) else known.runs
    if space.max_error:
        return _enumerated(space, table, runs, known)
    new, gone = run.patterns[were == 0], run.patterns[were + run.pairs == 0]
    if not len(new) and not len(gone):
        return replace(known, runs=runs)
    return _renewed(space, table, replace(known, runs=runs), Difference(new, gone, lambda: added_up(runs).patterns))


def _renewed(space: Space, table: Table, known: Known, change: Difference) -> Known:
    """The dependencies that new and vanished patterns leave."""
    clock, layout = Clock(space.limits, table.workers), table.layout
    most = most_terms(layout, space.limits, known.bound)
    result = renewed(layout, space.classes, known.sets, change, most, clock.spend)
    return _known(space, COUNTED, layout, known.runs, result, known)


def _enumerated(space: Space, table: Table, runs: tuple[Store, ...], before: Known | None = None) -> Known:
    """The dependencies that all patterns leave."""
    clock, layout = Clock(space.limits, table.workers), table.layout
    most = most_terms(layout, space.limits, before.bound if before else None)
    store = added_up(runs)
    if space.max_error:
        spend = clock.spend()
        bounds = Bounds(space.max_error, most, spend.most, clock.started + space.limits.seconds)
        result = approximately(layout, space.classes, store.patterns, store.pairs, bounds)
    else:
        result = enumerator(layout, space.classes, most, clock.spend)(store.patterns)
    return _known(space, COUNTED, layout, runs, result, before)


# witnessed


def _grouped(space: Space, table: Table) -> Known:
    """Approximate keys and functional dependencies, without patterns."""
    layout, limits = table.layout, space.limits
    most = most_terms(layout, limits)
    allowed = allowed_pairs(space.max_error, _pairs(table.rows))
    result = approximate_by_groups(table, space.classes, allowed, most, limits.seconds)
    violations = {box: pairs for some in result.violations.values() for box, pairs in some.items()}
    sets = {name: list(some) for name, some in result.violations.items()}
    stopped = "" if result.terms >= most else "seconds"
    listed = Enumerated(sets, result.terms if stopped else None, stopped, violations)
    return _known(space, WITNESSED, layout, (Store.empty(layout),), listed, None)


def _witnessed(space: Space, rows: Coded, table: Table, shown: Shown) -> Known:
    """Terms are added step by step: what few of them leave is proven before more are tried."""
    clock, whole, layout = Clock(space.limits, table.workers), Prover(table), table.layout
    known: Known | None = None
    for most in steps(layout, space.limits):
        settled = settle(whole, shown, enumerator(layout, space.classes, most, clock.spend))
        shown = settled.known
        some, because = kept(settled.found, most, layout, space.limits)
        if known and because and (some.bound or 0) < (known.bound or 0):
            return replace(known, because=because)  # more was complete before
        known = Known(WITNESSED, layout.terms.nullable, (shown_lines(rows.ids, shown),), some.sets, some.bound, because)
        if because:
            break
    assert known is not None
    return replace(known, effort=whole.effort)


def _rewitnessed(space: Space, known: Known, turnover: Turnover, table: Table) -> Known:
    new = (turnover.after & ~turnover.before)[turnover.after]
    places = np.flatnonzero(turnover.after)
    ids = turnover.rows.ids[places]
    shown = alive(known.store, table.layout, ids)
    unharmed = len(shown) == len(first_of_each(known.store.patterns))
    if unharmed and not new.any():
        return known
    present = table.taken(places) if len(places) < table.rows else table
    whole, fresh = Prover(present), prover_of(present, new)
    most = most_terms(table.layout, space.limits, known.bound)
    enumerate_ = enumerator(table.layout, space.classes, most, Clock(space.limits, table.workers).spend)
    before = known.sets if unharmed else None
    settled = settle(whole, shown, enumerate_, fresh=fresh, before=before, valid=known.boxes)
    added = shown_lines(ids, unknown(settled.known, shown))
    now = _known(space, WITNESSED, table.layout, (*known.runs, added), settled.found, known)
    same = not len(added) and now.bound == known.bound and now.same_sets(known)
    return known if same else replace(now, effort=fresh.effort)
