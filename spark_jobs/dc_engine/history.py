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
from typing import Any

import numpy as np
import pyarrow as pa

from dc_engine.detection.codes import whole
from dc_engine.detection.hashing import key_hashes
from dc_engine.detection.parquet import Reader, parquet_bytes, store_parquet
from dc_engine.detection.plan import Plan
from dc_engine.detection.resolve import CAUSE, MOST_NAMED, identity_codes, remaining, write_deletes
from dc_engine.detection.rows import ROW_ID, load_of, read_rows, row_ids, take_rows
from dc_engine.detection.runs import ROW_IDS, find_entries
from dc_engine.detection.shown import MOST_OF_NAME, json_rows
from dc_engine.detection.staging import StagedLoad
from dc_engine.detection.work import NOTHING_UNDONE, Undone
from dc_engine.errors import ChangesError, StateError
from dc_engine.state.snapshots import DataFile, Load, Snapshot
from dc_engine.state.storage import Storage
from dc_engine.verdict import MASKED

_NUMBER = "_dc_load"


def is_newest(snapshot: Snapshot, load: Load) -> bool:
    """Whether nothing came after a load or changed since, and all that it wrote stands apart.

    It can then be taken out at no cost. One that took another's place in the history has no runs of its own.
    """
    later = snapshot.loads[snapshot.loads.index(load) + 1 :]
    if load.number != snapshot.last_change or not all(one.discarded for one in later):
        return False
    indexes = {file.owner for file in snapshot.files if file.kind == "index"}
    own = {file.owner for file in snapshot.files if file.kind == "index" and file.load == load.number}
    return (bool(own) and own == indexes) or not (load.inserted or load.deleted)


def without_newest(snapshot: Snapshot, load: Load) -> Snapshot:
    """The snapshot as it was before its newest load."""
    return replace(
        snapshot,
        rows=snapshot.rows - load.inserted + load.deleted,
        totals=snapshot.totals_before,
        loads=[one for one in snapshot.loads if one is not load],
        files=[one for one in snapshot.files if one.load != load.number],
    )


@dataclass(frozen=True, slots=True)
class Attempt:
    """What is to stand in the place of a load."""

    load_id: str
    number: int
    staged: StagedLoad
    missing_deletes: str
    duplicate_keys: str


@dataclass(slots=True)
class Change:
    """What happens to the rows of a state.

    Of a load that takes another attempt's place, ``inserts`` and ``deletes`` are what it does itself, as if it came
    last; everything else that is different now comes before, as ``undone``.
    """

    inserts: Sequence[DataFile] = ()
    """Rows that come; when a load is taken out, those that nobody deletes any more."""
    deletes: Sequence[DataFile] = ()
    """Rows that go."""
    undone: Undone = NOTHING_UNDONE
    """Rows that come back and rows that go when an earlier attempt is undone."""
    rows: int = 0
    """How many rows more (or fewer) there are then."""
    records: dict[int, list[DataFile]] = field(default_factory=dict)
    """The deletes of loads, to be written down under their numbers in place of what stood there."""
    deleted: dict[int, int] = field(default_factory=dict)
    """How many rows these loads delete."""
    missing: int = 0
    """Deletes of the load that find no row."""
    named: list[dict[str, Any]] = field(default_factory=list)
    """Some of these."""
    replaced: int = 0
    """Rows that inserts of the load replace."""
    dead: list[DataFile] = field(default_factory=list)
    """Rows of a load that is gone, in files that other loads still need."""
    scratch: list[DataFile] = field(default_factory=list)
    """Files that only the workers need."""


def needs_replay(snapshot: Snapshot, load: Load, attempt: Attempt | None) -> bool:
    """Whether rows have to be recognised: the load or a later one deletes, or its rows do not stand apart."""
    after = snapshot.loads[snapshot.loads.index(load) + 1 :]
    numbers = {load.number, *(one.number for one in after)}
    if any(file.load in numbers for file in snapshot.files_of("deletes")):
        return True
    if sum(file.rows for file in _own_files(snapshot, load)) != load.inserted:
        return True
    if attempt is None:
        return False
    replaces = "replace" in {attempt.duplicate_keys, *(one.duplicate_keys for one in after)}
    return replaces or attempt.staged.deleted > 0


def _own_files(snapshot: Snapshot, load: Load) -> list[DataFile]:
    return [file for file in snapshot.files_of("rows") if file.load == load.number]


def rewrite(
    storage: Storage, snapshot: Snapshot, plan: Plan, load: Load, attempt: Attempt | None, mask: Sequence[str]
) -> Change:
    """What changes when ``load`` is taken out, or replaced by ``attempt``; a replay needs the index of identities."""
    if load.settled:
        raise StateError(
            f"Load '{load.load_id}' cannot be taken out or replaced: the state was rebuilt from the table since, and "
            "its rows can no longer be told from others.",
            hint="Mend the table and rebuild the state from it, or give the changes a load_id of their own.",
        )
    if not needs_replay(snapshot, load, attempt):
        own = _own_files(snapshot, load)
        if attempt is None:
            return Change(deletes=own, rows=-_rows(own))
        inserts = attempt.staged.inserts
        return Change(inserts, undone=Undone(deletes=tuple(own)), rows=_rows(inserts) - _rows(own))
    _check_keys(snapshot, plan, load)
    return _Replay(storage, snapshot, plan, load, attempt, {name.lower() for name in mask}).run()


def _check_keys(snapshot: Snapshot, plan: Plan, load: Load) -> None:
    """Refuse to play deletes again by another key than the one by which they found their rows."""
    key = {name.lower() for name in plan.key}
    deleting = {file.load for file in snapshot.files_of("deletes")}
    for one in snapshot.loads[snapshot.loads.index(load) + 1 :]:
        found_by = one.number in deleting or one.duplicate_keys == "replace"
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


@dataclass(slots=True)
class _Replay:
    """Plays the loads from one on through again, for the rows that it touches."""

    storage: Storage
    snapshot: Snapshot
    plan: Plan
    load: Load
    attempt: Attempt | None
    mask: set[str]

    def run(self) -> Change:
        plan, index = self.plan, self.plan.identity
        own, new, lines = self._own_rows(), self._new_rows(), self._lines()
        start = whole(lines.column(_NUMBER)).to_numpy()
        given = lines.filter(pa.array(np.isin(start, [self.load.number, *self._attempt_numbers()])))
        alive = self._alive([own, new, given])
        tables = [own, new, given, alive, lines]
        identities = [[whole(table.column(name)) for name in index.key] for table in tables]
        codes = identity_codes(identities, index.families)
        concerned = set(np.concatenate(codes[:3]).tolist())
        known: dict[int, set[int]] = defaultdict(set)
        for table, own_codes in zip(tables, codes, strict=True):
            for code, row in zip(own_codes.tolist(), _list(table, ROW_ID), strict=True):
                if code in concerned and row is not None:
                    known[code].add(row)
        now = {row for code, row in zip(codes[3].tolist(), _list(alive, ROW_ID), strict=True) if code in concerned}
        outcomes, present = self._play(concerned, known, lines, codes[4])
        result = Change()
        mine = [one for one in outcomes if self.attempt and one.number == self.attempt.number]
        missing = [one.line for one in mine if one.row is None]
        result.missing, result.replaced = len(missing), sum(one.cause == "replace" for one in mine)
        named = lines.take(pa.array(missing[:MOST_NAMED], pa.int64())).select(plan.key or plan.columns)
        result.named = json_rows({name: whole(named.column(name)) for name in named.column_names}, MOST_OF_NAME)
        self._write_records(result, outcomes, concerned, lines, codes[4])
        shared = own.filter(pa.array(~np.isin(whole(own.column(ROW_ID)).to_numpy(), self._apart_ids())))
        result.dead = [_dead(self.storage, shared)] if shared.num_rows else []
        result.rows = len(present) - len(now)
        if self.attempt is None:
            result.inserts, result.deletes = self._scratch(result, present - now), self._scratch(result, now - present)
            return result
        number = self.attempt.number
        come = {row for row in present if load_of(row) == number}
        go = {one.row for one in mine if one.row is not None}
        without = (present - come) | go
        result.inserts, result.deletes = self._scratch(result, come), self._scratch(result, go)
        back, away = (tuple(self._scratch(result, rows)) for rows in (without - now, now - without))
        result.undone = Undone(back, away)
        return result

    def _attempt_numbers(self) -> list[int]:
        return [self.attempt.number] if self.attempt else []

    def _own_rows(self) -> pa.Table:
        """The identities and ids of the rows that the load inserted."""
        low, high = self.load.number << 40, (self.load.number + 1) << 40
        files = [
            file
            for file in self.snapshot.files_of("rows")
            if file.load == self.load.number or (file.bounds and file.bounds[0] < high and file.bounds[1] >= low)
        ]
        rows = self._table(read_rows(self.storage, files, self.plan.identity.key))
        ids = whole(rows.column(ROW_ID)).to_numpy()
        return rows.filter(pa.array((ids >= low) & (ids < high)))

    def _apart_ids(self) -> np.ndarray:
        """The ids of the load's rows that stand in files of its own."""
        return row_ids(self.storage, _own_files(self.snapshot, self.load))

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
        types = {ROW_ID: pa.int64(), CAUSE: pa.string(), _NUMBER: pa.int64()}
        for file in (*self.snapshot.files_of("rows"), *self.snapshot.files_of("deletes"), *self._staged_files()):
            if set(columns) <= set(types):
                break
            types = {one.name: one.type for one in Reader(self.storage, file).schema} | types
        return pa.table({name: pa.array([], types.get(name, pa.null())) for name in columns})

    def _staged_files(self) -> list[DataFile]:
        return [*self.attempt.staged.inserts, *self.attempt.staged.deletes] if self.attempt else []

    def _lines(self) -> pa.Table:
        """All deletes from the load on, and those of the attempt."""
        at = self.snapshot.loads.index(self.load)
        columns = [ROW_ID, CAUSE, *self.plan.stored]
        tables = [self._empty([*columns, _NUMBER])]
        for load in self.snapshot.loads[at:]:
            for file in self.snapshot.files_of("deletes"):
                if file.load == load.number:
                    tables.append(_numbered(self._records(file, load, columns), load.number))
        for file in self.attempt.staged.deletes if self.attempt else []:
            reader = Reader(self.storage, file)
            rows = reader.read(range(len(reader.group_starts) - 1), self.plan.stored)
            facts = {ROW_ID: pa.nulls(rows.num_rows, pa.int64()), CAUSE: pa.array(["delete"] * rows.num_rows)}
            table = pa.table(facts | {name: rows.column(name) for name in self.plan.stored})
            tables.append(_numbered(table, self._attempt_numbers()[0]))
        return pa.concat_tables(tables)

    def _records(self, file: DataFile, load: Load, columns: Sequence[str]) -> pa.Table:
        reader = Reader(self.storage, file)
        unknown = set(columns) - set(reader.schema.names)
        if unknown:
            raise StateError(
                f"Load '{self.load.load_id}' cannot be taken out or replaced: load '{load.load_id}' deleted rows of "
                f"which column {', '.join(map(repr, sorted(unknown)))} is not known.",
                hint="Mend the table and rebuild the state from it.",
            )
        return reader.read(range(len(reader.group_starts) - 1), columns)

    def _alive(self, touched: Sequence[pa.Table]) -> pa.Table:
        """The rows in the state that have one of the identities."""
        index = self.plan.identity
        hashes = [
            key_hashes([whole(table.column(name)) for name in index.hashed], index.families, table.num_rows)
            for table in touched
        ]
        files = self.snapshot.files_of("index", index.id)
        wanted = np.unique(np.concatenate(hashes))
        entries = find_entries(self.storage, files, [*index.key, ROW_IDS], wanted=wanted).entries
        if not entries.num_columns:
            return self._empty([*index.key, ROW_ID])
        (codes,) = identity_codes([[whole(entries.column(name)) for name in index.key]], index.families)
        owner, ids = remaining(codes, entries)
        distinct, first = np.unique(codes, return_index=True)
        chosen = first[np.searchsorted(distinct, owner)]
        return entries.select(index.key).take(pa.array(chosen)).append_column(ROW_ID, pa.array(ids))

    def _play(
        self, concerned: set[int], known: Mapping[int, set[int]], lines: pa.Table, line_codes: np.ndarray
    ) -> tuple[list[_Outcome], set[int]]:
        """Play all loads through; the deletes as they are now, and the rows that are there at the end."""
        loads = self.snapshot.loads
        at = loads.index(self.load)
        position = {one.number: place for place, one in enumerate(loads)}
        position.update(dict.fromkeys(self._attempt_numbers(), at))
        deeds: dict[int, dict[int, _Deeds]] = {code: defaultdict(_Deeds) for code in concerned}
        facts = zip(line_codes.tolist(), _list(lines, _NUMBER), _list(lines, CAUSE), strict=True)
        for line, (code, number, cause) in enumerate(facts):
            if code in concerned and cause == "delete" and number != self.load.number:
                deeds[code][position[number]].deletes.append(line)
        before = _list(lines, ROW_ID)
        outcomes: list[_Outcome] = []
        left: set[int] = set()
        for code in sorted(concerned):
            present = []
            for row in sorted(known[code]):
                number = load_of(row)
                if position.get(number, -1) < at:
                    present.append(row)
                elif number != self.load.number:
                    deeds[code][position[number]].inserts.append(row)
            for place in sorted(deeds[code]):
                load = self.attempt if place == at else loads[place]
                assert load is not None
                outcomes += self._step(load, code, deeds[code][place], present, before, lines)
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
        (values,) = json_rows({name: whole(row.column(name)) for name in row.column_names}, MOST_OF_NAME)
        shown = {name: MASKED if name.lower() in self.mask else value for name, value in values.items()}
        return ", ".join(f"{name}={value}" for name, value in shown.items())

    def _rows(self, ids: Sequence[int]) -> pa.Table:
        """Rows of the state or of the attempt, with all that is kept of them."""
        files = [*self.snapshot.files_of("rows"), *(self.attempt.staged.inserts if self.attempt else [])]
        return take_rows(self.storage, files, np.array(ids, np.int64), self.plan.stored)

    def _write_records(
        self,
        result: Change,
        outcomes: Sequence[_Outcome],
        concerned: set[int],
        lines: pa.Table,
        line_codes: np.ndarray,
    ) -> None:
        """Write down the deletes of the attempt, and of every load whose deletes are others than before."""
        numbers = whole(lines.column(_NUMBER)).to_numpy()
        touched = np.isin(line_codes, list(concerned))
        before: dict[int, list[Any]] = defaultdict(list)
        facts = zip(line_codes.tolist(), numbers.tolist(), _list(lines, ROW_ID), _list(lines, CAUSE), strict=True)
        for mine, (code, number, row, cause) in zip(touched.tolist(), facts, strict=True):
            if mine:
                before[number].append((code, row, cause))
        now: dict[int, list[_Outcome]] = defaultdict(list)
        for one in outcomes:
            now[one.number].append(one)
        attempts = set(self._attempt_numbers())
        for number in (set(before) | set(now)) - {self.load.number}:
            new = now[number]
            same = sorted(before[number], key=repr) == sorted(((o.code, o.row, o.cause) for o in new), key=repr)
            if same and number not in attempts:
                continue
            columns = [ROW_ID, CAUSE, *self.plan.stored]
            kept = lines.filter(pa.array((numbers == number) & ~touched)).select(columns)
            asked = [one.line for one in new if one.row is None]
            lost = lines.take(pa.array(asked, pa.int64())).select(columns)
            lost = lost.set_column(0, ROW_ID, pa.nulls(lost.num_rows, pa.int64()))
            causes = {one.row: one.cause for one in new if one.row is not None}
            tables = [kept, lost]
            if causes:
                rows = self._rows(sorted(causes))
                why = pa.array([causes[row] for row in _list(rows, ROW_ID)])
                tables.append(rows.append_column(CAUSE, why).select(columns))
            records = pa.concat_tables(tables)
            if not records.num_rows and number in attempts:
                continue
            result.records[number] = [write_deletes(self.storage, number, records)]
            result.deleted[number] = records.num_rows - records.column(ROW_ID).null_count

    def _scratch(self, result: Change, ids: Collection[int]) -> list[DataFile]:
        """Rows of some ids in a file for the workers."""
        if not ids:
            return []
        rows = self._rows(sorted(ids))
        path = f"deletes/scratch-{uuid.uuid4().hex}.parquet"
        file = store_parquet(self.storage, path, parquet_bytes(rows), kind="deletes", load=0, rows=rows.num_rows)
        result.scratch.append(file)
        return [file]


def _rows(files: Sequence[DataFile]) -> int:
    return sum(file.rows for file in files)


def _dead(storage: Storage, rows: pa.Table) -> DataFile:
    """A file of ids that no longer count."""
    path, ids = f"dead/{uuid.uuid4().hex}.parquet", rows.select([ROW_ID])
    return store_parquet(storage, path, parquet_bytes(ids), kind="dead", load=0, rows=ids.num_rows)


def _numbered(table: pa.Table, number: int) -> pa.Table:
    return table.append_column(_NUMBER, pa.array([number] * table.num_rows, pa.int64()))


def _list(table: pa.Table, column: str) -> list[Any]:
    return table.column(column).to_pylist()
