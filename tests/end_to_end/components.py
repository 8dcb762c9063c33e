"""The components of an Airflow, each in a process of its own: ``python -m tests.end_to_end.components``.

They are forked off one process, so that Airflow, which takes seconds to import, is imported once. A triggerer that has
ended is started again, as a service manager does it; the end of another component is the end of all.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys

from airflow.__main__ import main as airflow
from airflow.configuration import write_default_airflow_configuration_if_needed
from airflow.utils.db import initdb
from setproctitle import setproctitle

TRIGGERER = ["triggerer", "--skip-serve-logs"]
COMPONENTS = (["api-server"], ["scheduler", "--skip-serve-logs"], ["dag-processor"], TRIGGERER)
IMPORTED = (
    "airflow.api_fastapi.app",
    "airflow.api_fastapi.execution_api.app",
    "airflow.cli.commands.api_server_command",
    "airflow.cli.commands.dag_processor_command",
    "airflow.cli.commands.scheduler_command",
    "airflow.cli.commands.triggerer_command",
    "airflow.executors.local_executor",
    "airflow.sdk.execution_time.supervisor",
    "airflow.sdk.execution_time.task_runner",
    "airflow_dc_provider.operators.branch",
    "airflow_dc_provider.operators.gate",
)


def start(command: list[str]) -> int:
    """Fork off a component; its process."""
    if process := os.fork():
        return process
    setproctitle(f"airflow {command[0]}")
    sys.argv = ["airflow", *command]
    airflow()
    os._exit(0)


def main() -> None:
    """Make the database, and run them all."""
    for name in IMPORTED:
        importlib.import_module(name)
    write_default_airflow_configuration_if_needed()
    initdb()
    gc.freeze()
    running = {start(command): command for command in COMPONENTS}
    while (command := running.pop(os.wait()[0])) == TRIGGERER:
        running[start(command)] = command
    sys.exit(f"{command[0]} has ended")


if __name__ == "__main__":
    main()
