"""What spark-submit prints, made safe for a task's log."""

from __future__ import annotations

import re
from typing import Any

from dc_engine.errors import counted
from dc_engine.wording import plain

MAX_LINE = 4000
# How the engine's own lines begin: "12:34:56 airflow_dc_provider.apply_load load monday: ...".
_ENGINE = re.compile(r"\d\d:\d\d:\d\d (airflow_dc_provider\.|dc_engine\.|apply_load |discover |maintain )")
_GROUP = re.compile(r"::(?=(end)?group::)")


class SparkLog:
    """The logger of the hook that runs spark-submit.

    No line can end the group that it stands in, or move the cursor of a terminal. Where columns are masked
    (``hidden`` says so in words), lines of Spark are counted in place of being shown, because its errors quote values;
    the engine's own lines are masked.
    """

    def __init__(self, log: Any, *, hidden: str) -> None:
        self._log = log
        self._hidden = hidden
        self._left_out = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def info(self, message: str, *args: Any) -> None:
        """Log a line of spark-submit (it comes alone), or what the hook says itself (with arguments)."""
        if not args and self._hidden and not _ENGINE.match(message):
            self._left_out += 1
        else:
            self._log.info(message if args else one_line(message), *args)

    def close(self) -> None:
        """Log how much was left out."""
        if self._left_out:
            lines = counted(self._left_out, "line")
            self._log.info("%s of Spark left out: %s, and Spark's errors quote values.", lines, self._hidden)


def one_line(text: str) -> str:
    """A line of Spark that cannot pass for anything else."""
    return _GROUP.sub(r"\\x3a:", plain(text, MAX_LINE))
