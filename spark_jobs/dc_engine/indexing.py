"""Indexes for constraints that were added, built from the rows that are in the state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from dc_engine.constraints.model import Constraint
from dc_engine.detection.parquet import Reader
from dc_engine.detection.plan import Plan
from dc_engine.detection.spark import detect, make_work
from dc_engine.errors import ConstraintError
from dc_engine.judging import add_up
from dc_engine.state.snapshots import DataFile, Snapshot
from dc_engine.state.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
    return set(plan.indexes) - {file.owner for file in snapshot.files if file.kind == "index"}


def index_rows(
    spark: SparkSession, storage: Storage, snapshot: Snapshot, plan: Plan, added: Sequence[Constraint]
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
    rows = snapshot.files_of("rows")
    dead = [*snapshot.files_of("deletes"), *snapshot.files_of("dead")]
    part = plan.only(groups)
    work = make_work(storage, part, 0, {}, None, inserts=rows, dead=dead, writes=missing)
    documents = detect(spark, work)
    twice = [one for one in documents if one["kind"] == "keys"]
    if twice:
        key = ", ".join(plan.key)
        raise ConstraintError(
            f"The key ({key}) is not unique among the rows loaded before: {sum(one['twice'] for one in twice)} of its "
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
    for file in snapshot.files_of("rows") if snapshot.rows else []:
        known = {one.name: one.type for one in Reader(storage, file).schema}
        unknown |= {name for name in plan.columns if name not in known or today.get(name, known[name]) != known[name]}
    return sorted(unknown)
