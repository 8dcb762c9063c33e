"""What a state knows about dependencies, for those who only read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dc_engine.detection.codes import combine
from dc_engine.discovery.coded import Coded
from dc_engine.discovery.files import read_dependencies, read_patterns
from dc_engine.discovery.known import COUNTED
from dc_engine.discovery.listing import Dependency, best, viewed
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.space import Space
from dc_engine.discovery.store import added_up
from dc_engine.discovery.terms import Outcome
from dc_engine.errors import StateError
from dc_engine.state.files import DataFile
from dc_engine.state.storage import Storage

AgreeSets = list[tuple[frozenset[str], int]]


def holding(
    storage: Storage, facts: Mapping[str, Any], files: Sequence[DataFile], view: str
) -> tuple[Sequence[Dependency], str]:
    """The dependencies that hold, best first, and why these are not all; ``facts`` and ``files`` are of a snapshot."""
    return holding_among(kept(storage, facts, files), facts, view)


def kept(storage: Storage, facts: Mapping[str, Any], files: Sequence[DataFile]) -> list[Dependency]:
    """All dependencies of a snapshot, those that were lost too."""
    return read_dependencies(storage, next(one for one in files if one.path == facts["set"]))


def holding_among(every: Sequence[Dependency], facts: Mapping[str, Any], view: str) -> tuple[Sequence[Dependency], str]:
    """Those of some dependencies that hold, best first, and why these are not all."""
    space = Space.from_dict(facts["space"])
    found = viewed(space.terms(facts["nullable"]), every, space, view)
    return best(found, facts["because"], space.limits)


def agree_sets(storage: Storage, facts: Mapping[str, Any], files: Sequence[DataFile]) -> AgreeSets:
    """How many pairs of rows agree on exactly which columns, most pairs first."""
    if facts["mode"] != COUNTED:
        raise StateError(
            f"The patterns of pairs of rows are {facts['mode']} in {storage.uri}, not counted, so it is not known how "
            "many pairs agree on which columns.",
            hint="Run a discovery with mode 'counted'.",
        )
    space, nullable = Space.from_dict(facts["space"]), frozenset(facts["nullable"])
    store = added_up(read_patterns(storage, space, nullable, COUNTED, files))
    terms = space.terms(nullable)
    places = terms.own or terms.first
    layout, names = Layout(terms), list(places)
    agreeing = np.array([layout.outcomes(store.patterns, places[name]) == Outcome.EQUAL for name in names])
    packed = np.ascontiguousarray(np.packbits(agreeing, axis=0).T)
    _, first, which = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    pairs = np.zeros(len(first), np.int64)
    np.add.at(pairs, which.ravel(), store.pairs)
    sets = [frozenset(names[one] for one in np.flatnonzero(agreeing[:, place])) for place in first]
    return sorted(zip(sets, pairs.tolist(), strict=True), key=lambda one: (-one[1], len(one[0]), sorted(one[0])))


def pairs_among(space: Space, rows: Coded, agreeing: Sequence[str], differing: str | None) -> int:
    """How many pairs of rows agree on some columns, and (if one is given) differ in another: from sizes of groups."""
    null = 1 if space.classes == ("od",) else 0  # what is looked for reads NULLs as values: so do agree sets
    columns = [rows.codes[name] + null for name in agreeing]
    others = [] if differing is None else [rows.codes[differing] + null]
    valued = np.logical_and.reduce([codes >= 0 for codes in (*columns, *others)], initial=True)
    agree = _pairs([codes[valued] for codes in columns], int(np.broadcast_to(valued, len(rows.ids)).sum()))
    return agree - _pairs([codes[valued] for codes in (*columns, *others)], 0) if others else agree


def _pairs(columns: Sequence[np.ndarray], rows: int) -> int:
    """How many pairs of rows agree on some columns; without any, all pairs of so many rows."""
    sizes = np.bincount(combine([codes.astype(np.int64) for codes in columns])) if columns else np.array([rows])
    return int((sizes * (sizes - 1) // 2).sum())
