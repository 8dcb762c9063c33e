"""One change of a state, whoever asks for it: from rows that come and go to the next snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dc_engine.constraints.files import load_constraints
from dc_engine.detection.dead import write_dead
from dc_engine.detection.documents import TakenKeys, file_of
from dc_engine.detection.plan import Plan, identity_group, make_plan
from dc_engine.detection.rows import load_of
from dc_engine.detection.sizing import make_work
from dc_engine.engines.base import Engine
from dc_engine.engines.work import detect
from dc_engine.errors import ChangesError
from dc_engine.history.apart import own_files
from dc_engine.history.change import Change
from dc_engine.history.replay import needs_replay, rewrite
from dc_engine.history.retract import is_newest, without_newest
from dc_engine.indexing import index_rows
from dc_engine.judging import Findings, add_up
from dc_engine.request import Request
from dc_engine.state.drafts import Drafts
from dc_engine.state.files import Action, DataFile, FileKind
from dc_engine.state.loads import Load
from dc_engine.state.snapshots import Snapshot, advance, with_loads, without_load
from dc_engine.state.storage import Storage
from dc_engine.verdict import MASKED


def recognises(snapshot: Snapshot) -> bool:
    """Whether the state has the index that recognises rows without key."""
    index = identity_group((), {}, 0).indexes[0].id
    return bool(snapshot.files_of(FileKind.INDEX, index))


def plan_of(snapshot: Snapshot, *, recognise: bool = False) -> Plan:
    """The plan by which the indexes of a snapshot were made."""
    constraints = load_constraints(snapshot.constraints)
    return make_plan(constraints, snapshot.schema, recognise=recognise or recognises(snapshot))


def index_files(snapshot: Snapshot, plan: Plan) -> dict[str, tuple[DataFile, ...]]:
    """The runs of each index of a plan."""
    return {index_id: tuple(snapshot.files_of(FileKind.INDEX, index_id)) for index_id in plan.indexes}


@dataclass(frozen=True, slots=True)
class Advanced:
    """What a change did: to each constraint, and the state that it leaves."""

    findings: list[Findings]
    after: Snapshot
    """Rows, files and records of loads as they are then; it is not a snapshot of its own yet."""


def advanced(
    engine: Engine,
    storage: Storage,
    base: Snapshot,
    plan: Plan,
    change: Change,
    drafts: Drafts,
    *,
    gone: Load | None = None,
    request: Request | None = None,
) -> Advanced:
    """Let a change happen: what it does to every constraint, and the files that it adds and takes away.

    ``gone`` is a load that it takes out of the history; what it writes then belongs to no load alone. Violations are
    listed where there is a request.
    """
    number = base.number + 1
    owner = 0 if gone or request is None else number
    drafts += [*change.lines, *change.scratch]
    dead = write_dead(storage, owner, change.turned)
    drafts += dead
    work = make_work(
        storage,
        plan,
        number if request else 0,
        index_files(base, plan),
        request,
        inserts=change.inserts,
        deletes=change.deletes,
        undone=change.undone,
        runs_of=owner,
    )
    documents = detect(engine, work)
    drafts += filter(None, map(file_of, documents))
    for document in documents:
        if isinstance(document, TakenKeys):
            raise _key_error(document, storage, base, request)
    Drafts(change.scratch).remove_all(storage)
    findings, runs = add_up(documents, len(plan.constraints))
    amended = {one.number for one in change.amended}
    dropped = {file.path for file in own_files(base, gone)} if gone else set()
    kept = [
        file
        for file in base.files
        if file.path not in dropped
        and not (file.kind is FileKind.DELETES and file.load in {*amended, gone.number if gone else None})
    ]
    after = with_loads(without_load(base, gone) if gone else base, *change.amended)
    files = [*kept, *change.lines, *dead, *runs]
    return Advanced(findings, replace(after, rows=base.rows + change.rows, files=files))


def _key_error(taken: TakenKeys, storage: Storage, base: Snapshot, request: Request | None) -> ChangesError:
    load_id = request.load_id if request else ""
    rows = named(taken.keys, request.mask if request else ())
    if taken.twice:
        return ChangesError(
            f"Load '{load_id}' inserts {taken.twice:,} keys more than once, for instance {rows}.",
            hint="A key names one row. Load each row once, or choose another key.",
        )
    number = load_of(taken.owners[0])
    owner = base.loads(storage).ids_of([number]).get(number)
    since = f" since load '{owner}'" if owner else ""
    return ChangesError(
        f"Load '{load_id}' inserts {taken.present:,} keys that are present, for instance {rows}{since}.",
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


def retracted(engine: Engine, storage: Storage, snapshot: Snapshot, load: Load, drafts: Drafts) -> Snapshot:
    """The snapshot of a history without one of its loads, not yet committed. Only an older load needs the engine."""
    if load.discarded:
        changed, base = False, without_load(snapshot, load)
    elif is_newest(storage, snapshot, load):
        changed, base = True, without_newest(snapshot, load)
    else:
        changed, base = True, _without_older(engine, storage, snapshot, load, drafts)
    return advance(snapshot, base, Action.RETRACT, load_id=load.load_id, changed=changed)


def _without_older(engine: Engine, storage: Storage, snapshot: Snapshot, load: Load, drafts: Drafts) -> Snapshot:
    later = snapshot.loads(storage).since(load.place + 1)
    plan = plan_of(snapshot, recognise=needs_replay(load, later, None))
    indexed = index_rows(engine, storage, snapshot, plan, [])
    drafts += indexed.files
    base = replace(snapshot, files=[*snapshot.files, *indexed.files])
    change = rewrite(storage, base, plan, load, None, snapshot.mask)
    done = advanced(engine, storage, base, plan, change, drafts, gone=load)
    constraints = load_constraints(snapshot.constraints).constraints
    totals = {
        one.name: snapshot.totals[one.name] + found.new_violations - found.removed_violations
        for one, found in zip(constraints, done.findings, strict=True)
    }
    return replace(done.after, totals=totals)
