"""The engine as Spark takes it: the application files, and a zip of the package's sources for drivers and workers."""

from __future__ import annotations

import hashlib
import re
import tempfile
import weakref
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from dc_engine.errors import SparkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PACKAGE = Path(__file__).parent
_ALWAYS = (1980, 1, 1, 0, 0, 0)
SUPPORTED = ((4, 0), (4, 2))
"""The first and the last version of Spark that the engine was tried on, each with all that begin alike."""
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


def check_versions(spark: SparkSession) -> None:
    """Refuse a Spark that the engine was not tried on, and a PySpark here that is not that of its Spark."""
    import pyspark

    theirs, ours = spark.version, pyspark.__version__
    place = "The Spark Connect server" if is_connect(spark) else "This Spark"
    first, last = (f"{major}.{minor}" for major, minor in SUPPORTED)
    if not SUPPORTED[0] <= _release(theirs) <= SUPPORTED[1]:
        raise SparkError(
            f"{place} has version {theirs}, and the engine works on Spark {first} to {last} (PySpark here: {ours}).",
            hint=f"Run the job on a Spark {first} to {last}, with a pyspark of the same version.",
        )
    if _release(theirs) != _release(ours):
        major, minor = _release(theirs)
        raise SparkError(
            f"{place} has version {theirs}, and the PySpark that talks to it has version {ours}: they must be alike "
            "in their first two numbers.",
            hint=f"Where the job's driver runs: pip install 'pyspark=={major}.{minor}.*' 'pyspark-client=={major}."
            f"{minor}.*'.",
        )


def _release(version: str) -> tuple[int, int]:
    """The first two numbers of a version; whatever follows them is the vendor's."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def ship_engine(spark: SparkSession) -> None:
    """Send the engine to a Spark Connect server, once per session; elsewhere ``spark-submit --py-files`` does it."""
    if not is_connect(spark) or spark in _shipped:
        return
    with tempfile.TemporaryDirectory() as folder:
        spark.addArtifacts(str(build_engine_zip(Path(folder))), pyfile=True)
    _shipped.add(spark)
