"""Boxes: dependencies of every class in one form.

A box says for each term which outcomes it admits, all of them where it says nothing. A dependency forbids the pairs of
rows whose pattern lies in its box. The smaller the box, the weaker the dependency: it follows from any with a larger
one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

from dc_engine.constraints.model import Body, Column, Predicate
from dc_engine.constraints.normalise import normalise
from dc_engine.discovery.bits import packed
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.terms import ALL, Outcome, Terms, op_of

Box = tuple[int, ...]
"""The outcomes that each term admits, as ``Outcome`` has them."""
_AT_ONCE = 1 << 20
_ALL, _EQUAL = int(ALL), int(Outcome.EQUAL)
_DIFFERENT = int(Outcome.LESS | Outcome.GREATER)
_TURNED = tuple(
    (mask & _EQUAL)
    | (int(Outcome.GREATER) if mask & Outcome.LESS else 0)
    | (int(Outcome.LESS) if mask & Outcome.GREATER else 0)
    for mask in range(_ALL + 1)
)
"""The same outcomes with t and s exchanged."""
_TURNING = frozenset(mask for mask, other in enumerate(_TURNED) if mask != other)
_ORDERED_BITS = (None, (3, 1), (3, 3), (1, 1), (3, 2), None, (2, 2), None)
_EQUAL_BITS = (None, (1, 0), (1, 1), None, (1, 0), (1, 0), None, None)
"""For the outcomes that are admitted: which bits of a term are looked at, and what they are."""


def of_literals(terms: Terms, chosen: Iterable[int]) -> Box:
    """The box that excludes some literals."""
    box = [_ALL] * len(terms.terms)
    for number in chosen:
        literal = terms.literals[number]
        box[literal.term] &= ~int(literal.excludes)
    return tuple(box)


def literals_of(terms: Terms, box: Box) -> frozenset[int]:
    """The literals that a box excludes: the inverse of ``of_literals``."""
    chosen = []
    for number, literal in enumerate(terms.literals):
        excluded = _ALL & ~box[literal.term]
        single = terms.most[literal.term] == 2
        if literal.excludes & excluded == literal.excludes and (single or literal.excludes == excluded):
            chosen.append(number)
    return frozenset(chosen)


def agreeing(terms: Terms, columns: Iterable[str], differing: str | None = None) -> Box:
    """The pairs of rows that agree on some columns and (if given) differ in another."""
    box = [_ALL] * len(terms.terms)
    for name in columns:
        box[terms.own[name]] = _EQUAL
    if differing is not None:
        box[terms.own[differing]] = _DIFFERENT
    return tuple(box)


def carried(before: Terms, after: Terms, kind: str, box: Box) -> Box:
    """A box of some class in the terms of a table in which more columns have NULLs."""
    result = [_ALL] * len(after.terms)
    for place in said(box):
        result[after.first[before.terms[place].left] if kind == "od" else place] = box[place]
    return canonical(after, tuple(result)) if kind == "od" else tuple(result)


def mirrored(terms: Terms, box: Box) -> Box:
    """The same pairs of rows, t and s exchanged."""
    return tuple(_TURNED[box[other]] for other in terms.mirror)


def turned(table: np.ndarray) -> np.ndarray:
    """Admitted outcomes with those of less and of greater exchanged."""
    return np.array(_TURNED, np.uint8)[table]


def ways(terms: Terms, box: Box) -> tuple[Box, ...]:
    """A box and its mirror image, as far as the operators of the terms can say them."""
    both = (box, mirrored(terms, box))
    if terms.symmetric:
        return both
    sayable = (one for one in both if all(mask in known for mask, known in zip(one, terms.admitted, strict=True)))
    return tuple(sayable) or both


def canonical(terms: Terms, box: Box) -> Box:
    """One of a box and its mirror image, the same whichever columns have NULLs."""
    if terms.symmetric and _TURNING.isdisjoint(box):
        return box
    both = ways(terms, box)
    if terms.compared == len(terms.terms):
        return min(both)
    return min(both, key=lambda one: [one[place] for place in terms.by_column])


@lru_cache(maxsize=1 << 16)
def equalities(box: Box) -> frozenset[int]:
    """The terms on which a box asks for equality."""
    return frozenset(place for place, mask in enumerate(box) if mask == _EQUAL)


def said(box: Box) -> list[int]:
    """The terms about which a box says something."""
    return [place for place, mask in enumerate(box) if mask != _ALL]


def matrix(terms: Terms, boxes: Sequence[Box]) -> np.ndarray:
    """Boxes as rows of a table."""
    return np.array(boxes, np.uint8).reshape(len(boxes), len(terms.terms))


def follow(terms: Terms, boxes: Sequence[Box], stronger: Sequence[Box]) -> np.ndarray:
    """Which boxes lie in some other, taken either way round."""
    inside = np.zeros(len(boxes), bool)
    if not len(boxes) or not len(stronger):
        return inside
    others = matrix(terms, stronger)
    outside = ~_words(np.concatenate([others, turned(others[:, list(terms.mirror)])]))
    mine = _words(matrix(terms, boxes))
    step = max(1, _AT_ONCE // len(outside))
    for first in range(0, len(mine), step):
        part = mine[first : first + step, None, :] & outside
        inside[first : first + step] = (~part.any(axis=2)).any(axis=1)
    return inside


def widest(terms: Terms, boxes: Iterable[Box]) -> np.ndarray:
    """Boxes and their mirror images as rows of a table, without those that lie in another, which decides them too."""
    ways = matrix(terms, sorted({way for box in boxes for way in (box, mirrored(terms, box))}))
    words = _words(ways)
    around = [int((~(one & ~words).any(axis=1)).sum()) for one in words]  # each lies in itself
    return ways[np.array(around, np.int64) == 1]


def _words(table: np.ndarray) -> np.ndarray:
    """The admitted outcomes of boxes in bits."""
    return packed((table[:, :, None] >> np.arange(3) & 1).astype(bool).reshape(len(table), 3 * table.shape[1]))


def containing(layout: Layout, box: Box, patterns: np.ndarray) -> np.ndarray:
    """Which patterns lie in a box, taken either way round."""
    return one_way(layout, box, patterns) | one_way(layout, mirrored(layout.terms, box), patterns)


def in_any(layout: Layout, boxes: Sequence[Box], patterns: np.ndarray) -> np.ndarray:
    """Which patterns lie in some of many boxes, taken either way round."""
    from dc_engine.kernels.boxes import inside  # numba

    masks, values, _ = _as_bits(layout, boxes)
    return inside(masks, values, patterns)


def violated(layout: Layout, boxes: Sequence[Box], patterns: np.ndarray) -> np.ndarray:
    """In which of many boxes some pattern lies, taken either way round."""
    result = np.zeros(len(boxes), bool)
    if len(boxes) and len(patterns):
        from dc_engine.kernels.boxes import filled  # numba

        masks, values, numbers = _as_bits(layout, boxes)
        result[numbers[filled(masks, values, patterns)]] = True
    return result


def _as_bits(layout: Layout, boxes: Sequence[Box]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Boxes, both ways round, by the bits of which they say what they are; and the number of the box of each line.

    One that admits less and greater of an ordered term is two.
    """
    mine = matrix(layout.terms, boxes)
    table = np.concatenate([mine, turned(mine)[:, list(layout.terms.mirror)]])
    numbers = np.tile(np.arange(len(boxes)), 2)
    masks, values = (np.zeros((len(table), layout.words), np.uint64) for _ in range(2))
    for place, slot in enumerate(layout.slots):
        if slot.ordered and len(two := np.flatnonzero(table[:, place] == _DIFFERENT)):
            table, numbers = np.concatenate([table, table[two]]), np.concatenate([numbers, numbers[two]])
            masks, values = np.concatenate([masks, masks[two]]), np.concatenate([values, values[two]])
            table[two, place], table[-len(two) :, place] = int(Outcome.LESS), int(Outcome.GREATER)
        known = _ORDERED_BITS if slot.ordered else _EQUAL_BITS
        null = 0 if slot.null is None else 1 << slot.null
        lines = [(0, 0) if one is None else (one[0] << slot.shift | null, one[1] << slot.shift) for one in known]
        bits = np.array(lines, np.uint64)
        masks[:, slot.word] |= bits[table[:, place], 0]
        values[:, slot.word] |= bits[table[:, place], 1]
    return masks, values, numbers


def one_way(layout: Layout, box: Box, patterns: np.ndarray) -> np.ndarray:
    """Which patterns lie in a box as it is."""
    inside = np.ones(len(patterns), bool)
    for place in said(box):
        inside &= layout.outcomes(patterns, place) & box[place] != 0
    return inside


def body_of(terms: Terms, box: Box) -> Body:
    """The body of the rule that forbids a box."""
    places = [place for place in terms.by_column if box[place] != _ALL]
    compared = [(terms.terms[place], op_of(Outcome(box[place]))) for place in places]
    return normalise(tuple(Predicate(Column("t", term.left), op, Column("s", term.right)) for term, op in compared))
