"""Tasks on a Spark Connect server: the same verdicts, kills and secrets as with spark-submit, and no JVM here."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import AirflowException, BaseHook, Connection
from airflow.sdk.exceptions import AirflowTaskTimeout
from airflow.sdk.execution_time.task_runner import _run_execute_callable

from airflow_dc_provider import connect
from airflow_dc_provider.exceptions import DcGateError, DcViolationError
from airflow_dc_provider.operators.gate import DcGateOperator
from airflow_dc_provider.operators.maintain import DcMaintainOperator
from airflow_dc_provider.operators.retract import DcRetractLoadOperator
from tests.conftest import ConnectServer
from tests.operators.test_kill import running
from tests.operators.test_real_submit import SECRET, Watch

pytestmark = pytest.mark.xdist_group("submit")
ROWS = {"id": [1, 2], "zip": ["1", "1"], "city": ["Berlin", "Berln"], "salary": ["1", "secret-salary"]}
GOOD = "select id, zip, city, 1.0D as salary from {}"
SLOW = GOOD + " where (select sum(hash(id)) from range(1000000000000)) is not null"


@pytest.fixture
def watch() -> Iterator[Watch]:
    watch = Watch()
    watch.start()
    yield watch
    watch.stopped = True
    watch.join()


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Any]]:
    """Connections that are in nobody's environment."""
    there: dict[str, dict[str, Any]] = {}

    def get(cls: Any, conn_id: str) -> Connection:
        return Connection(conn_id=conn_id, **there[conn_id])

    monkeypatch.setattr(BaseHook, "get_connection", classmethod(get))
    return there


@pytest.fixture
def on_server(
    tmp_path: Path, connections: Any, rules: dict[str, Any], state: Path, connect_server: ConnectServer
) -> Callable[..., DcGateOperator]:
    """A gate on the server."""
    connections["cluster"] = {
        "conn_type": "spark_connect",
        "host": "localhost",
        "port": connect_server.port,
        "password": connect_server.token,
    }
    options = {"storage_options": {"auto_mkdir": False, "mine": SECRET}}
    connections["lake"] = {"conn_type": "generic", "extra": json.dumps(options)}
    pq.write_table(pa.table(ROWS), tmp_path / "landing.parquet")

    def build(sql: str, **arguments: Any) -> DcGateOperator:
        changes = {"sql": sql.format(f"parquet.`{tmp_path}/landing.parquet`")}
        given = {"changes": changes, "state": str(state), "constraints": rules, "load_id": "one", **arguments}
        return DcGateOperator(task_id="gate", conn_id="cluster", **given)

    return build


def eventually(what: Callable[[], Any], seconds: float = 300) -> Any:
    end = time.monotonic() + seconds
    while not (found := what()) and time.monotonic() < end:
        time.sleep(0.1)
    return found


class TestOnAServer:
    def test_no_process_has_a_secret_in_its_environment_or_arguments_and_none_is_a_jvm(
        self, on_server, watch, ti, state, connect_server, capfd, monkeypatch
    ):
        monkeypatch.setattr(Watch, "secrets", (SECRET, connect_server.token))
        gate = on_server(GOOD, state_conn_id="lake", engine="spark", conf={"spark.sql.shuffle.partitions": "3"})
        with pytest.raises(DcViolationError, match="zip_decides_city"):
            gate.execute({"ti": ti})
        assert ti.pushed["verdict"]["constraints"]["zip_decides_city"]["new_violations"] == 1
        ours = [command for command in watch.commands if str(state) in command]
        assert [one for one in ours if "-m dc_engine.apply_load" in one], (
            "nothing was seen: the test would prove nothing"
        )
        assert not [one for one in ours if "java" in one]
        assert watch.leaks == set()
        said = "".join(capfd.readouterr())
        assert "checked by Spark's workers" in said
        assert connect_server.token not in said
        assert list((state / "runs").glob("*")) == []

    def test_other_tasks_run_there_too(self, on_server, ti, state):
        on_server(GOOD, on_violation="warn").execute({"ti": ti})
        common = {"state": str(state), "conn_id": "cluster", "mask": []}
        DcMaintainOperator(task_id="look", action="verify", **common).execute({"ti": ti})
        DcRetractLoadOperator(task_id="out", load_id="one", **common).execute({"ti": ti})
        again = on_server(GOOD, on_violation="warn").execute({"ti": ti})
        assert (again["replayed"], again["rows"]["total"]) == (False, 2)

    def test_an_error_is_the_same_and_what_masked_values_it_quotes_is_not_in_the_log(self, on_server, ti, capfd):
        gate = on_server("select id, zip, city, cast(salary as double) as salary from {}", mask=["salary"])
        with pytest.raises(DcGateError, match="cannot be read"):
            gate.execute({"ti": ti})
        lines = [line for line in "".join(capfd.readouterr()).splitlines() if " apply_load " not in line]
        assert not [line for line in lines if "secret-salary" in line]

    def test_a_setting_that_a_session_cannot_have_is_named(self, on_server, ti, state):
        with pytest.raises(DcGateError, match=r"does not take the setting 'spark.executor.memory'"):
            on_server(GOOD, conf={"spark.executor.memory": "2g"}).execute({"ti": ti})
        assert list(state.rglob("*.json")) == []

    def test_a_wrong_token_is_told_and_not_shown(self, on_server, ti, connections, capfd):
        connections["cluster"]["password"] = "not-the-token"
        with pytest.raises(DcGateError, match=r"refuses the session: Invalid .*token") as caught:
            on_server(GOOD).execute({"ti": ti})
        assert "not-the-token" not in f"{caught.value}{capfd.readouterr()}"


class TestEnds:
    """Whatever ends the task ends its work on the server."""

    @pytest.fixture
    def busy(self, connect_server: ConnectServer) -> Callable[[], bool]:
        """Whether it works on the slow query: what looks at the file's columns before has one task."""
        return lambda: any(job["numTasks"] > 1 for job in connect_server.running_jobs())

    def test_a_kill_ends_the_driver_and_what_the_server_does_for_it(self, on_server, ti, state, busy):
        assert not busy()
        gate = on_server(SLOW, engine="spark")
        before = signal.signal(signal.SIGTERM, lambda *_: gate.on_kill())
        seen = []

        def kill() -> None:
            seen.append(eventually(busy))
            os.kill(os.getpid(), signal.SIGTERM)

        threading.Thread(target=kill, daemon=True).start()
        try:
            with pytest.raises(DcGateError, match=r"was killed, and with it python -m dc_engine.apply_load"):
                gate.execute({"ti": ti})
        finally:
            signal.signal(signal.SIGTERM, before)
        assert seen == [True]
        assert gate._driver._process.returncode == 128 + signal.SIGTERM, "it has released its session"
        assert eventually(lambda: not busy())
        assert list((state / "runs").glob("*")) == []
        assert not gate._address.exists()
        assert list(ti.pushed) == ["dc_state"]

    def test_a_timeout_does_so_too(self, on_server, ti, state, busy):
        gate = on_server(SLOW, engine="spark", execution_timeout=timedelta(minutes=10))
        timer = threading.Thread(target=lambda: (eventually(busy), self.hurry()), daemon=True)
        timer.start()
        with pytest.raises(AirflowTaskTimeout):
            _run_execute_callable({"ti": ti}, gate.execute, gate)
        assert eventually(lambda: not busy())
        assert list((state / "runs").glob("*")) == []

    def hurry(self) -> None:
        """The alarm that Airflow has set comes now."""
        os.kill(os.getpid(), signal.SIGALRM)

    def test_a_driver_that_is_killed_at_once_has_its_session_ended_by_the_task(self, on_server, ti, busy, capfd):
        gate = on_server(SLOW, engine="spark")
        threading.Thread(target=lambda: (eventually(busy), gate._driver._process.kill()), daemon=True).start()
        with pytest.raises(DcGateError, match=r"apply_load ended with -9"):
            gate.execute({"ti": ti})
        assert eventually(lambda: not busy(), 100), "long before the server would end it by itself"
        assert "its session was ended" in "".join(capfd.readouterr())

    def test_a_task_that_is_killed_at_once_has_its_session_ended_by_the_driver(self, on_server, ti, state, busy):
        task = os.fork()
        if not task:
            try:
                on_server(SLOW, engine="spark").execute({"ti": ti})
            finally:
                os._exit(1)  # and not on with the tests
        try:
            assert eventually(busy)
            (driver,) = psutil.Process(task).children()
        finally:
            os.kill(task, signal.SIGKILL)
            os.waitpid(task, 0)
        assert eventually(lambda: not running(driver.pid), 100)
        assert eventually(lambda: not busy(), 100)
        assert list(state.glob("snapshots/*")) == []

    def test_a_driver_that_does_not_end_is_killed(self, monkeypatch, connect_server):
        """It had no session: there is nothing to end, which is no error."""
        monkeypatch.setattr(connect, "GRACE", 0.5)
        said: list[str] = []
        address = connect.with_session(connect_server.remote)
        driver = connect.Driver("apply_load", [], {}, None, address)  # type: ignore[arg-type]
        driver._command = ["sh", "-c", "trap '' TERM; echo up; sleep 600 & wait; sleep 600"]
        driver._log = type("Log", (), {"info": lambda self, line: (said.append(line), line == "up" and driver.end())})()
        with pytest.raises(AirflowException, match="ended with -9"):
            driver.run()
        assert "its session was ended" in said[-1]

    def test_a_server_that_cannot_be_reached_any_more_is_told(self, monkeypatch):
        monkeypatch.setattr(connect, "_RELEASE", 0.5)
        said: list[str] = []
        driver = connect.Driver("apply_load", [], {}, None, "sc://localhost:1")  # type: ignore[arg-type]
        driver._command = ["sh", "-c", "kill -9 $$"]
        driver._log = type("Log", (), {"info": lambda self, line: said.append(line)})()
        with pytest.raises(AirflowException, match="ended with -9"):
            driver.run()
        assert "could not be ended" in said[-1]

    def test_one_that_is_ended_before_it_starts_does_not_run(self):
        driver = connect.Driver("apply_load", [], {}, None, "sc://localhost:1")  # type: ignore[arg-type]
        driver._command = ["sleep", "60"]
        driver.end()
        with pytest.raises(AirflowException, match="ended with -15"):
            driver.run()


class TestRefusals:
    def test_what_only_spark_submit_can_do_is_refused(self, on_server, ti):
        with pytest.raises(DcGateError, match="a task cannot choose 'jars', 'num_executors'"):
            on_server(GOOD, num_executors=3, jars="a.jar").execute({"ti": ti})

    @pytest.mark.parametrize(
        ("fields", "address"),
        [
            ({"host": "h"}, "sc://h/"),
            ({"host": "sc://h", "port": 15002}, "sc://h:15002/"),
            ({"host": "sc://h:15003"}, "sc://h:15003/"),
            ({"host": "h", "login": "a b", "password": "x/y;z"}, "sc://h/;user_id=a%20b;token=x%2Fy%3Bz"),
            ({"host": "h", "extra": '{"use_ssl": true}'}, "sc://h/;use_ssl=True"),
            ({"host": "h", "extra": '{"use_ssl": false}'}, "sc://h/"),
        ],
    )
    def test_the_fields_of_a_connection_are_those_of_the_spark_provider(self, fields, address):
        assert connect.remote("c", Connection(conn_id="c", conn_type="spark_connect", **fields)) == address

    @pytest.mark.parametrize("host", [None, "", "sc://", "sc://h/path", "/h"])
    def test_a_host_that_is_none_is_refused(self, host):
        with pytest.raises(DcGateError, match=r"'c' is '.*', which is not the address"):
            connect.remote("c", Connection(conn_id="c", conn_type="spark_connect", host=host))
