"""Pointwise order dependencies as their authors define them: on marked attributes, row by row.

A mark is a column with one of ``<``, ``<=``, ``>``, ``>=``, ``=``. ``X -> B op`` holds when no two rows satisfy all of
X and the inverse of the right side; what is forbidden is one set of marks or, for ``=`` on the right, two of them. One
set contains another if it is stricter, mark by mark. Sets of ``=`` alone that no two rows satisfy belong to the family.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from tests.discovery.oracle import HOLDS, Rule

Marks = frozenset[tuple[str, str]]
Forbidden = frozenset[frozenset[Marks]]
"""Sets of marks, and the same with the two rows exchanged."""
_INVERSE = {"=": ("<", ">"), "<": (">=",), "<=": (">",)}
_IMPLIED = {"=": "= >= <=", "<": "< <=", ">": "> >=", "<=": "<=", ">=": ">="}
_EXCHANGED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def _symmetric(marks: Marks) -> Marks:
    return frozenset((name, _EXCHANGED[op]) for name, op in marks)


def _both_ways(*some: Marks) -> Forbidden:
    return frozenset({frozenset(some), frozenset(map(_symmetric, some))})


@cache
def candidates(ordered: tuple[tuple[str, bool], ...]) -> tuple[Forbidden, ...]:
    """What every dependency of the family forbids: a right side, and a left side of other columns."""
    found = {_both_ways(frozenset((name, "=") for name in some)) for some in _subsets([name for name, _ in ordered])}
    for right, right_ordered in ordered:
        others = [
            [None, *((name, op) for op in (_EXCHANGED if is_ordered else "="))]
            for name, is_ordered in ordered
            if name != right
        ]
        for left in itertools.product(*others):
            side = frozenset(filter(None, left))
            for op in ("<", "<=", "=") if right_ordered else ("=",):
                found.add(_both_ways(*(side | {(right, inverse)} for inverse in _INVERSE[op])))
    return tuple(found)


def _subsets(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    return itertools.chain.from_iterable(itertools.combinations(names, size) for size in range(len(names) + 1))


def _contains(one: Marks, other: Marks) -> bool:
    """Whether a set of marks is at least as strict as another."""
    mine = dict(one)
    return all(name in mine and op in _IMPLIED[mine[name]].split() for name, op in other)


@cache
def implies(one: Forbidden, other: Forbidden) -> bool:
    """Whether all that the second forbids is forbidden by the first, one way round or the other."""
    narrow = next(iter(other))
    return any(all(any(_contains(marks, wider) for wider in way) for marks in narrow) for way in one)


def occurs(marks: Marks, t: Mapping[str, Any], s: Mapping[str, Any]) -> bool:
    """Whether two rows satisfy all marks; a NULL satisfies none."""
    return all(t[name] is not None and s[name] is not None and HOLDS[op](t[name], s[name]) for name, op in marks)


def minimal_pods(ordered: Mapping[str, bool], rows: Sequence[Mapping[str, Any]], allowed: int = 0) -> set[Forbidden]:
    """What holds (but for so many pairs of rows), and follows from nothing else that does."""
    pairs = list(itertools.combinations(rows, 2))

    def holds(one: Forbidden) -> bool:
        marked = [marks for way in one for marks in way]
        return sum(any(occurs(marks, t, s) for marks in marked) for t, s in pairs) <= allowed

    valid = [one for one in candidates(tuple(ordered.items())) if holds(one)]
    return {one for one in valid if not any(other != one and implies(other, one) for other in valid)}


def forbidden_by(rule: Rule) -> Forbidden:
    """The same of a body whose comparisons are between a column and itself."""
    choices = [[(name, op) for op in (("<", ">") if op == "!=" else (op,))] for name, op, _ in rule]
    return _both_ways(*map(frozenset, itertools.product(*choices)))


def terms_in(one: Forbidden) -> int:
    """How many comparisons its body has."""
    return len(next(iter(next(iter(one)))))
