"""Recognise the rows that a load deletes: each delete as given finds the id and the values of a row in the state.

A delete gives the key or, without a declared key, the whole row, recognised by its hash. Of several identical rows
the oldest go first. With ``replace``, an insert of a key that is still present deletes the row that has it.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dc_engine.detection.codes import codes_of, combine, whole
from dc_engine.detection.documents import Deleted, Document, Failed, as_batch, failed
from dc_engine.detection.encode import GONE
from dc_engine.detection.plan import ROW_HASH, Group, Plan
from dc_engine.detection.rows import ROW_ID, schema_mark, take_rows
from dc_engine.detection.runs import HASH, ROW_IDS, ROWS, Runs
from dc_engine.detection.shown import MOST_OF_NAME, json_rows
from dc_engine.detection.work import DOCUMENT, Work, received
from dc_engine.errors import DcError
from dc_engine.sizes import SIZES
from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.packing import parquet_bytes
from dc_engine.state.parquet import store_parquet
from dc_engine.state.storage import Storage

CAUSE = "_dc_cause"
"""Why a row was deleted: ``delete``, or ``replace`` by an insert of the same key."""
LOAD, VERSION = "_dc_load", "_dc_version"
"""Which load deleted a row, and the snapshot that recorded its deletes."""


def resolving(plan: Plan) -> Plan:
    """The plan by which deletes find their rows: one group, all stored columns, the index of identities."""
    identity = next(one for one in plan.groups if one.identity)
    return plan.only([Group(0, identity.t_index, identity.s_index, plan.stored, (), identity.classes, identity=True)])


@dataclass(frozen=True, slots=True)
class Resolve:
    """Take the chunks of one task, find the rows of its deletes, record them, and report to the driver."""

    work: Work
    rows: tuple[DataFile, ...]
    """The files of all rows in the state."""
    threads: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            documents = list(self._documents(batches))
        except DcError as error:
            documents = [failed(error)]
        yield as_batch(documents)

    def _documents(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Document]:
        roles: dict[str, list[pa.Table]] = defaultdict(list)
        for message in received(batches):
            if message.kind != DOCUMENT:
                roles[message.kind].append(message.table)
            elif isinstance(message.document, Failed):
                yield message.document
        if roles:
            yield self._resolved({role: pa.concat_tables(tables) for role, tables in roles.items()})

    def _resolved(self, roles: Mapping[str, pa.Table]) -> Deleted:
        work, plan = self.work, self.work.plan
        nothing = next(iter(roles.values())).slice(0, 0)
        gone, new = roles.get(f"{GONE}both", nothing), roles.get("both", nothing)
        match = self._match(gone, new)
        sought = match.found[~match.given]
        stored = take_rows(
            work.storage, self.rows, np.concatenate([sought, match.replaced]), plan.stored, threads=self.threads
        )
        missing = gone.take(pa.array(np.setdiff1d(np.arange(gone.num_rows), match.delete)))
        exact = gone.take(pa.array(match.delete[match.given]))
        tables = [
            _records(exact, match.found[match.given], "delete", plan.stored),
            _records(_rows_of(stored, sought), sought, "delete", plan.stored),
            _records(_rows_of(stored, match.replaced), match.replaced, "replace", plan.stored),
            _records(missing, None, "delete", plan.stored),
        ]
        file = write_deletes(
            work.storage, work.load, work.load, pa.concat_tables(one for one in tables if one.num_columns)
        )
        named = missing.slice(0, SIZES.named_rows).select(plan.key or plan.columns)
        shown = json_rows({name: whole(named.column(name)) for name in named.column_names}, MOST_OF_NAME)
        return Deleted(file, len(match.delete), len(match.replaced), missing.num_rows, shown)

    def _match(self, gone: pa.Table, new: pa.Table) -> _Match:
        work = self.work
        index = work.plan.groups[0].indexes[0]
        wanted = np.unique(np.concatenate([whole(one.column(HASH)).to_numpy() for one in (gone, new)]))
        # as inserts look for rows of the same key: a session that remembers reads it once
        runs = Runs(work.storage, work.index_files.get(index.id, ()), keep=True)
        entries = runs.find(index.columns, wanted, None, threads=self.threads).with_row_ids()
        if not entries.num_columns:
            empty = np.zeros(0, np.int64)
            return _Match(empty, empty, empty.astype(bool), empty)
        keys = [[whole(table.column(name)) for name in index.key] for table in (gone, new, entries)]
        identity = identity_codes(keys, index.families)
        owner, ids = remaining(identity[2], entries)
        delete, found, left = pair_off(identity[0], owner, ids)
        replaced = np.isin(owner[left], identity[1])
        given = whole(gone.column(ROW_HASH)).to_numpy()[delete] == _hashes_of(entries, found)
        return _Match(delete, found, given, ids[left][replaced])


@dataclass(frozen=True, slots=True)
class _Match:
    """Which of the deletes found a row, and which; and the rows that inserts replace."""

    delete: np.ndarray
    found: np.ndarray
    given: np.ndarray
    """Whether the delete gives the row as it is, so that its values need not be looked up."""
    replaced: np.ndarray


def _hashes_of(entries: pa.Table, ids: np.ndarray) -> np.ndarray:
    """The hashes of the whole rows of some ids, which are all among the entries."""
    adds = entries.filter(pa.array(whole(entries.column(ROWS)).to_numpy() > 0))
    lists = whole(adds.column(ROW_IDS))
    listed = lists.flatten().to_numpy()
    hashes = np.repeat(whole(adds.column(ROW_HASH)).to_numpy(), np.diff(lists.offsets.to_numpy()))
    order = np.argsort(listed)
    return hashes[order[np.searchsorted(listed, ids, sorter=order)]]


def identity_codes(tables: Sequence[Sequence[pa.Array]], families: Sequence[str]) -> list[np.ndarray]:
    """A code for each row of several tables of the same columns: equal exactly when the rows agree (NULLs do)."""
    lengths = np.cumsum([len(columns[0]) for columns in tables])[:-1]
    coded = [
        np.concatenate(codes_of([columns[place] for columns in tables], one, ordered=False))
        for place, one in enumerate(families)
    ]
    return np.split(combine(coded), lengths)


def remaining(codes: np.ndarray, entries: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """The rows that are left of all entries of an index: the code of their entry, and their id."""
    owner, ids, sums = added_up(codes, entries)
    left = sums > 0
    return owner[left], ids[left]


def added_up(codes: np.ndarray, entries: pa.Table) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The sum of some entries: for each code and row id, sorted by both, times added minus times taken away.

    For some runs that may be negative: another run added the row that they take away.
    """
    lists = whole(entries.column(ROW_IDS))
    lengths = np.diff(lists.offsets.to_numpy())
    signs = np.repeat(np.sign(whole(entries.column(ROWS)).to_numpy()), lengths)
    owner, ids = np.repeat(codes, lengths), lists.flatten().to_numpy()
    order = np.lexsort((ids, owner))
    owner, ids, signs = owner[order], ids[order], signs[order]
    if not len(ids):
        return owner, ids, signs
    first = np.flatnonzero(np.concatenate([[True], (owner[1:] != owner[:-1]) | (ids[1:] != ids[:-1])]))
    return owner[first], ids[first], np.add.reduceat(signs, first)


def pair_off(wanted: np.ndarray, owner: np.ndarray, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Give each wanted code one of the rows of that code, the first ones first.

    ``owner`` is ordered. Returns the places in ``wanted`` that got one, the ids that they got, and the places of the
    rows that nobody got.
    """
    order = np.argsort(wanted, kind="stable")
    ordered = wanted[order]
    rank = np.arange(len(ordered)) - np.searchsorted(ordered, ordered)
    start = np.searchsorted(owner, ordered)
    got = rank < np.searchsorted(owner, ordered, side="right") - start
    taken = (start + rank)[got]
    free = np.ones(len(owner), bool)
    free[taken] = False
    return order[got], ids[taken], np.flatnonzero(free)


def _rows_of(rows: pa.Table, ids: np.ndarray) -> pa.Table:
    """The rows of some ids; ``rows`` is in the order of its ids."""
    if not rows.num_columns:
        return rows
    return rows.take(pa.array(np.searchsorted(whole(rows.column(ROW_ID)).to_numpy(), ids)))


def _records(rows: pa.Table, ids: np.ndarray | None, cause: str, columns: Sequence[str]) -> pa.Table:
    """Deleted rows as they are recorded."""
    if not rows.num_columns:
        return pa.table({})
    facts = {ROW_ID: pa.nulls(rows.num_rows, pa.int64()) if ids is None else pa.array(ids, pa.int64())}
    facts[CAUSE] = pa.array([cause] * rows.num_rows, pa.string())
    return pa.table(facts | {name: rows.column(name) for name in columns})


def write_deletes(storage: Storage, load: int, version: int, lines: pa.Table) -> DataFile:
    """Record rows that a load deletes; those without an id were not there.

    ``version`` is the snapshot that they come with: only the lines of a load's newest version count.
    """
    ordered = lines.sort_by(ROW_ID)
    facts = {ROW_ID: ordered.column(ROW_ID)}
    facts |= {name: pa.array(np.full(len(ordered), value)) for name, value in ((LOAD, load), (VERSION, version))}
    table = pa.table(facts | {name: ordered.column(name) for name in ordered.column_names if name != ROW_ID})
    return store_lines(storage, load, table)


def store_lines(storage: Storage, load: int, table: pa.Table) -> DataFile:
    """Deletes as a file of one load, or (0) of several."""
    numbers = whole(table.column(LOAD)).to_numpy()
    return store_parquet(
        storage,
        f"{FileKind.DELETES.folder}/{load:08d}-{uuid.uuid4().hex}.parquet",
        parquet_bytes(table),
        kind=FileKind.DELETES,
        owner=schema_mark(table.schema),
        load=load,
        rows=table.num_rows,
        bounds=(int(numbers.min()), int(numbers.max())) if len(numbers) else None,
    )
