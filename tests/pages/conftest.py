"""An Airflow home of its own, and the pages in its API application."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.pages.serving import Serving
    from tests.pages.states import Table

_SETTINGS = {
    "AIRFLOW__CORE__AUTH_MANAGER": "tests.pages.serving.PickyAuthManager",
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "victor:viewer,otto:viewer",
    "AIRFLOW__API_AUTH__JWT_SECRET": "a secret of sixty-four characters, which is what Airflow asks for",
    "_AIRFLOW_PROCESS_CONTEXT": "server",
}


@pytest.fixture(scope="session")
def serving() -> Iterator[Serving]:
    """One API application for all tests of the group ``pages``."""
    with pytest.MonkeyPatch.context() as patched:
        for name, value in _SETTINGS.items():
            patched.setenv(name, value)
        from airflow.utils.db import initdb

        from tests.pages.serving import Serving

        initdb()
        yield Serving()


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """A table of which the second load breaks rules and loses dependencies; nobody changes it."""
    from tests.pages.states import red

    return red(str(tmp_path_factory.mktemp("states") / "people"))
