"""A commit happens wholly or not at all, on any filesystem."""

from __future__ import annotations

import json
import pickle
import threading
import uuid
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.errors import ConflictError, StateError
from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.loads import Load
from dc_engine.state.snapshots import (
    NEWEST,
    Snapshot,
    commit,
    newest_number,
    read_current,
    snapshot_numbers,
    snapshot_path,
)
from dc_engine.state.storage import Storage


@pytest.fixture(params=["path", "file URI", "memory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    places = {"path": str(tmp_path / "state"), "file URI": f"file://{tmp_path}/state"}
    return Storage(places.get(request.param, f"memory://states/{uuid.uuid4().hex}"))


def snapshot(number: int, load_id: str = "monday") -> Snapshot:
    file = DataFile("rows/1.parquet", FileKind.ROWS, "", 1, 10, "0" * 64, 3, first_row_id=1 << 40)
    load = Load(1, 1, load_id, "3-aa-bb", 3, verdict="verdicts/1.json", files=[file])
    return Snapshot(number, number - 1 or None, "people", load_id=load_id, rows=3, recent=[load], files=[file])


class TestCommit:
    def test_an_untouched_folder_has_no_snapshot(self, storage: Storage) -> None:
        assert read_current(storage) is None

    def test_what_was_committed_is_read_back(self, storage: Storage) -> None:
        committed = commit(storage, snapshot(1))
        assert read_current(storage) == committed
        assert committed.loads(storage).find("monday") == committed.recent[0]
        assert committed.loads(storage).find("tuesday") is None

    def test_the_newest_snapshot_is_the_current_one(self, storage: Storage) -> None:
        for number in range(1, 12):
            commit(storage, snapshot(number))
        current = read_current(storage)
        assert current is not None
        assert (current.number, current.parent) == (11, 10)

    def test_of_two_writers_one_wins_and_the_other_is_told_who(self, storage: Storage) -> None:
        first = commit(storage, snapshot(1, "monday"))
        with pytest.raises(ConflictError, match="Load 'tuesday' was not committed: load 'monday' was committed"):
            commit(storage, snapshot(1, "tuesday"))
        assert read_current(storage) == first

    def test_of_many_writers_at_once_exactly_one_wins(self, storage: Storage) -> None:
        outcomes: list[str] = []

        def write(name: str) -> None:
            try:
                commit(storage, snapshot(1, name))
                outcomes.append(name)
            except ConflictError:
                outcomes.append("")

        writers = [threading.Thread(target=write, args=[f"writer {number}"]) for number in range(8)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        current = read_current(storage)
        assert current is not None
        assert sorted(outcomes) == [""] * 7 + [current.load_id]

    def test_a_number_that_is_free_only_because_its_snapshot_was_removed_is_not_taken(self, storage: Storage) -> None:
        for number in range(1, 6):
            commit(storage, snapshot(number))
        newest = read_current(storage)
        for number in range(1, 5):
            storage.remove(snapshot_path(number))
        for number in (1, 2, 4):  # of writers that began on the snapshot before, long ago
            load = replace(snapshot(1).recent[0], number=number, verdict="verdicts/late.json")
            with pytest.raises(StateError, match="may not have been committed: snapshots after") as caught:
                commit(storage, replace(snapshot(number, "late"), recent=[load]))
            assert not isinstance(caught.value, ConflictError)
            assert read_current(storage) == newest
        assert snapshot_numbers(storage) == [5]

    def test_a_commit_that_others_followed_at_once_is_one_although_its_parent_is_gone(
        self, storage: Storage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        commit(storage, snapshot(1))
        create = storage.create
        mine = replace(snapshot(2), recent=[replace(snapshot(2).recent[0], number=2, verdict="verdicts/mine.json")])

        def followed(path: str, data: bytes) -> None:
            create(path, data)
            monkeypatch.setattr(storage, "create", create)
            commit(storage, replace(mine, number=3, parent=2))
            storage.remove(snapshot_path(1))

        monkeypatch.setattr(storage, "create", followed)
        assert commit(storage, mine).number == 2
        assert snapshot_numbers(storage) == [2, 3]

    def test_a_commit_whose_answer_was_lost_is_no_conflict(
        self, storage: Storage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        create = storage.create

        def lost(path: str, data: bytes) -> None:
            create(path, data)
            create(path, data)

        monkeypatch.setattr(storage, "create", lost)
        assert commit(storage, snapshot(1)) == read_current(storage)

    def test_no_draft_is_left_behind(self, storage: Storage) -> None:
        commit(storage, snapshot(1))
        assert storage.names("snapshots") == ["00000000000000000001.json", "newest"]


class TestDamage:
    @pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"table": "x"}', b"\xff\xfe"])
    def test_a_snapshot_that_is_none_is_named(self, storage: Storage, content: bytes) -> None:
        storage.create("snapshots/00000000000000000001.json", content)
        with pytest.raises(StateError, match=r"snapshots/00000000000000000001\.json is not a snapshot"):
            read_current(storage)

    def test_a_newer_format_asks_for_an_upgrade(self, storage: Storage) -> None:
        commit(storage, snapshot(1))
        document = json.loads(storage.read("snapshots/00000000000000000001.json"))
        storage.create("snapshots/00000000000000000002.json", json.dumps(document | {"format_version": 9}).encode())
        with pytest.raises(StateError, match="has format 9; this version reads format 1") as caught:
            read_current(storage)
        assert caught.value.hint == "Upgrade airflow-dc-provider."

    def test_a_missing_file_is_named(self, storage: Storage) -> None:
        with pytest.raises(StateError, match=r"lacks the file rows/gone\.parquet"):
            storage.read("rows/gone.parquet")
        with pytest.raises(StateError, match=r"lacks the file rows/gone\.parquet"):
            storage.open("rows/gone.parquet")


def test_a_storage_reaches_workers_without_its_open_filesystem(storage: Storage) -> None:
    storage.names("")
    assert pickle.loads(pickle.dumps(storage)).uri == storage.uri


class TestNewest:
    """The newest snapshot is found, whatever the hint says."""

    @given(
        numbers=st.sets(st.integers(1, 40), min_size=1),
        hint=st.none() | st.integers(0, 45) | st.sampled_from([b"", b"x", b"9" * 30]),
    )
    def test_a_hint_that_is_old_wrong_or_gone_misleads_nobody(
        self, numbers: set[int], hint: int | bytes | None, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        storage = Storage(str(tmp_path_factory.mktemp("newest")))
        for number in numbers:
            storage.write(snapshot_path(number), b"")
        if hint is not None:
            storage.hint(NEWEST, hint if isinstance(hint, bytes) else str(hint).encode())
        assert newest_number(storage) == max(numbers)
