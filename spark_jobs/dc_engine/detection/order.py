"""Values as whole numbers of 64 bits in their order: what a screen and the order of entries need, without a sort.

Unlike codes they depend on nothing but the value. Long texts and decimals do not fit: different values may then have
the same number, but a smaller one never has a larger number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from dc_engine.detection.bodies import BodyPlan
from dc_engine.detection.codes import comparable, whole
from dc_engine.detection.comparable import Family, family

_PREFIX = 8
"""How many bytes of a text count."""
_DECIMAL_BITS = 112
"""Decimals are times 10**38 in 256 bits; the lowest ones are dropped. What is left tells 0.0001 from 0.0002."""
_SIGN = np.uint64(1 << 63)
TIES = np.int64(2**16 - 1)
"""The bits of a place that are left to tell equal values apart."""


def order_numbers(values: pa.Array, family: str) -> tuple[np.ndarray, bool]:
    """Numbers in the order of the values (anything for NULL), and whether they differ wherever the values do."""
    plain = comparable(values, family)
    if pa.types.is_large_binary(plain.type):
        return _of_bytes(plain), False
    if pa.types.is_decimal(plain.type):
        return _of_decimals(plain), False
    numbers = plain.fill_null(0).to_numpy(zero_copy_only=False)
    if pa.types.is_floating(plain.type):
        return _of_floats(numbers), True
    return numbers, True


def places(values: pa.Array, family: str) -> np.ndarray:
    """Where values lie in an index that is ordered by them: numbers in their order, NULLs first, without ``TIES``.

    All but texts are rounded to some 37 significant bits: near enough, and room for 65,536 places of the same value.
    """
    numbers, _ = order_numbers(values, family)
    if family not in (Family.STRING, Family.BINARY, Family.FLOAT):
        numbers = _of_floats(numbers.astype(np.float64))
    if values.null_count:
        numbers = np.where(values.is_null().to_numpy(zero_copy_only=False), np.int64(-(2**63)), numbers)
    return numbers & ~TIES


def _of_floats(numbers: np.ndarray) -> np.ndarray:
    bits = numbers.view(np.int64)
    return bits ^ ((bits >> 63) & np.int64(2**63 - 1))  # NaN, of which there is one, is above infinity


def _of_bytes(values: pa.Array) -> np.ndarray:
    """The first bytes of each value, as a number; after the end of a value there are zeros."""
    _, offsets_buffer, data_buffer = values.buffers()
    numbers = np.zeros(len(values), np.uint64)
    if len(values) and data_buffer is not None and data_buffer.size:
        data = np.frombuffer(data_buffer, np.uint8)
        offsets = np.frombuffer(offsets_buffer, np.int64)[values.offset : values.offset + len(values) + 1]
        for place in range(_PREFIX):
            at = offsets[:-1] + place
            byte = np.where(at < offsets[1:], data[np.minimum(at, len(data) - 1)], np.uint8(0))
            numbers = (numbers << np.uint64(8)) | byte.astype(np.uint64)
    return (numbers ^ _SIGN).view(np.int64)


def _of_decimals(values: pa.Array) -> np.ndarray:
    """The value shifted to the right, and cut off at the largest numbers of 64 bits."""
    if not len(values):
        return np.zeros(0, np.int64)
    words = np.frombuffer(values.buffers()[1], np.uint64).reshape(-1, 4)[values.offset : values.offset + len(values)]
    _, low, high, top = words.T
    within = _DECIMAL_BITS - 64
    numbers = ((low >> np.uint64(within)) | (high << np.uint64(64 - within))).view(np.int64)
    above = high.view(np.int64) >> np.int64(within - 1)  # 0 or -1, and like the top word, if nothing is cut off
    fits = (above == top.view(np.int64)) & ((above == 0) | (above == -1))
    most = np.where(top.view(np.int64) < 0, np.int64(-(2**63)), np.int64(2**63 - 1))
    return np.where(fits, numbers, most)


def zones_of(columns: Sequence[str], families: Sequence[str], rows: pa.Table) -> dict[str, tuple[int, int] | None]:
    """From where to where the numbers of each column with an order go; nothing if all its values are NULL."""
    zones: dict[str, tuple[int, int] | None] = {}
    for name, known in zip(columns, families, strict=True):
        if known in set(Family):
            numbers, _ = order_numbers(whole(rows.column(name).drop_null()), known)
            zones[name] = (int(numbers.min()), int(numbers.max())) if len(numbers) else None
    return zones


def order_within(bodies: Iterable[BodyPlan], side: str, schema: Mapping[str, str]) -> tuple[str, str] | None:
    """The column that orders entries as t or as s, with its family: that of the first of the inequalities."""
    for one in (one for body in bodies for one in body.inequalities):
        column = one.left if side == "t" else one.right
        known = family(schema[column]) or ""
        return (column, known) if known in set(Family) else None
    return None
