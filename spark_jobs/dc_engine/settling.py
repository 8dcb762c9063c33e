"""Where the engine lies when it comes as a zip, which has a new path for each job: in a folder of the user's cache.

Python compiles all that it imports from a zip again in every process, and so does numba. Beside a source on a disk both
keep what they compiled. Kernels have a folder of their own, which another version of all else leaves as it is.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path


def settle_engine(path: list[str]) -> None:
    """Let the engine, but for its kernels, be found in such a folder when it comes from a zip."""
    archive, package = Path(path[0]).parent, Path(path[0]).name
    if not archive.is_file():
        return
    from zipfile import ZipFile

    with ZipFile(archive) as zipped:
        sizes = {one.filename: one.file_size for one in zipped.infolist()}
        sizes = {name: size for name, size in sizes.items() if not name.startswith(f"{package}/kernels/")}
        folder = _settled("engine", archive.read_bytes(), sizes, zipped.read)
    path[:0] = [str(one / package) for one in folder]


def settle_kernels(package: str, path: list[str]) -> None:
    """The same for the kernels: their folder is another one only where they are others."""
    if Path(path[0]).is_dir():
        return
    import pkgutil

    names = sorted(f"{module.name}.py" for module in pkgutil.iter_modules(path))
    sources = {name: pkgutil.get_data(package, name) or b"" for name in names}
    sizes = {name: len(source) for name, source in sources.items()}
    path[:0] = [str(one) for one in _settled("kernels", repr(sources).encode(), sizes, sources.__getitem__)]


def _settled(what: str, content: bytes, sizes: Mapping[str, int], read: Callable[[str], bytes]) -> list[Path]:
    """The folder for this content, with its sources; none without a home, or one that is writable, or another's."""
    import hashlib

    with contextlib.suppress(OSError, RuntimeError):
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = cache / "airflow-dc-provider" / f"{what}-{hashlib.sha256(content).hexdigest()[:16]}"
        if not folder.is_dir():
            _fill(folder, sizes, read)
        if folder.stat().st_uid != os.getuid():  # who knows what is in it
            return []
        for name, size in sizes.items():
            if _size(folder / name) != size:  # somebody clears what seems old, or a disk was full
                _write(folder / name, read(name))
        return [folder]
    return []


def _size(file: Path) -> int:
    try:
        return os.stat(file).st_size  # noqa: PTH116  (asked of all files of the engine)
    except FileNotFoundError:
        return -1


def _fill(folder: Path, names: Iterable[str], read: Callable[[str], bytes]) -> None:
    """Make a folder with some files, compiled as an installation is: when it is there, all of them are, and whole."""
    import compileall
    import shutil
    import tempfile

    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f"{folder.name}."))  # for this user alone
    try:
        for name in names:
            _write(draft / name, read(name))
        compileall.compile_dir(draft, quiet=2, stripdir=draft, prependdir=folder)
        draft.rename(folder)
    except OSError:
        if not folder.is_dir():  # else another process was first
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _write(file: Path, content: bytes) -> None:
    """Write a file that lasts, in the place of another one if there is one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f"{file.name}.{os.getpid()}")
    with draft.open("wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())
    draft.rename(file)
