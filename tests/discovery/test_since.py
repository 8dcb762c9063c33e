"""Since when a dependency holds, and until when it did, whatever happens to the loads."""

from __future__ import annotations

from pathlib import Path

import pytest

from dc_engine.maintained.stored import read_set
from dc_engine.stored import read_dependencies
from tests.discovery.tables import Table

MODES = pytest.mark.parametrize("mode", ["counted", "witnessed"])


def known(table: Table, text: str) -> list[tuple[str, str | None]]:
    """Since when a dependency holds, and until when it did."""
    return [(one.since, one.until) for one in read_set(table.storage, table.snapshot) if one.text == text]


@MODES
@pytest.mark.parametrize("rows", [[], [(3, 1)]], ids=["taken out", "mended"])
def test_what_an_older_load_broke_holds_as_if_it_had_never_been_broken(
    tmp_path: Path, mode: str, rows: list[tuple[int, int]]
) -> None:
    table = Table(tmp_path)
    table.apply("1", (1, 1), (2, 1))
    table.discover(mode, classes=["fd"])
    table.apply("2", (3, 2))
    table.apply("3", (4, 1))
    assert known(table, "b constant") == [("1", "2")]
    if rows:
        assert ("b constant", "1") in [(one.text, one.since) for one in table.told("2", *rows).watched]
    else:
        table.maintain("retract", load_id="2")
    assert known(table, "b constant") == [("1", None)]
    assert not table.problems


@MODES
def test_a_load_that_breaks_the_same_again_broke_what_held_before_it(tmp_path: Path, mode: str) -> None:
    table = Table(tmp_path)
    table.apply("1", (1, 1), (2, 1))
    table.discover(mode, classes=["fd"])
    table.apply("2", (3, 2))
    table.apply("3", (4, 1))
    (lost,) = table.told("2", (3, 3)).invalidated
    assert (lost.text, lost.since) == ("b constant", "1")
    assert known(table, "b constant") == [("1", "2")]


@MODES
def test_nothing_holds_since_a_load_that_was_taken_out(tmp_path: Path, mode: str) -> None:
    table = Table(tmp_path)
    table.apply("1", (1, 1), (2, 2))
    table.discover(mode, classes=["fd"])
    table.apply("2", (3, 1), deletes=[(2, 2)])
    table.apply("3", (4, 1))
    assert known(table, "b constant") == [("2", None)]
    table.maintain("compact")
    table.maintain("retract", load_id="2")  # (2, 2) is there again
    assert known(table, "b constant") == []
    assert known(table, "a -> b") == [("3", None)]  # it was not broken, so nobody wrote down since when it holds
    table.apply("4", (5, 2))
    table.maintain("retract", load_id="1")
    assert {one.since for one in read_set(table.storage, table.snapshot)} == {"3", "4"}


def test_a_rebuild_from_the_table_knows_since_when_dependencies_hold(tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.apply("1", (1, 1), (2, 2))
    table.discover()
    table.apply("2", (3, 2))
    before = {(one.id, one.since, one.until) for one in read_set(table.storage, table.snapshot)}
    table.maintain("rebuild", table=table.source("whole", [(1, 1), (2, 2), (3, 2)]))
    assert {since for _, since, _ in before} == {"1", "2"}
    assert {(one.id, one.since, one.until) for one in read_set(table.storage, table.snapshot)} == before


@MODES
def test_a_rebuild_mends_a_set_that_is_damaged(tmp_path: Path, mode: str) -> None:
    table = Table(tmp_path)
    table.apply("1", (1, 1), (2, 2), (3, 2))
    found = table.discover(mode)
    path = tmp_path / "state" / table.facts["set"]
    path.write_bytes(path.read_bytes()[:-1])
    assert len(table.problems) == 1
    table.maintain("rebuild")
    assert not table.problems
    assert {one["text"] for one in read_dependencies(table.storage, "complete")} == set(found)
