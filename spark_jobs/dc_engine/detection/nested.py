"""Arrays and structs as byte strings that sort and compare as Spark sorts and compares the values.

Spark compares arrays element by element (a prefix is smaller) and structs field by field; a NULL inside is smaller
than any value and equal to another NULL. Rare in rules, so plain Python will do.
"""

from __future__ import annotations

import math
import struct
from decimal import Context
from typing import Any

import pyarrow as pa

_NULL, _VALUE, _END = b"\x01", b"\x02", b"\x00"
_DECIMAL_OFFSET = 10**77
_EXACT = Context(prec=100)  # the default one rounds to 28 digits


def is_nested(arrow_type: pa.DataType) -> bool:
    """Whether values of this type are compared through ``sort_keys``."""
    return pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type) or pa.types.is_struct(arrow_type)


def sort_keys(array: pa.Array) -> pa.Array:
    """One byte string for each value; NULL stays NULL."""
    keys = [None if value is None else _key(value, array.type) for value in array.to_pylist()]
    return pa.array(keys, pa.large_binary())


def _element(value: Any, arrow_type: pa.DataType) -> bytes:
    return _NULL if value is None else _VALUE + _key(value, arrow_type)


def _key(value: Any, arrow_type: pa.DataType) -> bytes:
    if pa.types.is_struct(arrow_type):
        return b"".join(_element(value[field.name], field.type) for field in arrow_type)
    if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
        return b"".join(_element(item, arrow_type.value_type) for item in value) + _END
    if pa.types.is_floating(arrow_type):
        return _float_key(value)
    if pa.types.is_decimal(arrow_type):
        return (int(value.scaleb(38, _EXACT)) + _DECIMAL_OFFSET).to_bytes(33, "big")
    if pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type):
        return _terminated(value.encode())
    if pa.types.is_binary(arrow_type) or pa.types.is_large_binary(arrow_type):
        return _terminated(value)
    scalar = pa.scalar(value, arrow_type)
    if pa.types.is_date(arrow_type):
        scalar = scalar.cast(pa.int32())
    elif pa.types.is_boolean(arrow_type):
        scalar = scalar.cast(pa.int8())
    return (scalar.cast(pa.int64()).as_py() + 2**63).to_bytes(8, "big")


def _terminated(value: bytes) -> bytes:
    """Bytes that end with a mark smaller than anything that could follow in a longer value."""
    return value.replace(b"\x00", b"\x00\xff") + b"\x00\x00"


def _float_key(value: float) -> bytes:
    if math.isnan(value):
        return b"\xff" * 8
    (bits,) = struct.unpack(">Q", struct.pack(">d", value + 0.0))
    flipped = bits ^ (2**64 - 1) if bits >> 63 else bits | 2**63
    return flipped.to_bytes(8, "big")
