"""The first part of a load: its rows are read, compared with what was applied before, and staged."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dc_engine.constraints.files import check_columns, load_constraints, to_mapping
from dc_engine.constraints.model import ConstraintSet
from dc_engine.constraints.reserved import CHANGE_TYPE
from dc_engine.detection.plan import Plan
from dc_engine.detection.planning import make_plan
from dc_engine.detection.staging import StagedLoad
from dc_engine.detection.zones import with_zones
from dc_engine.engines.base import Source, Staging
from dc_engine.errors import DcError, StateError, counted
from dc_engine.history.change import Attempt
from dc_engine.history.replay import needs_replay
from dc_engine.history.retract import is_newest, without_newest
from dc_engine.job import Clock
from dc_engine.maintained.base import Ground
from dc_engine.maintained.continuity import check_mask, check_table, check_types
from dc_engine.maintained.everything import further_columns, further_indexes, recognises
from dc_engine.request import Request
from dc_engine.state.loads import Load
from dc_engine.state.snapshots import Snapshot, read_current, without_load
from dc_engine.stored import verdict_of
from dc_engine.verdict import Verdict

log = logging.getLogger("airflow_dc_provider.apply_load")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A staged load, and the state that it meets."""

    current: Snapshot
    applied: Load | None
    """An earlier attempt of it."""
    before: Snapshot
    """The state without that attempt, if the attempt's files are its own."""
    older: Load | None
    """The attempt, if they are not and it is still in that state."""
    rows: Source
    rules: ConstraintSet
    attempt: Attempt
    plan: Plan
    approved: bool
    """Whether a person approved that very attempt, which was discarded: its rows are kept now."""

    @property
    def staged(self) -> StagedLoad:
        """Its rows."""
        return self.attempt.staged

    @property
    def in_force(self) -> dict[str, Any]:
        """What a snapshot says about the constraints and columns in force."""
        return {"constraints": to_mapping(self.rules), "schema": self.plan.schema}


def prepare(ground: Ground, request: Request, clock: Clock) -> Prepared | Verdict:
    """Read the changes and stage them; returns the stored verdict if they were applied before."""
    engine, storage = ground.engine, ground.storage
    rules = load_constraints(request.constraints)
    with clock.step("read"):
        current = read_current(storage) or Snapshot(number=0, parent=None, table=rules.table)
        rows = engine.read(request.changes, mask=request.mask)
        types = engine.types(rows, request.changes)
    check_table(current, rules, state=request.state)
    check_mask(request.mask, [*types, *current.schema], lacking=f"the changes ({request.changes}) do not have")
    applied = current.loads(storage).find(request.load_id)
    asked = Staging(request.changes, types, mask=request.mask)
    try:
        rules, plan = _plan(ground, request, rules, current, types)
    except DcError:
        known = applied is not None and engine.stage(rows, asked).fingerprint == applied.fingerprint
        if applied is None or not known or _approves(request, applied):
            raise
        return _stored_verdict(ground, request, applied)
    with clock.step("stage"):
        staged = engine.stage(rows, replace(asked, storage=storage, load=current.number + 1, columns=plan.schema))
    ground.drafts.extend([*staged.inserts, *staged.deletes])
    again = applied is not None and staged.fingerprint == applied.fingerprint
    if request.approved is not None and not again:
        raise StateError(
            f"Load '{request.load_id}' was approved, but its rows have changed since: they were not let in.",
            hint="Apply it without the approval: somebody can decide about the rows that are there now.",
        )
    approved = again and _approves(request, applied)
    if applied is not None and again and not approved:
        ground.drafts.remove_all(storage)
        return _stored_verdict(ground, request, applied)
    if staged.inserted:
        others = further_columns(current.facts)
        check_columns(rules, types, source=f"the changes ({request.changes})", others=others)
    counts = (counted(staged.inserted, "row"), staged.deleted, counted(current.rows, "row"))
    log.info("load %s: %s inserted, %s deleted, on top of %s", request.load_id, *counts)
    if approved:
        log.info("load %s was approved: the rows that were discarded are kept now", request.load_id)
    before, older = _without_attempt(ground, current, applied)
    attempt = Attempt(request.load_id, current.number + 1, staged, request.missing_deletes, request.duplicate_keys)
    if recognises(current) or _needs_identities(ground, before, older, attempt, plan):
        plan = plan.recognising()
    return Prepared(current, applied, before, older, rows, rules, attempt, plan, approved)


def _approves(request: Request, applied: Load | None) -> bool:
    """Whether the request approves the attempt that was applied, and that attempt was discarded."""
    asked = request.approved
    return applied is not None and applied.discarded and asked is not None and asked.snapshot == applied.number


def _plan(
    ground: Ground, request: Request, rules: ConstraintSet, current: Snapshot, types: Mapping[str, str]
) -> tuple[ConstraintSet, Plan]:
    """The rules as this session reads them, and the plan for the load."""
    schema = _schema(rules, current, types)
    settled = with_zones(rules, schema, ground.engine.instant)
    if settled != rules:  # two pinned rules may say the same now; a state with such rules could not be read again
        load_constraints(to_mapping(settled))
    others = further_columns(current.facts)
    check_columns(settled, schema, source=f"the changes ({request.changes})", others=others)
    check_columns(ConstraintSet(settled.table, settled.key, ()), types, source=f"the changes ({request.changes})")
    check_types(current, types)
    plan = make_plan(settled, schema, [name for columns in others.values() for name in columns])
    return settled, plan.keeping(further_indexes(current.facts))


def _schema(rules: ConstraintSet, snapshot: Snapshot, types: Mapping[str, str]) -> dict[str, str]:
    """The columns by the names that the state uses, whatever their case in this load, with their types."""
    known = {name.lower(): name for name in snapshot.schema}
    schema = {known.get(name.lower(), name): spark_type for name, spark_type in types.items()}
    if rules.key and CHANGE_TYPE in map(str.lower, types):
        return {**snapshot.schema, **schema}  # deletes may give the key alone
    return schema


def _without_attempt(ground: Ground, current: Snapshot, applied: Load | None) -> tuple[Snapshot, Load | None]:
    """The snapshot to start from, and an earlier attempt that is still in it because it shares files."""
    before, older = current, None
    if applied is not None:
        log.info("load %s was applied before: replacing that attempt", applied.load_id)
        if applied.discarded:
            before = without_load(current, applied)
        elif is_newest(ground.storage, current, applied):
            before = without_newest(current, applied)
        else:
            older = applied
    if not before.rows:  # what its runs add and take away cancels out, perhaps in outdated types
        before = replace(before, files=[one for one in before.files if not one.kind.derived])
    return before, older


def _needs_identities(ground: Ground, before: Snapshot, older: Load | None, attempt: Attempt, plan: Plan) -> bool:
    """Whether rows have to be recognised: an index of their identities is needed for that."""
    if older is None:
        return attempt.staged.deleted > 0
    later = before.loads(ground.storage).since(older.place + 1)
    # rows rewritten with columns of the table are no longer in files of their own
    return bool(set(plan.columns) - set(before.schema)) or needs_replay(older, later, attempt)


def _stored_verdict(ground: Ground, request: Request, applied: Load) -> Verdict:
    """The verdict of a load that was applied before with the same changes."""
    log.info("load %s was applied before with the same changes: nothing to do", request.load_id)
    return replace(verdict_of(ground.storage, applied, request.mask), replayed=True)
