"""What must be there before a job is submitted: if it is missing, one sentence says so, not a page of Spark's log."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import AirflowNotFoundException, BaseHook

from airflow_dc_provider.exceptions import DcGateError
from dc_engine.java import HOW_TO_GET_ONE, java_problem

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Connection

# A connection made from a URI carries the master's scheme as its type.
_SUBMIT = ("spark", "yarn", "k8s")
_CONNECT = ("spark_connect", "sc")
_LOCAL_MASTER = re.compile(r"local(-cluster)?(\[.*\])?")


def spark_connection(conn_id: str) -> Connection:
    """The connection, checked: without one, SparkSubmitOperator would quietly submit to YARN."""
    try:
        connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException as error:
        raise DcGateError(
            f"There is no Airflow connection '{conn_id}', so the task does not know which Spark to use.",
            hint=f"Spark on this machine: airflow connections add {shlex.quote(conn_id)} --conn-type spark "
            "--conn-host 'local[2]'. A cluster: --conn-host yarn, spark://HOST:7077 or k8s://https://HOST:443. "
            "A Spark Connect server: --conn-type spark_connect --conn-host HOST --conn-port 15002.",
        ) from error
    if connection.conn_type not in (*_SUBMIT, *_CONNECT):
        raise DcGateError(
            f"The Airflow connection '{conn_id}' is of type '{connection.conn_type}'; "
            "the task needs one of type 'spark' or 'spark_connect'.",
            hint="Name another one as conn_id. state_conn_id is for the filesystem of the state.",
        )
    check_packages()
    return connection


def check_packages() -> None:
    """Refuse two versions of the two packages of PySpark: they share files, and what is there is then a mixture.

    Only what differs in more than fixes: a client often comes some weeks after its PySpark.
    """
    full, client = version("pyspark"), version("pyspark-client")
    if full.split(".")[:2] != client.split(".")[:2]:
        release = ".".join(full.split(".")[:2])
        raise DcGateError(
            f"pyspark {full} and pyspark-client {client} are installed here. They share files, so they must be of one "
            "version.",
            hint=f"pip install --force-reinstall --no-deps 'pyspark=={release}.*' 'pyspark-client=={release}.*'",
        )


def is_connect(connection: Connection) -> bool:
    """Whether the job runs on a Spark Connect server."""
    return connection.conn_type in _CONNECT


def is_local(connection: Connection) -> bool:
    """Whether Spark runs on this very machine, started by spark-submit."""
    return connection.conn_type == "spark" and _LOCAL_MASTER.fullmatch(connection.host or "") is not None


def check_the_driver_is_here(deploy_mode: str | None) -> None:
    """Refuse to hand credentials to a driver elsewhere: their file is on this machine."""
    if deploy_mode == "cluster":
        raise DcGateError(
            "state_conn_id cannot be used in deploy mode 'cluster': credentials are handed to the driver in a file on "
            "this machine, and in this mode the driver runs on another.",
            hint="Leave state_conn_id out and give the cluster access of its own to the state's filesystem (an "
            "instance role, a workload identity, fsspec's configuration files); or use deploy mode 'client'.",
        )


def local_environment(binary: str, env_vars: Mapping[str, str]) -> dict[str, str]:
    """What spark-submit needs in its environment besides ``env_vars``; raises for what is missing."""
    environment = {**os.environ, **env_vars}
    added: dict[str, str] = {}
    if shutil.which(binary, path=environment.get("PATH")) is None:
        # An Airflow started by its full path does not have the programs installed with it on PATH.
        beside = Path(sys.executable).parent
        if shutil.which(binary, path=str(beside)) is None:
            raise DcGateError(
                f"'{binary}' is neither on PATH nor beside {sys.executable}.",
                hint="pip install pyspark brings spark-submit; or put the bin folder of a Spark on PATH.",
            )
        added["PATH"] = os.pathsep.join([str(beside), environment.get("PATH", os.defpath)])
    if problem := java_problem(environment):
        raise DcGateError(problem, hint=HOW_TO_GET_ONE)
    if not environment.get("PYSPARK_PYTHON"):
        added["PYSPARK_PYTHON"] = sys.executable
    return added
