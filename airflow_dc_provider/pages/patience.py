"""Reads that end: a storage that hangs must not keep the threads with which Airflow's API server answers.

A read has a thread of its own, and few of them may be at work on one place. Whoever waits too long gets a page that
says so; a thread that never comes back takes nothing from other places, and ends with the process.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from threading import BoundedSemaphore, Thread
from typing import TypeVar

SECONDS = 20.0
"""How long a page waits for what it reads."""
_AT_ONCE = 4
_free: defaultdict[str, BoundedSemaphore] = defaultdict(lambda: BoundedSemaphore(_AT_ONCE))
Found = TypeVar("Found")


class SlowError(TimeoutError):
    """A storage that does not answer in time."""

    hint = "Open the page again. If that does not help, look at the network and the disks of Airflow's API server."

    def __init__(self, place: str) -> None:
        super().__init__(f"{place} did not answer within {SECONDS:.0f} seconds.")


def in_time(place: str, read: Callable[[], Found]) -> Found:
    """What is read from a place; a ``SlowError`` when that takes too long."""
    end = time.monotonic() + SECONDS
    free = _free[place]
    if not free.acquire(timeout=SECONDS):
        raise SlowError(place)
    answer: Future[Found] = Future()

    def work() -> None:
        try:
            answer.set_result(read())
        except BaseException as error:  # noqa: BLE001 - whoever waits gets it
            answer.set_exception(error)
        finally:
            free.release()

    Thread(target=copy_context().run, args=(work,), daemon=True).start()
    try:
        return answer.result(max(end - time.monotonic(), 0))
    except TimeoutError:
        if answer.done():
            raise
        raise SlowError(place) from None
