"""Archive the classes that Spark loads: ``python -m tests.archive FILE``.

A Spark that starts with the archive (``SPARK_SUBMIT_OPTS=-XX:SharedArchiveFile=FILE``) needs about half the processor
time to do so, and the tests start dozens. A Java that finds it made for another Java or another Spark ignores it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from tests.conftest import SPARK_SETTINGS

RULES = {"version": 1, "table": "few", "key": ["id"], "constraints": [{"name": "rule", "fd": "a -> b"}]}


def main(file: str) -> None:
    """Apply a small load on Spark as most tests do, and write what was loaded when it ends."""
    os.environ |= {
        "SPARK_SUBMIT_OPTS": f"-XX:ArchiveClassesAtExit={file} -Xlog:disable",
        "PYSPARK_PYTHON": sys.executable,
    }
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from dc_engine.apply_load import apply_load

    with tempfile.TemporaryDirectory() as folder:
        builder = SparkSession.builder.master("local[2]")
        for name, value in SPARK_SETTINGS.items():
            builder = builder.config(name, value)
        spark = builder.config("spark.sql.warehouse.dir", f"{folder}/warehouse").getOrCreate()
        (Path(folder) / "rows.csv").write_text("id,a,b\n1,1,1\n2,1,2\n3,2,2\n")
        changes = {"format": "csv", "path": f"{folder}/rows.csv", "options": {"header": "true", "inferSchema": "true"}}
        request = {"state": f"{folder}/state", "load_id": "one", "changes": changes, "constraints": RULES}
        apply_load(spark, {**request, "engine": "spark", "quarantine": f"{folder}/quarantine"})
        spark.sql("select a, count(*) from values (1, 2) as t(a, b) join range(3) on a = id group by a").collect()
        spark.stop()
        java = SparkContext._gateway.proc  # type: ignore[union-attr]
        java.stdin.close()
        java.wait()


if __name__ == "__main__":
    main(str(Path(sys.argv[1]).resolve()))
