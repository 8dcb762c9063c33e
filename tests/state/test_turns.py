"""Who lost a race is next, for as long as it asked; a failure that is no race is raised at once."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.errors import ConflictError, StateError
from dc_engine.state.snapshots import Snapshot, commit, snapshot_numbers
from dc_engine.state.storage import Storage
from dc_engine.state.turns import FOLDER, Mark, ahead_of, is_lost_race, marks_in, take_turns

OWNERS = st.sampled_from(["0" * 16, "a" * 16, "f" * 16])
MARKS = st.builds(Mark, st.integers(0, 10**19), OWNERS, st.integers(1, 999), st.integers(2, 10**6))


class Time:
    """A clock that only sleeping moves, and what happens at which second."""

    def __init__(self) -> None:
        self.now = 0.0
        self.events: dict[float, Callable[[], Any]] = {}

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds
        for at in [at for at in self.events if at <= self.now]:
            self.events.pop(at)()


@pytest.fixture
def storage() -> Storage:
    return Storage(f"memory://turns/{uuid.uuid4().hex}")


def committed(storage: Storage) -> None:
    number = (snapshot_numbers(storage) or [0])[-1] + 1
    commit(storage, Snapshot(number=number, parent=None, table="t", load_id=f"rival {number}"))


def loses(storage: Storage, times: int) -> Callable[[], str]:
    """Work that others overtake some times."""
    left = [times]

    def attempt() -> str:
        number = (snapshot_numbers(storage) or [0])[-1] + 1
        if left[0]:
            left[0] -= 1
            committed(storage)
        commit(storage, Snapshot(number=number, parent=None, table="t", load_id="mine"))
        return "done"

    return attempt


def turns(storage: Storage, attempt: Callable[[], Any], time: Time, who: str = "mine", **more: Any) -> Any:
    more = {"max_wait_seconds": 3600, **more}
    return take_turns(storage, who, attempt, clock=time.clock, sleep=time.sleep, **more)


@given(st.lists(MARKS, max_size=6), OWNERS)
def test_the_first_in_line_is_who_lost_first_and_nobody_waits_for_itself(marks: list[Mark], owner: str) -> None:
    names = [mark.path.removeprefix(f"{FOLDER}/") for mark in marks]
    read = marks_in([*names, "x", "1-2-3-4", "00000000000000000001.json"])
    assert read == sorted(marks)
    first = ahead_of(owner, read)
    assert first is None or (first == min(marks) and first.owner != owner)
    assert first is not None or not marks or min(marks).owner == owner


@given(st.none() | st.integers(1, 9), st.none() | st.integers(1, 9))
def test_a_race_is_lost_when_somebody_committed_meanwhile(before: int | None, after: int | None) -> None:
    assert is_lost_race(ConflictError("x"), before, after, "x")
    assert is_lost_race(StateError("a file is gone"), before, after, "") == (before != after)
    assert not is_lost_race(StateError("damaged"), before, after, "damaged")


def test_a_writer_that_is_overtaken_a_hundred_times_gets_in_and_leaves_the_line(storage: Storage) -> None:
    assert turns(storage, loses(storage, 100), Time()) == "done"
    assert len(snapshot_numbers(storage)) == 101
    assert storage.names(FOLDER) == []


def test_after_the_time_that_was_given_the_winner_is_named_with_what_to_set(storage: Storage) -> None:
    time = Time()
    attempt = loses(storage, 10**6)

    def slow() -> str:
        time.sleep(70)
        return attempt()

    with pytest.raises(ConflictError) as caught:
        turns(storage, slow, time, max_wait_seconds=600)
    assert "Load 'mine' was not committed: load 'rival 9' was committed" in caught.value.message
    assert caught.value.message.endswith("After 9 tries in 630 s it gave up: others were faster.")
    assert "'max_wait_seconds' above 600" in caught.value.hint
    assert storage.names(FOLDER) == []


def test_with_no_time_given_it_is_tried_once_and_waits_for_nobody(storage: Storage) -> None:
    time = Time()
    storage.write(Mark(1, "a" * 16, 1, 100).path, b"")
    with pytest.raises(ConflictError, match="After 1 try "):
        turns(storage, loses(storage, 1), time, max_wait_seconds=0)
    assert time.now == 0


@pytest.mark.parametrize("others", [False, True])
def test_damage_is_raised_at_once_and_at_the_second_time_when_others_commit(storage: Storage, others: bool) -> None:
    tries = []

    def damaged() -> None:
        tries.append(1)
        if others:
            committed(storage)
        raise StateError("The file x is damaged.")

    with pytest.raises(StateError, match=r"^The file x is damaged\.$"):
        turns(storage, damaged, Time())
    assert len(tries) == 1 + others
    assert storage.names(FOLDER) == []


def test_any_other_error_is_raised_at_once_and_the_place_in_line_given_up(storage: Storage) -> None:
    attempt = loses(storage, 1)

    def fails_later() -> None:
        attempt()
        raise ValueError("something else")

    with pytest.raises(ValueError, match="something else"):
        turns(storage, fails_later, Time())
    assert storage.names(FOLDER) == []


def test_a_newcomer_waits_until_who_lost_before_it_is_done(storage: Storage) -> None:
    time, mark = Time(), Mark(3, "a" * 16, 1, 500)
    storage.write(mark.path, b"")
    time.events[100] = lambda: storage.remove(mark.path)
    assert turns(storage, lambda: time.now, time) == pytest.approx(100, abs=6)


def test_each_new_try_of_the_first_in_line_is_waited_for_anew(storage: Storage) -> None:
    time, marks = Time(), [Mark(3, "a" * 16, tries, 50) for tries in (1, 2, 3)]
    storage.write(marks[0].path, b"")
    for number, (old, new) in enumerate(itertools.pairwise(marks), 1):

        def renew(old: Mark = old, new: Mark = new) -> None:
            storage.write(new.path, b"")
            storage.remove(old.path)

        time.events[40.0 * number] = renew
    time.events[120] = lambda: storage.remove(marks[-1].path)
    assert turns(storage, lambda: time.now, time) == pytest.approx(120, abs=3)


def test_a_mark_that_was_left_behind_is_waited_for_once_and_removed(storage: Storage) -> None:
    time = Time()
    storage.write(Mark(3, "a" * 16, 1, 50).path, b"")
    assert turns(storage, lambda: time.now, time) == pytest.approx(50, abs=2)
    assert storage.names(FOLDER) == []
    assert turns(storage, lambda: time.now, time) == time.now


def test_who_only_reads_waits_for_nobody(storage: Storage) -> None:
    time = Time()
    storage.write(Mark(3, "a" * 16, 1, 50).path, b"")
    assert turns(storage, lambda: time.now, time, waits=False) == 0


def test_work_that_is_started_anew_has_the_place_that_its_killed_start_left(storage: Storage) -> None:
    class Killed(BaseException):
        pass

    time, left = Time(), []

    def dies() -> None:
        if left:
            storage_names = storage.names(FOLDER)
            left.append(storage_names)
            raise Killed
        left.append([])
        committed(storage)
        raise ConflictError("x")

    with pytest.raises(Killed):
        turns(storage, dies, time, "load 7")
    storage.write(f"{FOLDER}/{left[1][0]}", b"")  # as a kill leaves it
    storage.write(Mark(2, "a" * 16, 1, 50).path, b"")
    assert turns(storage, lambda: time.now, time, "load 7") == 0
    assert marks_in(storage.names(FOLDER)) == [Mark(2, "a" * 16, 1, 50)]


def test_a_writer_keeps_its_place_although_another_took_its_mark_away(storage: Storage) -> None:
    places = []
    attempt = loses(storage, 5)

    def work() -> str:
        marks = marks_in(storage.names(FOLDER))
        places.extend(mark.place for mark in marks)
        for mark in marks:
            storage.remove(mark.path)
        return attempt()

    assert turns(storage, work, Time()) == "done"
    assert places == [1] * 5


def test_a_mark_that_cannot_be_removed_hides_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = Storage(str(tmp_path))

    def refuse(path: str) -> None:
        raise StateError("no")

    monkeypatch.setattr(storage, "remove", refuse)
    assert turns(storage, loses(storage, 1), Time()) == "done"
