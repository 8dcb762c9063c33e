"""One unit of work: the rows that a load brings to some blocks of a group, against the index and each other."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dc_engine.detection.codes import take
from dc_engine.detection.consumers import Probe, consumers_of, for_report, ids_of, told
from dc_engine.detection.documents import Effect, Spent, Written
from dc_engine.detection.encode import GONE, UNDO, Slice
from dc_engine.detection.frames import Frame, make_frames
from dc_engine.detection.listing import Origin, Origins, list_rows
from dc_engine.detection.old import Lines, Old, bodies_of, find_old, first_of_groups
from dc_engine.detection.partners import Partners
from dc_engine.detection.plan import Group
from dc_engine.detection.probe import Blocks, Counted, Tally
from dc_engine.detection.runs import HASH, ROW_IDS, ROWS, write_run
from dc_engine.detection.screen import can_screen
from dc_engine.detection.work import Work, tell
from dc_engine.errors import StateError


def probe_unit(work: Work, group: Group, part: Slice | None, roles: Mapping[str, pa.Table]) -> Iterator[pa.RecordBatch]:
    """One unit: what its new rows violate, what its deleted rows no longer do, and the entries for the indexes.

    It has whole blocks, or a part of one.
    """
    if not group.indexes:
        yield from _probe_single_rows(work, group, roles)
        return
    consumers = consumers_of(work, group)
    undone, done = _Rows.of(group, roles, UNDO), _Rows.of(group, roles)
    looks_back = any(one.looks_back for one in consumers)
    frames: list[_Signed] = []
    clock = _Clock()
    if any(one.num_rows for one in undone.both):
        probe = _prepare(work, group, part, undone, None)
        clock.lap("look_up")
        for one in consumers:
            yield from one.undone(probe)
        clock.lap("count")
        frames += _signed(probe)
        del probe  # the old entries, whose values may be long, are not needed any more
    if any(one.num_rows for one in (*done.both, *(undone.new if looks_back else ()))):
        probe = _prepare(work, group, part, done, undone)
        clock.lap("look_up")
        for one in consumers:
            yield from one.found(probe)
        clock.lap("count")
        frames += _signed(probe)
        del probe
    yield from _new_entries(work, group, frames)
    clock.lap("write")
    yield tell(Spent(**clock.seconds))


class _Clock:
    """Seconds by what they were spent on."""

    def __init__(self) -> None:
        self.seconds = {"look_up": 0.0, "count": 0.0, "write": 0.0}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[name] += now - self._last
        self._last = now


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows that come and rows that go, for each side of a group."""

    new: list[pa.Table]
    gone: list[pa.Table]

    @staticmethod
    def of(group: Group, roles: Mapping[str, pa.Table], phase: str = "") -> _Rows:
        nothing = next(iter(roles.values())).slice(0, 0)
        sides = ("t", "s") if group.two_sided else ("both",)
        return _Rows(*([roles.get(f"{phase}{sign}{side}", nothing) for side in sides] for sign in ("", GONE)))

    @property
    def both(self) -> list[pa.Table]:
        return [*self.new, *self.gone]


def _prepare(work: Work, group: Group, part: Slice | None, rows: _Rows, earlier: _Rows | None) -> Probe:
    """The changed rows of a unit and what the indexes hold for them, as frames with codes in common orders.

    ``earlier`` are rows that came and went before these, which the indexes do not know yet.
    """
    new, gone = rows.new, rows.gone
    asking = [pa.concat_tables(pair) for pair in zip(new, gone, strict=True)]
    if earlier is not None and any(one.looks_back for one in consumers_of(work, group)):
        asking = [pa.concat_tables(pair) for pair in zip(asking, earlier.new, strict=True)]
    taken = (
        [[one] for one in gone] if earlier is None else [list(pair) for pair in zip(gone, earlier.gone, strict=True)]
    )
    added = [[] for _ in new] if earlier is None else [[one] for one in earlier.new]
    # a changed t asks for the old rows that are s in its block, and the other way round
    old = [
        find_old(work, group, index, part, asks, Lines.of(adds, takes))
        for index, asks, adds, takes in zip(group.indexes, reversed(asking), added, taken, strict=True)
    ]
    if part is not None:
        new, gone = ([_concerned(work, group, part, one, old[0])] for one in (new[0], gone[0]))
    tables = [(rows, np.ones(rows.num_rows, np.int64)) for rows in (*new, *gone)]
    tables += [(one.table, one.weights) for one in old]
    frames = make_frames(tables, group.columns, group.classes)
    new_t, new_s, gone_t, gone_s, old_t, old_s = frames if group.two_sided else (one for one in frames for _ in "ts")
    for frame in (old_t, old_s):
        _check_weights(work, group, frame)
    came, went = (Blocks.of(one, (old_t, old_s), group, part) for one in ((new_t, new_s), (gone_t, gone_s)))
    origins = Origins(
        _new_origin(new_t),
        _new_origin(new_s),
        _old_origin(old_t, old[0]),
        _old_origin(old_s, old[-1]),
        _new_origin(came.near_t),
        _new_origin(came.near_s),
    )
    return Probe(came, went, origins)


def _concerned(work: Work, group: Group, part: Slice, rows: pa.Table, old: Old) -> pa.Table:
    """The changed rows that lie in a part of their block, or may violate with something that does."""
    own, bodies = part.has_new(group, rows), bodies_of(work, group, group.indexes[0])
    if own.all() or not can_screen(bodies, group.classes):
        return rows
    beside = pa.concat_tables(one.select(group.columns) for one in (rows.filter(pa.array(own)), old.table))
    own[~own] = Partners(beside, bodies, group.classes).among(rows.filter(pa.array(~own)))
    return rows.filter(pa.array(own))


_Signed = tuple[Frame, Frame, int]
"""Rows as t and as s that come to the indexes (1), or go from them (-1)."""


def _signed(probe: Probe) -> list[_Signed]:
    return [(blocks.near_t, blocks.near_s, sign) for blocks, sign in ((probe.new, 1), (probe.gone, -1))]


def _new_entries(work: Work, group: Group, frames: Sequence[_Signed]) -> Iterator[pa.RecordBatch]:
    """Write what a change adds to the indexes, one run each."""
    for index in work.writes(group) if frames else []:
        added = pa.concat_tables(
            _entries(t if index == group.t_index else s, group.columns, sign) for t, s, sign in frames
        )
        for file in write_run(work.storage, index, work.runs_of, added):
            yield tell(Written(file))


def _check_weights(work: Work, group: Group, frame: Frame) -> None:
    """Raise if an index holds fewer rows of a projection than are taken away: it is damaged."""
    if (frame.weights < 0).any():
        raise StateError(
            f"The index on {', '.join(group.columns)} in the state {work.storage.uri} lacks rows to be deleted.",
            hint="Run maintain.py verify, then rebuild the state.",
        )


_EFFECTS = {"": Effect.NEW, GONE: Effect.REMOVED, UNDO: Effect.BACK, UNDO + GONE: Effect.AWAY}


def _probe_single_rows(work: Work, group: Group, roles: Mapping[str, pa.Table]) -> Iterator[pa.RecordBatch]:
    """Rows that violate a constraint alone: no index is asked."""
    tables = {_EFFECTS[role.removesuffix("both")]: rows for role, rows in roles.items()}
    weighted = [(rows, np.ones(rows.num_rows, np.int64)) for rows in tables.values()]
    frames = make_frames(weighted, group.columns, group.classes)
    for constraint in group.constraints:
        for effect, frame in zip(tables, frames, strict=True):
            violating = np.zeros(frame.size, np.int64)
            for body in constraint.bodies:
                violating |= frame.allows(body, "t")
            found = int(np.dot(violating, frame.weights))
            counted = Counted(Tally(violating, np.zeros_like(violating)), None, found, 0)
            yield from told(constraint, counted, effect)
            if effect is Effect.NEW and found:
                blocks = Blocks(frame, frame, frame, frame, frame, frame)
                chosen = np.flatnonzero(violating)
                listing = list_rows(_new_origin(frame), group.columns, chosen, work.most_found(constraint))
                yield from for_report(work, constraint, counted, blocks, listing)


def _new_origin(frame: Frame) -> Origin:
    ids = ids_of(frame)

    def row_ids(chosen: np.ndarray) -> pa.ListArray:
        members, sizes = frame.members_of(chosen)
        return first_of_groups(ids[members], sizes)

    return Origin(frame, row_ids, new=True)


def _old_origin(frame: Frame, old: Old) -> Origin:
    def row_ids(chosen: np.ndarray) -> pa.ListArray:
        members, sizes = frame.members_of(chosen)
        return old.row_ids(members, np.repeat(np.arange(len(chosen)), sizes), len(chosen))

    return Origin(frame, row_ids, new=False)


def _entries(frame: Frame, columns: Sequence[str], sign: int) -> pa.Table:
    """The projections of new rows (or, with the sign -1, of deleted ones) as entries of an index."""
    order = np.argsort(frame.first)  # if all rows differ they are taken in place, without a copy
    chosen = frame.table if frame.size == frame.table.num_rows else take(frame.table, frame.first[order])
    facts = {HASH: chosen.column(HASH)} | {name: chosen.column(name) for name in columns}
    facts[ROWS] = pa.array(sign * frame.weights[order])
    ids = pa.array(ids_of(frame)[frame.members])
    facts[ROW_IDS] = pa.ListArray.from_arrays(pa.array(frame.starts, pa.int32()), ids).take(pa.array(order))
    return pa.table(facts)
