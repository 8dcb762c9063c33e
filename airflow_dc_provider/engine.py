"""The engine as Spark takes it: the application file, and a zip of the package's sources for workers."""

from __future__ import annotations

import zipfile
from pathlib import Path

import spark_jobs

_PACKAGE = Path(spark_jobs.__file__).parent
_ALWAYS = (1980, 1, 1, 0, 0, 0)


def application() -> str:
    """The path of the job that applies a load."""
    return str(_PACKAGE / "apply_load.py")


def build_engine_zip(folder: Path) -> Path:
    """Zip the sources of the installed engine into ``folder``. The same sources give the same bytes."""
    target = folder / "dc_engine.zip"
    with zipfile.ZipFile(target, "w") as archive:
        for source in sorted(_PACKAGE.rglob("*.py")):
            name = f"{_PACKAGE.name}/{source.relative_to(_PACKAGE).as_posix()}"
            entry = zipfile.ZipInfo(name, date_time=_ALWAYS)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, source.read_bytes())
    return target
