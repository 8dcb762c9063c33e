"""A damaged file is named by whoever needs it, and never changes a verdict; neither do clocks and full disks."""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow.parquet as pq
import pytest

from dc_engine.errors import StateError
from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.parquet import Reader
from dc_engine.state.snapshots import Snapshot, snapshot_path
from dc_engine.state.storage import Storage
from tests.faults.states import RULES, Gate, changes, made_rows, plain, start, updated
from tests.jobs.histories import Given

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
FLIPS = 400 if NIGHTLY else 40
SEED = 13
NOBODY = 65534
DELTA = 10
"""How the header of a page says that numbers are kept as differences; with 0 they would be read as they are."""


@dataclass
class Damaged:
    """A state that is there twice: as it was, and to be damaged."""

    gate: Gate
    base: Path
    loads: list[Given]
    new: Given

    def restore(self) -> None:
        state = Path(self.gate.state)
        shutil.rmtree(state) if state.is_dir() else state.unlink()
        shutil.copytree(self.base, self.gate.state)

    def path(self, file: DataFile | str) -> Path:
        return Path(self.gate.state, file if isinstance(file, str) else file.path)

    @property
    def files(self) -> set[str]:
        return {str(path.relative_to(self.gate.state)) for path in Path(self.gate.state).rglob("*") if path.is_file()}

    def do(self, name: str) -> dict[str, Any]:
        """One of the things that need files."""
        deeds: dict[str, Callable[[], Any]] = {
            "apply": lambda: self.gate.apply(self.new),
            "apply again": lambda: self.gate.apply(self.loads[0]),
            "retract": lambda: self.gate.maintain("retract", load_id=self.loads[0].load_id),
            "verify": lambda: self.gate.maintain("verify"),
        }
        return plain(deeds[name]())


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Damaged:
    """A state with merged and single runs, deletes and violations, and a load that touches all rows."""
    return make(tmp_path_factory.mktemp("damaged"))


def make(folder: Path) -> Damaged:
    chance = random.Random(SEED)
    gate = Gate(str(folder / "state"), constraints=RULES[:1])
    loads: list[Given] = []
    for number in range(4):
        old = [one.inserts[number] for one in loads]
        rows = [*made_rows(chance, 100 * number, 6), *(updated(row, chance) for row in old)]
        loads.append(changes(f"load {number}", rows, old))
        gate.apply(loads[-1])
        if number == 2:
            gate.maintain("compact")
    there = [row for number, load in enumerate(loads) for row in load.inserts[4:6]]
    news = [{**row, "id": 5000 + place, "city": "elsewhere"} for place, row in enumerate(there)]
    every = [{**row, "pay": -1.0} for row in there]  # found by their keys, and looked up for their values
    shutil.copytree(gate.state, folder / "base")
    return Damaged(gate, folder / "base", loads, changes("new", news, every))


@pytest.fixture(scope="module")
def undisturbed(damaged: Damaged) -> dict[str, dict[str, Any]]:
    found = {}
    for name in ("apply", "apply again", "retract", "verify"):
        damaged.restore()
        found[name] = damaged.do(name)
    assert found["apply"]["decision"] == "fail"
    return found


def chosen(storage: Storage, snapshot: Snapshot, kind: str) -> list[DataFile]:
    """The files of one kind, those that everything needs first."""
    if kind == "snapshot":
        return [DataFile(snapshot_path(number), FileKind.ROWS, "", 0, 0, "", 0) for number in (snapshot.number, 1)]
    own = [file for load in snapshot.loads(storage).since() for file in load.files if file.kind == kind]
    found = own or [file for file in snapshot.files if file.kind == kind.split()[-1]]
    if kind == "merged index":
        found = [file for file in found if not file.load]
    elif kind == "index":
        found = [file for file in found if file.load]
    assert len(found) > 1, kind
    return found


NEEDED_BY = {
    "rows": ["apply"],
    "deletes": ["retract"],
    "index": ["apply"],
    "merged index": ["apply", "retract"],
    "violations": [],
    "violating_rows": [],
    "verdict": ["apply again"],
    "snapshot": ["apply", "apply again", "retract"],
}


def flip(path: Path, *places: int) -> None:
    data = bytearray(path.read_bytes())
    for place in places:
        data[place] ^= 0x55
    path.write_bytes(data)


def columns_of(path: Path) -> list[tuple[int, int]]:
    """Where the columns of a Parquet file begin and end."""
    metadata = pq.read_metadata(path)
    chunks = [metadata.row_group(0).column(place) for place in range(metadata.num_columns)]
    starts = [one.dictionary_page_offset or one.data_page_offset for one in chunks]
    return [(start, start + one.total_compressed_size) for start, one in zip(starts, chunks, strict=True)]


def flip_data(path: Path, _: Path) -> None:
    if path.suffix == ".parquet":
        flip(path, *(end - 1 for _, end in columns_of(path)))
    else:
        flip(path, path.stat().st_size // 2)


def flip_header(path: Path, _: Path) -> None:
    flip(path, *((start + 1 for start, _ in columns_of(path)) if path.suffix == ".parquet" else (1,)))


def become_folder(path: Path, _: Path) -> None:
    path.unlink()
    path.mkdir()


def change_digit(path: Path, _: Path) -> None:
    document = json.loads(path.read_text())
    if "rows" in document and isinstance(document["rows"], int):
        document["rows"] += 1
    else:
        document["constraints"][0]["total_violations"] += 1
    path.write_text(json.dumps(document, ensure_ascii=False, indent=1))


DAMAGES: dict[str, Callable[[Path, Path], object]] = {
    "missing": lambda path, _: path.unlink(),
    "truncated": lambda path, _: path.write_bytes(path.read_bytes()[:-9]),
    "data": flip_data,
    "header": flip_header,
    "footer": lambda path, _: flip(path, -9),
    "another": lambda path, other: path.write_bytes(other.read_bytes()),
    "emptied": lambda path, _: path.write_bytes(b""),
    "folder": become_folder,
}
MATRIX = [(kind, damage) for kind in NEEDED_BY for damage in DAMAGES if (kind, damage) != ("snapshot", "missing")]
DAMAGES["digit"] = change_digit
MATRIX += [("snapshot", "digit"), ("verdict", "digit")]


def outcome(work: Callable[[], Any]) -> Any:
    """What comes out of something, be it that the state is found damaged."""
    try:
        return work()
    except StateError as error:
        return error


def check_damage(damaged: Damaged, expected: dict[str, Any], file: DataFile, name: str, *, must_fail: bool) -> None:
    """One deed on a damaged state: it names the file and leaves all as it was, or has the outcome it always had."""
    before = damaged.files
    result = outcome(lambda: damaged.do(name))
    if isinstance(result, StateError):
        assert file.path in result.message
        assert damaged.files == before
    else:
        assert not must_fail, f"{name} did not notice {file.path}"
        assert result == expected[name]


@pytest.mark.parametrize(("kind", "damage"), MATRIX)
def test_a_damaged_file_is_named_by_whatever_needs_it(
    kind: str, damage: str, damaged: Damaged, undisturbed: dict[str, dict[str, Any]]
) -> None:
    damaged.restore()
    file, *others = chosen(damaged.gate.storage, damaged.gate.current, kind)
    other = next(one for one in others if damaged.path(one).read_bytes() != damaged.path(file).read_bytes())
    DAMAGES[damage](damaged.path(file), damaged.path(other))
    if kind == "snapshot":
        with pytest.raises(StateError) as caught:
            damaged.do("verify")
        assert file.path in caught.value.message
    else:
        checked = damaged.gate.maintain("verify")
        assert not checked["sound"]
        assert any(file.path in problem for problem in checked["problems"])
    for name in NEEDED_BY[kind]:
        check_damage(damaged, undisturbed, file, name, must_fail=damage != "header")


def test_without_its_newest_snapshot_the_state_is_the_one_before(
    damaged: Damaged, undisturbed: dict[str, dict[str, Any]]
) -> None:
    damaged.restore()
    damaged.gate.apply(damaged.new)
    damaged.path(snapshot_path(damaged.gate.current.number)).unlink()
    for name in ("verify", "apply"):
        assert damaged.do(name) == undisturbed[name]


def test_a_truncated_snapshot_says_what_to_do_and_doing_it_helps(
    damaged: Damaged, undisturbed: dict[str, dict[str, Any]]
) -> None:
    damaged.restore()
    damaged.gate.apply(damaged.new)
    path = damaged.path(snapshot_path(damaged.gate.current.number))
    path.write_bytes(path.read_bytes()[:1000])
    for name in ("apply", "verify", "retract"):
        with pytest.raises(StateError) as caught:
            damaged.do(name)
        assert f"{path} is not a snapshot" in caught.value.message
        assert "or remove it, and the snapshot before it is in force again" in caught.value.hint
    path.unlink()
    assert damaged.do("verify") == undisturbed["verify"]
    assert damaged.do("apply") == undisturbed["apply"]


class TestFlips:
    """One byte after the other."""

    @pytest.mark.parametrize("kind", ["index", "rows"])
    def test_any_byte_of_a_file_is_as_it_was_or_the_file_is_named(self, kind: str, damaged: Damaged) -> None:
        damaged.restore()
        storage, file = damaged.gate.storage, chosen(damaged.gate.storage, damaged.gate.current, kind)[0]
        path, chance = damaged.path(file), random.Random(SEED)
        good, schema = path.read_bytes(), Reader(storage, file).schema.names
        parts = list(zip(schema, columns_of(path), strict=True))
        whole = {name: self.read(damaged, file, name) for name in schema}
        noticed = 0
        for place in range(len(good)):
            name = next((name for name, (start, end) in parts if start <= place < end), schema[0])
            values = {good[place] ^ chance.randrange(1, 256)}
            for value in values | {0} if good[place] == DELTA else values:
                path.write_bytes(good[:place] + bytes([value]) + good[place + 1 :])
                found = outcome(lambda name=name: self.read(damaged, file, name))
                noticed += isinstance(found, StateError)
                assert found == whole[name] or file.path in found.message, f"{value} at {place}, seed {SEED}"
        assert noticed > len(good) / 2

    @staticmethod
    def read(damaged: Damaged, file: DataFile, name: str) -> list[Any]:
        reader = Reader(damaged.gate.storage, file)
        groups = np.arange(len(reader.group_starts) - 1)
        return reader.read(groups, [name]).column(0).to_pylist()

    @pytest.mark.parametrize("kind", ["index", "rows"])
    def test_a_load_that_reads_it_names_the_file_or_has_the_verdict_it_always_had(
        self, kind: str, damaged: Damaged, undisturbed: dict[str, dict[str, Any]]
    ) -> None:
        damaged.restore()
        file, chance = chosen(damaged.gate.storage, damaged.gate.current, kind)[0], random.Random(SEED)
        path = damaged.path(file)
        good, before = path.read_bytes(), damaged.files
        for place in chance.sample(range(len(good)), FLIPS):
            change = chance.randrange(1, 256)
            path.write_bytes(good[:place] + bytes([good[place] ^ change]) + good[place + 1 :])
            found = outcome(lambda: damaged.do("apply"))
            told = f"{change} at {place}, seed {SEED}"
            assert file.path in found.message if isinstance(found, StateError) else found == undisturbed["apply"], told
            for one in damaged.files - before:
                damaged.path(one).unlink()


class _Clock(datetime):
    """A clock that shows another time."""

    shown = datetime(1999, 12, 31, tzinfo=UTC)

    @classmethod
    def now(cls, tz: Any = None) -> datetime:
        return cls.shown


@contextlib.contextmanager
def clock_at(year: int) -> Iterator[None]:
    places = ("dc_engine.state.snapshots", "dc_engine.state.vacuuming", "dc_engine.maintain")
    shown = type("Clock", (_Clock,), {"shown": datetime(year, 1, 1, tzinfo=UTC)})
    with contextlib.ExitStack() as stack:
        for place in places:
            stack.enter_context(patch(f"{place}.datetime", shown))
        yield


class TestClocks:
    def test_a_clock_that_runs_backwards_changes_no_verdict(
        self, damaged: Damaged, undisturbed: dict[str, dict[str, Any]]
    ) -> None:
        damaged.restore()
        parent = damaged.gate.current
        with clock_at(1999):
            assert damaged.do("apply") == undisturbed["apply"]
            assert damaged.gate.current.created_at.startswith("1999")
            assert damaged.gate.maintain("verify")["sound"]
            assert damaged.gate.apply(damaged.new).replayed
            damaged.gate.maintain("retract", load_id="new")
        assert damaged.gate.current.facts == parent.facts
        assert damaged.gate.maintain("verify")["sound"]

    @pytest.mark.parametrize("year", [1999, 2099])
    def test_vacuum_removes_nothing_that_is_needed_whatever_the_clock_says(
        self, year: int, damaged: Damaged, undisturbed: dict[str, dict[str, Any]]
    ) -> None:
        damaged.restore()
        damaged.path("rows/left-behind.parquet").write_bytes(b"of a process that was killed")
        with clock_at(year):
            done = damaged.gate.maintain("vacuum", keep_snapshots=1, grace_hours=0)
        assert damaged.path("rows/left-behind.parquet").exists() == (year == 1999)
        assert (done["young_files"] > 0) == (year == 1999)
        assert damaged.gate.maintain("verify")["sound"]
        assert damaged.do("apply")["rows"] == undisturbed["apply"]["rows"]
        assert damaged.gate.maintain("verify")["sound"]

    def test_files_from_the_future_are_young_and_the_state_stays_sound(self, damaged: Damaged) -> None:
        damaged.restore()
        future = (datetime.now(UTC) + timedelta(days=400)).timestamp()
        damaged.path("rows/left-behind.parquet").write_bytes(b"of a process that was killed")
        for name in damaged.files:
            os.utime(damaged.path(name), (future, future))
        before = damaged.files
        done = damaged.gate.maintain("vacuum", keep_snapshots=1, grace_hours=0)
        assert (done["removed_files"], done["young_files"], damaged.files) == (0, 1, before)
        assert damaged.gate.maintain("verify")["sound"]


class TestDisks:
    @pytest.mark.parametrize("limit", [0, 1000, 1900, 2200, 4000])
    @pytest.mark.parametrize("name", ["apply", "retract", "compact"])
    def test_a_file_that_does_not_fit_is_an_error_and_the_state_stays(
        self, name: str, limit: int, damaged: Damaged
    ) -> None:
        damaged.restore()
        before, content = damaged.files, snapshots_of(damaged)

        def work() -> Any:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            return damaged.gate.maintain(name) if name == "compact" else damaged.do(name)

        error = start(work).result()
        assert isinstance(error, StateError), error
        assert f"The state {damaged.gate.state} cannot be written: [Errno 27] File too large" in error.message
        assert "ulimit -f" in error.hint
        assert snapshots_of(damaged) == content
        assert before <= damaged.files
        if limit < {"apply": 2200, "compact": 1900, "retract": 1900}[name]:  # else drafts stay for vacuum
            assert damaged.files == before
        assert damaged.gate.maintain("verify")["sound"]
        damaged.gate.check_clean()

    def test_a_folder_that_may_not_be_written_is_an_error_and_the_state_stays(self, damaged: Damaged) -> None:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder).chmod(0o755)
            gate = Gate(f"{folder}/state", constraints=damaged.gate.constraints)
            shutil.copytree(damaged.base, gate.state)
            folders = [Path(gate.state), *(path for path in Path(gate.state).rglob("*") if path.is_dir())]
            for one in folders:
                one.chmod(0o555)
            before = {file.path: file.size for file in gate.storage.files()}

            def work(name: str) -> Any:
                if os.getuid() == 0:
                    os.setgid(NOBODY)
                    os.setuid(NOBODY)
                return gate.apply(damaged.new) if name == "apply" else gate.maintain(name)

            for name in ("apply", "compact"):
                error = start(lambda name=name: work(name)).result()
                assert isinstance(error, StateError), error
                assert f"The state {gate.state} cannot be written: [Errno 13] Permission denied" in error.message
                assert "may write to the folder" in error.hint
            assert start(lambda: work("verify")).result()["sound"]
            assert {file.path: file.size for file in gate.storage.files()} == before
            for one in folders:
                one.chmod(0o755)

    @pytest.mark.parametrize("folder", ["snapshots", "rows", "index", ""])
    def test_a_folder_that_is_a_file_is_an_error(self, folder: str, damaged: Damaged) -> None:
        damaged.restore()
        place = Path(damaged.gate.state, folder)
        shutil.rmtree(place)
        place.write_text("not a folder")
        for name in ("apply", "verify"):
            found = outcome(lambda name=name: damaged.do(name))
            if isinstance(found, StateError):
                assert damaged.gate.state in found.message
            else:
                assert (name, found["sound"]) == ("verify", False)
        assert place.read_text() == "not a folder"


def snapshots_of(damaged: Damaged) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(damaged.gate.state, "snapshots").iterdir()}
