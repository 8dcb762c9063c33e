"""Spark's own daemon of Python workers, which looks for garbage after each task: here only among what is new.

A worker has loaded some hundred thousand objects that stay (Arrow, numba, the engine). To look through all of them
takes longer than most tasks of a test.
"""

import gc
from types import SimpleNamespace

from pyspark import daemon

if __name__ == "__main__":
    daemon.gc = SimpleNamespace(collect=lambda: gc.collect(1))
    daemon.manager()
