"""The Spark side of detection: stage a load, then encode, probe and report it in one job. DataFrame API only."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dc_engine.detection.compact import Compact, Merge
from dc_engine.detection.encode import Spread
from dc_engine.detection.parquet import bytes_a_row
from dc_engine.detection.plan import Group, Plan
from dc_engine.detection.resolve import Resolve
from dc_engine.detection.sources import kept, row_hash, spark_errors
from dc_engine.detection.staging import (
    CHANGE_TYPE,
    ROW_GROUP,
    ROW_HASHES,
    Stage,
    StagedLoad,
    gather,
    raise_from,
)
from dc_engine.detection.steps import DOCUMENT_SCHEMA, Encode, Probe, ReportStep
from dc_engine.detection.work import MESSAGE_SCHEMA, NOTHING_UNDONE, Undone, Work
from dc_engine.errors import ChangesError
from dc_engine.masking import told
from dc_engine.request import Changes, Request
from dc_engine.state.snapshots import DataFile, data_file
from dc_engine.state.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_UNIT_ROWS = 131_072
_UNIT_ENTRIES = 524_288
_SHARE_ENTRIES = 2_097_152
_UNIT_BYTES = 16 * 2**20
_SHARE_BYTES = 256 * 2**20
_PROBE_ROWS = 524_288
_PROBE_BYTES = 32 * 2**20
_REPORT_ROWS = 1_048_576
_REPORT_CONSTRAINTS = 50
_MOST_ENCODERS = 64
_RESOLVED_HERE = 50_000


def stage_load(
    changes: DataFrame,
    source: Changes,
    storage: Storage,
    load: int,
    plan: Plan,
    types: Mapping[str, str],
    *,
    mask: Collection[str] = (),
) -> StagedLoad:
    """Read the changes once: write their rows to the state and make their fingerprint."""
    columns = dict(zip(plan.columns, plan.types, strict=True))
    return _run_stage(changes, source, Stage(storage, load, plan.columns), columns, types, mask)


def fingerprint_load(
    changes: DataFrame, source: Changes, types: Mapping[str, str], *, mask: Collection[str] = ()
) -> str:
    """Read the changes and make their fingerprint; nothing is written."""
    return _run_stage(changes, source, Stage(None, 0, ()), {}, types, mask).fingerprint


def _run_stage(
    changes: DataFrame,
    source: Changes,
    stage: Stage,
    columns: Mapping[str, str],
    types: Mapping[str, str],
    mask: Collection[str],
) -> StagedLoad:
    from pyspark.errors import PythonException

    hashes = [row_hash(changes, name).alias(name) for name in ROW_HASHES]
    change_type = [changes[CHANGE_TYPE].alias(CHANGE_TYPE)] if CHANGE_TYPE in map(str.lower, types) else []
    rows = changes.select(*kept(changes, columns), *change_type, *hashes)
    try:
        collected = rows.mapInArrow(stage, DOCUMENT_SCHEMA).collect()
    except PythonException:
        raise
    except spark_errors() as error:
        raise ChangesError(
            f"The changes ({source}) cannot be read: {told(error, mask)}",
            hint="The source was found, but reading its rows failed; the Spark log has the details.",
        ) from (None if mask else error)
    return gather([row["document"] for row in collected], stage.storage, stage.load, list(types.items()))


def spread_of(
    storage: Storage, group: Group, files: Sequence[DataFile], rows: int, row_bytes: Mapping[str, float]
) -> Spread:
    """Cut a group so that a probe has a bounded number of rows and entries, and of their bytes, to look at."""
    entries = sum(file.rows for file in files)
    by_rows = math.ceil(max(rows, 1) * max(1 / _UNIT_ROWS, _width(group, row_bytes) / _UNIT_BYTES))
    if not group.indexes:
        return Spread(by_rows, 1)
    if group.indexes[0].key:
        return Spread(max(by_rows, math.ceil(entries / _UNIT_ENTRIES)), 1)
    width = _width(group, bytes_a_row(storage, files))
    return Spread(1, math.ceil(max(entries, 1) * max(1 / _SHARE_ENTRIES, width / _SHARE_BYTES)))


def _width(group: Group, bytes_a_row: Mapping[str, float]) -> float:
    """How many bytes a row has in the columns of a group."""
    return sum(bytes_a_row.get(name, 0) for name in group.columns)


def make_work(
    storage: Storage,
    plan: Plan,
    load: int,
    index_files: Mapping[str, tuple[DataFile, ...]],
    request: Request | None,
    *,
    inserts: Sequence[DataFile] = (),
    deletes: Sequence[DataFile] = (),
    undone: Undone = NOTHING_UNDONE,
    dead: Sequence[DataFile] = (),
    writes: Collection[str] | None = None,
    runs_of: int | None = None,
) -> Work:
    """What the workers need to know, with the work cut up by its size.

    Without request nothing is listed; ``writes`` are the indexes to write when they are not all.
    """
    changed = (*inserts, *deletes, *undone.inserts, *undone.deletes)
    rows, row_bytes = sum(file.rows for file in changed), bytes_a_row(storage, changed)
    files = {
        group.number: [one for index in group.indexes for one in index_files.get(index.id, ())] for group in plan.groups
    }
    spread = {group.number: spread_of(storage, group, files[group.number], rows, row_bytes) for group in plan.groups}
    first_units = dict(zip(spread, accumulate((one.units for one in spread.values()), initial=0), strict=False))
    units = sum(one.units for one in spread.values())
    writers: dict[str, int] = {}
    for group in plan.groups:
        for index in group.indexes:
            if writes is None or index.id in writes:
                writers.setdefault(index.id, group.number)
    entries = sum(file.rows for files in index_files.values() for file in files)
    added = rows * len(plan.groups)
    added_bytes = rows * sum(_width(group, row_bytes) for group in plan.groups)
    probe_tasks = math.ceil(max((entries + added) / _PROBE_ROWS, added_bytes / _PROBE_BYTES, 1))
    return Work(
        storage=storage,
        plan=plan,
        load=load,
        runs_of=load if runs_of is None else runs_of,
        inserts=tuple(inserts),
        deletes=tuple(deletes),
        undone=undone,
        dead=tuple(dead),
        index_files=index_files,
        spread=spread,
        first_units=first_units,
        writers=writers,
        probe_tasks=min(units, probe_tasks),
        report_tasks=math.ceil(max(added / _REPORT_ROWS, len(plan.constraints) / _REPORT_CONSTRAINTS, 1)),
        max_listed=request.max_listed if request else 0,
        max_samples=request.max_samples if request else 0,
        mask=request.mask if request else (),
        lists=request is not None,
    )


def detect(spark: SparkSession, work: Work) -> list[dict[str, Any]]:
    """Run a load through encode, probe and report; returns the report's documents."""
    tasks = _encoders(work)
    if not tasks:
        return []
    chunks = _chunks(spark, work, tasks)
    facts = chunks.repartitionById(work.probe_tasks, chunks["task"]).mapInArrow(Probe(work), MESSAGE_SCHEMA)
    report = facts.repartitionById(work.report_tasks, facts["task"]).mapInArrow(ReportStep(work), DOCUMENT_SCHEMA)
    return _collected(work.storage, [row["document"] for row in report.collect()])


def resolve(spark: SparkSession, work: Work, rows: Sequence[DataFile]) -> list[dict[str, Any]]:
    """Find the rows that a load deletes; of a small load right here, sooner than Spark could start a task."""
    tasks = _encoders(work)
    here = sum(file.rows for file in (*work.inserts, *work.deletes)) <= _RESOLVED_HERE
    step = Resolve(work, tuple(rows), threads=here)
    if here:
        batches = Encode(work, 1)([pa.RecordBatch.from_pydict({"id": [0]})])
        texts = [text for batch in step(batches) for text in batch.column(0).to_pylist()]
    else:
        chunks = _chunks(spark, work, tasks)
        found = chunks.repartitionById(work.probe_tasks, chunks["task"]).mapInArrow(step, DOCUMENT_SCHEMA)
        texts = [row["document"] for row in found.collect()]
    return _collected(work.storage, texts)


def compact(spark: SparkSession, storage: Storage, merges: Sequence[Merge]) -> list[DataFile]:
    """Merge runs, each merge one task or several."""
    if not merges:
        return []
    step = Compact(storage, tuple(merges))
    merged = spark.range(0, len(merges), 1, len(merges)).mapInArrow(step, DOCUMENT_SCHEMA)
    texts = [row["document"] for row in merged.collect()]
    return [data_file(one["file"]) for one in _collected(storage, texts)]


def _encoders(work: Work) -> int:
    return min(sum(math.ceil(file.rows / ROW_GROUP) for file, _ in work.changed), _MOST_ENCODERS)


def _chunks(spark: SparkSession, work: Work, tasks: int) -> DataFrame:
    return spark.range(0, tasks, 1, tasks).mapInArrow(Encode(work, tasks), MESSAGE_SCHEMA)


def _collected(storage: Storage, texts: Sequence[str]) -> list[dict[str, Any]]:
    """What the workers report. An error among it is raised, and what the others wrote is removed."""
    documents = [json.loads(text) for text in texts]
    for error in documents:
        if error["kind"] == "error":
            for document in documents:
                if document.get("file"):
                    storage.remove(document["file"]["path"])
            raise_from(error)
    return documents
