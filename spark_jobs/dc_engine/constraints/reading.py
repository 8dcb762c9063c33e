"""Constraint files to mappings that know their lines. Only here PyYAML and fsspec are imported, and late."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dc_engine.errors import ConstraintError, did_you_mean

# The file, its constraints, a constraint, its columns, a column; also ends aliases that contain themselves.
_MAX_DEPTH = 5
_TAG = "tag:yaml.org,2002:"
_QUOTE_HINT = "Put the whole value in quotes: characters such as ` @ % & * # or ': ' mean something to YAML."


class LinedMapping(dict[str, Any]):
    """A mapping from a file; ``lines`` says on which line each key stands, ``line`` where it begins."""

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: dict[str, int] = {}


def read(source: str | os.PathLike[str] | Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """What messages call the source, and its document."""
    if isinstance(source, Mapping):
        return "constraints", source
    name = os.fspath(source)
    try:
        text = _read_bytes(name).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConstraintError(f"{name}: is not UTF-8 text ({error.reason}).", hint="Save it as UTF-8.") from None
    return name, _parse(name, text)


def _read_bytes(name: str) -> bytes:
    try:
        if "://" in name:
            import fsspec

            with fsspec.open(name, "rb") as file:
                return bytes(file.read())
        return Path(name).read_bytes()
    except FileNotFoundError:
        raise ConstraintError(f"{name}: there is no such constraint file.", hint=_nearest_file(name)) from None
    except (OSError, ImportError, ValueError) as error:
        raise ConstraintError(f"{name}: the constraint file cannot be read: {error}.") from error


def _nearest_file(name: str) -> str:
    folder = Path(name).parent
    if "://" in name or not folder.is_dir():
        return "Give a path that the DAG processor and Spark's driver can both read."
    names = [one.name for one in folder.iterdir() if one.suffix in (".yml", ".yaml", ".json")]
    return did_you_mean(Path(name).name, names, otherwise=f"The folder {folder} exists.")


def _parse(name: str, text: str) -> Mapping[str, Any]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        root = yaml.compose(text, loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}" if mark else name
        raise ConstraintError(f"{where}: is not valid YAML: {error.problem}.", hint=_QUOTE_HINT) from None
    except yaml.YAMLError as error:
        raise ConstraintError(f"{name}: is not valid YAML: {' '.join(str(error).split())}.") from None
    if root is None:
        raise ConstraintError(f"{name}: is empty.", hint="It needs version, table and constraints.")
    document = _value(name, root, 1)
    if not isinstance(document, LinedMapping):
        raise ConstraintError(
            f"{name}:{root.start_mark.line + 1}: has to be a mapping.",
            hint="It needs the keys version, table and constraints.",
        )
    return document


def _value(name: str, node: Any, depth: int) -> Any:
    line = node.start_mark.line + 1
    if depth > _MAX_DEPTH:
        raise ConstraintError(f"{name}:{line}: is nested too deeply.")
    if node.id == "mapping":
        return _mapping(name, node, line, depth)
    if node.id == "sequence":
        return [_value(name, item, depth + 1) for item in node.value]
    return _scalar(name, node, line)


def _mapping(name: str, node: Any, line: int, depth: int) -> LinedMapping:
    mapping = LinedMapping(line)
    for key_node, value_node in node.value:
        key, key_line = key_node.value, key_node.start_mark.line + 1
        if not isinstance(key, str):
            raise ConstraintError(f"{name}:{key_line}: a key has to be a word.")
        if key in mapping:
            raise ConstraintError(
                f"{name}:{key_line}: the key '{key}' stands here and on line {mapping.lines[key]}.",
                hint="Keep one of them.",
            )
        mapping.lines[key] = key_line
        mapping[key] = _value(name, value_node, depth + 1)
    return mapping


def _scalar(name: str, node: Any, line: int) -> Any:
    """Text, except where it matters that YAML sees something else: true, false, nothing and plain numbers."""
    tag, text = node.tag.removeprefix(_TAG), node.value
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
    raise ConstraintError(f"{name}:{line}: the tag '{node.tag}' means nothing here.", hint="Leave it out.")


def _float(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return str(text)
