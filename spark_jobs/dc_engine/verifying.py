"""Check every file of a snapshot: size, checksum, order, counts; the violations; the rows against the table."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from dc_engine.detection.codes import whole
from dc_engine.detection.dead import is_alive, read_dead
from dc_engine.detection.documents import Checked, as_batch
from dc_engine.detection.rows import row_ids
from dc_engine.detection.runs import HASH, ROW_IDS, ROWS
from dc_engine.engines.base import Engine
from dc_engine.errors import DcError, counted
from dc_engine.maintained.base import Ground
from dc_engine.maintained.everything import everything_of, plan_of
from dc_engine.request import Changes
from dc_engine.sizes import SIZES
from dc_engine.state.drafts import needed_files
from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.parquet import Reader
from dc_engine.state.snapshots import Snapshot
from dc_engine.state.storage import Storage


@dataclass(slots=True)
class Verified:
    """What was checked, and what is wrong."""

    files: int = 0
    bytes: int = 0
    checks: int = 0
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class CheckFiles:
    """The step that checks some of the files: the input rows say which share is ours."""

    storage: Storage
    files: tuple[DataFile, ...]
    shares: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for share in batch.column(0).to_pylist():
                yield as_batch([check_file(self.storage, file) for file in self.files[share :: self.shares]])


def check_file(storage: Storage, file: DataFile) -> Checked:
    """Everything that one file tells: what is wrong with it, and what it counts."""
    place = storage.locate(file.path)
    problems: list[str] = []
    rows, ids = 0, 0
    try:
        problems += _altered(storage, file, place)
        if not problems and file.path.endswith(".parquet"):
            rows, ids = _check_parquet(Reader(storage, file), file, place, problems)
    except DcError as error:
        problems.append(error.message)
    return Checked(file.kind, file.owner, rows, ids, problems)


def _altered(storage: Storage, file: DataFile, place: str) -> Iterator[str]:
    """Whether a file has other bytes than the snapshot says; they are not kept while it is read in parts."""
    data = storage.read(file.path)
    if len(data) != file.size:
        yield f"{place} has {counted(len(data), 'byte')}, not {file.size:,}."
    elif hashlib.sha256(data).hexdigest() != file.sha256:
        yield f"{place} was altered: its checksum does not match."


def _check_parquet(reader: Reader, file: DataFile, place: str, problems: list[str]) -> tuple[int, int]:
    """The number of rows that a file claims to have, and for an index the sum of their ids."""
    groups = np.arange(len(reader.group_starts) - 1)
    if file.kind is FileKind.INDEX:
        table = reader.read(groups, [HASH, ROWS, ROW_IDS])
        hashes, counts = (whole(table.column(name)).to_numpy() for name in (HASH, ROWS))
        if (hashes[1:] < hashes[:-1]).any():
            problems.append(f"{place} is not in the order of its hashes.")
        if file.bounds != (hashes[0], hashes[-1]):
            problems.append(f"{place} does not have the bounds that the snapshot says: {file.bounds}.")
        lists = whole(table.column(ROW_IDS))
        lengths = np.diff(lists.offsets.to_numpy())
        if (lengths != np.abs(counts)).any() or not counts.all():
            problems.append(f"{place} has entries whose number of rows does not match their row ids.")
        ids = lists.flatten().to_numpy() * np.repeat(np.sign(counts), lengths)
        return int(counts.sum()), int(ids.sum())
    for portion in reader.portions(groups):
        reader.read(portion, reader.schema.names)
    return file.rows, 0


def verify(
    engine: Engine,
    storage: Storage,
    snapshot: Snapshot,
    table: Changes | None,
    *,
    totals: bool,
    mask: Collection[str] = (),
) -> Verified:
    """Check all files of a snapshot, and that their counts fit together.

    With ``totals``, also that the rows have as many violations as it says; with ``table``, that the table has its rows.
    """
    try:
        files, unreadable = needed_files(storage, snapshot), []
    except DcError as error:  # the records of older loads: nothing else names their files
        files, unreadable = snapshot.files, [error.message]
    result = Verified(len(files), sum(file.size for file in files))
    shares = min(len(files), SIZES.check_tasks)
    documents = engine.tasks(0, result.bytes).documents(storage, shares, CheckFiles(storage, tuple(files), shares))
    checked = [one for one in documents if isinstance(one, Checked)]
    result.checks = 4 * len(files)
    found = [problem for one in checked for problem in one.problems]
    result.problems = found or unreadable
    if not result.problems:
        result.problems += _counts(storage, checked, snapshot)
        result.checks += 1 + len({file.owner for file in snapshot.files_of(FileKind.INDEX)})
    things = everything_of(snapshot) if totals and snapshot.constraints and not result.problems else []
    for one in things:
        result.problems += one.problems(Ground(engine, storage, mask=mask), snapshot)
        result.checks += len(snapshot.facts[one.name])
    if table is not None and not result.problems:
        result.problems += engine.differences(storage, snapshot, table, mask=mask)
        result.checks += 1
    return result


def _counts(storage: Storage, checked: Iterable[Checked], snapshot: Snapshot) -> Iterator[str]:
    """Where the numbers of rows disagree."""
    dead = read_dead(storage, snapshot.files_of(FileKind.DEAD))
    alive, ids = 0, 0
    for file in snapshot.files_of(FileKind.ROWS):
        own = row_ids(storage, [file])
        left = own[is_alive(own, dead)]
        alive, ids = alive + len(left), ids + int(left.sum())
    if alive != snapshot.rows:
        yield f"The files have {counted(alive, 'row')}, the snapshot says {snapshot.rows:,}."
    sums = {owner: [0, 0] for owner in _needed_indexes(snapshot)}
    for one in checked:
        if one.kind == FileKind.INDEX:
            found = sums.setdefault(one.owner, [0, 0])
            found[0], found[1] = found[0] + one.rows, found[1] + one.ids
    for owner, (rows, own_ids) in sums.items():
        if rows != snapshot.rows:
            yield f"The index {owner} has {counted(rows, 'row')}, the state has {snapshot.rows:,}."
        elif (own_ids - ids) % 2**64:  # sums of 64-bit numbers, which overflow
            yield f"The index {owner} does not have the rows of the state."


def _needed_indexes(snapshot: Snapshot) -> set[str]:
    """The indexes that the constraints of a snapshot with rows are checked with, and others that were made."""
    made = {file.owner for file in snapshot.files_of(FileKind.INDEX)}
    groups = plan_of(snapshot).groups if snapshot.constraints and snapshot.rows else ()
    return {index.id for group in groups for index in group.indexes if group.reads or index.id in made}
