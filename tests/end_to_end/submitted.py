"""The stand-in for ``spark-submit``: runs a job of the engine in this process, without a JVM.

Sources are Parquet files, JSON lines or CSV (by pyarrow); everything else is the product's own code. What needs Spark
itself (``needs_spark``) is left to the real one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from dc_engine import job
from dc_engine.detection.staging import StagedLoad
from dc_engine.engines.base import Staging
from dc_engine.errors import ChangesError
from dc_engine.request import Changes
from tests.inprocess import Session, Source

TYPES = {
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.float64(): "double",
    pa.bool_(): "boolean",
}


@dataclass
class Files(Session):
    """Reads its sources from files, in the format that the request names."""

    def read(self, source: Changes, what: str = "changes", *, mask: Collection[str] = ()) -> Source:
        assert source.path is not None
        path = Path(source.path)
        if not path.exists():
            raise ChangesError(f"The {what} ({source}) cannot be read: there is nothing there.")
        read = {"csv": pyarrow.csv.read_csv, "json": pyarrow.json.read_json}.get(
            source.format, pyarrow.parquet.read_table
        )
        table = read(path)
        return Source(table, {one.name: TYPES[one.type] for one in table.schema})

    def stage(self, rows: Source, asked: Staging) -> StagedLoad:
        # Texts hash differently in each process; a replay must find the same fingerprint.
        assert sys.flags.hash_randomization == 0, "set PYTHONHASHSEED=0"
        return super().stage(rows, asked)


def needs_spark(arguments: Sequence[str]) -> bool:
    """Whether only Spark itself can do what is asked for."""
    request = json.loads(Path(arguments[arguments.index("--request") + 1]).read_text())
    return bool(request.get("quarantine"))


def main(arguments: list[str]) -> int:
    """What ``spark-submit ... JOB.py ARGUMENTS`` does."""
    place = next(i for i, one in enumerate(arguments) if one.endswith(".py") and "dc_engine" in one)
    name, own = Path(arguments[place]).stem, arguments[place + 1 :]
    job.State.session = lambda _: Files()  # type: ignore[method-assign,return-value]
    module = __import__(f"dc_engine.{name}", fromlist=["main"])
    return module.main(own)
