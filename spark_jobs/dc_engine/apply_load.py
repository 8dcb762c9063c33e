"""Apply one load: check it against every row that is there, commit the new state, answer with a verdict.

``apply_load(spark, request)`` is the function; as an application: ``spark-submit apply_load.py --request load.json``.
Read it top to bottom: read, stage, index what is new, recognise deletes, probe, judge, commit.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import sys
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dc_engine.constraints.files import check_columns, load_constraints, to_mapping
from dc_engine.constraints.normalise import meaning
from dc_engine.continuity import (
    added_constraints,
    carried_totals,
    changed_rules,
    check_mask,
    check_table,
    check_types,
)
from dc_engine.errors import ChangesError, ConstraintError, DcError
from dc_engine.job import Clock, State, run
from dc_engine.masking import without_values
from dc_engine.request import Request
from dc_engine.state.snapshots import DataFile, Load, Snapshot, read_current
from dc_engine.state.storage import Storage
from dc_engine.state.turns import take_turns
from dc_engine.stored import verdict_of
from dc_engine.verdict import Verdict, decide

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from dc_engine.detection.plan import Plan
    from dc_engine.detection.staging import StagedLoad
    from dc_engine.history import Attempt, Change
    from dc_engine.judging import Findings

log = logging.getLogger("airflow_dc_provider.apply_load")


def apply_load(
    spark: SparkSession, request: Request | Mapping[str, Any], *, storage_options: Mapping[str, Any] | None = None
) -> Verdict:
    """Apply a load, or return the stored verdict when the same changes were applied under this load id before.

    ``storage_options`` are fsspec options of the state's filesystem; they are stored nowhere.
    """
    if not isinstance(request, Request):
        request = Request.from_mapping(request)
    from dc_engine.shipping import ship_engine

    ship_engine(spark)
    storage = Storage(request.state, storage_options)
    storage.check_exclusive()
    clock = Clock()
    return take_turns(
        storage,
        f"apply {request.load_id}",
        lambda: _Application(spark, request, storage, clock).apply(),
        max_wait_seconds=request.max_wait_seconds,
    )


class _Application:
    """One try to apply a load."""

    def __init__(self, spark: SparkSession, request: Request, storage: Storage, clock: Clock) -> None:
        from dc_engine.changing import Drafts

        self.spark, self.request, self.storage, self.clock = spark, request, storage, clock
        self.constraint_set = load_constraints(request.constraints)
        self.drafts = Drafts()

    def apply(self) -> Verdict:
        """Read, check and commit; nothing stays behind when it fails."""
        with without_values(self.request.mask), self.drafts.removed_on_failure(self.storage):
            return self._apply()

    def _apply(self) -> Verdict:
        from dc_engine.detection.plan import with_zones
        from dc_engine.detection.sources import column_types, instant_in, read_changes
        from dc_engine.detection.spark import stage_load

        request, storage = self.request, self.storage
        with self.clock.step("read"):
            current = read_current(storage) or Snapshot(number=0, parent=None, table=self.constraint_set.table)
            changes = read_changes(self.spark, request.changes, mask=request.mask)
            types = column_types(changes, request.changes)
            check_table(current, self.constraint_set, state=request.state)
            check_mask(request.mask, [*types, *current.schema], source=str(request.changes))
            applied = current.find_load(request.load_id)
            try:
                schema = self._schema(current, types)
                self.constraint_set = with_zones(self.constraint_set, schema, instant_in(self.spark))
                plan = self._plan(current, types)
            except DcError:
                if applied is None or self._fingerprint(changes, types) != applied.fingerprint:
                    raise
                return self._stored_verdict(applied)
            number, mask = current.number + 1, request.mask
            staged = stage_load(changes, request.changes, storage, number, plan, types, mask=mask)
            self.drafts += [*staged.inserts, *staged.deletes]
        if applied is not None and staged.fingerprint == applied.fingerprint:
            self.drafts.remove_all(storage)
            return self._stored_verdict(applied)
        if staged.inserted:
            check_columns(self.constraint_set, types, source=f"the changes ({request.changes})")
        counts = (staged.inserted, staged.deleted, current.rows)
        log.info("load %s: %s rows inserted, %s deleted, on %s rows that are there", request.load_id, *counts)
        verdict, snapshot = self._check(current, applied, changes, types, staged)
        with self.clock.step("commit"):
            self.drafts.commit(storage, snapshot)
        return replace(verdict, seconds=self.clock.total)

    def _fingerprint(self, changes: DataFrame, types: Mapping[str, str]) -> str:
        from dc_engine.detection.spark import fingerprint_load

        return fingerprint_load(changes, self.request.changes, types, mask=self.request.mask)

    def _schema(self, snapshot: Snapshot, types: Mapping[str, str]) -> dict[str, str]:
        """The columns by the names that the state uses, whatever their case in this load, with their types."""
        from dc_engine.detection.staging import CHANGE_TYPE

        known = {name.lower(): name for name in snapshot.schema}
        schema = {known.get(name.lower(), name): spark_type for name, spark_type in types.items()}
        if self.constraint_set.key and CHANGE_TYPE in map(str.lower, types):
            return {**snapshot.schema, **schema}  # deletes may give the key alone
        return schema

    def _plan(self, snapshot: Snapshot, types: Mapping[str, str], *, deletes: bool = False) -> Plan:
        """What to do with the load."""
        from dc_engine.changing import recognises
        from dc_engine.detection.plan import make_plan

        schema = self._schema(snapshot, types)
        check_columns(self.constraint_set, schema, source=f"the changes ({self.request.changes})")
        check_types(snapshot, types)
        return make_plan(self.constraint_set, schema, recognise=deletes or recognises(snapshot))

    def _stored_verdict(self, applied: Load) -> Verdict:
        """The verdict of a load that was applied before with the same changes."""
        log.info("load %s was applied before with the same changes: nothing to do", self.request.load_id)
        return replace(verdict_of(self.storage, applied, self.request.mask), replayed=True)

    def _check(
        self,
        current: Snapshot,
        applied: Load | None,
        changes: DataFrame,
        types: Mapping[str, str],
        staged: StagedLoad,
    ) -> tuple[Verdict, Snapshot]:
        """Find what the load violates, judge it, and make the snapshot that is to be committed."""
        from dc_engine.changing import changed, compacted, probe
        from dc_engine.judging import RowNames, bounded, judge

        request, number = self.request, current.number + 1
        before, older = self._without_old_attempt(current, applied)
        plan = self._plan_of_change(current, before, older, staged, types)
        notes = changed_rules(before, self.constraint_set)
        for note in notes:
            log.info("%s", note)
        base, carried = self._with_added_rules(before, plan, staged)
        base = compacted(self.spark, self.storage, base, plan, self.drafts)
        with self.clock.step("probe"):
            change = self._change(base, plan, staged, older)
            found = probe(
                self.spark,
                self.storage,
                base,
                plan,
                change,
                self.drafts,
                load=number,
                runs_of=0 if older else number,
                request=request,
            )
            findings, runs = found
        after = changed(base, change, runs, gone=older)
        with self.clock.step("judge"):
            rows = [*after.files_of("rows"), *staged.inserts]
            load_ids = {one.number: one.load_id for one in after.loads} | {number: request.load_id}
            names = RowNames(self.storage, rows, plan.key, load_ids, request.mask)
            judged = judge(self.constraint_set, findings, carried, staged.inserted, request.max_samples, names)
            constraints, left_out = bounded(judged)
        decision = decide(constraints)
        discarded = decision == "fail" and request.rejected_load == "discard"
        deleted = change.deleted.get(number, 0)
        verdict = Verdict(
            table=self.constraint_set.table,
            load_id=request.load_id,
            snapshot=number,
            replayed=False,
            decision=decision,
            rows={"inserted": staged.inserted, "deleted": deleted, "total": after.rows},
            constraints=constraints,
            dependencies={"invalidated": [], "added": [], "valid": 0},
            seconds=self.clock.total,
            notes=[*notes, *left_out],
            replaced=applied is not None,
            discarded=discarded,
            columns=dict(zip(plan.columns, plan.types, strict=True)),
        )
        extra = {"missing_deletes": change.missing, "replaced_keys": change.replaced}
        verdict.rows.update({name: count for name, count in extra.items() if count})
        if request.quarantine:
            from dc_engine.quarantine import quarantine

            with self.clock.step("quarantine"):
                by_rule = {one.name: found for one, found in zip(constraints, findings, strict=True)}
                written = quarantine(self.spark, self.storage, changes, request, staged, by_rule, plan.key)
            verdict = replace(verdict, quarantine=written)
        if discarded:
            return self._discarded(verdict, current, before, older, staged, findings, carried, plan)
        load = self._stored_load(verdict, staged, findings)
        place = current.loads.index(older) if older else len(after.loads)
        totals = {one.name: one.total_violations for one in constraints}
        snapshot = Snapshot(
            number=number,
            parent=current.number or None,
            table=self.constraint_set.table,
            load_id=load.load_id,
            last_change=number,
            **self._rules(plan),
            rows=after.rows,
            totals=totals,
            totals_before=totals if older else carried,
            mask=list(request.mask),
            loads=[*after.loads[:place], load, *after.loads[place:]],
            files=self._files(after, plan, staged),
        )
        return verdict, snapshot

    def _without_old_attempt(self, current: Snapshot, applied: Load | None) -> tuple[Snapshot, Load | None]:
        """The snapshot to start from, and an earlier attempt that is still in it because it does not stand apart."""
        from dc_engine.history import is_newest, without_newest

        before, older = current, None
        if applied is not None:
            log.info("load %s was applied before with other changes: that attempt is replaced", applied.load_id)
            if applied.discarded:
                before = replace(current, loads=[one for one in current.loads if one is not applied])
            elif is_newest(current, applied):
                before = without_newest(current, applied)
            else:
                older = applied
        if not before.rows:  # what its runs add and take away comes to nothing, perhaps in types of other days
            before = replace(before, files=[one for one in before.files if one.kind != "index"])
        return before, older

    def _plan_of_change(
        self, current: Snapshot, before: Snapshot, older: Load | None, staged: StagedLoad, types: Mapping[str, str]
    ) -> Plan:
        """The plan, with an index of identities wherever rows have to be recognised."""
        from dc_engine.history import needs_replay

        plan = self._plan(current, types, deletes=staged.deleted > 0)
        if older is None:
            return plan
        # rows that are written anew with columns of the table do not stand apart any more
        widened = set(plan.columns) - set(before.schema)
        if widened or needs_replay(current, older, self._attempt(current.number + 1, staged)):
            return self._plan(current, types, deletes=True)
        return plan

    def _rules(self, plan: Plan) -> dict[str, Any]:
        """What a snapshot says of the constraints in force."""
        meanings = "\n".join(sorted(meaning(one) for one in self.constraint_set.constraints))
        return {
            "constraints": to_mapping(self.constraint_set),
            "constraints_fingerprint": hashlib.sha256(meanings.encode()).hexdigest(),
            "schema": dict(zip(plan.columns, plan.types, strict=True)),
        }

    def _with_added_rules(self, before: Snapshot, plan: Plan, staged: StagedLoad) -> tuple[Snapshot, dict[str, int]]:
        """The snapshot with indexes for what was added to the constraints, and all their violations so far."""
        from dc_engine.indexing import index_rows, missing_indexes, unknown_columns

        added = added_constraints(before, self.constraint_set)
        carried = carried_totals(before, self.constraint_set)
        if set(plan.columns) - set(before.schema) and before.files_of("rows"):
            unknown = unknown_columns(self.storage, before, plan, staged.inserts)
            if unknown:
                before = self._with_columns_of_table(before, plan, unknown)
        if not added and not missing_indexes(before, plan):
            return before, carried
        with self.clock.step("index"):
            log.info("indexing %s rows for what was added to the constraints", before.rows)
            indexed = index_rows(self.spark, self.storage, before, plan, added)
            self.drafts += indexed.files
        return replace(before, files=[*before.files, *indexed.files]), {**carried, **indexed.totals}

    def _with_columns_of_table(self, before: Snapshot, plan: Plan, unknown: list[str]) -> Snapshot:
        """The snapshot with rows that have columns which were not kept so far."""
        if self.request.table is None:
            users = [
                f"constraint '{one.name}'"
                for one in self.constraint_set.constraints
                if {name.lower() for name in one.columns} & {name.lower() for name in unknown}
            ]
            raise ConstraintError(
                f"Column {', '.join(map(repr, unknown))}, which {users[0] if users else 'the key'} needs, is not known "
                f"of the {before.rows:,} rows that are in the state, or not in the type that it has now.",
                hint="Give the whole table, as it was before this load, as 'table' in the request.",
            )
        from dc_engine.widening import widen

        with self.clock.step("read table"):
            log.info("reading column %s of the rows that are there from %s", ", ".join(unknown), self.request.table)
            widened = widen(self.spark, self.storage, before, plan, self.request.table)
            self.drafts += widened
        return replace(before, files=[*(one for one in before.files if one.kind != "rows"), *widened])

    def _change(self, base: Snapshot, plan: Plan, staged: StagedLoad, older: Load | None) -> Change:
        """What the load does to the rows of the state: its deletes have found their rows, or it is refused."""
        from dc_engine.changing import named
        from dc_engine.history import rewrite

        request, number = self.request, base.number + 1
        if older is not None:
            attempt = self._attempt(number, staged)
            change = rewrite(self.storage, base, plan, older, attempt, request.mask)
            self.drafts += [*change.scratch, *change.dead]
        else:
            change = self._resolved(base, plan, staged)
        self.drafts += [file for files in change.records.values() for file in files]
        if change.missing and request.missing_deletes == "error":
            raise ChangesError(
                f"Load '{request.load_id}' deletes {change.missing:,} rows that are not there as given, for instance "
                f"{named(change.named, request.mask)}.",
                hint="A load deletes before it inserts: reduce a change feed over several versions to its net changes. "
                "To pass over such deletes set missing_deletes to 'ignore'.",
            )
        return change

    def _attempt(self, number: int, staged: StagedLoad) -> Attempt:
        from dc_engine.history import Attempt

        request = self.request
        return Attempt(request.load_id, number, staged, request.missing_deletes, request.duplicate_keys)

    def _resolved(self, base: Snapshot, plan: Plan, staged: StagedLoad) -> Change:
        from dc_engine.changing import index_files
        from dc_engine.detection.resolve import resolving
        from dc_engine.detection.spark import make_work, resolve
        from dc_engine.history import Change
        from dc_engine.state.snapshots import data_file

        replaces = self.request.duplicate_keys == "replace" and plan.key
        if not staged.deleted and not (replaces and staged.inserted):
            return Change(inserts=staged.inserts, rows=staged.inserted)
        number = base.number + 1
        inserts = staged.inserts if replaces else []
        part = resolving(plan)
        work = make_work(
            self.storage, part, number, index_files(base, part), None, inserts=inserts, deletes=staged.deletes
        )
        documents = resolve(self.spark, work, base.files_of("rows"))
        files = [data_file(one["file"]) for one in documents if one["file"]]
        found = [file for file, one in zip(files, documents, strict=True) if one["deleted"] or one["replaced"]]
        replaced = sum(one["replaced"] for one in documents)
        deleted = sum(one["deleted"] for one in documents) + replaced
        return Change(
            inserts=staged.inserts,
            deletes=found,
            rows=staged.inserted - deleted,
            records={number: files} if files else {},
            deleted={number: deleted},
            missing=sum(one["missing"] for one in documents),
            replaced=replaced,
            named=[row for one in documents for row in one["named"]],
            scratch=staged.deletes,
        )

    def _files(self, after: Snapshot, plan: Plan, staged: StagedLoad) -> list[DataFile]:
        """Every file of the new snapshot; indexes that no constraint needs any more are left behind."""
        kept = [one for one in after.files if one.kind not in ("rows", "index")]
        runs = [one for one in after.files if one.kind == "index" and one.owner in plan.indexes]
        return [*after.files_of("rows"), *staged.inserts, *kept, *runs]

    def _stored_load(self, verdict: Verdict, staged: StagedLoad, findings: list[Findings]) -> Load:
        """Write the verdict, and say in which load it belongs."""
        document = json.dumps(verdict.to_dict(), ensure_ascii=False, indent=1).encode()
        number = verdict.snapshot
        stored = self.storage.write(f"verdicts/{number:020d}-{uuid.uuid4().hex}.json", document)
        file = DataFile(stored.path, "verdict", "", number, stored.size, stored.sha256, 0)
        self.drafts.append(file)
        return Load(
            number=number,
            load_id=verdict.load_id,
            fingerprint=staged.fingerprint,
            inserted=verdict.rows["inserted"],
            deleted=verdict.rows["deleted"],
            verdict=stored.path,
            files=[file, *(one for found in findings for one in found.files)],
            discarded=verdict.discarded,
            missing_deletes=self.request.missing_deletes,
            duplicate_keys=self.request.duplicate_keys,
            key=[name.lower() for name in self.constraint_set.key],
            mask=[name.lower() for name in self.request.mask],
        )

    def _discarded(
        self,
        verdict: Verdict,
        current: Snapshot,
        before: Snapshot,
        older: Load | None,
        staged: StagedLoad,
        findings: list[Findings],
        carried: Mapping[str, int],
        plan: Plan,
    ) -> tuple[Verdict, Snapshot]:
        """The verdict of a rejected load, and the state without the load."""
        from dc_engine.changing import retracted

        log.info("load %s is rejected and discarded: the state stays as it was without it", verdict.load_id)
        unchanged = before is current or before.files == current.files
        if older is not None:
            before, unchanged = retracted(lambda: self.spark, self.storage, current, older, self.drafts), False
            carried = self._with_added_rules(before, plan, staged)[1]
        constraints = [replace(one, total_violations=carried[one.name]) for one in verdict.constraints]
        verdict = replace(verdict, constraints=constraints, rows={**verdict.rows, "total": before.rows})
        load = self._stored_load(verdict, staged, findings)
        if not before.constraints:  # nothing was ever kept: the state is that of these constraints, without rows
            before = replace(before, **self._rules(plan), totals=carried)
        snapshot = replace(
            before,
            number=verdict.snapshot,
            parent=current.number or None,
            load_id=load.load_id,
            action="apply",
            last_change=before.last_change if unchanged else verdict.snapshot,
            totals_before=before.totals_before if unchanged else before.totals,
            loads=[*before.loads, load],
        )
        return verdict, snapshot


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
