"""The numba functions: arrays in, arrays out, nothing else. Importing a module of this room imports numba.

Numba keeps what it compiled beside the source. A worker gets the engine as a zip with a new path for each job, so the
sources are put where they have a lasting path, and are compiled once per machine instead of once per job.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pkgutil
from pathlib import Path


def _settle(package: str, path: list[str]) -> None:
    """Let the modules of this package be found in a folder of the user's cache, when they come from a zip."""
    if Path(path[0]).is_dir():
        return
    names = sorted(f"{module.name}.py" for module in pkgutil.iter_modules(path))
    sources = {name: pkgutil.get_data(package, name) or b"" for name in names}
    digest = hashlib.sha256(repr(sources).encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "airflow-dc-provider" / f"kernels-{digest}"
    with contextlib.suppress(OSError, RuntimeError):  # no home, or none that is writable: compiled once per job, then
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name, source in sources.items():
            if not (folder / name).is_file() or (folder / name).read_bytes() != source:
                draft = folder / f"{name}.{os.getpid()}"
                draft.write_bytes(source)
                draft.replace(folder / name)
        path[:] = [str(folder)]


_settle(__name__, __path__)
