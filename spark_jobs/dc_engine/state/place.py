"""Where a state is: its filesystem, and the messages when that fails.

What is needed to reach a filesystem (keys, an endpoint) travels to the workers, never into a message.
"""

from __future__ import annotations

import contextlib
import errno
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from dc_engine.errors import NoSpaceError, StateError
from dc_engine.state.redaction import shown, told

_CREDENTIALS = re.compile(r"://(?!arn:)[^/@:]*:[^@]*@")
_HINTS = {
    errno.ENOSPC: "The disk is full: free some space, or move the state.",
    errno.EDQUOT: "The disk quota is used up: free some space, or move the state.",
    errno.EFBIG: "The file is larger than the filesystem or the limit of the process (ulimit -f) allows.",
    errno.EROFS: "The filesystem is mounted read-only: mount it writable, or move the state.",
    errno.EACCES: "Check that the user who runs Spark may write to the folder, on the driver and on the workers.",
}
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class Place:
    """A folder on a filesystem that fsspec knows. Picklable: workers open it themselves, with the driver's options.

    ``noun`` is what messages call it, if it is not a state.
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
        self.remembers = True
        """Whether what is read here may be kept for later: not where a worker opens it."""

    def __repr__(self) -> str:
        return f"Storage({self.uri!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {"uri": self.uri, "_options": self._settings, "_noun": self._noun, "remembers": False}

    @cached_property
    def _kind(self) -> Any:
        """The class of the filesystem; ``None`` where there is none, which opening it will report."""
        import fsspec
        from fsspec.utils import get_protocol

        with contextlib.suppress(ValueError, ImportError):
            return fsspec.get_filesystem_class(get_protocol(self.uri))
        return None

    @cached_property
    def _settings(self) -> dict[str, Any]:
        """The options of the filesystem: those given, over fsspec's configuration on this machine."""
        from fsspec.config import apply_config

        return apply_config(self._kind, self._options) if self._kind else self._options

    @cached_property
    def _place(self) -> tuple[Any, str]:
        import fsspec

        hint = f"A {self._noun} is a folder or a URI of a filesystem whose fsspec package is installed."
        with self._worded("reached", hint, passing=()):
            # a listing cached before another writer's commit would hide that commit
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
        return "Check that the bucket or container exists, and that the credentials allow writing to it."

    @contextlib.contextmanager
    def _worded(
        self, done: str, hint: str, *, passing: tuple[type[Exception], ...] = (FileNotFoundError,)
    ) -> Iterator[None]:
        """Put into one sentence what a filesystem raises: each has its own errors, and many are no ``OSError``."""
        try:
            yield
        except Exception as error:
            if isinstance(error, (StateError, *passing)):
                raise
            number = error.errno if isinstance(error, OSError) and done == "written" and self.is_local else None
            kind = NoSpaceError if number in _FULL else StateError
            raise kind(
                f"The {self._noun} {self.uri} cannot be {done}: {told(error, self._settings)}.",
                hint=_HINTS.get(number or 0, hint),
            ) from shown(error, self._settings)
