"""A gate with a real spark-submit: which processes ever have the credentials, what a mask keeps out of the log."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import BaseHook, Connection

from airflow_dc_provider.exceptions import DcGateError
from airflow_dc_provider.operators.gate import DcGateOperator

pytestmark = pytest.mark.xdist_group("submit")
SECRET = "wJalrXUtnFEMI-K7MDENG"


class Watch(threading.Thread):
    """Looks at all that this process has started, until it is stopped: arguments, environments, the secret file."""

    secrets: tuple[str, ...] = (SECRET,)

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.commands: set[str] = set()
        self.leaks: set[str] = set()
        self.file_gone_while_workers_ran = False
        self.stopped = False

    def run(self) -> None:
        while not self.stopped:
            for process in psutil.Process().children(recursive=True):
                self.look(process.pid)
            time.sleep(0.02)

    def look(self, pid: int) -> None:
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            environment = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
        except OSError:  # it has ended
            return
        self.commands.add(command)
        if any(secret in text for secret in self.secrets for text in (command, environment)):
            self.leaks.add(command)
        if "--state-options" in command and any("pyspark.daemon" in one for one in self.commands):
            path = command.split("--state-options ")[1].split()[0]
            self.file_gone_while_workers_ran |= not Path(path).exists()


@pytest.fixture
def watch() -> Iterator[Watch]:
    watch = Watch()
    watch.start()
    yield watch
    watch.stopped = True
    watch.join()


@pytest.fixture
def real_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rules: dict[str, Any], state: Path) -> Any:
    """A gate on Spark on this machine, with connections that are in nobody's environment."""
    options = json.dumps({"storage_options": {"auto_mkdir": False, "mine": SECRET}})
    connections = {
        "spark_default": Connection(conn_id="spark_default", conn_type="spark", host="local[1]"),
        "lake": Connection(conn_id="lake", conn_type="generic", extra=options),
    }
    monkeypatch.setattr(BaseHook, "get_connection", classmethod(lambda cls, conn_id: connections[conn_id]))
    rows = {"id": [1, 2], "zip": ["1", "1"], "city": ["Berlin", "Berln"], "salary": ["1", "secret-salary"]}
    pq.write_table(pa.table(rows), tmp_path / "landing.parquet")

    def build(sql: str, **arguments: Any) -> DcGateOperator:
        source = f"parquet.`{tmp_path}/landing.parquet`"
        given = {"changes": {"sql": sql.format(source)}, "state": str(state), "constraints": rules, "load_id": "one"}
        return DcGateOperator(task_id="gate", state_conn_id="lake", **given, **arguments)

    return build


def test_no_process_has_the_credentials_in_its_environment_or_arguments(real_gate, watch, ti):
    """They are in the driver's memory, and in the tasks that go to the workers: these open the state themselves."""
    gate = real_gate("select id, zip, city, 1.0D as salary from {}", on_violation="warn", engine="spark")
    assert gate.execute({"ti": ti})["constraints"]["zip_decides_city"]["new_violations"] == 1
    assert watch.leaks == set()
    for part in ("SparkSubmit", "apply_load.py", "pyspark.daemon"):
        assert any(part in command for command in watch.commands), f"{part} was not seen: the test would prove nothing"
    assert watch.file_gone_while_workers_ran
    assert SECRET not in str(os.environ)


def test_an_error_of_spark_that_quotes_a_masked_value_is_not_in_the_log(real_gate, ti, capfd):
    gate = real_gate("select id, zip, city, cast(salary as double) as salary from {}", mask=["salary"])
    with pytest.raises(DcGateError, match="cannot be read"):
        gate.execute({"ti": ti})
    said = capfd.readouterr()
    # What the engine itself says of it is its own affair.
    lines = [line for line in (said.out + said.err).splitlines() if " apply_load " not in line]
    assert any("left out: columns are masked" in line for line in lines)
    assert not [line for line in lines if "secret-salary" in line]
