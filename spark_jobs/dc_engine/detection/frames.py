"""Frames: projections as arrays of codes, ready to be counted.

A frame is either what a load brings to some blocks (rows, grouped into projections here) or what the index holds of
them (entries of several runs, merged here). Codes of all frames of one probe come from the same orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from dc_engine.constraints.model import ConstantValue
from dc_engine.detection.bodies import BodyPlan, RowFilter
from dc_engine.detection.codes import NULL, codes_of, combine, constant_array, ranges
from dc_engine.detection.counting import COMPARE, Match, partner_weights
from dc_engine.detection.plan import OrderClass


@dataclass(frozen=True, slots=True)
class Frame:
    """Distinct projections with their numbers of rows."""

    table: pa.Table
    """The rows or entries that the projections come from."""
    codes: dict[str, np.ndarray]
    constants: dict[tuple[str, ConstantValue], int]
    weights: np.ndarray
    first: np.ndarray
    """For each projection, a row of ``table`` that has its values."""
    members: np.ndarray
    """The rows of ``table``, projection by projection."""
    starts: np.ndarray
    """Where each projection's members start in ``members``, and the end."""

    @property
    def size(self) -> int:
        """How many projections there are."""
        return len(self.weights)

    def members_of(self, projections: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows of ``table`` that have some projections, one projection after the other, and how many each has."""
        sizes = self.starts[projections + 1] - self.starts[projections]
        return self.members[ranges(self.starts[projections], sizes)], sizes

    def of(self, kept: np.ndarray) -> Frame:
        """Some of its projections."""
        sizes = np.diff(self.starts)
        return replace(
            self,
            codes={name: own[kept] for name, own in self.codes.items()},
            weights=self.weights[kept],
            first=self.first[kept],
            members=self.members[np.repeat(kept, sizes)],
            starts=np.concatenate([[0], np.cumsum(sizes[kept])]),
        )

    def allows(self, body: BodyPlan, row: str) -> np.ndarray:
        """Which projections can be ``t`` (or ``s``) of a body, as far as one row can tell."""
        allowed = np.ones(self.size, bool)
        for column in body.needs_value(row):
            allowed &= self.codes[column] != NULL
        for one in body.t_filters if row == "t" else body.s_filters:
            allowed &= self.passes(one)
        return allowed

    def passes(self, one: RowFilter) -> np.ndarray:
        """Which projections satisfy a predicate over one row (``allows`` handles a NULL that it does not admit)."""
        left = self.codes[one.column]
        if one.other is not None:
            return COMPARE[one.op](left, self.codes[one.other])
        assert one.constant is not None
        return COMPARE[one.op](left, self.constants[one.column, one.constant])


def make_frames(
    tables: Sequence[tuple[pa.Table, np.ndarray]], columns: Sequence[str], classes: Sequence[OrderClass]
) -> list[Frame]:
    """Frames over tables with weights, their codes in common orders."""
    codes: list[dict[str, np.ndarray]] = [{} for _ in tables]
    constants: dict[tuple[str, ConstantValue], int] = {}
    for one in classes:
        arrays = [table.column(column) for table, _ in tables for column in one.columns]
        literals = [constant_array(value, one.family) for value in one.constants]
        coded = codes_of([*arrays, *literals], one.family, ordered=one.ordered)
        for number in range(len(tables)):
            for column in one.columns:
                codes[number][column] = coded.pop(0)
        for value in one.constants:
            code = int(coded.pop(0)[0])
            constants.update({(column, value): code for column in one.columns})
    return [
        _project(table, weights, {column: own[column] for column in columns}, constants)
        for (table, weights), own in zip(tables, codes, strict=True)
    ]


def _project(
    table: pa.Table,
    weights: np.ndarray,
    codes: dict[str, np.ndarray],
    constants: dict[tuple[str, ConstantValue], int],
) -> Frame:
    combined = combine(list(codes.values()), dense=False)
    members = np.argsort(combined, kind="stable")
    ordered = combined[members]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])) if len(members) else members
    first = members[starts]
    totals = np.add.reduceat(weights[members], starts) if len(starts) else np.zeros(0, np.int64)
    ends = np.append(starts, len(members))
    frame = Frame(table, {name: own[first] for name, own in codes.items()}, constants, totals, first, members, ends)
    return frame if totals.all() else frame.of(totals != 0)  # without those whose rows were all taken away again


def count_partners(body: BodyPlan, asking: Frame, answering: Frame) -> np.ndarray:
    """For each projection that asks, as t, how many rows of the other frame, as s, satisfy the body with it."""
    counts = np.zeros(asking.size, np.int64)
    queries = np.flatnonzero(asking.allows(body, "t"))
    entries = np.flatnonzero(answering.allows(body, "s"))
    matches = matches_of(body, asking, answering, queries, entries)
    counts[queries] = partner_weights(matches, answering.weights[entries], len(queries))
    return counts


def matches_of(
    body: BodyPlan, asking: Frame, answering: Frame, queries: np.ndarray, entries: np.ndarray
) -> list[Match]:
    """The comparisons of a body between some projections of two frames."""
    return [
        Match(asking.codes[one.left][queries], one.op, answering.codes[one.right][entries])
        for one in sorted(body.comparisons, key=repr)
    ]


def holds(body: BodyPlan, t: Frame, s: Frame, t_chosen: np.ndarray, s_chosen: np.ndarray) -> np.ndarray:
    """Whether a body holds for given pairs of projections."""
    result = t.allows(body, "t")[t_chosen] & s.allows(body, "s")[s_chosen]
    for one in body.comparisons:
        result &= COMPARE[one.op](t.codes[one.left][t_chosen], s.codes[one.right][s_chosen])
    return result


def holds_with_itself(body: BodyPlan, frame: Frame) -> np.ndarray:
    """Which projections satisfy the body when t and s are the same row."""
    everything = np.arange(frame.size)
    return holds(body, frame, frame, everything, everything)
