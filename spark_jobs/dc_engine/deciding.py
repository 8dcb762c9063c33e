"""What people decide about a load: a small document beside its verdict, committed as everything in a state is.

A decision belongs to one attempt of a load: rows that replace it, or taking it out, leave the decision behind. Several
decisions about one attempt are all kept, and the last one counts.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import asdict, replace

from dc_engine.errors import StateError
from dc_engine.request import MAX_WAIT_SECONDS
from dc_engine.state.drafts import Drafts
from dc_engine.state.files import Action, DataFile, FileKind
from dc_engine.state.snapshots import advance, with_loads
from dc_engine.state.storage import Storage
from dc_engine.state.turns import take_turns
from dc_engine.stored import find_load, verdict_of
from dc_engine.verdict import SCHEMA_VERSION, Decided


def record_decision(
    storage: Storage, load_id: str, snapshot: int, decided: Decided, *, max_wait_seconds: float = MAX_WAIT_SECONDS
) -> None:
    """Commit a decision about the attempt of a load that ``snapshot`` brought; the same one again changes nothing."""
    storage.check_exclusive()

    def attempt() -> None:
        current, load = find_load(storage, load_id)
        if load.number != snapshot:
            raise StateError(
                f"Load '{load_id}' was applied again since, with other rows: the decision is about its attempt of "
                f"snapshot {snapshot}, and the state has that of snapshot {load.number}.",
                hint="Decide about the newest verdict.",
            )
        if verdict_of(storage, load).decided == decided:
            return
        drafts = Drafts()
        with drafts.removed_on_failure(storage):
            file = write_decision(storage, load_id, snapshot, decided)
            drafts.append(file)
            after = with_loads(current, replace(load, files=[*load.files, file]))
            drafts.commit(storage, advance(current, after, Action.DECIDE, load_id=load_id, changed=False))

    take_turns(storage, f"decide {load_id}", attempt, max_wait_seconds=max_wait_seconds)


def write_decision(storage: Storage, load_id: str, number: int, decided: Decided) -> DataFile:
    """Write the document of a decision about the attempt with a number; whoever commits names it."""
    document = {"schema_version": SCHEMA_VERSION, "load_id": load_id, "snapshot": number, **asdict(decided)}
    path = f"{FileKind.DECISION.folder}/{number:020d}-{uuid.uuid4().hex}.json"
    stored = storage.write(path, json.dumps(document, ensure_ascii=False, indent=1).encode())
    return DataFile(stored.path, FileKind.DECISION, "", number, stored.size, stored.sha256, 0)
