"""Apply one load: check it against every row that is there, commit the new state, answer with a verdict.

``apply_load(spark, request)`` is the function; as an application: ``spark-submit apply_load.py --request load.json``.
Read it top to bottom: prepare, advance, judge, commit.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dc_engine.changing import Advanced, advanced, named, recognises, retracted
from dc_engine.compacting import compacted
from dc_engine.constraints.files import check_columns, load_constraints, to_mapping
from dc_engine.continuity import changed_rules, check_mask, check_table, check_types
from dc_engine.detection.plan import Plan, make_plan, with_zones
from dc_engine.detection.staging import CHANGE_TYPE, StagedLoad
from dc_engine.engines.base import Engine, Source, Staging
from dc_engine.engines.spark import engine_of
from dc_engine.errors import ChangesError, DcError
from dc_engine.history.change import Attempt, Change
from dc_engine.history.replay import needs_replay, rewrite
from dc_engine.history.resolving import resolved
from dc_engine.history.retract import is_newest, without_newest
from dc_engine.indexing import with_added_rules
from dc_engine.job import Clock, State, run
from dc_engine.judging import RowNames, bounded, judge
from dc_engine.masking import without_values
from dc_engine.request import Request
from dc_engine.state.drafts import Drafts
from dc_engine.state.files import Action, DataFile, FileKind
from dc_engine.state.loads import Load
from dc_engine.state.snapshots import Snapshot, advance, read_current, with_loads, without_load
from dc_engine.state.storage import Storage
from dc_engine.state.turns import take_turns
from dc_engine.stored import verdict_of
from dc_engine.verdict import Dependencies, Verdict, decide

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("airflow_dc_provider.apply_load")


def apply_load(
    spark: SparkSession | Engine,
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


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A load that is staged, and the state that it comes to."""

    current: Snapshot
    applied: Load | None
    """An earlier attempt of it."""
    before: Snapshot
    """The state without that attempt, if it stands apart."""
    older: Load | None
    """The attempt, if it does not, and is still in that state."""
    rows: Source
    types: Mapping[str, str]
    attempt: Attempt
    plan: Plan

    @property
    def staged(self) -> StagedLoad:
        """Its rows."""
        return self.attempt.staged


class _Application:
    """One try to apply a load."""

    def __init__(self, engine: Engine, request: Request, storage: Storage, clock: Clock) -> None:
        self.engine, self.request, self.storage, self.clock = engine, request, storage, clock
        self.constraint_set = load_constraints(request.constraints)
        self.drafts = Drafts()

    def apply(self) -> Verdict:
        """Read, check and commit; nothing stays behind when it fails."""
        with without_values(self.request.mask), self.drafts.removed_on_failure(self.storage):
            with self.clock.step("read"):
                prepared = self._prepare()
            if isinstance(prepared, Verdict):
                return prepared
            verdict, snapshot = self._check(prepared)
            with self.clock.step("commit"):
                self.drafts.commit(self.storage, snapshot)
            return replace(verdict, seconds=self.clock.total)

    # prepare

    def _prepare(self) -> _Prepared | Verdict:
        """Read the changes and stage them; the stored verdict when they were applied before."""
        request, storage = self.request, self.storage
        current = read_current(storage) or Snapshot(number=0, parent=None, table=self.constraint_set.table)
        rows = self.engine.read(request.changes, mask=request.mask)
        types = self.engine.types(rows, request.changes)
        check_table(current, self.constraint_set, state=request.state)
        check_mask(request.mask, [*types, *current.schema], source=str(request.changes))
        applied = current.loads(storage).find(request.load_id)
        try:
            self.constraint_set = with_zones(self.constraint_set, self._schema(current, types), self.engine.instant)
            plan = self._plan(current, types)
        except DcError:
            if applied is None or self._stage(rows, types).fingerprint != applied.fingerprint:
                raise
            return self._stored_verdict(applied)
        staged = self._stage(rows, types, plan, current.number + 1)
        if applied is not None and staged.fingerprint == applied.fingerprint:
            self.drafts.remove_all(storage)
            return self._stored_verdict(applied)
        if staged.inserted:
            check_columns(self.constraint_set, types, source=f"the changes ({request.changes})")
        counts = (staged.inserted, staged.deleted, current.rows)
        log.info("load %s: %s rows inserted, %s deleted, on %s rows that are there", request.load_id, *counts)
        before, older = self._without_old_attempt(current, applied)
        attempt = Attempt(request.load_id, current.number + 1, staged, request.missing_deletes, request.duplicate_keys)
        plan = self._plan(current, types, deletes=self._recognises(before, older, attempt, plan))
        return _Prepared(current, applied, before, older, rows, types, attempt, plan)

    def _stage(self, rows: Source, types: Mapping[str, str], plan: Plan | None = None, number: int = 0) -> StagedLoad:
        """Write the rows to the state; without a plan only their fingerprint is made."""
        asked = Staging(self.request.changes, types, mask=self.request.mask)
        if plan:
            asked = replace(asked, storage=self.storage, load=number, columns=plan.schema)
        staged = self.engine.stage(rows, asked)
        self.drafts += [*staged.inserts, *staged.deletes]
        return staged

    def _schema(self, snapshot: Snapshot, types: Mapping[str, str]) -> dict[str, str]:
        """The columns by the names that the state uses, whatever their case in this load, with their types."""
        known = {name.lower(): name for name in snapshot.schema}
        schema = {known.get(name.lower(), name): spark_type for name, spark_type in types.items()}
        if self.constraint_set.key and CHANGE_TYPE in map(str.lower, types):
            return {**snapshot.schema, **schema}  # deletes may give the key alone
        return schema

    def _plan(self, snapshot: Snapshot, types: Mapping[str, str], *, deletes: bool = False) -> Plan:
        """What to do with the load."""
        schema = self._schema(snapshot, types)
        check_columns(self.constraint_set, schema, source=f"the changes ({self.request.changes})")
        check_types(snapshot, types)
        return make_plan(self.constraint_set, schema, recognise=deletes or recognises(snapshot))

    def _without_old_attempt(self, current: Snapshot, applied: Load | None) -> tuple[Snapshot, Load | None]:
        """The snapshot to start from, and an earlier attempt that is still in it because it does not stand apart."""
        before, older = current, None
        if applied is not None:
            log.info("load %s was applied before with other changes: that attempt is replaced", applied.load_id)
            if applied.discarded:
                before = without_load(current, applied)
            elif is_newest(self.storage, current, applied):
                before = without_newest(current, applied)
            else:
                older = applied
        if not before.rows:  # what its runs add and take away comes to nothing, perhaps in types of other days
            before = replace(before, files=[one for one in before.files if not one.kind.derived])
        return before, older

    def _recognises(self, before: Snapshot, older: Load | None, attempt: Attempt, plan: Plan) -> bool:
        """Whether rows have to be recognised, so that an index of identities is needed."""
        if older is None:
            return attempt.staged.deleted > 0
        later = before.loads(self.storage).since(older.place + 1)
        # rows that are written anew with columns of the table do not stand apart any more
        return bool(set(plan.columns) - set(before.schema)) or needs_replay(older, later, attempt)

    def _stored_verdict(self, applied: Load) -> Verdict:
        """The verdict of a load that was applied before with the same changes."""
        log.info("load %s was applied before with the same changes: nothing to do", self.request.load_id)
        return replace(verdict_of(self.storage, applied, self.request.mask), replayed=True)

    # advance, judge

    def _check(self, prepared: _Prepared) -> tuple[Verdict, Snapshot]:
        """Find what the load violates, judge it, and make the snapshot that is to be committed."""
        plan, older = prepared.plan, prepared.older
        notes = changed_rules(prepared.before, self.constraint_set)
        for note in notes:
            log.info("%s", note)
        with self.clock.step("index"):
            base, carried = self._with_added_rules(prepared.before, prepared)
            base = compacted(self.engine, self.storage, base, plan, self.drafts)
        with self.clock.step("probe"):
            change = self._change(base, prepared)
            done = advanced(
                self.engine, self.storage, base, plan, change, self.drafts, gone=older, request=self.request
            )
        with self.clock.step("judge"):
            verdict = self._judged(prepared, change, done, carried, notes)
        if self.request.quarantine:
            with self.clock.step("quarantine"):
                verdict = self._with_quarantine(verdict, prepared, done)
        if verdict.discarded:
            return self._discarded(verdict, prepared, done, carried)
        load = self._stored_load(verdict, prepared, done, change)
        totals = {one.name: one.total_violations for one in verdict.constraints}
        # indexes that no constraint needs any more are left behind
        files = [one for one in done.after.files if one.kind is not FileKind.INDEX or one.owner in plan.indexes]
        after = replace(
            with_loads(done.after, load),
            **self._rules(plan),
            totals=totals,
            mask=list(self.request.mask),
            files=[*files, *prepared.staged.inserts],
        )
        before = None if older else carried
        snapshot = advance(prepared.current, after, Action.APPLY, load_id=load.load_id, totals_before=before)
        return verdict, snapshot

    def _with_added_rules(self, before: Snapshot, prepared: _Prepared) -> tuple[Snapshot, dict[str, int]]:
        """The snapshot with indexes for what was added to the constraints, and all their violations so far."""
        request, plan, inserts = self.request, prepared.plan, prepared.staged.inserts
        rules = self.constraint_set
        return with_added_rules(self.engine, self.storage, before, plan, rules, inserts, request.table, self.drafts)

    def _change(self, base: Snapshot, prepared: _Prepared) -> Change:
        """What the load does to the rows of the state: its deletes have found their rows, or it is refused."""
        request, plan, attempt = self.request, prepared.plan, prepared.attempt
        if prepared.older is not None:
            change = rewrite(self.storage, base, plan, prepared.older, attempt, request.mask)
        else:
            change = resolved(self.engine, self.storage, base, plan, attempt)
        self.drafts += [*change.lines, *change.scratch]
        if change.missing and request.missing_deletes == "error":
            raise ChangesError(
                f"Load '{request.load_id}' deletes {change.missing:,} rows that are not there as given, for instance "
                f"{named(change.named, request.mask)}.",
                hint="A load deletes before it inserts: reduce a change feed over several versions to its net changes. "
                "To pass over such deletes set missing_deletes to 'ignore'.",
            )
        return change

    def _judged(
        self, prepared: _Prepared, change: Change, done: Advanced, carried: Mapping[str, int], notes: list[str]
    ) -> Verdict:
        """The verdict, as if the load were kept."""
        request, plan, staged, number = self.request, prepared.plan, prepared.staged, prepared.attempt.number
        files = [*done.after.files_of(FileKind.ROWS), *staged.inserts]
        loads = done.after.loads(self.storage)
        names = RowNames(
            self.storage,
            files,
            plan.key,
            lambda numbers: {number: request.load_id} | loads.ids_of(set(numbers) - {number}),
            request.mask,
        )
        rules = self.constraint_set
        judged = judge(rules, done.findings, carried, staged.inserted, request.max_samples, names)
        constraints, left_out = bounded(judged)
        dependencies = Dependencies()
        decision = decide(constraints, dependencies)
        rows = {"inserted": staged.inserted, "deleted": change.deleted, "total": done.after.rows}
        extra = {"missing_deletes": change.missing, "replaced_keys": change.replaced}
        return Verdict(
            table=rules.table,
            load_id=request.load_id,
            snapshot=number,
            replayed=False,
            decision=decision,
            rows=rows | {name: count for name, count in extra.items() if count},
            constraints=constraints,
            dependencies=dependencies,
            seconds=self.clock.total,
            notes=[*notes, *left_out],
            replaced=prepared.applied is not None,
            discarded=decision == "fail" and request.rejected_load == "discard",
            columns=plan.schema,
        )

    def _with_quarantine(self, verdict: Verdict, prepared: _Prepared, done: Advanced) -> Verdict:
        pairs = zip(verdict.constraints, done.findings, strict=True)
        listed = {one.name: found.files_of(FileKind.VIOLATING_ROWS) for one, found in pairs}
        written = self.engine.quarantine(
            self.storage, prepared.rows, self.request, prepared.staged, listed, prepared.plan.key
        )
        return replace(verdict, quarantine=written)

    # commit

    def _rules(self, plan: Plan) -> dict[str, Any]:
        """What a snapshot says of the constraints in force."""
        return {"constraints": to_mapping(self.constraint_set), "schema": plan.schema}

    def _stored_load(self, verdict: Verdict, prepared: _Prepared, done: Advanced, change: Change | None) -> Load:
        """Write the verdict, and say in which load it belongs; without a change it is discarded."""
        document = json.dumps(verdict.to_dict(), ensure_ascii=False, indent=1).encode()
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
            files=[file, *(one for found in done.findings for one in found.files)],
            discarded=change is None,
            missing_deletes=request.missing_deletes,
            duplicate_keys=request.duplicate_keys,
            key=[name.lower() for name in self.constraint_set.key],
            mask=[name.lower() for name in request.mask],
        )

    def _discarded(
        self, verdict: Verdict, prepared: _Prepared, done: Advanced, carried: Mapping[str, int]
    ) -> tuple[Verdict, Snapshot]:
        """The verdict of a rejected load, and the state without the load."""
        log.info("load %s is rejected and discarded: the state stays as it was without it", verdict.load_id)
        current, before, older = prepared.current, prepared.before, prepared.older
        changed = before.files != current.files
        if older is not None:
            before, changed = retracted(self.engine, self.storage, current, older, self.drafts), True
            carried = self._with_added_rules(before, prepared)[1]
        constraints = [replace(one, total_violations=carried[one.name]) for one in verdict.constraints]
        verdict = replace(verdict, constraints=constraints, rows={**verdict.rows, "total": before.rows})
        load = self._stored_load(verdict, prepared, done, None)
        after = with_loads(before, load)
        if not after.constraints:  # nothing was ever kept: the state is that of these constraints, without rows
            after = replace(after, **self._rules(prepared.plan), totals=carried)
        return verdict, advance(current, after, Action.APPLY, load_id=load.load_id, changed=changed)


def main(arguments: list[str] | None = None) -> int:
    """The application: a request in, a verdict (or an error document) out."""
    parser = argparse.ArgumentParser(description="Apply one load and print its verdict.")
    parser.add_argument("--request", required=True, help="path or URI of the request document, or - for standard input")

    def act(options: argparse.Namespace, state: State) -> dict[str, Any]:
        request = Request.from_mapping(state.read(options.request))
        return apply_load(state.session(), request, storage_options=state.options).to_dict()

    return run("apply_load", parser, arguments, act)


if __name__ == "__main__":
    sys.exit(main())
