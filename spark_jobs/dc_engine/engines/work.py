"""The three kinds of work that an engine moves: detect, resolve, compact."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from dc_engine.detection.compact import Compact, Merge
from dc_engine.detection.documents import Deleted, Document, Written
from dc_engine.detection.resolve import Resolve
from dc_engine.detection.sizing import encoders, size_of
from dc_engine.detection.steps import Encode, Probe, ReportStep
from dc_engine.detection.work import Work
from dc_engine.engines.base import Engine, Here
from dc_engine.errors import counted
from dc_engine.state.files import DataFile
from dc_engine.state.storage import Storage

log = logging.getLogger("airflow_dc_provider.engine")


def detect(engine: Engine, work: Work) -> list[Document]:
    """Run a change through encode, probe and report; returns the report's documents, none when nobody looks at it."""
    if not work.plan.groups:
        return []
    tasks, count = engine.tasks(*size_of(work)), encoders(work)
    where = "in the driver" if isinstance(tasks, Here) else "by Spark's workers"
    rows, size = size_of(work)
    log.info("%s, %s of indexes: checked %s", counted(rows, "row"), counted(size, "byte"), where)
    steps = (Encode(work, count), (work.probe_tasks, Probe(work)), (work.report_tasks, ReportStep(work)))
    return tasks.documents(work.storage, count, *steps)


def resolve(engine: Engine, work: Work, rows: Sequence[DataFile]) -> list[Deleted]:
    """Find the rows that a load deletes."""
    tasks, count = engine.tasks(*size_of(work)), encoders(work)
    step = Resolve(work, tuple(rows), threads=isinstance(tasks, Here))
    documents = tasks.documents(work.storage, count, Encode(work, count), (work.probe_tasks, step))
    return [one for one in documents if isinstance(one, Deleted)]


def compact(engine: Engine, storage: Storage, merges: Sequence[Merge]) -> list[DataFile]:
    """Merge files, each merge one task."""
    entries = sum(file.rows for merge in merges for file in merge.files)
    size = sum(file.size for merge in merges for file in merge.files)
    documents = engine.tasks(entries, size).documents(storage, len(merges), Compact(storage, tuple(merges)))
    return [one.file for one in documents if isinstance(one, Written)]
