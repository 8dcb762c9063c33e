"""Which paths mean the same to Spark and to this process, so that files can be read without Spark.

A path without a scheme lies on Hadoop's default filesystem, which need not be this machine's disk. A session is asked;
before there is one, only what is beyond doubt counts: a Spark that will run on this machine, with settings that say
nothing about filesystems or about how Parquet is read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from dc_engine.shipping import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Schemes = frozenset[str]
"""Of the paths that mean the same here and there; an empty one stands for paths without a scheme."""
NONE: Schemes = frozenset()
_FILES: Schemes = frozenset({"file"})
_ALL: Schemes = _FILES | {""}
RELATIVE = "."
"""Stands for paths that begin in the current folder: that of a session which is there already may be another one."""

_READING = {
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96AsTimestamp": "true",
    "spark.sql.parquet.int96TimestampConversion": "false",
    "spark.sql.parquet.fieldId.read.enabled": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
}
"""Settings by which Spark reads other values from the same file, as they are when files are read without it."""
_DEFAULT_FILESYSTEM = ("spark.hadoop.fs.defaultFS", "spark.hadoop.fs.default.name", "spark.driver.extraClassPath")
_ELSEWHERE = ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH", "SPARK_REMOTE")
"""Variables that lead Spark to settings which are not looked at here."""
_TELLING = (
    *_READING,
    *_DEFAULT_FILESYSTEM,
    "--properties-file",
    "--driver-class-path",
    "--remote",
    "spark.remote",
    "spark.master",
)


@dataclass(frozen=True, slots=True)
class Later:
    """Spark that is started when it is first needed, and what is known of it before."""

    start: Callable[[], SparkSession]
    schemes: Schemes | None = None
    """Without it, the session has to be asked."""
    master: str | None = None
    """The same; a Spark Connect server is none."""

    def __call__(self) -> SparkSession:
        """Start it."""
        return self.start()


def schemes_of(session: SparkSession) -> Schemes:
    """What a session says. A Spark Connect server has disks of its own."""
    if is_connect(session) or any(session.conf.get(name) != usual for name, usual in _READING.items()):
        return NONE
    alone = master_of(session).startswith("local")  # or a cluster of processes on this machine
    elsewhere = any(session.conf.get(name, "") for name in _DEFAULT_FILESYSTEM) or _is_led_elsewhere(os.environ)
    return _ALL if alone and not elsewhere else _FILES


def later(
    start: Callable[[], SparkSession], command: Sequence[str], environment: Mapping[str, str] = os.environ
) -> Later:
    """Spark that a command starts, with what the command says: that it will run here, if that is beyond doubt."""
    said = [*command, _defaults(environment)]
    masters = [after for word, after in pairwise(command) if word == "--master"]
    in_doubt = len(masters) != 1 or _is_led_elsewhere(environment)
    if in_doubt or not is_local(masters[0]) or any(word in text for word in _TELLING for text in said):
        return Later(start)
    return Later(start, _ALL | {RELATIVE}, masters[0])


def command_of_submit() -> list[str]:
    """How ``spark-submit``, which started this process, was called itself; nothing where that cannot be seen."""
    try:
        words = Path(f"/proc/{os.getppid()}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []
    main = "org.apache.spark.deploy.SparkSubmit"
    return words[words.index(main) :] if main in words else []


def master_of(session: SparkSession) -> str:
    """Where a session runs; nowhere in particular behind Spark Connect."""
    return "" if is_connect(session) else session.conf.get("spark.master", "") or ""


def is_local(master: str) -> bool:
    """Whether a master is this machine, with no workers but threads."""
    return master.partition("[")[0] == "local"


def threads_of(master: str) -> int | None:
    """How many threads a local master has; ``None`` for as many as there are processors."""
    given = re.match(r"local(?:\[(\d+|\*))?", master)
    return None if given is None or given[1] == "*" else int(given[1] or 1)


def _is_led_elsewhere(environment: Mapping[str, str]) -> bool:
    """Whether Spark has settings that only it reads."""
    folder, files = _settings_folder(environment), ("core-site.xml", "hdfs-site.xml", "spark-env.sh")
    named = any(environment.get(name) for name in _ELSEWHERE)
    return named or any((folder / name).exists() for name in files)


def _settings_folder(environment: Mapping[str, str]) -> Path:
    if folder := environment.get("SPARK_CONF_DIR"):
        return Path(folder)
    if home := environment.get("SPARK_HOME"):
        return Path(home) / "conf"
    package = find_spec("pyspark")  # which is then the home
    return Path(package.origin).with_name("conf") if package and package.origin else Path("conf")


def _defaults(environment: Mapping[str, str]) -> str:
    """The settings that every session of this machine gets."""
    try:
        return (_settings_folder(environment) / "spark-defaults.conf").read_text(errors="replace")
    except OSError:
        return ""
