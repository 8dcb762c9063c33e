"""All minimal hitting sets of some points: sets of literals that have a literal in common with each point.

A depth-first search in the manner of Murakami and Uno's MMCS. A node has the chosen literals, those that may still be
chosen, the points that are not hit yet, and for each chosen literal the points that only it hits: once there is none,
the literal is needless for good, and the node is given up. Points are rows of bits, and sets of points are too.
"""

from __future__ import annotations

from typing import NamedTuple

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


class Problem(NamedTuple):
    """What is to be hit, and by what.

    ``points[p]`` are the literals of a point, ``hit[v]`` the points of a literal. A literal is needed only where a
    point of ``vital[v]`` is hit by no other one. ``term_of[v]`` is its term; of a term at most ``most_of[term]``
    literals are chosen, all of which are in ``of_term[term]``; at most ``max_terms`` terms are used.
    """

    points: np.ndarray
    hit: np.ndarray
    vital: np.ndarray
    term_of: np.ndarray
    most_of: np.ndarray
    of_term: np.ndarray
    max_terms: int


class Path(NamedTuple):
    """The nodes from the first to the current one, by their depth."""

    chosen: np.ndarray
    allowed: np.ndarray
    branch: np.ndarray
    """Literals that are still to be tried at a node."""
    last: np.ndarray
    """The literal by which the node below was made."""
    uncovered: np.ndarray
    critical: np.ndarray
    used: np.ndarray
    """How many literals of each term are chosen."""
    terms: np.ndarray


@njit(cache=True, nogil=True)
def search(
    problem: Problem, root: np.ndarray, allowed: np.ndarray, found: np.ndarray, max_nodes: int
) -> tuple[int, int, bool]:
    """Write all minimal hitting sets that contain ``root`` and otherwise only allowed literals to ``found``.

    Returns how many sets were found, how many nodes were looked at, and whether it stopped for want of room or nodes.
    """
    path = _first_node(problem, root.size, allowed)
    level = 0
    for literal in root:
        if not _choose(problem, path, level, literal):
            return 0, 0, False
        level += 1
    bottom, sets, nodes = level, 0, 0
    entering = True
    while level >= bottom:
        if entering:
            nodes += 1
            if nodes > max_nodes:
                return sets, nodes, True
            if _branch(problem, path, level):
                if sets == found.shape[0]:
                    return sets, nodes, True
                found[sets] = path.chosen[level]
                sets += 1
            entering = False
        literal = _next(path.branch[level])
        if literal >= 0:
            if _choose(problem, path, level, literal):
                level += 1
                entering = True
            continue
        level -= 1
        if level >= bottom:  # a literal whose branch is done may be chosen in the branches after it
            done = path.last[level]
            path.allowed[level, done >> 6] |= _ONE << np.uint64(done & 63)
    return sets, nodes, False


@njit(cache=True, nogil=True)
def _first_node(problem: Problem, root: int, allowed: np.ndarray) -> Path:
    """The node with nothing chosen, and room for all below it."""
    literals, point_words = problem.hit.shape
    depth, words = literals + 2, problem.points.shape[1]
    levels = min(depth, max(problem.most_of.max() * problem.max_terms, root) + 2)
    path = Path(
        np.zeros((depth, words), np.uint64),
        np.zeros((depth, words), np.uint64),
        np.zeros((depth, words), np.uint64),
        np.zeros(depth, np.int64),
        np.zeros((depth, point_words), np.uint64),
        np.zeros((levels, levels, point_words), np.uint64),
        np.zeros((depth, problem.most_of.size), np.int64),
        np.zeros(depth, np.int64),
    )
    for point in range(problem.points.shape[0]):
        path.uncovered[0, point >> 6] |= _ONE << np.uint64(point & 63)
    path.allowed[0] = allowed
    return path


@njit(cache=True, nogil=True)
def _branch(problem: Problem, path: Path, level: int) -> bool:
    """Choose the literals to try at a node: those of one point that is not hit. Whether all points are hit."""
    point, choices = _pick(path.uncovered[level], problem.points, path.allowed[level])
    path.branch[level] = 0
    if point >= 0 and choices:
        for word in range(problem.points.shape[1]):
            path.branch[level, word] = problem.points[point, word] & path.allowed[level, word]
            path.allowed[level, word] &= ~path.branch[level, word]
    return point < 0


@njit(cache=True, nogil=True)
def _next(branch: np.ndarray) -> int:
    """Take the next literal of a branch; -1 when there is none."""
    for word in range(branch.size):
        if branch[word]:
            literal = (word << 6) + _lowest(branch[word])
            branch[word] &= branch[word] - _ONE
            return literal
    return -1


@njit(cache=True, nogil=True)
def _choose(problem: Problem, path: Path, level: int, literal: int) -> bool:
    """Make the node below with one more literal; not when the literal, or one before it, would be needless."""
    return _is_needed(problem, path, level, literal) and _add(problem, path, level, literal)


@njit(cache=True, nogil=True)
def _is_needed(problem: Problem, path: Path, level: int, literal: int) -> bool:
    """Whether each literal has a point of its own still; the points of the node below are written on the way."""
    hit, critical = problem.hit, path.critical
    for earlier in range(level):
        left = np.uint64(0)
        for word in range(hit.shape[1]):
            rest = critical[level, earlier, word] & ~hit[literal, word]
            critical[level + 1, earlier, word] = rest
            left |= rest
        if not left:
            return False
    left = np.uint64(0)
    for word in range(hit.shape[1]):
        own = path.uncovered[level, word] & problem.vital[literal, word]
        critical[level + 1, level, word] = own
        left |= own
        path.uncovered[level + 1, word] = path.uncovered[level, word] & ~hit[literal, word]
    return left != 0


@njit(cache=True, nogil=True)
def _add(problem: Problem, path: Path, level: int, literal: int) -> bool:
    """Write what is chosen, and what may still be, at the node below."""
    below, term = level + 1, problem.term_of[literal]
    path.chosen[below] = path.chosen[level]
    path.chosen[below, literal >> 6] |= _ONE << np.uint64(literal & 63)
    path.allowed[below] = path.allowed[level]
    path.used[below] = path.used[level]
    path.used[below, term] += 1
    path.terms[below] = path.terms[level] + (path.used[level, term] == 0)
    if path.used[below, term] == problem.most_of[term]:
        for word in range(path.allowed.shape[1]):
            path.allowed[below, word] &= ~problem.of_term[term, word]
    if path.terms[below] == problem.max_terms and path.terms[level] < problem.max_terms:
        for word in range(path.allowed.shape[1]):
            mine = np.uint64(0)
            for one in range(problem.most_of.size):
                if path.used[below, one]:
                    mine |= problem.of_term[one, word]
            path.allowed[below, word] &= mine
    path.last[level] = literal
    return True
