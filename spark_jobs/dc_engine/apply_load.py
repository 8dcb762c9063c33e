"""Apply one load: check it against every row already there, commit the new state, answer with a verdict.

``apply_load(spark, request)`` is the function; as an application: ``spark-submit apply_load.py --request load.json``.
Read it top to bottom: prepare, advance, judge, commit.
"""

from __future__ import annotations

import argparse
import logging
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dc_engine.changing import Advanced, advanced, caught_up, retracted
from dc_engine.compacting import compacted
from dc_engine.deciding import write_decision
from dc_engine.engines.base import Engine
from dc_engine.engines.spark import engine_of
from dc_engine.errors import ChangesError, counted
from dc_engine.history.change import Change
from dc_engine.history.replay import rewrite
from dc_engine.history.resolving import resolved
from dc_engine.job import Clock, State, run
from dc_engine.maintained.base import Ground, Maintained
from dc_engine.maintained.columns import with_columns
from dc_engine.maintained.everything import everything
from dc_engine.maintained.naming import RowNames, named
from dc_engine.masking import without_values
from dc_engine.preparing import Prepared, prepare
from dc_engine.request import Request
from dc_engine.state.files import Action, DataFile, FileKind
from dc_engine.state.loads import Load
from dc_engine.state.snapshots import Snapshot, advance, with_loads
from dc_engine.state.storage import Storage
from dc_engine.state.turns import take_turns
from dc_engine.verdict import Decided, Verdict, as_lines, decide

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("airflow_dc_provider.apply_load")


def apply_load(
    spark: SparkSession | Callable[[], SparkSession] | Engine,
    request: Request | Mapping[str, Any],
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> Verdict:
    """Apply a load, or return the stored verdict when the same changes were applied under this load id before.

    ``storage_options`` are fsspec options of the state's filesystem; they are stored nowhere.
    """
    if not isinstance(request, Request):
        request = Request.from_mapping(request)
    engine = engine_of(spark, request.engine)
    storage = Storage(request.state, storage_options)
    storage.check_exclusive()
    clock = Clock()
    return take_turns(
        storage,
        f"apply {request.load_id}",
        lambda: _Application(engine, request, storage, clock).apply(),
        max_wait_seconds=request.max_wait_seconds,
    )


class _Application:
    """One try to apply a load."""

    def __init__(self, engine: Engine, request: Request, storage: Storage, clock: Clock) -> None:
        self.engine, self.request, self.storage, self.clock = engine, request, storage, clock
        self.ground = Ground(engine, storage, mask=request.mask)
        self.drafts = self.ground.drafts

    def apply(self) -> Verdict:
        """Read, check and commit; nothing stays behind when it fails."""
        with without_values(self.request.mask), self.drafts.removed_on_failure(self.storage):
            prepared = prepare(self.ground, self.request, self.clock)
            if isinstance(prepared, Verdict):
                return prepared
            verdict, snapshot = self._check(prepared)
            with self.clock.step("commit"):
                self.drafts.commit(self.storage, snapshot)
            return replace(verdict, seconds=verdict.seconds | self.clock.total)

    # advance

    def _check(self, prepared: Prepared) -> tuple[Verdict, Snapshot]:
        """Find what the load does to everything maintained, judge it, and make the snapshot to commit."""
        things = everything(prepared.plan, prepared.rules, prepared.current.facts, self.request)
        notes = [note for one in things for note in one.news(prepared.before)]
        for note in notes:
            log.info("%s", note)
        with self.clock.step("index"):
            base = compacted(self.ground, self._base(prepared.before, prepared, things), things)
        with self.clock.step("probe"):
            change = self._change(base, prepared)
            done = advanced(self.ground, base, things, change, gone=prepared.older)
        with self.clock.step("judge"):
            verdict = self._judged(prepared, things, change, done, notes)
        if self.request.quarantine:
            with self.clock.step("quarantine"):
                verdict = self._with_quarantine(verdict, prepared, done)
        if verdict.discarded:
            return self._discarded(verdict, prepared, things, base, done)
        load = self._stored_load(verdict, prepared, done, change)
        if prepared.approved and (approved := self.request.approved):
            decided = Decided("approved", approved.by, approved.at, approved.reason)
            file = write_decision(self.storage, load.load_id, load.number, decided)
            self.drafts.append(file)
            load, verdict = replace(load, files=[*load.files, file]), replace(verdict, decided=decided)
        after = replace(
            with_loads(done.after, load),
            **prepared.in_force,
            mask=list(self.request.mask),
            files=[*done.after.files, *prepared.staged.inserts],
        )
        before = None if prepared.older else base.facts
        return verdict, advance(prepared.current, after, Action.APPLY, load_id=load.load_id, facts_before=before)

    def _base(self, before: Snapshot, prepared: Prepared, things: Sequence[Maintained]) -> Snapshot:
        """A snapshot with all that is asked for now, for the rows that are there."""
        plan, table = prepared.plan, self.request.table
        staged = [*prepared.staged.inserts, *prepared.staged.deletes]
        return caught_up(self.ground, with_columns(self.ground, before, plan, prepared.rules, staged, table), things)

    def _change(self, base: Snapshot, prepared: Prepared) -> Change:
        """What the load does to the rows of the state: its deletes find their rows, or it is refused."""
        request, plan, attempt = self.request, prepared.plan, prepared.attempt
        if prepared.older is not None:
            change = rewrite(self.storage, base, plan, prepared.older, attempt, request.mask)
        else:
            change = resolved(self.engine, self.storage, base, plan, attempt)
        self.drafts += [*change.lines, *change.scratch]
        if change.missing and request.missing_deletes == "error":
            raise ChangesError(
                f"Load '{request.load_id}' deletes {counted(change.missing, 'row')} not there as given, for instance "
                f"{named(change.named, request.mask)}.",
                hint="A load deletes before it inserts: reduce a change feed over several versions to its net changes. "
                "To ignore such deletes, set missing_deletes to 'ignore'.",
            )
        return change

    # judge

    def _judged(
        self, prepared: Prepared, things: Sequence[Maintained], change: Change, done: Advanced, notes: list[str]
    ) -> Verdict:
        """The verdict, as if the load were kept."""
        request, staged, number = self.request, prepared.staged, prepared.attempt.number
        files = [*done.after.files_of(FileKind.ROWS), *staged.inserts]
        loads = done.after.loads(self.storage)
        names = RowNames(
            self.storage,
            files,
            prepared.plan.key,
            lambda numbers: {number: request.load_id} | loads.ids_of(set(numbers) - {number}),
            request.mask,
        )
        rows = {"inserted": staged.inserted, "deleted": change.deleted, "total": done.after.rows}
        extra = {"missing_deletes": change.missing, "replaced_keys": change.replaced}
        verdict = Verdict(
            table=prepared.rules.table,
            load_id=request.load_id,
            snapshot=number,
            rows=rows | {name: count for name, count in extra.items() if count},
            seconds={name: spent for one in done.kept for name, spent in one.seconds.items()},
            notes=notes,
            replaced=prepared.applied is not None and not prepared.approved,
            columns=prepared.plan.schema,
        )
        for one, kept in zip(things, done.kept, strict=True):
            verdict = one.judged(verdict, kept, names)
        verdict = replace(verdict, seconds=verdict.seconds | self.clock.total)
        decision = decide(verdict.constraints, verdict.dependencies)
        discarded = decision == "fail" and request.rejected_load == "discard" and not prepared.approved
        return replace(verdict, decision=decision, discarded=discarded)

    def _with_quarantine(self, verdict: Verdict, prepared: Prepared, done: Advanced) -> Verdict:
        listed: dict[str, list[DataFile]] = {one.name: [] for one in verdict.constraints}
        for file in done.listed:
            if file.kind is FileKind.VIOLATING_ROWS:
                listed[file.owner].append(file)
        written = self.engine.quarantine(
            self.storage, prepared.rows, self.request, prepared.staged, listed, prepared.plan.key
        )
        return replace(verdict, quarantine=written)

    def _discarded(
        self, verdict: Verdict, prepared: Prepared, things: Sequence[Maintained], base: Snapshot, done: Advanced
    ) -> tuple[Verdict, Snapshot]:
        """The verdict of a rejected load, and the state without the load."""
        log.info("load %s is rejected and discarded: the state stays as it was", verdict.load_id)
        current, before = prepared.current, prepared.before
        changed = before.files != current.files
        if prepared.older is not None:
            before, changed = retracted(self.ground, current, prepared.older), True
            base = self._base(before, prepared, things)
        for one in things:
            verdict = one.rejected(verdict, base)
        verdict = replace(verdict, rows={**verdict.rows, "total": before.rows})
        load = self._stored_load(verdict, prepared, done, None)
        after = replace(with_loads(before, load), mask=list(self.request.mask))
        if not after.constraints:  # nothing was ever kept: the state is that of these constraints, without rows
            after = replace(after, **prepared.in_force, facts=base.facts)
        return verdict, advance(current, after, Action.APPLY, load_id=load.load_id, changed=changed)

    # commit

    def _stored_load(self, verdict: Verdict, prepared: Prepared, done: Advanced, change: Change | None) -> Load:
        """Write the verdict, and return the record of its load; without a change the load is discarded."""
        document = as_lines(verdict.to_dict()).encode()
        number, request = verdict.snapshot, self.request
        stored = self.storage.write(f"{FileKind.VERDICT.folder}/{number:020d}-{uuid.uuid4().hex}.json", document)
        file = DataFile(stored.path, FileKind.VERDICT, "", number, stored.size, stored.sha256, 0)
        self.drafts.append(file)
        return Load(
            number=number,
            place=prepared.older.place if prepared.older and change else number,
            load_id=verdict.load_id,
            fingerprint=prepared.staged.fingerprint,
            inserted=verdict.rows["inserted"],
            deleted=verdict.rows["deleted"],
            recorded=change.recorded if change else 0,
            records=number,
            verdict=stored.path,
            files=[file, *done.listed],
            discarded=change is None,
            missing_deletes=request.missing_deletes,
            duplicate_keys=request.duplicate_keys,
            key=[name.lower() for name in prepared.rules.key],
            mask=[name.lower() for name in request.mask],
        )


def main(arguments: list[str] | None = None) -> int:
    """The application: a request in, a verdict (or an error document) out."""
    parser = argparse.ArgumentParser(description="Apply one load and print its verdict.")
    parser.add_argument("--request", required=True, help="path or URI of the request document, or - for standard input")

    def act(options: argparse.Namespace, state: State) -> dict[str, Any]:
        request = Request.from_mapping(state.read(options.request))
        return apply_load(state.spark(), request, storage_options=state.options).to_dict()

    return run("apply_load", parser, arguments, act)


if __name__ == "__main__":
    sys.exit(main())
