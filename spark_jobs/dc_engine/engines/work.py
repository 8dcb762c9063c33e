"""The four kinds of work that an engine moves: detect, resolve, compact, search."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

from dc_engine.detection.compact import Compact, Merge
from dc_engine.detection.documents import Deleted, Document, Failed, Met, Written, from_text
from dc_engine.detection.resolve import Resolve
from dc_engine.detection.sizing import encoders, size_of
from dc_engine.detection.steps import Encode, Probe, ReportStep
from dc_engine.detection.work import Work
from dc_engine.discovery.spreading import Lines, Units, Workers, lines_of
from dc_engine.engines.base import Engine, Here, Tasks
from dc_engine.errors import counted
from dc_engine.sizes import SIZES
from dc_engine.state.files import DataFile
from dc_engine.state.storage import Storage

log = logging.getLogger("airflow_dc_provider.engine")


def detect(engine: Engine, work: Work) -> list[Document]:
    """Run a change through encode, probe and report; returns the report's documents, none when nobody looks at it."""
    if not work.plan.groups:
        return []
    (rows, size), count = size_of(work), encoders(work)
    tasks = engine.tasks(rows, size)
    where = "in the driver" if isinstance(tasks, Here) else "by Spark's workers"
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


def searchers(engine: Engine) -> Workers:
    """Who does the large work of a search for dependencies: tasks of an engine."""

    def crew(pairs: float, nbytes: int) -> _Crew | None:
        tasks = engine.searching(pairs, nbytes) if pairs else None
        return None if tasks is None else _Crew(tasks, math.ceil(pairs / SIZES.unit_pairs))

    return crew


@dataclass(frozen=True, slots=True)
class _Crew:
    """Tasks that each do a unit of a search. See ``Crew``."""

    tasks: Tasks
    units: int

    def run(self, what: str, units: Units) -> list[Lines]:
        """See ``Crew``. The units are shared by several jobs, so that the log can say how many are done."""
        parts = units.parts(max(1, min(SIZES.search_jobs, SIZES.sent_bytes // max(units.search.nbytes, 1))))
        log.info("%s in %s by Spark's workers", what, counted(len(units.units), "part"))
        found: list[Met] = []
        with ThreadPoolExecutor(len(parts)) as pool:
            for job in as_completed([pool.submit(self.tasks.run, len(part.units), part) for part in parts]):
                found += _met(job.result())
                share = {"share": len(found) / len(units.units)}  # for those who draw how far it is
                log.info("%s: %s of %s parts done", what, f"{len(found):,}", f"{len(units.units):,}", extra=share)
        return [lines_of(one) for one in sorted(found, key=lambda one: one.unit)]


def _met(documents: Sequence[str]) -> list[Met]:
    """What units met; an error among them is raised."""
    found: list[Met] = []
    for document in map(from_text, documents):
        if isinstance(document, Failed):
            raise document.error
        assert isinstance(document, Met)
        found.append(document)
    return found
