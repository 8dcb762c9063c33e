"""What a state offers to those who only read it: the verdicts of its loads, the dependencies of its rows.

Light to import: what needs numpy and pyarrow is imported by those who ask for it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dc_engine.errors import RequestError, StateError, did_you_mean
from dc_engine.state.files import FileKind
from dc_engine.state.loads import Load
from dc_engine.state.snapshots import Snapshot, read_current
from dc_engine.state.storage import Storage
from dc_engine.verdict import Verdict, masked

if TYPE_CHECKING:
    from dc_engine.discovery.reading import AgreeSets

_KEPT = "dependencies"
_VIEWS = ("merged", "complete")


def verdict_of(storage: Storage, load: Load, mask: Collection[str] = ()) -> Verdict:
    """The verdict of a load as stored, except what is masked now; checked against what the snapshot knows."""
    file = next(one for one in load.files if one.kind is FileKind.VERDICT)
    try:
        text = storage.read(file.path, expected=file)
    except StateError as error:
        hint = "Restore the file from a copy; or take the load out and apply it again."
        raise StateError(error.message, hint=hint) from error
    verdict = masked(Verdict.from_dict(json.loads(text)), mask)
    violated = any(one.new_violations for one in verdict.constraints) or verdict.dependencies.invalidated
    bare = sorted({name.lower() for name in mask} - set(load.mask)) if violated else []
    return replace(verdict, notes=[*verdict.notes, _bare(bare)]) if bare else verdict


def _bare(columns: Sequence[str]) -> str:
    return (
        f"Column {', '.join(map(repr, columns))} was not masked when this load was applied: its stored verdict and the "
        "violations listed in Parquet may hold its values. To get rid of them, take the load out, apply it again and "
        "vacuum."
    )


def read_verdict(storage: Storage, load_id: str, mask: Collection[str] = ()) -> Verdict:
    """The verdict of the load with this id, without the values that the newest load asked to mask, or ``mask`` does."""
    snapshot, load = find_load(storage, load_id)
    return verdict_of(storage, load, {*snapshot.mask, *mask})


def find_load(storage: Storage, load_id: str) -> tuple[Snapshot, Load]:
    """The load with this id, and the current snapshot, which knows it."""
    snapshot = read_current(storage)
    load = snapshot.loads(storage).find(load_id) if snapshot else None
    if snapshot is None or load is None:
        known = [one.load_id for one in snapshot.loads(storage).last(100)] if snapshot else []
        newest = f"The newest load is '{known[-1]}'." if known else "No load was applied to it yet."
        raise StateError(
            f"The state {storage.uri} has no verdict of load '{load_id}'.",
            hint=did_you_mean(load_id, known, otherwise=newest),
        )
    return snapshot, load


def read_dependencies(storage: Storage, view: str = "merged") -> list[dict[str, Any]]:
    """The dependencies that hold in the newest snapshot, best first, as the answer of ``discover`` lists them."""
    from dc_engine.discovery.reading import holding

    if view not in _VIEWS:
        raise RequestError(f"'view' is {view!r}, and must be one of {', '.join(_VIEWS)}.")
    snapshot = _with_dependencies(storage)
    found = holding(storage, snapshot.facts[_KEPT], snapshot.files_of(FileKind.DEPENDENCIES), view)
    return [one.to_dict() for one in found]


def read_agree_sets(storage: Storage) -> AgreeSets:
    """How many pairs of rows agree on exactly which columns, where patterns are counted; most pairs first.

    Pairs are unordered; those that agree on no column are there too. NULLs agree as the space reads them: with nothing,
    or (``equal``) with each other.
    """
    from dc_engine.discovery.reading import agree_sets

    snapshot = _with_dependencies(storage)
    return agree_sets(storage, snapshot.facts[_KEPT], snapshot.files_of(FileKind.PATTERNS))


def _with_dependencies(storage: Storage) -> Snapshot:
    snapshot = read_current(storage)
    if snapshot is None or _KEPT not in snapshot.facts:
        raise StateError(
            f"No dependencies are kept in {storage.uri}.",
            hint="Run a discovery on this state: every load keeps them from then on.",
        )
    return snapshot
