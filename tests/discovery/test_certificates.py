"""Whatever is altered in what a state knows about dependencies, a check of the state names it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dc_engine.discovery.files import write_dependencies, write_patterns
from dc_engine.discovery.listing import Dependency
from dc_engine.discovery.space import Space
from dc_engine.discovery.store import Store
from dc_engine.maintained.continuity import DEPENDENCIES
from dc_engine.maintained.stored import read_known, read_set
from dc_engine.state.files import Action, FileKind
from dc_engine.state.snapshots import advance, commit
from tests.discovery.tables import Table

ROWS = [(1, 1, 1), (1, 2, 1), (2, 2, 3), (3, 1, None), (3, 1, 2)]


def found(folder: Path, mode: str) -> Table:
    table = Table(folder, "a b c")
    table.apply("1", *ROWS[:3])
    table.discover(mode)
    table.apply("2", *ROWS[3:])
    assert not table.problems
    return table


def store_of(table: Table) -> Store:
    return read_known(table.storage, table.snapshot).store


def with_store(table: Table, store: Store) -> None:
    """Commit a state whose patterns were altered, in files that are whole."""
    snapshot = table.snapshot
    known = read_known(table.storage, snapshot)
    files = write_patterns(table.storage, Space.from_dict(table.facts["space"]), known, 0, store)
    others = [one for one in snapshot.files if one.kind is not FileKind.PATTERNS]
    commit(table.storage, advance(snapshot, replace(snapshot, files=[*others, *files]), Action.COMPACT))


def with_set(table: Table, alter: Callable[[list[Dependency]], Sequence[Dependency]]) -> None:
    """Commit a state whose dependencies were altered."""
    snapshot = table.snapshot
    file = write_dependencies(table.storage, 0, alter(read_set(table.storage, snapshot)))
    others = [one for one in snapshot.files if one.kind is not FileKind.DEPENDENCIES]
    facts = {**snapshot.facts, DEPENDENCIES: {**snapshot.facts[DEPENDENCIES], "set": file.path}}
    commit(table.storage, advance(snapshot, replace(snapshot, files=[*others, file], facts=facts), Action.COMPACT))


def test_without_a_witness_that_is_needed_a_dependency_does_not_follow(tmp_path: Path) -> None:
    table = found(tmp_path, "witnessed")
    store, named = store_of(table), 0
    for line in range(len(store)):
        with_store(table, store.taken(np.flatnonzero(np.arange(len(store)) != line)))
        problems = table.problems
        assert all("does not follow" in one or "is missing" in one or "does not hold" in one for one in problems)
        named += bool(problems)
    assert named > len(store) / 2, "most witnesses are needed"


@pytest.mark.parametrize("mode", ["witnessed", "counted"])
def test_a_dependency_that_does_not_hold_is_named_with_its_violations(tmp_path: Path, mode: str) -> None:
    table = found(tmp_path, mode)
    with_set(table, lambda some: [replace(some[0], kind="unique", box=(2, 7, 7), until=None), *some])
    problems = table.problems
    assert "Dependency unique [a] of class unique does not follow from the patterns." in problems
    assert "Dependency unique [a] does not hold: 2 violations." in problems


@pytest.mark.parametrize("mode", ["witnessed", "counted"])
def test_any_dependency_that_is_left_out_is_missing(tmp_path: Path, mode: str) -> None:
    table = found(tmp_path, mode)
    every = [one for one in read_set(table.storage, table.snapshot) if one.until is None]
    for one in every:
        with_set(table, lambda _, left_out=one: [other for other in every if other is not left_out])
        assert len(table.problems) == 1
        assert table.problems[0].endswith(f"of class {one.kind} is missing.")


@pytest.mark.parametrize("mode", ["witnessed", "counted"])
def test_a_dependency_that_is_not_minimal_does_not_follow(tmp_path: Path, mode: str) -> None:
    table = found(tmp_path, mode)
    longest = replace(read_set(table.storage, table.snapshot)[0], kind="dc", box=(2, 1, 1), until=None)
    with_set(table, lambda some: [longest, *some])
    assert len(table.problems) == 1
    assert table.problems[0].endswith("of class dc does not follow from the patterns.")


def test_a_witness_that_shows_another_pattern_is_named(tmp_path: Path) -> None:
    table = found(tmp_path, "witnessed")
    store = store_of(table)
    with_store(table, replace(store, patterns=np.roll(store.patterns, 1, axis=0)))
    assert any("do not show the pattern that is said of them" in one for one in table.problems)
    with_store(table, replace(store, t=store.t[::-1].copy()))
    assert any(one.startswith("Rows ") for one in table.problems)


def test_a_count_that_is_wrong_is_named(tmp_path: Path) -> None:
    table = found(tmp_path, "counted")
    store = store_of(table)
    for line in range(len(store)):
        with_store(table, replace(store, pairs=store.pairs + (np.arange(len(store)) == line) * (1 - line % 2 * 2)))
        assert any(one.startswith("Pattern ") for one in table.problems)
    with_store(table, store)
    assert not table.problems
