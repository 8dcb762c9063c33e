"""The hash of the key is what the description of the state's format says, however long the values are."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.detection.hashing import key_hashes
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
    for lane in lanes:
        h = mix(h * ODD + lane & M)
    return h - 2**64 if h >> 63 else h


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
        ([pa.array([1])], ["integer"], 6238072747940578789),
        ([pa.array(["10115"])], ["string"], 6631478765999854222),
        ([pa.array(["Unter den Linden 77"])], ["string"], 7985159078247238691),
        ([pa.array([Decimal("1.50")])], ["decimal"], 4662385189609249129),
        ([pa.array([1.5])], ["float"], -1789264046693927832),
        ([pa.array([None], pa.string())], ["string"], -941778764039195291),
        ([pa.array(["10115"]), pa.array([None], pa.string())], ["string", "string"], -2323595764031521781),
    ],
)
def test_the_examples_of_the_format_hold(columns: list[pa.Array], families: list[str], expected: int) -> None:
    assert key_hashes(columns, families, 1).tolist() == [expected]
