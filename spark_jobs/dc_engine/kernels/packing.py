"""What a few chosen literals leave of a problem of hitting sets: far fewer points, packed anew.

A point that two of them hit matters no more. One that only one of them hits matters to that literal alone: while there
is such a point, the literal is needed. Literals that can not be chosen any more are left out of the points, and points
that are then the same are taken once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dc_engine.kernels.compiling import kernel

_ONE = np.uint64(1)
_HELD = 512
"""A point is held against so many others at most, to see whether it contains one."""


class Whole(NamedTuple):
    """What is to be hit, and by what.

    ``points[p]`` are the literals that hit a point, ``hit[v]`` the points of a literal. A literal is needed only where
    a point of ``vital[v]`` is hit by no other one (``vital_points`` are the same by points). ``term_of[v]`` is its
    term; of a term at most ``most_of[term]`` literals are chosen, all of which are in ``of_term[term]``; at most
    ``max_terms`` terms are used. ``bars[v]`` are literals that are not chosen together with it.

    ``stronger[v]``, if not -1, hits all that v does, and more where it is vital: a chosen v may be replaced by it.
    ``weaker`` is the inverse; ``rises`` says whether there are any.

    Where there are ``contexts``, only sets are of interest whose marks add up (by XOR) to one of them; with ``of_keys``
    sets that do but for any one literal.
    """

    points: np.ndarray
    vital_points: np.ndarray
    hit: np.ndarray
    vital: np.ndarray
    term_of: np.ndarray
    most_of: np.ndarray
    of_term: np.ndarray
    max_terms: int
    bars: np.ndarray
    stronger: np.ndarray
    weaker: np.ndarray
    rises: bool
    marks: np.ndarray
    contexts: np.ndarray
    of_keys: bool


class Part(NamedTuple):
    """What a root leaves of it: points that are not hit, then for each literal of the root those that only it hits.

    ``edges`` are the first words of these regions, and the end. ``hit`` has all points, ``points`` and ``vital`` only
    those that are not hit; ``there`` has the bits that are points. ``offered`` are the literals to choose from for a
    point: a stronger one only where the weaker one does not hit. Without ``alive`` no set is below the root.
    """

    points: np.ndarray
    offered: np.ndarray
    hit: np.ndarray
    vital: np.ndarray
    there: np.ndarray
    edges: np.ndarray
    alive: bool


@kernel
def popcount(word: np.uint64) -> int:
    """How many bits are set."""
    count = 0
    while word:
        word &= word - _ONE
        count += 1
    return count


@kernel
def lowest(word: np.uint64) -> int:
    """The place of the lowest bit that is set."""
    return popcount((word & (~word + _ONE)) - _ONE)


@kernel
def _regions(whole, root):  # type: ignore[no-untyped-def]
    """The points that no literal of the root hits, and for each literal those that only it hits, as bits."""
    words = whole.hit.shape[1]
    regions = np.zeros((root.size + 1, words), np.uint64)
    missed, twice = regions[0], np.zeros(words, np.uint64)
    for literal in root:
        mine = whole.hit[literal]
        for word in range(words):
            twice[word] |= missed[word] & mine[word]
            missed[word] |= mine[word]
    for place in range(root.size):
        region, mine = regions[place + 1], whole.vital[root[place]]
        for word in range(words):
            region[word] = mine[word] & ~twice[word]
    for word in range(words):
        missed[word] = ~missed[word]
    if words and whole.points.shape[0] & 63:
        missed[words - 1] &= (_ONE << np.uint64(whole.points.shape[0] & 63)) - _ONE
    return regions


@kernel
def _hash(whole, point, allowed, with_vital):  # type: ignore[no-untyped-def]
    mixed = np.uint64(0)
    for word in range(allowed.size):
        mixed = (mixed ^ (whole.points[point, word] & allowed[word])) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(32)
        if with_vital:
            mixed = (mixed ^ (whole.vital_points[point, word] & allowed[word])) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(29)
    return mixed


@kernel
def _same(whole, one, other, allowed, with_vital):  # type: ignore[no-untyped-def]
    for word in range(allowed.size):
        if (whole.points[one, word] ^ whole.points[other, word]) & allowed[word]:
            return False
        if with_vital and (whole.vital_points[one, word] ^ whole.vital_points[other, word]) & allowed[word]:
            return False
    return True


@kernel
def _distinct(whole, region, allowed, with_vital, kept):  # type: ignore[no-untyped-def]
    """Write the numbers of a region's points to ``kept``, of those that look the same the first. How many there are."""
    count = 0
    for word in range(region.size):
        count += popcount(region[word])
    size = 64
    while size < 2 * count:
        size *= 2
    table = np.full(size, -1, np.int32)
    last, number = np.uint64(size - 1), 0
    for word in range(region.size):
        left = region[word]
        while left:
            point = (word << 6) + lowest(left)
            left &= left - _ONE
            slot = _hash(whole, point, allowed, with_vital) & last
            while table[slot] >= 0 and not _same(whole, table[slot], point, allowed, with_vital):
                slot = (slot + _ONE) & last
            if table[slot] < 0:
                table[slot] = point
                kept[number] = point
                number += 1
    return number


@kernel
def _by_size(whole, allowed):  # type: ignore[no-untyped-def]
    """The points in the order of how many literals may hit them; nothing when all have as many."""
    number, words = whole.points.shape
    sizes, counts = np.zeros(number, np.int32), np.zeros(64 * words + 2, np.int64)
    for point in range(number):
        for word in range(words):
            sizes[point] += popcount(whole.points[point, word] & allowed[word])
        counts[sizes[point] + 1] += 1
    if counts.max() == number:
        return np.empty(0, np.int32)
    order, places = np.empty(number, np.int32), np.cumsum(counts)
    for point in range(number):
        order[places[sizes[point]]] = point
        places[sizes[point]] += 1
    return order


@kernel
def _contains_one(whole, point, allowed, held, number):  # type: ignore[no-untyped-def]
    """Whether a point contains one of the first held ones, in which all that is vital to it and there is vital too."""
    words = allowed.size
    for other in range(number):
        outside = np.uint64(0)
        for word in range(words):
            smaller = held[other, word]
            outside |= smaller & ~whole.points[point, word]
            outside |= smaller & whole.vital_points[point, word] & ~held[other, words + word]
        if not outside:
            return True
    return False


@kernel
def _keep_smallest(whole, region, allowed):  # type: ignore[no-untyped-def]
    """Leave out points that contain another: what hits the smaller one hits them, and is needed there if it is here.

    Each is held against some of the smallest.
    """
    words, number = allowed.size, 0
    held = np.empty((_HELD, 2 * words), np.uint64)
    for point in _by_size(whole, allowed):
        if _contains_one(whole, point, allowed, held, number):
            region[point >> 6] &= ~(_ONE << np.uint64(point & 63))
        elif number < _HELD:
            for word in range(words):
                held[number, word] = whole.points[point, word] & allowed[word]
                held[number, words + word] = whole.vital_points[point, word] & allowed[word]
            number += 1


@kernel
def _is_open(whole, point, allowed):  # type: ignore[no-untyped-def]
    left = np.uint64(0)
    for word in range(allowed.size):
        left |= whole.points[point, word] & allowed[word]
    return left != 0


@kernel
def without(kept, points, hit):  # type: ignore[no-untyped-def]
    """Write the points that a literal does not hit; whether there are any."""
    left = np.uint64(0)
    for word in range(kept.size):
        rest = points[word] & ~hit[word]
        kept[word] = rest
        left |= rest
    return left != 0


@kernel
def both(kept, points, others):  # type: ignore[no-untyped-def]
    """Write the points that are in two sets; whether there are any."""
    left = np.uint64(0)
    for word in range(kept.size):
        rest = points[word] & others[word]
        kept[word] = rest
        left |= rest
    return left != 0


@kernel
def has(words, literal):  # type: ignore[no-untyped-def]
    """Whether a literal is in a set."""
    return literal >= 0 and (words[literal >> 6] >> np.uint64(literal & 63)) & _ONE != 0


@kernel
def _may_rise(whole, literal, allowed):  # type: ignore[no-untyped-def]
    """Whether a stronger literal may take the place of one that is chosen."""
    return has(allowed, whole.stronger[literal])


@kernel
def pack(whole: Whole, root: np.ndarray, allowed: np.ndarray) -> Part:
    """What is left of a problem when the literals of a root are chosen and only allowed ones may join them."""
    regions = _regions(whole, root)
    if not root.size:
        _keep_smallest(whole, regions[0], allowed)
    kept = np.empty((root.size + 1, whole.points.shape[0]), np.int32)
    sizes, edges = np.zeros(root.size + 1, np.int64), np.zeros(root.size + 2, np.int64)
    alive = True
    for place in range(root.size + 1):
        sizes[place] = _distinct(whole, regions[place], allowed, place == 0, kept[place])
        edges[place + 1] = edges[place] + (sizes[place] + 63) // 64
        if place and not sizes[place] and not _may_rise(whole, root[place - 1], allowed):
            alive = False  # a literal of the root is needless
    for number in range(sizes[0]):
        if not _is_open(whole, kept[0, number], allowed):
            alive = False  # a point can not be hit
    points = np.zeros((sizes[0], allowed.size), np.uint64)
    offered = np.zeros_like(points) if whole.rises else points
    hit = np.zeros((whole.hit.shape[0], edges[-1]), np.uint64)
    vital = np.zeros((whole.hit.shape[0], edges[1]), np.uint64)
    there = np.zeros(edges[-1], np.uint64)
    part = Part(points, offered, hit, vital, there, edges, alive)
    for place in range(root.size + 1 if alive else 0):
        for number in range(sizes[place]):
            _put(whole, part, kept[place, number], (edges[place] << 6) + number, allowed)
    return part


@kernel
def _put(whole, part, point, place, allowed):  # type: ignore[no-untyped-def]
    """Enter a point of the whole at a place of the part."""
    bit, at = _ONE << np.uint64(place & 63), place >> 6
    part.there[at] |= bit
    for word in range(allowed.size):
        left = whole.points[point, word] & allowed[word]
        if at < part.edges[1]:
            part.points[place, word] = left
            part.offered[place, word] = left
        while left:
            literal = (word << 6) + lowest(left)
            part.hit[literal, at] |= bit
            if whole.rises and at < part.edges[1] and has(whole.points[point], whole.weaker[literal]):
                part.offered[place, word] &= ~(left & (~left + _ONE))
            left &= left - _ONE
        if at < part.edges[1]:
            left = whole.vital_points[point, word] & allowed[word]
            while left:
                part.vital[(word << 6) + lowest(left), at] |= bit
                left &= left - _ONE


@kernel
def smallest_points(whole: Whole) -> np.ndarray:
    """The numbers of the points without most of those that contain another one."""
    everything = np.full(whole.points.shape[1], ~np.uint64(0))
    region = np.full((whole.points.shape[0] + 63) // 64, ~np.uint64(0))
    _keep_smallest(whole, region, everything)
    kept = np.empty(whole.points.shape[0], np.int32)
    if whole.points.shape[0] & 63:
        region[-1] &= (_ONE << np.uint64(whole.points.shape[0] & 63)) - _ONE
    return kept[: _distinct(whole, region, everything, True, kept)]
