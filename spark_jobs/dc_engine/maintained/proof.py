"""A proof that the stored dependencies are those of the rows, without looking for them again.

Each witness is computed again from the values of its rows; the sets are enumerated again from the patterns; and each
dependency is counted by detection's own code, which must find no violation. Counted patterns are counted again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from dc_engine.constraints.naming import order_text, text_of
from dc_engine.discovery.afar import Afar
from dc_engine.discovery.boxes import Box, body_of, canonical
from dc_engine.discovery.counting import violating_pairs
from dc_engine.discovery.covering import Estimates
from dc_engine.discovery.enumerating import Sets, enumerator
from dc_engine.discovery.keeping import found, support_of
from dc_engine.discovery.known import COUNTED, Known
from dc_engine.discovery.large import coded_few, nullable_in
from dc_engine.discovery.removal import rows_to_remove
from dc_engine.discovery.space import Limits, Space
from dc_engine.discovery.store import places_of
from dc_engine.discovery.table import Table
from dc_engine.discovery.terms import Terms
from dc_engine.errors import counted
from dc_engine.maintained.base import Ground
from dc_engine.maintained.reading import coded_rows, wrong_codes
from dc_engine.maintained.resting import resting, rests
from dc_engine.maintained.stored import read_known
from dc_engine.state.snapshots import Snapshot

_NAMED = 5
_NO_LIMIT = 1 << 31


def problems_of(ground: Ground, snapshot: Snapshot, space: Space) -> Iterator[str]:
    """What is wrong with the dependencies of a snapshot."""
    storage = ground.storage
    known = read_known(storage, snapshot)
    if rests(ground.engine, space, known.mode, snapshot.rows):
        yield from _problems_afar(ground, snapshot, space, known)
        return
    rows = coded_rows(storage, snapshot, space, kept=False)
    if wrong := wrong_codes(storage, snapshot, space):
        yield f"The codes of {counted(wrong, 'row')} do not stand for their values."
    if not rows.nullable <= known.nullable:
        yield f"Column {', '.join(sorted(rows.nullable - known.nullable))} has NULLs that no pattern knows of."
        return
    table = rows.table(space, known.nullable)
    patterns = known.store.patterns
    if known.mode == COUNTED:
        yield from _wrong_counts(known, found(space, rows, COUNTED, known.nullable))
    else:
        t, s = (places_of(rows.ids, ids) for ids in (known.store.t, known.store.s))
        alive = (t >= 0) & (s >= 0)
        patterns = patterns[alive]
        yield from _wrong_witnesses(known, table, alive, t, s)
    terms = table.layout.terms
    if space.max_error:
        enumerated = found(_as_far(space, known), rows, known.mode, known.nullable).sets
    else:
        every = enumerator(table.layout, space.classes, known.bound, support=support_of(space, table))
        enumerated = every(patterns).cut(known.bound, "").sets
    yield from _wrong_sets(space, terms, known, enumerated)
    counting = [name for name in reversed(space.classes) if name != "od" or not space.max_error]
    kinds = {canonical(terms, box): name for name in counting for box in known.sets[name]}
    for box, name in sorted(kinds.items()):
        violations, allowed = violating_pairs(table, box), known.violations.get(name, {}).get(box, 0)
        if violations != allowed:
            known_of = f", the state says {allowed:,}" if space.max_error else ""
            yield f"{_called(terms, name, box)} does not hold: {counted(violations, 'violation')}{known_of}."

    for box, stated in known.violations.get("od", {}).items():
        if (gone := len(rows_to_remove(table, box))) != stated:
            yield f"{_called(terms, 'od', box)} holds without {counted(gone, 'row')}, the state says {stated:,}."


def _problems_afar(ground: Ground, snapshot: Snapshot, space: Space, known: Known) -> Iterator[str]:
    """The same for a table whose rows stay where they are: what shows the patterns is read, all else decided there."""
    rows, columns = resting(ground.engine, ground.storage, snapshot), [*space.columns]
    nullable = nullable_in(space, rows.measured(columns))
    if not nullable <= known.nullable:
        yield f"Column {', '.join(sorted(nullable - known.nullable))} has NULLs that no pattern knows of."
        return
    few = coded_few(space, rows.taken(np.unique(np.concatenate([known.store.t, known.store.s])), columns))
    table = few.table(space, known.nullable)
    t, s = (places_of(few.ids, ids) for ids in (known.store.t, known.store.s))
    alive = (t >= 0) & (s >= 0)
    yield from _wrong_witnesses(known, table, alive, t, s)
    layout, terms = table.layout, table.layout.terms
    enumerated = enumerator(layout, space.classes, known.bound)(known.store.patterns[alive]).cut(known.bound, "").sets
    yield from _wrong_sets(space, terms, known, enumerated)
    kinds = {canonical(terms, box): name for name in reversed(space.classes) for box in known.sets[name]}
    some = rows.glimpse(columns)
    estimates = Estimates(coded_few(space, some), some, snapshot.rows)
    for box in sorted(Afar(space, known.nullable, rows, estimates, plainly=True).violating(sorted(kinds))):
        yield f"{_called(terms, kinds[box], box)} does not hold."


def _wrong_sets(space: Space, terms: Terms, known: Known, enumerated: Sets) -> Iterator[str]:
    """Dependencies that the patterns do not leave, and those that they do and that are not there."""
    for name in space.classes:
        stored, followed = (_distinct(terms, sets.get(name, ())) for sets in (known.sets, enumerated))
        for what, some in (("does not follow from the patterns", stored - followed), ("is missing", followed - stored)):
            yield from (f"{_called(terms, name, box)} of class {name} {what}." for box in sorted(some)[:_NAMED])


def _as_far(space: Space, known: Known) -> Space:
    """The same space, looked at as far as is known, however many dependencies there are and long it takes."""
    return replace(space, limits=Limits(known.bound, _NO_LIMIT, math.inf, space.limits.min_support))


def _wrong_witnesses(known: Known, table: Table, alive: np.ndarray, t: np.ndarray, s: np.ndarray) -> Iterator[str]:
    """Witnesses whose rows do not have the pattern that they are said to show."""
    shown = table.layout.canonical(table.patterns(t[alive], s[alive]))
    wrong = np.flatnonzero((shown != known.store.patterns[alive]).any(axis=1))
    for place in wrong[:_NAMED]:
        line = np.flatnonzero(alive)[place]
        yield f"Rows {known.store.t[line]} and {known.store.s[line]} do not show the pattern that is said of them."


def _wrong_counts(known: Known, again: Known) -> Iterator[str]:
    """Patterns whose numbers of pairs are not those of the rows."""
    stored, real = (
        {tuple(map(int, one)): int(pairs) for one, pairs in zip(some.store.patterns, some.store.pairs, strict=True)}
        for some in (known, again)
    )
    wrong = sorted(one for one in stored.keys() | real.keys() if stored.get(one, 0) != real.get(one, 0))
    for one in wrong[:_NAMED]:
        yield f"Pattern {one} has {counted(real.get(one, 0), 'pair')} of rows, the state says {stored.get(one, 0):,}."


def _distinct(terms: Terms, boxes: Sequence[Box]) -> set[Box]:
    return {canonical(terms, box) for box in boxes}


def _called(terms: Terms, kind: str, box: Box) -> str:
    body = body_of(terms, box)
    return f"Dependency {order_text(body) if kind == 'od' else text_of([body])}"
