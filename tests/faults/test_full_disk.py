"""A disk that is full, or cannot hold a state: nothing is left behind, and vacuum makes room."""

from __future__ import annotations

import errno
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dc_engine.errors import NoSpaceError, StateError, UnfitStoreError
from dc_engine.state.snapshots import NEWEST, snapshot_numbers, snapshot_path
from dc_engine.state.storage import Storage
from tests.faults.states import RULES, Gate, at_once, changes, history, made_rows, named_by, start
from tests.jobs.histories import Given
from tests.s3 import S3Server, s3_server

SEED = 23


class Disk:
    """A disk of a few pages of 4 KiB, by a stand-in for writing that counts what lies in the folder."""

    page = 4096

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.limit = folder, sys.maxsize
        write = Storage._write

        def limited(storage: Storage, path: str, data: bytes) -> None:
            if self.used + self._pages(len(data)) > self.limit:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            write(storage, path, data)

        monkeypatch.setattr(Storage, "_write", limited)

    def _pages(self, size: int) -> int:
        return -(-size // self.page) * self.page

    @property
    def used(self) -> int:
        return sum(self._pages(one.stat().st_size) for one in self.folder.rglob("*") if one.is_file())

    def fill(self) -> None:
        """Leave no space at all."""
        self.limit = self.used

    def empty(self) -> None:
        self.limit = sys.maxsize


class RealDisk:
    """A filesystem in memory of 1 MiB, which a file fills."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fill(self) -> None:
        with (self.folder / "filler").open("ab", buffering=0) as file:
            pages = iter(lambda: file.write(bytes(4096)), 0)
            with pytest.raises(OSError, match="No space left"):
                sum(pages)

    def empty(self) -> None:
        (self.folder / "filler").unlink(missing_ok=True)


@pytest.fixture(params=["stand-in", "tmpfs"])
def disk(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk | RealDisk]:
    if request.param == "stand-in":
        yield Disk(tmp_path, monkeypatch)
        return
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", tmp_path], capture_output=True)
    if mounted.returncode:
        pytest.skip(reason=f"mounting a filesystem of a megabyte takes root: {mounted.stderr.decode().strip()}")
    try:
        yield RealDisk(tmp_path)
    finally:
        subprocess.run(["umount", "-l", tmp_path], check=True)


@pytest.fixture
def gate(disk: Disk | RealDisk) -> Gate:
    return Gate(str(disk.folder / "state"))


def begin(gate: Gate, loads: int = 4) -> list[Given]:
    given = history(random.Random(SEED), loads=loads)
    for one in given:
        gate.apply(one)
    return given


def files(gate: Gate) -> dict[str, int]:
    return {file.path: file.size for file in gate.storage.files()}


def refused(kind: type[StateError], action: Callable[[], Any]) -> StateError:
    with pytest.raises(kind) as caught:
        action()
    return caught.value


NEW = changes("new", made_rows(random.Random(SEED), 50_000, 20), [])
VACUUM: dict[str, Any] = {"keep_snapshots": 1, "grace_hours": 0}


def test_a_gate_on_a_full_disk_leaves_nothing_behind(disk: Disk | RealDisk, gate: Gate) -> None:
    loads = begin(gate)
    before = files(gate)
    disk.fill()
    error = refused(NoSpaceError, lambda: gate.apply(NEW))
    assert "No space left on device" in error.message
    assert "The disk is full" in error.hint
    assert files(gate) == before
    gate.check(loads)
    disk.empty()
    gate.apply(NEW)
    gate.check([*loads, NEW])


@pytest.mark.parametrize("pages", [1, 3, 6, 9, 11, 12, 13])
def test_a_gate_that_fills_the_disk_at_any_file_leaves_nothing_behind(
    pages: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(tmp_path, monkeypatch)
    gate = Gate(str(tmp_path / "state"))
    loads = begin(gate)
    before = files(gate)
    disk.limit = disk.used + pages * disk.page
    refused(NoSpaceError, lambda: gate.apply(NEW))
    assert files(gate) == before
    gate.check(loads)


@pytest.mark.parametrize(
    ("action", "folder"),
    [("apply", "rows"), ("apply", "index"), ("apply", "verdicts"), ("compact", "rows"), ("retract", "index")],
)
def test_a_file_that_does_not_reach_the_disk_leaves_nothing_behind(
    action: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(str(tmp_path / "state"))
    loads = begin(gate)
    before = files(gate)
    fsync = os.fsync

    def failing(handle: int) -> None:
        path = Path(f"/dev/fd/{handle}").resolve()
        if path.is_file() and path.is_relative_to(tmp_path / "state" / folder):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", failing)
    more = {"load_id": loads[1].load_id} if action == "retract" else {}
    error = refused(StateError, lambda: gate.apply(NEW) if action == "apply" else gate.maintain(action, **more))
    assert "cannot be written: [Errno 5] Input/output error" in error.message
    assert files(gate) == before
    gate.check(loads)


@pytest.mark.parametrize("action", ["compact", "retract"])
def test_an_action_on_a_full_disk_leaves_nothing_behind(action: str, disk: Disk | RealDisk, gate: Gate) -> None:
    loads = begin(gate)
    before = files(gate)
    disk.fill()
    more = {"load_id": loads[1].load_id} if action == "retract" else {}
    refused(NoSpaceError, lambda: gate.maintain(action, **more))
    assert files(gate) == before
    gate.check(loads)


def test_vacuum_makes_room_on_a_full_disk(disk: Disk | RealDisk, gate: Gate) -> None:
    loads = begin(gate)
    gate.maintain("compact")
    gate.storage.write("rows/left-behind.parquet", b"of a process that was killed")
    disk.fill()
    refused(NoSpaceError, lambda: gate.apply(NEW))
    done = gate.maintain("vacuum", **VACUUM)
    assert (done["removed_snapshots"], done["snapshot"]) == (4, 6)
    assert gate.storage.size("rows/left-behind.parquet") is None
    assert done["removed_bytes"] > 50_000
    gate.check(loads)
    disk.empty()
    gate.apply(NEW)
    gate.check([*loads, NEW])
    gate.check_clean()


def test_vacuum_that_finds_too_little_says_what_it_freed_and_needs(disk: Disk | RealDisk, gate: Gate) -> None:
    begin(gate, loads=3)
    gate.storage.write("rows/left-behind.parquet", b"of a process that was killed")
    before = files(gate)
    disk.fill()
    error = refused(NoSpaceError, lambda: gate.maintain("vacuum", keep_snapshots=3, grace_hours=0))
    assert "Vacuum has freed 0 bytes (0 files, 0 old snapshots among them)" in error.message
    size = before[snapshot_path(3)]
    needed = int(error.message.split("it needs ")[1].split(" bytes")[0].replace(",", ""))
    assert abs(needed - size) < 100
    assert "keep_snapshots" in error.hint
    assert files(gate) == before  # a leftover may be a running gate's


class _Stop(BaseException):
    """The end of a process."""


def test_vacuum_that_dies_at_any_removal_on_a_full_disk_leaves_every_snapshot_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(tmp_path, monkeypatch)
    gate = Gate(str(tmp_path / "state"))
    loads = begin(gate)
    gate.maintain("compact")
    gate.storage.write("rows/left-behind.parquet", b"of a process that was killed")
    base = tmp_path.parent / f"{tmp_path.name}-base"
    shutil.copytree(gate.state, base)
    remove, removals = Storage.remove, 0
    for moment in range(100):
        disk.empty()
        shutil.rmtree(gate.state)
        shutil.copytree(base, gate.state)
        disk.fill()
        left = [moment]

        def dying(storage: Storage, path: str, left: list[int] = left) -> None:
            if not left[0]:
                raise _Stop
            left[0] -= 1
            remove(storage, path)

        monkeypatch.setattr(Storage, "remove", dying)
        try:
            gate.maintain("vacuum", **VACUUM)
            break
        except _Stop:
            removals += 1
        finally:
            monkeypatch.setattr(Storage, "remove", remove)
        present = files(gate).keys()
        for number in snapshot_numbers(gate.storage):
            assert named_by(gate.storage, number) <= present
        gate.maintain("vacuum", **VACUUM)
        gate.check(loads)
    assert removals > 10
    gate.check(loads)


def test_a_gate_and_two_vacuums_on_a_nearly_full_disk_leave_a_sound_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each runs in a process of its own; whoever finds no space says so."""
    disk = Disk(tmp_path, monkeypatch)
    gate = Gate(str(tmp_path / "state"))
    loads = begin(gate)
    gate.maintain("compact")
    for pages in (0, 2, 14):
        disk.empty()
        disk.limit = disk.used + pages * disk.page
        vacuum = lambda: gate.maintain("vacuum", **VACUUM)  # noqa: E731
        results = at_once([lambda: gate.apply(NEW), vacuum, vacuum])
        assert not [one for one in results if isinstance(one, Exception) and not isinstance(one, NoSpaceError)], results
        there = [one.load_id for one in gate.loads]
        gate.check([*loads, NEW] if "new" in there else loads)
    disk.empty()
    gate.apply(NEW)
    gate.check([*loads, NEW])
    gate.check_clean()


def test_a_gate_that_began_before_two_others_is_not_lost_when_a_vacuum_frees_its_number(tmp_path: Path) -> None:
    from tests.faults.test_two_at_once import _Overtaken

    gate, others = Gate(str(tmp_path / "state")), Gate(str(tmp_path / "state"))
    loads = begin(gate)
    rows = random.Random(SEED)
    between = [changes(f"between {n}", made_rows(rows, 60_000 + 100 * n, 5), []) for n in range(3)]
    calm = [True]

    def meanwhile() -> None:
        if calm:
            calm.clear()
            for one in between:
                others.apply(one)
            others.maintain("vacuum", **VACUUM)
            others.maintain("vacuum", **VACUUM)

    gate.session.sources = _Overtaken(meanwhile, "new")
    verdict = gate.apply(NEW)
    assert verdict.snapshot == gate.current.number == 10
    gate.check([*loads, *between, NEW])


NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP)


@pytest.mark.parametrize("number", NO_LINKS)
def test_a_disk_without_hard_links_is_refused_before_anything_is_written(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", _no_links(number))
    error = refused(UnfitStoreError, lambda: Gate(str(tmp_path / "a" / "state")).apply(NEW))
    assert "has no hard links" in error.message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", NO_LINKS)
@pytest.mark.parametrize("action", ["apply", "compact", "retract", "vacuum"])
def test_a_state_that_was_moved_to_a_disk_without_hard_links_stays_as_it_is(
    action: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(str(tmp_path / "state"))
    loads = begin(gate)
    moved = Gate(str(tmp_path / "moved"))
    shutil.copytree(gate.state, moved.state)
    before = files(moved)
    monkeypatch.setattr(os, "link", _no_links(number))
    more: dict[str, Any] = {"retract": {"load_id": loads[1].load_id}, "vacuum": VACUUM}.get(action, {})
    refused(UnfitStoreError, lambda: moved.apply(NEW) if action == "apply" else moved.maintain(action, **more))
    assert files(moved) == before
    moved.check(loads)


def test_drafts_of_a_lost_race_are_removed(tmp_path: Path) -> None:
    from tests.faults.test_two_at_once import _Overtaken

    gate, other = Gate(str(tmp_path / "state")), Gate(str(tmp_path / "state"))
    loads = begin(gate)
    late = changes("late", made_rows(random.Random(1), 70_000, 5), [])
    calm = [True]
    gate.session.sources = _Overtaken(lambda: calm and (calm.clear() or other.apply(NEW)), "late")
    gate.apply(late)
    gate.check([*loads, NEW, late])
    named = set()
    for number in snapshot_numbers(gate.storage):
        named |= {snapshot_path(number)} | named_by(gate.storage, number)
    assert files(gate).keys() == {NEWEST, *named}


def _no_links(number: int) -> Callable[[Path, Path], None]:
    def link(source: Path, target: Path) -> None:
        raise OSError(number, os.strerror(number))

    return link


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.mark.parametrize("action", ["apply", "compact", "vacuum"])
def test_a_server_that_ignores_conditions_is_refused_and_nothing_stays_behind(action: str, s3: S3Server) -> None:
    gate = Gate(s3.uri(), options=s3.options, constraints=RULES[:1])
    for one in history(random.Random(SEED), loads=3, rows=6):
        gate.apply(one)
    before = files(gate)

    def work() -> Any:
        more = VACUUM if action == "vacuum" else {}
        return gate.apply(NEW) if action == "apply" else gate.maintain(action, **more)

    s3.heeds_conditions = False
    try:
        # a process of its own, as a new job is: this one has asked the server already
        error = start(lambda: _forget() or work()).result()
    finally:
        s3.heeds_conditions = True
    assert isinstance(error, UnfitStoreError), error
    assert "accepted a second file of the same name" in error.message
    assert files(gate) == before


def _forget() -> None:
    from dc_engine.state import writing

    writing._checked.clear()
