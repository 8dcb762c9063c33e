"""``dcgate``: the jobs for people at a terminal and for scripts, without Airflow."""

from dc_engine.cli.main import main

__all__ = ["main"]
