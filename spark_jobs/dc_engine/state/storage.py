"""The folder of one state: files are written once, read, listed, never changed."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Hashable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

from dc_engine.errors import StateError
from dc_engine.state.memory import Shelf
from dc_engine.state.writing import Writing

_BLOCK = 1 << 20
"""How far to read ahead on object stores, whose filesystems would otherwise fetch up to 50 MB for each small read."""


class Known(Protocol):
    """What is known about a file's content before it is read."""

    @property
    def size(self) -> int: ...

    @property
    def sha256(self) -> str: ...


class Stored(Known, Protocol):
    """A file of which that is known."""

    @property
    def path(self) -> str: ...


class Listed(NamedTuple):
    """A file that lies in the state's folder, whether or not a snapshot names it."""

    path: str
    size: int
    modified: datetime | None


class Storage(Writing):
    """The folder of one state. Picklable: workers open the filesystem themselves, with the driver's options."""

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
        """A file for reading at any position."""
        with self._naming(path), self._worded("read", self._reading):
            if self.is_local:
                return Path(self._full(path)).open("rb", buffering=0)
            return self._place[0].open(self._full(path), "rb", block_size=_BLOCK)

    def read_part(self, path: str, start: int, end: int) -> bytes:
        """A file from one byte up to another, exclusive; shorter where the file ends."""
        with self._naming(path), self._worded("read", self._reading):
            if not self.is_local:
                return self._place[0].cat_file(self._full(path), start=start, end=end)
            with Path(self._full(path)).open("rb") as file:
                file.seek(start)
                return file.read(end - start)

    def read_into(self, content: memoryview, path: str, spans: Sequence[tuple[int, int]]) -> None:
        """Some parts of a file, each from one byte up to another, exclusive, to the same places of a buffer.

        Where the file ends before, the buffer stays as it is.
        """
        with self._naming(path), self._worded("read", self._reading):
            if self.is_local:
                with Path(self._full(path)).open("rb") as file:
                    for start, end in spans:
                        file.seek(start)
                        file.readinto(content[start:end])
                return
            starts, ends = [start for start, _ in spans], [end for _, end in spans]
            parts = self._place[0].cat_ranges([self._full(path)] * len(spans), starts, ends, on_error="raise")
        for start, part in zip(starts, parts, strict=True):
            content[start : start + len(part)] = part

    def stamp(self, path: str) -> tuple[int, ...] | None:
        """What changes when a file does; ``None`` where asking for it costs a request, or nothing is to be kept."""
        if not self.is_local or not self.remembers:
            return None
        try:
            facts = os.stat(self._full(path))  # noqa: PTH116  (asked of all files of each load)
        except OSError:  # reading it will say what is wrong
            return None
        return facts.st_ino, facts.st_size, facts.st_mtime_ns

    def shelf(self, files: Sequence[Stored], *key: Hashable) -> Shelf:
        """Where this process keeps what it makes of some files, and of what else is given, if it keeps anything."""
        stamps = [(one.sha256, self.stamp(one.path)) for one in files]
        return Shelf((*stamps, *key) if all(stamp for _, stamp in stamps) else None)

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

    def beside(self) -> list[str]:
        """The names of what lies beside the state's folder, for hints; none where that cannot be listed."""
        filesystem, root = self._place
        with contextlib.suppress(StateError, FileNotFoundError), self._worded("read", self._reading):
            found = filesystem.ls(root.rpartition("/")[0], detail=False)
            return sorted(name.rstrip("/").rsplit("/", 1)[-1] for name in found)
        return []

    def files(self, folder: str = "") -> list[Listed]:
        """Every file in the state's folder, or in one below it, recursively, including leftovers."""
        filesystem, root = self._place
        strictly = {"on_error": "raise"} if self.is_local else {}
        try:
            with self._worded("read", self._reading):
                found = filesystem.find(f"{root}/{folder}".rstrip("/"), detail=True, **strictly)
        except FileNotFoundError:
            return []
        files = {name: one for name, one in found.items() if not name.endswith("/")}
        return sorted(Listed(name.removeprefix(f"{root}/"), one["size"], _modified(one)) for name, one in files.items())


def _modified(found: Mapping[str, Any]) -> datetime | None:
    """When a file was written, under whatever name its filesystem has for that."""
    names = ("mtime", "LastModified", "last_modified", "created")
    stamp = next((found[name] for name in names if found.get(name)), None)
    if isinstance(stamp, int | float):
        return datetime.fromtimestamp(stamp, UTC)
    if isinstance(stamp, datetime):
        return stamp.astimezone(UTC) if stamp.tzinfo else stamp.replace(tzinfo=UTC)
    return None
