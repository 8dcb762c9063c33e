"""Pairs of rows that come closest to breaking a dependency, from the patterns that a state keeps.

A pair breaks a dependency when it satisfies all comparisons of its formula. Closest come those that satisfy all but
one; where errors are allowed, those that break it. What is kept proves that no dependency says more than it has to, so
mostly there are such pairs among it. Reads are bounded, whatever the size of the state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from typing import Any

import numpy as np

from dc_engine.constraints.model import Column, Predicate
from dc_engine.constraints.printer import print_predicate
from dc_engine.detection.codes import whole
from dc_engine.detection.dead import is_alive, read_dead
from dc_engine.detection.rows import ROW_ID, find_rows
from dc_engine.detection.shown import json_rows
from dc_engine.discovery.afar import narrow_table
from dc_engine.discovery.boxes import Box, mirrored, said
from dc_engine.discovery.files import is_run_of, some_patterns
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.space import Space
from dc_engine.discovery.store import Store
from dc_engine.discovery.terms import Outcome, op_of
from dc_engine.errors import counted
from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.storage import Storage

PAIRS = 2
MOST_LINES = 500_000
"""So many lines of patterns are looked at."""
MOST_DEAD = 32 * 2**20
"""Of rows that are gone so many bytes are read: with more, nobody can say here which rows are there."""
_TRIED = 8
"""So many pairs are looked up until enough of them are found: the rows of others went with their files."""
_BREAKS = -1


@dataclass(frozen=True, slots=True)
class Side:
    """A row by its id, with the values that the dependency reads of it, as JSON can carry them."""

    row_id: int
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Near:
    """Two rows, t and s as the formula has them."""

    sides: Mapping[str, Side]
    lacks: str
    """The comparison that they do not satisfy; empty where they break the dependency."""


@dataclass(frozen=True, slots=True)
class Nearest:
    """What was found, and why it is no more."""

    pairs: Sequence[Near]
    why: str = ""
    """Why there are none; empty if there are some."""


def nearest(storage: Storage, facts: Mapping[str, Any], files: Sequence[DataFile], box: Box) -> Nearest:
    """Up to two pairs of rows that are in the table; ``facts`` and ``files`` are of a snapshot."""
    space, nullable = Space.from_dict(facts["space"]), frozenset(facts["nullable"])
    if len(said(box)) < 2 and not space.max_error:
        return Nearest((), "It has a single comparison, so no pair of rows comes closer than others.")
    if not any(is_run_of(file, space, facts["mode"]) for file in files):
        return Nearest((), "The state keeps no pairs of rows for the dependencies of this table.")
    gone = [file for file in files if file.kind is FileKind.DEAD]
    if sum(file.size for file in gone) > MOST_DEAD:
        return Nearest((), "So many rows were deleted that it cannot be said here which pairs are still there.")
    store, lines = some_patterns(storage, space, nullable, facts["mode"], files, MOST_LINES)
    dead, layout = read_dead(storage, gone), Layout(space.terms(nullable))
    candidates = _candidates(layout, box, store)
    alive = is_alive(store.t[candidates], dead) & is_alive(store.s[candidates], dead)
    rows = _Rows(storage, [file for file in files if file.kind is FileKind.ROWS], space, nullable, box)
    tried = list(islice(_in_turn(layout, box, store.taken(candidates[alive])), _TRIED))
    some = (tried[first : first + PAIRS] for first in range(0, len(tried), PAIRS))
    pairs = list(islice(chain.from_iterable(map(rows.looked_up, some)), PAIRS))
    if pairs:
        return Nearest(pairs)
    part = "" if len(store) >= lines else f"the first {len(store):,} of "
    why = (
        f"Among {part}the {counted(lines, 'pair')} of rows that the state keeps, none that is still there comes close."
    )
    return Nearest((), why)


def _lacking(layout: Layout, box: Box, patterns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How many comparisons of a box, as it is, each pattern does not satisfy; and the place of the last of them."""
    number, place_of = np.zeros(len(patterns), np.int16), np.full(len(patterns), _BREAKS, np.int16)
    for place in said(box):
        outside = layout.outcomes(patterns, place) & box[place] == 0
        number += outside
        place_of[outside] = place
    return number, place_of


def _candidates(layout: Layout, box: Box, store: Store) -> np.ndarray:
    """The lines whose pairs satisfy all but one comparison, or all, taken either way round."""
    fewest = np.minimum(*(_lacking(layout, one, store.patterns)[0] for one in (box, mirrored(layout.terms, box))))
    single = len(said(box)) < 2  # any pair satisfies all but one of these
    return np.flatnonzero(fewest <= (0 if single else 1))


def _in_turn(layout: Layout, box: Box, store: Store) -> Iterator[tuple[int, int]]:
    """Pairs of ids: those that break it, those that lack a difference or an order, those that lack an equality.

    Within these, one for each comparison in turn; first those whose values are equal, last those of NULLs.
    """
    tiers: list[dict[int, list[tuple[int, int]]]] = [{}, {}, {}]
    turned = mirrored(layout.terms, box)
    ways = [(one, *_lacking(layout, one, store.patterns)) for one in (box, turned)]
    better = ways[1][1] < ways[0][1]
    for (one, number, place_of), mine in zip(ways, (~better, better), strict=True):
        for place in np.unique(place_of[mine & (number < 2)]).tolist():
            lines = np.flatnonzero(mine & (number < 2) & (place_of == place))
            tier = 0 if place == _BREAKS else 1 + (one[place] == Outcome.EQUAL)
            if place != _BREAKS:
                outcomes = layout.outcomes(store.patterns[lines], place)
                worse = np.where(outcomes == 0, 2, outcomes != Outcome.EQUAL)
                lines = lines[np.argsort(worse, kind="stable")]
            chosen = lines[:_TRIED]
            pairs = zip(store.t[chosen].tolist(), store.s[chosen].tolist(), strict=True)
            tiers[tier].setdefault(place, []).extend(pairs)
    for groups in tiers:
        yield from filter(None, chain.from_iterable(zip_longest(*groups.values())))


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of the state, and how they compare in a box."""

    storage: Storage
    files: Sequence[DataFile]
    space: Space
    nullable: frozenset[str]
    box: Box

    def looked_up(self, pairs: Sequence[tuple[int, int]]) -> Iterator[Near]:
        """Those pairs whose rows are there, t and s as the formula has them."""
        terms = self.space.terms(self.nullable).terms
        read = {side: [getattr(terms[place], side) for place in said(self.box)] for side in ("left", "right")}
        columns = [name for name in self.space.columns if name in {*read["left"], *read["right"]}]
        rows = find_rows(self.storage, self.files, np.unique(np.array(pairs, np.int64)), columns)
        if rows is None:
            return
        table, (box,) = narrow_table(self.space, self.nullable, columns, [self.box], rows)
        values = json_rows({name: whole(rows.column(name)) for name in columns})
        places = {row_id: place for place, row_id in enumerate(whole(rows.column(ROW_ID)).to_pylist())}
        for pair in pairs:
            if not places.keys() >= set(pair):
                continue
            ways = np.array([places[row_id] for row_id in pair])
            number, place_of = _lacking(table.layout, box, table.patterns(ways, ways[::-1]))
            way = int(number.argmin())
            if number[way] < 2:
                t, s = pair if way == 0 else pair[::-1]
                sides = {
                    name: Side(row_id, {one: values[places[row_id]][one] for one in columns if one in read[side]})
                    for name, row_id, side in (("t", t, "left"), ("s", s, "right"))
                }
                yield Near(sides, _comparison(table.layout, box, int(place_of[way])))


def _comparison(layout: Layout, box: Box, place: int) -> str:
    """A comparison as the formula has it."""
    if place == _BREAKS:
        return ""
    term = layout.terms.terms[place]
    return print_predicate(Predicate(Column("t", term.left), op_of(Outcome(box[place])), Column("s", term.right)))
