"""Literals that may be replaced by stronger ones, in the search for hitting sets.

A stronger literal hits all that a weaker one does, and is needed only where it hits more. The weaker one is chosen
first, and replaced where more has to be hit; until then it need not have a point of its own. So a point that both hit
is tried with one of them, and not with each.
"""

from __future__ import annotations

import numpy as np

from dc_engine.kernels.compiling import kernel
from dc_engine.kernels.packing import both, has, without

_ONE = np.uint64(1)


@kernel
def let_rise(whole, path, level, literal, where):  # type: ignore[no-untyped-def]
    """Allow the literal that is stronger than one of a level's branch, if it was allowed before."""
    stronger = whole.stronger[literal]
    if has(path.risen[level], stronger):
        path.allowed[where, stronger >> 6] |= _ONE << np.uint64(stronger & 63)


@kernel
def is_minimal(part, path, level):  # type: ignore[no-untyped-def]
    """Whether each chosen literal has a point of its own; only those that could be replaced may not have one."""
    edges = part.edges
    for earlier in range(level):
        if not path.replaced[level, earlier] and not path.critical[level, earlier].any():
            return False
    for place in range(1, edges.size - 1):
        mine = path.own[level, edges[place] - edges[1] : edges[place + 1] - edges[1]]
        if not path.replaced[level, path.replaced.shape[1] - edges.size + 1 + place] and not mine.any():
            return False
    return True


@kernel
def is_needed_or_replaced(whole, part, path, level, literal):  # type: ignore[no-untyped-def]
    """Whether each literal has a point of its own still, or may be replaced by a stronger one that has one.

    The points of the node below are written on the way.
    """
    below, edges = level + 1, part.edges
    if not both(path.critical[below, level], path.uncovered[level], part.vital[literal]):
        return False
    hit = part.hit[literal, : edges[1]]
    without(path.uncovered[below], path.uncovered[level], hit)
    path.replaced[below] = path.replaced[level]
    path.replaced[below, level] = False
    for earlier in range(level):
        kept = without(path.critical[below, earlier], path.critical[level, earlier], hit)
        if not kept and not _is_replaced(whole, part, path, level, earlier, path.last[earlier], literal):
            return False
    levels = path.replaced.shape[1] - edges.size + 2
    for place in range(1, edges.size - 1):
        first, last = edges[place] - edges[1], edges[place + 1] - edges[1]
        mine = part.hit[literal, edges[place] : edges[place + 1]]
        kept = without(path.own[below, first:last], path.own[level, first:last], mine)
        at, earlier = levels + place - 1, path.root[place - 1]
        if not kept and not _is_replaced(whole, part, path, level, at, earlier, literal):
            return False
    return True


@kernel
def _is_replaced(whole, part, path, level, at, earlier, literal):  # type: ignore[no-untyped-def]
    """Whether a literal without a point of its own is replaced: by the one that is chosen now, or by one to come."""
    below, stronger = level + 1, whole.stronger[earlier]
    if stronger == literal and stronger >= 0:
        path.replaced[below, at] = True
    if path.replaced[below, at]:
        return True
    if has(whole.bars[literal], stronger):
        return False
    if not has(path.allowed[level], stronger) and not has(path.branch[level], stronger):  # one to be tried comes back
        return False
    left = np.uint64(0)
    for word in range(part.edges[1]):
        left |= path.uncovered[below, word] & part.vital[stronger, word]
    return left != 0
