"""How kernels are compiled: on their first call with some types, and kept for the processes to come.

Numba's own cache has no lock. Two processes that keep code for different types of one kernel at the same time may both
take the next number for it, and from then on one of them finds what the other has compiled, for other types. Here they
take turns. What was kept is taken as it is: numba would first import all that it needs to compile, which takes as
long as numba itself.

A kernel has the code of those that it calls, also from other files, of which numba's cache knows nothing: what was kept
counts as long as all files are the same. Where nothing can be kept, or what was kept is damaged, it is compiled again.
"""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from numba import njit
from numba.core.caching import FunctionCache
from numba.core.runtime import rtsys


@cache
def _all_sources() -> str:
    """What stands for the files of all kernels, wherever they lie."""
    files = sorted(one for one in Path(__file__).parent.glob("*.py") if one.stem != "__init__")
    return hashlib.sha256(repr([(one.name, one.read_bytes()) for one in files]).encode()).hexdigest()


class _InTurn(FunctionCache):
    """A cache that one process at a time reads or writes."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file._source_stamp = (self._cache_file._source_stamp, _all_sources())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        rtsys.initialize(target_context)  # what arrays are allocated with
        with suppress(OSError), self._turn():
            try:
                return self._load_overload(sig, target_context)
            except OSError:
                raise
            except Exception:  # noqa: BLE001  (what is damaged raises anything)
                self.flush()
        return None

    def save_overload(self, *given: Any) -> None:
        with suppress(OSError), self._turn():
            if not self._cache_file._load_index():  # else a new one would name old code, if writing ends in between
                for file in Path(self.cache_path).glob(f"{self._impl.filename_base}.*.nbc"):
                    file.unlink()
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
    with suppress(RuntimeError):  # no folder of the user can be written to
        compiled._cache = _InTurn(function)
    return compiled
