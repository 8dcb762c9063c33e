"""The hash of whole rows without Spark: what ``sources.row_hash`` gives, to the last bit, from Arrow arrays.

Spark's ``xxhash64`` hashes one value after the other, each seeded with the hash of those before it. Here that is done
for some thousand rows at a time, so that what is worked on stays in the processor's cache. The values are those that
``engines/files.py`` reads: flat columns of plain types.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from dc_engine.constraints.reserved import FEED_COLUMNS

_1, _2, _3, _4, _5 = map(
    np.uint64,
    (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5),
)
_SEED = 42
_ROWS = 8_192
_NAN = np.float64("nan").view(np.uint64)
_STRIPE = 32
"""Longer texts are hashed in four lanes, so many bytes at a time."""

Fold = Callable[[np.ndarray], np.ndarray]
"""Hashes of rows, from those before a value is added to those after it."""


def row_hashes(rows: pa.RecordBatch, salt: str) -> np.ndarray:
    """A signed 64-bit hash for each row."""
    found = np.empty(rows.num_rows, np.uint64)
    begun = _constant(salt.encode())(np.full(1, _SEED, np.uint64))[0]
    names = sorted((name.lower(), place) for place, name in enumerate(rows.schema.names))
    chosen = [(_constant(name.encode()), place) for name, place in names if name not in FEED_COLUMNS]
    for start in range(0, rows.num_rows, _ROWS):
        piece = rows.slice(start, _ROWS)
        hashes = np.full(piece.num_rows, begun)
        for with_name, place in chosen:
            column = piece.column(place)
            after = _values(column)(with_name(hashes))
            hashes = np.where(_valid(column), after, hashes) if column.null_count else after
        found[start : start + _ROWS] = hashes
    return found.view(np.int64)


def _values(column: pa.Array) -> Fold:
    """How the values of a column are added; those of NULLs are anything."""
    kind = column.type
    if pa.types.is_boolean(kind):
        return _ints(column.cast(pa.uint8()).fill_null(0).to_numpy(zero_copy_only=False).astype(np.uint64))
    if pa.types.is_string(kind):
        offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
        data = column.buffers()[2]
        text = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]] if data else np.zeros(0, np.uint8)
        return _texts(text, (offsets[:-1] - offsets[0]).astype(np.int64), np.diff(offsets).astype(np.int64))
    if pa.types.is_decimal128(kind):
        words = _plain(column, np.dtype("V16")).view(np.uint64).reshape(-1, 2)
        return _longs(words[:, 0]) if kind.precision <= 18 else _texts(*_big_integers(words))
    if pa.types.is_date32(kind):
        return _ints(_plain(column, np.dtype(np.uint32)).astype(np.uint64))
    if pa.types.is_floating(kind):
        doubles = _plain(column, np.dtype(kind.to_pandas_dtype())).astype(np.float64) + 0.0  # no -0.0 any more
        return _longs(np.where(np.isnan(doubles), _NAN, doubles.view(np.uint64)))
    width = np.dtype(f"i{kind.bit_width // 8}")
    return _longs(_plain(column, width).astype(np.int64).view(np.uint64))


def _plain(column: pa.Array, kind: np.dtype) -> np.ndarray:
    """The values of an array as they are in memory."""
    return np.frombuffer(column.buffers()[1], kind)[column.offset : column.offset + len(column)]


def _valid(column: pa.Array) -> np.ndarray:
    return column.is_valid().to_numpy(zero_copy_only=False)


def _big_integers(words: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers of 128 bits as Java writes them: the highest byte first, as few as leave the sign; bytes and places."""
    data = np.ascontiguousarray(words.view(np.uint8).reshape(-1, 16)[:, ::-1])
    sign = np.where(data[:, :1] >= 128, np.uint8(255), np.uint8(0))
    differs = data != sign
    first = np.where(differs.any(axis=1), differs.argmax(axis=1), 15)
    at_first = data[np.arange(len(data)), first]
    first -= ((at_first ^ sign[:, 0]) >= 128) & (first > 0)  # its highest bit must be that of the sign
    return data.reshape(-1), np.arange(len(data)) * 16 + first, 16 - first


# xxHash64


def _turned(words: np.ndarray, bits: int) -> np.ndarray:
    turned = words << np.uint64(bits)
    turned |= words >> np.uint64(64 - bits)
    return turned


def _finished(hashes: np.ndarray) -> np.ndarray:
    hashes ^= hashes >> np.uint64(33)
    hashes *= _2
    hashes ^= hashes >> np.uint64(29)
    hashes *= _3
    hashes ^= hashes >> np.uint64(32)
    return hashes


def _round(lane: np.ndarray, words: np.ndarray) -> np.ndarray:
    return _turned(lane + words * _2, 31) * _1


def _mixed(words: np.ndarray) -> np.ndarray:
    return _turned(words * _2, 31) * _1


def _with_eight(hashes: np.ndarray, words: np.ndarray) -> np.ndarray:
    hashes = _turned(hashes ^ _mixed(words), 27)
    hashes *= _1
    hashes += _4
    return hashes


def _with_four(hashes: np.ndarray, words: np.ndarray) -> np.ndarray:
    return _turned(hashes ^ words * _1, 23) * _2 + _3


def _with_one(hashes: np.ndarray, words: np.ndarray) -> np.ndarray:
    return _turned(hashes ^ words * _5, 11) * _1


_SIZES = ((8, _with_eight), (4, _with_four), (1, _with_one))
"""How many bytes are added at a time, and how: the more the sooner."""


def _longs(words: np.ndarray) -> Fold:
    return lambda hashes: _finished(_with_eight(hashes + (_5 + np.uint64(8)), words))


def _ints(words: np.ndarray) -> Fold:
    return lambda hashes: _finished(_with_four(hashes + (_5 + np.uint64(4)), words))


def _constant(text: bytes) -> Fold:
    """One text for all rows."""
    if len(text) >= _STRIPE:
        data = np.frombuffer(text, np.uint8)
        return lambda hashes: _texts(data, np.zeros(len(hashes), np.int64), np.full(len(hashes), len(text)))(hashes)
    words, place = [], 0
    for size, add in _SIZES:
        while len(text) - place >= size:
            words.append((add, np.array([int.from_bytes(text[place : place + size], "little")], np.uint64)))
            place += size

    def fold(hashes: np.ndarray) -> np.ndarray:
        hashes = hashes + (_5 + np.uint64(len(text)))
        for add, word in words:
            hashes = add(hashes, word)
        return _finished(hashes)

    return fold


def _texts(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> Fold:
    """Texts by their bytes: each begins at its place in the data."""
    padded = np.append(data, np.zeros(8, np.uint8))
    eight_at = np.ndarray(len(padded) - 7, "<u8", padded, strides=(1,))

    def fold(seeds: np.ndarray) -> np.ndarray:
        hashes, places, left = seeds + _5, starts.copy(), lengths.copy()
        if len(long := np.flatnonzero(lengths >= _STRIPE)):
            hashes[long] = _striped(seeds[long], eight_at, starts[long], lengths[long])
            places[long] += left[long] & ~31
            left[long] &= 31
        hashes += lengths.view(np.uint64)
        for size, add in _SIZES:
            while (open_ones := left >= size).any():
                chosen = slice(None) if open_ones.all() else np.flatnonzero(open_ones)
                words = eight_at[places[chosen]]
                words = words if size == 8 else words & np.uint64(2 ** (8 * size) - 1)
                hashes[chosen] = add(hashes[chosen], words)
                places[chosen] += size
                left[chosen] -= size
        return _finished(hashes)

    return fold


def _striped(seeds: np.ndarray, eight_at: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Hashes of the whole stripes of long texts."""
    lanes = [seeds + _1 + _2, seeds + _2, seeds.copy(), seeds - _1]
    stripes = lengths // _STRIPE
    for stripe in range(int(stripes.max())):
        open_ones = np.flatnonzero(stripes > stripe)
        for number, lane in enumerate(lanes):
            words = eight_at[starts[open_ones] + (_STRIPE * stripe + 8 * number)]
            lane[open_ones] = _round(lane[open_ones], words)
    turned = [_turned(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)]
    hashes = turned[0] + turned[1] + turned[2] + turned[3]
    for lane in lanes:
        hashes = (hashes ^ _mixed(lane)) * _1 + _4
    return hashes
