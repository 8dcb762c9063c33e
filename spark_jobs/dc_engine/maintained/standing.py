"""The rows of a state, to look up those of a load among them: what is made of them is remembered with their files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from dc_engine.detection.codes import NULL
from dc_engine.detection.dead import read_dead
from dc_engine.discovery.boxes import widest
from dc_engine.discovery.coding import coding_of
from dc_engine.discovery.files import Kept, read_codes
from dc_engine.discovery.known import WITNESSED, Known
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.screening import Ways, breaks_nothing
from dc_engine.discovery.space import Space
from dc_engine.discovery.standing import Standing
from dc_engine.history.change import Change
from dc_engine.maintained.reading import Places, joined_places, parted, values_of
from dc_engine.maintained.stored import set_file
from dc_engine.sizes import SIZES
from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.memory import Shelf
from dc_engine.state.snapshots import Snapshot
from dc_engine.state.storage import Storage


def leaves_all(storage: Storage, base: Snapshot, change: Change, space: Space, known: Known) -> bool:
    """Whether a change certainly leaves everything as it is that is known about dependencies.

    Few rows come, none goes or comes back, and what holds is neither a matter of numbers nor of columns that had no
    NULL.
    """
    undone, rows = change.undone, sum(one.rows for one in change.inserts)
    if undone.inserts or undone.deletes or change.deletes or not 0 < rows <= SIZES.rows_in_cells:
        return False
    if len(change.turned):  # a row that comes back is among the dead of before
        return False
    if known.mode != WITNESSED or space.max_error or space.limits.min_support or base.rows < 2:
        return False
    shelf = storage.shelf([set_file(base)], known.nullable)

    def make() -> tuple[Space, Ways]:
        layout = Layout(space.terms(known.nullable))
        return space, Ways(layout, widest(layout.terms, known.boxes))

    space, ways = shelf.recall("ways", make, lambda one: one[1].nbytes)
    old = _Old(storage, base, space, ways.layout)
    parts, newest = old.parts(change.inserts)
    if newest is None:
        return False
    since = newest.rows - rows
    with_nulls = {name for name, codes in newest.codes().items() if codes[since:].min() == NULL}
    if space.nulls != "equal" and not with_nulls <= known.nullable:
        return False
    return breaks_nothing(ways, parts, newest, since)


@dataclass(frozen=True)
class _Old:
    """The rows of a snapshot, in parts: those whose codes are kept, and later ones."""

    storage: Storage
    base: Snapshot
    space: Space
    layout: Layout

    @cached_property
    def dead(self) -> BitMap64:
        """Ids of rows that do not count."""
        return read_dead(self.storage, self.base.files_of(FileKind.DEAD))

    def parts(self, coming: Sequence[DataFile]) -> tuple[list[Standing], Standing | None]:
        """All rows that count, in parts, and the newest part, whose last rows are those that come.

        Later loads are put ``together`` as they come. So there are never many parts, and a load makes one of them anew,
        of which the next one has need.
        """
        base, storage = self.base, self.storage
        codes = base.files_of(FileKind.CODES)
        known = read_codes(storage, self.space, codes)
        found, others = parted(storage, base, self.dead, known)
        loads = [[*some] for _, some in groupby(others, lambda file: file.load)] + [[*coming]]
        edges = pairwise(together(sum(file.rows for file in load) for load in loads))
        parts = [self._rows_in([file for load in loads[first:last] for file in load]) for first, last in edges]
        if known is not None and found:
            parts.insert(0, self._kept(codes, known, found))
        return [one for one in parts[:-1] if one is not None], parts[-1]

    def _kept(self, files: Sequence[DataFile], known: Kept, found: Mapping[DataFile, Places]) -> Standing:
        """Rows whose codes are in files: all of them, or those of some files of rows."""
        places, coding = joined_places(known, found.values()), known.coding
        whose = () if places is None else tuple(file.path for file in found)
        shelf = self._shelf(files, *whose, dead=places is not None)

        def codes() -> dict[str, np.ndarray]:
            lines = {name: some[0] for name, some in coding.codes.items()}
            if places is None:
                return lines
            some = shelf.recall("codes", lambda: np.stack([one[places] for one in lines.values()]), _nbytes)
            return dict(zip(lines, some, strict=True))

        rows = len(known.ids) if places is None else len(places)
        return Standing(self.space, self.layout, rows, codes, coding.values, shelf)

    def _rows_in(self, files: Sequence[DataFile]) -> Standing | None:
        """The rows of some files that count, coded by themselves."""
        shelf, names = self._shelf(files), [*self.space.columns]

        def make() -> tuple[np.ndarray, dict[str, pa.Array]]:
            columns = values_of(self.storage, files, self.dead, names)
            if columns is None:
                return np.zeros((len(names), 0), np.int32), {}
            coding = coding_of(self.space, [columns])
            lines = np.stack([coding.codes[name][0] for name in names]).astype(np.int32, copy=False)
            return lines, {one.name: coding.values(one.name) for one in self.space.order_classes}

        lines, values = shelf.recall("coding", make, lambda one: sum(map(_nbytes, (one[0], *one[1].values()))))
        codes, rows = dict(zip(names, lines, strict=True)), lines.shape[1]
        return Standing(self.space, self.layout, rows, lambda: codes, values.__getitem__, shelf) if rows else None

    def _shelf(self, files: Sequence[DataFile], *more: str, dead: bool = True) -> Shelf:
        """Where things are kept that are made of rows in some files, perhaps but for those that are dead."""
        without = self.base.files_of(FileKind.DEAD) if dead else []
        return self.storage.shelf([*files, *without], self.space.id, self.layout.terms.nullable, *more)


def _nbytes(some: np.ndarray | pa.Array) -> int:
    return int(some.nbytes)


def together(sizes: Iterable[int]) -> list[int]:
    """Where parts begin and end: one takes in those after it until it is twice as large as what follows.

    So they are few, and one size more makes the last part anew and leaves those before as they are.
    """
    edges, rows = [0], list[int]()
    for end, size in enumerate(sizes, 1):
        edges.append(end)
        rows.append(size)
        while len(rows) > 1 and rows[-2] < 2 * rows[-1]:
            last = rows.pop()
            rows[-1] += last
            del edges[-2]
    return edges
