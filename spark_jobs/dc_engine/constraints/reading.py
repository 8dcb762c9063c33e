"""Constraint files to mappings that know their lines. PyYAML and fsspec are imported only here, and late."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dc_engine.errors import ConstraintError, clipped, did_you_mean

_MAX_DEPTH = 8  # twice what a file needs: the file, its constraints, a constraint, its columns
_MAX_BYTES = 4 << 20  # some 30,000 constraints, which are read in a few seconds
_MAX_NUMBER = 2**63 - 1
_DEPTH_HINT = "A file has a list of constraints, and a constraint at most lists of columns."
_TAG = "tag:yaml.org,2002:"
_QUOTE_HINT = "Put the whole value in quotes: characters such as ` @ % & * # or ': ' mean something to YAML."
_ORDER_OF_LISTS = re.compile(r"\border:\s*\[")
_LIST_HINT = 'Leave the brackets out, or put the whole value in quotes: order: "[a, b] -> [c]".'
_TAB_HINT = "The line is indented with a tab, and YAML takes only spaces: replace it."
_INDENT_HINT = "Check the indentation: the keys of an entry begin below each other, in one column, after spaces."
_KEY_LINE = re.compile(r"\s*(?:- +)?[\w-]+:(?:\s+[^:]*)?")
"""A key, with a value in which no other key can be meant."""
_NO_SPACE = re.compile(r"\s*(?:- +)?(\w+):(?=[^\s/])")
_OUT_OF_PLACE = ("expected '-' indicator", "expected key", "expected <block end>", "mapping values are not allowed")


class LinedMapping(dict[str, Any]):
    """A mapping from a file; ``lines`` has the line of each key, ``line`` the line where it begins."""

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: dict[str, int] = {}


def read(source: str | os.PathLike[str] | Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """What messages call the source, and its document."""
    if isinstance(source, Mapping):
        _check_mapping(source)
        return "constraints", source
    name = os.fspath(source)
    return name, parse(name, read_text(name))


def read_text(name: str) -> str:
    """The text of a file, by its path or URI."""
    data = _read_bytes(name)
    if len(data) > _MAX_BYTES:
        raise ConstraintError(
            f"{name}: is larger than {_MAX_BYTES >> 20} MiB, which no constraint file needs.",
            hint="Is it the right file? The rules of a table are one file; data belongs in the table.",
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConstraintError(f"{name}: is not UTF-8 text ({error.reason}).", hint="Save it as UTF-8.") from None


def _check_mapping(document: Mapping[Any, Any]) -> None:
    """Refuse what no file can say and no message could show: endless nesting, odd keys, huge numbers."""
    level: dict[int, Any] = {id(document): document}
    for _ in range(_MAX_DEPTH):
        parts: dict[int, Any] = {}  # each once, however often the document holds it
        for one in level.values():
            if isinstance(one, Mapping) and not all(isinstance(key, str) for key in one):
                raise ConstraintError("constraints: a key has to be a word.")
            for value in one.values() if isinstance(one, Mapping) else one:
                if isinstance(value, Mapping | list | tuple):
                    parts[id(value)] = value
                elif isinstance(value, int) and abs(value) > _MAX_NUMBER:
                    raise ConstraintError("constraints: a number is out of range.", hint="Counts are below 2^63.")
        level = parts
    if level:
        raise ConstraintError("constraints: is nested too deeply.", hint=_DEPTH_HINT)


def _read_bytes(name: str) -> bytes:
    try:
        if "://" in name:
            import fsspec

            with fsspec.open(name, "rb") as file:
                return bytes(file.read(_MAX_BYTES + 1))
        with Path(name).open("rb") as file:
            return file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        raise ConstraintError(f"{name}: there is no such constraint file.", hint=_nearest_file(name)) from None
    except (OSError, ImportError, ValueError) as error:
        raise ConstraintError(
            f"{name}: the constraint file cannot be read: {error}.",
            hint="Check that it is a file that this user may read; a URI needs the fsspec package of its filesystem.",
        ) from error


def _nearest_file(name: str) -> str:
    folder = Path(name).parent
    if "://" in name:
        return "Check the address."
    if not folder.is_dir():
        return f"There is no folder {folder}: a relative path starts in that of the DAG file, in a shell where you are."
    names = sorted(one.name for one in folder.iterdir() if one.suffix in (".yml", ".yaml", ".json"))
    there = f"has {', '.join([*names[:5], *(['...'] if names[5:] else [])])}" if names else "has no YAML or JSON file"
    return did_you_mean(Path(name).name, names, otherwise=f"The folder {folder.absolute()} {there}.")


def parse(name: str, text: str) -> Mapping[str, Any]:
    """The document of a file's text; ``name`` is what messages call it."""
    import yaml

    try:
        return _Document(name, text).read()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}" if mark else name
        hint = _hint(error.problem or "", text.splitlines()[: mark.line + 1] if mark else [])
        raise ConstraintError(f"{where}: is not valid YAML: {error.problem}.", hint=hint) from None
    except yaml.YAMLError as error:
        raise ConstraintError(
            f"{name}: is not valid YAML: {' '.join(str(error).split())}.",
            hint="Save it as text without such characters.",
        ) from None


def _hint(problem: str, lines: list[str]) -> str:
    """What is likely wrong, in the last of the lines up to which YAML could read."""
    line = lines[-1] if lines else ""
    before = next((one for one in reversed(lines[:-1]) if one.strip()), "")
    if "\t" in line[: len(line) - len(line.lstrip())]:
        return _TAB_HINT
    if _ORDER_OF_LISTS.search(line):
        return _LIST_HINT
    if any(words in problem for words in _OUT_OF_PLACE) and _KEY_LINE.fullmatch(line):
        glued = _NO_SPACE.match(before)
        return f"Write a space after '{glued[1]}:', in the line before." if glued else _INDENT_HINT
    return _QUOTE_HINT


class _Document:
    """A YAML text, read event by event: composing it first would crash the process on deeply nested text."""

    def __init__(self, name: str, text: str) -> None:
        import yaml

        self.name = name
        self.scalar_node = yaml.ScalarNode
        self.loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)

    def read(self) -> LinedMapping:
        """What the text says: one document, a mapping."""
        kind, event = self._next()
        while kind in ("StreamStart", "DocumentStart"):
            kind, event = self._next()
        if kind == "StreamEnd":
            raise ConstraintError(f"{self.name}: is empty.", hint="It needs version, table and constraints.")
        if kind != "MappingStart":
            raise self._error(event, "has to be a mapping.", "It needs the keys version, table and constraints.")
        document = self._mapping(event, 1)
        while kind != "StreamEnd":
            kind, event = self._next()
            if kind == "DocumentStart":
                raise self._error(event, "a second document begins here.", "Keep one of them.")
        return document

    def _next(self) -> tuple[str, Any]:
        event = self.loader.get_event()
        return type(event).__name__.removesuffix("Event"), event

    def _error(self, event: Any, problem: str, hint: str = "") -> ConstraintError:
        return ConstraintError(f"{self.name}:{event.start_mark.line + 1}: {clipped(problem)}", hint=hint)

    def _value(self, kind: str, event: Any, depth: int) -> Any:
        if kind == "Alias":
            raise self._error(
                event, f"the alias '*{event.anchor}' means nothing here.", "Write out what it stands for."
            )
        if kind == "Scalar":
            return self._scalar(event)
        if depth > _MAX_DEPTH:
            raise self._error(event, "is nested too deeply.", _DEPTH_HINT)
        if kind == "MappingStart":
            return self._mapping(event, depth)
        items = []
        while (item := self._next())[0] != "SequenceEnd":
            items.append(self._value(*item, depth + 1))
        return items

    def _mapping(self, event: Any, depth: int) -> LinedMapping:
        mapping = LinedMapping(event.start_mark.line + 1)
        while (entry := self._next())[0] != "MappingEnd":
            kind, key = entry
            if kind != "Scalar":
                raise self._error(key, "a key has to be a word.")
            if key.value in mapping:
                first = mapping.lines[key.value]
                raise self._error(key, f"the key '{key.value}' is here and on line {first}.", "Keep one of them.")
            mapping.lines[key.value] = key.start_mark.line + 1
            mapping[key.value] = self._value(*self._next(), depth + 1)
        return mapping

    def _scalar(self, event: Any) -> Any:
        """Text, except where YAML must see something else: true, false, nothing and plain numbers."""
        tag, text = event.tag, event.value
        if tag is None or tag == "!":
            tag = self.loader.resolve(self.scalar_node, text, event.implicit)
        tag = tag.removeprefix(_TAG)
        if tag == "null":
            return None
        if tag == "bool":
            return text.lower() in ("yes", "true", "on")
        if tag == "int" and text.lstrip("+-").isdecimal() and len(text) < 20:
            return int(text)
        if tag == "float":
            return _float(text)
        if tag in ("str", "int", "timestamp", "value", "merge"):
            return text
        raise self._error(event, f"the tag '{event.tag}' means nothing here.", "Leave it out.")


def _float(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return str(text)
