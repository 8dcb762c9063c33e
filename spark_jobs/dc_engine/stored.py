"""What a state offers to those who only read it: verdicts and violations of its loads, dependencies of its rows.

Light to import: what needs numpy and pyarrow is imported by those who ask for it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dc_engine.errors import RequestError, StateError, did_you_mean
from dc_engine.state.files import FileKind
from dc_engine.state.loads import Load
from dc_engine.state.snapshots import Snapshot, read_current
from dc_engine.state.storage import Storage
from dc_engine.verdict import Decided, Decision, Verdict, masked

if TYPE_CHECKING:
    import pyarrow as pa

    from dc_engine.discovery.reading import AgreeSets

_KEPT = "dependencies"


def verdict_of(storage: Storage, load: Load, mask: Collection[str] = ()) -> Verdict:
    """The verdict of a load as stored, except what is masked now; checked against what the snapshot knows.

    What a person decided about it since is added.
    """
    file = next(one for one in load.files if one.kind is FileKind.VERDICT)
    decisions = [one for one in load.files if one.kind is FileKind.DECISION]
    try:
        text = storage.read(file.path, expected=file)
        decided = storage.read(decisions[-1].path, expected=decisions[-1]) if decisions else None
    except StateError as error:
        hint = "Restore the file from a copy; or take the load out and apply it again."
        raise StateError(error.message, hint=hint) from error
    verdict = masked(Verdict.from_dict(json.loads(text)), mask)
    if decided is not None:
        verdict = replace(verdict, decided=_decided(json.loads(decided)))
    violated = any(one.new_violations for one in verdict.constraints) or verdict.dependencies.invalidated
    bare = sorted({name.lower() for name in mask} - set(load.mask)) if violated else []
    return replace(verdict, notes=[*verdict.notes, _bare(bare)]) if bare else verdict


def _decided(document: dict[str, Any]) -> Decided:
    """The decision in its document, which also says what it is about."""
    return Decided(**{name: document[name] for name in Decided.__slots__})


def _bare(columns: Sequence[str]) -> str:
    are = "Column {} was" if len(columns) == 1 else "Columns {} were"
    return are.format(", ".join(map(repr, columns))) + (
        " not masked when this load was applied: its stored verdict and the violations listed in Parquet may hold "
        "values. To get rid of them, take the load out, apply it again and vacuum."
    )


def read_verdict(storage: Storage, load_id: str, mask: Collection[str] = ()) -> Verdict:
    """The verdict of the load with this id, without the values that the newest load asked to mask, or ``mask`` does."""
    snapshot, load = find_load(storage, load_id)
    return verdict_of(storage, load, {*snapshot.mask, *mask})


def find_load(storage: Storage, load_id: str) -> tuple[Snapshot, Load]:
    """The load with this id, and the current snapshot, which knows it."""
    snapshot = current_of(storage)
    load = snapshot.loads(storage).find(load_id)
    if load is None:
        known = [one.load_id for one in snapshot.loads(storage).last(100)]
        newest = f"The newest load is '{known[-1]}'." if known else "It has no loads."
        raise StateError(
            f"The state {storage.uri} has no verdict of load '{load_id}'.",
            hint=did_you_mean(load_id, known, otherwise=newest),
        )
    return snapshot, load


def current_of(storage: Storage) -> Snapshot:
    """The newest snapshot of a state; an error that names what lies beside it where there is none."""
    snapshot = read_current(storage)
    if snapshot is None:
        name = storage.uri.rsplit("/", 1)[-1]
        others = [one for one in storage.beside() if one != name]
        raise StateError(
            f"There is no state in {storage.uri}.",
            hint=did_you_mean(name, others, otherwise="No load was applied to it yet, or it lies elsewhere."),
        )
    return snapshot


def counts_as(verdict: Verdict) -> Decision:
    """What a load counts as for those who wait for it: as its rules decided, unless a person let it pass."""
    return "pass" if verdict.approved else verdict.decision


def each_verdict(storage: Storage, most: int | None = None, mask: Collection[str] = ()) -> Iterator[Verdict]:
    """The verdicts of all loads, or of the last ones, in the order of the history; each is read when it is its turn."""
    snapshot = current_of(storage)
    return (verdict_of(storage, load, {*snapshot.mask, *mask}) for load in snapshot.loads(storage).each(most))


def read_violations(storage: Storage, load_id: str, constraint: str, mask: Collection[str] = ()) -> Iterator[pa.Table]:
    """The listed violations of a constraint by a load, those with the most pairs first; none where it has none.

    In parts of one row group each. Without the values that the newest load asked to mask, or ``mask`` does.
    """
    from dc_engine.detection.listing import masked as masked_listing
    from dc_engine.state.parquet import Reader

    snapshot, load = find_load(storage, load_id)
    names = [one.name for one in verdict_of(storage, load).constraints]
    if constraint not in names:
        message = f"Load '{load_id}' of {storage.uri} was not judged by a constraint '{constraint}'."
        raise RequestError(message, hint=did_you_mean(constraint, names))
    files = [one for one in load.files if one.kind is FileKind.VIOLATIONS and one.owner == constraint]
    hidden = sorted({*snapshot.mask, *mask})
    return (
        masked_listing(reader.read([group], reader.schema.names), hidden)
        for reader in (Reader(storage, one) for one in files)
        for group in range(len(reader.group_starts) - 1)
    )


def read_dependencies(storage: Storage, view: str = "merged") -> list[dict[str, Any]]:
    """The dependencies that hold in the newest snapshot, best first, as the answer of ``discover`` lists them."""
    from dc_engine.discovery.asking import VIEWS
    from dc_engine.discovery.reading import holding

    if view not in VIEWS:
        raise RequestError(f"'view' is {view!r}, and must be one of {', '.join(VIEWS)}.")
    snapshot = _with_dependencies(storage)
    found, _ = holding(storage, snapshot.facts[_KEPT], snapshot.files_of(FileKind.DEPENDENCIES), view)
    return [one.to_dict() for one in found]


def read_agree_sets(storage: Storage) -> AgreeSets:
    """How many pairs of rows agree on exactly which columns, where patterns are counted; most pairs first.

    Pairs are unordered; those that agree on no column are there too. NULLs agree as the space reads them: with nothing,
    or (``equal``, and where only class ``od`` is looked for) with each other.
    """
    from dc_engine.discovery.reading import agree_sets

    snapshot = _with_dependencies(storage)
    return agree_sets(storage, snapshot.facts[_KEPT], snapshot.files_of(FileKind.PATTERNS))


def count_pairs(storage: Storage, agreeing: Sequence[str], differing: str | None = None) -> int:
    """How many pairs of rows agree on some columns, and (if one is given) differ in another: violations of an ``fd``.

    Exact in tables of any length, from the rows of the newest snapshot. NULLs are read as in agree sets.
    """
    from dc_engine.discovery.reading import pairs_among
    from dc_engine.discovery.space import Space
    from dc_engine.maintained.reading import coded_rows

    snapshot = _with_dependencies(storage)
    space = Space.from_dict(snapshot.facts[_KEPT]["space"])
    known = {name.lower(): name for name in space.columns}
    for name in (*agreeing, *([] if differing is None else [differing])):
        if name.lower() not in known:
            message = f"Column '{name}' is not among those that the discovery in {storage.uri} looks at."
            raise RequestError(message, hint=did_you_mean(name, space.columns))
    wanted = list(dict.fromkeys(known[name.lower()] for name in agreeing))
    rows = coded_rows(storage, snapshot, space)
    return pairs_among(space, rows, wanted, None if differing is None else known[differing.lower()])


def _with_dependencies(storage: Storage) -> Snapshot:
    snapshot = read_current(storage)
    if snapshot is None or _KEPT not in snapshot.facts:
        raise StateError(
            f"No dependencies are kept in {storage.uri}.",
            hint="Run a discovery on this state: every load keeps them from then on.",
        )
    return snapshot
