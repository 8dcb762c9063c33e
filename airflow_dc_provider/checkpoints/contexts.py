"""Opening a context for one export at a time: a folder here, a folder that fsspec reaches, or a context that is open.

Great Expectations writes its files in place and without locks, so exports to one context wait for each other. A folder
elsewhere is fetched, worked on here and brought back only when all went well: what changed, its configuration last.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import socket
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import great_expectations as gx
from great_expectations.data_context import AbstractDataContext, FileDataContext
from great_expectations.data_context.data_context.context_factory import set_context
from great_expectations.exceptions import GreatExpectationsError

from airflow_dc_provider.checkpoints import guard
from spark_jobs.errors import StateError
from spark_jobs.state.storage import Storage

CONFIGURATION = "great_expectations.yml"
LOCK = ".dcgate-lock"
PATIENCE = 300.0
"""How many seconds an export waits for another one."""
STALE = timedelta(minutes=30)
"""After how long an export elsewhere is taken for dead."""
_AT_ONCE = 16
_DIGITS = 8
_temporary: weakref.WeakKeyDictionary[AbstractDataContext, Path] = weakref.WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Place:
    """An open context, the folder of its verdicts, and where people find what is below that folder."""

    context: AbstractDataContext
    folder: Path
    origin: str = ""
    """The address of a folder that lies elsewhere."""
    root: str = ""

    def address(self, url: str | None) -> str | None:
        """The address of a page of Data Docs; of one in a fetched folder, where it goes back to."""
        here = f"file://{self.root}"
        return f"{self.origin}{url.removeprefix(here)}" if url and self.origin and url.startswith(here) else url


@contextmanager
def opened(context: AbstractDataContext | str | os.PathLike[str], options: Mapping[str, Any]) -> Iterator[Place]:
    """A context to export to, held by nobody else."""
    if isinstance(context, FileDataContext):
        root = Path(context.root_directory)
        with _locked_here(root):
            _check_not_outdated(context)
            yield Place(context, root / guard.FOLDER)
    elif isinstance(context, AbstractDataContext):
        yield Place(context, _folder_of(context))
    elif "://" in (address := os.fspath(context)) and not address.startswith("file://"):
        with _fetched(address.rstrip("/"), options) as place:
            yield place
    else:
        project = Path(address.removeprefix("file://"))
        with _locked_here(project):
            yield _file_place(project)


def _file_place(project: Path, origin: str = "") -> Place:
    """The context of a folder: its own, the one in its subfolder ``gx``, or a new one there."""
    own = {"context_root_dir": project} if (project / CONFIGURATION).exists() else {"project_root_dir": project}
    try:
        context = gx.get_context(mode="file", **own)
    except GreatExpectationsError as error:
        raise StateError(
            f"The Great Expectations context in {origin or project} cannot be opened: {error}",
            hint=f"Mend its {CONFIGURATION}, or export to a folder of its own.",
        ) from error
    return Place(context, Path(context.root_directory) / guard.FOLDER, origin, str(project))


def _folder_of(context: AbstractDataContext) -> Path:
    """Where the verdicts of a context without a folder lie, as long as it lives."""
    if context not in _temporary:
        folder = tempfile.mkdtemp(prefix="dcgate-")
        _temporary[context] = Path(folder)
        weakref.finalize(context, shutil.rmtree, folder, ignore_errors=True)
    return _temporary[context]


def _check_not_outdated(context: FileDataContext) -> None:
    """Refuse a context that was opened before others added to its configuration: saving it would undo that."""
    now = gx.get_context(mode="file", context_root_dir=context.root_directory)
    set_context(context)
    unknown = set(now.fluent_datasources) - set(context.fluent_datasources)
    if unknown:
        raise StateError(
            f"The context of {context.root_directory} was opened before {', '.join(sorted(unknown))} came into it.",
            hint="Open it again with great_expectations.get_context, or give export_checkpoint the folder.",
        )


@contextmanager
def _locked_here(folder: Path) -> Iterator[None]:
    """Hold a folder on this machine or a network disk; the system lets go of it when this process ends."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise StateError(
            f"The context folder {folder} cannot be written: {error.strerror}.",
            hint="Check that the folder may be written by this user.",
        ) from error
    try:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise _held(str(folder), "another export") from None
                time.sleep(0.1)
        yield
    finally:
        os.close(handle)


@contextmanager
def _fetched(address: str, options: Mapping[str, Any]) -> Iterator[Place]:
    """A copy of a folder that lies elsewhere; what changed in it goes back."""
    storage = Storage(address, options, noun="context folder")
    storage.check_exclusive()
    with _locked_there(storage) as still_held, tempfile.TemporaryDirectory(prefix="dcgate-") as name:
        folder = Path(name).resolve()
        before = _fetch(storage, folder)
        yield _file_place(folder, address)
        still_held()
        after = _sums(folder)
        for path in sorted((path for path in after if before.get(path) != after[path]), key=_brought_back):
            storage.write(path, (folder / path).read_bytes())
        for path in before.keys() - after.keys():
            storage.remove(path)


def _fetch(storage: Storage, folder: Path) -> dict[str, str]:
    """Copy a folder here; the checksums of its files."""
    paths = [one.path for one in storage.files() if not one.path.startswith(f"{LOCK}/")]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for path, data in zip(paths, pool.map(storage.read, paths), strict=True):
            target = folder / path
            if not target.resolve().is_relative_to(folder):
                raise StateError(f"{storage.uri} has a file that would lie outside of its copy: {path}.")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
    return _sums(folder)


def _sums(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _brought_back(path: str) -> tuple[bool, str]:
    """Verdicts and results first, then what refers to them: whoever reads meanwhile finds what a name stands for."""
    return path.endswith((CONFIGURATION, "index.html")) or "checkpoints/" in path, path


@contextmanager
def _locked_there(storage: Storage) -> Iterator[Callable[[], None]]:
    """Hold a folder on an object store.

    Locks are numbered, and of one number there is one: the newest holds the folder until it is marked as done, or is so
    old that its owner must be dead. Whoever was taken for dead notices before it writes.
    """
    owner = f"process {os.getpid()} on {socket.gethostname()}"
    deadline = time.monotonic() + PATIENCE
    while True:
        names = storage.names(LOCK)
        newest = max((int(name[:_DIGITS]) for name in names if name.endswith(".held")), default=0)
        if not newest or _lock(newest, "done") in names or _is_stale(storage, newest):
            try:
                storage.create(f"{LOCK}/{_lock(newest + 1, 'held')}", owner.encode())
                break
            except FileExistsError:
                continue  # another export was faster
        if time.monotonic() > deadline:
            raise _held(storage.uri, storage.read(f"{LOCK}/{_lock(newest, 'held')}").decode(errors="replace"))
        time.sleep(1)
    mine = newest + 1

    def still_held() -> None:
        if _lock(mine + 1, "held") in storage.names(LOCK):
            raise StateError(
                f"The export to {storage.uri} took so long that another one took its place; nothing was written.",
                hint="Run it again.",
            )

    try:
        yield still_held
    finally:
        storage.write(f"{LOCK}/{_lock(mine, 'done')}", b"")
        for name in names:
            storage.remove(f"{LOCK}/{name}")


def _lock(number: int, mark: str) -> str:
    return f"{number:0{_DIGITS}d}.{mark}"


def _is_stale(storage: Storage, number: int) -> bool:
    path = f"{LOCK}/{_lock(number, 'held')}"
    modified = next((one.modified for one in storage.files() if one.path == path), None)
    return modified is not None and datetime.now(UTC) - modified > STALE


def _held(where: str, by: str) -> StateError:
    return StateError(
        f"The context in {where} is in use by {by}, for more than {PATIENCE:.0f} s.",
        hint="Exports to one context wait for each other: run this one again, or look at what holds it.",
    )
