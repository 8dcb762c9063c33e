"""A state's folder, on a disk and on S3: what is written stays, what is taken stays taken, and secrets stay secret."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import traceback
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dc_engine.errors import ConflictError, NoSpaceError, StateError
from dc_engine.state.snapshots import Snapshot, commit, read_current
from dc_engine.state.storage import Storage
from tests.s3 import REGION, S3Server, s3_server

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def running() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture
def s3(running: S3Server) -> S3Server:
    running.heeds_conditions, running.answers, running.lost = True, [], 0
    running.requests.clear()
    return running


@pytest.fixture
def on_s3(s3: S3Server) -> Storage:
    return Storage(s3.uri(), s3.options)


@pytest.fixture(params=["disk", "memory", "S3"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    if request.param == "S3":
        return request.getfixturevalue("on_s3")
    return Storage(str(tmp_path / "state") if request.param == "disk" else f"memory://states/{uuid.uuid4().hex}")


def refusal(action: Callable[[], object]) -> StateError:
    with pytest.raises(StateError) as caught:
        action()
    return caught.value


def python(program: str, *, given: bytes = b"", **environment: str) -> bytes:
    """What a program writes that runs in a process of its own, with nothing of this one's environment."""
    done = subprocess.run(
        [sys.executable, "-c", program], input=given, capture_output=True, cwd=REPOSITORY, env=environment, timeout=120
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


class TestFiles:
    def test_what_was_written_is_read_back(self, storage: Storage) -> None:
        stored = storage.write("rows/1.parquet", b"some rows")
        assert storage.read("rows/1.parquet") == b"some rows"
        assert storage.read("rows/1.parquet", expected=stored) == b"some rows"
        assert (stored.path, stored.size, storage.size("rows/1.parquet")) == ("rows/1.parquet", 9, 9)

    def test_another_content_than_expected_is_damage(self, storage: Storage) -> None:
        stored = storage.write("rows/1.parquet", b"some rows")
        storage.write("rows/1.parquet", b"same size")
        with pytest.raises(StateError, match=r"rows/1\.parquet is damaged"):
            storage.read("rows/1.parquet", expected=stored)

    def test_a_missing_file_is_named(self, storage: Storage) -> None:
        assert "lacks the file rows/gone.parquet" in refusal(lambda: storage.read("rows/gone.parquet")).message
        assert "lacks the file rows/gone.parquet" in refusal(lambda: storage.open("rows/gone.parquet")).message
        assert storage.size("rows/gone.parquet") is None

    def test_a_folder_that_is_not_there_is_empty(self, storage: Storage) -> None:
        assert storage.names("snapshots") == []
        assert storage.files() == []

    def test_a_folder_has_no_size(self, storage: Storage) -> None:
        storage.write("rows/1.parquet", b"some rows")
        assert storage.size("rows") is None

    def test_names_are_those_of_one_folder(self, storage: Storage) -> None:
        for path in ("snapshots/2.json", "snapshots/1.json", "rows/a/1.parquet", "other/1"):
            storage.write(path, b"-")
        assert storage.names("snapshots") == ["1.json", "2.json"]
        assert storage.names("") == ["other", "rows", "snapshots"]

    def test_files_are_all_there_are_with_what_was_left_behind(self, storage: Storage) -> None:
        for path in ("snapshots/1.json", "snapshots/1.json.abc.draft", "index/a/1.parquet"):
            storage.write(path, path.encode())
        files = storage.files()
        assert [(one.path, one.size) for one in files] == [
            ("index/a/1.parquet", 17),
            ("snapshots/1.json", 16),
            ("snapshots/1.json.abc.draft", 26),
        ]
        for _, _, modified in files:
            assert modified is not None
            assert abs(datetime.now(UTC) - modified) < timedelta(minutes=1)

    def test_more_files_are_listed_than_fit_on_a_page(
        self, on_s3: Storage, s3: S3Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number in range(25):
            on_s3.write(f"rows/{number:02d}", b"-")
        s3.requests.clear()
        monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "10")
        assert len(on_s3.files()) == len(on_s3.names("rows")) == 25
        assert len(s3.requests) == 6

    def test_a_removed_file_is_gone_and_may_be_removed_again(self, storage: Storage) -> None:
        storage.write("rows/1.parquet", b"some rows")
        storage.remove("rows/1.parquet")
        storage.remove("rows/1.parquet")
        assert storage.size("rows/1.parquet") is None
        assert storage.files() == []

    def test_parquet_is_read_here_and_there(self, storage: Storage) -> None:
        table = pa.table({"number": range(10_000), "text": [f"row {number}" for number in range(10_000)]})
        buffer = io.BytesIO()
        pq.write_table(table, buffer, row_group_size=1_000)
        storage.write("rows/1.parquet", buffer.getvalue())
        with storage.open("rows/1.parquet") as file:
            assert file.seek(0, io.SEEK_END) == len(buffer.getvalue())
            parquet = pq.ParquetFile(file, pre_buffer=False)
            assert parquet.read_row_group(7, columns=["number"]).column(0)[0].as_py() == 7_000
            assert parquet.read().equals(table)

    def test_a_small_read_does_not_fetch_a_large_file(self, on_s3: Storage, s3: S3Server) -> None:
        on_s3.write("rows/1", bytes(8 << 20))
        s3.requests.clear()
        with on_s3.open("rows/1") as file:
            file.seek(3 << 20)
            assert file.read(10) == bytes(10)
        [(first, last)] = [asked.removeprefix("bytes=").split("-") for *_, asked in s3.requests if asked]
        assert int(last) - int(first) < 2 << 20


class TestCreate:
    def test_a_file_is_created_once(self, storage: Storage) -> None:
        storage.create("snapshots/1.json", b"first")
        with pytest.raises(FileExistsError):
            storage.create("snapshots/1.json", b"second")
        assert storage.read("snapshots/1.json") == b"first"
        assert storage.names("snapshots") == ["1.json"]

    def test_of_many_threads_exactly_one_wins(self, storage: Storage) -> None:
        storage.check_exclusive()
        start, winners = threading.Barrier(8), []

        def create(number: int) -> None:
            start.wait()
            with contextlib.suppress(FileExistsError):  # what all but one must meet
                storage.create("snapshots/1.json", b"%d" % number)
                winners.append(number)

        threads = [threading.Thread(target=create, args=[number]) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [storage.read("snapshots/1.json")] == [b"%d" % number for number in winners]

    @pytest.mark.parametrize("where", ["disk", "S3"])
    def test_of_many_processes_exactly_one_wins(self, where: str, s3: S3Server, tmp_path: Path) -> None:
        storage = Storage(s3.uri(), s3.options) if where == "S3" else Storage(str(tmp_path / "state"))
        (tmp_path / "pickled").write_bytes(pickle.dumps(storage))
        program = (
            "import pickle, sys\n"
            "storage = pickle.load(sys.stdin.buffer)\n"
            "for number in range(20):\n"
            "    try:\n"
            "        storage.create(f'snapshots/{number}.json', b'{}')\n"
            "        print(number)\n"
            "    except FileExistsError:\n"
            "        pass\n"
        )
        started = []
        for _ in range(3):
            with (tmp_path / "pickled").open("rb") as given:
                arguments = [sys.executable, "-c", program]
                started.append(subprocess.Popen(arguments, stdin=given, stdout=subprocess.PIPE, cwd=REPOSITORY))
        won = [int(number) for process in started for number in process.communicate(timeout=120)[0].split()]
        assert [process.returncode for process in started] == [0, 0, 0]
        assert sorted(won) == list(range(20))

    def test_of_two_commits_on_s3_one_is_told_who_won(self, on_s3: Storage) -> None:
        assert read_current(on_s3) is None
        first = commit(on_s3, Snapshot(1, None, "people", load_id="monday"))
        with pytest.raises(ConflictError, match="Load 'tuesday' was not committed: load 'monday' was committed"):
            commit(on_s3, Snapshot(1, None, "people", load_id="tuesday"))
        second = commit(on_s3, Snapshot(2, 1, "people", load_id="tuesday"))
        assert first != second == read_current(on_s3)

    def test_an_answer_that_was_lost_is_no_conflict(self, on_s3: Storage, s3: S3Server) -> None:
        on_s3.check_exclusive()
        s3.lost = 1
        on_s3.create("snapshots/1.json", b"mine")
        with pytest.raises(FileExistsError):
            on_s3.create("snapshots/1.json", b"mine")

    def test_a_link_whose_answer_was_lost_is_no_conflict(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        link = os.link

        def link_and_lose(source: Path, target: Path) -> None:
            link(source, target)
            raise FileExistsError(errno.EEXIST, "File exists")

        monkeypatch.setattr(os, "link", link_and_lose)
        Storage(str(tmp_path)).create("snapshots/1.json", b"mine")
        assert Storage(str(tmp_path)).read("snapshots/1.json") == b"mine"

    def test_a_writer_whom_s3_asks_to_try_again_does(self, on_s3: Storage, s3: S3Server) -> None:
        on_s3.check_exclusive()
        s3.answers = [(409, "ConditionalRequestConflict"), (409, "ConditionalRequestConflict")]
        on_s3.create("snapshots/1.json", b"first")
        s3.answers = [(409, "ConditionalRequestConflict")]
        with pytest.raises(FileExistsError):
            on_s3.create("snapshots/1.json", b"second")
        assert on_s3.read("snapshots/1.json") == b"first"

    def test_a_server_that_stays_busy_is_a_conflict(
        self, on_s3: Storage, s3: S3Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        on_s3.check_exclusive()
        monkeypatch.setattr("time.sleep", lambda seconds: None)
        s3.answers = [(409, "ConditionalRequestConflict")] * 4
        with pytest.raises(FileExistsError):
            on_s3.create("snapshots/1.json", b"first")

    @pytest.mark.parametrize("number", [errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS])
    def test_a_disk_without_hard_links_is_refused(
        self, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def no_links(source: Path, target: Path) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "link", no_links)
        storage = Storage(str(tmp_path / "state"))
        error = refusal(lambda: storage.create("snapshots/1.json", b"first"))
        assert f"the filesystem of {tmp_path} has no hard links" in error.message
        assert "two gates could overwrite each other" in error.message
        assert list(tmp_path.iterdir()) == []


class TestExclusive:
    @pytest.mark.parametrize("uri", ["ftp://host/state", "http://host/state", "simplecache::s3://bucket/state"])
    def test_a_filesystem_that_cannot_create_exclusively_is_refused_by_name(self, uri: str) -> None:
        storage = Storage(uri)
        name = uri.partition(":")[0]
        for action in (
            storage.check_exclusive,
            lambda: storage.write("rows/1", b""),
            lambda: storage.create("snapshots/1.json", b""),
        ):
            error = refusal(action)
            assert f"the filesystem '{name}' cannot create a file exclusively" in error.message
            assert "two gates could overwrite each other" in error.message
            assert error.hint.startswith("Keep the state on a disk with hard links, on S3")

    def test_a_server_is_asked_once_and_nothing_stays_behind(self, on_s3: Storage, s3: S3Server) -> None:
        on_s3.check_exclusive()
        assert [method for method, *_ in s3.requests] == ["PUT", "PUT", "HEAD", "DELETE"]
        on_s3.check_exclusive()
        pickle.loads(pickle.dumps(on_s3)).check_exclusive()
        assert len(s3.requests) == 4
        assert on_s3.files() == []

    @pytest.mark.parametrize("there", ["", "state", "state/snapshots"])
    def test_a_disk_is_asked_once_where_the_state_will_be_and_nothing_stays_behind(
        self, there: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / there).mkdir(parents=True, exist_ok=True)
        before, asked, link = sorted(tmp_path.rglob("*")), [], os.link

        def watched(source: Path, target: Path) -> None:
            asked.append(Path(target).parent)
            link(source, target)

        monkeypatch.setattr(os, "link", watched)
        for _ in range(2):
            Storage(str(tmp_path / "state")).check_exclusive()
        assert asked == [tmp_path / there]
        assert sorted(tmp_path.rglob("*")) == before

    def test_a_server_that_ignores_the_condition_is_refused(self, on_s3: Storage, s3: S3Server) -> None:
        s3.heeds_conditions = False
        for _ in range(2):
            error = refusal(on_s3.check_exclusive)
            assert "the server accepted a second file of the same name" in error.message
            assert "cannot create a file exclusively" in error.message
        assert "If-None-Match" in error.hint
        assert on_s3.files() == []

    def test_no_commit_reaches_such_a_server(self, on_s3: Storage, s3: S3Server) -> None:
        s3.heeds_conditions = False
        with pytest.raises(StateError, match="cannot create a file exclusively"):
            commit(on_s3, Snapshot(1, None, "people"))
        assert on_s3.files() == []

    def test_a_server_that_does_not_know_the_condition_is_refused_with_its_answer(
        self, on_s3: Storage, s3: S3Server
    ) -> None:
        s3.answers = [(501, "NotImplemented")]
        error = refusal(on_s3.check_exclusive)
        assert "The server says NotImplemented" in error.message
        assert "cannot create a file exclusively" in error.message

    def test_a_server_that_turns_everybody_away_is_not_called_unfit(self, s3: S3Server) -> None:
        error = refusal(Storage(s3.uri(), s3.options | {"key": "wrong"}).check_exclusive)
        assert "cannot be written: The server says InvalidAccessKeyId." in error.message


class TestDisk:
    def test_a_file_beyond_the_limit_leaves_nothing_behind(self, tmp_path: Path) -> None:
        program = (
            "import resource, sys\n"
            "from dc_engine.errors import StateError\n"
            "from dc_engine.state.storage import Storage\n"
            "storage = Storage(sys.stdin.read())\n"
            "storage.write('rows/1', bytes(1_000))\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))\n"
            "for action in (storage.write, storage.create):\n"
            "    try:\n"
            "        action('rows/2', bytes(100_000))\n"
            "    except StateError as error:\n"
            "        print(error)\n"
        )
        said = python(program, given=str(tmp_path).encode()).decode().splitlines()
        assert len(said) == 2
        for line in said:
            assert line.startswith(f"The state {tmp_path} cannot be written: [Errno 27] File too large. Hint: The file")
        assert [one.path for one in Storage(str(tmp_path)).files()] == ["rows/1"]

    def test_a_full_disk_leaves_nothing_behind(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(handle: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "fsync", full)
        storage = Storage(str(tmp_path))
        for action in (storage.write, storage.create):
            error = refusal(lambda action=action: action("rows/1", b"some rows"))
            assert f"The state {tmp_path} cannot be written: [Errno 28] No space left on device" in error.message
            assert error.hint == "The disk is full: free some space, or move the state."
        assert storage.files() == []

    def test_a_folder_that_may_not_be_written_is_named(self) -> None:
        program = (
            "import os, sys\n"
            "from dc_engine.errors import StateError\n"
            "from dc_engine.state.storage import Storage\n"
            "storage = Storage(sys.stdin.read())\n"
            "storage.names('')\n"
            "if os.getuid() == 0:\n"
            "    os.setuid(65534)\n"
            "for action in (storage.write, storage.create):\n"
            "    try:\n"
            "        action('rows/1', b'some rows')\n"
            "    except StateError as error:\n"
            "        print(error)\n"
        )
        with tempfile.TemporaryDirectory() as folder:
            Path(folder).chmod(0o555)
            said = python(program, given=folder.encode()).decode().splitlines()
            assert list(Path(folder).iterdir()) == []
        assert len(said) == 2
        for line in said:
            assert line.startswith(f"The state {folder} cannot be written: [Errno 13] Permission denied")
            assert "Check that the user who runs Spark may write to the folder" in line

    def test_a_file_and_its_name_reach_the_disk_before_it_counts(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        synced: list[str] = []
        fsync = os.fsync

        def watch(handle: int) -> None:
            synced.append(str(Path(f"/dev/fd/{handle}").resolve().relative_to(tmp_path)))
            fsync(handle)

        monkeypatch.setattr(os, "fsync", watch)
        Storage(str(tmp_path)).write("state/rows/1", b"some rows")
        assert synced == ["state/rows/1", "state/rows", "state", "."]
        synced.clear()
        Storage(str(tmp_path)).create("state/1.json", b"{}")
        assert synced[0].endswith(".draft")
        assert synced[1:] == ["state", "state"]

    def test_files_reach_the_disk_beside_the_work_and_before_the_commit(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        begun, synced, fsync, link = threading.Event(), set(), os.fsync, os.link

        def slow(handle: int) -> None:
            assert begun.wait(10)
            fsync(handle)
            synced.add(str(Path(f"/dev/fd/{handle}").resolve().relative_to(tmp_path)))

        def watch(source: Path, target: Path) -> None:
            assert synced >= {"rows/1", "rows/2", "rows", ".", str(source.relative_to(tmp_path))}
            link(source, target)

        storage = Storage(str(tmp_path))
        storage.check_exclusive()
        monkeypatch.setattr(os, "fsync", slow)
        monkeypatch.setattr(os, "link", watch)
        with storage.syncing_beside():
            for path in ("rows/1", "rows/2"):
                storage.write(path, b"some rows")
            assert not synced
            assert storage.read("rows/2") == b"some rows"
            begun.set()
            storage.create("snapshots/1.json", b"{}")
            assert "snapshots" in synced
        assert storage.names("snapshots") == ["1.json"]

    def test_a_worker_waits_for_the_disk(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        synced: list[int] = []
        monkeypatch.setattr(os, "fsync", synced.append)
        storage = Storage(str(tmp_path))
        with storage.syncing_beside():
            pickle.loads(pickle.dumps(storage)).write("rows/1", b"some rows")
            assert len(synced) == 3

    @pytest.mark.parametrize("commits", [True, False])
    def test_what_cannot_reach_the_disk_is_told_before_the_commit(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commits: bool
    ) -> None:
        def full(handle: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        storage = Storage(str(tmp_path))
        storage.check_exclusive()
        monkeypatch.setattr(os, "fsync", full)

        def work() -> None:
            with storage.syncing_beside():
                storage.write("rows/1", b"some rows")
                if commits:
                    storage.create("snapshots/1.json", b"{}")

        error = refusal(work)
        assert isinstance(error, NoSpaceError)
        assert storage.files() == []

    def test_a_folder_that_cannot_be_synced_is_taken(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        fsync = os.fsync

        def files_only(handle: int) -> None:
            if Path(f"/dev/fd/{handle}").resolve().is_dir():
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            fsync(handle)

        monkeypatch.setattr(os, "fsync", files_only)
        Storage(str(tmp_path)).create("snapshots/1.json", b"{}")
        assert Storage(str(tmp_path)).names("snapshots") == ["1.json"]

    def test_a_file_in_place_of_the_folder_is_an_error(self, tmp_path: Path) -> None:
        (tmp_path / "state").write_text("")
        storage = Storage(str(tmp_path / "state"))
        assert "cannot be read" in refusal(lambda: storage.names("snapshots")).message
        assert "cannot be read" in refusal(lambda: storage.read("snapshots/1.json")).message
        assert "cannot be written" in refusal(lambda: storage.write("rows/1", b"")).message


ACTIONS: dict[str, Callable[[Storage], object]] = {
    "read": lambda storage: storage.read("rows/1"),
    "open": lambda storage: storage.open("rows/1"),
    "size": lambda storage: storage.size("rows/1"),
    "names": lambda storage: storage.names("rows"),
    "files": lambda storage: storage.files(),
    "write": lambda storage: storage.write("rows/1", b""),
    "create": lambda storage: storage.create("snapshots/1.json", b""),
    "remove": lambda storage: storage.remove("rows/1"),
}


class TestErrors:
    @pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
    def test_wrong_credentials_are_one_sentence(self, action: Callable[[Storage], object], s3: S3Server) -> None:
        storage = Storage(s3.uri(), s3.options | {"key": "wrong key"})
        error = refusal(lambda: action(storage))
        assert error.message.startswith(f"The state {storage.uri} cannot be ")
        assert "InvalidAccessKeyId" in error.message or "Forbidden" in error.message
        assert error.hint.startswith("Check ")

    @pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
    def test_missing_credentials_are_one_sentence(
        self, action: Callable[[Storage], object], s3: S3Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
        monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
        storage = Storage(s3.uri(), {"endpoint_url": s3.endpoint})
        error = refusal(lambda: action(storage))
        assert error.message.endswith(": Unable to locate credentials.")

    def test_a_server_out_of_reach_is_one_sentence(self, s3: S3Server) -> None:
        options = s3.options | {"endpoint_url": "http://127.0.0.1:9", "config_kwargs": {"retries": {"max_attempts": 1}}}
        error = refusal(lambda: Storage(s3.uri(), options).names("snapshots"))
        assert "cannot be read: Could not connect to the endpoint URL" in error.message
        assert error.hint == "Check the address, the credentials, and that this machine can reach the server."

    def test_a_bucket_is_never_made(self, s3: S3Server) -> None:
        storage = Storage(f"s3://misspelt-{uuid.uuid4().hex}/state", s3.options)
        assert storage.names("snapshots") == []
        for action in ("write", "create"):
            message = refusal(lambda action=action: ACTIONS[action](storage)).message
            assert message.endswith("cannot be written: The specified bucket does not exist.")

    def test_a_filesystem_that_nobody_knows_is_refused(self) -> None:
        assert "cannot be reached: Protocol not known: nowhere" in refusal(Storage("nowhere://x").files).message

    def test_a_wrong_option_is_one_sentence(self, s3: S3Server) -> None:
        storage = Storage(s3.uri(), s3.options | {"kye": "misspelt"})
        assert "unexpected keyword argument 'kye'" in refusal(lambda: storage.names("")).message


class TestSecrets:
    SECRETS = ("AKIA-KEY", "sec/ret+value", "nested-token", "listed-token")
    OPTIONS = {  # noqa: RUF012
        "key": SECRETS[0],
        "secret": SECRETS[1],
        "client_kwargs": {"aws_session_token": SECRETS[2], "region_name": REGION},
        "more": [SECRETS[3]],
    }

    @pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
    def test_a_secret_never_shows_in_an_error(
        self, action: Callable[[Storage], object], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import s3fs

        async def tell(self: object, *args: object, **kwargs: object) -> None:
            cause = RuntimeError(f"signed with {TestSecrets.SECRETS[1]}")
            text = ", ".join(TestSecrets.SECRETS)
            raise OSError(f"Refused in {REGION}: {text}, sec%2Fret%2Bvalue.\nMore of it.") from cause

        monkeypatch.setattr(s3fs.S3FileSystem, "_call_s3", tell)
        storage = Storage("s3://bucket/state", self.OPTIONS)
        error = refusal(lambda: action(storage))
        shown = "".join(traceback.format_exception(error))
        assert not [one for one in (*self.SECRETS, "sec%2Fret") if one in shown or one in str(error.to_dict())]
        assert f"Refused in {REGION}: ***, ***, ***, ***, ***." in error.message

    def test_an_error_without_secrets_keeps_its_cause(self, s3: S3Server) -> None:
        error = refusal(lambda: Storage(s3.uri(), s3.options | {"key": "wrong key"}).names(""))
        assert isinstance(error.__cause__, PermissionError)

    def test_a_secret_never_shows_when_a_storage_is_printed(self) -> None:
        storage = Storage("s3://bucket/state/", self.OPTIONS)
        assert f"{storage} {storage!r}" == "Storage('s3://bucket/state') Storage('s3://bucket/state')"

    @pytest.mark.parametrize(
        "uri",
        ["s3://key:pass@bucket/state", "s3://key:pa/ss@bucket", "ftp://:pass@host/x", "simplecache::s3://a:pass@b/c"],
    )
    def test_credentials_in_the_uri_are_refused_and_not_repeated(self, uri: str) -> None:
        error = refusal(lambda: Storage(uri))
        assert "carries credentials" in error.message
        assert "pass" not in str(error).replace("FSSPEC", "")
        assert "pa/ss" not in str(error)
        assert "connection or the environment" in error.hint

    @pytest.mark.parametrize(
        "uri", ["abfs://container@account.dfs.core.windows.net/state", "file:///folder/a:b@c", "/folder/a:b@c"]
    )
    def test_an_at_sign_alone_is_no_credential(self, uri: str) -> None:
        assert Storage(uri).uri == uri


READ = "import pickle, sys; sys.stdout.buffer.write(pickle.load(sys.stdin.buffer).read('rows/1'))"
PICKLE = (
    "import pickle, sys\n"
    "from dc_engine.state.storage import Storage\n"
    "sys.stdout.buffer.write(pickle.dumps(Storage(sys.stdin.read())))\n"
)


class TestWorkers:
    def test_a_worker_needs_nothing_but_the_storage(self, on_s3: Storage) -> None:
        on_s3.write("rows/1", b"some rows")
        assert python(READ, given=pickle.dumps(on_s3)) == b"some rows"

    def test_the_environment_of_the_driver_is_carried(self, on_s3: Storage, s3: S3Server) -> None:
        on_s3.write("rows/1", b"some rows")
        driver = {
            "FSSPEC_S3": f'{{"endpoint_url": "{s3.endpoint}", "client_kwargs": {{"region_name": "{REGION}"}}}}',
            "FSSPEC_S3_KEY": s3.key,
            "FSSPEC_S3_SECRET": s3.secret,
        }
        assert python(READ, given=python(PICKLE, given=on_s3.uri.encode(), **driver)) == b"some rows"

    def test_the_configuration_file_of_the_driver_is_carried(
        self, on_s3: Storage, s3: S3Server, tmp_path: Path
    ) -> None:
        on_s3.write("rows/1", b"some rows")
        values = {"key": s3.key, "secret": s3.secret, "endpoint_url": s3.endpoint}
        lines = [f"{name} = {value}" for name, value in values.items()]
        (tmp_path / "conf.ini").write_text("\n".join(["[s3]", *lines]))
        uri = on_s3.uri.replace("s3://", "s3a://")
        assert python(READ, given=python(PICKLE, given=uri.encode(), FSSPEC_CONFIG_DIR=str(tmp_path))) == b"some rows"

    def test_what_was_given_goes_before_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import fsspec.config

        monkeypatch.setitem(fsspec.config.conf, "s3", {"key": "environment", "secret": "environment"})
        carried = pickle.loads(pickle.dumps(Storage("s3://bucket/state", {"key": "given"})))
        assert carried._options == {"key": "given", "secret": "environment"}

    def test_a_secret_of_the_environment_never_shows_either(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import fsspec.config
        import s3fs

        async def tell(self: object, *args: object, **kwargs: object) -> None:
            raise PermissionError("from the environment: sesame")

        monkeypatch.setitem(fsspec.config.conf, "s3", {"key": "someone", "secret": "sesame"})
        monkeypatch.setattr(s3fs.S3FileSystem, "_call_s3", tell)
        error = refusal(lambda: Storage("s3://bucket/state").names(""))
        assert error.message.endswith("cannot be read: from the environment: ***.")
        assert error.__cause__ is None

    def test_making_a_storage_imports_no_filesystem(self) -> None:
        program = (
            "import sys\n"
            "from dc_engine.state.storage import Storage\n"
            "Storage('s3://bucket/state', {'key': 'some key'})\n"
            "print([name for name in ('fsspec', 's3fs', 'botocore') if name in sys.modules])\n"
        )
        assert python(program).strip() == b"[]"
