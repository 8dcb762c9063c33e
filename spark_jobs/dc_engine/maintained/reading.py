"""The rows of a state as codes, for discovery: those that are there, and those that come and go with a change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from dc_engine.detection.codes import whole
from dc_engine.detection.dead import read_dead
from dc_engine.detection.rows import ROW_ID, is_in, read_living, read_rows, row_ids
from dc_engine.discovery.coded import Coded
from dc_engine.discovery.coding import Coding, Part, coding_of, united
from dc_engine.discovery.files import Kept, codes_owners, read_codes, write_codes
from dc_engine.discovery.space import Space
from dc_engine.history.change import Change
from dc_engine.maintained.base import Ground
from dc_engine.sizes import SIZES
from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.parquet import Reader
from dc_engine.state.snapshots import Snapshot
from dc_engine.state.storage import Storage

_SELDOM = 16
"""Codes are written again when this part of their number is missing."""


@dataclass(frozen=True, slots=True)
class Flags:
    """Which of some rows are there: before a change, after what it undoes, and after all of it."""

    before: np.ndarray
    between: np.ndarray
    after: np.ndarray


def living_rows(storage: Storage, snapshot: Snapshot, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Some columns of all rows that count, with their ids."""
    dead = read_dead(storage, snapshot.files_of(FileKind.DEAD))
    for file in snapshot.files_of(FileKind.ROWS) if snapshot.rows else ():
        reader = Reader(storage, file)
        yield from read_living(reader, file, dead, columns, range(len(reader.group_starts) - 1))


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows with their ids, as values or as codes."""

    ids: np.ndarray
    part: Part


def coded_rows(storage: Storage, snapshot: Snapshot, space: Space, *, kept: bool = True) -> Coded:
    """All rows that count; ``kept`` says whether to read codes that are in files."""
    return _coded(space, _living(storage, snapshot, space, kept=kept))


def coming_and_going(storage: Storage, base: Snapshot, space: Space, change: Change) -> tuple[Coded, Flags]:
    """All rows that were there before a change or are there after it, in one coding."""
    columns, there = list(space.columns), _living(storage, base, space)
    undone, coming = (
        _values(read_rows(storage, files, columns), columns) for files in (change.undone.inserts, change.inserts)
    )
    rows = _coded(space, [*there, *undone, *coming])
    sizes = [sum(len(one.ids) for one in some) for some in (there, undone, coming)]
    source = np.repeat(np.arange(3, dtype=np.int8), sizes)
    before = source == 0
    between = (before | (source == 1)) & ~is_in(rows.ids, row_ids(storage, change.undone.deletes))
    after = (between | (source == 2)) & ~is_in(rows.ids, row_ids(storage, change.deletes))
    return rows, Flags(before, between, after)


def with_codes(ground: Ground, base: Snapshot, space: Space) -> Snapshot:
    """The snapshot with the codes of most of its rows, if it is large: so few are without that it does not matter."""
    kept = base.files_of(FileKind.CODES)
    mine = [file for file in kept if file.owner in codes_owners(space)]
    covered = next((file for file in mine if file.bounds is not None), None)
    newest = covered.bounds[1] if covered and covered.bounds else -1  # newer rows have larger ids
    missing = sum(file.rows for file in base.files_of(FileKind.ROWS) if _last_id(file) > newest)
    if base.rows and missing >= max(SIZES.coded_rows, covered.rows // _SELDOM if covered else 0):
        mine = _written(
            ground, space, _rows(ground.storage, base, space, BitMap64(), read_codes(ground.storage, space, mine))
        )
    if mine == kept:
        return base
    return replace(base, files=[*(one for one in base.files if one.kind is not FileKind.CODES), *mine])


def _written(ground: Ground, space: Space, rows: Sequence[_Rows]) -> list[DataFile]:
    """The codes of rows, in files."""
    coding, ids = coding_of(space, [one.part for one in rows]), np.concatenate([one.ids for one in rows])
    if (ids[1:] < ids[:-1]).any():
        order = np.argsort(ids)
        coding, ids = coding.chosen(order), ids[order]
    files = write_codes(ground.storage, space, ids, coding)
    ground.drafts.extend(files)
    return files


def _last_id(file: DataFile) -> int:
    if file.first_row_id is not None:
        return file.first_row_id + file.rows - 1
    return file.bounds[1] if file.bounds else -1


def wrong_codes(storage: Storage, snapshot: Snapshot, space: Space) -> int:
    """How many rows have codes that do not stand for their values."""
    kept, plain = (_living(storage, snapshot, space, kept=one) for one in (True, False))
    if not any(isinstance(one.part, Coding) for one in kept):
        return 0
    ids, others = (np.concatenate([one.ids for one in some]) for some in (kept, plain))
    codes = united(space, [*(one.part for one in kept), *(one.part for one in plain)])
    order, other_order = np.argsort(ids), len(ids) + np.argsort(others)
    return int(np.logical_or.reduce([some[order] != some[other_order] for some in codes.values()]).sum())


def _living(storage: Storage, snapshot: Snapshot, space: Space, *, kept: bool = True) -> list[_Rows]:
    """All rows that count."""
    known = read_codes(storage, space, snapshot.files_of(FileKind.CODES)) if kept else None
    return _rows(storage, snapshot, space, read_dead(storage, snapshot.files_of(FileKind.DEAD)), known)


def _rows(storage: Storage, snapshot: Snapshot, space: Space, dead: BitMap64, known: Kept | None) -> list[_Rows]:
    """The rows of all files without those that are dead; first those whose codes are known."""
    columns, gone = list(space.columns), np.array(dead.to_array(), np.int64)
    places: list[np.ndarray] = [np.zeros(0, np.int64)]
    tables: list[pa.Table] = []
    for file in snapshot.files_of(FileKind.ROWS) if snapshot.rows else ():
        found = None if known is None else _places(storage, file, known.ids, gone)
        if found is not None:
            places.append(found)
            continue
        reader = Reader(storage, file)
        if set(columns) <= set(reader.schema.names):  # else all its rows are dead
            tables += read_living(reader, file, dead, columns, range(len(reader.group_starts) - 1))
    others, chosen = _values(tables, columns), np.concatenate(places)
    if known is None or not len(chosen):
        return others
    if np.array_equal(chosen, np.arange(len(known.ids))):
        return [_Rows(known.ids, known.coding), *others]
    return [_Rows(known.ids[chosen], known.coding.chosen(chosen)), *others]


def _places(storage: Storage, file: DataFile, ids: np.ndarray, gone: np.ndarray) -> np.ndarray | None:
    """Where the rows of a file but for those that are gone are among ids; nothing if one is not there."""
    wanted = row_ids(storage, [file]) if file.first_row_id is None else file.first_row_id + np.arange(file.rows)
    first = int(np.searchsorted(ids, wanted[0])) if len(wanted) else 0
    if not np.array_equal(ids[first : first + len(wanted)], wanted):
        places = np.searchsorted(ids, wanted)
        if places[-1] >= len(ids) or (ids[places] != wanted).any():
            return None
    else:
        places = np.arange(first, first + len(wanted))
    return places[~is_in(wanted, gone)] if len(gone) else places


def _values(tables: Iterable[pa.Table], columns: Sequence[str]) -> list[_Rows]:
    """Rows as values; nothing if there are none."""
    some = [table.select([ROW_ID, *columns]) for table in tables if table.num_rows]
    if not some:
        return []
    rows = pa.concat_tables(some)
    return [_Rows(whole(rows.column(ROW_ID)).to_numpy(), {name: rows.column(name) for name in columns})]


def _coded(space: Space, rows: Sequence[_Rows]) -> Coded:
    """Rows from several places, in one coding."""
    if not rows:
        nothing: Mapping[str, np.ndarray] = {name: np.zeros(0, np.int32) for name in space.columns}
        return Coded(np.zeros(0, np.int64), nothing)
    return Coded(np.concatenate([one.ids for one in rows]), united(space, [one.part for one in rows]))
