"""What a verdict says about dependencies: how many hold, which count, which were lost and what holds instead."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dc_engine.constraints.model import Body, Column, Watching
from dc_engine.constraints.naming import meaning_in
from dc_engine.discovery.approximate import allowed_pairs
from dc_engine.discovery.boxes import Box, body_of, containing, one_way, said
from dc_engine.discovery.coded import Coded
from dc_engine.discovery.counting import some_pairs, violating_pairs
from dc_engine.discovery.known import Known
from dc_engine.discovery.listing import Dependency, Moves, cases, merged, once
from dc_engine.discovery.newcomers import violations_of
from dc_engine.discovery.removal import rows_to_remove
from dc_engine.discovery.space import Space
from dc_engine.discovery.store import places_of
from dc_engine.discovery.table import Table
from dc_engine.maintained.naming import RowNames
from dc_engine.maintained.passage import Passage
from dc_engine.verdict import Dependencies, DependencyVerdict, LostDependency

_SHOWN = 200
"""So many of each list are in a verdict; the state has all of them."""
COUNTED = 20
"""Of so many lost ones the violations are counted, and a pair of rows is shown."""


@dataclass(frozen=True)
class Found:
    """What a change did, for the verdict."""

    facts: Mapping[str, Any]
    moves: Moves
    before: Sequence[Dependency]
    """Those that held without the load, with their ranks then."""
    known: Known
    space: Space
    passage: Passage
    watching: Watching

    @cached_property
    def watched(self) -> Collection[str]:
        """The ids of those that count when they fall: by their ranks before the load."""
        if self.watching.watch not in ("top", "all"):
            return set()
        ranked = merged((one for one in self.before if one.until is None), self.space)
        return {one.id for one in (ranked[: self.watching.top] if self.watching.watch == "top" else ranked)}

    @cached_property
    def lost(self) -> list[Dependency]:
        """Those that were lost, each once, those that count first."""
        return sorted(once(self.moves.lost, self.space), key=lambda one: (one.id not in self.watched, one.rank or 0))

    @property
    def to_count(self) -> list[Box]:
        """The lost ones of which a verdict may say how many pairs violate them."""
        return [one.box for one in self.lost[: COUNTED + len(self.watching.judged)]]

    @cached_property
    def rows(self) -> Coded:
        """Rows that are there after the change: all, or a few that show what is known."""
        return self.passage.there(2)[0]

    @cached_property
    def table(self) -> Table:
        """The same as a table."""
        return self.rows.table(self.space, self.known.nullable)


def judged_dependencies(dependencies: Dependencies, found: Found, names: RowNames) -> Dependencies:
    """The dependencies of a verdict (those that people pinned are there already) with those found in the data."""
    lost_now, watched, watching = found.lost, found.watched, found.watching
    pinned = {meaning_in(one.id) for one in dependencies.invalidated}
    told = [one for one in lost_now[:_SHOWN] if meaning_in(one.id) not in pinned]
    boxes = [one.box for one in told[:COUNTED]]
    violations = dict(zip(told, found.passage.violations(found.known, boxes), strict=False)) if told else {}
    lost = [_lost(one, found, names, violations.get(one)) for one in told]
    instead = {meaning_in(one.id): _instead(found.moves, one) for one in lost_now if meaning_in(one.id) in pinned}
    known = {meaning_in(one.id) for one in dependencies.watched}
    moves = found.moves
    fallen = {one.id for one in (*moves.lost, *moves.faded, *(one for one, _ in moves.generalised))}
    bound = found.known.bound  # of longer ones nothing is known any more
    holding = [one for one in found.before if one.until is None and (bound is None or len(said(one.box)) <= bound)]
    still = [one for one in holding if one.id in watched and one.id not in fallen and meaning_in(one.id) not in known]
    return replace(
        dependencies,
        complete=not found.facts["because"],
        because=found.facts["because"],
        valid=dict(found.facts["valid"]),
        watched=[*dependencies.watched, *(_verdict(one, watching) for one in still[:_SHOWN])],
        invalidated=[
            *(replace(one, instead=instead.get(meaning_in(one.id), [])) for one in dependencies.invalidated),
            *lost,
        ],
        added=[_verdict(one, watching) for one in once(moves.added, found.space)[:_SHOWN]],
        generalised=[
            {"id": one.id, "text": one.text, "by": by.id, "by_text": by.text} for one, by in moves.generalised[:_SHOWN]
        ],
    )


def still_hold(space: Space, table: Table, new: np.ndarray, some: Sequence[Dependency]) -> list[bool]:
    """Whether dependencies that held without the new rows of a table do with them."""
    if not space.max_error:
        boxes = [one.box for one in some]
        return [not number for number in violations_of(table, new, boxes)] if new.any() else [True] * len(some)
    return [
        (len(rows_to_remove(table, one.box)) if one.kind == "od" else violating_pairs(table, one.box))
        <= allowed_pairs(space.max_error, cases(one.kind, table.rows))
        for one in some
    ]


def _verdict(one: Dependency, watching: Watching) -> DependencyVerdict:
    return DependencyVerdict(one.id, one.kind, one.text, one.formula, watching.severity, one.rank, one.error, one.since)


def _lost(one: Dependency, found: Found, names: RowNames, violations: int | None) -> LostDependency:
    rows = found.passage.counts[2]
    broken = found.passage.removed(found.known, one.box) if violations and one.kind == "od" else violations
    return LostDependency(
        **asdict(_verdict(one, found.watching)),
        watched=one.id in found.watched,
        violations=violations,
        error_now=None if broken is None else broken / max(cases(one.kind, rows), 1),
        example=None if violations is None else _example(one.box, found, names),
        instead=_instead(found.moves, one),
    )


def _instead(moves: Moves, one: Dependency) -> list[dict[str, Any]]:
    return [{"id": other.id, "text": other.text} for other in moves.instead.get(one.id, ())[:10]]


def _example(box: Box, found: Found, names: RowNames) -> dict[str, Any] | None:
    """A pair of rows that violates a dependency, t and s as its formula has them."""
    layout, store = found.table.layout, found.known.store
    lines = np.flatnonzero(containing(layout, box, store.patterns))
    t, s = (places_of(found.rows.ids, ids[lines]) for ids in (store.t, store.s))
    alive = np.flatnonzero((t >= 0) & (s >= 0))
    t, s = (t[alive[:1]], s[alive[:1]]) if len(alive) else some_pairs(found.table, box)
    if not len(t):
        return None
    if not one_way(layout, box, found.table.patterns(t, s))[0]:
        t, s = s, t
    sides = {"t": int(found.rows.ids[t[0]]), "s": int(found.rows.ids[s[0]])}
    shown, mentioned = names.look_up(sides.values()), _columns(body_of(layout.terms, box))
    return {
        row: {"row": shown[row_id], "values": names.values_of(row_id, mentioned[row]), "rows": 1}
        for row, row_id in sides.items()
    }


def _columns(body: Body) -> dict[str, list[str]]:
    """The columns of t and of s that a body reads."""
    sides = [side for one in body for side in (one.left, one.right) if isinstance(side, Column)]
    return {row: list(dict.fromkeys(side.name for side in sides if side.row == row)) for row in "ts"}
