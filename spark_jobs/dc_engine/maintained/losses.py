"""What a verdict says about dependencies: how many hold, which count, which were lost and what holds instead."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dc_engine.constraints.model import Body, Column, Watching
from dc_engine.discovery.boxes import Box, body_of, containing, one_way, said
from dc_engine.discovery.coded import Coded
from dc_engine.discovery.counting import some_pairs, violating_pairs
from dc_engine.discovery.keeping import Known, Turnover
from dc_engine.discovery.listing import Dependency, Moves, merged_view, once
from dc_engine.discovery.newcomers import violations_of
from dc_engine.discovery.space import Space
from dc_engine.discovery.store import places_of
from dc_engine.discovery.table import Table
from dc_engine.maintained.naming import RowNames
from dc_engine.verdict import Dependencies, DependencyVerdict, LostDependency

_SHOWN = 200
"""So many of each list are in a verdict; the state has all of them."""
_COUNTED = 20
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
    turnover: Turnover

    @cached_property
    def rows(self) -> Coded:
        """The rows that are there after the change."""
        after = self.turnover.after
        return self.turnover.rows if after.all() else self.turnover.rows.chosen(after)

    @cached_property
    def table(self) -> Table:
        """The same as a table."""
        return self.rows.table(self.space, self.known.nullable)

    def violations(self, boxes: Sequence[Box]) -> list[int]:
        """How many pairs of rows violate each of some dependencies that held without the load."""
        if self.space.max_error:
            return [violating_pairs(self.table, box) for box in boxes]
        return violations_of(self.table, ~self.turnover.before[self.turnover.after], boxes)


def judged_dependencies(
    dependencies: Dependencies, watching: Watching, space: Space, found: Found, names: RowNames
) -> Dependencies:
    """The dependencies of a verdict (those that people pinned are there already) with those found in the data."""
    watched = _watched(watching, space, found.before)
    lost_now = sorted(once(found.moves.lost), key=lambda one: (one.id not in watched, one.rank or 0))
    pinned = {one.id: one for one in dependencies.invalidated}
    told = [one for one in lost_now[:_SHOWN] if one.id not in pinned]
    violations = dict(zip(told, found.violations([one.box for one in told[:_COUNTED]]), strict=False)) if told else {}
    lost = [_lost(one, watching, one.id in watched, found, names, violations.get(one)) for one in told]
    instead = {one.id: _instead(found.moves, one) for one in lost_now if one.id in pinned}
    known = {one.id for one in dependencies.watched}
    fallen = {one.id for one in found.moves.lost} | {one.id for one, _ in found.moves.generalised}
    bound = found.known.bound  # of longer ones nothing is known any more
    holding = [one for one in found.before if one.until is None and (bound is None or len(said(one.box)) <= bound)]
    still = [one for one in holding if one.id in watched and one.id not in fallen and one.id not in known]
    return replace(
        dependencies,
        complete=not found.facts["because"],
        because=found.facts["because"],
        valid=dict(found.facts["valid"]),
        watched=[*dependencies.watched, *(_verdict(one, watching) for one in still[:_SHOWN])],
        invalidated=[*(replace(one, instead=instead.get(one.id, [])) for one in dependencies.invalidated), *lost],
        added=[_verdict(one, watching) for one in once(found.moves.added)[:_SHOWN]],
        generalised=[{"id": one.id, "by": by.id} for one, by in found.moves.generalised[:_SHOWN]],
    )


def _watched(watching: Watching, space: Space, before: Sequence[Dependency]) -> Collection[str]:
    """The ids of those that count when they fall: by their ranks before the load."""
    if watching.watch not in ("top", "all"):
        return set()
    ranked = merged_view((one for one in before if one.until is None), space.classes)
    return {one.id for one in (ranked[: watching.top] if watching.watch == "top" else ranked)}


def _verdict(one: Dependency, watching: Watching) -> DependencyVerdict:
    return DependencyVerdict(one.id, one.kind, one.text, one.formula, watching.severity, one.rank, one.error, one.since)


def _lost(
    one: Dependency, watching: Watching, watched: bool, found: Found, names: RowNames, violations: int | None
) -> LostDependency:
    rows = int(found.turnover.after.sum())
    return LostDependency(
        **asdict(_verdict(one, watching)),
        watched=watched,
        violations=violations,
        error_now=None if violations is None else violations / max(rows * (rows - 1) // 2, 1),
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
