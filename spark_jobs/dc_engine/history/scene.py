"""What a replay looks at: the rows that a load touches, and the deletes of that load and all later ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from dc_engine.detection.codes import whole
from dc_engine.detection.hashing import key_hashes
from dc_engine.detection.plan import Plan
from dc_engine.detection.resolve import CAUSE, LOAD, VERSION, identity_codes, remaining
from dc_engine.detection.rows import ROW_ID, read_rows
from dc_engine.detection.runs import ROW_IDS, find_entries
from dc_engine.errors import StateError
from dc_engine.history.apart import own_files, rows_among_others
from dc_engine.history.change import Attempt
from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.loads import Load
from dc_engine.state.parquet import Reader
from dc_engine.state.snapshots import Snapshot
from dc_engine.state.storage import Storage


@dataclass(frozen=True, slots=True)
class Coded:
    """Rows or lines with a code for each: equal exactly when they have the same identity."""

    table: pa.Table
    codes: np.ndarray

    @property
    def ids(self) -> list[int | None]:
        return values(self.table, ROW_ID)


@dataclass(frozen=True)
class Scene:
    """All that a replay looks at."""

    own: Coded
    """The rows that the load inserted."""
    new: Coded
    """Those of the attempt."""
    alive: Coded
    """The rows in the state that have one of the identities."""
    lines: Coded
    """All deletes from the load on, and those of the attempt."""
    given: np.ndarray
    """Which of these belong to the load, or to the attempt."""

    @cached_property
    def concerned(self) -> set[int]:
        """The identities that the load or the attempt touches."""
        touched = (self.own.codes, self.new.codes, self.lines.codes[self.given])
        return set(np.concatenate(touched).tolist())

    @cached_property
    def rows(self) -> dict[int, set[int]]:
        """The ids of all rows of each concerned identity, alive or not."""
        found: dict[int, set[int]] = defaultdict(set)
        for part in (self.own, self.new, self.alive, self.lines):
            for code, row in zip(part.codes.tolist(), part.ids, strict=True):
                if code in self.concerned and row is not None:
                    found[code].add(row)
        return found

    @cached_property
    def now(self) -> set[int]:
        """The rows of these identities that are alive so far."""
        pairs = zip(self.alive.codes.tolist(), self.alive.ids, strict=True)
        return {row for code, row in pairs if code in self.concerned and row is not None}


@dataclass(frozen=True, slots=True)
class SceneReader:
    """Reads the scene of a load that is taken out, or replaced by an attempt."""

    storage: Storage
    snapshot: Snapshot
    plan: Plan
    load: Load
    later: Sequence[Load]
    attempt: Attempt | None

    def read(self) -> Scene:
        """All of it."""
        own, new, lines = self._own_rows(), self._new_rows(), self._lines()
        given = np.isin(whole(lines.column(LOAD)).to_numpy(), [self.load.number, *self._attempt_numbers])
        alive = self._alive([own, new, lines.filter(pa.array(given))])
        index, tables = self.plan.identity, (own, new, alive, lines)
        for name in index.key:
            self._check_types(name, tables)
        identities = [[whole(table.column(name)) for name in index.key] for table in tables]
        codes = identity_codes(identities, index.families)
        coded = [Coded(*pair) for pair in zip(tables, codes, strict=True)]
        return Scene(coded[0], coded[1], coded[2], coded[3], given)

    @property
    def _attempt_numbers(self) -> list[int]:
        return [self.attempt.number] if self.attempt else []

    def _own_rows(self) -> pa.Table:
        """The identities and ids of the rows that the load inserted."""
        names = self.plan.identity.key
        apart = read_rows(self.storage, own_files(self.snapshot, self.load), names)
        shared = rows_among_others(self.storage, self.snapshot, self.load, names)
        return self._table([*apart, *([shared] if shared.num_rows else [])])

    def _new_rows(self) -> pa.Table:
        files = self.attempt.staged.inserts if self.attempt else []
        return self._table(read_rows(self.storage, files, self.plan.identity.key))

    def _table(self, parts: Iterable[pa.Table]) -> pa.Table:
        """Identities and ids as one table, even when there are none."""
        columns = [*self.plan.identity.key, ROW_ID]
        return self._joined([part.select(columns) for part in parts], columns)

    def _joined(self, parts: Sequence[pa.Table], columns: Sequence[str]) -> pa.Table:
        """Tables as one, unless a column has changed its type, as it may when a table was emptied."""
        tables = [part for part in parts if part.num_rows]
        for name in columns:
            self._check_types(name, tables)
        return pa.concat_tables(tables) if tables else self._empty(columns)

    def _check_types(self, name: str, tables: Iterable[pa.Table]) -> None:
        types = {table.schema.field(name).type for table in tables if table.num_rows}
        if len(types) > 1:
            raise changed_type(self.load, name, types)

    def _empty(self, columns: Sequence[str]) -> pa.Table:
        """No rows, with the types that the columns have in the state; a column that no file has is all NULL."""
        types = {ROW_ID: pa.int64(), CAUSE: pa.string(), LOAD: pa.int64()}
        files = [*self.snapshot.files_of(FileKind.ROWS), *self.snapshot.files_of(FileKind.DELETES)]
        staged = [*self.attempt.staged.inserts, *self.attempt.staged.deletes] if self.attempt else []
        for file in (*files, *staged):
            if set(columns) <= set(types):
                break
            types = {one.name: one.type for one in Reader(self.storage, file).schema} | types
        return pa.table({name: pa.array([], types.get(name, pa.null())) for name in columns})

    def _lines(self) -> pa.Table:
        """All deletes from the load on, and those of the attempt."""
        columns = [LOAD, ROW_ID, CAUSE, *self.plan.stored]
        versions = {one.number: one.records for one in (self.load, *self.later) if one.recorded}
        tables: list[pa.Table] = []
        for file in self.snapshot.files_of(FileKind.DELETES):
            if file.bounds and any(file.bounds[0] <= number <= file.bounds[1] for number in versions):
                tables.append(self._written_lines(file, versions, columns))
        for file in self.attempt.staged.deletes if self.attempt else []:
            reader = Reader(self.storage, file)
            rows = reader.read(range(len(reader.group_starts) - 1), self.plan.stored)
            facts = {
                LOAD: pa.array(np.full(rows.num_rows, self._attempt_numbers[0])),
                ROW_ID: pa.nulls(rows.num_rows, pa.int64()),
                CAUSE: pa.array(["delete"] * rows.num_rows, pa.string()),
            }
            tables.append(pa.table(facts | {name: rows.column(name) for name in self.plan.stored}))
        return self._joined(tables, columns)

    def _written_lines(self, file: DataFile, versions: Mapping[int, int], columns: Sequence[str]) -> pa.Table:
        """The lines of a file that belong to these loads and still count."""
        reader = Reader(self.storage, file)
        groups = range(len(reader.group_starts) - 1)
        marks = reader.read(groups, [LOAD, VERSION])
        numbers, written = (whole(marks.column(name)).to_numpy() for name in (LOAD, VERSION))
        counts = np.array([versions.get(number) == version for number, version in zip(numbers, written, strict=True)])
        if not counts.any():
            return self._empty(columns)
        unknown = set(columns) - set(reader.schema.names)
        if unknown:
            culprit = next(one for one in (self.load, *self.later) if one.number in set(numbers[counts].tolist()))
            raise StateError(
                f"Load '{self.load.load_id}' cannot be taken out or replaced: load '{culprit.load_id}' deleted rows "
                f"whose column {', '.join(map(repr, sorted(unknown)))} is not known.",
                hint="Fix the table and rebuild the state from it.",
            )
        return reader.read(groups, columns).filter(pa.array(counts)).select(columns)

    def _alive(self, touched: Sequence[pa.Table]) -> pa.Table:
        """The rows in the state that have one of the identities."""
        index = self.plan.identity
        hashes = [
            key_hashes([whole(table.column(name)) for name in index.hashed], index.families, table.num_rows)
            for table in touched
        ]
        files = self.snapshot.files_of(FileKind.INDEX, index.id)
        wanted = np.unique(np.concatenate(hashes))
        entries = find_entries(self.storage, files, [*index.key, ROW_IDS], wanted=wanted).entries
        if not entries.num_columns:
            return self._empty([*index.key, ROW_ID])
        (codes,) = identity_codes([[whole(entries.column(name)) for name in index.key]], index.families)
        owner, ids = remaining(codes, entries)
        distinct, first = np.unique(codes, return_index=True)
        chosen = first[np.searchsorted(distinct, owner)]
        return entries.select(index.key).take(pa.array(chosen)).append_column(ROW_ID, pa.array(ids))


def changed_type(load: Load, name: str, types: Iterable[pa.DataType]) -> StateError:
    """Why rows of another time cannot be brought together with those of today."""
    return StateError(
        f"Load '{load.load_id}' cannot be taken out or replaced: column '{name}' has changed its type since "
        f"({' and '.join(sorted(map(str, types)))}), and rows of then and now cannot be compared.",
        hint="Mend the table and rebuild the state from it.",
    )


def values(table: pa.Table, column: str) -> list[Any]:
    """A column as Python values."""
    return table.column(column).to_pylist()
