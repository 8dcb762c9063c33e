"""What is known about the dependencies of a table, found once and kept exact when rows come and go.

Two stores of patterns, one format. *Counted*: all patterns with their numbers of pairs, to which a change adds and from
which it subtracts. *Witnessed*: some patterns, each with a pair of rows that shows it; with the dependencies that were
proven they are a certificate. Rows that go can only take witnesses away, rows that come can only bring violations.
"""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np

from dc_engine.discovery.approximate import Bounds, allowed_pairs
from dc_engine.discovery.bits import first_of_each
from dc_engine.discovery.classes import TABLED
from dc_engine.discovery.coded import Coded
from dc_engine.discovery.enumerating import Enumerated, approximately, enumerator
from dc_engine.discovery.grouping import approximate_by_groups
from dc_engine.discovery.known import (
    COUNTED,
    WITNESSED,
    Known,
    Turnover,
    mode_of,
    outgrown,
    pairs_among,
    with_nulls,
)
from dc_engine.discovery.limits import Clock, kept, most_terms, steps, told
from dc_engine.discovery.newcomers import prover_of
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.proving import Prover
from dc_engine.discovery.removal import approximate_orders
from dc_engine.discovery.renewing import Difference, renewed
from dc_engine.discovery.scan import Counted
from dc_engine.discovery.search import first_patterns, settle
from dc_engine.discovery.space import Space
from dc_engine.discovery.spreading import Workers, nobody
from dc_engine.discovery.store import Store, added_up, alive, run_of, shown_lines, unknown
from dc_engine.discovery.support import Support
from dc_engine.discovery.table import NO_ROWS, Shown, Table, pairs_of
from dc_engine.errors import RequestError, StateError, counted

log = logging.getLogger("airflow_dc_provider.discover")

_MOST_PATTERNS = 4_000_000
_SHORT = 200_000
"""Whatever is found in a table of so many rows is proven in seconds."""


def found(
    space: Space,
    rows: Coded,
    mode: str = "auto",
    nullable: frozenset[str] = frozenset(),
    workers: Workers = nobody,
) -> Known:
    """The dependencies of a table, from scratch; ``nullable`` are columns that had NULLs before."""
    table = replace(rows.table(space, rows.nullable | nullable), workers=workers)
    chosen = mode_of(space, table.rows, mode)
    log.info("looking for dependencies of %s, patterns %s", counted(table.rows, "row"), chosen)
    if chosen == COUNTED:
        run = run_of(table.layout, rows.ids, [_scanned(table, np.arange(table.rows), NO_ROWS, 1)])
        return _enumerated(space, table, (run,))
    if space.max_error:
        return _grouped(space, table)
    return _witnessed(space, rows, table, Shown.of(table.layout, [first_patterns(table)]))


def changed(
    space: Space,
    known: Known,
    turnover: Turnover,
    mode: str = "",
    workers: Workers = nobody,
    nullable: frozenset[str] = frozenset(),
) -> Known:
    """The same after rows have come and gone; ``nullable`` are columns in which others than these rows have NULLs.

    With mode ``auto`` a table may become too long to count all pairs.
    """
    if outgrown(known, mode, int(turnover.after.sum()), space):
        return found(space, turnover.rows.chosen(turnover.after), WITNESSED, known.nullable, workers)
    nullable |= known.nullable | turnover.rows.nullable
    table = replace(turnover.rows.table(space, nullable), workers=workers)
    known = with_nulls(space, known, nullable)
    if known.mode == COUNTED:
        return _recounted(space, known, turnover, table)
    if space.max_error:
        return _grouped(space, table.taken(np.flatnonzero(turnover.after)))
    return _rewitnessed(space, known, turnover, table)


def _known(
    space: Space, mode: str, layout: Layout, runs: tuple[Store, ...], result: Enumerated, before: Known | None
) -> Known:
    """What is known now, and where it ends; a bound that was there before stays, with its reason."""
    asked = most_terms(layout, space.limits, before.bound if before else None)
    some, because = kept(result, asked, layout, space.limits)
    if before and some.bound is not None and not because:
        because = before.because
    because = told(because, space.limits)
    return Known(mode, layout.terms.nullable, runs, some.sets, some.bound, because, some.violations)


def support_of(space: Space, table: Table) -> Support | None:
    """Who says which dependencies of a table have enough support, if that is asked for."""
    return Support(table, space.limits.min_support) if space.limits.min_support else None


# counted


def _scanned(table: Table, some: np.ndarray, others: np.ndarray, sign: int) -> Counted:
    """The patterns of rows with each other and with others, with their numbers of pairs and places."""
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
            parts.append(_scanned(table, np.flatnonzero(some), stay, sign))
    run = run_of(table.layout, turnover.rows.ids, parts)
    were = sum((one.pairs_of(run.patterns) for one in known.runs), np.zeros(len(run), np.int64))
    if (were + run.pairs < 0).any():
        raise StateError(
            "The numbers of pairs that the state keeps are not those of its rows.", hint="Rebuild the state."
        )
    runs = (*known.runs, run) if len(run) else known.runs
    if space.max_error or space.limits.min_support:
        return _enumerated(space, table.taken(np.flatnonzero(turnover.after)), runs, known)
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
    store, support = added_up(runs), support_of(space, table)
    if space.max_error:
        spend = clock.spend()
        bounds = Bounds(space.max_error, most, spend.most, clock.started + space.limits.seconds)
        others = tuple(name for name in space.classes if name != "od")
        result = approximately(layout, others, store.patterns, store.pairs, bounds)
        result = _with_orders(space, table, result, clock, most).supported(support)
    else:
        result = enumerator(layout, space.classes, most, clock.spend, support)(store.patterns)
    return _known(space, COUNTED, layout, runs, result, before)


# witnessed


def _grouped(space: Space, table: Table) -> Known:
    """Approximate keys, functional and order dependencies, without patterns."""
    clock, layout = Clock(space.limits), table.layout
    most = most_terms(layout, space.limits)
    allowed = allowed_pairs(space.max_error, pairs_among(table.rows))
    others = tuple(name for name in space.classes if name != "od")
    result = Enumerated({})
    if others:
        groups = approximate_by_groups(table, others, allowed, most, space.limits.seconds)
        sets = {name: list(some) for name, some in groups.violations.items()}
        stopped = "" if groups.terms >= most else "seconds"
        result = Enumerated(sets, groups.terms if stopped else None, stopped, groups.violations)
    result = _with_orders(space, table, result, clock, most).supported(support_of(space, table))
    return _known(space, WITNESSED, layout, (Store.empty(layout),), result, None)


def _with_orders(space: Space, table: Table, others: Enumerated, clock: Clock, most: int) -> Enumerated:
    """What holds but for a few pairs of rows, and the order dependencies that hold but for a few rows."""
    if "od" not in space.classes:
        return others
    allowed = allowed_pairs(space.max_error, table.rows)
    return others.together(approximate_orders(table, allowed, most, clock.spend().seconds))


def _witnessed(space: Space, rows: Coded, table: Table, shown: Shown) -> Known:
    """Terms are added step by step: what few of them leave is proven before more are tried."""
    clock, whole, layout = Clock(space.limits, table.workers), Prover(table), table.layout
    known, support = None, support_of(space, table)
    turns = steps(layout, space.limits)
    if _quick(space, table):
        turns = turns[-1:]
    elif _few_contexts(space, layout, support):
        turns = sorted({turns[0], turns[-1]})
    for most in turns:
        settled = settle(whole, shown, enumerator(layout, space.classes, most, clock.spend, support))
        shown = settled.known
        some, because = kept(settled.found, most, layout, space.limits)
        if known and because and (some.bound or 0) < (known.bound or 0):
            return replace(known, because=told(because, space.limits))  # more was complete before
        known = Known(WITNESSED, layout.terms.nullable, (shown_lines(rows.ids, shown),), some.sets, some.bound, because)
        if because:
            break
    assert known is not None
    return replace(known, because=told(known.because, space.limits))


def _quick(space: Space, table: Table) -> bool:
    """Whether to find all dependencies of any length takes no longer than to find the short ones."""
    return {"unique", "fd", "od"}.issuperset(space.classes) and len(space.columns) <= TABLED and table.rows <= _SHORT


def _few_contexts(space: Space, layout: Layout, support: Support | None) -> bool:
    """Whether so few contexts have enough support that long ones take no longer than short ones."""
    if support is None or not {"unique", "fd", "od"}.issuperset(space.classes):
        return False
    readings = (layout.terms.own.values(), layout.terms.first.values() if "od" in space.classes else ())
    return all(support.contexts(list(places)) is not None for places in readings)


def _rewitnessed(space: Space, known: Known, turnover: Turnover, table: Table) -> Known:
    new, ids, present = turnover.after & ~turnover.before, turnover.rows.ids, table
    if not turnover.after.all():
        places = np.flatnonzero(turnover.after)
        new, ids, present = new[places], ids[places], table.taken(places)
    shown = alive(known.store, table.layout, ids)
    unharmed = len(shown) == len(first_of_each(known.store.patterns))
    if unharmed and not new.any() and not space.limits.min_support:
        return known
    whole, fresh = Prover(present), prover_of(present, new)
    most = most_terms(table.layout, space.limits, known.bound)
    support, spend = support_of(space, present), Clock(space.limits, table.workers).spend
    enumerate_ = enumerator(table.layout, space.classes, most, spend, support)
    before = known.sets if unharmed else None
    if unharmed and support:  # it is another now, and so is what the same patterns leave
        again = enumerate_(shown.patterns)
        before = None if again.stopped else again.sets
    settled = settle(whole, shown, enumerate_, fresh=fresh, before=before, valid=known.boxes)
    added = shown_lines(ids, unknown(settled.known, shown))
    now = _known(space, WITNESSED, table.layout, (*known.runs, added), settled.found, known)
    same = not len(added) and now.bound == known.bound and now.same_sets(known)
    return known if same else now
