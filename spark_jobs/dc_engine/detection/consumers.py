"""What a probe is for: consumers, each of which looks at changed rows and what an index holds for them.

The consumers of a group share one index, one shuffle and one read: today the constraints that read the group's
columns, and the check that keys name one row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dc_engine.detection.bodies import BodyPlan
from dc_engine.detection.codes import combine, whole
from dc_engine.detection.documents import Effect, Pairs, TakenKeys
from dc_engine.detection.frames import Frame
from dc_engine.detection.listing import Origins, list_pairs
from dc_engine.detection.plan import ConstraintPlan, Group
from dc_engine.detection.probe import Blocks, Counted, count_pairs, violating_rows
from dc_engine.detection.rows import ROW_ID
from dc_engine.detection.shown import MOST_OF_NAME, json_rows
from dc_engine.detection.work import Work, send, tell
from dc_engine.sizes import SIZES

LISTING, VIOLATING = "listing", "violating rows"
"""Messages for the report: violations to list, and rows with their numbers of violations."""


@dataclass(frozen=True, slots=True)
class Probe:
    """The frames of one unit. ``gone`` has the deleted rows where ``new`` has the inserted ones.

    What both meet is what the index holds without the deleted rows: a load deletes before it inserts.
    """

    new: Blocks
    gone: Blocks
    origins: Origins


class Consumer(Protocol):
    """Something that looks at the probes of a group."""

    @property
    def looks_back(self) -> bool:
        """Whether it has to see, with the rows of the load, those that came back before."""

    def asks(self, rows: pa.Table) -> np.ndarray:
        """Which changed rows have to see what the index holds for them."""

    @property
    def bodies(self) -> tuple[BodyPlan, ...]:
        """Of what some body must hold between a changed row and an entry for it to care; nothing if it always does."""

    def undone(self, probe: Probe) -> Iterator[pa.RecordBatch]:
        """What it reports about rows that come and go because an earlier attempt of the load is undone."""

    def found(self, probe: Probe) -> Iterator[pa.RecordBatch]:
        """What it reports about the rows of the load."""


def consumers_of(work: Work, group: Group) -> list[Consumer]:
    """Everything that looks at the probes of a group."""
    constraints: list[Consumer] = [CountViolations(work, group, one) for one in group.constraints]
    return [*constraints, CheckKeys(work.plan.key)] if group.identity and work.plan.key else constraints


@dataclass(frozen=True, slots=True)
class CountViolations:
    """Counts the violations of one constraint, and lists some of them."""

    work: Work
    group: Group
    constraint: ConstraintPlan
    looks_back: bool = False

    def asks(self, rows: pa.Table) -> np.ndarray:
        """Those that can take part in a violation at all: rows that a NULL excludes ask for nothing."""
        asking = np.zeros(rows.num_rows, bool)
        for needed in self.constraint.null_exclusions():
            present = np.ones(rows.num_rows, bool)
            for name in needed:
                if rows.column(name).null_count:
                    present &= rows.column(name).is_valid().to_numpy()
            asking |= present
        return asking

    @property
    def bodies(self) -> tuple[BodyPlan, ...]:
        """Those of the constraint."""
        return self.constraint.bodies

    def undone(self, probe: Probe) -> Iterator[pa.RecordBatch]:
        """Only the numbers of pairs."""
        yield from told(self.constraint, count_pairs(self.constraint, probe.new), Effect.BACK)
        yield from told(self.constraint, count_pairs(self.constraint, probe.gone), Effect.AWAY)

    def found(self, probe: Probe) -> Iterator[pa.RecordBatch]:
        """The numbers of pairs, the violating rows, and a list of violations."""
        work, constraint = self.work, self.constraint
        counted = count_pairs(constraint, probe.new)
        listing = None
        most = work.most_found(constraint)
        if most and (counted.pairs_with_old or counted.pairs_among_new_twice):
            listing = list_pairs(constraint, counted, probe.origins, self.group.columns, most)
        yield from told(constraint, counted, Effect.NEW)
        yield from for_report(work, constraint, counted, probe.new, listing)
        yield from told(constraint, count_pairs(constraint, probe.gone), Effect.REMOVED)


def told(constraint: ConstraintPlan, counted: Counted, effect: Effect) -> Iterator[pa.RecordBatch]:
    """How many pairs there are, for the driver."""
    pairs = Pairs(constraint.number, effect, counted.pairs_with_old, counted.pairs_among_new_twice)
    if pairs.with_old or pairs.among_new_twice:
        yield tell(pairs)


def for_report(
    work: Work, constraint: ConstraintPlan, counted: Counted, blocks: Blocks, listing: pa.Table | None
) -> Iterator[pa.RecordBatch]:
    """What the report needs; rows go to it by ranges of their ids, so that no report grows with the load."""
    number = constraint.number
    if listing is not None and listing.num_rows:
        yield send(number % work.report_tasks, LISTING, listing, number=number)
    if not work.lists or constraint.pinned:
        return
    rows = violating_rows(counted, blocks, (ids_of(blocks.new_t), ids_of(blocks.new_s)))
    if rows.num_rows:
        ranges = rows.column("row_id").to_numpy() // SIZES.report_range
        for one in np.unique(ranges):
            part = rows.filter(pa.array(ranges == one))
            yield send(int(number + one) % work.report_tasks, VIOLATING, part, number=number)


def ids_of(frame: Frame) -> np.ndarray:
    """The ids of the rows that a frame was made of."""
    return whole(frame.table.column(ROW_ID)).to_numpy()


@dataclass(frozen=True, slots=True)
class CheckKeys:
    """Reports keys that are inserted twice, or while they are present, or come back twice."""

    key: tuple[str, ...]
    looks_back: bool = True
    bodies: tuple[BodyPlan, ...] = ()

    def asks(self, rows: pa.Table) -> np.ndarray:
        """Every row asks whether its key is taken."""
        return np.ones(rows.num_rows, bool)

    def undone(self, probe: Probe) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Nothing: the load itself may delete what comes back."""
        yield from ()

    def found(self, probe: Probe) -> Iterator[pa.RecordBatch]:
        """The keys, if there are any."""
        new, old = probe.new.new_t, probe.new.old_t
        codes = combine([np.concatenate([new.codes[name], old.codes[name]]) for name in self.key])
        keys, place = np.unique(codes, return_inverse=True)
        new_rows = np.bincount(place[: new.size], new.weights, len(keys))
        old_rows = np.bincount(place[new.size :], old.weights, len(keys))
        twice, present, back = new_rows > 1, (new_rows > 0) & (old_rows > 0), old_rows > 1
        if not (twice | present | back).any():
            return
        chosen = np.flatnonzero(twice | present | back)[: SIZES.named_rows]
        tables = [frame.table.take(pa.array(frame.first)).select(self.key) for frame in (new, old)]
        first = np.unique(place, return_index=True)[1][chosen]
        rows = pa.concat_tables(tables).take(pa.array(first))
        names = json_rows({name: whole(rows.column(name)) for name in self.key}, MOST_OF_NAME)
        holders = np.flatnonzero(np.isin(place[new.size :], chosen))[: SIZES.named_rows]
        owners = pc.list_element(probe.origins.old_t.row_ids(holders), 0).to_pylist()
        yield tell(TakenKeys(int(twice.sum()), int(present.sum()), int(back.sum()), names, owners))
