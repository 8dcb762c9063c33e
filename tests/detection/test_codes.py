"""Codes compare as the values do, whatever way they are made."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.detection.codes import codes_of
from dc_engine.sizes import other_sizes

TEXTS = st.none() | st.sampled_from([b"", b"a", b"a\0", b"ab", b"b", b"\xff", b"\x7f"]) | st.binary(max_size=3)


@pytest.mark.parametrize("longer_than", [-1, 10**9], ids=["long values", "short values"])
@given(arrays=st.lists(st.lists(TEXTS, max_size=12), min_size=1, max_size=4), ordered=st.booleans())
def test_byte_strings_have_codes_that_compare_as_they_do(
    arrays: list[list[bytes | None]], ordered: bool, longer_than: int
) -> None:
    with other_sizes(long_value=longer_than):
        coded = codes_of([pa.array(one, pa.binary()) for one in arrays], "binary", ordered=ordered)
    assert [len(one) for one in coded] == [len(one) for one in arrays]
    pairs = list(zip((value for one in arrays for value in one), np.concatenate(coded).tolist(), strict=True))
    assert all((code == -1) == (value is None) for value, code in pairs)
    known = [(value, code) for value, code in pairs if value is not None]
    for value, code in known:
        for other, other_code in known:
            assert (value == other) == (code == other_code)
            assert not ordered or (value < other) == (code < other_code)


def test_long_strings_are_coded_without_a_copy_of_them() -> None:
    text = pa.array([f"{number:01024d}" for number in range(4_000)], pa.large_binary())
    with patch("pyarrow.concat_arrays", side_effect=AssertionError("a copy")):
        (codes,) = codes_of([text], "string", ordered=True)
    assert codes.tolist() == list(range(4_000))
