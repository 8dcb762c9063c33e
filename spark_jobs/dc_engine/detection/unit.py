"""One unit of work: the rows that a load brings to some blocks of a group, against the index and each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa

from dc_engine.detection.codes import combine, take, whole
from dc_engine.detection.encode import GONE, UNDO
from dc_engine.detection.frames import Frame, make_frames
from dc_engine.detection.hashing import range_of
from dc_engine.detection.listing import MOST_ROW_IDS, Origin, Origins, list_pairs, list_rows
from dc_engine.detection.plan import ConstraintPlan, Group, IndexPlan
from dc_engine.detection.probe import Blocks, Counted, Tally, count_pairs, violating_rows
from dc_engine.detection.rows import ROW_ID, is_in
from dc_engine.detection.runs import HASH, ROW_IDS, ROWS, Found, find_entries, write_run
from dc_engine.detection.shown import MOST_OF_NAME, json_rows
from dc_engine.detection.work import Work, send
from dc_engine.errors import StateError

UNDONE = "undone "
"""What stands before the kind of message about an earlier attempt that is undone."""
MOST_NAMED = 5
"""How many rows an error names."""
_ROWS_PER_REPORT = 2**20


def probe_unit(work: Work, group: Group, unit: int, roles: Mapping[str, pa.Table]) -> Iterator[pa.RecordBatch]:
    """One unit: what its new rows violate, what its deleted rows no longer do, and the entries for the indexes."""
    if not group.indexes:
        yield from _probe_single_rows(work, group, roles)
        return
    undone, done = _Rows.of(group, roles, UNDO), _Rows.of(group, roles)
    frames: list[_Signed] = []
    if any(one.num_rows for one in undone.both):
        before = _prepare(work, group, unit, undone, None)
        for constraint in group.constraints:
            yield from _pairs(constraint.number, count_pairs(constraint, before.new), f"{UNDONE}pairs")
            yield from _pairs(constraint.number, count_pairs(constraint, before.gone), f"{UNDONE}removed")
        frames += _signed(before)
        del before
    if any(one.num_rows for one in done.both):
        probe = _prepare(work, group, unit, done, undone)
        if group.identity and work.plan.key:
            yield from _check_keys(group, probe)
        yield from _found(work, group, probe)
        frames += _signed(probe)
        del probe  # the old entries, whose values may be long, are not needed to write the new ones
    if _is_first_share(group, unit):
        yield from _new_entries(work, group, frames)


def _found(work: Work, group: Group, probe: _Probe) -> Iterator[pa.RecordBatch]:
    """What the change itself does to each constraint."""
    row_ids = (_row_ids(probe.new.new_t), _row_ids(probe.new.new_s))
    for constraint in group.constraints:
        counted = count_pairs(constraint, probe.new)
        listing = None
        if work.most_found and (counted.pairs_with_old or counted.pairs_among_new_twice):
            listing = list_pairs(constraint, counted, probe.new, probe.origins, group.columns, work.most_found)
        yield from _facts(work, constraint, counted, violating_rows(counted, probe.new, row_ids), listing)
        yield from _pairs(constraint.number, count_pairs(constraint, probe.gone), "removed")


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


@dataclass(frozen=True, slots=True)
class _Probe:
    """The frames of one unit. ``gone`` has the deleted rows where ``new`` has the inserted ones.

    What both meet is what the index holds without the deleted rows: a load deletes before it inserts.
    """

    new: Blocks
    gone: Blocks
    origins: Origins


def _prepare(work: Work, group: Group, unit: int, rows: _Rows, earlier: _Rows | None) -> _Probe:
    """The changed rows of a unit and what the indexes hold for them, as frames with codes in common orders.

    ``earlier`` are rows that came and went before these, and that the indexes do not know of yet.
    """
    new, gone = rows.new, rows.gone
    asking = [pa.concat_tables(pair) for pair in zip(new, gone, strict=True)]
    taken = (
        [[one] for one in gone] if earlier is None else [list(pair) for pair in zip(gone, earlier.gone, strict=True)]
    )
    added = [[] for _ in new] if earlier is None else [[one] for one in earlier.new]
    # a changed t asks for the old rows that lie as s in its block, and the other way round
    old = [
        _find(work, group, index, unit, asks, _Lines.of(adds, takes))
        for index, asks, adds, takes in zip(group.indexes, reversed(asking), added, taken, strict=True)
    ]
    tables = [(rows, np.ones(rows.num_rows, np.int64)) for rows in (*new, *gone)]
    tables += [(one.table, one.weights) for one in old]
    frames = make_frames(tables, group.columns, group.classes)
    new_t, new_s, gone_t, gone_s, old_t, old_s = frames if group.two_sided else (one for one in frames for _ in "ts")
    for frame in (old_t, old_s):
        _check_weights(work, group, frame)
    first_share = _is_first_share(group, unit)
    origins = Origins(_new_origin(new_t), _new_origin(new_s), _old_origin(old_t, old[0]), _old_origin(old_s, old[-1]))
    return _Probe(
        Blocks(new_t, new_s, old_t, old_s, pairs_new=first_share),
        Blocks(gone_t, gone_s, old_t, old_s, pairs_new=first_share),
        origins,
    )


def _is_first_share(group: Group, unit: int) -> bool:
    """Whether a unit is the one in which pairs of new rows are counted: all units of a group without key have them."""
    return unit == 0 or bool(group.indexes[0].key)


@dataclass(frozen=True, slots=True)
class _Lines:
    """Rows that come to an index (each weighs 1) or go from it (-1) before it is asked."""

    rows: pa.Table
    weights: np.ndarray

    @staticmethod
    def of(added: Sequence[pa.Table], taken: Sequence[pa.Table]) -> _Lines:
        sizes = [sum(one.num_rows for one in tables) for tables in (added, taken)]
        return _Lines(pa.concat_tables([*added, *taken]), np.repeat(np.array([1, -1]), sizes))


@dataclass(frozen=True, slots=True)
class _Old:
    """What an index holds for a unit: entries of its runs, then single rows that come to it or go from it."""

    found: Found
    row_id: np.ndarray
    """The ids of the single rows."""
    table: pa.Table
    weights: np.ndarray

    def row_ids(self, groups: Sequence[np.ndarray]) -> list[list[int]]:
        """The first ids of the rows that are left of some groups of lines of the table; all are looked up at once."""
        stored = len(self.found.file)
        entries = [members[members < stored] for members in groups]
        ids = iter(self.found.row_ids(np.concatenate([*entries, np.zeros(0, np.int64)])))
        return [
            self._left(mine, [next(ids) for _ in mine], members[members >= stored])
            for mine, members in zip(entries, groups, strict=True)
        ]

    def _left(self, entries: np.ndarray, ids: Sequence[np.ndarray], single: np.ndarray) -> list[int]:
        signs = np.sign(self.weights[entries])
        if (signs > 0).all() and not len(single):
            return np.concatenate([one[:MOST_ROW_IDS] for one in ids])[:MOST_ROW_IDS].tolist()
        weights = np.concatenate([np.repeat(signs, [len(one) for one in ids]), self.weights[single]])
        rows = np.concatenate([*ids, self.row_id[single - len(self.found.file)]])
        distinct, place = np.unique(rows, return_inverse=True)
        return distinct[np.bincount(place, weights, len(distinct)) > 0][:MOST_ROW_IDS].tolist()


def _find(work: Work, group: Group, index: IndexPlan, unit: int, asking: pa.Table, lines: _Lines) -> _Old:
    files = work.index_files.get(index.id, ())
    hashes = whole(lines.rows.column(HASH)).to_numpy()
    if index.key:
        wanted = _wanted_hashes(group, asking, keys=bool(work.plan.key))
        found = find_entries(work.storage, files, group.columns, wanted=wanted)
        near = is_in(hashes, wanted)
    else:
        within = range_of(unit, work.spread[group.number].shares)
        found = find_entries(work.storage, files, group.columns, within=within)
        near = (hashes >= within[0]) & (hashes <= within[1])
    mine = lines.rows.filter(pa.array(near)).append_column(ROWS, pa.array(lines.weights[near], pa.int64()))
    entries = found.entries if found.entries.num_columns else mine.slice(0, 0)
    table = pa.concat_tables(one.select([*group.columns, ROWS]) for one in (entries, mine))
    return _Old(found, whole(mine.column(ROW_ID)).to_numpy(), table, whole(table.column(ROWS)).to_numpy())


_Signed = tuple[Frame, Frame, int]
"""Rows as t and as s that come to the indexes (1), or go from them (-1)."""


def _signed(probe: _Probe) -> list[_Signed]:
    return [(blocks.new_t, blocks.new_s, sign) for blocks, sign in ((probe.new, 1), (probe.gone, -1))]


def _new_entries(work: Work, group: Group, frames: Sequence[_Signed]) -> Iterator[pa.RecordBatch]:
    """Write what the indexes get of a change, one run each."""
    for index in work.writes(group) if frames else []:
        added = pa.concat_tables(
            _entries(t if index == group.t_index else s, group.columns, sign) for t, s, sign in frames
        )
        for file in write_run(work.storage, index.id, work.runs_of, added):
            yield send(0, "run", {"file": asdict(file)})


def _check_weights(work: Work, group: Group, frame: Frame) -> None:
    """An index that holds fewer rows of a projection than were taken away is damaged."""
    if (frame.weights < 0).any():
        raise StateError(
            f"The index on {', '.join(group.columns)} in the state {work.storage.uri} lacks rows that are deleted.",
            hint="Run maintain.py verify, then rebuild the state.",
        )


def _check_keys(group: Group, probe: _Probe) -> Iterator[pa.RecordBatch]:
    """Report keys that are inserted twice, or while they are present."""
    new, old = probe.new.new_t, probe.new.old_t
    key = group.indexes[0].key
    both = combine([np.concatenate([new.codes[name], old.codes[name]]) for name in key])
    keys, first, place = np.unique(both[: new.size], return_index=True, return_inverse=True)
    twice = first[np.bincount(place, new.weights, len(keys)) > 1]
    _, new_places, old_places = np.intersect1d(both[: new.size], both[new.size :], return_indices=True)
    if not len(twice) and not len(new_places):
        return
    shown = np.concatenate([twice, new_places])[:MOST_NAMED]
    rows = new.table.take(pa.array(new.first[shown])).select(key)
    names = json_rows({name: whole(rows.column(name)) for name in key}, MOST_OF_NAME)
    owners = [int(ids[0]) for ids in probe.origins.old_t.row_ids(old_places[:MOST_NAMED])]
    facts = {"twice": len(twice), "present": len(new_places), "keys": names, "owners": owners}
    yield send(0, "keys", facts)


def _row_ids(frame: Frame) -> np.ndarray:
    return whole(frame.table.column(ROW_ID)).to_numpy()


def _wanted_hashes(group: Group, rows: pa.Table, *, keys: bool) -> np.ndarray:
    """The hashes of the rows that can take part in a violation at all: rows with NULLs in the way ask for nothing.

    Every row asks whether its key is taken; a row without key only leaves its hash.
    """
    matters = np.full(rows.num_rows, group.identity and keys)
    for constraint in group.constraints:
        for needed in constraint.null_exclusions():
            present = np.ones(rows.num_rows, bool)
            for name in needed:
                if rows.column(name).null_count:
                    present &= rows.column(name).is_valid().to_numpy()
            matters |= present
    return np.unique(rows.column(HASH).to_numpy()[matters])


def _probe_single_rows(work: Work, group: Group, roles: Mapping[str, pa.Table]) -> Iterator[pa.RecordBatch]:
    kinds = {"": "pairs", GONE: "removed", UNDO: f"{UNDONE}pairs", UNDO + GONE: f"{UNDONE}removed"}
    tables = {kinds[role.removesuffix("both")]: rows for role, rows in roles.items()}
    weighted = [(rows, np.ones(rows.num_rows, np.int64)) for rows in tables.values()]
    frames = make_frames(weighted, group.columns, group.classes)
    for constraint in group.constraints:
        for kind, frame in zip(tables, frames, strict=True):
            violating = np.zeros(frame.size, np.int64)
            for body in constraint.bodies:
                violating |= frame.allows(body, "t")
            found = int(np.dot(violating, frame.weights))
            counted = Counted(Tally(violating, np.zeros_like(violating)), None, found, 0)
            if kind != "pairs":
                yield from _pairs(constraint.number, counted, kind)
            elif found:
                blocks = Blocks(frame, frame, frame, frame, pairs_new=False)
                chosen = np.flatnonzero(violating)
                listing = list_rows(_new_origin(frame), group.columns, chosen, work.most_found)
                row_ids = (_row_ids(frame), _row_ids(frame))
                yield from _facts(work, constraint, counted, violating_rows(counted, blocks, row_ids), listing)


def _pairs(constraint: int, counted: Counted, kind: str) -> Iterator[pa.RecordBatch]:
    """How many pairs there are: new ones, or of those that go."""
    pairs = {"with_old": counted.pairs_with_old, "among_new_twice": counted.pairs_among_new_twice}
    if any(pairs.values()):
        yield send(0, kind, pairs, number=constraint)


def _facts(
    work: Work, constraint: ConstraintPlan, counted: Counted, rows: pa.Table, listing: pa.Table | None
) -> Iterator[pa.RecordBatch]:
    """What the report needs; rows go to the report by ranges of their ids, so that no report grows with the load."""
    number = constraint.number
    yield from _pairs(number, counted, "pairs")
    if listing is not None and listing.num_rows:
        yield send(number % work.report_tasks, "listed", listing, number=number)
    if rows.num_rows and work.lists:
        ranges = rows.column("row_id").to_numpy() // _ROWS_PER_REPORT
        for one in np.unique(ranges):
            part = rows.filter(pa.array(ranges == one))
            yield send(int(number + one) % work.report_tasks, "rows", part, number=number)


def _new_origin(frame: Frame) -> Origin:
    ids = _row_ids(frame)

    def row_ids(chosen: np.ndarray) -> list[list[int]]:
        return [ids[frame.members_of(one)[:MOST_ROW_IDS]].tolist() for one in chosen]

    return Origin(frame, row_ids, new=True)


def _old_origin(frame: Frame, old: _Old) -> Origin:
    def row_ids(chosen: np.ndarray) -> list[list[int]]:
        return old.row_ids([frame.members_of(one) for one in chosen])

    return Origin(frame, row_ids, new=False)


def _entries(frame: Frame, columns: Sequence[str], sign: int) -> pa.Table:
    """The projections of new rows (or, with the sign -1, of deleted ones) as entries of an index."""
    order = np.argsort(frame.first)  # where all rows differ they are taken as they lie, without a copy
    chosen = frame.table if frame.size == frame.table.num_rows else take(frame.table, frame.first[order])
    facts = {HASH: chosen.column(HASH)} | {name: chosen.column(name) for name in columns}
    facts[ROWS] = pa.array(sign * frame.weights[order])
    ids = pa.array(_row_ids(frame)[frame.members])
    facts[ROW_IDS] = pa.ListArray.from_arrays(pa.array(frame.starts, pa.int32()), ids).take(pa.array(order))
    return pa.table(facts)
