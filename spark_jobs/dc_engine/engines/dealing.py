"""Messages to their tasks: number k to the k-th of Spark's partitions, on every version of Spark alike.

``repartitionById``, which does this by itself, came with Spark 4.1. ``repartition`` by a column puts a row into the
partition that the hash of its value names, so each task gets a key that lands where it should. What is found does not
depend on it: messages for one task have one key and stay together wherever they go. How evenly they are dealt does.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SEED = 42
"""Spark's, for partitions."""


def dealt(messages: DataFrame, tasks: int) -> DataFrame:
    """The messages in as many partitions as there are tasks, each in that of the task that it names."""
    from pyspark.sql import functions as f

    keys = ", ".join(map(str, keys_of(tasks)))
    return messages.repartition(tasks, f.expr(f"array({keys})[task]"))


@lru_cache(maxsize=16)
def keys_of(tasks: int) -> tuple[int, ...]:
    """For each task the smallest number whose hash names its partition."""
    keys = np.full(tasks, -1)
    start, step = 0, 8 * tasks
    while (keys < 0).any():
        partitions = spark_hash(np.arange(start, start + step)).astype(np.int64) % tasks
        found, first = np.unique(partitions, return_index=True)
        open_ones = keys[found] < 0
        keys[found[open_ones]] = start + first[open_ones]
        start += step
    return tuple(keys.tolist())


def spark_hash(numbers: np.ndarray) -> np.ndarray:
    """Spark's hash of whole numbers of 32 bits: Murmur3, as in its SQL function ``hash``."""
    mixed = _rotated(numbers.astype(np.uint32) * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    state = _rotated(np.uint32(_SEED) ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    state ^= np.uint32(4)  # bytes
    state = (state ^ (state >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    state = (state ^ (state >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return (state ^ (state >> np.uint32(16))).astype(np.int32)


def _rotated(words: np.ndarray, bits: int) -> np.ndarray:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))
