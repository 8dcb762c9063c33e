"""Whole files are written once and never changed, and a commit is a file that exactly one writer can create."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import threading
import time
import uuid
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from dc_engine.errors import StateError, UnfitStoreError
from dc_engine.state.place import Place
from dc_engine.state.redaction import shown, told

_EXCLUSIVE = frozenset({"file", "memory", "s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"})
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV})
_NO_FOLDER_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP})
_TAKEN, _BUSY = frozenset({"PreconditionFailed", "412"}), frozenset({"ConditionalRequestConflict", "OperationAborted"})
_UNKNOWN_TO_SERVER = frozenset({"NotImplemented", "501"})
_PAUSES = (0.1, 0.4, 1.6, 0.0)
_SYNCS, _MOST_OPEN = 4, 32
"""How many files are synced at the same time, and how many may wait for it."""
_memory = threading.Lock()
_checked: set[tuple[str, str]] = set()


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file that was written: its path within the state, its size and checksum."""

    path: str
    size: int
    sha256: str


class Writing(Place):
    """A place that files can be written to. Only filesystems that create files exclusively are accepted."""

    _beside: _Beside | None = None

    @contextlib.contextmanager
    def syncing_beside(self) -> Iterator[None]:
        """Let what is written in this block reach the disk beside the work: before the next commit, or its end.

        Only here: workers, who have a copy of this place, sync each file before they go on.
        """
        with ThreadPoolExecutor(_SYNCS) as pool:
            self._beside = _Beside(pool)
            try:
                yield
                self.settle()
            except Exception:
                self.settle()  # a file that did not reach the disk is gone, and explains what else failed
                raise
            finally:
                self._beside = None

    def settle(self) -> None:
        """Wait until all files are on the disk."""
        if self._beside:
            with self._worded("written", self._writing, passing=()):
                self._beside.wait()

    def write(self, path: str, data: bytes) -> StoredFile:
        """Write a new file, on a disk with fsync; nothing stays behind when that fails."""
        self.refuse_unknown()
        with self._worded("written", self._writing, passing=()):
            self._write(path, data)
        return StoredFile(path, len(data), hashlib.sha256(data).hexdigest())

    def _write(self, path: str, data: bytes) -> None:
        if not self.is_local:
            self._place[0].pipe_file(self._full(path), data)
            return
        target = Path(self._full(path))
        new = [folder for folder in target.parents if not folder.exists()]
        target.parent.mkdir(parents=True, exist_ok=True)
        file = target.open("wb")
        with _removed_on_failure(file, target):
            file.write(data)
            file.flush()
        folders = (target.parent, *(one.parent for one in new))
        if self._beside:
            self._beside.sync(file, target, folders)
        else:
            _sync(file, target, folders)

    def create(self, path: str, data: bytes) -> None:
        """Create a file that must not exist yet, whole at once; ``FileExistsError`` when it does."""
        self.check_exclusive()
        if self.is_local:
            self._link(path, data)
        else:
            self._put(path, data)

    def hint(self, path: str, data: bytes) -> None:
        """Write a small file over whatever is there; it only saves others time, so failure is ignored."""
        with contextlib.suppress(OSError, StateError), self._worded("written", self._writing):
            if not self.is_local:
                self._place[0].pipe_file(self._full(path), data)
                return
            draft = Path(self._full(f"{path}.{uuid.uuid4().hex}.draft"))
            draft.write_bytes(data)
            draft.replace(self._full(path))

    def _link(self, path: str, data: bytes) -> None:
        """A hard link appears with its whole content or not at all, and never replaces another file."""
        draft = f"{path}.{uuid.uuid4().hex}.draft"
        self.write(draft, data)
        source, target = Path(self._full(draft)), Path(self._full(path))
        try:
            self.settle()
            with self._worded("written", self._writing, passing=(FileExistsError,)):
                try:
                    self._hard_link(source, target)
                except FileExistsError:
                    if source.stat().st_nlink == 1:  # on NFS the link may be ours, and only the answer was lost
                        raise
            with self._worded("synced", self._writing):  # the file is there, whatever happens here
                _sync_folder(target.parent)
        finally:
            with contextlib.suppress(OSError):  # a draft left behind does no harm; the link has its own name
                source.unlink()

    def _hard_link(self, source: Path, target: Path) -> None:
        try:
            os.link(source, target)
        except OSError as error:
            if error.errno in _NO_LINKS:
                raise self._not_exclusive(
                    f"the filesystem of {target.parent} has no hard links ({told(error, self._settings)}) and"
                ) from error
            raise

    def _put(self, path: str, data: bytes) -> None:
        filesystem, _ = self._place
        if "memory" in self._protocols:
            with _memory:  # it checks first and then writes
                filesystem.pipe_file(self._full(path), data, mode="create")
            return
        writer = uuid.uuid4().hex
        mark = {"Metadata": {"writer": writer}} if "s3" in self._protocols else {}
        for pause in _PAUSES:
            with self._worded("written", self._writing, passing=()):
                try:
                    filesystem.pipe_file(self._full(path), data, mode="create", **mark)
                    return
                except Exception as error:
                    answer = _answer(error)
                    if answer in _UNKNOWN_TO_SERVER:
                        raise self._not_exclusive(f"the server ({told(error, self._settings)})") from shown(
                            error, self._settings
                        )
                    if answer not in _TAKEN | _BUSY:
                        raise
            if answer in _TAKEN:
                break
            time.sleep(pause)  # S3 may refuse both of two writers at once, and ask them to try again
        if mark and self._wrote(path, writer):
            return
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.locate(path))

    def _wrote(self, path: str, writer: str) -> bool:
        """Whether a file that is there is this writer's own: the answer was lost and the request sent again."""
        try:
            with self._worded("read", self._reading):
                return self._place[0].metadata(self._full(path)).get("writer") == writer
        except FileNotFoundError:
            return False

    def check_exclusive(self) -> None:
        """Refuse a filesystem on which two writers could create the same file.

        It is probed once per process: some servers ignore the condition and overwrite, some disks have no hard links.
        """
        self.refuse_unknown()
        seen = (self.uri, repr(sorted(self._settings.items())))
        if "memory" in self._protocols or seen in _checked:
            return
        if self.is_local:
            self._probe_disk()
        else:
            self._probe_server()
        _checked.add(seen)

    def _probe_disk(self) -> None:
        """Try a hard link where the state is or will be, in an existing folder: none is created for this."""
        with self._worded("written", self._writing, passing=()):
            root = Path(self._place[1])
            folder = next(one for one in (root / "snapshots", root, *root.parents) if one.is_dir())
            probe = folder / f"{uuid.uuid4().hex}.probe"
            linked = probe.with_suffix(".linked.probe")
            try:
                probe.touch(exist_ok=False)
                with contextlib.suppress(FileExistsError):  # it is there, and only the answer was lost
                    self._hard_link(probe, linked)
            finally:
                for one in (linked, probe):
                    one.unlink(missing_ok=True)

    def _probe_server(self) -> None:
        probe = f"snapshots/{uuid.uuid4().hex}.probe"
        self._put(probe, b"first")
        try:
            self._put(probe, b"second")
        except FileExistsError:
            return
        finally:
            with contextlib.suppress(StateError):  # a probe left behind does no harm
                self.remove(probe)
        raise self._not_exclusive("the server accepted a second file of the same name; it")

    def refuse_unknown(self) -> None:
        """An error unless this is a kind of filesystem on which a state can be."""
        if not _EXCLUSIVE.intersection(self._protocols):
            raise self._not_exclusive(f"the filesystem '{self._protocols[0]}'")

    def _not_exclusive(self, what: str) -> UnfitStoreError:
        return UnfitStoreError(
            f"The {self._noun} {self.uri} cannot be used: {what} cannot create a file exclusively, so two gates could "
            "overwrite each other.",
            hint=f"Keep the {self._noun} on a disk with hard links, on S3 or a server that honours If-None-Match, on "
            "Google Cloud Storage or on Azure Blob Storage, each with a recent version of its fsspec package.",
        )

    def remove(self, path: str) -> None:
        """Remove a file that no snapshot names; one that is gone already is no error."""
        with (
            contextlib.suppress(FileNotFoundError),
            self._worded("written", "Check that files in it may be removed."),
        ):
            self._place[0].rm_file(self._full(path))


class _Beside:
    """Files on their way to the disk while the work goes on."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._waiting: deque[Future[None]] = deque()

    def sync(self, file: IO[bytes], target: Path, folders: Sequence[Path]) -> None:
        """Begin to sync a file and its name."""
        self._waiting.append(self._pool.submit(_sync, file, target, folders))
        self.wait(_MOST_OPEN)

    def wait(self, most: int = 0) -> None:
        """Wait until no more than so many are left; raises what went wrong."""
        while len(self._waiting) > most:
            self._waiting.popleft().result()


def _sync(file: IO[bytes], target: Path, folders: Sequence[Path]) -> None:
    """Sync a file to the disk, then its name; nothing stays behind when that fails."""
    with _removed_on_failure(file, target), file:
        os.fsync(file.fileno())
        for folder in folders:
            _sync_folder(folder)


@contextlib.contextmanager
def _removed_on_failure(file: IO[bytes], target: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            file.close()
        with contextlib.suppress(OSError):
            target.unlink()
        raise


def _sync_folder(folder: Path) -> None:
    """Sync the names in a folder to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise
    finally:
        os.close(handle)


def _answer(error: BaseException) -> str:
    """The code with which a server refused a request: s3fs keeps it in the cause of what it raises."""
    if isinstance(error, FileExistsError):
        return "PreconditionFailed"
    for one in (error, error.__cause__):
        response = getattr(one, "response", None)
        if isinstance(response, Mapping):
            return str(response.get("Error", {}).get("Code", ""))
    return ""
