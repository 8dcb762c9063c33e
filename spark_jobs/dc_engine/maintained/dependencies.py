"""The dependencies that were found in a table, kept exact by every change."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dc_engine.constraints.model import ConstraintSet
from dc_engine.detection.compact import Merge
from dc_engine.discovery.coded import Coded
from dc_engine.discovery.files import (
    is_run_of,
    read_dependencies,
    read_patterns,
    small_runs,
    write_dependencies,
    write_patterns,
)
from dc_engine.discovery.keeping import Known, Turnover, changed, difference, found
from dc_engine.discovery.listing import Dependency, Moves, continued, listed, moved, restored
from dc_engine.discovery.ranking import Scales
from dc_engine.discovery.space import Space
from dc_engine.discovery.spreading import Workers
from dc_engine.engines.work import searchers
from dc_engine.errors import StateError, counted
from dc_engine.history.change import Change
from dc_engine.maintained.base import Ground, Kept, Maintained
from dc_engine.maintained.everything import DEPENDENCIES
from dc_engine.maintained.losses import Found, judged_dependencies
from dc_engine.maintained.naming import RowNames
from dc_engine.maintained.proof import problems_of
from dc_engine.maintained.reading import coded_rows, coming_and_going, with_codes
from dc_engine.maintained.stored import read_known, read_set, set_file
from dc_engine.request import Request
from dc_engine.sizes import SIZES
from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.snapshots import Snapshot
from dc_engine.state.storage import Storage
from dc_engine.verdict import Verdict

log = logging.getLogger("airflow_dc_provider.apply_load")

Turned = tuple[np.ndarray, np.ndarray]
"""Which rows were there, and which are."""


@dataclass(frozen=True, slots=True)
class Dependencies(Maintained):
    """Patterns, and the sets that follow from them; the snapshot says in which space, and which file is in force."""

    space: Space
    mode: str
    rules: ConstraintSet
    request: Request | None = None

    name: ClassVar[str] = DEPENDENCIES

    @staticmethod
    def of(facts: Mapping[str, Any], rules: ConstraintSet, request: Request | None) -> Dependencies:
        """What a snapshot says is to be kept."""
        return Dependencies(Space.from_dict(facts["space"]), facts["asked"], rules, request)

    def news(self, before: Snapshot) -> list[str]:  # noqa: ARG002
        """See ``Maintained``."""
        return []

    def caught_up(self, ground: Ground, base: Snapshot) -> Snapshot:
        """See ``Maintained``. Files of sets that were in force before are left behind."""
        base = with_codes(ground, base, self.space)
        facts = base.facts.get(self.name)
        if facts is None or facts["space"] != self.space.to_dict() or facts["asked"] != self.mode:
            return self._built(ground, base)
        needless = {one.path for one in base.files_of(FileKind.DEPENDENCIES) if one.path != facts["set"]}
        runs = [one for one in base.files_of(FileKind.PATTERNS) if is_run_of(one, self.space, facts["mode"])]
        needless |= {one.path for one in base.files_of(FileKind.PATTERNS) if one not in runs}
        kept = [one for one in base.files if one.path not in needless]
        if len(runs) > SIZES.pattern_runs:
            kept = self._with_fewer_runs(ground, kept, facts, [one for one in runs if one.load != base.last_change])
        return replace(base, files=kept)

    def _with_fewer_runs(
        self, ground: Ground, files: Sequence[DataFile], facts: Mapping[str, Any], runs: Sequence[DataFile]
    ) -> list[DataFile]:
        """Files with the small ones among these runs merged; large ones are seldom written again."""
        few = small_runs(runs)
        nullable = frozenset(facts["nullable"])
        some = read_patterns(ground.storage, self.space, nullable, facts["mode"], few)
        merged = Known(facts["mode"], nullable, some, {})
        file = write_patterns(ground.storage, self.space, merged, 0, merged.store)
        ground.drafts.extend(file)
        return [*(one for one in files if one not in few), *file]

    def _built(self, ground: Ground, base: Snapshot) -> Snapshot:
        """The snapshot with dependencies found from scratch; the history of those known before goes on."""
        log.info("looking for dependencies in %s", counted(base.rows, "row"))
        rows = coded_rows(ground.storage, base, self.space)
        known = found(self.space, rows, self.mode, workers=searchers(ground.engine))
        before = _history(ground.storage, base)
        dependencies = _continued(self._named(known, rows, _newest(ground.storage, base)), before)
        patterns = write_patterns(ground.storage, self.space, known, 0, known.store)
        file = write_dependencies(ground.storage, 0, dependencies)
        ground.drafts.extend([*patterns, file])
        others = [one for one in base.files if one.kind not in (FileKind.PATTERNS, FileKind.DEPENDENCIES)]
        facts = {**base.facts, self.name: self._facts(known, dependencies, file)}
        return replace(base, files=[*others, *patterns, file], facts=facts)

    def _listed(
        self,
        known: Known,
        last: Known,
        rows: Coded,
        there: Turned,
        before: Sequence[Dependency],
        load_id: str,
        gone: str = "",
    ) -> tuple[Sequence[Dependency], Moves]:
        """The whole set, named and ranked, with its history; and what became of the one before, that of ``last``.

        ``there`` are the rows then and now: of one row the same may hold as of several, but nothing is said of it.
        ``gone`` is the load whose end this is, if it is not the coming of one.
        """
        were, are = (int(some.sum()) for some in there)
        same_errors = were == are or not self.space.max_error  # an error is a share of all pairs of rows
        if (were > 1) == (are > 1) and same_errors and known.same_sets(last):
            return before, Moves()
        rows = rows.chosen(there[1])
        past = [one for one in before if one.until is not None]
        now = self._named(known, rows, load_id)
        if are < 2:  # whatever held still does
            return past, Moves()
        holding = [one for one in before if one.until is None]
        after, moves = moved(self.space.terms(known.nullable), holding, now, load_id, known.bound)
        lost = [replace(one, until=gone or load_id, rank=None) for one in moves.lost]
        if gone:  # as if it had never been
            after, past = restored(after, past, {one.id for one in holding}, gone)
            lost = [one for one in lost if one.since != gone]
        return [*after, *lost, *past][: len(after) + SIZES.past_dependencies], moves

    def _named(self, known: Known, rows: Coded, load_id: str) -> list[Dependency]:
        """The dependencies of some rows, named and ranked; of fewer than two nothing can be said."""
        if len(rows.ids) < 2:
            return []
        scales = Scales(rows.table(self.space, known.nullable), known.keys)
        terms = self.space.terms(known.nullable)
        return listed(terms, self.space.nulls, known.sets, scales, load_id, known.violations)

    def _facts(self, known: Known, dependencies: Sequence[Dependency], file: DataFile) -> dict[str, Any]:
        shown = [one for one in dependencies if one.shown and one.until is None]
        return {
            "space": self.space.to_dict(),
            "asked": self.mode,
            "mode": known.mode,
            "nullable": sorted(known.nullable),
            "bound": known.bound,
            "because": known.because,
            "valid": {name: sum(one.kind == name for one in shown) for name in self.space.classes},
            "set": file.path,
        }

    def merges(self, files: Sequence[DataFile], *, everything: bool) -> list[Merge]:  # noqa: ARG002
        """See ``Maintained``. Runs of patterns are few and small: a load merges them before it adds its own."""
        return []

    def changed(self, ground: Ground, base: Snapshot, change: Change, *, owner: int) -> Kept:
        """See ``Maintained``. What a replaced load undoes comes first, so that the verdict is about the load alone."""
        started = time.monotonic()
        facts, dependencies = base.facts[self.name], read_set(ground.storage, base)
        before = read_known(ground.storage, base, dependencies)
        rows, flags = coming_and_going(ground.storage, base, self.space, change)
        workers = searchers(ground.engine)
        other = _newest(ground.storage, base, change.gone) if change.gone else ""
        causes = (self.request.load_id, "") if self.request else (other, change.gone)
        between = self._after(before, rows, flags.before, flags.between, workers)
        undoing = (flags.before, flags.between)
        undone, _ = self._listed(between, before, rows, undoing, dependencies, other, change.gone)
        after = self._after(between, rows, flags.between, flags.after, workers)
        now, moves = self._listed(after, between, rows, (flags.between, flags.after), undone, *causes)
        if not self.request and any(one.since == change.gone for one in now):
            known = [one for one in now if one.until is None or one.since != change.gone]
            now = [replace(one, since=other) if one.since == change.gone else one for one in known]
        files = write_patterns(ground.storage, self.space, after, owner, difference(self.space, before, after))
        if now is not dependencies or after is not before:
            file = set_file(base)
            if now is not dependencies:
                file = write_dependencies(ground.storage, owner, now)
                files.append(file)
            facts = self._facts(after, now, file)
        ground.drafts.extend(files)
        found_now = Found(facts, moves, undone, after, self.space, Turnover(rows, flags.between, flags.after))
        return Kept(files, facts, (), found_now, {"dependencies": round(time.monotonic() - started, 3)})

    def _after(self, known: Known, rows: Coded, before: np.ndarray, after: np.ndarray, workers: Workers) -> Known:
        if (before == after).all():
            return known
        if before.sum() < 2:  # no pair of rows, so that nothing was known
            return found(self.space, rows.chosen(after), self.mode, known.nullable, workers)
        return changed(self.space, known, Turnover(rows, before, after), self.mode, workers)

    def judged(self, verdict: Verdict, kept: Kept, names: RowNames) -> Verdict:
        """See ``Maintained``."""
        dependencies = judged_dependencies(verdict.dependencies, self.rules.dependencies, self.space, kept.found, names)
        return replace(verdict, dependencies=replace(dependencies, seconds=kept.seconds["dependencies"]))

    def rejected(self, verdict: Verdict, stays: Snapshot) -> Verdict:
        """See ``Maintained``."""
        facts = stays.facts[self.name]
        told = replace(verdict.dependencies, valid=dict(facts["valid"]), complete=not facts["because"])
        return replace(verdict, dependencies=replace(told, because=facts["because"]))

    def problems(self, ground: Ground, snapshot: Snapshot) -> Iterator[str]:
        """See ``Maintained``."""
        return problems_of(ground.storage, snapshot, self.space)


def _newest(storage: Storage, base: Snapshot, but: str = "") -> str:
    """The newest load whose rows are there, perhaps but for one."""
    applied = (one.load_id for one in reversed(base.loads(storage).last(100)) if not one.discarded)
    return next((load_id for load_id in applied if load_id != but), "")


def _history(storage: Storage, base: Snapshot) -> list[Dependency]:
    """The dependencies that were known; none if their file is damaged, because what holds can be found again."""
    for file in base.files_of(FileKind.DEPENDENCIES)[-1:]:
        try:
            return read_dependencies(storage, file)
        except StateError as error:
            log.warning("since when dependencies hold is no longer known: %s", error.message)
    return []


def _continued(now: Sequence[Dependency], before: Sequence[Dependency]) -> list[Dependency]:
    """Dependencies with the history of those that were known, perhaps in another space: nothing was lost by looking."""
    held = {one.id: one for one in before if one.until is None}
    return [*(continued(one, held.get(one.id)) for one in now), *(one for one in before if one.until is not None)]
