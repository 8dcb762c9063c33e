"""Boxes: dependencies of every class in one form.

A box says for each term which outcomes it admits, all of them where it says nothing. A dependency forbids the pairs of
rows whose pattern lies in its box. The smaller the box, the weaker the dependency: it follows from any with a larger
one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from dc_engine.constraints.model import Body, Column, Predicate
from dc_engine.constraints.normalise import normalise
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.terms import ALL, Outcome, Terms, op_of

Box = tuple[int, ...]
"""The outcomes that each term admits, as ``Outcome`` has them."""
_ALL, _EQUAL = int(ALL), int(Outcome.EQUAL)
_DIFFERENT = int(Outcome.LESS | Outcome.GREATER)
_TURNED = tuple(
    (mask & _EQUAL)
    | (int(Outcome.GREATER) if mask & Outcome.LESS else 0)
    | (int(Outcome.LESS) if mask & Outcome.GREATER else 0)
    for mask in range(_ALL + 1)
)
"""The same outcomes with t and s exchanged."""
_UNKNOWN = _ALL + 1
"""Stands for no outcome at all."""


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


def mirrored(terms: Terms, box: Box) -> Box:
    """The same pairs of rows, t and s exchanged."""
    return tuple(_TURNED[box[other]] for other in terms.mirror)


def ways(terms: Terms, box: Box) -> tuple[Box, ...]:
    """A box and its mirror image, as far as the operators of the terms can say them."""
    both = (box, mirrored(terms, box))
    if terms.symmetric:
        return both
    sayable = (one for one in both if all(mask in known for mask, known in zip(one, terms.admitted, strict=True)))
    return tuple(sayable) or both


def canonical(terms: Terms, box: Box) -> Box:
    """One of a box and its mirror image."""
    return min(ways(terms, box))


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
    mine = matrix(terms, boxes)
    for other in {way for one in stronger for way in (one, mirrored(terms, one))}:
        inside |= ~(mine & ~np.array(other, np.uint8)).any(axis=1)
    return inside


def containing(layout: Layout, box: Box, patterns: np.ndarray) -> np.ndarray:
    """Which patterns lie in a box, taken either way round."""
    return one_way(layout, box, patterns) | one_way(layout, mirrored(layout.terms, box), patterns)


def in_any(layout: Layout, boxes: Sequence[Box], patterns: np.ndarray) -> np.ndarray:
    """Which patterns lie in some of many boxes, taken either way round."""
    table = matrix(layout.terms, boxes)
    inside = np.zeros(len(patterns), bool)
    for some in (patterns, layout.mirrored(patterns)):
        # of a term without outcome (a NULL is involved) only a box that says nothing about it admits the pair
        outcomes = [
            np.where(one == 0, _UNKNOWN, one) for one in (layout.outcomes(some, p) for p in range(table.shape[1]))
        ]
        asked = np.where(table == _ALL, table | _UNKNOWN, table)
        for place, row in enumerate(np.stack(outcomes, axis=1) if outcomes else np.zeros((len(some), 0), np.uint8)):
            inside[place] |= ((asked & row) != 0).all(axis=1).any()
    return inside


def one_way(layout: Layout, box: Box, patterns: np.ndarray) -> np.ndarray:
    """Which patterns lie in a box as it is."""
    inside = np.ones(len(patterns), bool)
    for place in said(box):
        inside &= layout.outcomes(patterns, place) & box[place] != 0
    return inside


def body_of(terms: Terms, box: Box) -> Body:
    """The body of the rule that forbids a box."""
    compared = [(terms.terms[place], op_of(Outcome(box[place]))) for place in said(box)]
    return normalise(tuple(Predicate(Column("t", term.left), op, Column("s", term.right)) for term, op in compared))
