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
    return _is_list(arrow_type) or pa.types.is_struct(arrow_type)


def sort_keys(array: pa.Array) -> pa.Array:
    """One byte string for each value; NULL stays NULL."""
    raw = array.cast(_raw_type(array.type))
    keys = [None if value is None else _key(value, raw.type) for value in raw.to_pylist()]
    return pa.array(keys, pa.large_binary())


def _is_list(arrow_type: pa.DataType) -> bool:
    return pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type)


def _raw_type(arrow_type: pa.DataType) -> pa.DataType:
    """The type with numbers and bytes inside: Python's dates and texts do not hold everything that a table may."""
    if _is_list(arrow_type):
        return pa.list_(_raw_type(arrow_type.value_type))
    if pa.types.is_struct(arrow_type):
        return pa.struct([pa.field(field.name, _raw_type(field.type)) for field in arrow_type])
    if pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type):
        return pa.large_binary()
    if pa.types.is_date(arrow_type):
        return pa.int32()
    return pa.int64() if pa.types.is_temporal(arrow_type) else arrow_type


def _element(value: Any, raw_type: pa.DataType) -> bytes:
    return _NULL if value is None else _VALUE + _key(value, raw_type)


def _key(value: Any, raw_type: pa.DataType) -> bytes:
    if pa.types.is_struct(raw_type):
        return b"".join(_element(value[field.name], field.type) for field in raw_type)
    if _is_list(raw_type):
        return b"".join(_element(item, raw_type.value_type) for item in value) + _END
    if pa.types.is_floating(raw_type):
        return _float_key(value)
    if pa.types.is_decimal(raw_type):
        return (int(value.scaleb(38, _EXACT)) + _DECIMAL_OFFSET).to_bytes(33, "big")
    if isinstance(value, bytes):
        return _terminated(value)
    return (int(value) + 2**63).to_bytes(8, "big")


def _terminated(value: bytes) -> bytes:
    """Bytes that end with a mark smaller than anything that could follow in a longer value."""
    return value.replace(b"\x00", b"\x00\xff") + b"\x00\x00"


def _float_key(value: float) -> bytes:
    if math.isnan(value):
        return b"\xff" * 8
    (bits,) = struct.unpack(">Q", struct.pack(">d", value + 0.0))
    flipped = bits ^ (2**64 - 1) if bits >> 63 else bits | 2**63
    return flipped.to_bytes(8, "big")
