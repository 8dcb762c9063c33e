"""Codes of a large table are kept beside its rows: loads use them, merging leaves them, a check sees wrong ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dc_engine.discovery.coding import Coding
from dc_engine.discovery.files import read_codes, write_codes
from dc_engine.discovery.space import Space
from dc_engine.maintained import reading
from dc_engine.sizes import other_sizes
from dc_engine.state.files import Action, FileKind
from dc_engine.state.snapshots import advance, commit
from tests.discovery.tables import Table

ROWS = [(place, place % 3, None if place == 4 else place % 2) for place in range(20)]


@pytest.fixture(autouse=True)
def _small_sizes() -> Iterator[None]:
    with other_sizes(coded_rows=5):
        yield


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table of twenty rows, with the codes of all of them."""
    table = Table(tmp_path, "a b c")
    table.apply("1", *ROWS)
    table.discover("witnessed")
    return table


def parts(table: Table) -> dict[str, int]:
    """How many rows come from codes, and how many are read."""
    space = Space.from_dict(table.facts["space"])
    rows = reading._living(table.storage, table.snapshot, space)
    return {type(one.part).__name__: len(one.ids) for one in rows}


def paths(table: Table) -> set[str]:
    return {one.path for one in table.snapshot.files_of(FileKind.CODES)}


def test_a_load_reads_only_rows_without_codes(table: Table) -> None:
    before = paths(table)
    assert len(before) == 2
    assert parts(table) == {"Coding": 20}
    table.apply("2", (100, 5, 7), (-3, 1, None))
    assert parts(table) == {"Coding": 20, "Columns": 2}
    assert paths(table) == before
    assert table.problems == []


def test_codes_are_written_again_when_many_rows_are_without(table: Table) -> None:
    before = paths(table)
    table.apply("2", *((place, 1, 1) for place in range(50, 60)))
    assert paths(table) == before, "those of a load are written by the next"
    table.apply("3", (70, 1, 1))
    assert not paths(table) & before
    assert parts(table) == {"Coding": 30, "Columns": 1}
    assert table.problems == []


def test_rows_that_are_deleted_or_taken_out_have_codes_that_nobody_reads(table: Table) -> None:
    table.apply("2", *((place, 1, 1) for place in range(50, 60)))
    table.apply("3", (70, 1, 1), deletes=ROWS[:7])
    assert parts(table) == {"Coding": 23, "Columns": 1}
    table.maintain("retract", load_id="2")
    assert parts(table) == {"Coding": 13, "Columns": 1}
    table.maintain("retract", load_id="3")
    assert parts(table) == {"Coding": 20}, "what was deleted has codes when it comes back"
    assert table.problems == []


def test_merged_rows_have_the_codes_that_they_had(table: Table) -> None:
    table.apply("2", *((place, 1, 1) for place in range(50, 60)))
    table.apply("3", (70, 1, 1))
    before = paths(table)
    table.maintain("compact")
    table.apply("4", (71, 1, 1))
    assert sorted(one.rows for one in table.snapshot.files_of(FileKind.ROWS)) == [1, 1, 30]
    assert paths(table) == before
    assert parts(table) == {"Coding": 30, "Columns": 2}
    assert table.problems == []


def test_another_space_has_other_codes(table: Table) -> None:
    before = paths(table)
    table.discover("witnessed", space={"exclude": ["c"]})
    assert len(paths(table)) == 2
    assert not paths(table) & before
    table.maintain("rebuild")
    assert parts(table) == {"Coding": 20}
    assert table.problems == []


def test_a_small_table_has_no_codes(tmp_path: Path) -> None:
    table = Table(tmp_path, "a b c")
    table.apply("1", *ROWS[:4])
    table.discover()
    assert paths(table) == set()
    assert parts(table) == {"Columns": 4}


@pytest.mark.parametrize("column", ["a", "b", "c"])
def test_a_check_notices_codes_of_other_values(table: Table, column: str) -> None:
    snapshot, space = table.snapshot, Space.from_dict(table.facts["space"])
    kept = read_codes(table.storage, space, snapshot.files_of(FileKind.CODES))
    assert kept is not None
    codes = {name: [np.concatenate(some)] for name, some in kept.coding.codes.items()}
    codes[column][0][[0, 1]] = codes[column][0][[1, 0]]
    files = write_codes(table.storage, space, kept.ids, Coding(codes, kept.coding.values))
    others = [one for one in snapshot.files if one.kind is not FileKind.CODES]
    commit(table.storage, advance(snapshot, replace(snapshot, files=[*others, *files]), Action.COMPACT))
    assert "The codes of 2 rows do not stand for their values." in table.problems
