"""The rows of a state as codes, for discovery: those that are there, and those that come and go with a change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from dc_engine.detection.dead import is_alive, read_dead
from dc_engine.detection.fetched import Columns
from dc_engine.detection.rows import is_in, row_ids
from dc_engine.discovery.coded import Coded
from dc_engine.discovery.coding import Coding, Part, coding_of, united
from dc_engine.discovery.files import Kept, codes_owners, read_codes, write_codes
from dc_engine.discovery.space import Space
from dc_engine.history.change import Change
from dc_engine.maintained.base import Ground
from dc_engine.maintained.resting import rests
from dc_engine.sizes import SIZES
from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.parquet import Reader
from dc_engine.state.snapshots import Snapshot
from dc_engine.state.storage import Storage

Places = range | np.ndarray
_SELDOM = 16
"""Codes are written again when this part of their number is missing."""


@dataclass(frozen=True, slots=True)
class Flags:
    """Which of some rows are there: before a change, after what it undoes, and after all of it."""

    before: np.ndarray
    between: np.ndarray
    after: np.ndarray

    @staticmethod
    def of(ids: np.ndarray, source: np.ndarray, undone: np.ndarray, deleted: np.ndarray) -> Flags:
        """Those of rows that were there (source 0), come back with what is undone (1), or are new (2)."""
        before = source == 0
        between = (before | (source == 1)) & ~is_in(ids, undone)
        return Flags(before, between, (between | (source == 2)) & ~is_in(ids, deleted))

    def at(self, moment: int) -> np.ndarray:
        """Which are there at one of the three moments."""
        return (self.before, self.between, self.after)[moment]


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows with their ids, as values or as codes."""

    ids: np.ndarray
    part: Part


def living_columns(storage: Storage, snapshot: Snapshot, columns: Sequence[str]) -> Columns:
    """Some columns of all rows that count."""
    dead = read_dead(storage, snapshot.files_of(FileKind.DEAD))
    shares = _shares(storage, snapshot.files_of(FileKind.ROWS) if snapshot.rows else (), dead)
    return _columns(shares, columns) if shares else Columns.of(pa.table({name: pa.nulls(0) for name in columns}))


def coded_rows(storage: Storage, snapshot: Snapshot, space: Space, *, kept: bool = True) -> Coded:
    """All rows that count; ``kept`` says whether to read codes that are in files."""
    return _coded(space, _living(storage, snapshot, space, kept=kept))


def coming_and_going(storage: Storage, base: Snapshot, space: Space, change: Change) -> tuple[Coded, Flags]:
    """All rows that were there before a change or are there after it, in one coding."""
    columns, there = list(space.columns), _living(storage, base, space)
    undone, coming = (_values(storage, files, BitMap64(), columns) for files in (change.undone.inserts, change.inserts))
    rows = _coded(space, [*there, *undone, *coming])
    sizes = [sum(len(one.ids) for one in some) for some in (there, undone, coming)]
    source = np.repeat(np.arange(3, dtype=np.int8), sizes)
    gone = (row_ids(storage, some) for some in (change.undone.deletes, change.deletes))
    return rows, Flags.of(rows.ids, source, *gone)


def with_codes(ground: Ground, base: Snapshot, space: Space, mode: str) -> Snapshot:
    """The snapshot with the codes of most of its rows, if it is long: so few are without that it does not matter.

    If it is so large that its rows stay where they are, nobody needs them.
    """
    kept = base.files_of(FileKind.CODES)
    if rests(ground.engine, space, mode, base.rows, for_loads=True):
        return replace(base, files=[one for one in base.files if one.kind is not FileKind.CODES]) if kept else base
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
    parts = [*(one.part for one in kept), *(one.part for one in plain)]
    codes = united(space, parts, len(ids) + len(others))
    order, other_order = np.argsort(ids), len(ids) + np.argsort(others)
    return int(np.logical_or.reduce([some[order] != some[other_order] for some in codes.values()]).sum())


def _living(storage: Storage, snapshot: Snapshot, space: Space, *, kept: bool = True) -> list[_Rows]:
    """All rows that count."""
    known = read_codes(storage, space, snapshot.files_of(FileKind.CODES)) if kept else None
    return _rows(storage, snapshot, space, read_dead(storage, snapshot.files_of(FileKind.DEAD)), known)


def _rows(storage: Storage, snapshot: Snapshot, space: Space, dead: BitMap64, known: Kept | None) -> list[_Rows]:
    """The rows of all files without those that are dead; first those whose codes are known."""
    found, others = parted(storage, snapshot, dead, known)
    plain = _values(storage, others, dead, list(space.columns))
    return [*_chosen(known, found.values()), *plain] if known else plain


def parted(
    storage: Storage, snapshot: Snapshot, dead: BitMap64, known: Kept | None
) -> tuple[dict[DataFile, Places], list[DataFile]]:
    """Files of rows whose codes are known, with the places of these that count, and the others."""
    gone = np.array(dead.to_array(), np.int64)
    found: dict[DataFile, Places] = {}
    others: list[DataFile] = []
    files = snapshot.files_of(FileKind.ROWS) if snapshot.rows else []
    firsts = [_first_id(file) for file in files]
    starts = np.searchsorted(known.ids, [first or 0 for first in firsts]).tolist() if known is not None else firsts
    for file, first, start in zip(files, firsts, starts, strict=True):
        places = None if known is None else _places(storage, file, known.ids, gone, first, start)
        if places is None:
            others.append(file)
        elif len(places):
            found[file] = places
    return found, others


def _chosen(known: Kept, found: Iterable[Places]) -> list[_Rows]:
    """Rows whose codes are known, by their places; nothing if there are none."""
    places = joined_places(known, found)
    if places is None:
        return [_Rows(known.ids, known.coding)]
    return [_Rows(known.ids[places], known.coding.chosen(places))] if len(places) else []


def joined_places(known: Kept, found: Iterable[Places]) -> np.ndarray | None:
    """All of some places; nothing if they are those of all rows, in their order."""
    some, end = list(found), 0
    for one in some:
        end = one.stop if isinstance(one, range) and one.start == end else -1
    if some and end == len(known.ids):
        return None
    return np.concatenate([np.zeros(0, np.int64), *(np.asarray(one) for one in some)])


def _places(
    storage: Storage, file: DataFile, ids: np.ndarray, gone: np.ndarray, first: int | None, start: int
) -> Places | None:
    """Where the rows of a file but for those that are gone are among ids; nothing if one is not there.

    ``start`` is where its first id would be, if it has all between the first and the last.
    """
    if file.bounds and len(ids) and not ids[0] <= file.bounds[0] <= file.bounds[1] <= ids[-1]:
        return None
    if first is None:
        wanted = row_ids(storage, [file])
        places = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
        return places[~is_in(wanted, gone)] if len(ids) and (ids[places] == wanted).all() else None
    end, last = start + file.rows, first + file.rows - 1
    if end > len(ids) or (file.rows and (ids[start] != first or ids[end - 1] != last)):
        return None  # ids are in order: if first and last are there, so are those between
    mine = gone[slice(*np.searchsorted(gone, [first, last + 1]))] if len(gone) else gone
    return np.delete(np.arange(start, end), mine - first) if len(mine) else range(start, end)


def _first_id(file: DataFile) -> int | None:
    """The id of the first row of a file that lacks none between it and the last."""
    if file.first_row_id is None and file.bounds and file.bounds[1] - file.bounds[0] + 1 == file.rows:
        return file.bounds[0]
    return file.first_row_id


def _ids_of(storage: Storage, file: DataFile) -> np.ndarray:
    """The ids of the rows of a file, in order; they are read only where some are missing between the first and last."""
    first = _first_id(file)
    return row_ids(storage, [file]) if first is None else first + np.arange(file.rows)


@dataclass(frozen=True, slots=True)
class _Share:
    """The rows of a file that count: their ids, and which of all they are, unless all."""

    reader: Reader
    ids: np.ndarray
    alive: pa.Array | None

    @staticmethod
    def of(storage: Storage, file: DataFile, dead: BitMap64) -> _Share:
        ids = _ids_of(storage, file)
        alive = is_alive(ids, dead) if dead else np.ones(len(ids), bool)
        reader = Reader(storage, file, keep=file.rows < SIZES.coded_rows)  # until their codes are kept, each load asks
        return _Share(reader, ids[alive], None if alive.all() else pa.array(alive))

    def table(self, columns: Sequence[str]) -> pa.Table:
        table = self.reader.read(range(len(self.reader.group_starts) - 1), columns)
        return table if self.alive is None else table.filter(self.alive)


def _shares(storage: Storage, files: Iterable[DataFile], dead: BitMap64, columns: Sequence[str] = ()) -> list[_Share]:
    """The shares of files with rows that count; a file without one of the columns has only dead ones."""
    wanted, shares = set(columns), [_Share.of(storage, file, dead) for file in files]
    return [share for share in shares if len(share.ids) and wanted <= set(share.reader.schema.names)]


def _columns(shares: Sequence[_Share], columns: Sequence[str]) -> Columns:
    """Columns of rows in files: of few rows all are read at once, else each when it is asked for."""
    rows = sum(len(share.ids) for share in shares)
    known = [share.table(columns) for share in shares] if rows < SIZES.coded_rows else []

    def column(name: str) -> pa.ChunkedArray:
        tables = known or [share.table([name]) for share in shares]
        return pa.chunked_array([chunk for table in tables for chunk in table.column(name).chunks])

    return Columns(columns, rows, column)


def values_of(storage: Storage, files: Iterable[DataFile], dead: BitMap64, columns: Sequence[str]) -> Columns | None:
    """Rows as values; nothing if there are none."""
    shares = _shares(storage, files, dead, columns)
    return _columns(shares, columns) if shares else None


def _values(storage: Storage, files: Iterable[DataFile], dead: BitMap64, columns: Sequence[str]) -> list[_Rows]:
    """The same with their ids."""
    shares = _shares(storage, files, dead, columns)
    return [_Rows(np.concatenate([one.ids for one in shares]), _columns(shares, columns))] if shares else []


def _coded(space: Space, rows: Sequence[_Rows]) -> Coded:
    """Rows from several places, in one coding."""
    if not rows:
        nothing: Mapping[str, np.ndarray] = {name: np.zeros(0, np.int32) for name in space.columns}
        return Coded(np.zeros(0, np.int64), nothing)
    ids = np.concatenate([one.ids for one in rows])
    return Coded(ids, united(space, [one.part for one in rows], len(ids)))
