"""All minimal hitting sets of some points: sets of literals that have a literal in common with each point.

A depth-first search in the manner of Murakami and Uno's MMCS. A node has the chosen literals, those that may still be
chosen, the points that are not hit yet, and for each chosen literal the points that only it hits: once there is none,
the literal is needless for good, and the node is given up. Points are rows of bits, and sets of points are too.

A search begins at a root, some literals that are chosen already, with the points packed for it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dc_engine.kernels.compiling import kernel
from dc_engine.kernels.packing import Part, Whole, both, has, lowest, pack, popcount, without
from dc_engine.kernels.rising import is_minimal, is_needed_or_replaced, let_rise

_ONE = np.uint64(1)
_TRIED = 16
"""So many points that are not hit are looked at, to branch on the one that leaves fewest choices."""


class Path(NamedTuple):
    """The nodes from the root to the current one, by their depth."""

    chosen: np.ndarray
    allowed: np.ndarray
    branch: np.ndarray
    """Literals that are still to be tried at a node."""
    last: np.ndarray
    """The literal by which the node below was made."""
    uncovered: np.ndarray
    critical: np.ndarray
    own: np.ndarray
    """The points of the root's literals."""
    root: np.ndarray
    replaced: np.ndarray
    """Whether the literal of a level (after these: of the root) was replaced by a stronger one."""
    risen: np.ndarray
    """Literals of a node's point, of which stronger ones are allowed again with the weaker ones."""
    used: np.ndarray
    """How many literals of each term are chosen."""
    terms: np.ndarray
    state: np.ndarray
    """Where the search is: the depth (-1 at the end), and whether the node is new."""


@kernel
def start(whole: Whole, part: Part, root: np.ndarray, allowed: np.ndarray) -> Path:
    """The node of a root, and room for all below it."""
    words, open_words = allowed.size, part.edges[1]
    own_words, terms = part.edges[-1] - open_words, whole.most_of.size
    free = 0
    for word in range(words):
        free += popcount(allowed[word])
    levels = min(free, whole.most_of.max() * whole.max_terms, whole.most_of.sum()) + 2
    path = Path(
        np.zeros((levels, words), np.uint64),
        np.zeros((levels, words), np.uint64),
        np.zeros((levels, words), np.uint64),
        np.zeros(levels, np.int64),
        np.empty((levels, open_words), np.uint64),
        np.empty((levels, levels, open_words), np.uint64),
        np.empty((levels, own_words), np.uint64),
        root,
        np.zeros((levels, levels + root.size), np.bool_),
        np.zeros((levels, words), np.uint64),
        np.zeros((levels, terms), np.int64),
        np.zeros(levels, np.int64),
        np.array([0, 1]),
    )
    path.allowed[0] = allowed
    path.uncovered[0] = part.there[:open_words]
    path.own[0] = part.there[open_words:]
    for literal in root:
        path.chosen[0, literal >> 6] |= _ONE << np.uint64(literal & 63)
        path.terms[0] += path.used[0, whole.term_of[literal]] == 0
        path.used[0, whole.term_of[literal]] += 1
    if not part.alive:
        path.state[0] = -1
    return path


@kernel
def search(whole: Whole, part: Part, path: Path, found: np.ndarray, max_nodes: int) -> tuple[int, int]:
    """Go on with a search: write the sets to ``found`` until it is full, or some nodes are done, or the search is.

    Returns how many sets were found and how many nodes were looked at; ``path.state`` says where the search is.
    """
    level, entering = path.state[0], path.state[1]
    sets, nodes = 0, 0
    while level >= 0:
        if entering:
            if nodes == max_nodes or sets == found.shape[0]:
                break
            nodes += 1
            entering = 0
            if _branch(whole.rises, part, path, level) and (not whole.rises or is_minimal(part, path, level)):
                found[sets] = path.chosen[level]
                sets += 1
        literal = _next(path.branch[level])
        if literal >= 0:
            if _choose(whole, part, path, level, literal):
                level += 1
                entering = 1
            continue
        level -= 1
        if level >= 0:
            _give_back(path, level)
            if whole.rises:
                let_rise(whole, path, level, path.last[level], level)
    path.state[0], path.state[1] = level, entering
    return sets, nodes


@kernel
def search_roots(  # type: ignore[no-untyped-def]
    whole, roots, edges, allowed, first, found, max_nodes
) -> tuple[int, int, int]:
    """Search from many roots, one after the other: the numbers from ``edges[place]`` on are the literals of one.

    Returns the place of the first root that is not done (it needs more nodes, or ``found`` is full), how many sets were
    found below those before, and the nodes.
    """
    sets, nodes, place = 0, 0, first
    while place < edges.size - 1:
        root = roots[edges[place] : edges[place + 1]]
        part = pack(whole, root, allowed[place])
        path = start(whole, part, root, allowed[place])
        more, looked = search(whole, part, path, found[sets:], max_nodes - nodes)
        if path.state[0] >= 0:
            break
        sets += more
        nodes += looked
        place += 1
    return place, sets, nodes


@kernel
def split(whole: Whole, root: np.ndarray, allowed: np.ndarray, literals: np.ndarray, below: np.ndarray) -> int:
    """Write the literals that lead from a root to the nodes below it, and what is allowed there.

    Returns how many there are; -1 when the root itself is a hitting set.
    """
    part = pack(whole, root, allowed)
    path = start(whole, part, root, allowed)
    if path.state[0] < 0:
        return 0
    top, number = np.int64(0), 0  # a constant would be another type, for which all below is compiled once more
    if _branch(whole.rises, part, path, top):
        return -1 if not whole.rises or is_minimal(part, path, top) else 0
    while True:
        literal = _next(path.branch[0])
        if literal < 0:
            return number
        if _choose(whole, part, path, top, literal):
            literals[number], below[number] = literal, path.allowed[1]
            number += 1
            _give_back(path, top)
            if whole.rises:
                let_rise(whole, path, top, literal, top)


@kernel
def _give_back(path: Path, level: int) -> None:
    """A literal whose branch is done may be chosen in the branches after it."""
    done = path.last[level]
    path.allowed[level, done >> 6] |= _ONE << np.uint64(done & 63)


@kernel
def _pick(uncovered: np.ndarray, points: np.ndarray, allowed: np.ndarray) -> tuple[int, int]:
    """A point that is not hit, with few literals that may be chosen, and how many; -1 when all are hit."""
    best, fewest, tried = -1, 1 << 60, 0
    for word in range(uncovered.size):
        left = uncovered[word]
        while left:
            point = (word << 6) + lowest(left)
            left &= left - _ONE
            choices = 0
            for one in range(allowed.size):
                choices += popcount(points[point, one] & allowed[one])
            if choices < fewest:
                best, fewest = point, choices
            tried += 1
            if fewest <= 1 or tried >= _TRIED:
                return best, fewest
    return best, fewest


@kernel
def _branch(rises: bool, part: Part, path: Path, level: int) -> bool:
    """Choose the literals to try at a node: those of one point that is not hit. Whether all points are hit."""
    point, choices = _pick(path.uncovered[level], part.offered, path.allowed[level])
    path.branch[level] = 0
    if point >= 0 and choices:
        for word in range(part.points.shape[1]):
            path.branch[level, word] = part.offered[point, word] & path.allowed[level, word]
            if rises:
                path.risen[level, word] = part.points[point, word] & path.allowed[level, word]
                path.allowed[level, word] &= ~path.risen[level, word]
            path.allowed[level, word] &= ~path.branch[level, word]
    return point < 0


@kernel
def _next(branch: np.ndarray) -> int:
    """Take the next literal of a branch; -1 when there is none."""
    for word in range(branch.size):
        if branch[word]:
            literal = (word << 6) + lowest(branch[word])
            branch[word] &= branch[word] - _ONE
            return literal
    return -1


@kernel
def _choose(whole, part, path, level, literal):  # type: ignore[no-untyped-def]
    """Make the node below with one more literal; not when the literal, or one before it, would be needless."""
    if whole.contexts.size and not _is_context(whole, path.chosen[level], literal):
        return False
    if whole.rises:
        if not is_needed_or_replaced(whole, part, path, level, literal):
            return False
    elif not _is_needed(part, path, level, literal):
        return False
    _add(whole, path, level, literal)
    return True


@kernel
def _is_context(whole, chosen, literal):  # type: ignore[no-untyped-def]
    """Whether a set with one more literal may be of interest. If it is not, nor is any that contains it."""
    total = np.uint64(0) if whole.of_keys else whole.marks[literal]
    for word in range(chosen.size):
        left = chosen[word]
        while left:
            total ^= whole.marks[(word << 6) + lowest(left)]
            left &= left - _ONE
    place = np.searchsorted(whole.contexts, total)
    return place < whole.contexts.size and whole.contexts[place] == total


@kernel
def _is_needed(part, path, level, literal):  # type: ignore[no-untyped-def]
    """Whether each literal has a point of its own still; the points of the node below are written on the way."""
    below, edges = level + 1, part.edges
    if not both(path.critical[below, level], path.uncovered[level], part.vital[literal]):
        return False
    hit = part.hit[literal, : edges[1]]
    for earlier in range(level):
        if not without(path.critical[below, earlier], path.critical[level, earlier], hit):
            return False
    for place in range(1, edges.size - 1):
        first, last = edges[place] - edges[1], edges[place + 1] - edges[1]
        mine = part.hit[literal, edges[place] : edges[place + 1]]
        if not without(path.own[below, first:last], path.own[level, first:last], mine):
            return False
    without(path.uncovered[below], path.uncovered[level], hit)
    return True


@kernel
def _add(whole, path, level, literal):  # type: ignore[no-untyped-def]
    """Write what is chosen, and what may still be, at the node below."""
    below, term = level + 1, whole.term_of[literal]
    path.chosen[below] = path.chosen[level]
    path.chosen[below, literal >> 6] |= _ONE << np.uint64(literal & 63)
    path.allowed[below] = path.allowed[level]
    path.used[below] = path.used[level]
    path.used[below, term] += 1
    if whole.rises:
        let_rise(whole, path, level, literal, below)
        weaker = whole.weaker[literal]
        if has(path.chosen[level], weaker):
            path.chosen[below, weaker >> 6] &= ~(_ONE << np.uint64(weaker & 63))
            path.used[below, term] -= 1
    path.terms[below] = path.terms[level] + (path.used[level, term] == 0)
    path.last[level] = literal
    for word in range(path.allowed.shape[1]):
        path.allowed[below, word] &= ~whole.bars[literal, word]
    if path.used[below, term] == whole.most_of[term]:
        for word in range(path.allowed.shape[1]):
            path.allowed[below, word] &= ~whole.of_term[term, word]
    if path.terms[below] == whole.max_terms and path.terms[level] < whole.max_terms:
        for word in range(path.allowed.shape[1]):
            mine = np.uint64(0)
            for one in range(whole.most_of.size):
                if path.used[below, one]:
                    mine |= whole.of_term[one, word]
            path.allowed[below, word] &= mine
