"""Where loads arrive, looked at by listings alone: which loads are there, and whether their files have changed."""

from __future__ import annotations

import glob
import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dc_engine.errors import RequestError
from dc_engine.request import check_load_id
from dc_engine.state.place import Place

_CHANGES_WITH_A_FILE = ("ETag", "etag", "md5Hash", "mtime", "LastModified", "last_modified", "updated", "created")
"""What filesystems call it."""
_PATTERN_OF_SPARK = frozenset("{}[]*?\\")
"""A path with one of these is a glob to Spark, also where a file has that very name."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """A load that is there: a file or a folder."""

    load_id: str
    path: str


@dataclass(frozen=True, slots=True)
class Naming:
    """Which files and folders are loads, and what they are called."""

    pattern: str = "*"
    """A glob, from the folder of all loads."""
    load_id_pattern: str | None = None
    """A regular expression with one group, the load's id; without one, the id is the last part of the path."""
    marker: str | None = None
    """The file that a folder has once it is complete; then only folders are loads."""

    def __post_init__(self) -> None:
        if not isinstance(self.pattern, str) or not self.pattern.strip("/"):
            raise RequestError(f"'pattern' is {self.pattern!r}, and must be a glob such as '*' or 'day=*'.")
        if self.marker is not None and (not isinstance(self.marker, str) or not self.marker or "/" in self.marker):
            raise RequestError(f"'marker' is {self.marker!r}, and must be the name of a file such as '_SUCCESS'.")
        if self.load_id_pattern is not None:
            self._expression()

    def load_id(self, name: str) -> str | None:
        """The id of the load at a path below the folder; ``None`` where the path is not that of a load."""
        if _is_hidden(name):
            return None
        if self.load_id_pattern is None:
            return name.rsplit("/", 1)[-1]
        found = self._expression().search(name)
        return found[1] if found else None

    def _expression(self) -> re.Pattern[str]:
        problem = "it is no text"
        try:
            made = re.compile(self.load_id_pattern or "")
            problem = f"it has {made.groups} groups"
            if made.groups == 1:
                return made
        except (re.error, TypeError) as error:
            problem = str(error)
        raise RequestError(
            f"'load_id_pattern' is {self.load_id_pattern!r}, not a regular expression with one group: {problem}.",
            hint=r"For instance r'day=(.+)', or r'(.+)\.csv' for the name of a file without its end.",
        )


def _is_hidden(below: str) -> bool:
    """Whether Spark passes over what is there, for its name or that of a folder above it."""
    return any(part[:1] == "." or (part[:1] == "_" and "=" not in part) for part in below.split("/"))


class Landing(Place):
    """A file, a folder or a glob of them, on any filesystem that fsspec knows."""

    def __init__(self, uri: str, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(uri, options, noun="folder")

    @property
    def _reading(self) -> str:
        if self.is_local:
            return "Check the path, and that Airflow's user may read it."
        return super()._reading

    def arrived(self, naming: Naming, known: Collection[str]) -> Iterator[Arrived]:
        """The loads below this folder that are not known, in the order of their paths; complete ones only."""
        for load_id, below in self._places(naming).items():
            if load_id not in known and self._is_complete(below, naming):
                check_load_id(load_id)
                yield Arrived(load_id, self._path(below))

    def _path(self, below: str) -> str:
        """The path by which a gate reads a load; refuses one by which Spark would read other files."""
        path = f"{self.uri}/{below}"
        if odd := sorted(_PATTERN_OF_SPARK & set(path)):
            raise RequestError(
                f"The load at {path} has {' '.join(odd)} in its path, which Spark takes for a pattern: it would read "
                "other files, or none.",
                hint="Rename it, or leave it out with 'pattern'.",
            )
        return path

    def _places(self, naming: Naming) -> dict[str, str]:
        """Where each load is below this folder, in the order of their paths."""
        root = self._place[1]
        places: dict[str, str] = {}
        for name, kind in self._matches(f"{glob.escape(root)}/{naming.pattern.strip('/')}"):
            if name == root or kind not in ("file", "directory"):  # a link to nowhere, a pipe
                continue
            below = name.removeprefix(f"{root}/")
            load_id = naming.load_id(below)
            if load_id is None or (naming.marker is not None and kind != "directory"):
                continue
            if load_id in places:
                raise RequestError(
                    f"In {self.uri}, '{places[load_id]}' and '{below}' both have the load_id '{load_id}': one would "
                    "replace the load of the other, or be taken for it.",
                    hint="Take more of the path into the id, with load_id_pattern.",
                )
            places[load_id] = below
        return places

    def _is_complete(self, below: str, naming: Naming) -> bool:
        if naming.marker is None:
            return True
        filesystem, root = self._place
        with self._worded("read", self._reading):
            return bool(filesystem.exists(f"{root}/{below}/{naming.marker}"))

    def fingerprint(self) -> str | None:
        """What changes when any of the files does: names, sizes, times or tags; ``None`` while none is there."""
        filesystem, root = self._place
        if "{" in root:
            raise RequestError(
                f"Whether files of {self.uri} have changed cannot be seen: '{{' in a path is for Spark alone.",
                hint="Give a folder, or a pattern with * ? and [].",
            )
        roots = [name for name, _ in self._matches(root)] if glob.has_magic(root) else [root]
        files: dict[str, Mapping[str, Any]] = {}
        shown = False
        for one in roots:
            try:
                with self._worded("read", self._reading):
                    found = filesystem.find(one, detail=True)
            except FileNotFoundError:
                continue
            files |= found  # hidden ones count too, but not alone: somebody may just have begun to write
            shown = shown or not all(_is_hidden(name.removeprefix(one)) for name in found)
        if not shown:
            return None
        facts = sorted(
            [name, str(info.get("size")), *(str(info[key]) for key in _CHANGES_WITH_A_FILE if info.get(key))]
            for name, info in files.items()
        )
        return hashlib.sha256(repr(facts).encode()).hexdigest()

    def _matches(self, pattern: str) -> list[tuple[str, str]]:
        """The paths that fit a glob, and whether each is a file or a directory; sorted."""
        try:
            with self._worded("read", self._reading):
                found = self._place[0].glob(pattern, detail=True)
        except FileNotFoundError:
            return []
        return sorted((name.rstrip("/"), info["type"]) for name, info in found.items())
