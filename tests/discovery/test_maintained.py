"""What histories of loads taught about the dependencies that a state keeps: each test is one thing that was wrong."""

from __future__ import annotations

from pathlib import Path

from tests.discovery.tables import Table


def test_a_state_whose_rows_are_all_gone_is_asked_for_columns_that_are_alike(tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.apply("1", (1, 1), (2, 2))
    table.apply("2", deletes=[(1, 1), (2, 2)])
    assert table.discover(space={"cross": "both"}) == []
    assert table.told("3", (1, 2), (2, 2)).valid == {"unique": 1, "fd": 1, "dc": 2}
