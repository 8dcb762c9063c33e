"""What an index holds for the changed rows of a unit, as far as some of them can violate with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dc_engine.detection.bodies import BodyPlan
from dc_engine.detection.codes import ranges, whole
from dc_engine.detection.consumers import consumers_of
from dc_engine.detection.encode import Slice
from dc_engine.detection.partners import Partners
from dc_engine.detection.plan import Group, IndexPlan
from dc_engine.detection.rows import ROW_ID, is_in
from dc_engine.detection.runs import HASH, ROWS, Found, Runs
from dc_engine.detection.screen import Questions, Screen, can_screen
from dc_engine.detection.work import Work
from dc_engine.sizes import SIZES


@dataclass(frozen=True, slots=True)
class Lines:
    """Rows that come to an index (each weighs 1) or go from it (-1) before it is asked."""

    rows: pa.Table
    weights: np.ndarray

    @staticmethod
    def of(added: Sequence[pa.Table], taken: Sequence[pa.Table]) -> Lines:
        sizes = [sum(one.num_rows for one in tables) for tables in (added, taken)]
        return Lines(pa.concat_tables([*added, *taken]), np.repeat(np.array([1, -1]), sizes))

    def only(self, chosen: np.ndarray) -> Lines:
        """Those that are marked."""
        return Lines(self.rows.filter(pa.array(chosen)), self.weights[chosen])


@dataclass(frozen=True, slots=True)
class Old:
    """What an index holds for a unit: entries of its runs, then single rows that come to it or go from it."""

    found: Found
    row_id: np.ndarray
    """The ids of the single rows."""
    table: pa.Table
    weights: np.ndarray

    @staticmethod
    def of(found: Found, lines: Lines, columns: Sequence[str]) -> Old:
        """Entries that were found, then lines."""
        mine = lines.rows.append_column(ROWS, pa.array(lines.weights, pa.int64()))
        entries = found.entries if found.entries.num_columns else mine.slice(0, 0)
        table = pa.concat_tables(one.select([*columns, ROWS]) for one in (entries, mine))
        return Old(found, whole(mine.column(ROW_ID)).to_numpy(), table, whole(table.column(ROWS)).to_numpy())

    def row_ids(self, members: np.ndarray, owners: np.ndarray, groups: int) -> pa.ListArray:
        """The first ids of the rows that are left of each of some groups of lines of the table.

        ``members`` are the lines of all groups, ``owners`` says of which group each is.
        """
        stored = members < len(self.found.file)
        signs = np.sign(self.weights[members])
        mixed = np.bincount(owners[~stored | (signs < 0)], minlength=groups) > 0  # of the others the first ids will do
        most = np.where(mixed[owners[stored]], np.iinfo(np.int64).max, SIZES.listed_row_ids)
        ids, sizes = self.found.row_ids(members[stored], most)
        rows = np.concatenate([ids, self.row_id[members[~stored] - len(self.found.file)]])
        owner = np.concatenate([np.repeat(owners[stored], sizes), owners[~stored]])
        weights = np.concatenate([np.repeat(signs[stored], sizes), self.weights[members[~stored]]])
        order = np.lexsort((rows, owner))
        rows, owner, weights = rows[order], owner[order], weights[order]
        first = np.flatnonzero(
            np.concatenate([[True], (rows[1:] != rows[:-1]) | (owner[1:] != owner[:-1])])[: len(rows)]
        )
        left = first[np.add.reduceat(weights, first) > 0] if len(first) else first
        return first_of_groups(rows[left], np.bincount(owner[left], minlength=groups))


def first_of_groups(rows: np.ndarray, sizes: np.ndarray) -> pa.ListArray:
    """Lists of the first ids of groups that follow each other."""
    kept = np.minimum(sizes, SIZES.listed_row_ids)
    chosen = rows[ranges(np.cumsum(sizes) - sizes, kept)]
    return pa.ListArray.from_arrays(pa.array(np.concatenate([[0], np.cumsum(kept)]), pa.int32()), pa.array(chosen))


def find_old(work: Work, group: Group, index: IndexPlan, part: Slice | None, asking: pa.Table, lines: Lines) -> Old:
    """The old entries that some of the rows that ask, in their blocks or a part of one, may violate with."""
    runs = Runs(work.storage, work.index_files.get(index.id, ()), keep=True)
    rows = asking.filter(pa.array(_asks(work, group, asking)))
    bodies = bodies_of(work, group, index)
    if runs.entries < SIZES.screened_entries or not can_screen(bodies, group.classes):
        bodies = []
    if index.key:
        found, near = _in_blocks(runs, group, rows, lines, bodies)
    else:
        assert part is not None
        found, near = _in_table(runs, group, rows, lines, bodies, part)
    if part is not None:
        near &= part.has(group, lines.rows)
        if index.key and found.entries.num_columns:
            found = found.at(np.flatnonzero(part.has(group, found.entries)))
    return Old.of(found, lines.only(near), group.columns)


def _in_blocks(
    runs: Runs, group: Group, rows: pa.Table, lines: Lines, bodies: Sequence[BodyPlan]
) -> tuple[Found, np.ndarray]:
    """The entries in the blocks of some rows, and which lines are in them; without those that a screen clears."""
    hashes, added = (whole(one.column(HASH)).to_numpy() for one in (rows, lines.rows))
    met = runs.entries or len(added)  # a first load meets nothing
    wanted = np.unique(hashes[: None if met else 0])
    if bodies:
        screen = Screen.of(rows, Questions.of(bodies, group.classes, in_blocks=True))
        for stairs in runs.look_at(screen.questions, wanted):
            screen.look_at(stairs)
            if screen.may_violate.all():
                break
        # rows that come before are in no run yet
        wanted = np.unique(hashes[screen.may_violate | is_in(hashes, np.unique(added[lines.weights > 0]))])
    return runs.find(group.columns, wanted, None), is_in(added, wanted)


def _in_table(
    runs: Runs, group: Group, rows: pa.Table, lines: Lines, bodies: Sequence[BodyPlan], part: Slice
) -> tuple[Found, np.ndarray]:
    """The entries in a part of an index without a key, and which lines are like them: that may violate with rows."""
    within = part.within[group.number]
    if not bodies:
        return runs.find(group.columns, None, within), np.ones(lines.rows.num_rows, bool)
    partners = Partners(rows, bodies, group.classes)
    return runs.find_partners(group.indexes[0], partners, within), partners.among(lines.rows)


def _asks(work: Work, group: Group, rows: pa.Table) -> np.ndarray:
    """Which rows some consumer has to see beside what the index holds for them."""
    asking = np.zeros(rows.num_rows, bool)
    for one in consumers_of(work, group):
        asking |= one.asks(rows)
    return asking


def bodies_of(work: Work, group: Group, index: IndexPlan) -> list[BodyPlan]:
    """Of what some body holds wherever a consumer cares, turned so that entries are s; nothing if one always does."""
    found: list[BodyPlan] = []
    for one in consumers_of(work, group):
        if not one.bodies:
            return []
        for body in one.bodies:
            turned = (body.swapped,) if index == group.t_index else (body,)
            found += turned if group.two_sided else (body, body.swapped)
    return list(dict.fromkeys(found))
