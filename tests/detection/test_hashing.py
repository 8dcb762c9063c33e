"""The hash of the key is what the description of the state's format says, however long the values are."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.detection.hashing import bucket_of, key_hashes, range_of
from dc_engine.sizes import other_sizes

M = 2**64 - 1
ODD, NULL = 0x9E3779B97F4A7C15, 0x5851F42D4C957F2D


def mix(x: int) -> int:
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & M
    x = (x ^ x >> 27) * 0x94D049BB133111EB & M
    return x ^ x >> 31


def lane_of_bytes(data: bytes) -> int:
    total, power = len(data), 1
    for place in range(0, len(data), 8):
        power = power * ODD & M
        total = total + mix(int.from_bytes(data[place : place + 8], "little")) * power & M
    return mix(total)


def key_hash(lanes: Sequence[int]) -> int:
    h = 0
    for lane in lanes[:-1]:
        h = mix(h * ODD + lane & M)
    last = lanes[-1]
    place = mix(h * ODD + (last if last < 2**16 else last | 63) & M) >> 32
    return place & ~63 | last & 63


@given(
    values=st.lists(st.none() | st.binary(max_size=40), max_size=20),
    at_once=st.sampled_from([1, 7, 50, 2**20]),
    cut=st.tuples(st.integers(0, 5), st.integers(0, 5)),
)
def test_strings_hash_by_the_words_of_their_bytes(
    values: list[bytes | None], at_once: int, cut: tuple[int, int]
) -> None:
    chosen = slice(cut[0], max(len(values) - cut[1], cut[0]))
    array = pa.array(values, pa.binary())[chosen]
    expected = [key_hash([NULL if one is None else lane_of_bytes(one)]) for one in values[chosen]]
    with other_sizes(hashed_bytes=at_once):
        assert key_hashes([array], ["binary"], len(array)).tolist() == expected


@pytest.mark.parametrize(
    ("columns", "families", "expected"),
    [
        ([pa.array([1])], ["integer"], 1452414465),
        ([pa.array([1_000_000])], ["integer"], 848363648),
        ([pa.array([-1])], ["integer"], 3033552383),
        ([pa.array(["10115"])], ["string"], 3634603963),
        ([pa.array(["Unter den Linden 77"])], ["string"], 1378957843),
        ([pa.array([Decimal("1.50")])], ["decimal"], 4237926025),
        ([pa.array([1.5])], ["float"], 984588992),
        ([pa.array([None], pa.string())], ["string"], 3119292717),
        ([pa.array(["10115"]), pa.array([None], pa.string())], ["string", "string"], 3169597229),
    ],
)
def test_the_examples_of_the_format_hold(columns: list[pa.Array], families: list[str], expected: int) -> None:
    assert key_hashes(columns, families, 1).tolist() == [expected]


@given(first=st.integers(2**16, 2**62), other=st.text(max_size=3))
def test_large_numbers_that_follow_each_other_lie_together(first: int, other: str) -> None:
    numbers = np.arange(first & ~63, (first & ~63) + 64)
    for columns, families in (([], []), ([pa.array([other] * 64)], ["string"])):
        hashes = key_hashes([*columns, pa.array(numbers)], [*families, "integer"], 64)
        assert np.array_equal(hashes - hashes[0], np.arange(64))


@pytest.mark.parametrize("values", [2, 12, 1_000])
def test_small_numbers_are_scattered_so_that_work_can_be_divided(values: int) -> None:
    buckets = bucket_of(key_hashes([pa.array(np.arange(values))], ["integer"], values), 64)
    assert np.bincount(buckets).max() <= max(2, values // 16)


@given(hashes=st.lists(st.integers(0, 2**32 - 1), min_size=1), buckets=st.integers(1, 1_000))
def test_every_hash_is_in_the_range_of_its_bucket(hashes: list[int], buckets: int) -> None:
    for one, bucket in zip(hashes, bucket_of(np.array(hashes), buckets).tolist(), strict=True):
        low, high = range_of(bucket, buckets)
        assert low <= one <= high
    assert (range_of(0, buckets)[0], range_of(buckets - 1, buckets)[1]) == (0, 2**32 - 1)
