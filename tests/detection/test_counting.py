"""Partners are counted and found exactly, however many comparisons there are and however large the tree."""

from __future__ import annotations

import operator
from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.constraints.model import Op
from dc_engine.detection.codes import combine
from dc_engine.detection.counting import Match, Scan, Tree, partner_weights

_HOLDS = {
    Op.EQ: operator.eq,
    Op.NE: operator.ne,
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}


def _pairs(matches: list[Match], queries: int, entries: int) -> np.ndarray:
    """Which pairs match, one comparison of all pairs after the other."""
    pairs = np.ones((queries, entries), bool)
    for one in matches:
        pairs &= _HOLDS[one.op](one.query[:, None], one.entry[None, :])
    return pairs


@given(
    ops=st.lists(st.sampled_from(list(Op)), max_size=6),
    queries=st.integers(0, 20),
    entries=st.integers(0, 400),
    values=st.integers(1, 40),
    seed=st.integers(0, 2**32),
)
def test_weights_and_partners_equal_those_over_all_pairs(
    ops: list[Op], queries: int, entries: int, values: int, seed: int
) -> None:
    chance = np.random.default_rng(seed)
    matches = [Match(chance.integers(-1, values, queries), op, chance.integers(-1, values, entries)) for op in ops]
    weights = chance.integers(1, 1000, entries)
    pairs = _pairs(matches, queries, entries)
    expected = (pairs * weights).sum(axis=1)
    assert (partner_weights(matches, weights, queries) == expected).all()
    with patch.object(Scan, "is_cheap", False):
        assert (partner_weights(matches, weights, queries) == expected).all()
    if matches and queries and entries:
        scan, tree = Scan(matches, weights, np.arange(queries)), Tree(matches, weights)
        assert (scan.count() == expected).all()
        assert (tree.count(matches) == expected).all()
        for most in (2, entries):
            for asked, found in (scan.find(most), tree.find(matches, np.arange(queries), most)):
                assert pairs[asked, found].all()
                assert len(set(zip(asked.tolist(), found.tolist(), strict=True))) == len(asked)
                assert (np.bincount(asked, minlength=queries) == np.minimum(pairs.sum(axis=1), most)).all()


@given(
    rows=st.lists(st.tuples(*[st.integers(-1, 2**20)] * 5), min_size=1, max_size=30),
)
def test_combined_codes_agree_exactly_when_all_codes_do(rows: list[tuple[int, ...]]) -> None:
    combined = combine([np.array(column, np.int64) for column in zip(*rows, strict=True)])
    assert [[one == other for other in rows] for one in rows] == (combined[:, None] == combined[None, :]).tolist()
