"""Take a load out of the history, or put another attempt in its place, as if it had been that way from the beginning.

Loads after it stay as they were given, but a delete of theirs may now find another row, or none, and an insert may now
meet a row with its key. What each of them does to the rows that the load touches is replayed; nothing else can have
changed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from dc_engine.detection.codes import whole
from dc_engine.detection.dead import is_alive, read_dead
from dc_engine.detection.plan import Plan
from dc_engine.detection.resolve import CAUSE, LOAD, write_deletes
from dc_engine.detection.rows import ROW_ID, load_of, row_ids, take_rows
from dc_engine.detection.shown import MOST_OF_NAME, json_rows
from dc_engine.detection.work import Undone
from dc_engine.errors import ChangesError, StateError
from dc_engine.history.apart import own_files, rows_among_others, scratch_file
from dc_engine.history.change import Attempt, Change
from dc_engine.history.scene import Scene, SceneReader, changed_type, values
from dc_engine.sizes import SIZES
from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.loads import Load
from dc_engine.state.parquet import Reader
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


def rewrite(
    storage: Storage,
    snapshot: Snapshot,
    plan: Plan,
    load: Load,
    attempt: Attempt | None,
    mask: Collection[str],
) -> Change:
    """What changes when ``load`` is taken out, or replaced by ``attempt``; a replay needs the index of identities."""
    if load.settled:
        raise StateError(
            f"Load '{load.load_id}' cannot be taken out or replaced: the state was rebuilt from the table since, and "
            "its rows can no longer be told from others.",
            hint="Fix the table and rebuild the state from it, or give the changes a load_id of their own.",
        )
    later = snapshot.loads(storage).since(load.place + 1)
    replay = needs_replay(load, later, attempt)
    if replay or attempt:
        _check_keys(plan, load, later)
    if replay:
        return _Replay(storage, snapshot, plan, load, later, attempt, {name.lower() for name in mask}).run()
    apart = own_files(snapshot, load)
    shared = rows_among_others(storage, snapshot, load, plan.stored)
    scratch = [scratch_file(storage, shared)] if shared.num_rows else []
    own = [*apart, *scratch]
    ids = whole(shared.column(ROW_ID)).to_numpy()
    if attempt is None:
        return Change(deletes=own, rows=-_rows(own), turned=ids, scratch=scratch, gone=load.load_id)
    inserts, undone, more = attempt.staged.inserts, Undone(deletes=tuple(own)), _rows(attempt.staged.inserts)
    return Change(inserts, undone=undone, rows=more - _rows(own), turned=ids, scratch=scratch, gone=load.load_id)


def _check_keys(plan: Plan, load: Load, later: Iterable[Load]) -> None:
    """Refuse to replay loads by a key other than theirs: by theirs, deletes found rows and inserts met none."""
    key = {name.lower() for name in plan.key}
    for one in later:
        depends = one.recorded or one.duplicate_keys == "replace" or (one.key and one.inserted)
        if depends and not one.discarded and set(one.key) != key:
            before, now = (", ".join(names) or "none: the whole row" for names in (one.key, plan.key))
            raise StateError(
                f"Load '{load.load_id}' cannot be taken out or replaced: load '{one.load_id}' after it was applied "
                f"with another key ({before}) than today's ({now}), and cannot be replayed by today's.",
                hint=f"Take out the loads after it first, newest first, back to '{one.load_id}'; or fix "
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
    """A delete as it is now: which load, which row (none: not there), why, and the line that asked for it."""

    number: int
    code: int
    row: int | None
    cause: str
    line: int | None


@dataclass
class _Replay:
    """The load and all later ones, replayed for the identities that it touches."""

    storage: Storage
    snapshot: Snapshot
    plan: Plan
    load: Load
    later: list[Load]
    attempt: Attempt | None
    mask: set[str]

    def run(self) -> Change:
        reader = SceneReader(self.storage, self.snapshot, self.plan, self.load, self.later, self.attempt)
        scene = reader.read()
        lines = scene.lines.table
        outcomes, present = self._play(scene)
        result = Change(gone=self.load.load_id)
        mine = [one for one in outcomes if self.attempt and one.number == self.attempt.number]
        missing = [one.line for one in mine if one.row is None]
        result.missing, result.deleted = len(missing), len(mine) - len(missing)
        result.replaced = sum(one.cause == "replace" for one in mine)
        named = lines.take(pa.array(missing[: SIZES.named_rows], pa.int64())).select(self.plan.key or self.plan.columns)
        result.named = json_rows({name: whole(named.column(name)) for name in named.column_names}, MOST_OF_NAME)
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

    def _turned(self, scene: Scene, present: set[int]) -> np.ndarray:
        """The rows, in files that stay, that were alive and are now dead, or the other way round."""
        dropped = set(row_ids(self.storage, own_files(self.snapshot, self.load)).tolist())
        staged = {row for row in scene.new.ids if row is not None}  # alive unless a later load deletes it
        return np.array(sorted((scene.now | staged) - dropped ^ present), np.int64)

    @property
    def _attempt_numbers(self) -> list[int]:
        return [self.attempt.number] if self.attempt else []

    def _play(self, scene: Scene) -> tuple[list[_Outcome], set[int]]:
        """Replay all loads: the deletes as they are now, and the rows that are there at the end."""
        loads: dict[int, Load | Attempt] = {one.number: one for one in self.later}
        order = {number: turn for turn, number in enumerate([*self._attempt_numbers, *loads])}
        if self.attempt:
            loads[self.attempt.number] = self.attempt
        deeds: dict[int, dict[int, _Deeds]] = {code: defaultdict(_Deeds) for code in scene.concerned}
        lines = scene.lines.table
        facts = zip(scene.lines.codes.tolist(), values(lines, LOAD), values(lines, CAUSE), strict=True)
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
            raise ChangesError(f"Load '{load.load_id}' inserts row {name} twice.", hint="A key names one row.")
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
        if not row.column_names:
            return "(no column of it is kept)"
        (values,) = json_rows({name: whole(row.column(name)) for name in row.column_names}, MOST_OF_NAME)
        shown = {name: MASKED if name.lower() in self.mask else value for name, value in values.items()}
        return ", ".join(f"{name}={value}" for name, value in shown.items())

    def _rows(self, ids: Sequence[int]) -> pa.Table:
        """Rows of the state or of the attempt, with all that is kept of them."""
        files = [*self.snapshot.files_of(FileKind.ROWS), *(self.attempt.staged.inserts if self.attempt else [])]
        return take_rows(self.storage, files, np.array(ids, np.int64), self.plan.stored)

    def _check_types(self, rows: pa.Table) -> None:
        """Refuse rows of a time when a column had another type: no others of then can be left."""
        for file in reversed(self.snapshot.files_of(FileKind.ROWS)):
            if is_alive(row_ids(self.storage, [file]), self._dead).any():
                today = Reader(self.storage, file).schema
                for name in self.plan.columns:
                    if rows.schema.field(name).type != today.field(name).type:
                        raise changed_type(self.load, name, [rows.schema.field(name).type, today.field(name).type])
                return

    @cached_property
    def _dead(self) -> BitMap64:
        return read_dead(self.storage, self.snapshot.files_of(FileKind.DEAD))

    def _write_lines(self, result: Change, outcomes: Sequence[_Outcome], scene: Scene) -> None:
        """Record the deletes of the attempt, and of every load whose deletes have changed."""
        lines, numbers = scene.lines.table, whole(scene.lines.table.column(LOAD)).to_numpy()
        touched = np.isin(scene.lines.codes, list(scene.concerned))
        before: dict[int, list[Any]] = defaultdict(list)
        facts = zip(
            scene.lines.codes.tolist(),
            numbers.tolist(),
            scene.lines.ids,
            values(lines, CAUSE),
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
        """The deletes of one load as they are recorded: those that did not change, and the others."""
        columns = [ROW_ID, CAUSE, *self.plan.stored]
        lost = lines.take(pa.array([one.line for one in outcomes if one.row is None], pa.int64())).select(columns)
        tables = [kept.select(columns), lost.set_column(0, ROW_ID, pa.nulls(lost.num_rows, pa.int64()))]
        causes = {one.row: one.cause for one in outcomes if one.row is not None}
        if causes:
            rows = self._rows(sorted(causes))
            why = pa.array([causes[row] for row in values(rows, ROW_ID)], pa.string())
            tables.append(rows.append_column(CAUSE, why).select(columns))
        return pa.concat_tables(tables)

    def _scratch(self, result: Change, ids: Collection[int]) -> list[DataFile]:
        """Rows of some ids in a file for the workers."""
        if not ids:
            return []
        rows = self._rows(sorted(ids))
        self._check_types(rows)
        file = scratch_file(self.storage, rows)
        result.scratch.append(file)
        return [file]


def _rows(files: Sequence[DataFile]) -> int:
    return sum(file.rows for file in files)
