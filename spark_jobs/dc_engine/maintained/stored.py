"""What a snapshot knows about dependencies, read from its files."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dc_engine.discovery.boxes import Box, ways
from dc_engine.discovery.enumerating import Sets, Violations, enumerator
from dc_engine.discovery.files import read_dependencies, read_patterns, write_dependencies
from dc_engine.discovery.known import Known
from dc_engine.discovery.listing import Dependency, cases
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.space import Space
from dc_engine.maintained.continuity import DEPENDENCIES
from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.memory import Shelf
from dc_engine.state.snapshots import Snapshot
from dc_engine.state.storage import Storage

_IN_MEMORY = 1_000
"""About so many bytes a dependency takes."""


def set_file(snapshot: Snapshot) -> DataFile:
    """The file of the set that is in force."""
    path = snapshot.facts[DEPENDENCIES]["set"]
    return next(one for one in snapshot.files_of(FileKind.DEPENDENCIES) if one.path == path)


def read_set(storage: Storage, snapshot: Snapshot) -> Sequence[Dependency]:
    """All dependencies: those that hold, best first, then those that did."""
    file = set_file(snapshot)
    return _remembered(storage, file, lambda: read_dependencies(storage, file))


def write_set(storage: Storage, load: int, dependencies: Sequence[Dependency]) -> DataFile:
    """Write them; the next load of this session knows them."""
    file = write_dependencies(storage, load, dependencies)
    _remembered(storage, file, lambda: dependencies)
    return file


def _remembered(storage: Storage, file: DataFile, make: Callable[[], Sequence[Dependency]]) -> Sequence[Dependency]:
    return storage.shelf([file]).recall("set", make, lambda _: _IN_MEMORY * file.rows)


def read_known(storage: Storage, snapshot: Snapshot) -> Known:
    """What a snapshot knows. What does not depend on the number of its rows is remembered with its files."""
    facts, rows = snapshot.facts[DEPENDENCIES], snapshot.rows
    given = tuple(str(facts[name]) for name in ("space", "mode", "nullable", "bound", "because"))
    files = [set_file(snapshot), *snapshot.files_of(FileKind.PATTERNS)]
    shelf = storage.shelf(files, *given) if rows > 1 and not facts["space"]["max_error"] else Shelf()
    return shelf.recall("known", lambda: _read_known(storage, snapshot), _nbytes)


def _read_known(storage: Storage, snapshot: Snapshot) -> Known:
    facts, dependencies = snapshot.facts[DEPENDENCIES], read_set(storage, snapshot)
    space, nullable = Space.from_dict(facts["space"]), frozenset(facts["nullable"])
    runs = read_patterns(storage, space, nullable, facts["mode"], snapshot.files_of(FileKind.PATTERNS))
    sets = _sets(space, nullable, dependencies, facts["bound"], snapshot.rows)
    violations = _violations(space, nullable, dependencies, snapshot.rows) if space.max_error else {}
    return Known(facts["mode"], nullable, runs, sets, facts["bound"], facts["because"], violations)


def _nbytes(known: Known) -> int:
    return sum(one.nbytes for one in known.runs) + _IN_MEMORY * sum(map(len, known.sets.values()))


def _violations(space: Space, nullable: frozenset[str], dependencies: Sequence[Dependency], rows: int) -> Violations:
    """How many pairs violate each dependency (or rows have to go for it to hold), from its error."""
    terms, found = space.terms(nullable), {name: dict[Box, int]() for name in space.classes}
    for one in dependencies:
        if one.until is None:
            number = round(one.error * cases(one.kind, rows))
            found[one.kind] |= dict.fromkeys(ways(terms, one.box) if one.kind == "dc" else [one.box], number)
    return found


def _sets(
    space: Space, nullable: frozenset[str], dependencies: Sequence[Dependency], bound: int | None, rows: int
) -> Sets:
    """The sets that are listed; of fewer than two rows nothing is, because everything holds."""
    terms = space.terms(nullable)
    if rows < 2 and space.limits.min_support:  # no pair supports anything
        return {name: [] for name in space.classes}
    if rows < 2:
        layout = Layout(terms)
        return enumerator(layout, space.classes, bound)(np.zeros((0, layout.words), np.uint64)).cut(bound, "").sets
    boxes = {
        name: [one.box for one in dependencies if one.kind == name and one.until is None] for name in space.classes
    }
    return {
        name: sorted({way for box in some for way in ways(terms, box)}) if name == "dc" else some
        for name, some in boxes.items()
    }
