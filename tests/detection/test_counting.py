"""Partners are counted and found exactly, however many comparisons there are and however large the tree."""

from __future__ import annotations

import operator
from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.constraints.model import Op
from dc_engine.detection import below
from dc_engine.detection.codes import combine
from dc_engine.detection.counting import Match, Scan, Tree, find_partners, partner_weights
from dc_engine.kernels import sweep
from dc_engine.sizes import other_sizes

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
    with other_sizes(scanned_pairs=-1):
        assert (partner_weights(matches, weights, queries) == expected).all()
    if matches and queries and entries:
        scan, tree = Scan(matches, weights, np.arange(queries)), Tree(matches, weights)
        assert (scan.count() == expected).all()
        assert (tree.count(matches) == expected).all()
        for most in (2, entries):
            *scanned, left = scan.find(most)
            assert not len(left)
            for asked, found in (scanned, tree.find(matches, np.arange(queries), most)):
                assert pairs[asked, found].all()
                assert len(set(zip(asked.tolist(), found.tolist(), strict=True))) == len(asked)
                assert (np.bincount(asked, minlength=queries) == np.minimum(pairs.sum(axis=1), most)).all()


_INEQUALITIES = [Op.LT, Op.LE, Op.GT, Op.GE]


@given(
    ordered=st.lists(st.sampled_from(_INEQUALITIES), min_size=2, max_size=3),
    others=st.lists(st.sampled_from([Op.EQ, Op.NE]), max_size=3),
    sizes=st.tuples(st.integers(1, 300), st.integers(1, 300)),
    values=st.sampled_from([1, 2, 7, 50, 10**6]),
    blocks=st.sampled_from([1, 2, 5, 100]),
    seed=st.integers(0, 2**32),
)
def test_two_and_three_inequalities_are_counted_from_sorted_codes_alone(
    ordered: list[Op], others: list[Op], sizes: tuple[int, int], values: int, blocks: int, seed: int
) -> None:
    chance = np.random.default_rng(seed)

    def codes(most: int) -> tuple[np.ndarray, np.ndarray]:
        queries, entries = (chance.integers(-1, most, size) for size in sizes)
        return queries, entries

    matches = [Match(query, op, entry) for op in ordered for query, entry in [codes(values)]]
    matches += [Match(query, op, entry) for op in others for query, entry in [codes(blocks)]]
    weights = chance.integers(-5, 1000, sizes[1])
    expected = (_pairs(matches, *sizes) * weights).sum(axis=1)
    with other_sizes(scanned_pairs=-1), patch.object(Tree, "__init__", side_effect=AssertionError("a tree")):
        assert (partner_weights(matches, weights, sizes[0]) == expected).all()


@given(blocks=st.integers(1, 5), rows=st.integers(0, 200), share=st.floats(0, 1), seed=st.integers(0, 2**32))
def test_a_sweep_without_numba_counts_the_same(blocks: int, rows: int, share: float, seed: int) -> None:
    chance = np.random.default_rng(seed)
    block, is_query = np.sort(chance.integers(0, blocks, rows)), chance.random(rows) < share
    rank = np.zeros(rows, np.int64)
    for one in range(blocks):
        entries, queries = (np.flatnonzero((block == one) & (is_query == asks)) for asks in (False, True))
        rank[entries] = chance.permutation(len(entries))
        rank[queries] = chance.integers(0, len(entries) + 1, len(queries))
    weight = np.where(is_query, 0, chance.integers(-5, 1000, rows))
    given_alike = (block, rank, weight, is_query)
    assert (below.dominated_weight(*given_alike) == sweep.dominated_weight(*given_alike)).all()


@given(
    ops=st.lists(st.sampled_from(list(Op)), min_size=1, max_size=3),
    most=st.integers(1, 5),
    scanned=st.sampled_from([-1, 0, 300, 3_000, 30_000, 10**9]),
    values=st.sampled_from([1, 3, 40]),
    seed=st.integers(0, 2**32),
)
def test_partners_are_found_whatever_is_left_to_the_tree(
    ops: list[Op], most: int, scanned: int, values: int, seed: int
) -> None:
    chance = np.random.default_rng(seed)
    matches = [Match(chance.integers(-1, values, 30), op, chance.integers(-1, values, 900)) for op in ops]
    queries = chance.permutation(30)[:20]
    pairs = _pairs(matches, 30, 900)
    with other_sizes(scanned_pairs=scanned, scanned_at_once=1_000):
        asked, found = find_partners(matches, np.ones(900, np.int64), queries, most)
    assert pairs[asked, found].all()
    assert len(set(zip(asked.tolist(), found.tolist(), strict=True))) == len(asked)
    expected = np.where(np.isin(np.arange(30), queries), np.minimum(pairs.sum(axis=1), most), 0)
    assert (np.bincount(asked, minlength=30) == expected).all()


def test_a_tree_goes_straight_to_the_block_of_a_query() -> None:
    """Otherwise ten thousand rows in blocks of three take a quarter of a minute to list."""
    chance = np.random.default_rng(7)
    rows, blocks = 40_000, 10_000
    values = [chance.integers(0, 10 * rows, rows) for _ in range(3)]
    block = chance.integers(0, blocks, rows)
    matches = [Match(one, Op.GT, one) for one in values] + [Match(block, Op.EQ, block)]
    tree = Tree(matches, np.ones(rows, np.int64))
    _, bounds, boxes, _ = tree._built
    deepest = boxes[bounds[:, 1] > bounds[:, 0]][-1000:]
    assert np.median(deepest[:, 3, 1] - deepest[:, 3, 0]) < 20  # of ten thousand blocks
    asked, found = tree.find(matches, np.arange(rows), 1)
    assert (block[asked] == block[found]).all()
    assert set(asked) == set(np.flatnonzero(partner_weights(matches, np.ones(rows, np.int64), rows)))


@given(
    rows=st.lists(st.tuples(*[st.integers(-1, 2**20)] * 5), min_size=1, max_size=30),
)
def test_combined_codes_agree_exactly_when_all_codes_do(rows: list[tuple[int, ...]]) -> None:
    combined = combine([np.array(column, np.int64) for column in zip(*rows, strict=True)])
    assert [[one == other for other in rows] for one in rows] == (combined[:, None] == combined[None, :]).tolist()
