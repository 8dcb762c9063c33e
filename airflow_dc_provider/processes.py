"""End what spark-submit started: a Python driver that outlives it could still commit to the state."""

from __future__ import annotations

from contextlib import suppress

import psutil  # type: ignore[import-untyped]


def end_descendants(pid: int) -> None:
    """Kill all that a process has started, directly or not, and leave the process itself stopped.

    Each one is stopped before its children are listed, so that none slips away by starting another.
    """
    found: list[psutil.Process] = []
    with suppress(psutil.Error):
        todo = [psutil.Process(pid)]
        while todo:
            one = todo.pop()
            # One that has gone meanwhile, or is another user's, need not be ended here.
            with suppress(psutil.Error):
                one.suspend()
                found.append(one)
                todo += one.children()
    for one in found[1:]:
        with suppress(psutil.Error):
            one.kill()
