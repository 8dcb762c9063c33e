"""All minimal hitting sets of some points: sets of literals that have a literal in common with each point.

A depth-first search in the manner of Murakami and Uno's MMCS. A node has the chosen literals, those that may still be
chosen, the points that are not hit yet, and for each chosen literal the points that only it hits: once there is none,
the literal is needless for good, and the node is given up. Points are rows of bits, and sets of points are too.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_ONE = np.uint64(1)
_TRIED = 16
"""So many points that are not hit are looked at, to branch on the one that leaves fewest choices."""


@njit(cache=True, nogil=True, inline="always")
def _has(words: np.ndarray, bit: int) -> bool:
    return (words[bit >> 6] >> np.uint64(bit & 63)) & _ONE != 0


@njit(cache=True, nogil=True)
def _popcount(word: np.uint64) -> int:
    count = 0
    while word:
        word &= word - _ONE
        count += 1
    return count


@njit(cache=True, nogil=True)
def _lowest(word: np.uint64) -> int:
    return _popcount((word & (~word + _ONE)) - _ONE)


@njit(cache=True, nogil=True)
def _pick(uncovered: np.ndarray, points: np.ndarray, allowed: np.ndarray) -> tuple[int, int]:
    """A point that is not hit, with few literals that may be chosen, and how many; -1 when all are hit."""
    best, fewest, tried = -1, 1 << 60, 0
    for word in range(uncovered.size):
        left = uncovered[word]
        while left:
            point = (word << 6) + _lowest(left)
            left &= left - _ONE
            choices = 0
            for one in range(allowed.size):
                choices += _popcount(points[point, one] & allowed[one])
            if choices < fewest:
                best, fewest = point, choices
            tried += 1
            if fewest <= 1 or tried >= _TRIED:
                return best, fewest
    return best, fewest


@njit(cache=True, nogil=True)
def search(
    points: np.ndarray,
    hit: np.ndarray,
    vital: np.ndarray,
    term_of: np.ndarray,
    most_of: np.ndarray,
    of_term: np.ndarray,
    root: np.ndarray,
    allowed_at_root: np.ndarray,
    max_terms: int,
    found: np.ndarray,
    max_nodes: int,
) -> tuple[int, int, bool]:
    """Write all minimal hitting sets that contain ``root`` and otherwise only allowed literals to ``found``.

    ``points[p]`` are the literals of a point, ``hit[v]`` the points of a literal. A literal is needed only where a
    point of ``vital[v]`` is hit by no other one. ``term_of[v]`` is its term; of a term at most ``most_of[term]``
    literals are chosen, all of which are in ``of_term[term]``; at most ``max_terms`` terms are used. Returns how many
    sets were found, how many nodes were looked at, and whether it stopped for want of room or nodes.
    """
    literals, point_words = hit.shape
    literal_words = points.shape[1]
    depth = literals + 2
    chosen = np.zeros((depth, literal_words), np.uint64)
    allowed = np.zeros((depth, literal_words), np.uint64)
    branch = np.zeros((depth, literal_words), np.uint64)
    order = np.zeros(depth, np.int64)
    uncovered = np.zeros((depth, point_words), np.uint64)
    levels = min(depth, max(most_of.max() * max_terms, root.size) + 2)
    critical = np.zeros((levels, levels, point_words), np.uint64)
    used = np.zeros((depth, most_of.size), np.int64)
    terms = np.zeros(depth, np.int64)
    number = points.shape[0]
    for point in range(number):
        uncovered[0, point >> 6] |= _ONE << np.uint64(point & 63)
    allowed[0] = allowed_at_root
    level = 0
    for literal in root:
        if not _choose(
            level,
            literal,
            chosen,
            allowed,
            uncovered,
            critical,
            used,
            terms,
            order,
            hit,
            vital,
            term_of,
            most_of,
            of_term,
            max_terms,
        ):
            return 0, 0, False
        level += 1
    bottom = level
    sets, nodes = 0, 0
    entering = True
    while level >= bottom:
        if entering:
            nodes += 1
            if nodes > max_nodes:
                return sets, nodes, True
            point, choices = _pick(uncovered[level], points, allowed[level])
            if point < 0:
                if sets == found.shape[0]:
                    return sets, nodes, True
                found[sets] = chosen[level]
                sets += 1
                branch[level] = 0
            elif choices == 0:
                branch[level] = 0
            else:
                for word in range(literal_words):
                    branch[level, word] = points[point, word] & allowed[level, word]
                    allowed[level, word] &= ~branch[level, word]
            entering = False
        literal = -1
        for word in range(literal_words):
            if branch[level, word]:
                literal = (word << 6) + _lowest(branch[level, word])
                branch[level, word] &= branch[level, word] - _ONE
                break
        if literal < 0:
            level -= 1
            if level >= bottom:  # a literal whose branch is done may be chosen in the branches after it
                done = order[level]
                allowed[level, done >> 6] |= _ONE << np.uint64(done & 63)
            continue
        if _choose(
            level,
            literal,
            chosen,
            allowed,
            uncovered,
            critical,
            used,
            terms,
            order,
            hit,
            vital,
            term_of,
            most_of,
            of_term,
            max_terms,
        ):
            level += 1
            entering = True
    return sets, nodes, False


@njit(cache=True, nogil=True)
def _choose(
    level: int,
    literal: int,
    chosen: np.ndarray,
    allowed: np.ndarray,
    uncovered: np.ndarray,
    critical: np.ndarray,
    used: np.ndarray,
    terms: np.ndarray,
    order: np.ndarray,
    hit: np.ndarray,
    vital: np.ndarray,
    term_of: np.ndarray,
    most_of: np.ndarray,
    of_term: np.ndarray,
    max_terms: int,
) -> bool:
    """Make the node below with one more literal; not when the literal, or one before it, would be needless."""
    below = level + 1
    for earlier in range(level):
        left = np.uint64(0)
        for word in range(hit.shape[1]):
            rest = critical[level, earlier, word] & ~hit[literal, word]
            critical[below, earlier, word] = rest
            left |= rest
        if not left:
            return False
    left = np.uint64(0)
    for word in range(hit.shape[1]):
        own = uncovered[level, word] & vital[literal, word]
        critical[below, level, word] = own
        left |= own
        uncovered[below, word] = uncovered[level, word] & ~hit[literal, word]
    if not left:
        return False
    term = term_of[literal]
    chosen[below] = chosen[level]
    chosen[below, literal >> 6] |= _ONE << np.uint64(literal & 63)
    allowed[below] = allowed[level]
    allowed[below, literal >> 6] &= ~(_ONE << np.uint64(literal & 63))
    used[below] = used[level]
    used[below, term] += 1
    terms[below] = terms[level] + (used[level, term] == 0)
    if used[below, term] == most_of[term]:
        for word in range(allowed.shape[1]):
            allowed[below, word] &= ~of_term[term, word]
    if terms[below] >= max_terms and terms[level] < max_terms:
        for word in range(allowed.shape[1]):
            mine = np.uint64(0)
            for one in range(most_of.size):
                if used[below, one]:
                    mine |= of_term[one, word]
            allowed[below, word] &= mine
    order[level] = literal
    return True
