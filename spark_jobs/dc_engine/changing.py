"""One change of a state, whoever asks for it: from rows that come and go to the next snapshot."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dc_engine.constraints.files import load_constraints
from dc_engine.detection.compact import depth, merges_of, small_runs
from dc_engine.detection.plan import Plan, identity_group, make_plan
from dc_engine.detection.rows import load_of
from dc_engine.detection.spark import compact, detect, make_work
from dc_engine.errors import ChangesError, ConflictError, DcError, NoSpaceError, UnfitStoreError
from dc_engine.history import Change, is_newest, needs_replay, rewrite, without_newest
from dc_engine.indexing import index_rows
from dc_engine.judging import Findings, add_up
from dc_engine.request import Request
from dc_engine.state.snapshots import DataFile, Load, Snapshot, commit, data_file
from dc_engine.state.storage import Storage
from dc_engine.state.vacuuming import needed_files
from dc_engine.verdict import MASKED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Drafts(list[DataFile]):
    """Files that were written and are not committed yet: they go when the work fails."""

    @contextlib.contextmanager
    def removed_on_failure(self, storage: Storage) -> Iterator[None]:
        """Remove them when the block fails."""
        try:
            yield
        except BaseException:
            self.remove_all(storage)
            raise

    def commit(self, storage: Storage, snapshot: Snapshot) -> None:
        """Commit a snapshot, and remove those that it does not need.

        They all go when it certainly was not committed. Otherwise they stay, for it may be done all the same.
        """
        written = Drafts(self)
        self.clear()
        try:
            commit(storage, snapshot)
        except (ConflictError, NoSpaceError, UnfitStoreError):
            written.remove_all(storage)
            raise
        needed = needed_files(snapshot)
        Drafts(file for file in written if file.path not in needed).remove_all(storage)

    def remove_all(self, storage: Storage) -> None:
        """Remove them; what cannot be removed is left for vacuum, since the failure that led here matters more."""
        for file in self:
            with contextlib.suppress(DcError):
                storage.remove(file.path)
        self.clear()


def recognises(snapshot: Snapshot) -> bool:
    """Whether the state has the index that recognises rows without key."""
    index = identity_group((), {}, 0).indexes[0].id
    return any(file.owner == index for file in snapshot.files)


def plan_of(snapshot: Snapshot, *, recognise: bool = False) -> Plan:
    """The plan by which the indexes of a snapshot were made."""
    constraints = load_constraints(snapshot.constraints)
    return make_plan(constraints, snapshot.schema, recognise=recognise or recognises(snapshot))


def index_files(snapshot: Snapshot, plan: Plan) -> dict[str, tuple[DataFile, ...]]:
    """The runs of each index of a plan."""
    return {index_id: tuple(snapshot.files_of("index", index_id)) for index_id in plan.indexes}


def compacted(
    spark: SparkSession, storage: Storage, snapshot: Snapshot, plan: Plan, drafts: Drafts, *, all_runs: bool = False
) -> Snapshot:
    """The snapshot with merged runs: those that an index has too many of, or all.

    The runs of the newest load stay apart, so that it can be taken out again at no cost.
    """
    chosen: dict[str, list[DataFile]] = {}
    for index_id, files in index_files(snapshot, plan).items():
        settled = [file for file in files if file.load != snapshot.last_change or not file.load]
        chosen[index_id] = (settled if depth(settled) > 1 else []) if all_runs else small_runs(settled)
    merges = [merge for index_id, files in chosen.items() for merge in merges_of(plan, plan.indexes[index_id], files)]
    merged = compact(spark, storage, merges)
    drafts += merged
    gone = {file.path for files in chosen.values() for file in files}
    return replace(snapshot, files=[*(file for file in snapshot.files if file.path not in gone), *merged])


def probe(
    spark: SparkSession,
    storage: Storage,
    base: Snapshot,
    plan: Plan,
    change: Change,
    drafts: Drafts,
    *,
    load: int,
    runs_of: int,
    request: Request | None,
) -> tuple[list[Findings], list[DataFile]]:
    """What a change does to every constraint, and the runs that it adds to the indexes.

    ``load`` is the number under which violations are listed; the runs are those of load ``runs_of`` (0: of none).
    """
    files = index_files(base, plan)
    work = make_work(
        storage,
        plan,
        load,
        files,
        request,
        inserts=change.inserts,
        deletes=change.deletes,
        undone=change.undone,
        runs_of=runs_of,
    )
    documents = detect(spark, work)
    drafts += [data_file(one["file"]) for one in documents if one.get("file")]
    for document in documents:
        if document["kind"] == "keys":
            raise _key_error(document, base, request)
    Drafts(change.scratch).remove_all(storage)
    return add_up(documents, len(plan.constraints))


def _key_error(document: Mapping[str, Any], base: Snapshot, request: Request | None) -> ChangesError:
    load_id = request.load_id if request else ""
    rows = named(document["keys"], request.mask if request else ())
    if document["twice"]:
        return ChangesError(
            f"Load '{load_id}' inserts {document['twice']:,} keys more than once, for instance {rows}.",
            hint="A key names one row. Load each row once, or choose another key.",
        )
    loads = {one.number: one.load_id for one in base.loads}
    owner = loads.get(load_of(document["owners"][0]))
    since = f" since load '{owner}'" if owner else ""
    return ChangesError(
        f"Load '{load_id}' inserts {document['present']:,} keys that are present, for instance {rows}{since}.",
        hint="Delete the old rows in the same load (as update_preimage or delete), or set duplicate_keys to 'replace'.",
    )


def named(rows: Sequence[Mapping[str, Any]], mask: Sequence[str]) -> str:
    """Some rows as an error names them."""
    hidden = {name.lower() for name in mask}
    texts = [
        ", ".join(f"{name}={MASKED if name.lower() in hidden else value}" for name, value in row.items())
        for row in rows[:3]
    ]
    return "; ".join(texts)


def retracted(
    start: Callable[[], SparkSession],
    storage: Storage,
    snapshot: Snapshot,
    load: Load,
    drafts: Drafts,
) -> Snapshot:
    """The snapshot of a history without one of its loads, not yet committed. Only an older load needs Spark."""
    number = snapshot.number + 1
    if load.discarded:
        without = replace(snapshot, loads=[one for one in snapshot.loads if one is not load])
        return replace(without, number=number, parent=snapshot.number, load_id=load.load_id, action="retract")
    if is_newest(snapshot, load):
        base = without_newest(snapshot, load)
    else:
        spark = start()
        plan = plan_of(snapshot, recognise=needs_replay(snapshot, load, None))
        indexed = index_rows(spark, storage, snapshot, plan, [])
        drafts += indexed.files
        snapshot = replace(snapshot, files=[*snapshot.files, *indexed.files])
        change = rewrite(storage, snapshot, plan, load, None, snapshot.mask)
        drafts += [*change.scratch, *(file for files in change.records.values() for file in files), *change.dead]
        findings, runs = probe(spark, storage, snapshot, plan, change, drafts, load=0, runs_of=0, request=None)
        constraints = load_constraints(snapshot.constraints).constraints
        totals = {
            one.name: snapshot.totals[one.name] + found.new_violations - found.removed_violations
            for one, found in zip(constraints, findings, strict=True)
        }
        base = changed(snapshot, change, runs, gone=load)
        base = replace(base, totals=totals)
    return replace(
        base,
        number=number,
        parent=snapshot.number,
        load_id=load.load_id,
        action="retract",
        last_change=number,
        totals_before=base.totals,
    )


def changed(base: Snapshot, change: Change, runs: Iterable[DataFile], *, gone: Load | None) -> Snapshot:
    """The snapshot with the rows and runs of a change; ``gone`` is a load that it takes out of the history."""
    number = gone.number if gone else None
    kept = [
        file
        for file in base.files
        if not (file.kind == "rows" and file.load == number)
        and not (file.kind == "deletes" and (file.load == number or file.load in change.records))
    ]
    records = [file for files in change.records.values() for file in files]
    loads = [replace(one, deleted=change.deleted.get(one.number, one.deleted)) for one in base.loads if one is not gone]
    return replace(base, rows=base.rows + change.rows, loads=loads, files=[*kept, *records, *change.dead, *runs])
