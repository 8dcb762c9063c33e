"""Open a context for one export at a time: a folder here, a folder that fsspec reaches, or a context already open.

Great Expectations writes its files in place and without locks, so exports to one context wait for each other. A folder
elsewhere is fetched, worked on here and written back only when all went well: what changed, results last.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import socket
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from great_expectations.data_context import AbstractDataContext, FileDataContext
from great_expectations.data_context.data_context.context_factory import project_manager
from great_expectations.exceptions import DataContextRequiredError

from airflow_dc_provider.checkpoints import guard
from dc_engine.errors import DcError, StateError
from dc_engine.state.storage import Storage
from dc_engine.wording import MAX_TEXT, plain

CONFIGURATION = FileDataContext.GX_YML
LOCK = "uncommitted/dcgate-lock"
PATIENCE = 300.0
"""How many seconds an export waits for another one."""
STALE = timedelta(minutes=30)
"""After how long an export elsewhere is presumed dead."""
_AT_ONCE = 16
_DIGITS = 8
_RESULTS = 3
_temporary: weakref.WeakKeyDictionary[AbstractDataContext, Path] = weakref.WeakKeyDictionary()
_alone = threading.RLock()
"""Great Expectations has one current context and one YAML parser for all threads of a process."""


@dataclass(frozen=True, slots=True)
class Place:
    """An open context, the folder of its verdicts, and the address at which people find that folder."""

    context: AbstractDataContext
    folder: Path
    origin: str = ""
    """The address of a folder that lies elsewhere."""

    def address(self, url: str | None) -> str | None:
        """The address of a page of Data Docs; in a fetched folder, the address that the page goes back to."""
        here = f"file://{self.folder.parent}"
        return f"{self.origin}{url.removeprefix(here)}" if url and self.origin and url.startswith(here) else url


@contextmanager
def opened(context: AbstractDataContext | str | os.PathLike[str], options: Mapping[str, Any]) -> Iterator[Place]:
    """A context to export to, held by nobody else."""
    name = (context.root_directory or "memory") if isinstance(context, AbstractDataContext) else context
    with _alone, _current_context_kept(), _worded(name), _held(context, options) as place:
        project_manager.set_project(place.context)
        yield place


@contextmanager
def _held(context: AbstractDataContext | str | os.PathLike[str], options: Mapping[str, Any]) -> Iterator[Place]:
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
        project = Path(address.removeprefix("file://")).absolute()
        root = project if (project / CONFIGURATION).exists() else project / FileDataContext.GX_DIR
        with _locked_here(root):
            yield Place(_Context(context_root_dir=root), root / guard.FOLDER)


@contextmanager
def _current_context_kept() -> Iterator[None]:
    """Leave the caller's own context the current one, in which Great Expectations saves what people change."""
    current = None
    with suppress(DataContextRequiredError):
        current = project_manager.get_current_project()
    try:
        yield
    finally:
        project_manager.set_project(current)


@contextmanager
def _worded(name: str | os.PathLike[str]) -> Iterator[None]:
    """Put into one sentence what Great Expectations raises: it has many kinds of errors for a damaged context."""
    try:
        yield
    except DcError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno:
            raise StateError(
                f"The context in {name} cannot be written: {error}.",
                hint="Check that this user may write all of it, and that the disk is not full.",
            ) from error
        said = plain(" ".join(str(error).split()), MAX_TEXT).rstrip(". ")
        raise StateError(
            f"Great Expectations cannot work with the context in {name}: {type(error).__name__}: {said}.",
            hint=f"Its {CONFIGURATION} or another of its files may be damaged, or an action of the checkpoint failed.",
        ) from error


class _Context(FileDataContext):
    """A context that saves its configuration whole or not at all: other tables and other people use it too."""

    def _save_project_config(self) -> None:
        path = Path(self.root_directory, CONFIGURATION)
        draft = path.with_name(f"{CONFIGURATION}.draft")
        self.GX_YML = draft.name
        try:
            super()._save_project_config()
        finally:
            del self.GX_YML
        shutil.copymode(path, draft)
        draft.replace(path)


def _folder_of(context: AbstractDataContext) -> Path:
    """Where a context without a folder keeps its verdicts while it lives."""
    if context not in _temporary:
        folder = tempfile.mkdtemp(prefix="dcgate-")
        _temporary[context] = Path(folder)
        weakref.finalize(context, shutil.rmtree, folder, ignore_errors=True)
    return _temporary[context]


def _check_not_outdated(context: FileDataContext) -> None:
    """Refuse a context that was opened before others added to its configuration: saving it would undo that."""
    now = _Context(context_root_dir=context.root_directory)
    unknown = set(now.fluent_datasources) - set(context.fluent_datasources)
    if unknown:
        raise StateError(
            f"The context of {context.root_directory} was opened before {', '.join(sorted(unknown))} came into it.",
            hint="Open it again with great_expectations.get_context, or give export_checkpoint the folder.",
        )


@contextmanager
def _locked_here(root: Path) -> Iterator[None]:
    """Lock a folder on this machine or a network disk; the system unlocks it when this process ends."""
    (root / LOCK).parent.mkdir(parents=True, exist_ok=True)
    with (root / LOCK).open("a") as lock:
        deadline = time.monotonic() + PATIENCE
        while not _is_locked(lock.fileno()):
            if time.monotonic() > deadline:
                raise _in_use(str(root), "another export")
            time.sleep(0.1)
        yield


def _is_locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _fetched(address: str, options: Mapping[str, Any]) -> Iterator[Place]:
    """A copy of a folder that lies elsewhere; what changed in it goes back."""
    storage = _storage(address, options)
    with _locked_there(storage) as check_still_held, tempfile.TemporaryDirectory(prefix="dcgate-") as name:
        folder = Path(name).resolve()
        before = _fetch(storage, folder)
        yield Place(_Context(context_root_dir=folder), folder / guard.FOLDER, storage.uri)
        after = _sums(folder)
        changed = sorted((path for path in after if before.get(path) != after[path]), key=_turn)
        gone = sorted(before.keys() - after.keys())
        for place, path in enumerate(changed):
            if place == 0 or _turn(path)[0] == _RESULTS:
                check_still_held()
            storage.write(path, (folder / path).read_bytes())
        if gone:
            check_still_held()
        for path in gone:
            storage.remove(path)


def _storage(address: str, options: Mapping[str, Any]) -> Storage:
    """The folder of a context: the one at the address, or its subfolder ``gx``."""
    inner = Storage(f"{address}/{FileDataContext.GX_DIR}", options, noun="context folder")
    inner.check_exclusive()
    outer = Storage(address, options, noun="context folder")
    return inner if outer.size(CONFIGURATION) is None else outer


def _fetch(storage: Storage, folder: Path) -> dict[str, str]:
    """Copy a folder here; the checksums of its files."""

    def fetch(path: str) -> None:
        target = (folder / path).resolve()
        if not target.is_relative_to(folder):
            raise StateError(f"{storage.uri} has a file that would lie outside its copy: {path}.")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(storage.read(path))

    paths = [one.path for one in storage.files() if not one.path.startswith(f"{LOCK}/")]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        # probes come and go while other exports find out whether the store creates exclusively
        list(pool.map(fetch, (path for path in paths if not path.endswith(".probe"))))
    return _sums(folder)


def _sums(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _turn(path: str) -> tuple[int, str]:
    """When a file goes back: definitions, pages, what links to them, and last the results, which vouch for the rest.

    So an export that fails on the way back is not mistaken for one that was done.
    """
    if path.startswith("uncommitted/validations/"):
        return _RESULTS, path
    return path.startswith("uncommitted/") + path.endswith("index.html"), path


@contextmanager
def _locked_there(storage: Storage) -> Iterator[Callable[[], None]]:
    """Lock a folder on an object store.

    Locks are numbered, one per number: the newest holds the folder until it is marked as done, or is so old that its
    owner must be dead. An owner that was presumed dead notices before it writes.
    """
    owner = f"process {os.getpid()} on {socket.gethostname()}"
    deadline = time.monotonic() + PATIENCE
    while True:
        names = storage.names(LOCK)
        newest = _newest(names)
        if not newest or _lock(newest, "done") in names or _is_stale(storage, newest):
            try:
                storage.create(f"{LOCK}/{_lock(newest + 1, 'held')}", owner.encode())
                break
            except FileExistsError:
                continue  # another export was faster
        if time.monotonic() > deadline:
            raise _in_use(storage.uri, storage.read(f"{LOCK}/{_lock(newest, 'held')}").decode(errors="replace"))
        time.sleep(1)
    mine = newest + 1

    def check_still_held() -> None:
        if _newest(storage.names(LOCK)) > mine:
            raise StateError(
                f"The export to {storage.uri} took so long that another one took its place; nothing was written.",
                hint="Run it again.",
            )

    try:
        yield check_still_held
    finally:
        with suppress(StateError):  # a lock left behind is taken over once it is stale
            storage.write(f"{LOCK}/{_lock(mine, 'done')}", b"")
            for name in names:
                storage.remove(f"{LOCK}/{name}")


def _lock(number: int, mark: str) -> str:
    return f"{number:0{_DIGITS}d}.{mark}"


def _newest(names: list[str]) -> int:
    return max((int(name[:_DIGITS]) for name in names if name.endswith(".held")), default=0)


def _is_stale(storage: Storage, number: int) -> bool:
    path = f"{LOCK}/{_lock(number, 'held')}"
    modified = next((one.modified for one in storage.files(LOCK) if one.path == path), None)
    return modified is not None and datetime.now(UTC) - modified > STALE


def _in_use(where: str, by: str) -> StateError:
    return StateError(
        f"The context in {where} has been in use by {by} for more than {PATIENCE:.0f} s.",
        hint="Exports to one context wait for each other: run this one again. A killed export to an "
        f"object store is presumed dead after {STALE.total_seconds() / 60:.0f} minutes.",
    )
