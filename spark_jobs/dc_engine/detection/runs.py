"""Index files: sorted runs of entries in Parquet, one per load, index and task.

An entry is one projection: its values, how many rows carry it, and their ids; with a negative number of rows it takes
rows away. The index is the sum of its runs. Entries are ordered by the hash of the key columns in small row groups, so
that a probe opens only the files and row groups that can hold a wanted hash, and first reads only their hashes. Within
a hash they are ordered by a column that rules compare by order, for the screen (``screen.py``).

Without a key, that column alone orders them, and the footer says for each row group from where to where the numbers of
its columns go: a probe reads those that can hold something that violates with a row of the load (``partners.py``).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from dc_engine.detection.codes import ranges, take, whole
from dc_engine.detection.hashing import Bounds, even_ranges
from dc_engine.detection.order import order_numbers, zones_of
from dc_engine.detection.plan import IndexPlan
from dc_engine.sizes import SIZES
from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.packing import Builder
from dc_engine.state.parquet import Reader, store_parquet
from dc_engine.state.parts import made_of_each
from dc_engine.state.storage import Storage

if TYPE_CHECKING:
    from dc_engine.detection.partners import Partners

HASH, ROWS, ROW_IDS = "_dc_hash", "_dc_rows", "_dc_row_ids"


class HasSize(Protocol):
    """Something that takes memory."""

    @property
    def nbytes(self) -> int: ...


Made = TypeVar("Made", bound=HasSize, covariant=True)


class Look(Protocol[Made]):
    """A way to look at entries. Equal ones make the same of the same entries."""

    @property
    def columns(self) -> Sequence[str]:
        """The columns that it needs, beside the hashes."""

    def made(self, entries: pa.Table) -> Sequence[Made]:
        """What it makes of some entries."""

    def __hash__(self) -> int: ...


@dataclass(slots=True)
class Found:
    """The entries of an index that a probe asked for, and where each of them is."""

    entries: pa.Table
    file: np.ndarray
    position: np.ndarray
    readers: dict[int, Reader]

    def row_ids(self, chosen: np.ndarray, most: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The first ids of the rows of some entries, one entry after the other, and how many there are of each.

        ``most`` says how many of each there may be.
        """
        sizes, parts = np.zeros(len(chosen), np.int64), []
        for number in np.unique(self.file[chosen]):
            reader = self.readers[int(number)]
            mine = np.flatnonzero(self.file[chosen] == number)
            position, starts = self.position[chosen[mine]], reader.group_starts
            group_of = np.searchsorted(starts, position, side="right") - 1
            for portion in reader.portions(np.unique(group_of)):
                column = whole(reader.read(portion, [ROW_IDS]).column(0))
                here = (group_of >= portion[0]) & (group_of <= portion[-1])
                before = np.cumsum([0, *np.diff(starts)[portion]])[np.searchsorted(portion, group_of[here])]
                places, entries = mine[here], position[here] - starts[group_of[here]] + before
                offsets = column.offsets.to_numpy()
                sizes[places] = np.minimum(offsets[entries + 1] - offsets[entries], most[places])
                parts.append((places, column.values.to_numpy()[ranges(offsets[entries], sizes[places])]))
        ends, ids = np.cumsum(sizes), np.empty(int(sizes.sum()), np.int64)
        for places, values in parts:
            ids[ranges(ends[places] - sizes[places], sizes[places])] = values
        return ids, sizes

    def at(self, chosen: np.ndarray) -> Found:
        """Some of them."""
        return Found(take(self.entries, chosen), self.file[chosen], self.position[chosen], self.readers)

    def with_row_ids(self) -> pa.Table:
        """The entries with the ids of all of their rows."""
        if not self.entries.num_columns:
            return self.entries
        ids, sizes = self.row_ids(np.arange(len(self.file)), np.abs(whole(self.entries.column(ROWS)).to_numpy()))
        offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32())
        return self.entries.append_column(ROW_IDS, pa.ListArray.from_arrays(offsets, pa.array(ids)))


class Runs:
    """The runs of an index; a file is opened when it is first needed. With ``keep``, what is read stays in memory."""

    def __init__(self, storage: Storage, files: Sequence[DataFile], *, keep: bool = False) -> None:
        self._storage, self._files, self._keep = storage, files, keep
        self._readers: dict[int, Reader] = {}

    @property
    def entries(self) -> int:
        """How many entries there are in all."""
        return sum(file.rows for file in self._files)

    def look_at(self, look: Look[Made], wanted: np.ndarray) -> Iterator[Sequence[Made]]:
        """What a look makes of the entries in row groups that can have a wanted hash, some at a time."""
        size = 0
        for _, reader, candidates in self._candidates(wanted, None):
            for groups in reader.portions(candidates):
                yield self._made(reader, groups, look, wanted)
            size += reader.size
            if size > SIZES.portion:  # what is kept need not be fetched again by ``find``
                reader.forget()

    @staticmethod
    def _made(reader: Reader, groups: np.ndarray, look: Look[Made], wanted: np.ndarray) -> Sequence[Made]:
        """It stays in memory if it is made of consecutive row groups, as for a load that has rows in most blocks."""
        columns = [HASH, *look.columns]
        if reader.keeps and groups[-1] - groups[0] < len(groups):
            return reader.made(groups, columns, look, look.made, lambda made: sum(one.nbytes for one in made))
        entries = reader.read(groups, columns)
        places = rows_of(whole(entries.column(HASH)).to_numpy(), wanted)[1]
        return look.made(entries if len(places) == entries.num_rows else take(entries, places))

    def ranges(self, count: int) -> tuple[Bounds, ...]:
        """Ranges of hashes with about as many entries each, as far as row groups tell."""
        bounds = [(reader.bounds[:, 0], np.diff(reader.group_starts)) for _, reader, _ in self._candidates(None, None)]
        lows, entries = (np.concatenate(parts) for parts in zip(*bounds, strict=True))
        return even_ranges(lows, entries, count)

    def find(
        self, columns: Sequence[str], wanted: np.ndarray | None, within: Bounds | None, *, threads: bool = False
    ) -> Found:
        """The entries whose hash is one of those wanted (sorted), or lies within some bounds."""

        def wanted_rows(reader: Reader, groups: np.ndarray) -> Chosen:
            return _wanted_rows(reader, groups, wanted, within)

        return self._find(columns, self._candidates(wanted, within), wanted_rows, threads=threads)

    def find_partners(self, index: IndexPlan, partners: Partners, within: Bounds) -> Found:
        """The entries within some bounds that may violate with some rows: of most row groups nothing is read."""

        def partners_in(reader: Reader, groups: np.ndarray) -> Chosen:
            return _partners_in(reader, groups, partners, within)

        near = (
            (number, reader, groups[partners.may_be_in(index, reader.zones, len(reader.bounds))[groups]])
            for number, reader, groups in self._candidates(None, within)
        )
        return self._find(index.columns, near, partners_in)

    def _find(
        self,
        columns: Sequence[str],
        candidates: Iterable[tuple[int, Reader, np.ndarray]],
        choose: Callable[[Reader, np.ndarray], Chosen],
        *,
        threads: bool = False,
    ) -> Found:
        """The entries that are chosen in row groups of some files."""

        def hits(candidate: tuple[int, Reader, np.ndarray]) -> list[tuple[pa.Table, np.ndarray, np.ndarray]]:
            return list(_hits(*candidate, [*columns, ROWS], choose))

        found = [hit for some in made_of_each(hits, candidates, threads=threads) for hit in some]
        if not found:
            empty = np.zeros(0, np.int64)
            return Found(pa.table({}), empty, empty, {})
        tables, numbers, positions = zip(*found, strict=True)
        readers = {int(one[0]): self._readers[int(one[0])] for one in numbers}
        return Found(pa.concat_tables(tables), np.concatenate(numbers), np.concatenate(positions), readers)

    def _candidates(self, wanted: np.ndarray | None, within: Bounds | None) -> Iterator[tuple[int, Reader, np.ndarray]]:
        """The files, and their row groups, that can have a wanted hash."""
        for number, file in enumerate(self._files):
            if _may_hold(file, wanted, within):
                reader = self._readers.get(number) or Reader(self._storage, file, keep=self._keep)
                self._readers[number] = reader
                groups, total = _candidates(reader, wanted, within), len(reader.group_starts) - 1
                # what is whole in memory need not be cut again
                if reader.keeps and len(groups) and (total < 2 * len(groups) or reader.holds([HASH])):
                    groups = np.arange(total)
                yield number, reader, groups


def find_entries(
    storage: Storage,
    files: Sequence[DataFile],
    columns: Sequence[str],
    *,
    wanted: np.ndarray | None = None,
    threads: bool = False,
) -> Found:
    """The entries of some runs whose hash is one of those wanted (sorted), or all."""
    return Runs(storage, files).find(columns, wanted, None, threads=threads)


def _hits(
    number: int,
    reader: Reader,
    candidates: np.ndarray,
    columns: Sequence[str],
    choose: Callable[[Reader, np.ndarray], Chosen],
) -> Iterator[tuple[pa.Table, np.ndarray, np.ndarray]]:
    """The chosen entries in some row groups of a file: their columns, the file's number, where they are in it."""
    starts = reader.group_starts
    for portion in reader.portions(candidates):
        groups, chosen = choose(reader, portion)
        if not len(chosen):
            continue
        table = reader.read(groups, columns)
        absolute = np.concatenate([np.arange(starts[group], starts[group + 1]) for group in groups])
        part = take(table, chosen) if len(chosen) < table.num_rows else table
        yield part, np.full(len(chosen), number), absolute[chosen]
    reader.forget()


def _may_hold(file: DataFile, wanted: np.ndarray | None, within: Bounds | None) -> bool:
    """Whether a file can have a wanted hash, as far as the snapshot knows."""
    if file.bounds is None:
        return False
    low, high = file.bounds
    if within is not None:
        return low <= within[1] and high >= within[0]
    return wanted is None or bool(np.searchsorted(wanted, low) < np.searchsorted(wanted, high, side="right"))


def _candidates(reader: Reader, wanted: np.ndarray | None, within: Bounds | None) -> np.ndarray:
    """The row groups that can have a wanted hash."""
    bounds = reader.bounds
    if within is not None:
        return np.flatnonzero((bounds[:, 0] <= within[1]) & (bounds[:, 1] >= within[0]))
    if wanted is not None:
        first = np.searchsorted(wanted, bounds[:, 0], side="left")
        return np.flatnonzero(np.searchsorted(wanted, bounds[:, 1], side="right") > first)
    return np.arange(len(bounds))


Chosen = tuple[np.ndarray, np.ndarray]
"""Row groups, and places in what is read of all of them."""


def _wanted_rows(reader: Reader, candidates: np.ndarray, wanted: np.ndarray | None, within: Bounds | None) -> Chosen:
    """The row groups to read, of some, and which of their rows are wanted."""
    sizes = np.diff(reader.group_starts)[candidates]
    if wanted is None and within is None:
        return candidates, np.arange(int(sizes.sum()))
    hashes = whole(reader.read(candidates, [HASH]).column(0)).to_numpy()  # sorted, and mostly far more than are wanted
    if wanted is None:
        assert within is not None
        hits = np.arange(np.searchsorted(hashes, within[0]), np.searchsorted(hashes, within[1], side="right"))
    else:
        hits = rows_of(hashes, wanted)[1]
    return _without_others(candidates, sizes, hits)


def _partners_in(reader: Reader, candidates: np.ndarray, partners: Partners, within: Bounds) -> Chosen:
    """The row groups to read, of some, and which of their rows may violate with some others."""
    chosen = partners.among(reader.read(candidates, partners.columns, keep=False))
    bounds = reader.bounds[candidates]
    if chosen.any() and not ((bounds[:, 0] >= within[0]) & (bounds[:, 1] <= within[1])).all():
        hashes = whole(reader.read(candidates, [HASH], keep=False).column(0)).to_numpy()
        chosen &= (hashes >= within[0]) & (hashes <= within[1])
    return _without_others(candidates, np.diff(reader.group_starts)[candidates], np.flatnonzero(chosen))


def _without_others(candidates: np.ndarray, sizes: np.ndarray, hits: np.ndarray) -> Chosen:
    """Those of some row groups that have hits, and where these are when the others are not read."""
    if not len(hits):
        return candidates[:0], hits
    starts = np.cumsum([0, *sizes])
    group_of = np.searchsorted(starts, hits, side="right") - 1
    is_kept = np.zeros(len(candidates), bool)
    is_kept[group_of] = True
    left_out = np.cumsum(np.where(is_kept, 0, sizes))  # rows of earlier groups that are not read
    return candidates[is_kept], hits - left_out[group_of]


def rows_of(hashes: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of sorted hashes those that are wanted: for each of them which of the wanted it is, and its place."""
    first = hashes.searchsorted(wanted, side="left")
    sizes = hashes.searchsorted(wanted, side="right") - first
    return np.repeat(np.arange(len(sizes)), sizes), ranges(first, sizes)


def write_run(storage: Storage, index: IndexPlan, load: int, entries: pa.Table) -> list[DataFile]:
    """Write entries as one run of an index, in its order: in one file, or in several when their values are long."""
    if entries.nbytes <= SIZES.unit_bytes:  # taken from one chunk they are placed in a fifth of the time
        entries = entries.combine_chunks()
    hashes = whole(entries.column(HASH)).to_numpy()
    order = _order(index, hashes, entries)
    step = max(1, min(len(order), SIZES.run_bytes * len(order) // max(entries.nbytes, 1)))
    parts = (order[first : first + step] for first in range(0, len(order), step))
    return [_write_file(storage, index, load, entries, hashes, part) for part in parts]


def _order(index: IndexPlan, hashes: np.ndarray, entries: pa.Table) -> np.ndarray:
    """Entries by hash and, if rules compare a column by its order, then by that one, NULLs first."""
    if index.then_by is None or index.ordered:
        return np.argsort(hashes, kind="stable")
    column, family = index.then_by
    values = whole(entries.column(column))
    numbers, _ = order_numbers(values, family)
    if not values.null_count:
        return np.lexsort((numbers, hashes))
    return np.lexsort((numbers, values.is_valid().to_numpy(zero_copy_only=False), hashes))


def _write_file(
    storage: Storage, index: IndexPlan, load: int, entries: pa.Table, hashes: np.ndarray, order: np.ndarray
) -> DataFile:
    # each wanted hash costs a row group, and each row group a part of the footer: neither may be large
    row_group = min(max(len(order) // 64, 512), SIZES.ordered_group if index.ordered else SIZES.run_group)
    zones = partial(zones_of, index.columns, index.families) if index.ordered else None
    builder = Builder(entries.schema, row_group=row_group, delta=[HASH, ROWS, ROW_IDS], scattered=True, zones=zones)
    for first in range(0, len(order), SIZES.row_group):  # long values are never in memory twice
        builder.add(take(entries, order[first : first + SIZES.row_group]))
    path = f"index/{index.id}/{load:08d}-{uuid.uuid4().hex}.parquet"
    bounds = (int(hashes[order[0]]), int(hashes[order[-1]]))
    return store_parquet(
        storage,
        path,
        builder.finish(),
        kind=FileKind.INDEX,
        owner=index.id,
        load=load,
        rows=builder.rows,
        bounds=bounds,
    )
