"""Values as whole numbers: codes that compare exactly as Spark SQL compares the values.

All the counting works on codes. Columns that are compared with each other get codes from one order; NULL is -1.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dc_engine.constraints.model import ConstantValue, microseconds
from dc_engine.detection.comparable import Family
from dc_engine.detection.nested import is_nested, sort_keys
from dc_engine.sizes import SIZES

NULL = -1
_SORTED = 20_000
"""So few numbers are sorted at once, instead of looking for the different ones first."""
_WIDEST_DECIMAL = pa.decimal256(76, 38)  # holds every decimal(38, s) exactly


def whole(column: pa.ChunkedArray) -> pa.Array:
    """A column of a table as one array."""
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.nulls(0, column.type)])


def take(table: pa.Table, places: np.ndarray) -> pa.Table:
    """Some rows of a table. Arrow would first join the chunks of the table, copying all of it."""
    parts = table.to_batches()
    if len(parts) < 2 or not len(places):
        return table.take(pa.array(places))
    starts = np.cumsum([0, *(part.num_rows for part in parts)])
    part_of = np.searchsorted(starts, places, side="right") - 1
    order = np.argsort(part_of, kind="stable")
    bounds = np.searchsorted(part_of[order], np.arange(len(parts) + 1))
    found = [
        part.take(pa.array(places[order[first:end]] - start))
        for part, start, (first, end) in zip(parts, starts, pairwise(bounds), strict=False)
        if end > first
    ]
    return pa.Table.from_batches(found).combine_chunks().take(pa.array(np.argsort(order)))


def codes_of(arrays: Sequence[pa.Array | pa.ChunkedArray], family: str, *, ordered: bool) -> list[np.ndarray]:
    """Codes of several arrays in one order (in any one-to-one coding when not ``ordered``)."""
    values = pieces_of(arrays, family)
    codes = _ranks(values) if _are_long(values) else coded(values, ordered=ordered)[0]
    return np.split(codes, np.cumsum([len(array) for array in arrays])[:-1])


def pieces_of(arrays: Sequence[pa.Array | pa.ChunkedArray], family: str) -> list[pa.Array]:
    """The pieces of some arrays, comparable."""
    return [comparable(chunk, family) for array in arrays for chunk in _chunks(array)]


def coded(values: Sequence[pa.Array], *, ordered: bool) -> tuple[np.ndarray, pa.Array, np.ndarray]:
    """Codes of some arrays, one after the other; the different values, and where among these that of each code is."""
    if ordered and sum(map(len, values)) <= _SORTED and _are_whole_numbers(values):
        numbers, codes = np.unique(np.concatenate([one.to_numpy() for one in values]), return_inverse=True)
        return codes, pa.array(numbers), np.arange(len(numbers))  # NaN is one number, the largest
    codes, dictionary = dictionary_coded(values)
    if not ordered:
        return codes, dictionary, np.arange(len(dictionary))
    order = sorted_order(dictionary)
    position = np.empty(len(dictionary) + 1, np.int64)
    position[NULL] = NULL  # NULL is the last slot, which is also what index -1 picks
    position[order] = np.arange(len(dictionary))
    return position[codes], dictionary, order


def _are_whole_numbers(values: Sequence[pa.Array]) -> bool:
    """Whether these are numbers of which none is missing."""
    return all(
        (pa.types.is_integer(one.type) or pa.types.is_floating(one.type)) and not one.null_count for one in values
    )


def dictionary_coded(values: Sequence[pa.Array]) -> tuple[np.ndarray, pa.Array]:
    """Codes of some arrays, one after the other, by the first place of each value; and the value of each code."""
    encoded = pa.chunked_array(values).dictionary_encode()  # which has one dictionary for all of them
    codes = [chunk.indices.fill_null(NULL).to_numpy(zero_copy_only=False) for chunk in encoded.chunks]
    dictionary = encoded.chunk(0).dictionary if codes else values[0][:0]
    return np.concatenate([np.zeros(0, np.int64), *codes]), dictionary


def _chunks(array: pa.Array | pa.ChunkedArray) -> list[pa.Array]:
    return [array] if isinstance(array, pa.Array) else array.chunks or [pa.nulls(0, array.type)]


def _are_long(values: Sequence[pa.Array]) -> bool:
    """Whether these are byte strings so long that copies of them would matter."""
    binary = pa.types.is_large_binary(values[0].type)
    return binary and sum(one.nbytes for one in values) > SIZES.long_value * sum(map(len, values))


def _ranks(values: Sequence[pa.Array]) -> np.ndarray:
    """Codes from sorting the values in place: no copy of them, and no dictionary that holds another."""
    column = pa.chunked_array(values)
    ranks = pc.rank(column, "ascending", tiebreaker="dense").to_numpy().astype(np.int64) - 1
    if column.null_count:
        ranks[column.is_null().to_numpy()] = NULL
    return ranks


def comparable(array: pa.Array, family: str) -> pa.Array:
    """The array in the one Arrow type of its family, with one representation for each value."""
    if is_nested(array.type):
        return sort_keys(array)
    if family == Family.INTEGER:
        return array.cast(pa.int64())
    if family == Family.DECIMAL:
        return array.cast(_WIDEST_DECIMAL)
    if family == Family.FLOAT:
        return _canonical_floats(array.cast(pa.float64()))
    if family in (Family.STRING, Family.BINARY):
        return array.cast(pa.large_binary())
    if family in (Family.TIMESTAMP, Family.TIMESTAMP_NTZ):
        zone = array.type.tz if pa.types.is_timestamp(array.type) else None  # of no rows the type may not be known
        return array.cast(pa.timestamp("us", zone)).cast(pa.int64())
    if family in (Family.INTERVAL, Family.MONTHS, Family.TIME):
        return array.cast(pa.int64())
    if family == Family.DATE:
        return array.cast(pa.int32()).cast(pa.int64())
    if family == Family.BOOLEAN:
        return array.cast(pa.int8()).cast(pa.int64())
    if family == Family.VOID:  # every value is NULL
        return pa.nulls(len(array), pa.int64())
    raise AssertionError(f"values of the family {family!r} have no codes")


def constant_array(value: ConstantValue, family: str) -> pa.Array:
    """A constant as an array of one value that ``comparable`` understands."""
    if family == Family.FLOAT:
        return pa.array([float(value)], pa.float64())  # type: ignore[arg-type]
    if family == Family.DECIMAL:
        return pa.array([Decimal(value)], _WIDEST_DECIMAL)  # type: ignore[arg-type]
    if isinstance(value, datetime):
        return pa.array([microseconds(value)], pa.int64()).cast(pa.timestamp("us", "UTC"))
    return pa.array([value])


def _canonical_floats(array: pa.Array) -> pa.Array:
    """One bit pattern for each number: -0.0 becomes 0.0 and all NaN become one."""
    full = array if not array.null_count else array.fill_null(0.0)
    values = full.to_numpy(zero_copy_only=False) + 0.0
    unknown = np.isnan(values)
    if unknown.any():
        values[unknown] = np.nan
    return pa.array(values, mask=array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None)


def sorted_order(values: pa.Array) -> np.ndarray:
    """The places of comparable values, the smallest first."""
    if pa.types.is_floating(values.type):
        return np.argsort(values.to_numpy(zero_copy_only=False), kind="stable")  # NaN last: greater than every number
    return pc.sort_indices(values).to_numpy(zero_copy_only=False)


def combine(columns: Sequence[np.ndarray], *, dense: bool = True) -> np.ndarray:
    """One code for each row from several codes: equal exactly when all of them are.

    They may be large numbers if they need not be ``dense``: for who sorts them anyway.
    """
    combined = np.zeros(len(columns[0]), np.int64)
    size = 1
    for column in columns:
        shifted = column + 1
        width = int(shifted.max(initial=0)) + 1
        if size * width >= 2**62:
            combined, size = _dense(combined)
        combined = combined * width + shifted
        size *= width
    return _dense(combined)[0] if dense and size > 4 * len(combined) + 1024 else combined


def _dense(codes: np.ndarray) -> tuple[np.ndarray, int]:
    values, dense = np.unique(codes, return_inverse=True)
    return dense.astype(np.int64), max(len(values), 1)


def ranges(first: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The numbers of several ranges, one range after the other."""
    return np.arange(int(sizes.sum())) + np.repeat(first - np.cumsum(sizes) + sizes, sizes)
