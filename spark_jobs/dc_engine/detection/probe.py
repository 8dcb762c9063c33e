"""One probe: the rows that a load brings to some blocks, against what the index holds for these blocks and each other.

Pure functions from frames to findings. A row's violations are the rows it violates the constraint with, each counted
once even when the body holds both ways round: partners as t, plus partners as s, minus those that are both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dc_engine.detection.bodies import BodyPlan
from dc_engine.detection.encode import Slice
from dc_engine.detection.frames import Frame, count_partners, holds_with_itself
from dc_engine.detection.plan import ConstraintPlan, Group


@dataclass(frozen=True, slots=True)
class Blocks:
    """The frames of one probe. Where t and s share an index, the two frames of a row are the same object."""

    new_t: Frame
    new_s: Frame
    old_t: Frame
    old_s: Frame
    near_t: Frame
    near_s: Frame
    """The new rows that new rows meet here: all, or those of a slice."""
    met: np.ndarray | bool = True
    """Which projections of new rows these are."""

    @staticmethod
    def of(new: tuple[Frame, Frame], old: tuple[Frame, Frame], group: Group, part: Slice | None) -> Blocks:
        """Those of a slice have one index."""
        if part is None:
            return Blocks(*new, *old, *new)
        met = part.has_new(group, new[0].table)[new[0].first]
        near = new[0] if met.all() else new[0].of(met)
        return Blocks(*new, *old, near, near, met)


@dataclass(frozen=True, slots=True)
class Tally:
    """What one probe found for one constraint: for each new projection, its violations with old and new rows."""

    old: np.ndarray
    new: np.ndarray

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.old + other.old, self.new + other.new)

    def of(self, new: bool) -> np.ndarray:
        """The violations with new, or with old rows."""
        return self.new if new else self.old

    @property
    def total(self) -> np.ndarray:
        """Violations of one row of each projection."""
        return self.old + self.new


@dataclass(frozen=True, slots=True)
class Counted:
    """The tallies of one constraint by the role of the new rows, and how many pairs they make."""

    as_t: Tally
    as_s: Tally | None
    pairs_with_old: int
    pairs_among_new_twice: int


def count_pairs(constraint: ConstraintPlan, blocks: Blocks) -> Counted:
    """Count the violations that the new rows of some blocks bring to a constraint over two rows."""
    as_t = Tally(np.zeros(blocks.new_t.size, np.int64), np.zeros(blocks.new_t.size, np.int64))
    as_s = None
    for body in constraint.bodies:
        as_t += _tally(body, blocks.new_t, blocks.old_s, blocks.near_s, blocks.met)
        if body.symmetric:
            continue
        both = body.both_ways
        if both is not None:
            twice = _tally(both, blocks.new_t, blocks.old_s, blocks.near_s, blocks.met)
            as_t += Tally(-twice.old, -twice.new)
        reverse = _tally(body.swapped, blocks.new_s, blocks.old_t, blocks.near_t, blocks.met)
        as_s = reverse if as_s is None else as_s + reverse
    with_old, among_new = _pairs(as_t, blocks.new_t)
    if as_s is not None:
        more_old, more_new = _pairs(as_s, blocks.new_s)
        with_old, among_new = with_old + more_old, among_new + more_new
    return Counted(as_t, as_s, with_old, among_new)


def _tally(body: BodyPlan, asking: Frame, old: Frame, near: Frame, met: np.ndarray | bool) -> Tally:
    """What new rows find; each of those that are met meets itself."""
    with_new = count_partners(body, asking, near) - (holds_with_itself(body, asking) & met)
    return Tally(count_partners(body, asking, old), with_new)


def _pairs(tally: Tally, frame: Frame) -> tuple[int, int]:
    return _dot(tally.old, frame.weights), _dot(tally.new, frame.weights)


def _dot(counts: np.ndarray, weights: np.ndarray) -> int:
    """The sum of products as a Python integer, which does not overflow."""
    if not len(counts):
        return 0
    if float(counts.max()) * float(weights.sum()) < 2**62:
        return int(np.dot(counts, weights))
    return sum(int(count) * int(weight) for count, weight in zip(counts, weights, strict=True))


def violating_rows(counted: Counted, blocks: Blocks, row_ids: tuple[np.ndarray, np.ndarray]) -> pa.Table:
    """Each violating new row with its number of violations; a row in two roles has two lines, to be added up."""
    sides = [(counted.as_t, blocks.new_t, row_ids[0])]
    if counted.as_s is not None:
        sides.append((counted.as_s, blocks.new_s, row_ids[1]))
    ids, violations = [], []
    for tally, frame, own_ids in sides:
        per_projection = tally.total
        per_member = np.repeat(per_projection, np.diff(frame.starts))
        hit = np.flatnonzero(per_member)
        ids.append(own_ids[frame.members[hit]])
        violations.append(per_member[hit])
    return pa.table({"row_id": np.concatenate(ids), "violations": np.concatenate(violations)})
