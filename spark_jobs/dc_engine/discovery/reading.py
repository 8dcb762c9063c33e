"""What a state knows about dependencies, for those who only read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dc_engine.discovery.files import read_dependencies, read_patterns
from dc_engine.discovery.keeping import COUNTED
from dc_engine.discovery.listing import Dependency, viewed
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.space import Space
from dc_engine.discovery.store import added_up
from dc_engine.discovery.terms import Outcome
from dc_engine.errors import StateError
from dc_engine.state.files import DataFile
from dc_engine.state.storage import Storage

AgreeSets = list[tuple[frozenset[str], int]]


def holding(storage: Storage, facts: Mapping[str, Any], files: Sequence[DataFile], view: str) -> list[Dependency]:
    """The dependencies that hold, best first; ``facts`` and ``files`` are those of a snapshot."""
    file = next(one for one in files if one.path == facts["set"])
    return viewed(read_dependencies(storage, file), facts["space"]["classes"], view)


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
    layout, names = Layout(terms), list(terms.own)
    agreeing = np.array([layout.outcomes(store.patterns, terms.own[name]) == Outcome.EQUAL for name in names])
    packed = np.ascontiguousarray(np.packbits(agreeing, axis=0).T)
    _, first, which = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    pairs = np.zeros(len(first), np.int64)
    np.add.at(pairs, which.ravel(), store.pairs)
    sets = [frozenset(names[one] for one in np.flatnonzero(agreeing[:, place])) for place in first]
    return sorted(zip(sets, pairs.tolist(), strict=True), key=lambda one: (-one[1], len(one[0]), sorted(one[0])))
