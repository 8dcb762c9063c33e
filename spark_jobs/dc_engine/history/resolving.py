"""What a load that comes last does to the rows of a state: each of its deletes finds a row, or none."""

from __future__ import annotations

import numpy as np

from dc_engine.detection.codes import whole
from dc_engine.detection.plan import Plan
from dc_engine.detection.resolve import resolving
from dc_engine.detection.rows import ROW_ID, read_rows
from dc_engine.detection.sizing import make_work
from dc_engine.engines.base import Engine
from dc_engine.engines.work import resolve
from dc_engine.history.change import Attempt, Change
from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.snapshots import Snapshot
from dc_engine.state.storage import Storage


def resolved(engine: Engine, storage: Storage, base: Snapshot, plan: Plan, attempt: Attempt) -> Change:
    """The change that a load makes."""
    staged = attempt.staged
    replaces = attempt.duplicate_keys == "replace" and plan.key
    if not staged.deleted and not (replaces and staged.inserted):
        return Change(inserts=staged.inserts, rows=staged.inserted)
    inserts = staged.inserts if replaces else []
    part = resolving(plan)
    files = {index_id: tuple(base.files_of(FileKind.INDEX, index_id)) for index_id in part.indexes}
    work = make_work(storage, part, attempt.number, files, None, inserts=inserts, deletes=staged.deletes)
    documents = resolve(engine, work, base.files_of(FileKind.ROWS))
    found = [one.file for one in documents if one.deleted or one.replaced]
    replaced = sum(one.replaced for one in documents)
    deleted = sum(one.deleted for one in documents) + replaced
    return Change(
        inserts=staged.inserts,
        deletes=found,
        rows=staged.inserted - deleted,
        turned=_ids(storage, found),
        lines=[one.file for one in documents if one.file.rows],
        deleted=deleted,
        missing=sum(one.missing for one in documents),
        replaced=replaced,
        named=[row for one in documents for row in one.named],
        scratch=staged.deletes,
    )


def _ids(storage: Storage, files: list[DataFile]) -> np.ndarray:
    parts = [whole(rows.column(ROW_ID)).to_numpy() for rows in read_rows(storage, files, [])]
    return np.concatenate([np.zeros(0, np.int64), *parts])
