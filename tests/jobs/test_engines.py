"""Where a load is worked on, as far as it is decided before its rows are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from dc_engine.engines.spark import is_large
from dc_engine.request import Changes


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two files of 100 bytes, and one in a folder below."""
    for name in ("a.parquet", "b.parquet", "below/c.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(bytes(100))
    return tmp_path


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_large_files_that_are_read_whole_go_to_the_workers_at_once(folder: Path, scheme: str):
    for path, size in ((folder, 200), (folder / "a.parquet", 100)):
        assert is_large(Changes(path=f"{scheme}{path}"), size - 1)
        assert not is_large(Changes(path=f"{scheme}{path}"), size)


@pytest.mark.parametrize(
    "source",
    [
        Changes(path="part of it", where="id = 3"),
        Changes(path="s3://lake/orders"),
        Changes(path="/not/there"),
        Changes(path="/day=*/*.parquet"),
        Changes(sql="select 1"),
        Changes(table="orders"),
    ],
    ids=str,
)
def test_of_all_else_nobody_knows_beforehand(source: Changes):
    assert not is_large(source, 0)
