"""The same for several things, in threads: one after the other where there is one of them, or they are soon done."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Given = TypeVar("Given")
Made = TypeVar("Made")
_MOST = 8


def processors() -> int:
    """How many threads work at the same time."""
    return min(os.cpu_count() or 1, _MOST)


def side_by_side(make: Callable[[Given], Made], given: Iterable[Given], count: int | None = None) -> list[Made]:
    """What is made of each, in their order, by so many threads; small things take less than to start one."""
    some = list(given)
    count = min(processors() if count is None else count, len(some))
    if count < 2:
        return list(map(make, some))
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(make, some))
