"""The Spark side of detection: stage a load, then encode, probe and report it in one job. DataFrame API only."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from spark_jobs.detection.encode import Spread
from spark_jobs.detection.plan import Plan
from spark_jobs.detection.sources import first_line, kept, row_hash, spark_errors
from spark_jobs.detection.staging import (
    CHANGE_TYPE,
    ROW_GROUP,
    ROW_HASHES,
    Stage,
    StagedLoad,
    gather,
    raise_from,
)
from spark_jobs.detection.steps import DOCUMENT_SCHEMA, Encode, Probe, ReportStep
from spark_jobs.detection.work import MESSAGE_SCHEMA, Work
from spark_jobs.errors import ChangesError
from spark_jobs.request import Changes, Request
from spark_jobs.state.snapshots import DataFile
from spark_jobs.state.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_UNIT_ROWS = 131_072
_UNIT_ENTRIES = 524_288
_SHARE_ENTRIES = 2_097_152
_PROBE_ROWS = 524_288
_REPORT_ROWS = 1_048_576
_REPORT_CONSTRAINTS = 50
_MOST_ENCODERS = 64


def stage_load(
    changes: DataFrame, source: Changes, storage: Storage, load: int, plan: Plan, types: Mapping[str, str]
) -> StagedLoad:
    """Read the changes once: write their rows to the state and make their fingerprint."""
    return _run_stage(changes, source, Stage(storage, load, plan.columns), types)


def fingerprint_load(changes: DataFrame, source: Changes, storage: Storage, types: Mapping[str, str]) -> StagedLoad:
    """Read the changes and make their fingerprint; nothing is written."""
    return _run_stage(changes, source, Stage(storage, 0, ()), types)


def _run_stage(changes: DataFrame, source: Changes, stage: Stage, types: Mapping[str, str]) -> StagedLoad:
    from pyspark.errors import PythonException

    hashes = [row_hash(changes, name).alias(name) for name in ROW_HASHES]
    change_type = [changes[CHANGE_TYPE].alias(CHANGE_TYPE)] if CHANGE_TYPE in map(str.lower, types) else []
    rows = changes.select(*kept(changes, stage.columns), *change_type, *hashes)
    try:
        collected = rows.mapInArrow(stage, DOCUMENT_SCHEMA).collect()
    except PythonException:
        raise
    except spark_errors() as error:
        raise ChangesError(
            f"The changes ({source}) cannot be read: {first_line(error)}",
            hint="The source was found, but reading its rows failed; the Spark log has the details.",
        ) from error
    return gather([row["document"] for row in collected], stage.load, list(types.items()))


def spread_of(plan: Plan, index_files: Mapping[str, tuple[DataFile, ...]], rows: int) -> dict[int, Spread]:
    """Cut each group so that a probe has a bounded number of rows and entries to look at."""
    spread = {}
    for group in plan.groups:
        entries = sum(file.rows for index in group.indexes for file in index_files.get(index.id, ()))
        by_rows = math.ceil(max(rows, 1) / _UNIT_ROWS)
        if not group.indexes:
            spread[group.number] = Spread(by_rows, 1)
        elif group.indexes[0].key:
            spread[group.number] = Spread(max(by_rows, math.ceil(entries / _UNIT_ENTRIES)), 1)
        else:
            spread[group.number] = Spread(1, math.ceil(max(entries, 1) / _SHARE_ENTRIES))
    return spread


def make_work(
    storage: Storage,
    plan: Plan,
    load: int,
    staged: StagedLoad,
    index_files: Mapping[str, tuple[DataFile, ...]],
    request: Request,
) -> Work:
    """What the workers need to know, with the work cut up by its size."""
    spread = spread_of(plan, index_files, staged.rows)
    first_units = dict(zip(spread, accumulate((one.units for one in spread.values()), initial=0), strict=False))
    units = sum(one.units for one in spread.values())
    writers: dict[str, int] = {}
    for group in plan.groups:
        for index in group.indexes:
            writers.setdefault(index.id, group.number)
    entries = sum(file.rows for files in index_files.values() for file in files)
    added = staged.rows * len(plan.groups)
    return Work(
        storage=storage,
        plan=plan,
        load=load,
        staged=tuple(staged.files),
        index_files=index_files,
        spread=spread,
        first_units=first_units,
        writers=writers,
        probe_tasks=min(units, math.ceil(max(entries + added, 1) / _PROBE_ROWS)),
        report_tasks=math.ceil(max(added / _REPORT_ROWS, len(plan.constraints) / _REPORT_CONSTRAINTS)),
        max_listed=request.max_listed,
        max_samples=request.max_samples,
        mask=request.mask,
    )


def detect(spark: SparkSession, work: Work) -> list[dict[str, Any]]:
    """Run a load through encode, probe and report; returns the report's documents."""
    encoders = min(sum(math.ceil(file.rows / ROW_GROUP) for file in work.staged), _MOST_ENCODERS)
    if not encoders:
        return []
    chunks = spark.range(0, encoders, 1, encoders).mapInArrow(Encode(work, encoders), MESSAGE_SCHEMA)
    facts = chunks.repartitionById(work.probe_tasks, chunks["task"]).mapInArrow(Probe(work), MESSAGE_SCHEMA)
    report = facts.repartitionById(work.report_tasks, facts["task"]).mapInArrow(ReportStep(work), DOCUMENT_SCHEMA)
    documents = [json.loads(row["document"]) for row in report.collect()]
    for document in documents:
        if document["kind"] == "error":
            raise_from(document)
    return documents
