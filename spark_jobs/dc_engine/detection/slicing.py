"""Blocks that are too large for one probe, cut into slices: a table without blocks, or a key that many rows share.

Where to cut is seen from some of the rows. It decides how evenly work is divided, and never a result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from dc_engine.detection.encode import Slice, columns_of, places_in_block, with_hash
from dc_engine.detection.hashing import Bounds, even_ranges, range_of
from dc_engine.detection.plan import Group
from dc_engine.state.files import DataFile
from dc_engine.state.parquet import Reader, bytes_a_row
from dc_engine.state.storage import Storage

_LOOKED_AT = 8
"""How many row groups show how values are distributed."""
_NOTHING = (1, 0)
_SKEWED = 3
"""A block with one part in so many of a load's rows is cut; smaller ones are work for several tasks as they are."""


@dataclass(frozen=True, slots=True)
class Changed:
    """The rows that come and go with a load."""

    files: tuple[DataFile, ...]
    rows: int
    row_bytes: Mapping[str, float]
    """How many bytes each column takes in a row."""

    @staticmethod
    def of(storage: Storage, files: tuple[DataFile, ...]) -> Changed:
        """The rows of some files."""
        return Changed(files, sum(file.rows for file in files), bytes_a_row(storage, files))

    def seen(
        self, storage: Storage, columns: Sequence[str], *makes: Callable[[pa.Table], np.ndarray]
    ) -> list[np.ndarray]:
        """What is made of some columns of rows that lie far apart. Files of dead rows alone may lack some columns."""
        files = [self.files[one] for one in _spaced(len(self.files), _LOOKED_AT)]
        parts: list[list[np.ndarray]] = [[np.zeros(0, np.int64) for _ in makes]]
        for reader in (Reader(storage, file) for file in files):
            groups = _spaced(len(reader.group_starts) - 1, max(1, _LOOKED_AT // len(files)))
            if {*columns} <= {*reader.schema.names}:
                rows = reader.read(groups, columns)
                parts.append([make(rows) for make in makes])
        return [np.concatenate(part) for part in zip(*parts, strict=True)]


def _spaced(size: int, most: int) -> list[int]:
    """At most so many of some places, in even distances."""
    return sorted({(2 * one + 1) * size // (2 * most) for one in range(most)} if size > most else range(size))


def slices_of(units: float) -> int:
    """Into how many slices a block is cut that has rows for so many units.

    Each of them reads all rows, so there are fewer than units; and an even number, for machines with few cores.
    """
    return 1 if units <= 1 else 2 * math.ceil(math.sqrt(units) / 2)


def table_slices(
    storage: Storage, group: Group, files: Sequence[DataFile], changed: Changed, for_entries: int, for_rows: int
) -> tuple[Slice, ...]:
    """Slices of an index without a key, with about as many entries and new rows each.

    Files are smaller than slices: of what is stored it is enough to know where they begin.
    """
    index, count = group.indexes[0], max(for_entries, for_rows)
    known = [(file.bounds[0], file.rows) for file in files if file.bounds]
    lows, entries = np.array(known, np.int64).reshape(-1, 2).T
    if for_rows > 1 and index.ordered:
        (some,) = changed.seen(storage, group.columns, lambda rows: with_hash(index, rows)[1])
        rows = np.full(len(some), changed.rows / max(len(some), 1))
        lows, entries = np.concatenate([lows, some]), np.concatenate([entries, rows])
    ranges = even_ranges(lows, entries, count) if index.ordered else [range_of(one, count) for one in range(count)]
    small = for_rows == 1
    return tuple(Slice({group.number: one}, None, not number if small else None) for number, one in enumerate(ranges))


def large_blocks(storage: Storage, groups: Sequence[Group], changed: Changed, weight: float) -> Iterator[Slice]:
    """Slices of the blocks that have many of the rows of a load, for more than one unit.

    ``weight`` is what a row is of a unit. Each slice reads all rows of the load, so there must be few.
    """
    if groups[0].two_sided or any(group.identity for group in groups):
        return
    index, in_block = groups[0].indexes[0], [partial(places_in_block, group) for group in groups]
    hashes, *places = changed.seen(storage, columns_of(groups), lambda rows: with_hash(index, rows)[1], *in_block)
    blocks, sizes = np.unique(hashes, return_counts=True)
    units = sizes * (changed.rows / max(len(hashes), 1)) * weight
    for place in np.flatnonzero((units > 1) & (sizes * _SKEWED > len(hashes))):
        own, count = hashes == blocks[place], slices_of(float(units[place]))
        ranges = {group.number: _in_block(some[own], count) for group, some in zip(groups, places, strict=True)}
        for one in range(count):
            yield Slice({number: own[one] for number, own in ranges.items()}, int(blocks[place]))


def _in_block(places: np.ndarray, count: int) -> list[Bounds]:
    found = even_ranges(places, np.ones(len(places)), count)
    return [*found, *[_NOTHING] * (count - len(found))]
