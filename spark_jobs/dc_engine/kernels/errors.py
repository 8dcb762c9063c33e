"""Sets of literals that miss few pairs of rows, none of which can do with less.

An item is a pattern with the number of its pairs, and has two points: the pattern and its mirror image (the same twice
where the order of the two rows does not matter). Its pairs are missed when either point is. A search takes an item that
is missed; either one of the literals of its point is chosen, one after the other, or the item stays missed for good.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dc_engine.kernels.compiling import kernel
from dc_engine.kernels.packing import lowest, popcount

_ONE = np.uint64(1)
_ENTER, _TRY, _BACK = 0, 1, 2


class Items(NamedTuple):
    """``points[i, k]`` are the literals that hit point k of item i, ``vital`` those that no weaker one could replace.

    The rest is as in ``packing.Whole``; ``bound`` is how many pairs may be missed.
    """

    points: np.ndarray
    vital: np.ndarray
    pairs: np.ndarray
    term_of: np.ndarray
    most_of: np.ndarray
    of_term: np.ndarray
    max_terms: int
    bound: int
    bars: np.ndarray


class Walk(NamedTuple):
    """The nodes from the first to the current one, by their depth."""

    chosen: np.ndarray
    allowed: np.ndarray
    pending: np.ndarray
    last: np.ndarray
    item: np.ndarray
    point: np.ndarray
    hits: np.ndarray
    """How many of the chosen literals hit each point."""
    lost: np.ndarray
    """Items that stay missed."""
    state: np.ndarray
    """Where the search is: the depth (-1 at the end), and what comes next."""


@kernel
def start(items: Items) -> Walk:
    """The node with nothing chosen, and room for all below it."""
    literals, words, number = items.term_of.size, items.points.shape[2], items.points.shape[0]
    levels = min(literals, items.most_of.sum(), items.most_of.max() * items.max_terms) + 2
    walk = Walk(
        np.zeros((levels, words), np.uint64),
        np.zeros((levels, words), np.uint64),
        np.zeros((levels, words), np.uint64),
        np.zeros(levels, np.int64),
        np.zeros(levels, np.int64),
        np.zeros(levels, np.int64),
        np.zeros((levels, number, 2), np.uint16),
        np.zeros((levels, number), np.bool_),
        np.array([0, _ENTER]),
    )
    for literal in range(literals if items.max_terms > 0 else 0):
        walk.allowed[0, literal >> 6] |= _ONE << np.uint64(literal & 63)
    return walk


@kernel
def search(items: Items, walk: Walk, found: np.ndarray, errors: np.ndarray, max_nodes: int) -> tuple[int, int]:
    """Go on with a search: write sets and how many pairs they miss, until there is no room, or some nodes are done.

    Returns how many sets were found and how many nodes were looked at; ``walk.state`` says where the search is.
    """
    level, step = walk.state[0], walk.state[1]
    sets, nodes = 0, 0
    weights = np.zeros(items.term_of.size, np.int64)
    while level >= 0:
        if step == _ENTER:
            if nodes == max_nodes or sets == found.shape[0]:
                break
            nodes += 1
            missed, hopeless = _look(items, walk, level, weights)
            if missed <= items.bound and _is_minimal(items, walk.chosen[level], missed, weights):
                found[sets], errors[sets] = walk.chosen[level], missed
                sets += 1
            if missed <= items.bound or hopeless:
                level, step = level - 1, _BACK
                continue
            _open(items, walk, level)
            step = _TRY
        elif step == _BACK:  # a literal whose branch is done may be chosen in the branches after it
            walk.allowed[level, walk.last[level] >> 6] |= _ONE << np.uint64(walk.last[level] & 63)
            step = _TRY
        elif _descend(items, walk, level):
            level, step = level + 1, _ENTER
        else:
            _leave(items, walk, level)
            step = _ENTER
    walk.state[0], walk.state[1] = level, step
    return sets, nodes


@kernel
def _look(items, walk, level, weights):  # type: ignore[no-untyped-def]
    """How many pairs a node misses, and whether no set below it is within the bound and minimal.

    The largest item that is missed is noted, and for each literal the pairs that only it saves (in ``weights``).
    """
    hits, lost, chosen, allowed = walk.hits[level], walk.lost[level], walk.chosen[level], walk.allowed[level]
    missed, gone, largest = 0, 0, -1
    needed = np.zeros_like(chosen)
    weights[:] = 0
    for item in range(items.pairs.size):
        pairs = items.pairs[item]
        if lost[item]:
            missed += pairs
            gone += pairs
            continue
        open_point, dead = -1, False
        for point in range(2):
            if hits[item, point] == 0:
                open_point = point
                dead |= not _common(items.points[item, point], allowed)
        if open_point >= 0:
            missed += pairs
            gone += pairs if dead else 0
            if not dead and pairs > largest:
                largest, walk.item[level], walk.point[level] = pairs, item, open_point
        if not dead:
            _note_savers(items, item, hits, chosen, open_point < 0, needed, weights)
    hopeless = gone > items.bound
    for word in range(chosen.size):
        hopeless |= chosen[word] & ~needed[word] != 0
    return missed, hopeless


@kernel
def _note_savers(items, item, hits, chosen, saved, needed, weights):  # type: ignore[no-untyped-def]
    """Note the literals without which a point of an item would be missed; the item's pairs once for each."""
    first = -1
    for point in range(2):
        if hits[item, point] == 1:
            for word in range(chosen.size):
                only = items.points[item, point, word] & chosen[word]
                if only & items.vital[item, point, word]:
                    needed[word] |= only
                    literal = (word << 6) + lowest(only)
                    if saved and literal != first:
                        weights[literal] += items.pairs[item]
                        first = literal


@kernel
def _common(one, other):  # type: ignore[no-untyped-def]
    both = np.uint64(0)
    for word in range(one.size):
        both |= one[word] & other[word]
    return both != 0


@kernel
def _is_minimal(items, chosen, missed, weights):  # type: ignore[no-untyped-def]
    """Whether too many pairs would be missed without any one literal."""
    for literal in range(weights.size):
        if (chosen[literal >> 6] >> np.uint64(literal & 63)) & _ONE and missed + weights[literal] <= items.bound:
            return False
    return True


@kernel
def _open(items, walk, level):  # type: ignore[no-untyped-def]
    """The literals to try at a node: those of the point that was noted."""
    for word in range(walk.allowed.shape[1]):
        here = items.points[walk.item[level], walk.point[level], word] & walk.allowed[level, word]
        walk.pending[level, word] = here
        walk.allowed[level, word] &= ~here


@kernel
def _leave(items, walk, level):  # type: ignore[no-untyped-def]
    """Let the item be missed: no literal of its point is chosen below."""
    walk.lost[level, walk.item[level]] = True
    for word in range(walk.allowed.shape[1]):
        walk.allowed[level, word] &= ~items.points[walk.item[level], walk.point[level], word]


@kernel
def _descend(items, walk, level):  # type: ignore[no-untyped-def]
    """Make the node below with the next literal; not when there is none."""
    literal, below = -1, level + 1
    for word in range(walk.pending.shape[1]):
        if walk.pending[level, word]:
            literal = (word << 6) + lowest(walk.pending[level, word])
            walk.pending[level, word] &= walk.pending[level, word] - _ONE
            break
    if literal < 0:
        return False
    walk.last[level] = literal
    word, bit = literal >> 6, _ONE << np.uint64(literal & 63)
    walk.chosen[below] = walk.chosen[level]
    walk.chosen[below, word] |= bit
    walk.allowed[below] = walk.allowed[level]
    walk.lost[below] = walk.lost[level]
    for item in range(items.pairs.size):
        for point in range(2):
            hit = items.points[item, point, word] & bit != 0
            walk.hits[below, item, point] = walk.hits[level, item, point] + np.uint16(hit)
    _restrict(items, walk.chosen[below], walk.allowed[below], literal)
    return True


@kernel
def _restrict(items, chosen, allowed, literal):  # type: ignore[no-untyped-def]
    """Take out what can not be chosen any more: what a literal bars, and other terms once there are enough of them."""
    mine, used = np.zeros_like(chosen), 0
    term, of_term = items.term_of[literal], 0
    for one in range(items.most_of.size):
        here = 0
        for word in range(chosen.size):
            here += popcount(chosen[word] & items.of_term[one, word])
        if here:
            used += 1
            for word in range(chosen.size):
                mine[word] |= items.of_term[one, word]
        if one == term:
            of_term = here
    for word in range(chosen.size):
        allowed[word] &= ~items.bars[literal, word]
        if of_term == items.most_of[term]:
            allowed[word] &= ~items.of_term[term, word]
        if used == items.max_terms:
            allowed[word] &= mine[word]
