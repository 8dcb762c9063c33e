"""Take a load out of the history, or put another attempt in its place, as if it had been so from the beginning.

Loads after it stay as they were given, but a delete of theirs may now find another row, or none, and an insert may now
meet a row with its key. What each of them does to the rows that the load touches is played through again; nothing else
can have changed.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from dc_engine.detection.codes import whole
from dc_engine.detection.hashing import key_hashes
from dc_engine.detection.plan import Plan
from dc_engine.detection.report import json_rows
from dc_engine.detection.resolve import CAUSE, LOAD, MOST_NAMED, VERSION, identity_codes, remaining, write_deletes
from dc_engine.detection.rows import LOAD_BITS, ROW_ID, load_of, read_rows, row_ids, take_rows
from dc_engine.detection.runs import ROW_IDS, find_entries
from dc_engine.detection.work import Undone
from dc_engine.errors import ChangesError, StateError
from dc_engine.history.change import Attempt, Change
from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.loads import Load
from dc_engine.state.parquet import Reader, parquet_bytes, store_parquet
from dc_engine.state.snapshots import Snapshot
from dc_engine.state.storage import Storage
from dc_engine.verdict import MASKED


def needs_replay(load: Load, later: Sequence[Load], attempt: Attempt | None) -> bool:
    """Whether rows have to be recognised: the load or a later one deletes."""
    if any(one.recorded for one in (load, *later)):
        return True
    if attempt is None:
        return False
    replaces = "replace" in {attempt.duplicate_keys, *(one.duplicate_keys for one in later)}
    return replaces or attempt.staged.deleted > 0


def own_files(snapshot: Snapshot, load: Load) -> list[DataFile]:
    """The files of rows that are of one load alone."""
    return [file for file in snapshot.files_of(FileKind.ROWS) if file.load == load.number]


def rewrite(
    storage: Storage,
    snapshot: Snapshot,
    plan: Plan,
    load: Load,
    attempt: Attempt | None,
    mask: Sequence[str],
) -> Change:
    """What changes when ``load`` is taken out, or replaced by ``attempt``; a replay needs the index of identities."""
    if load.settled:
        raise StateError(
            f"Load '{load.load_id}' cannot be taken out or replaced: the state was rebuilt from the table since, and "
            "its rows can no longer be told from others.",
            hint="Mend the table and rebuild the state from it, or give the changes a load_id of their own.",
        )
    later = snapshot.loads(storage).since(load.place + 1)
    if needs_replay(load, later, attempt):
        _check_keys(plan, load, later)
        return _Replay(storage, snapshot, plan, load, later, attempt, {name.lower() for name in mask}).run()
    apart = own_files(snapshot, load)
    shared = rows_among_others(storage, snapshot, load, plan.stored)
    scratch = [scratch_file(storage, shared)] if shared.num_rows else []
    own = [*apart, *scratch]
    ids = whole(shared.column(ROW_ID)).to_numpy()
    if attempt is None:
        return Change(deletes=own, rows=-_rows(own), turned=ids, scratch=scratch)
    inserts, undone = attempt.staged.inserts, Undone(deletes=tuple(own))
    return Change(inserts, undone=undone, rows=_rows(inserts) - _rows(own), turned=ids, scratch=scratch)


def rows_among_others(storage: Storage, snapshot: Snapshot, load: Load, columns: Sequence[str]) -> pa.Table:
    """The rows of a load in files that have rows of others too."""
    low, high = load.number << LOAD_BITS, (load.number + 1) << LOAD_BITS
    parts = [pa.table({ROW_ID: pa.array([], pa.int64())})]
    for file in snapshot.files_of(FileKind.ROWS):
        if file.bounds and file.bounds[0] < high and file.bounds[1] >= low:
            reader = Reader(storage, file)
            groups = np.flatnonzero((reader.bounds[:, 0] < high) & (reader.bounds[:, 1] >= low))
            rows = reader.read(groups, [ROW_ID, *columns])
            ids = whole(rows.column(ROW_ID)).to_numpy()
            parts.append(rows.filter(pa.array((ids >= low) & (ids < high))))
    return pa.concat_tables([one for one in parts if one.num_rows] or parts[:1])


def scratch_file(storage: Storage, rows: pa.Table) -> DataFile:
    """Rows in a file that only the workers need."""
    ordered = rows.select([ROW_ID, *(name for name in rows.column_names if name != ROW_ID)])
    path, data = f"{FileKind.DELETES.folder}/scratch-{uuid.uuid4().hex}.parquet", parquet_bytes(ordered)
    return store_parquet(storage, path, data, kind=FileKind.DELETES, load=0, rows=rows.num_rows)


def _check_keys(plan: Plan, load: Load, later: Iterable[Load]) -> None:
    """Refuse to play deletes again by another key than the one by which they found their rows."""
    key = {name.lower() for name in plan.key}
    for one in later:
        found_by = one.recorded or one.duplicate_keys == "replace"
        if found_by and not one.discarded and set(one.key) != key:
            before, now = (", ".join(names) or "the whole row" for names in (one.key, plan.key))
            raise StateError(
                f"Load '{load.load_id}' cannot be taken out or replaced: load '{one.load_id}' after it deleted rows by "
                f"another key ({before}) than today's ({now}), and its deletes cannot be played again by this one.",
                hint=f"Take out the loads after it first, the newest of them first, back to '{one.load_id}'; or mend "
                "the table and rebuild the state from it.",
            )


@dataclass(slots=True)
class _Deeds:
    """What one load does to the rows of one identity."""

    deletes: list[int] = field(default_factory=list)
    """Lines of the table of deletes."""
    inserts: list[int] = field(default_factory=list)
    """Ids of rows."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """A delete as it is now: which load, which row (none: it was not there), why, and the line that asked for it."""

    number: int
    code: int
    row: int | None
    cause: str
    line: int | None


@dataclass(frozen=True, slots=True)
class _Coded:
    """Rows or lines with a code for each: equal exactly when they have the same identity."""

    table: pa.Table
    codes: np.ndarray

    @property
    def ids(self) -> list[int | None]:
        return _list(self.table, ROW_ID)


@dataclass(frozen=True)
class _Scene:
    """All that a replay looks at."""

    own: _Coded
    """The rows that the load inserted."""
    new: _Coded
    """Those of the attempt."""
    alive: _Coded
    """The rows in the state that have one of the identities."""
    lines: _Coded
    """All deletes from the load on, and those of the attempt."""
    given: np.ndarray
    """Which of these are of the load, or of the attempt."""

    @cached_property
    def concerned(self) -> set[int]:
        """The identities that the load or the attempt touches."""
        touched = (self.own.codes, self.new.codes, self.lines.codes[self.given])
        return set(np.concatenate(touched).tolist())

    @cached_property
    def rows(self) -> dict[int, set[int]]:
        """The ids of all rows of each identity that is concerned, alive or not."""
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


@dataclass(slots=True)
class _Replay:
    """The load and all later ones, played through for the identities that it touches."""

    storage: Storage
    snapshot: Snapshot
    plan: Plan
    load: Load
    later: list[Load]
    attempt: Attempt | None
    mask: set[str]

    def run(self) -> Change:
        scene = self._scene()
        lines = scene.lines.table
        outcomes, present = self._play(scene)
        result = Change()
        mine = [one for one in outcomes if self.attempt and one.number == self.attempt.number]
        missing = [one.line for one in mine if one.row is None]
        result.missing, result.deleted = len(missing), len(mine) - len(missing)
        result.replaced = sum(one.cause == "replace" for one in mine)
        named = lines.take(pa.array(missing[:MOST_NAMED], pa.int64())).select(self.plan.key or self.plan.columns)
        result.named = json_rows({name: whole(named.column(name)) for name in named.column_names})
        self._write_lines(result, outcomes, scene)
        result.rows = len(present) - len(scene.now)
        result.turned = self._turned(scene, present)
        if self.attempt is None:
            result.inserts = self._scratch(result, present - scene.now)
            result.deletes = self._scratch(result, scene.now - present)
            return result
        come = {row for row in present if load_of(row) == self.attempt.number}
        go = {one.row for one in mine if one.row is not None}
        without = (present - come) | go
        result.inserts, result.deletes = self._scratch(result, come), self._scratch(result, go)
        back, away = (tuple(self._scratch(result, rows)) for rows in (without - scene.now, scene.now - without))
        result.undone = Undone(back, away)
        return result

    def _turned(self, scene: _Scene, present: set[int]) -> np.ndarray:
        """The rows in files that stay which were alive and are dead now, or the other way round."""
        dropped = set(row_ids(self.storage, own_files(self.snapshot, self.load)).tolist())
        staged = {row for row in scene.new.ids if row is not None}  # alive unless a later load deletes it
        return np.array(sorted((scene.now | staged) - dropped ^ present), np.int64)

    def _scene(self) -> _Scene:
        own, new, lines = self._own_rows(), self._new_rows(), self._lines()
        given = np.isin(whole(lines.column(LOAD)).to_numpy(), [self.load.number, *self._attempt_numbers])
        alive = self._alive([own, new, lines.filter(pa.array(given))])
        index, tables = self.plan.identity, (own, new, alive, lines)
        identities = [[whole(table.column(name)) for name in index.key] for table in tables]
        codes = identity_codes(identities, index.families)
        coded = [_Coded(*pair) for pair in zip(tables, codes, strict=True)]
        return _Scene(coded[0], coded[1], coded[2], coded[3], given)

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
        """Identities and ids as one table, also when there are none."""
        columns = [*self.plan.identity.key, ROW_ID]
        tables = [part.select(columns) for part in parts]
        return pa.concat_tables(tables) if tables else self._empty(columns)

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
        tables = [self._empty(columns)]
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
        return pa.concat_tables(tables)

    def _written_lines(self, file: DataFile, versions: Mapping[int, int], columns: Sequence[str]) -> pa.Table:
        """The lines of a file that are of these loads, and still count."""
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
                f"Load '{self.load.load_id}' cannot be taken out or replaced: load '{culprit.load_id}' deleted rows of "
                f"which column {', '.join(map(repr, sorted(unknown)))} is not known.",
                hint="Mend the table and rebuild the state from it.",
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

    def _play(self, scene: _Scene) -> tuple[list[_Outcome], set[int]]:
        """Play all loads through; the deletes as they are now, and the rows that are there at the end."""
        loads: dict[int, Load | Attempt] = {one.number: one for one in self.later}
        order = {number: turn for turn, number in enumerate([*self._attempt_numbers, *loads])}
        if self.attempt:
            loads[self.attempt.number] = self.attempt
        deeds: dict[int, dict[int, _Deeds]] = {code: defaultdict(_Deeds) for code in scene.concerned}
        lines = scene.lines.table
        facts = zip(scene.lines.codes.tolist(), _list(lines, LOAD), _list(lines, CAUSE), strict=True)
        for line, (code, number, cause) in enumerate(facts):
            if code in scene.concerned and cause == "delete" and number != self.load.number:
                deeds[code][number].deletes.append(line)
        outcomes: list[_Outcome] = []
        left: set[int] = set()
        before = scene.lines.ids
        for code in sorted(scene.concerned):
            present = []
            for row in sorted(scene.rows[code]):
                number = load_of(row)
                if number in order:
                    deeds[code][number].inserts.append(row)
                elif number != self.load.number:
                    present.append(row)
            for number in sorted(deeds[code], key=order.__getitem__):
                outcomes += self._step(loads[number], code, deeds[code][number], present, before, lines)
            left.update(present)
        return outcomes, left

    def _step(
        self,
        load: Load | Attempt,
        code: int,
        deeds: _Deeds,
        present: list[int],
        before: Sequence[int | None],
        lines: pa.Table,
    ) -> list[_Outcome]:
        """One load on the rows of one identity: deletes first, then inserts. ``present`` is changed."""
        found = []
        for line in deeds.deletes:
            row = before[line] if before[line] in present else next(iter(present), None)
            if row is not None:
                present.remove(row)
            elif load is not self.attempt and load.missing_deletes == "error":
                raise self._conflict(load.load_id, "deletes", self._name(lines, line))
            found.append(_Outcome(load.number, code, row, "delete", line))
        if self.plan.key and len(deeds.inserts) > 1:
            name = self._name(self._rows(deeds.inserts[:1]), 0)
            raise ChangesError(f"Load '{load.load_id}' inserts row {name} twice.", hint="A key is there once.")
        for row in deeds.inserts:
            if self.plan.key and present:
                if load.duplicate_keys == "error":
                    raise self._conflict(load.load_id, "inserts", self._name(self._rows([row]), 0))
                found += [_Outcome(load.number, code, one, "replace", None) for one in present]
                present.clear()
            present.append(row)
        return found

    def _conflict(self, load_id: str, does: str, row: str) -> ChangesError:
        verb = "replaced" if self.attempt else "taken out"
        if self.attempt and load_id == self.attempt.load_id:
            return ChangesError(
                f"Load '{load_id}' inserts row {row}, whose key is present at its place in the history.",
                hint="Delete the row in the same load, or set duplicate_keys to 'replace'.",
            )
        why = "which would not be there" if does == "deletes" else "whose key would already be there"
        return ChangesError(
            f"Load '{self.load.load_id}' cannot be {verb}: load '{load_id}' after it {does} row {row}, {why}.",
            hint=f"Take out load '{load_id}' first.",
        )

    def _name(self, rows: pa.Table, place: int) -> str:
        row = rows.slice(place, 1).select(self.plan.key or self.plan.columns)
        (values,) = json_rows({name: whole(row.column(name)) for name in row.column_names})
        shown = {name: MASKED if name.lower() in self.mask else value for name, value in values.items()}
        return ", ".join(f"{name}={value}" for name, value in shown.items())

    def _rows(self, ids: Sequence[int]) -> pa.Table:
        """Rows of the state or of the attempt, with all that is kept of them."""
        files = [*self.snapshot.files_of(FileKind.ROWS), *(self.attempt.staged.inserts if self.attempt else [])]
        return take_rows(self.storage, files, np.array(ids, np.int64), self.plan.stored)

    def _write_lines(self, result: Change, outcomes: Sequence[_Outcome], scene: _Scene) -> None:
        """Write down the deletes of the attempt, and of every load whose deletes are others than before."""
        lines, numbers = scene.lines.table, whole(scene.lines.table.column(LOAD)).to_numpy()
        touched = np.isin(scene.lines.codes, list(scene.concerned))
        before: dict[int, list[Any]] = defaultdict(list)
        facts = zip(
            scene.lines.codes.tolist(),
            numbers.tolist(),
            scene.lines.ids,
            _list(lines, CAUSE),
            touched.tolist(),
            strict=True,
        )
        for code, number, row, cause, mine in facts:
            if mine:
                before[number].append((code, row, cause))
        now: dict[int, list[_Outcome]] = defaultdict(list)
        for one in outcomes:
            now[one.number].append(one)
        version = self.snapshot.number + 1
        for load in self.later:
            new = now[load.number]
            old = sorted(before[load.number], key=repr)
            if old == sorted(((one.code, one.row, one.cause) for one in new), key=repr):
                continue
            kept = lines.filter(pa.array((numbers == load.number) & ~touched))
            written = self._lines_of(new, lines, kept)
            found = written.num_rows - written.column(ROW_ID).null_count
            result.amended.append(replace(load, deleted=found, recorded=written.num_rows, records=version))
            if written.num_rows:
                result.lines.append(write_deletes(self.storage, load.number, version, written))
        for number in self._attempt_numbers:
            written = self._lines_of(now[number], lines, lines.slice(0, 0))
            if written.num_rows:
                result.lines.append(write_deletes(self.storage, number, version, written))

    def _lines_of(self, outcomes: Sequence[_Outcome], lines: pa.Table, kept: pa.Table) -> pa.Table:
        """The deletes of one load as they are written down: those that did not change, and the others."""
        columns = [ROW_ID, CAUSE, *self.plan.stored]
        lost = lines.take(pa.array([one.line for one in outcomes if one.row is None], pa.int64())).select(columns)
        tables = [kept.select(columns), lost.set_column(0, ROW_ID, pa.nulls(lost.num_rows, pa.int64()))]
        causes = {one.row: one.cause for one in outcomes if one.row is not None}
        if causes:
            rows = self._rows(sorted(causes))
            why = pa.array([causes[row] for row in _list(rows, ROW_ID)], pa.string())
            tables.append(rows.append_column(CAUSE, why).select(columns))
        return pa.concat_tables(tables)

    def _scratch(self, result: Change, ids: Collection[int]) -> list[DataFile]:
        """Rows of some ids in a file for the workers."""
        if not ids:
            return []
        file = scratch_file(self.storage, self._rows(sorted(ids)))
        result.scratch.append(file)
        return [file]


def _rows(files: Sequence[DataFile]) -> int:
    return sum(file.rows for file in files)


def _list(table: pa.Table, column: str) -> list[Any]:
    return table.column(column).to_pylist()
