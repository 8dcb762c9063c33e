"""Indexes for added constraints, built from the rows in the state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from dc_engine.constraints.model import Constraint
from dc_engine.detection.documents import TakenKeys
from dc_engine.detection.plan import Plan
from dc_engine.detection.sizing import make_work
from dc_engine.engines.base import Engine
from dc_engine.engines.work import detect
from dc_engine.errors import ConstraintError, counted
from dc_engine.maintained.judging import add_up
from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.snapshots import Snapshot
from dc_engine.state.storage import Storage


@dataclass(slots=True)
class Indexed:
    """What was built for added constraints."""

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
    """Count the violations of added constraints among the rows in the state, and write the missing indexes."""
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
        key, values = ", ".join(plan.key), counted(sum(one.twice for one in twice), "value")
        raise ConstraintError(
            f"The key ({key}) is not unique among the rows loaded before: it repeats {values}.",
            hint="Choose a key that names one row.",
        )
    findings, files = add_up(documents, 1 + max((one.number for one in plan.constraints), default=0))
    totals = {one.name: findings[one.number].new_violations for group in groups for one in group.constraints}
    return Indexed(files, totals)


def index_files(snapshot: Snapshot, plan: Plan) -> dict[str, tuple[DataFile, ...]]:
    """The runs of each index of a plan in which a load looks something up."""
    ids = {index.id for group in plan.groups if group.reads for index in group.indexes}
    return {index_id: tuple(snapshot.files_of(FileKind.INDEX, index_id)) for index_id in ids}
