"""What a state has to say to those who only read it: the verdicts of its loads."""

from __future__ import annotations

import json

from spark_jobs.errors import StateError, did_you_mean
from spark_jobs.state.snapshots import Load, Snapshot, read_current
from spark_jobs.state.storage import Storage
from spark_jobs.verdict import Verdict


def verdict_of(storage: Storage, load: Load) -> Verdict:
    """The verdict of a load as it was stored, checked against what the snapshot knows of it."""
    file = next(one for one in load.files if one.kind == "verdict")
    try:
        text = storage.read(file.path, expected=file)
    except StateError as error:
        hint = "Restore the file from a copy; or take the load out and apply it again."
        raise StateError(error.message, hint=hint) from error
    return Verdict.from_dict(json.loads(text))


def read_verdict(storage: Storage, load_id: str) -> Verdict:
    """The verdict of the load with this id."""
    return verdict_of(storage, find_load(storage, load_id)[1])


def find_load(storage: Storage, load_id: str) -> tuple[Snapshot, Load]:
    """The load with this id, and the current snapshot, which knows it."""
    snapshot = read_current(storage)
    load = snapshot.find_load(load_id) if snapshot else None
    if snapshot is None or load is None:
        known = [one.load_id for one in snapshot.loads[-100:]] if snapshot else []
        newest = f"The newest load is '{known[-1]}'." if known else "No load was applied to it yet."
        raise StateError(
            f"The state {storage.uri} has no verdict of load '{load_id}'.",
            hint=did_you_mean(load_id, known, otherwise=newest),
        )
    return snapshot, load
