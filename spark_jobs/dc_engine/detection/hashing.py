"""A hash of a row's key columns: rows that agree on the key get the same hash in every load and process.

It decides where an entry lies in an index, never whether two rows agree: collisions cost time, not exactness. Every
entry has one, and nothing compresses it, so it is short: a number below 2**32. Large numbers that follow each other lie
together, so that ids that were given in turn take few bytes, and those of a load are found in few row groups.
The function is part of the state format (``docs/state-format.md``).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from dc_engine.detection.codes import comparable
from dc_engine.sizes import SIZES

Bounds = tuple[int, int]
"""The smallest and the largest of some hashes."""
_ODD = np.uint64(0x9E3779B97F4A7C15)
_NULL_LANE = np.uint64(0x5851F42D4C957F2D)
_BITS = 32
_NEAR = np.uint64(63)
"""The bits of the last column that move an entry only a little, if it is a large number."""
_SMALL = np.uint64(2**16)
"""Numbers below this are often few, with many rows each: they are scattered, so that work can be divided."""
_KEEP = np.array([2 ** (8 * length) - 1 for length in range(8)], np.uint64)
"""By number of bytes: the bits of the first bytes of a word."""


def key_hashes(columns: Sequence[pa.Array], families: Sequence[str], rows: int) -> np.ndarray:
    """One hash for each row."""
    return combined([lanes_of(column, family) for column, family in zip(columns, families, strict=True)], rows)


def combined(lanes: Sequence[np.ndarray], rows: int) -> np.ndarray:
    """The hashes of rows, from the lanes of their columns."""
    hashes = np.zeros(rows, np.uint64)
    if not lanes:
        return hashes.view(np.int64)
    *first, last = lanes
    for one in first:
        hashes = mixed(hashes * _ODD + one)
    cell = np.where(last < _SMALL, last, last | _NEAR)
    place = mixed(hashes * _ODD + cell) >> np.uint64(64 - _BITS)
    return (place & ~_NEAR | last & _NEAR).view(np.int64)


def lanes_of(column: pa.Array, family: str) -> np.ndarray:
    """Each value of a column as one unsigned 64-bit number."""
    values = comparable(column, family)
    lanes = _lanes(values)
    if values.null_count:
        lanes = np.where(values.is_null().to_numpy(zero_copy_only=False), _NULL_LANE, lanes)
    return lanes


def bucket_of(hashes: np.ndarray, buckets: int) -> np.ndarray:
    """The bucket of each hash: buckets are equal ranges of the hash space, in order."""
    return hashes * buckets >> _BITS


def range_of(bucket: int, buckets: int) -> Bounds:
    """The smallest and largest hash of a bucket."""
    first, beyond = (-(-(one << _BITS) // buckets) for one in (bucket, bucket + 1))
    return first, beyond - 1


def even_ranges(lows: np.ndarray, entries: np.ndarray, parts: int) -> tuple[Bounds, ...]:
    """Ranges of all numbers with about as many entries each, from parts that begin at ``lows``; fewer if many do."""
    low, high = -(2**63), 2**63 - 1
    order = np.argsort(lows, kind="stable")
    sums = np.cumsum(entries[order])
    wanted = np.arange(1, parts) * (int(sums[-1]) / parts) if len(sums) else np.zeros(0)
    starts = np.unique(lows[order][np.searchsorted(sums, wanted, side="right")])
    edges = [low, *(one for one in starts.tolist() if one > low), high + 1]
    return tuple((first, end - 1) for first, end in pairwise(edges))


def _lanes(values: pa.Array) -> np.ndarray:
    """Each value as one unsigned 64-bit number (NULLs as anything)."""
    if pa.types.is_large_binary(values.type):
        return _bytes_lanes(values)
    if pa.types.is_decimal(values.type):
        words = np.frombuffer(values.buffers()[1], np.uint64)
        words = words.reshape(-1, 4)[values.offset : values.offset + len(values)]
        lanes = np.zeros(len(values), np.uint64)
        for word in words.T:
            lanes = mixed(lanes * _ODD + word)
        return lanes
    return values.fill_null(0).to_numpy(zero_copy_only=False).view(np.uint64)


def _bytes_lanes(values: pa.Array) -> np.ndarray:
    """A polynomial over words of eight bytes, some megabytes at a time, because it takes many times their size."""
    _, offsets_buffer, data_buffer = values.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64)[values.offset : values.offset + len(values) + 1]
    lanes = np.zeros(len(values), np.uint64)
    if offsets[-1] == offsets[0]:
        return lanes
    data = np.frombuffer(data_buffer, np.uint8)
    first = 0
    while first < len(values):
        last = int(np.searchsorted(offsets, offsets[first] + SIZES.hashed_bytes))
        last = min(max(last, first + 1), len(values))
        lanes[first:last] = _piece_lanes(data, offsets[first : last + 1])
        first = last
    return lanes


def _piece_lanes(data: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """The lanes of the values between some offsets, from prefix sums: no loop over the values."""
    padded = np.append(data[offsets[0] : offsets[-1]], np.zeros(8, np.uint8))
    word_at = np.ndarray(len(padded) - 7, "<u8", padded, strides=(1,))
    lengths = np.diff(offsets)
    ends = np.concatenate([[0], np.cumsum((lengths + 7) // 8)])
    counts = np.diff(ends)
    place = np.arange(ends[-1]) - np.repeat(ends[:-1], counts)
    words = word_at[np.repeat(offsets[:-1] - offsets[0], counts) + 8 * place]
    partial = lengths % 8 > 0
    words[ends[1:][partial] - 1] &= _KEEP[lengths[partial] % 8]
    powers = np.full(int(counts.max()), _ODD).cumprod(dtype=np.uint64)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed(words) * powers[place], dtype=np.uint64)])
    return mixed(sums[ends[1:]] - sums[ends[:-1]] + lengths.astype(np.uint64))


def mixed(lanes: np.ndarray) -> np.ndarray:
    """Spread every bit over the whole word (the finisher of splitmix64)."""
    lanes = (lanes ^ (lanes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    lanes = (lanes ^ (lanes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return lanes ^ (lanes >> np.uint64(31))
