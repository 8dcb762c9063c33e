"""Contexts of Great Expectations for tests, each in a folder of its own."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session", autouse=True)
def texts_are_read_once() -> Iterator[None]:
    """Great Expectations compiles its templates and parses its variables in every export: most of what one costs."""
    from great_expectations.core import config_provider
    from jinja2 import Environment

    compiled: dict[tuple[Any, ...], Any] = {}
    compile_anew = Environment.compile

    def compile_once(self: Environment, source: Any, name: Any = None, filename: Any = None, **more: Any) -> Any:
        if "great_expectations" not in str(filename):
            return compile_anew(self, source, name, filename, **more)
        key = (source, name, filename, *more.items())
        if key not in compiled:
            compiled[key] = compile_anew(self, source, name, filename, **more)
        return compiled[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Environment, "compile", compile_once)
        patch.setattr(config_provider.yaml, "load", functools.cache(config_provider.yaml.load))
        yield


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a context comes to be."""
    return tmp_path / "quality"


@pytest.fixture
def open_context(folder: Path) -> Callable[[], Any]:
    """Open the context afresh, as another process would."""
    import great_expectations as gx

    return lambda: gx.get_context(mode="file", project_root_dir=folder)


def files_of(folder: Path) -> dict[str, tuple[str, int]]:
    """The files of a context, each with a checksum and the time of its last change."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            name = path.relative_to(folder).as_posix()
            found[name] = (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
    return found
