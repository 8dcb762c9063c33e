"""The dependencies that were found in a table, kept exact by every change."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from dc_engine.constraints.model import ConstraintSet
from dc_engine.detection.compact import Merge
from dc_engine.discovery.boxes import carried
from dc_engine.discovery.covers import Cover, chosen_covers
from dc_engine.discovery.files import (
    is_run_of,
    read_dependencies,
    read_patterns,
    small_runs,
    write_dependencies,
    write_patterns,
)
from dc_engine.discovery.keeping import found, support_of
from dc_engine.discovery.known import Known, difference
from dc_engine.discovery.large import found_afar, nullable_in
from dc_engine.discovery.listing import Dependency, Moves, continued, listed, moved, restored
from dc_engine.discovery.ranking import Scales
from dc_engine.discovery.space import Space
from dc_engine.engines.work import searchers
from dc_engine.errors import StateError, counted
from dc_engine.history.change import Change
from dc_engine.maintained.base import Ground, Kept, Look, Maintained
from dc_engine.maintained.continuity import DEPENDENCIES
from dc_engine.maintained.losses import Found, judged_dependencies, still_hold
from dc_engine.maintained.naming import RowNames
from dc_engine.maintained.passage import Passage, leaves_known, passage_of
from dc_engine.maintained.proof import problems_of
from dc_engine.maintained.reading import coded_rows, with_codes
from dc_engine.maintained.resting import resting, rests
from dc_engine.maintained.stored import read_known, read_set, set_file, write_set
from dc_engine.request import Request
from dc_engine.sizes import SIZES
from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.snapshots import Snapshot
from dc_engine.state.storage import Storage
from dc_engine.verdict import Verdict

log = logging.getLogger("airflow_dc_provider.apply_load")

_WORTH_A_THREAD = 200_000
"""With so many dependencies, times the rows of a load, it is found out in a thread whether they still hold."""


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
        base = with_codes(ground, base, self.space, self.mode)
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
        known, scales, covers = self._found(ground, base)
        before = _history(ground.storage, base)
        now = self._named(known, scales, _newest(ground.storage, base)) if base.rows > 1 else []
        dependencies = _continued(now, before)
        patterns = write_patterns(ground.storage, self.space, known, 0, known.store)
        file = write_dependencies(ground.storage, 0, dependencies)
        ground.drafts.extend([*patterns, file])
        others = [one for one in base.files if one.kind not in (FileKind.PATTERNS, FileKind.DEPENDENCIES)]
        facts = {**base.facts, self.name: _with_covers(self._facts(known, dependencies, file), covers)}
        return replace(base, files=[*others, *patterns, file], facts=facts)

    def _found(self, ground: Ground, base: Snapshot) -> tuple[Known, Scales, list[Cover]]:
        """What is known about all rows, from scratch, what it is weighed with, and the indexes that loads will need."""
        if not rests(ground.engine, self.space, self.mode, base.rows):
            rows = coded_rows(ground.storage, base, self.space)
            known = found(self.space, rows, self.mode, workers=searchers(ground.engine))
            return known, Scales(rows.table(self.space, known.nullable), known.keys), []
        afar = resting(ground.engine, ground.storage, base)
        certified = found_afar(self.space, afar, nullable_in(self.space, afar.measured([*self.space.columns])))
        known, covers = certified.known, list[Cover]()
        if rests(ground.engine, self.space, self.mode, base.rows, for_loads=True):
            covers = chosen_covers(self.space.terms(known.nullable), known.boxes, certified.estimates)
        return known, Scales(certified.sample.table(self.space, known.nullable), known.keys, base.rows), covers

    def _listed(
        self,
        known: Known,
        last: Known,
        passage: Passage,
        moment: int,
        before: Sequence[Dependency],
        load_id: str,
        gone: str = "",
    ) -> tuple[Sequence[Dependency], Moves]:
        """The whole set, named and ranked, with its history; and what became of the one before, that of ``last``.

        Of one row the same may hold as of several, but nothing is said of it. ``gone`` is the load whose end this is,
        if it is not the coming of one.
        """
        were, are = passage.counts[moment - 1], passage.counts[moment]
        same_errors = were == are or not self.space.max_error  # an error is a share of all pairs of rows
        if (were > 1) == (are > 1) and same_errors and known.same_sets(last):
            return before, Moves()
        past = [one for one in before if one.until is not None]
        if are < 2:  # whatever held still does
            return past, Moves()
        holding = self._carried(last, known, before)
        now = self._named(known, passage.scales(known, moment), load_id, holding)
        after, moves = moved(self.space.terms(known.nullable), holding, now, load_id, known.bound)
        moves = self._without_faded(moves, known, passage, moment)
        lost = [replace(one, until=gone or load_id, rank=None) for one in (*moves.lost, *moves.faded)]
        if gone:  # as if it had never been
            after, past = restored(after, past, {one.id for one in holding}, gone)
            lost = [one for one in lost if one.since != gone]
        return [*after, *lost, *past][: len(after) + SIZES.past_dependencies], moves

    def _without_faded(self, moves: Moves, known: Known, passage: Passage, moment: int) -> Moves:
        """The same without those among the lost that only lack support: nothing violates them."""
        if not self.space.limits.min_support or not moves.lost:
            return moves
        rows, new = passage.there(moment)
        table = rows.table(self.space, known.nullable)
        support = support_of(self.space, table)
        enough = support.enough({one.box for one in moves.lost}) if support else set()
        few = [one for one in moves.lost if one.box not in enough]
        holds = still_hold(self.space, table, new, few)
        faded = {one.id for one, does in zip(few, holds, strict=True) if does}
        return replace(
            moves,
            lost=[one for one in moves.lost if one.id not in faded],
            faded=[one for one in few if one.id in faded],
        )

    def _carried(self, last: Known, known: Known, before: Sequence[Dependency]) -> list[Dependency]:
        """Those that held, in terms that have room for the NULLs of now."""
        old, now = (self.space.terms(one.nullable) for one in (last, known))
        holding = [one for one in before if one.until is None]
        if len(old.terms) == len(now.terms):
            return holding
        return [replace(one, box=carried(old, now, one.kind, one.box)) for one in holding]

    def _named(self, known: Known, scales: Scales, load_id: str, before: Sequence[Dependency] = ()) -> list[Dependency]:
        """The dependencies of two rows or more, named and ranked; in the same terms those that held ``before``."""
        terms = self.space.terms(known.nullable)
        return listed(terms, self.space.nulls, known.sets, scales, load_id, known.violations, before)

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

    def look(self, ground: Ground, base: Snapshot, change: Change) -> Look | None:
        """See ``Maintained``. Mostly a change leaves all as it is, and to see that takes its rows and memory."""
        rules = sum(base.facts[self.name]["valid"].values())
        if rules * sum(one.rows for one in change.inserts) < _WORTH_A_THREAD:
            return None
        return lambda: leaves_known(ground, base, change, self.space, self.mode, read_known(ground.storage, base))

    def changed(self, ground: Ground, base: Snapshot, change: Change, *, owner: int, seen: Look | None) -> Kept:
        """See ``Maintained``. What a replaced load undoes comes first, so that the verdict is about the load alone."""
        started = time.monotonic()
        facts, dependencies = base.facts[self.name], read_set(ground.storage, base)
        before = read_known(ground.storage, base)
        passage = passage_of(ground, base, change, self.space, self.mode, before, seen)
        other = _newest(ground.storage, base, change.gone) if change.gone else ""
        causes = (self.request.load_id, "") if self.request else (other, change.gone)
        between = passage.after(before, 1)
        undone, _ = self._listed(between, before, passage, 1, dependencies, other, change.gone)
        after = passage.after(between, 2)
        now, moves = self._listed(after, between, passage, 2, undone, *causes)
        if change.gone and not self.request and any(one.since == change.gone for one in now):
            known = [one for one in now if one.until is None or one.since != change.gone]
            now = [replace(one, since=other) if one.since == change.gone else one for one in known]
        files = write_patterns(ground.storage, self.space, after, owner, difference(self.space, before, after))
        if now is not dependencies or after is not before:
            file = set_file(base)
            if now is not dependencies:
                file = write_set(ground.storage, owner, now)
                files.append(file)
            facts = self._facts(after, now, file)
        facts = _with_covers(facts, passage.covers(after))
        ground.drafts.extend(files)
        held = self._carried(between, after, undone)
        found_now = Found(facts, moves, held, after, self.space, passage, self.rules.dependencies)
        if self.request:
            passage.count(after, found_now.to_count)
        return Kept(files, facts, (), found_now, {"dependencies": round(time.monotonic() - started, 3)})

    def judged(self, verdict: Verdict, kept: Kept, names: RowNames) -> Verdict:
        """See ``Maintained``."""
        dependencies = judged_dependencies(verdict.dependencies, kept.found, names)
        return replace(verdict, dependencies=replace(dependencies, seconds=kept.seconds["dependencies"]))

    def rejected(self, verdict: Verdict, stays: Snapshot) -> Verdict:
        """See ``Maintained``."""
        facts = stays.facts[self.name]
        told = replace(verdict.dependencies, valid=dict(facts["valid"]), complete=not facts["because"])
        return replace(verdict, dependencies=replace(told, because=facts["because"]))

    def problems(self, ground: Ground, snapshot: Snapshot) -> Iterator[str]:
        """See ``Maintained``."""
        return problems_of(ground, snapshot, self.space)


def _with_covers(facts: Mapping[str, Any], covers: Sequence[Cover]) -> dict[str, Any]:
    """Facts that name the indexes in which the next load looks for partners of its rows; it makes those that lack."""
    others = {name: fact for name, fact in facts.items() if name != "covers"}
    return {**others, "covers": [one.to_dict() for one in covers]} if covers else others


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
