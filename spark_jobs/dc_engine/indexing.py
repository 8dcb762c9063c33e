"""Indexes for constraints that were added, built from the rows that are in the state."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from dc_engine.constraints.model import Constraint, ConstraintSet
from dc_engine.continuity import added_constraints, carried_totals
from dc_engine.detection.documents import TakenKeys
from dc_engine.detection.plan import Plan
from dc_engine.detection.sizing import make_work
from dc_engine.engines.base import Engine
from dc_engine.engines.work import detect
from dc_engine.errors import ConstraintError
from dc_engine.judging import add_up
from dc_engine.request import Changes
from dc_engine.state.drafts import Drafts
from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.parquet import Reader
from dc_engine.state.snapshots import Snapshot
from dc_engine.state.storage import Storage

log = logging.getLogger("airflow_dc_provider.apply_load")


@dataclass(slots=True)
class Indexed:
    """What was built for constraints that were added."""

    files: list[DataFile] = field(default_factory=list)
    totals: dict[str, int] = field(default_factory=dict)
    """How many violations each of them has among the rows in the state."""


def missing_indexes(snapshot: Snapshot, plan: Plan) -> set[str]:
    """The indexes that a plan needs and the state lacks."""
    if not snapshot.rows:
        return set()
    return set(plan.indexes) - {file.owner for file in snapshot.files_of(FileKind.INDEX)}


def index_rows(
    engine: Engine, storage: Storage, snapshot: Snapshot, plan: Plan, added: Sequence[Constraint]
) -> Indexed:
    """Count the violations of added constraints among the rows in the state, and write the indexes that lack."""
    missing = missing_indexes(snapshot, plan)
    names = {one.name for one in added}
    groups = []
    for group in plan.groups:
        constraints = tuple(one for one in group.constraints if one.name in names)
        if constraints or any(index.id in missing for index in group.indexes):
            groups.append(replace(group, constraints=constraints))
    if not groups:
        return Indexed()
    rows, dead = snapshot.files_of(FileKind.ROWS), snapshot.files_of(FileKind.DEAD)
    part = plan.only(groups)
    work = make_work(storage, part, 0, {}, None, inserts=rows, dead=dead, writes=missing)
    documents = detect(engine, work)
    twice = [one for one in documents if isinstance(one, TakenKeys)]
    if twice:
        key = ", ".join(plan.key)
        raise ConstraintError(
            f"The key ({key}) is not unique among the rows loaded before: {sum(one.twice for one in twice)} of its "
            "values stand there more than once.",
            hint="Choose a key that names one row.",
        )
    findings, files = add_up(documents, 1 + max((one.number for one in plan.constraints), default=0))
    totals = {one.name: findings[one.number].new_violations for group in groups for one in group.constraints}
    return Indexed(files, totals)


def unknown_columns(storage: Storage, snapshot: Snapshot, plan: Plan, staged: Sequence[DataFile]) -> list[str]:
    """Columns that a plan reads, and that are not known of all rows in the state, or not in today's type."""
    today = {one.name: one.type for file in staged[:1] for one in Reader(storage, file).schema}
    unknown: set[str] = set()
    by_columns = {file.owner: file for file in snapshot.files_of(FileKind.ROWS) if snapshot.rows}
    for file in by_columns.values():
        known = {one.name: one.type for one in Reader(storage, file).schema}
        unknown |= {name for name in plan.columns if name not in known or today.get(name, known[name]) != known[name]}
    return sorted(unknown)


def with_added_rules(
    engine: Engine,
    storage: Storage,
    before: Snapshot,
    plan: Plan,
    rules: ConstraintSet,
    staged: Sequence[DataFile],
    table: Changes | None,
    drafts: Drafts,
) -> tuple[Snapshot, dict[str, int]]:
    """The snapshot with indexes for what was added to the constraints, and all violations of each so far."""
    added = added_constraints(before, rules)
    carried = carried_totals(before, rules)
    if set(plan.columns) - set(before.schema) and before.files_of(FileKind.ROWS):
        unknown = unknown_columns(storage, before, plan, staged)
        if unknown:
            before = _with_columns_of_table(engine, storage, before, plan, rules, unknown, table, drafts)
    if not added and not missing_indexes(before, plan):
        return before, carried
    log.info("indexing %s rows for what was added to the constraints", before.rows)
    indexed = index_rows(engine, storage, before, plan, added)
    drafts += indexed.files
    return replace(before, files=[*before.files, *indexed.files]), {**carried, **indexed.totals}


def _with_columns_of_table(
    engine: Engine,
    storage: Storage,
    before: Snapshot,
    plan: Plan,
    rules: ConstraintSet,
    unknown: list[str],
    table: Changes | None,
    drafts: Drafts,
) -> Snapshot:
    """The snapshot with rows that have columns which were not kept so far."""
    if table is None:
        lacking = {name.lower() for name in unknown}
        users = [
            f"constraint '{one.name}'" for one in rules.constraints if {name.lower() for name in one.columns} & lacking
        ]
        raise ConstraintError(
            f"Column {', '.join(map(repr, unknown))}, which {users[0] if users else 'the key'} needs, is not known "
            f"of the {before.rows:,} rows that are in the state, or not in the type that it has now.",
            hint="Give the whole table, as it was before this load, as 'table' in the request.",
        )
    log.info("reading column %s of the rows that are there from %s", ", ".join(unknown), table)
    widened = engine.widen(storage, before, plan, table)
    drafts += widened
    return replace(before, files=[*(one for one in before.files if one.kind is not FileKind.ROWS), *widened])
