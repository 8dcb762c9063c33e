"""The engine as Spark takes it: the application files, and a zip of the package's sources for drivers and workers."""

from __future__ import annotations

import hashlib
import tempfile
import weakref
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PACKAGE = Path(__file__).parent
_ALWAYS = (1980, 1, 1, 0, 0, 0)
_shipped: weakref.WeakSet[SparkSession] = weakref.WeakSet()


def application(job: str = "apply_load") -> str:
    """The path of a job: ``apply_load``, ``discover`` or ``maintain``."""
    return str(_PACKAGE / f"{job}.py")


def build_engine_zip(folder: Path) -> Path:
    """Zip the sources of the installed engine into ``folder``. The same sources give the same bytes and name."""
    sources = {source.relative_to(_PACKAGE).as_posix(): source.read_bytes() for source in _PACKAGE.rglob("*.py")}
    digest = hashlib.sha256(repr(sorted(sources.items())).encode()).hexdigest()[:12]
    target = folder / f"dc_engine_{digest}.zip"
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in sorted(sources.items()):
            entry = zipfile.ZipInfo(f"{_PACKAGE.name}/{name}", date_time=_ALWAYS)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)
    return target


def is_connect(spark: SparkSession) -> bool:
    """Whether a session is that of a Spark Connect server."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def ship_engine(spark: SparkSession) -> None:
    """Send the engine to a Spark Connect server, once per session; elsewhere ``spark-submit --py-files`` does it."""
    if not is_connect(spark) or spark in _shipped:
        return
    with tempfile.TemporaryDirectory() as folder:
        spark.addArtifacts(str(build_engine_zip(Path(folder))), pyfile=True)
    _shipped.add(spark)
