"""The dependencies of rows by definition, for whole histories: nothing here knows how they are found.

A rule is a set of comparisons (t's column, operator, s's column) that no pair of rows may satisfy together.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from typing import Any

from tests.discovery.oracle import HOLDS, WEAKER, Predicate, Rule

Row = Mapping[str, Any]
Sets = dict[str, set[Rule]]
Ops = Mapping[tuple[str, str], Sequence[str]]
_TURNED = {"<": ">", "<=": ">=", "=": "=", ">=": "<=", ">": "<", "!=": "!="}
_COMPARISON = re.compile(r"([ts])\.(\w+) (<=|>=|!=|=|<|>) ([ts])\.(\w+)")


def comparable(value: Any, nulls: str) -> Any:
    """A value that Python compares as Spark does; where NULL equals NULL it is one more value."""
    if value is None:
        return None if nulls == "ignore" else (0, 0)
    if isinstance(value, float):
        value = (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    return value if nulls == "ignore" else (1, value)


def turned(rule: Rule) -> Rule:
    """The same rule, t and s exchanged."""
    return frozenset((right, _TURNED[op], left) for left, op, right in rule)


def one_way(rule: Rule) -> Rule:
    """One of a rule and its mirror image."""
    return min(rule, turned(rule), key=sorted)


def written_rule(formula: str) -> Rule:
    """The rule of a formula, just as it is written."""
    found = []
    for row, left, op, other, right in _COMPARISON.findall(formula):
        assert {row, other} == {"t", "s"}, formula
        found.append((left, op, right) if row == "t" else (right, _TURNED[op], left))
    return frozenset(found)


FIRST = "_nulls_first"
"""What the name of a column ends in where it is read as order dependencies read it."""


def nulls_first(rule: Rule, names: Collection[str]) -> Rule:
    """A rule in which some columns are read with NULLs as their first values."""
    return frozenset(
        (f"{one}{FIRST}" if one in names else one, op, f"{one}{FIRST}" if one in names else one) for one, op, _ in rule
    )


def read_rule(formula: str) -> Rule:
    """The rule of a formula, either way round."""
    return one_way(written_rule(formula))


@dataclass(frozen=True)
class Brute:
    """What holds among some rows, in a space as a snapshot describes it."""

    space: Mapping[str, Any]
    rows: Sequence[Row]
    bound: int | None = None
    """The most comparisons in a rule that is looked for."""
    nullable: Collection[str] = ()
    """Columns that order dependencies read otherwise than other classes: in them NULLs are the first values."""

    def read(self, kind: str, formula: str) -> Rule:
        """The rule of a dependency, either way round."""
        return one_way(self.written(kind, formula))

    def written(self, kind: str, formula: str) -> Rule:
        """The same as it is written."""
        rule = written_rule(formula)
        return nulls_first(rule, self._first) if kind == "od" else rule

    @property
    def _first(self) -> set[str]:
        return set(self.nullable) & set(self.names) if self.space["nulls"] == "ignore" else set()

    def value_of(self, row: Row) -> dict[str, Any]:
        """The values of a row, in each reading."""
        own = {name: comparable(row[name], self.space["nulls"]) for name in self.names}
        return own | {f"{name}{FIRST}": comparable(row[name], "equal") for name in self._first}

    @property
    def pairs(self) -> int:
        return len(self.rows) * (len(self.rows) - 1) // 2

    @cached_property
    def allowed(self) -> int:
        """How many pairs may violate a rule that holds."""
        return math.floor(Fraction(str(self.space["max_error"])) * self.pairs)

    @cached_property
    def values(self) -> list[dict[str, Any]]:
        return list(map(self.value_of, self.rows))

    @cached_property
    def ops(self) -> dict[tuple[str, str], Sequence[str]]:
        """The operators of each pair of columns, for rules of class ``dc``."""
        own = {(name, name): list(HOLDS) if name in self.space["ordered"] else ["=", "!="] for name in self.names}
        return own | {(one["left"], one["right"]): one["ops"] for one in self.space["cross"]}

    @property
    def names(self) -> list[str]:
        return list(self.space["columns"])

    @cached_property
    def _pairs(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        return list(itertools.permutations(self.values, 2))

    def _satisfying(self, one: Predicate) -> int:
        """The ordered pairs that satisfy a comparison, as bits."""
        left, op, right = one
        bits = 0
        for place, (t, s) in enumerate(self._pairs):
            if t[left] is not None and s[right] is not None and HOLDS[op](t[left], s[right]):
                bits |= 1 << place
        return bits

    @cached_property
    def _bits(self) -> dict[Predicate, int]:
        known = {*itertools.product(self.names, ("=", "!="), self.names)}
        known |= {(left, op, right) for (left, right), ops in self.ops.items() for op in ops}
        known |= {(name, op, name) for name in self._ordered for op in ("<", "=", ">", "!=")}
        known |= {one for (left, op, right) in set(known) for one in [(right, _TURNED[op], left)]}
        return {one: self._satisfying(one) for one in known}

    def violations(self, rule: Rule) -> int:
        """How many unordered pairs violate a rule."""
        return len({self._unordered[place] for place in _ones(self._of(rule) | self._of(turned(rule)))})

    def removed(self, rule: Rule) -> int:
        """The fewest rows without which no pair violates a rule."""
        return _cover([self._unordered[place] for place in _ones(self._of(rule) | self._of(turned(rule)))])

    @cached_property
    def _unordered(self) -> list[tuple[int, int]]:
        return [(min(pair), max(pair)) for pair in itertools.permutations(range(len(self.rows)), 2)]

    def _of(self, rule: Iterable[Predicate]) -> int:
        bits = (1 << len(self._pairs)) - 1
        for one in rule:
            bits &= self._bits[one]
        return bits

    def holds(self, rule: Rule, kind: str = "") -> bool:
        if kind == "od" and self.space["max_error"]:
            return self.removed(rule) <= math.floor(Fraction(str(self.space["max_error"])) * len(self.rows))
        return self.violations(rule) <= self.allowed if self.allowed else not self._of(rule)

    def error(self, rule: Rule, kind: str) -> float:
        """The share of pairs that violate a rule, or of rows that have to go."""
        if kind == "od":
            return self.removed(rule) / max(len(self.rows), 1)
        return self.violations(rule) / max(self.pairs, 1)

    @cached_property
    def sets(self) -> Sets:
        """All minimal rules of each class, one of each mirror pair; of fewer than two rows nothing is said."""
        makers: dict[str, Callable[[], set[Rule]]] = {
            "unique": self._uniques,
            "fd": self._fds,
            "od": self._ods,
            "pod": self._pods,
            "dc": self._dcs,
        }
        sets = {name: makers[name]() if len(self.rows) > 1 else set() for name in self.space["classes"]}
        return {
            name: {one for one in some if len(one) <= self.most and self.is_supported(one)}
            for name, some in sets.items()
        }

    def is_supported(self, rule: Rule) -> bool:
        """Whether as many pairs as are asked for agree on all that a rule asks to be equal; of a key on all but any."""
        agreeing = {one for one in rule if one[0] == one[2] and one[1] == "="}
        contexts = [agreeing - {one} for one in agreeing] if agreeing == rule else []
        least = 2 * (self.space["limits"].get("min_support") or 0)
        return all(self._of(context).bit_count() >= least for context in contexts or [agreeing])

    @property
    def seen(self) -> Sets:
        """Those that people see: a ``pod`` with nothing but ``=`` is a matter of ``unique``."""
        return {
            name: {rule for rule in some if name != "pod" or any(op != "=" for _, op, _ in rule)}
            for name, some in self.sets.items()
        }

    @property
    def most(self) -> int:
        return len(self.ops) if self.bound is None else self.bound

    def _sides(self, names: Sequence[str]) -> Iterator[frozenset[str]]:
        for size in range(len(names) + 1):
            yield from map(frozenset, itertools.combinations(names, size))

    def _smallest(self, names: Sequence[str], rest: Rule, kind: str = "") -> set[Rule]:
        found: list[frozenset[str]] = []
        for side in self._sides(names):
            rule = rest | {(name, "=", name) for name in side}
            if not any(other <= side for other in found) and self.holds(rule, kind):
                found.append(side)
        return {rest | {(name, "=", name) for name in side} for side in found}

    def _uniques(self) -> set[Rule]:
        return self._smallest(self.names, frozenset())

    def _fds(self) -> set[Rule]:
        sets = [
            self._smallest([one for one in self.names if one != name], frozenset({(name, "!=", name)}))
            for name in self.names
        ]
        return set().union(*sets)

    @property
    def _ordered(self) -> list[str]:
        return [
            f"{name}{FIRST}" if name in self._first else name for name in self.names if "od" in self.space["classes"]
        ]

    def _ods(self) -> set[Rule]:
        """What is constant, and what goes together, where other columns agree; the second where nothing is constant."""
        names, found = self._ordered, set()
        for name in names:
            found |= self._smallest([one for one in names if one != name], frozenset({(name, "!=", name)}), "od")
        for one, other in itertools.combinations(names, 2):
            for op in (">", "<") if self.space.get("descending") else (">",):
                pair = frozenset({(one, "<", one), (other, op, other)})
                for rule in self._smallest([name for name in names if name not in (one, other)], pair, "od"):
                    if not any(self.holds(rule - pair | {(name, "!=", name)}, "od") for name in (one, other)):
                        found.add(one_way(rule))
        return found

    def _dcs(self) -> set[Rule]:
        return self._largest(self.ops, lambda _: True)

    def _pods(self) -> set[Rule]:
        """Columns are compared with themselves, and at most one of them by ``!=``."""
        own = {(left, right): ops for (left, right), ops in self.ops.items() if left == right}
        return self._largest(own, lambda rule: [op for _, op, _ in rule].count("!=") <= 1)

    def _largest(self, ops: Ops, belongs: Callable[[Rule], bool]) -> set[Rule]:
        """Rules of a family that hold, of which none with one comparison weakened or left out does."""
        found = set()
        for rule in filter(belongs, _every_rule(tuple((pair, tuple(some)) for pair, some in ops.items()))):
            if self.holds(rule) and not any(self.holds(one) for one in filter(belongs, _weakened(rule, ops))):
                found.add(one_way(rule))
        return found


@cache
def _every_rule(ops: tuple[tuple[tuple[str, str], tuple[str, ...]], ...]) -> list[Rule]:
    choices = [[None, *((left, op, right) for op in some)] for (left, right), some in ops]
    return [frozenset(filter(None, chosen)) for chosen in itertools.product(*choices)]


def _weakened(rule: Rule, ops: Ops) -> Iterator[Rule]:
    """The rules with one comparison less, or with one that asks for less: they deny more."""
    for one in rule:
        left, op, right = one
        yield rule - {one}
        for other in ops[left, right]:
            if other != op and other in WEAKER[op]:
                yield rule - {one} | {(left, other, right)}


def _cover(pairs: Sequence[tuple[int, int]]) -> int:
    """The fewest rows of which each pair has one: of any pair either the one or the other."""
    if not pairs:
        return 0
    return 1 + min(_cover([pair for pair in pairs if row not in pair]) for row in pairs[0])


def _ones(bits: int) -> Iterator[int]:
    return (place for place in range(bits.bit_length()) if bits >> place & 1)


# what follows from what, where columns are compared with others


class Situations:
    """All ways in which the values of two rows can be ordered: a rule implies another if it denies all that it does."""

    def __init__(self, space: Mapping[str, Any]) -> None:
        crossed = sorted({one[side] for one in space["cross"] for side in ("left", "right")})
        self._crossed = crossed
        operands = [(row, name) for name in crossed for row in "ts"]
        self._orders = [dict(zip(operands, order, strict=True)) for order in _weak_orders(len(operands))]
        self._own = [name for name in space["columns"] if name not in crossed]

    def _denied(self, rule: Rule) -> tuple[frozenset[int], tuple[frozenset[int], ...]]:
        """The orders of columns that are compared with others, and the outcomes of each other column."""
        crossed = [one for one in rule if one[0] in self._crossed]
        orders = frozenset(
            place
            for place, order in enumerate(self._orders)
            if all(HOLDS[op](order["t", left], order["s", right]) for left, op, right in crossed)
        )
        own = {left: op for left, op, _ in rule if left in self._own}
        outcomes = tuple(
            frozenset(way for way in (-1, 0, 1) if name not in own or HOLDS[own[name]](way, 0)) for name in self._own
        )
        return orders, outcomes

    def is_empty(self, rule: Rule) -> bool:
        """Whether no two rows can violate it."""
        return not self._denied(rule)[0]

    def implies(self, one: Rule, other: Rule) -> bool:
        narrow = self._denied(other)
        for way in (one, turned(one)):
            wide = self._denied(way)
            if narrow[0] <= wide[0] and all(a <= b for a, b in zip(narrow[1], wide[1], strict=True)):
                return True
        return False


@cache
def _weak_orders(size: int) -> list[tuple[int, ...]]:
    every = itertools.product(range(size), repeat=size)
    return [order for order in every if set(order) == set(range(max(order, default=-1) + 1))]
