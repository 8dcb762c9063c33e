"""Constraints and pinned dependencies: an index for each group of them, and how many violations each has in all."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from dc_engine.constraints.model import ConstraintSet
from dc_engine.detection.compact import Merge, depth, is_small, merges_of, small_runs
from dc_engine.detection.documents import TakenKeys, file_of, spent
from dc_engine.detection.plan import Plan
from dc_engine.detection.rows import load_of
from dc_engine.detection.sizing import make_work
from dc_engine.engines.work import detect
from dc_engine.errors import ChangesError, capital, counted
from dc_engine.history.change import Change
from dc_engine.maintained.base import Ground, Kept, Look, Maintained
from dc_engine.maintained.continuity import (
    VIOLATIONS,
    added_rules,
    carried_totals,
    changed_rules,
    rules_of,
    total_violations,
)
from dc_engine.maintained.indexing import index_files, index_rows, missing_indexes
from dc_engine.maintained.judging import Findings, add_up, bounded, judge
from dc_engine.maintained.naming import RowNames, named
from dc_engine.maintained.pinned import Pinned, corrected, does_not_hold, judge_pinned, without_load
from dc_engine.request import Request
from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.snapshots import Snapshot
from dc_engine.verdict import Verdict

log = logging.getLogger("airflow_dc_provider.apply_load")


@dataclass(frozen=True, slots=True)
class _Found:
    """What a change did to each rule, and how many violations each had before."""

    findings: Sequence[Findings]
    carried: Mapping[str, int]
    watched_otherwise: bool
    """Whether the load before was judged by another section of dependencies."""


@dataclass(frozen=True, slots=True)
class Violations(Maintained):
    """Indexes and totals of the rules. Violations of constraints are listed when a load asks for it."""

    plan: Plan
    rules: ConstraintSet
    request: Request | None = None
    """The load that asks for it; nothing when a load is taken out."""

    name: ClassVar[str] = VIOLATIONS

    def news(self, before: Snapshot) -> list[str]:
        """See ``Maintained``."""
        return changed_rules(before, self.rules)

    def caught_up(self, ground: Ground, base: Snapshot) -> Snapshot:
        """See ``Maintained``. Indexes that no rule needs any more are left behind."""
        added, totals = added_rules(base, self.rules), carried_totals(base, self.rules)
        files = [one for one in base.files if one.kind is not FileKind.INDEX or one.owner in self.plan.indexes]
        if added or missing_indexes(base, self.plan):
            log.info("indexing %s for what was added to the constraints", counted(base.rows, "row"))
            indexed = index_rows(ground.engine, ground.storage, base, self.plan, added)
            ground.drafts.extend(indexed.files)
            files, totals = [*files, *indexed.files], {**totals, **indexed.totals}
        return replace(base, files=files, facts={**base.facts, VIOLATIONS: totals})

    def merges(self, files: Sequence[DataFile], *, everything: bool) -> list[Merge]:
        """See ``Maintained``."""
        merges: list[Merge] = []
        for index in self.plan.indexes.values():
            runs = [file for file in files if file.kind is FileKind.INDEX and file.owner == index.id]
            many = depth(runs) > 1 or sum(map(is_small, runs)) > 1
            merges += merges_of(self.plan, index, (runs if many else []) if everything else small_runs(runs))
        return merges

    def changed(self, ground: Ground, base: Snapshot, change: Change, *, owner: int, seen: Look | None) -> Kept:  # noqa: ARG002
        """See ``Maintained``."""
        work = make_work(
            ground.storage,
            self.plan,
            base.number + 1 if self.request else 0,
            index_files(base, self.plan),
            self.request,
            inserts=change.inserts,
            deletes=change.deletes,
            undone=change.undone,
            runs_of=owner,
        )
        documents = detect(ground.engine, work)
        ground.drafts.extend(filter(None, map(file_of, documents)))
        taken = [one for one in documents if isinstance(one, TakenKeys)]
        if taken:
            raise self._key_error(taken, ground, base)
        findings, runs = add_up(documents, len(self.plan.constraints))
        carried = total_violations(base)
        totals = {
            one.name: carried[one.name] + found.balance for one, found in zip(self.rules.rules, findings, strict=True)
        }
        listed = [file for found in findings for file in found.files]
        otherwise = rules_of(base).dependencies != self.rules.dependencies
        return Kept(runs, totals, listed, _Found(findings, carried, otherwise), spent(documents))

    def judged(self, verdict: Verdict, kept: Kept, names: RowNames) -> Verdict:
        """See ``Maintained``."""
        found: _Found = kept.found
        samples = self.request.max_samples if self.request else 0
        judged = judge(self.rules, found.findings, found.carried, verdict.rows["inserted"], samples, names)
        constraints, left_out = bounded(judged)
        pinned = [
            Pinned(one, before=found.carried[one.name] + each.undone, after=kept.facts[one.name], findings=each)
            for one, each in zip(self.rules.rules, found.findings, strict=True)
            if one.pinned
        ]
        notes = [*verdict.notes, *left_out, *(does_not_hold(pinned) if found.watched_otherwise else ())]
        dependencies = judge_pinned(verdict.dependencies, pinned, names)
        return replace(verdict, constraints=constraints, dependencies=dependencies, notes=notes)

    def rejected(self, verdict: Verdict, stays: Snapshot) -> Verdict:
        """See ``Maintained``."""
        totals = total_violations(stays)
        constraints = [replace(one, total_violations=totals[one.name]) for one in verdict.constraints]
        still = [Pinned(one, totals[one.name], totals[one.name]) for one in self.rules.dependencies.judged]
        verdict = replace(verdict, constraints=constraints, dependencies=without_load(verdict.dependencies, still))
        otherwise = rules_of(stays).dependencies != self.rules.dependencies
        return replace(verdict, notes=corrected(verdict.notes, still, told=otherwise))

    def problems(self, ground: Ground, snapshot: Snapshot) -> Iterator[str]:
        """See ``Maintained``."""
        rules, totals = self.rules.rules, total_violations(snapshot)
        plan = self.plan.only(group for group in self.plan.groups if group.reads)  # nothing is written
        totals_now = index_rows(ground.engine, ground.storage, snapshot, plan, rules).totals
        for one in rules:
            found, said = totals_now.get(one.name, 0), totals.get(one.name, 0)
            if found != said:
                yield f"{capital(one.called)} has {counted(found, 'violation')}, the snapshot says {said:,}."

    def _key_error(self, taken: Sequence[TakenKeys], ground: Ground, base: Snapshot) -> ChangesError:
        """Why rows cannot come in: each unit tells of its own keys."""
        rows = named([row for one in taken for row in one.keys], ground.mask)
        twice, present, back = (sum(getattr(one, name) for one in taken) for name in ("twice", "present", "back"))
        if self.request is None or back:
            what = f"Load '{self.request.load_id}' cannot be replaced: that" if self.request else "Taking it out"
            return ChangesError(
                f"{what} would bring back rows that share {counted(twice + present + back, 'key')}, "
                f"for instance {rows}.",
                hint="A key names one row. Take out the loads before it as well, or mend the table and rebuild the "
                "state from it.",
            )
        load_id = self.request.load_id
        if twice:
            return ChangesError(
                f"Load '{load_id}' inserts {counted(twice, 'key')} more than once, for instance {rows}.",
                hint="A key names one row. Load each row once, or choose another key.",
            )
        number = load_of(next(one.owners for one in taken if one.owners)[0])
        owner = base.loads(ground.storage).ids_of([number]).get(number)
        since = f" since load '{owner}'" if owner else ""
        return ChangesError(
            f"Load '{load_id}' inserts {counted(present, 'key')} already present, for instance {rows}{since}.",
            hint="Delete the old rows in the same load (as update_preimage or delete), or set duplicate_keys to "
            "'replace'.",
        )
