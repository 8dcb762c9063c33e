"""How kernels are compiled: on their first call with some types, and kept for the processes to come.

Numba's own cache has no lock. Two processes that keep code for different types of one kernel at the same time may both
take the next number for it, and from then on one of them finds what the other has compiled, for other types. Here they
take turns. What was kept is taken as it is: numba would first import all that it needs to compile, which takes as
long as numba itself.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from numba import njit
from numba.core.caching import FunctionCache
from numba.core.runtime import rtsys


class _InTurn(FunctionCache):
    """A cache that one process at a time reads or writes."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        rtsys.initialize(target_context)  # what arrays are allocated with
        with self._turn():
            return self._load_overload(sig, target_context)

    def save_overload(self, *given: Any) -> None:
        with self._turn():
            super().save_overload(*given)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        self._impl.locator.ensure_cache_path()
        with (Path(self.cache_path) / "turn").open("w") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            yield


def kernel(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """A function that numba compiles, and that lets other threads work."""
    if function is None:
        return partial(kernel, **options)
    compiled = njit(nogil=True, **options)(function)
    compiled._cache = _InTurn(function)
    return compiled
