"""A real Airflow of its own for these tests."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

# Before anything imports airflow: it reads its home once, at import.
if "AIRFLOW_HOME" not in os.environ:
    os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="dc-airflow-home-")
    atexit.register(shutil.rmtree, os.environ["AIRFLOW_HOME"], ignore_errors=True)

REPOSITORY = Path(__file__).resolve().parents[2]
# As Airflow does with its DAG folder.
sys.path.insert(0, str(REPOSITORY / "dags_examples"))


@pytest.fixture(scope="session")
def repository() -> Path:
    return REPOSITORY
