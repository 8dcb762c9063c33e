"""What discovery has to find, by definition: every set of predicates is held against every pair of rows.

Nothing here knows of patterns, literals or hitting sets.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from dc_engine.constraints.model import Op

Predicate = tuple[str, str, str]
"""t's column, an operator, s's column."""
Rule = frozenset[Predicate]
HOLDS = {"<": operator.lt, "<=": operator.le, "=": operator.eq, ">=": operator.ge, ">": operator.gt, "!=": operator.ne}
WEAKER = {
    "<": {"<", "<=", "!="},
    "<=": {"<="},
    "=": {"=", "<=", ">="},
    ">=": {">="},
    ">": {">", ">=", "!="},
    "!=": {"!="},
}
"""What follows from each operator."""


def pairs(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """All ordered pairs of two rows."""
    return itertools.permutations(rows, 2)


def satisfies(one: Predicate, t: Mapping[str, Any], s: Mapping[str, Any]) -> bool:
    left, op, right = one
    return t[left] is not None and s[right] is not None and HOLDS[op](t[left], s[right])


def is_valid(rule: Rule, rows: Sequence[Mapping[str, Any]]) -> bool:
    return not any(all(satisfies(one, t, s) for one in rule) for t, s in pairs(rows))


def implies(one: Rule, other: Rule) -> bool:
    """Whether a rule denies at least what another does: each of its predicates follows from one on the same columns."""
    return one <= _following(other)


@cache
def _following(rule: Rule) -> Rule:
    """What follows from one of its predicates."""
    return frozenset((left, weaker, right) for left, op, right in rule for weaker in WEAKER[op])


def rules(ops: Mapping[tuple[str, str], Sequence[Op]]) -> Iterator[Rule]:
    """All sets of predicates with at most one for each pair of columns."""
    choices = [[None, *((a, op.value, b) for op in some)] for (a, b), some in ops.items()]
    for chosen in itertools.product(*choices):
        yield frozenset(one for one in chosen if one is not None)


def smallest(some: Iterable[Rule], holds: Callable[[Rule], bool]) -> set[Rule]:
    """Of some rules those that hold, and that no other one of them implies; what one that holds implies holds too.

    Less follows from a rule than from those that it implies: it comes before them, and they need no look at the rows.
    """
    found: list[Rule] = []
    for one in sorted(some, key=lambda rule: len(_following(rule))):
        if not any(implies(other, one) for other in found) and holds(one):
            found.append(one)
    return set(found)


def minimal_rules(ops: Mapping[tuple[str, str], Sequence[Op]], rows: Sequence[Mapping[str, Any]]) -> set[Rule]:
    """All rules that hold, and that no other one of them implies."""
    return smallest(rules(ops), lambda one: is_valid(one, rows))


Order = tuple[frozenset[str], str, str, str]
"""Of rows that agree on columns: one that is constant (then the rest is empty), or two that go ``up`` or ``down``."""


def minimal_orders(names: Sequence[str], rows: Sequence[Mapping[str, Any]], *, descending: bool = False) -> set[Order]:
    """All order dependencies in canonical form that hold and follow from no other; NULLs are the first values."""
    values = [{name: (0,) if row[name] is None else (1, row[name]) for name in names} for row in rows]
    found: set[Order] = set()
    for size in range(len(names)):
        for context in map(frozenset, itertools.combinations(names, size)):
            agreeing = [(t, s) for t, s in pairs(values) if all(t[name] == s[name] for name in context)]
            others = [name for name in names if name not in context]
            constant = {one for one in others if all(t[one] == s[one] for t, s in agreeing)}
            holding = [(one, "", "") for one in others if one in constant]
            for one, other in itertools.combinations(others, 2):
                if not {one, other} & constant:
                    up = all(not (t[one] < s[one] and t[other] > s[other]) for t, s in agreeing)
                    down = all(not (t[one] < s[one] and t[other] < s[other]) for t, s in agreeing)
                    holding += [
                        (one, other, way) for way, holds in (("up", up), ("down", down and descending)) if holds
                    ]
            smaller = {(one, other, way) for known, one, other, way in found if known < context}
            found |= {(context, *one) for one in holding if one not in smaller}
    return found
