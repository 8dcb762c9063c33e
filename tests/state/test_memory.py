"""What a process keeps of files: the same content, within its bounds, as long as the file is the same."""

from __future__ import annotations

import gc
import pickle
import resource
import shutil
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import Mock, patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.errors import StateError
from dc_engine.sizes import SIZES, other_sizes
from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.memory import Memory
from dc_engine.state.packing import parquet_bytes
from dc_engine.state.parquet import Reader, store_parquet
from dc_engine.state.storage import Storage


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(str(tmp_path))


def stored(storage: Storage, rows: int = 50_000) -> DataFile:
    data = parquet_bytes(pa.table({"x": range(rows)}))
    return store_parquet(storage, "index/one/1.parquet", data, kind=FileKind.INDEX, load=1, rows=rows)


def xs(storage: Storage, file: DataFile, *, keep: bool = True) -> list[int]:
    return Reader(storage, file, keep=keep).read([0, 1], ["x"]).column(0).to_pylist()


def test_what_was_read_is_not_read_again(storage: Storage) -> None:
    file = stored(storage)
    first = xs(storage, file)
    reading = Mock(side_effect=AssertionError("it is read"))
    with patch.multiple(Storage, read_part=reading, read_into=reading):
        assert xs(storage, file) == first
        with pytest.raises(AssertionError, match="it is read"):
            xs(storage, file, keep=False)
        with pytest.raises(AssertionError, match="it is read"):
            xs(pickle.loads(pickle.dumps(storage)), file)


@given(st.lists(st.sets(st.integers(0, 7), min_size=1), min_size=1, max_size=6))
def test_row_groups_are_what_the_file_has_whatever_was_read_before(asked: list[set[int]]) -> None:
    table = pa.table({"x": range(22), "text": [[str(one)] * (one % 4) for one in range(22)]})
    with TemporaryDirectory() as folder:
        storage = Storage(folder)
        data = parquet_bytes(table, row_group=3)
        file = store_parquet(storage, "index/one/1.parquet", data, kind=FileKind.INDEX, load=1, rows=22)
        known: set[int] = set()
        for groups in map(sorted, asked):
            rows = [row for group in groups for row in range(3 * group, min(3 * group + 3, 22))]
            lacking = set(groups) - known
            if known and lacking and len(known | lacking) > 4:  # of most of a file all is kept
                lacking = set(range(8)) - known
            with patch.object(Reader, "_fetched", autospec=True, side_effect=Reader._fetched) as fetch:
                assert Reader(storage, file, keep=True).read(groups, table.column_names).equals(table.take(rows))
            assert [set(call.args[1]) for call in fetch.call_args_list] == ([lacking] if lacking else [])
            known |= lacking


def test_what_is_made_of_row_groups_is_made_once(storage: Storage, tmp_path: Path) -> None:
    file, made = stored(storage), []

    def make(table: pa.Table) -> int:
        made.append(table.num_rows)
        return table.num_rows

    def ask(key: str, *groups: int, keep: bool = True) -> int:
        return Reader(storage, file, keep=keep).made(np.array(groups), ["x"], key, make, lambda _: 8)

    assert ask("one", 0, 1) == ask("one", 0, 1) == 2 * SIZES.row_group
    assert len(made) == 1
    assert ask("one", 0) == ask("other", 0) == ask("one", 0, keep=False) == SIZES.row_group
    assert len(made) == 4
    (tmp_path / file.path).write_bytes((tmp_path / file.path).read_bytes())
    assert ask("one", 0) == SIZES.row_group
    assert len(made) == 5


@pytest.mark.parametrize("harm", [lambda path: path.unlink(), lambda path: path.write_bytes(b"PAR1" * 1_000)])
def test_a_file_that_is_gone_or_written_to_is_noticed(storage: Storage, tmp_path: Path, harm) -> None:
    file = stored(storage)
    xs(storage, file)
    harm(tmp_path / file.path)
    with pytest.raises(StateError, match=r"1\.parquet"):
        xs(storage, file)


def test_the_oldest_goes_when_there_is_no_room() -> None:
    memory, read = Memory(), []

    def recall(key: str) -> str:
        return memory.recall(key, lambda known: known or read.append(key) or key, lambda content: 40)  # type: ignore[func-returns-value]

    with other_sizes(remembered_bytes=170):
        assert [recall(one) for one in "abcdaeab"] == [*"abcdaeab"]
    assert read == [*"abcdeb"]


def test_what_would_take_much_of_the_room_by_itself_drives_nothing_out() -> None:
    memory, read = Memory(), []

    def recall(key: str) -> str:
        return memory.recall(key, lambda known: known or read.append(key) or key, lambda content: 40 * len(content))  # type: ignore[func-returns-value]

    with other_sizes(remembered_bytes=170):
        assert [recall(one) for one in ("a", "large", "a", "large")] == ["a", "large", "a", "large"]
    assert read == ["a", "large", "large"]


def test_footers_count_with_the_memory_that_they_take(storage: Storage, tmp_path: Path) -> None:
    """Those of large files take a hundred times more than those of small ones, outside of Python."""
    table = pa.table({f"column {number}": range(4_096) for number in range(12)})
    data = parquet_bytes(table, row_group=16)
    one = store_parquet(storage, "index/0.parquet", data, kind=FileKind.INDEX, load=1, rows=4_096)
    files = [replace(one, path=f"index/{number}.parquet") for number in range(80)]
    for file in files[1:]:
        shutil.copy(tmp_path / one.path, tmp_path / file.path)
    Reader(storage, one)
    before = resident()
    with other_sizes(remembered_bytes=20 * 2**20):
        for file in files:
            Reader(storage, file, keep=True)
    assert resident() - before < 60 * 2**20


def resident() -> int:
    """How many bytes this process has in memory."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
