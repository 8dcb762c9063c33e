"""A folder on a filesystem that fsspec knows: whole files are written once, read, listed, never changed.

A commit is a file that exactly one writer can create, so only filesystems that create exclusively are taken. What it
takes to reach a filesystem (keys, an endpoint) travels to the workers, and never into a message.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

from dc_engine.errors import NoSpaceError, StateError, UnfitStoreError
from dc_engine.state.redaction import shown, told

_EXCLUSIVE = frozenset({"file", "memory", "s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"})
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV})
_NO_FOLDER_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP})
_CREDENTIALS = re.compile(r"://(?!arn:)[^/@:]*:[^@]*@")
_TAKEN, _BUSY = frozenset({"PreconditionFailed", "412"}), frozenset({"ConditionalRequestConflict", "OperationAborted"})
_UNKNOWN_TO_SERVER = frozenset({"NotImplemented", "501"})
_PAUSES = (0.1, 0.4, 1.6, 0.0)
_BLOCK = 1 << 20
"""How far to read ahead on object stores, whose filesystems would otherwise fetch up to 50 MB for each small read."""

_WRITING = {
    errno.ENOSPC: "The disk is full: free some space, or move the state.",
    errno.EDQUOT: "The disk quota is used up: free some space, or move the state.",
    errno.EFBIG: "The file is larger than the filesystem or the limit of the process (ulimit -f) allows.",
    errno.EROFS: "The filesystem is mounted read-only: mount it writable, or move the state.",
    errno.EACCES: "Check that the user who runs Spark may write to the folder, on the driver and on the workers.",
}

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_memory = threading.Lock()
_checked: set[tuple[str, str]] = set()


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file that was written, by its path within the state, with what it takes to recognise it."""

    path: str
    size: int
    sha256: str


class Known(Protocol):
    """What is known of a file's content before it is read."""

    @property
    def size(self) -> int: ...

    @property
    def sha256(self) -> str: ...


class Listed(NamedTuple):
    """A file that lies in the state's folder, whether or not a snapshot names it."""

    path: str
    size: int
    modified: datetime | None


class Storage:
    """The folder of one state. Picklable: workers open the filesystem themselves, with the driver's options.

    ``noun`` is what messages call it, when it is something else than a state.
    """

    def __init__(self, uri: str, options: Mapping[str, Any] | None = None, *, noun: str = "state") -> None:
        self._noun = noun
        if _CREDENTIALS.search(uri):
            raise StateError(
                f"The URI of the {noun} carries credentials, which would show in logs and verdicts.",
                hint="Take them out of the URI; give them in the connection or the environment (FSSPEC_S3_KEY ...).",
            )
        self.uri = uri.rstrip("/")
        self._options = dict(options or {})

    def __repr__(self) -> str:
        return f"Storage({self.uri!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {"uri": self.uri, "_options": self._settings, "_noun": self._noun}

    @cached_property
    def _kind(self) -> Any:
        """The class of the filesystem; ``None`` where there is none, which opening it will say."""
        import fsspec
        from fsspec.utils import get_protocol

        with contextlib.suppress(ValueError, ImportError):
            return fsspec.get_filesystem_class(get_protocol(self.uri))
        return None

    @cached_property
    def _settings(self) -> dict[str, Any]:
        """The options of the filesystem: those that were given, over what fsspec is configured with on this machine."""
        from fsspec.config import apply_config

        return apply_config(self._kind, self._options) if self._kind else self._options

    @cached_property
    def _place(self) -> tuple[Any, str]:
        import fsspec

        hint = f"A {self._noun} is a folder or a URI of a filesystem whose fsspec package is installed."
        with self._worded("reached", hint, passing=()):
            # a listing kept from before another writer's commit would hide that commit
            filesystem, root = fsspec.url_to_fs(self.uri, **{**self._settings, "use_listings_cache": False})
        return filesystem, root.rstrip("/")

    @property
    def _protocols(self) -> tuple[str, ...]:
        protocol = (self._kind or self._place[0]).protocol
        return (protocol,) if isinstance(protocol, str) else tuple(protocol)

    @property
    def is_local(self) -> bool:
        """Whether the state is on this machine's own filesystem."""
        return "file" in self._protocols

    def locate(self, path: str) -> str:
        """The full URI of a path within the state, as people and other tools would open it."""
        return f"{self.uri}/{path}"

    def _full(self, path: str) -> str:
        return f"{self._place[1]}/{path}"

    def write(self, path: str, data: bytes) -> StoredFile:
        """Write a new file, and on a disk see it through to the disk; nothing stays behind when that fails."""
        self._refuse_unknown()
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
        try:
            with target.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            for folder in (target.parent, *(one.parent for one in new)):
                _sync_folder(folder)
        except BaseException:
            with contextlib.suppress(OSError):
                target.unlink()
            raise

    def create(self, path: str, data: bytes) -> None:
        """Create a file that must not exist yet, whole at once; ``FileExistsError`` when it does."""
        self.check_exclusive()
        if self.is_local:
            self._link(path, data)
        else:
            self._put(path, data)

    def hint(self, path: str, data: bytes) -> None:
        """Write a small file over whatever is there; it only saves others time, so it may fail."""
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
            with self._worded("written", self._writing, passing=(FileExistsError,)):
                try:
                    self._hard_link(source, target)
                except FileExistsError:
                    if source.stat().st_nlink == 1:  # on NFS the link may be ours, and only the answer was lost
                        raise
            with self._worded("synced", self._writing):  # the file is there, whatever comes out of this
                _sync_folder(target.parent)
        finally:
            with contextlib.suppress(OSError):  # a draft that stays behind disturbs nobody; the link has its own name
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
            with _memory:  # it looks first and writes then
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
            time.sleep(pause)  # of two writers at once S3 may turn away both, and asks for another try
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

        It is asked, once in a process: some servers ignore the condition and overwrite, some disks have no hard links.
        """
        self._refuse_unknown()
        seen = (self.uri, repr(sorted(self._settings.items())))
        if "memory" in self._protocols or seen in _checked:
            return
        if self.is_local:
            self._probe_disk()
        else:
            self._probe_server()
        _checked.add(seen)

    def _probe_disk(self) -> None:
        """Try a hard link where the state is or will be, in a folder that is there: none is made for it."""
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
            with contextlib.suppress(StateError):  # a probe that stays behind disturbs nobody
                self.remove(probe)
        raise self._not_exclusive("the server accepted a second file of the same name; it")

    def _refuse_unknown(self) -> None:
        if not _EXCLUSIVE.intersection(self._protocols):
            raise self._not_exclusive(f"the filesystem '{self._protocols[0]}'")

    def _not_exclusive(self, what: str) -> UnfitStoreError:
        return UnfitStoreError(
            f"The {self._noun} {self.uri} cannot be used: {what} cannot create a file exclusively, so two gates could "
            "overwrite each other.",
            hint=f"Keep the {self._noun} on a disk with hard links, on S3 or a server that honours If-None-Match, on "
            "Google Cloud Storage or on Azure Blob Storage, each with a recent version of its fsspec package.",
        )

    def read(self, path: str, *, expected: Known | None = None) -> bytes:
        """A file's content; a ``StateError`` that names it when it is missing, or is not what was expected."""
        with self._naming(path), self._worded("read", self._reading):
            data = self._place[0].cat_file(self._full(path))
        if expected and (len(data), hashlib.sha256(data).hexdigest()) != (expected.size, expected.sha256):
            raise StateError(
                f"The file {self.locate(path)} is damaged: it is not what was written.",
                hint=f"Restore it or rebuild the {self._noun}.",
            )
        return data

    def open(self, path: str) -> IO[bytes]:
        """A file for reading here and there in it."""
        with self._naming(path), self._worded("read", self._reading):
            if self.is_local:
                return Path(self._full(path)).open("rb", buffering=0)
            return self._place[0].open(self._full(path), "rb", block_size=_BLOCK)

    def read_parts(self, path: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """Some parts of a file, each from one byte to another (which is not in it); shorter where the file ends."""
        with self._naming(path), self._worded("read", self._reading):
            if not self.is_local:
                starts, ends = [start for start, _ in spans], [end for _, end in spans]
                return self._place[0].cat_ranges([self._full(path)] * len(spans), starts, ends, on_error="raise")
            with Path(self._full(path)).open("rb") as file:
                parts = []
                for start, end in spans:
                    file.seek(start)
                    parts.append(file.read(end - start))
                return parts

    def size(self, path: str) -> int | None:
        """How many bytes a file has; ``None`` when it is not there."""
        try:
            with self._worded("read", self._reading):
                found = self._place[0].info(self._full(path))
        except FileNotFoundError:
            return None
        return found["size"] if found["type"] == "file" else None

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder; none when there is no such folder."""
        try:
            with self._worded("read", self._reading):
                found = self._place[0].ls(self._full(folder), detail=False)
        except FileNotFoundError:
            return []
        return sorted(name.rstrip("/").rsplit("/", 1)[-1] for name in found)

    def files(self, folder: str = "") -> list[Listed]:
        """Every file in the state's folder, or one in it, and those below, with all that was left behind."""
        filesystem, root = self._place
        strictly = {"on_error": "raise"} if self.is_local else {}
        try:
            with self._worded("read", self._reading):
                found = filesystem.find(f"{root}/{folder}".rstrip("/"), detail=True, **strictly)
        except FileNotFoundError:
            return []
        files = {name: one for name, one in found.items() if not name.endswith("/")}
        return sorted(Listed(name.removeprefix(f"{root}/"), one["size"], _modified(one)) for name, one in files.items())

    def remove(self, path: str) -> None:
        """Remove a file that no snapshot names; one that is gone already is no error."""
        with (
            contextlib.suppress(FileNotFoundError),
            self._worded("written", "Check that files in it may be removed."),
        ):
            self._place[0].rm_file(self._full(path))

    @contextlib.contextmanager
    def _naming(self, path: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise StateError(
                f"The {self._noun} {self.uri} lacks the file {path}.", hint=f"Rebuild the {self._noun}."
            ) from shown(error, self._settings)

    @property
    def _reading(self) -> str:
        if self.is_local:
            return f"A {self._noun} is a folder that can be read and written."
        return "Check the address, the credentials, and that this machine can reach the server."

    @property
    def _writing(self) -> str:
        if self.is_local:
            return "Check that the folder exists, is writable and has space left."
        return "Check that the bucket or container exists, and that the credentials allow to write to it."

    @contextlib.contextmanager
    def _worded(
        self, done: str, hint: str, *, passing: tuple[type[Exception], ...] = (FileNotFoundError,)
    ) -> Iterator[None]:
        """Say in one sentence what a filesystem raises: each has errors of its own, and many are no ``OSError``."""
        try:
            yield
        except Exception as error:
            if isinstance(error, (StateError, *passing)):
                raise
            number = error.errno if isinstance(error, OSError) and done == "written" and self.is_local else None
            kind = NoSpaceError if number in _FULL else StateError
            raise kind(
                f"The {self._noun} {self.uri} cannot be {done}: {told(error, self._settings)}.",
                hint=_WRITING.get(number or 0, hint),
            ) from shown(error, self._settings)


def _sync_folder(folder: Path) -> None:
    """See the names in a folder through to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise
    finally:
        os.close(handle)


def _answer(error: BaseException) -> str:
    """The code with which a server turned a request away: s3fs keeps it in the cause of what it raises."""
    if isinstance(error, FileExistsError):
        return "PreconditionFailed"
    for one in (error, error.__cause__):
        response = getattr(one, "response", None)
        if isinstance(response, Mapping):
            return str(response.get("Error", {}).get("Code", ""))
    return ""


def _modified(found: Mapping[str, Any]) -> datetime | None:
    """When a file was written, under the name that its filesystem has for it."""
    names = ("mtime", "LastModified", "last_modified", "created")
    stamp = next((found[name] for name in names if found.get(name)), None)
    if isinstance(stamp, int | float):
        return datetime.fromtimestamp(stamp, UTC)
    if isinstance(stamp, datetime):
        return stamp.astimezone(UTC) if stamp.tzinfo else stamp.replace(tzinfo=UTC)
    return None
