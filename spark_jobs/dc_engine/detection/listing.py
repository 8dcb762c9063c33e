"""Which violations to list, factorised: pairs of projections, with how many rows and which rows carry them.

Counts are exact at any size; what is listed is bounded. The projections with the most violating pairs come first, and
each gets a fair share of the space.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dc_engine.detection.bodies import BodyPlan
from dc_engine.detection.codes import take, whole
from dc_engine.detection.counting import find_partners
from dc_engine.detection.frames import Frame, holds, matches_of
from dc_engine.detection.plan import ConstraintPlan
from dc_engine.detection.probe import Counted, Tally
from dc_engine.detection.rows import ROW_ID
from dc_engine.verdict import MASKED

_FRAME_BITS = 40
"""Where the number of a frame stands, above those of its projections."""

RowIds = Callable[[np.ndarray], pa.ListArray]
"""The first ids of the rows of some projections of a frame."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where to find the row ids of a frame's projections."""

    frame: Frame
    row_ids: RowIds
    new: bool


@dataclass(frozen=True, slots=True)
class Origins:
    """The origins of the frames of a probe."""

    new_t: Origin
    new_s: Origin
    old_t: Origin
    old_s: Origin
    near_t: Origin
    near_s: Origin


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Pairs of projections that violate a body, oriented so that it holds for (t, s)."""

    t: Origin
    s: Origin
    t_chosen: np.ndarray
    s_chosen: np.ndarray
    violations: np.ndarray

    @property
    def sides(self) -> tuple[tuple[Origin, np.ndarray], tuple[Origin, np.ndarray]]:
        return (self.t, self.t_chosen), (self.s, self.s_chosen)

    def at(self, chosen: np.ndarray) -> _Pairs:
        """Some of the pairs."""
        return _Pairs(self.t, self.s, self.t_chosen[chosen], self.s_chosen[chosen], self.violations[chosen])


def list_pairs(
    constraint: ConstraintPlan,
    counted: Counted,
    origins: Origins,
    columns: Sequence[str],
    most: int,
) -> pa.Table | None:
    """At most ``most`` violations of a constraint over two rows, most pairs first; ``None`` without any."""
    found = []
    for body in constraint.bodies:
        for partner in (origins.old_s, origins.near_s):
            found.append(_with_new_as_t(body, counted.as_t, origins.new_t, partner, most))
        if not body.symmetric and counted.as_s is not None:
            for partner in (origins.old_t, origins.near_t):
                found.append(_with_new_as_s(body, counted.as_s, origins.new_s, partner, most))
    tables = [_table(one, columns) for one in _best(found, most) if len(one.t_chosen)]
    return merge_listings(tables, most) if tables else None


def _best(found: Sequence[_Pairs], most: int) -> list[_Pairs]:
    """The pairs that ``merge_listings`` will keep, chosen before any of their values, which may be long, is copied."""
    first = {id(side.frame): place for place, one in enumerate(found) for side in (one.t, one.s)}
    ends = [
        np.stack([_ends(side, chosen, first[id(side.frame)]) for side, chosen in one.sides], axis=1) for one in found
    ]
    order = _ranked(np.concatenate([_row_pairs(one) for one in found]), np.concatenate(ends))[:most]
    bounds = np.cumsum([0, *(len(one.t_chosen) for one in found)])
    parts = [np.sort(order[(order >= low) & (order < high)]) - low for low, high in pairwise(bounds)]
    return [one.at(part) for one, part in zip(found, parts, strict=True)]


def _ends(origin: Origin, chosen: np.ndarray, frame: int) -> np.ndarray:
    """A number for each projection: that of its first row when it is new, else one that no row and no other one has."""
    return _first_ids(origin, chosen) if origin.new else -1 - (chosen + (frame << _FRAME_BITS))


def list_rows(frame: Origin, columns: Sequence[str], violating: np.ndarray, most: int) -> pa.Table:
    """At most ``most`` projections that violate a constraint over one row, those of the most rows first."""
    chosen = violating[np.argsort(-frame.frame.weights[violating], kind="stable")][:most]
    weights = frame.frame.weights[chosen]
    return _assemble(frame, None, chosen, chosen, weights, np.ones(len(chosen), np.int64), columns)


def _with_new_as_t(body: BodyPlan, tally: Tally, t: Origin, s: Origin, most: int) -> _Pairs:
    """Pairs whose t is new. Those that hold both ways round are left to the other role, as they are in counting."""
    t_chosen, s_chosen = _search(body, t.frame, s.frame, _worst(tally.of(s.new), t.frame, most), most)
    if not body.symmetric:
        kept = ~holds(body.swapped, t.frame, s.frame, t_chosen, s_chosen)
    elif s.new:
        kept = _two_rows(t, s, t_chosen, s_chosen)
    else:
        return _Pairs(t, s, t_chosen, s_chosen, tally.total[t_chosen])
    return _Pairs(t, s, t_chosen[kept], s_chosen[kept], tally.total[t_chosen[kept]])


def _with_new_as_s(body: BodyPlan, tally: Tally, s: Origin, t: Origin, most: int) -> _Pairs:
    """Pairs whose s is new; of pairs of new rows only those that hold both ways round, the others have a new t."""
    worst = _worst(tally.of(t.new), s.frame, most)
    s_chosen, t_chosen = _search(body.swapped, s.frame, t.frame, worst, most)
    if t.new:
        both = holds(body, s.frame, t.frame, s_chosen, t_chosen)
        kept = both & _two_rows(t, s, t_chosen, s_chosen)
        s_chosen, t_chosen = s_chosen[kept], t_chosen[kept]
    return _Pairs(t, s, t_chosen, s_chosen, tally.total[s_chosen])


def _two_rows(t: Origin, s: Origin, t_chosen: np.ndarray, s_chosen: np.ndarray) -> np.ndarray:
    """Of pairs of new projections, those that are not one row with itself."""
    return (_first_ids(t, t_chosen) != _first_ids(s, s_chosen)) | (t.frame.weights[t_chosen] > 1)


def _worst(tally: np.ndarray, frame: Frame, most: int) -> np.ndarray:
    """The projections with the most violating pairs first."""
    pairs = tally * frame.weights
    return np.argsort(-pairs, kind="stable")[: min(most, int(np.count_nonzero(pairs > 0)))]


def _search(
    body: BodyPlan, asking: Frame, answering: Frame, worst: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray]:
    worst = worst[asking.allows(body, "t")[worst]]
    entries = np.flatnonzero(answering.allows(body, "s"))
    if not len(worst) or not len(entries) or not most:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    share = -(-2 * most // len(worst))
    matches = matches_of(body, asking, answering, np.arange(asking.size), entries)
    asked, found = find_partners(matches, answering.weights[entries], worst, min(share, len(entries)))
    return asked, entries[found]


def _first_ids(origin: Origin, chosen: np.ndarray) -> np.ndarray:
    """The ids of the first rows of some new projections."""
    return whole(origin.frame.table.column(ROW_ID)).to_numpy()[origin.frame.first[chosen]]


def _table(found: _Pairs, columns: Sequence[str]) -> pa.Table:
    return _assemble(found.t, found.s, found.t_chosen, found.s_chosen, _row_pairs(found), found.violations, columns)


def _row_pairs(found: _Pairs) -> np.ndarray:
    """How many pairs of rows each pair of projections stands for."""
    t_rows, s_rows = found.t.frame.weights[found.t_chosen], found.s.frame.weights[found.s_chosen]
    pairs = t_rows * s_rows
    if found.t.new and found.s.new:
        same = _first_ids(found.t, found.t_chosen) == _first_ids(found.s, found.s_chosen)
        pairs = np.where(same, t_rows * (t_rows - 1) // 2, pairs)
    return pairs


def _assemble(
    t: Origin,
    s: Origin | None,
    t_chosen: np.ndarray,
    s_chosen: np.ndarray,
    pairs: np.ndarray,
    violations: np.ndarray,
    columns: Sequence[str],
) -> pa.Table:
    facts = {"pairs": pa.array(pairs, pa.int64()), "violations": pa.array(violations, pa.int64())}
    for name, origin, chosen in (("t", t, t_chosen), ("s", s, s_chosen)):
        if origin is None:
            continue
        facts[name] = _values(take(origin.frame.table.select(columns), origin.frame.first[chosen]))
        facts[f"{name}_rows"] = pa.array(origin.frame.weights[chosen], pa.int64())
        facts[f"{name}_new"] = pa.array(np.full(len(chosen), origin.new))
        distinct, back = np.unique(chosen, return_inverse=True)
        facts[f"{name}_row_ids"] = origin.row_ids(distinct).take(pa.array(back))
    return pa.table(facts)


def _values(table: pa.Table) -> pa.Array:
    """The columns of a table as one column of structs."""
    arrays = [whole(column) for column in table.columns]
    return pa.StructArray.from_arrays(arrays, fields=[field.with_nullable(True) for field in table.schema])


def merge_listings(listings: Sequence[pa.Table], most: int) -> pa.Table:
    """Several listings as one, within the same bound: those with the most pairs, each pair of projections once.

    Two new projections that violate a body both ways round are found from both ends.
    """
    listing = pa.concat_tables(listings)
    sides = [side for side in ("t", "s") if side in listing.column_names]
    ends = np.stack([_first_listed(listing, side) for side in sides], axis=1)
    return take(listing, _ranked(listing.column("pairs").to_numpy(), ends)[:most])


def _ranked(pairs: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The places of the most pairs first, those with the same ends (in either order) once."""
    order = np.argsort(-pairs, kind="stable")
    return order[first_places(np.sort(ends[order], axis=1))]


def first_places(rows: np.ndarray) -> np.ndarray:
    """Where each of some rows of numbers occurs for the first time, in order."""
    alike = np.lexsort(rows.T)
    is_first = np.ones(len(rows), bool)
    is_first[1:] = (rows[alike[1:]] != rows[alike[:-1]]).any(axis=1)
    return np.sort(alike[is_first])


def _first_listed(listing: pa.Table, side: str) -> np.ndarray:
    return pc.list_element(whole(listing.column(f"{side}_row_ids")), 0).to_numpy()


def masked(listing: pa.Table, mask: Sequence[str]) -> pa.Table:
    """The same listing with the values of some columns hidden."""
    hidden = {name.lower() for name in mask}
    for side in ("t", "s"):
        if side not in listing.column_names:
            continue
        values = whole(listing.column(side))
        names = [field.name for field in values.type]
        if not hidden & {name.lower() for name in names}:
            continue
        arrays = [pa.array([MASKED] * len(values)) if name.lower() in hidden else values.field(name) for name in names]
        place = listing.column_names.index(side)
        listing = listing.set_column(place, side, pa.StructArray.from_arrays(arrays, names=names))
    return listing
