"""A folder on any filesystem that fsspec knows: whole files are written once, read, listed, never changed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import uuid
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any

from spark_jobs.errors import StateError


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file that was written, by its path within the state, with what it takes to recognise it."""

    path: str
    size: int
    sha256: str


class Storage:
    """The folder of one state. Picklable: workers open the filesystem themselves."""

    def __init__(self, uri: str) -> None:
        self.uri = uri.rstrip("/")

    def __getstate__(self) -> dict[str, str]:
        return {"uri": self.uri}

    @cached_property
    def _place(self) -> tuple[Any, str]:
        import fsspec

        try:
            # a listing kept from before another writer's commit would hide that commit
            filesystem, root = fsspec.url_to_fs(self.uri, use_listings_cache=False)
        except (ValueError, ImportError) as error:
            raise StateError(
                f"The state {self.uri} cannot be reached: {error}.",
                hint="A state is a folder or a URI of a filesystem whose fsspec package is installed.",
            ) from error
        return filesystem, root.rstrip("/")

    def locate(self, path: str) -> str:
        """The full URI of a path within the state, as people and other tools would open it."""
        return f"{self.uri}/{path}"

    def _full(self, path: str) -> str:
        return f"{self._place[1]}/{path}"

    @property
    def is_local(self) -> bool:
        """Whether the state is on this machine's own filesystem."""
        protocol = self._place[0].protocol
        return "file" in (protocol if isinstance(protocol, tuple) else (protocol,))

    def write(self, path: str, data: bytes) -> StoredFile:
        """Write a new file."""
        filesystem, _ = self._place
        try:
            filesystem.makedirs(self._full(path).rsplit("/", 1)[0], exist_ok=True)
            filesystem.pipe_file(self._full(path), data)
        except OSError as error:
            raise StateError(
                f"The state {self.uri} cannot be written: {error}.",
                hint="Check that the folder exists, is writable and has space left.",
            ) from error
        return StoredFile(path, len(data), hashlib.sha256(data).hexdigest())

    def create(self, path: str, data: bytes) -> None:
        """Create a file that must not exist yet, whole at once; ``FileExistsError`` when it does."""
        filesystem, _ = self._place
        if not self.is_local:
            filesystem.makedirs(self._full(path).rsplit("/", 1)[0], exist_ok=True)
            filesystem.pipe_file(self._full(path), data, mode="create")
            return
        # a hard link appears with its whole content or not at all, and never replaces another
        draft = f"{path}.{uuid.uuid4().hex}.draft"
        self.write(draft, data)
        try:
            os.link(self._full(draft), self._full(path))
        finally:
            with contextlib.suppress(OSError):  # a draft that stays behind disturbs nobody; the link has its own name
                filesystem.rm_file(self._full(draft))

    def read(self, path: str) -> bytes:
        """A file's content; a ``StateError`` that names it when it is missing."""
        try:
            return self._place[0].cat_file(self._full(path))
        except FileNotFoundError as error:
            raise StateError(f"The state {self.uri} lacks the file {path}.", hint="Rebuild the state.") from error

    def open(self, path: str) -> IO[bytes]:
        """A file for reading here and there in it."""
        filesystem, _ = self._place
        try:
            if self.is_local:
                return Path(self._full(path)).open("rb", buffering=0)
            return filesystem.open(self._full(path), "rb")
        except FileNotFoundError as error:
            raise StateError(f"The state {self.uri} lacks the file {path}.", hint="Rebuild the state.") from error

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder; none when there is no such folder."""
        try:
            found = self._place[0].ls(self._full(folder), detail=False)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StateError(
                f"The state {self.uri} cannot be read: {error}.",
                hint="A state is a folder that can be read and written.",
            ) from error
        return sorted(name.rstrip("/").rsplit("/", 1)[-1] for name in found)

    def remove(self, path: str) -> None:
        """Remove a file that no snapshot names."""
        self._place[0].rm_file(self._full(path))
