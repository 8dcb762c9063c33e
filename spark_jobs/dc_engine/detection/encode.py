"""Encode: a load's rows, cut into chunks for the probes. One chunk is the rows of one group in one bucket.

Chunks travel through Spark's shuffle as Arrow streams in a binary column, so that Spark moves a few hundred large rows
instead of one for each row of the load, whatever the columns and their types.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dc_engine.detection.codes import whole
from dc_engine.detection.frames import make_frames
from dc_engine.detection.hashing import Bounds, bucket_of, combined, lanes_of
from dc_engine.detection.order import TIES, places
from dc_engine.detection.plan import ConstraintPlan, Group, IndexPlan, Plan
from dc_engine.detection.rows import ROW_ID
from dc_engine.detection.runs import HASH
from dc_engine.sizes import SIZES

GONE = "-"
"""The prefix of the role of rows that a load takes away."""
UNDO = "undo "
"""The prefix of the role of rows that come or go when an earlier attempt of the load is undone."""


Lanes = dict[tuple[str, str], np.ndarray]
"""Columns as numbers to be hashed, by name and family: several groups hash the same ones."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of one block that is too large for one probe: rows and entries whose places are within some bounds.

    All changed rows of the block come to each of its slices. They meet what lies in it, and that is what it writes.
    """

    within: Mapping[int, Bounds]
    """For each group whose rows travel together, by number."""
    block: int | None = None
    """The hash of the block; without one, it is the whole table."""
    everything_new: bool | None = None
    """Whether all changed rows lie in it, or none, whatever their places: a small load is not worth several files."""

    def has_new(self, group: Group, rows: pa.Table) -> np.ndarray:
        """Which changed rows of the block lie in it."""
        return self.has(group, rows) if self.everything_new is None else np.full(rows.num_rows, self.everything_new)

    def has(self, group: Group, rows: pa.Table) -> np.ndarray:
        """Which entries of the block lie in it. Those of one projection lie together."""
        low, high = self.within[group.number]
        places = whole(rows.column(HASH)).to_numpy() if self.block is None else places_in_block(group, rows)
        return (places >= low) & (places <= high)


@dataclass(frozen=True, slots=True)
class Spread:
    """How the work of groups whose rows travel together is cut up."""

    buckets: int
    """How many ranges of the hash space rows are divided into: each is a unit. Without a key there are none."""
    slices: tuple[Slice, ...] = ()
    """Parts of large blocks, each a further unit, which reads the rows of the load itself."""

    @property
    def units(self) -> int:
        """How many probes there are."""
        return self.buckets + len(self.slices)

    def slice_of(self, unit: int) -> Slice | None:
        """The part of a block that is a unit; ``None`` for one that has whole blocks."""
        return self.slices[unit - self.buckets] if unit >= self.buckets else None


def together(plan: Plan) -> dict[int, list[Group]]:
    """The groups whose rows travel together, by the number of the first: they have the same blocks."""
    firsts: dict[tuple[object, ...], int] = {}
    found: dict[int, list[Group]] = {}
    for group in plan.groups:
        index = group.t_index
        alike = index is not None and index.key and not group.two_sided
        mark = (index.key, index.families) if index is not None and alike else (group.number,)
        found.setdefault(firsts.setdefault(mark, group.number), []).append(group)
    return found


def columns_of(groups: Sequence[Group]) -> list[str]:
    """All columns that some groups read."""
    return list(dict.fromkeys(name for group in groups for name in group.columns))


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows of a load for one probe, in the role of t, of s, or (where it makes no difference) of both.

    The role of deleted rows has a minus before it. The group is the first of those whose rows travel together.
    """

    group: int
    unit: int
    role: str
    rows: pa.Table


def encode(plan: Plan, spread: Mapping[int, Spread], rows: pa.Table, sign: str = "") -> Iterator[Chunk]:
    """The chunks of some rows; ``rows`` has the plan's columns and their row ids, ``sign`` is ``GONE`` for deletes."""
    lanes: Lanes = {}
    for groups in together(plan).values():
        group = groups[0]
        narrow = rows.select([ROW_ID, *columns_of(groups)])
        if not group.indexes:
            broken = narrow.filter(pa.array(_breaks_alone(group, narrow)))
            if broken.num_rows:
                turn = broken.column(ROW_ID)[0].as_py() // SIZES.turn_rows
                yield Chunk(group.number, turn % spread[group.number].units, f"{sign}both", broken)
        elif not group.indexes[0].key:
            continue  # every slice looks at all rows, and reads them itself
        elif group.two_sided:
            for role, index in (("t", group.t_index), ("s", group.s_index)):
                yield from _cut(group, index, sign + role, narrow, spread[group.number], lanes)
        else:
            yield from _cut(group, group.t_index, f"{sign}both", narrow, spread[group.number], lanes)


def _cut(
    group: Group, index: IndexPlan | None, role: str, rows: pa.Table, spread: Spread, lanes: Lanes
) -> Iterator[Chunk]:
    assert index is not None
    hashed, hashes = with_hash(index, rows, lanes)
    if spread.slices:
        others = ~np.isin(hashes, [one.block for one in spread.slices if one.block is not None])
        hashed, hashes = hashed.filter(pa.array(others)), hashes[others]
    if not hashed.num_rows:
        return
    if spread.buckets == 1:
        yield Chunk(group.number, 0, role, hashed)
    else:
        buckets = bucket_of(hashes, spread.buckets)
        order = np.argsort(buckets, kind="stable")
        present, starts = np.unique(buckets[order], return_index=True)
        placed = hashed.take(pa.array(order))
        for bucket, start, end in zip(present, starts, np.append(starts[1:], len(order)), strict=True):
            yield Chunk(group.number, int(bucket), role, placed.slice(start, end - start))


def with_hash(index: IndexPlan, rows: pa.Table, lanes: Lanes | None = None) -> tuple[pa.Table, np.ndarray]:
    """Rows with the hash under which an index has them, and the hashes; ``lanes`` keeps what other indexes need too.

    In an ordered index it is the place of a value, and only its last bits are those of a hash: equal projections have
    the same, and those that share a value can still be cut into ranges.
    """
    hashes = _hashes(index, rows, {} if lanes is None else lanes)
    return rows.add_column(0, HASH, pa.array(hashes)), hashes


def places_in_block(group: Group, rows: pa.Table) -> np.ndarray:
    """Where rows lie in their block, as if there were an index of it in the order that entries of a hash have."""
    families = {name: one.family for one in group.classes for name in one.columns}
    by = group.indexes[0].then_by
    return _hashes(IndexPlan.on((), tuple(families[name] for name in group.columns), group.columns, by), rows, {})


def _hashes(index: IndexPlan, rows: pa.Table, known: Lanes) -> np.ndarray:
    columns = list(zip(index.hashed, index.families, strict=True))
    for name, family in columns:
        if (name, family) not in known:
            known[name, family] = lanes_of(whole(rows.column(name)), family)
    hashes = combined([known[column] for column in columns], rows.num_rows)
    if index.ordered:
        name, family = index.then_by or ("", "")
        hashes = places(whole(rows.column(name)), family) | (hashes & TIES)
    return hashes


def _breaks_alone(group: Group, rows: pa.Table) -> np.ndarray:
    """Which rows violate at least one of the group's constraints over one row."""
    (frame,) = make_frames([(rows, np.ones(rows.num_rows, np.int64))], group.columns, group.classes)
    broken = np.zeros(frame.size, bool)
    for constraint in group.constraints:
        for body in constraint.bodies:
            broken |= frame.allows(body, "t")
    result = np.zeros(rows.num_rows, bool)
    result[frame.members] = np.repeat(broken, np.diff(frame.starts))
    return result


def skipped_null_rows(constraint: ConstraintPlan, rows: pa.Table) -> int:
    """How many rows cannot take part in any violation of a constraint, because of a NULL."""
    skipped = np.ones(rows.num_rows, bool)
    for needed in constraint.null_exclusions():
        missing = np.zeros(rows.num_rows, bool)
        for name in needed:
            column = rows.column(name)
            if column.null_count:
                missing |= column.is_null().to_numpy()
        skipped &= missing
    return int(skipped.sum())
