"""One change of a state, whoever asks for it: from rows that come and go to the next snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace

from dc_engine.detection.dead import write_dead
from dc_engine.history.apart import own_files
from dc_engine.history.change import Change
from dc_engine.history.replay import needs_replay, rewrite
from dc_engine.history.retract import is_newest, without_newest
from dc_engine.maintained.base import Ground, Kept, Look, Maintained
from dc_engine.maintained.continuity import rules_of
from dc_engine.maintained.everything import everything, plan_of
from dc_engine.state.drafts import Drafts
from dc_engine.state.files import Action, DataFile, FileKind
from dc_engine.state.loads import Load
from dc_engine.state.snapshots import Snapshot, advance, with_loads, without_load


@dataclass(frozen=True, slots=True)
class Advanced:
    """What a change did to each maintained thing, and the state that it leaves."""

    kept: Sequence[Kept]
    after: Snapshot
    """Rows, files, facts and records of loads after the change; not yet a snapshot of its own."""

    @property
    def listed(self) -> list[DataFile]:
        """Files for people."""
        return [file for one in self.kept for file in one.listed]


def caught_up(ground: Ground, base: Snapshot, things: Sequence[Maintained]) -> Snapshot:
    """The snapshot with everything that is to be maintained."""
    for one in things:
        base = one.caught_up(ground, base)
    return base


def advanced(
    ground: Ground,
    base: Snapshot,
    things: Sequence[Maintained],
    change: Change,
    *,
    gone: Load | None = None,
) -> Advanced:
    """Make a change: what it does to everything maintained, and the files that it adds and takes away.

    ``gone`` is a load that it takes out of the history; what it then writes belongs to no single load.
    """
    owner = 0 if gone else base.number + 1
    ground.drafts.extend([*change.lines, *change.scratch])
    dead = write_dead(ground.storage, owner, change.turned)
    ground.drafts.extend(dead)
    with _beside([one.look(ground, base, change) for one in things]) as looks:
        kept = [
            one.changed(ground, base, change, owner=owner, seen=seen) for one, seen in zip(things, looks, strict=True)
        ]
    Drafts(change.scratch).remove_all(ground.storage)
    amended = {one.number for one in change.amended}
    dropped = {file.path for file in own_files(base, gone)} if gone else set()
    stay = [
        file
        for file in base.files
        if file.path not in dropped
        and not (file.kind is FileKind.DELETES and file.load in {*amended, gone.number if gone else None})
    ]
    after = with_loads(without_load(base, gone) if gone else base, *change.amended)
    facts = {one.name: done.facts for one, done in zip(things, kept, strict=True)}
    files = [*stay, *change.lines, *dead, *(file for done in kept for file in done.files)]
    return Advanced(kept, replace(after, rows=base.rows + change.rows, facts=facts, files=files))


@contextmanager
def _beside(looks: Sequence[Look | None]) -> Iterator[list[Look | None]]:
    """Look beside the block: what each sees, or what went wrong with it, is there when it is asked for."""
    if not any(looks):
        yield [None] * len(looks)
        return
    with ThreadPoolExecutor(len(looks)) as pool:
        yield [look and pool.submit(look).result for look in looks]


def retracted(ground: Ground, snapshot: Snapshot, load: Load) -> Snapshot:
    """The snapshot of a history without one of its loads, not yet committed. Only an older load needs the engine."""
    if load.discarded:
        changed, base = False, without_load(snapshot, load)
    elif is_newest(ground.storage, snapshot, load):
        changed, base = True, without_newest(snapshot, load)
    else:
        changed, base = True, _without_older(ground, snapshot, load)
    return advance(snapshot, base, Action.RETRACT, load_id=load.load_id, changed=changed)


def _without_older(ground: Ground, snapshot: Snapshot, load: Load) -> Snapshot:
    later = snapshot.loads(ground.storage).since(load.place + 1)
    plan = plan_of(snapshot, recognise=needs_replay(load, later, None))
    things = everything(plan, rules_of(snapshot), snapshot.facts)
    base = caught_up(ground, snapshot, things)
    change = rewrite(ground.storage, base, plan, load, None, ground.mask)
    return advanced(ground, base, things, change, gone=load).after
