"""What keeps a process that lives for seconds from importing what it never uses.

The first array that pyarrow makes from Python objects imports pandas, if it is installed, in case the objects are its
own. That takes longer than what most workers have to do. The first kernel that numba loads imports the linear algebra
of SciPy, if that is installed, in case a kernel multiplies matrices.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa


def without_pandas() -> None:
    """Let pyarrow look for pandas once and not find it, unless someone here has imported it already.

    For processes that are ours alone. Whatever really needs pandas, as ``to_pandas`` does, still imports it.
    """
    if "pandas" in sys.modules:
        return
    hidden = _Hidden()
    sys.meta_path.insert(0, hidden)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(hidden)


class _Hidden:
    """A finder of modules in whose presence there is no pandas."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:  # noqa: ARG002
        if name == "pandas":
            raise ModuleNotFoundError(f"{name} is not looked for", name=name)


def without_linear_algebra() -> None:
    """Let numba look for that of SciPy and not find it: no kernel here needs it. Everybody else finds it as ever."""
    sys.meta_path.insert(0, _HiddenFromNumba())


class _HiddenFromNumba:
    """A finder in whose presence there is no ``scipy.linalg`` for the module of numba that asks for it once."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:  # noqa: ARG002
        asking = sys.modules.get("numba.np.arraymath") if name == "scipy.linalg" else None
        if asking is not None and not hasattr(asking, "_HAVE_BLAS"):
            raise ModuleNotFoundError(f"{name} is not looked for", name=name)


@dataclass(frozen=True, slots=True)
class OnWorker:
    """A step as Spark's workers run it."""

    step: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        without_pandas()
        return self.step(batches)
