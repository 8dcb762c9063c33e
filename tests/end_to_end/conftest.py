"""Shared by the tests with real Airflow and real Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.end_to_end.airflow_running import RunningAirflow, api_server, running_airflow


@pytest.fixture(scope="package")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAirflow]:
    """An Airflow that runs, one for all tests of the group ``running_airflow``, which are all here.

    It ends with them, not with the process: even when it has nothing to do, it takes a third of a processor.
    """
    with running_airflow(tmp_path_factory.mktemp("airflow")) as running:
        yield running


@pytest.fixture(scope="package")
def below(airflow: RunningAirflow) -> Iterator[tuple[str, str]]:
    """The same Airflow below a base path: its address, and a token of ``admin``."""
    with api_server(airflow.home, "/some/base") as served:
        yield served
