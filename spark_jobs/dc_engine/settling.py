"""Where the engine lies when it comes as a zip, which has a new path for each job: in a folder of the user's cache.

Python compiles all that it imports from a zip again in every process, and so does numba. Beside a source on a disk both
keep what they compiled. Kernels have a folder of their own, which another version of all else leaves as it is.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path


def settle_engine(path: list[str]) -> None:
    """Let the engine, but for its kernels, be found in such a folder when it comes from a zip."""
    archive, package = Path(path[0]).parent, Path(path[0]).name
    if archive.is_file():
        folder = _settled("engine", archive.read_bytes(), _sources(archive, package))
        path[:0] = [str(one / package) for one in folder]


def settle_kernels(package: str, path: list[str]) -> None:
    """The same for the kernels: their folder is another one only where they are others."""
    if Path(path[0]).is_dir():
        return
    import pkgutil

    names = sorted(f"{module.name}.py" for module in pkgutil.iter_modules(path))
    sources = {name: pkgutil.get_data(package, name) or b"" for name in names}
    path[:0] = [str(one) for one in _settled("kernels", repr(sources).encode(), sources.items())]


def _sources(archive: Path, package: str) -> Iterator[tuple[str, bytes]]:
    from zipfile import ZipFile

    with ZipFile(archive) as zipped:
        for name in zipped.namelist():
            if not name.startswith(f"{package}/kernels/"):
                yield name, zipped.read(name)


def _settled(what: str, content: bytes, sources: Iterable[tuple[str, bytes]]) -> list[Path]:
    """The folder for this content, with its sources; none without a home, or one that is writable."""
    import hashlib

    with contextlib.suppress(OSError, RuntimeError):
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = cache / "airflow-dc-provider" / f"{what}-{hashlib.sha256(content).hexdigest()[:16]}"
        if not folder.is_dir():
            _fill(folder, sources)
        return [folder]
    return []


def _fill(folder: Path, sources: Iterable[tuple[str, bytes]]) -> None:
    """Make a folder with some files, compiled as an installation is: when it is there, all of them are, and whole."""
    import compileall
    import shutil

    draft = folder.with_name(f"{folder.name}.{os.getpid()}")
    try:
        for name, content in sources:
            file = draft / name
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with file.open("wb") as opened:
                opened.write(content)
                opened.flush()
                os.fsync(opened.fileno())
        compileall.compile_dir(draft, quiet=2, stripdir=draft, prependdir=folder)
        draft.rename(folder)
    except OSError:
        if not folder.is_dir():  # else another process was first
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
