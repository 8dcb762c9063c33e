"""What rows that come violate in a large table: their partners are looked up in indexes, and the table is not read.

An index has the rows that are there as different values of some columns. Those with the key of a new row are brought
here, and decided is what holds among them. Of a rule that is violated all rows that violate it are fetched, so that
whatever holds instead, which they alone can violate, is known from them; unless they are too many.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dc_engine.detection.codes import whole
from dc_engine.detection.encode import with_hash
from dc_engine.detection.frames import Frame, make_frames
from dc_engine.detection.old import Lines, Old
from dc_engine.detection.rows import ROW_ID, is_in
from dc_engine.detection.runs import find_entries
from dc_engine.discovery.afar import narrow_table
from dc_engine.discovery.boxes import Box, equalities, follow, violated
from dc_engine.discovery.counting import lying_in
from dc_engine.discovery.covers import Cover, need_of
from dc_engine.discovery.keys import Keys
from dc_engine.discovery.newcomers import prover_of
from dc_engine.discovery.space import Space
from dc_engine.discovery.table import Table
from dc_engine.errors import StateError, counted
from dc_engine.sizes import SIZES
from dc_engine.state.files import DataFile
from dc_engine.state.storage import Storage

log = logging.getLogger("airflow_dc_provider.apply_load")

_ALL = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Coming:
    """Rows that come to a table, and others that came to it, or went from it, since its indexes were written."""

    rows: pa.Table
    lines: Lines


class Covered:
    """Decides boxes that are empty among the rows that are there on their pairs with rows that come."""

    def __init__(
        self,
        storage: Storage,
        space: Space,
        nullable: frozenset[str],
        indexes: Mapping[Cover, Sequence[DataFile]],
        coming: Coming,
        sample: pa.Table,
    ) -> None:
        self._storage, self._space, self._nullable = storage, space, nullable
        self._indexes, self._coming = indexes, coming
        self._terms = space.terms(nullable)
        self._usable = self._chosen(sample)
        self._near: dict[Cover, _Near] = {}
        self._exhausted: set[Box] = set()
        """Boxes of which all violating rows were told."""

    def _chosen(self, sample: pa.Table) -> list[Cover]:
        """The indexes in which few entries have to be looked at, those with the fewest first."""
        coming = np.sort(whole(self._coming.rows.column(ROW_ID)).to_numpy())
        others = sample.filter(pa.array(~is_in(whole(sample.column(ROW_ID)).to_numpy(), coming)))
        costs = {one: self._cost(one, files, others) for one, files in self._indexes.items()}
        found, price = list[Cover](), 0.0
        for one in sorted(costs, key=lambda cover: (costs[cover], cover.key, cover.columns)):
            price += costs[one]
            if price <= SIZES.looked_up:
                found.append(one)
            else:
                log.info("the index on %s is not used: too many of its entries are near", ", ".join(one.columns))
        return found

    def _cost(self, cover: Cover, files: Sequence[DataFile], sample: pa.Table) -> float:
        """About how many entries are near."""
        entries = sum(file.rows for file in files)
        if not cover.key or not sample.num_rows:
            return entries
        index = cover.group(self._space.columns).indexes[0]
        wanted = np.unique(with_hash(index, self._coming.rows)[1])
        return float(is_in(with_hash(index, sample)[1], wanted).mean()) * entries

    def decided(self, boxes: Sequence[Box]) -> np.ndarray:
        """Which boxes lie in one of which all violating rows were told."""
        return follow(self._terms, boxes, sorted(self._exhausted))

    def violating(self, boxes: Sequence[Box]) -> tuple[dict[Box, np.ndarray], list[Box]]:
        """For each box that is not empty the ids of rows in it; and the boxes that no index serves."""
        by_cover: dict[Cover, list[Box]] = {}
        others: list[Box] = []
        for box, is_decided in zip(boxes, self.decided(boxes), strict=True):
            need = need_of(self._terms, box)
            cover = next((one for one in self._usable if one.serves(need)), None)
            if cover is not None and not is_decided:
                by_cover.setdefault(cover, []).append(box)
            elif not is_decided:
                others.append(box)
        served = sum(map(len, by_cover.values()))
        log.info("%s looked up in %s", counted(served, "rule"), counted(len(by_cover), "index", "indexes"))
        if others:
            log.info("%s without an index: the table is read for them", counted(len(others), "rule"))
        found: dict[Box, np.ndarray] = {}
        for cover, some in by_cover.items():
            found |= self._violating(cover, some)
        return found, others

    def _violating(self, cover: Cover, boxes: Sequence[Box]) -> dict[Box, np.ndarray]:
        if cover not in self._near:
            self._near[cover] = _looked_up(self._storage, cover, self._space, self._indexes[cover], self._coming)
        near = self._near[cover]
        rows = pa.concat_tables([near.values, self._coming.rows.select(near.values.column_names)])
        new = np.arange(rows.num_rows) >= near.values.num_rows
        table, narrow = narrow_table(self._space, self._nullable, cover.columns, boxes, rows)
        prover = prover_of(table, new)
        asked = prover.open(narrow)
        patterns = prover.look(asked).patterns if asked else np.zeros((0, table.layout.words), np.uint64)
        broken = np.flatnonzero(violated(table.layout, narrow, patterns)).tolist()
        most = SIZES.shown_rows // max(len(broken), 1)
        found: dict[Box, np.ndarray] = {}
        for place in broken:
            old = np.flatnonzero(_lying_with_new(table, narrow[place], new) & ~new)
            if near.frame.weights[old].sum() <= most:
                self._exhausted.add(boxes[place])
                found[boxes[place]] = near.ids(old)
            else:
                found[boxes[place]] = near.first_ids(old[:: -(-len(old) // max(most, 1))])
        return found


def _lying_with_new(table: Table, box: Box, new: np.ndarray) -> np.ndarray:
    """Which rows lie in a box with a new one."""
    own = [place for place in sorted(equalities(box)) if table.layout.terms.terms[place].own]
    near = Keys(table, new).touched([table.left[place] for place in own])
    inside = np.zeros(table.rows, bool)
    inside[near[lying_in(table.taken(near), box)]] = True
    return inside


@dataclass(frozen=True, slots=True)
class _Near:
    """The different values of rows that are there, as an index has them, with the key of a row that comes."""

    old: Old
    frame: Frame
    values: pa.Table

    def ids(self, chosen: np.ndarray) -> np.ndarray:
        """The ids of all rows that have some of these values."""
        members, _ = self.frame.members_of(chosen)
        entries, stored = len(self.old.found.file), members < len(self.old.found.file)
        ids, sizes = self.old.found.row_ids(members[stored], np.full(int(stored.sum()), _ALL))
        ids = np.concatenate([ids, self.old.row_id[members[~stored] - entries]])
        signs = np.sign(self.old.weights[members])
        found, place = np.unique(ids, return_inverse=True)
        times = np.bincount(place, np.concatenate([np.repeat(signs[stored], sizes), signs[~stored]]), len(found))
        return found[times > 0]

    def first_ids(self, chosen: np.ndarray) -> np.ndarray:
        """The id of one row that has each of them."""
        members, sizes = self.frame.members_of(chosen)
        lists = self.old.row_ids(members, np.repeat(np.arange(len(chosen)), sizes), len(chosen))
        return pc.list_element(lists, 0).to_numpy()


def _looked_up(storage: Storage, cover: Cover, space: Space, files: Sequence[DataFile], coming: Coming) -> _Near:
    group, columns = cover.group(space.columns), list(cover.columns)
    index = group.indexes[0]
    wanted = np.unique(with_hash(index, coming.rows)[1]) if cover.key else None
    found = find_entries(storage, files, columns, wanted=wanted, threads=True)
    lines = coming.lines
    if wanted is not None:
        lines = lines.only(is_in(with_hash(index, lines.rows)[1], wanted))
    old = Old.of(found, lines, columns)
    (frame,) = make_frames([(old.table, old.weights)], columns, group.classes)
    if (frame.weights < 0).any():
        raise StateError(
            f"The index on {', '.join(columns)} in the state {storage.uri} lacks rows to be deleted.",
            hint="Run maintain.py verify, then rebuild the state.",
        )
    return _Near(old, frame, old.table.select(columns).take(pa.array(frame.first)))
