"""What follows from a body by transitivity, and which of many rules are implied by others.

Each body is a small graph of the columns that it mentions: who is at most whom. All predicates that occur anywhere have
a number, and what follows from a body is a row of bits, so that one rule is held against all others at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from dc_engine.constraints.model import Body, Column, Op, Predicate

_PAIRS = 1 << 24
"""So many pairs of bodies are held against each other at a time."""

Node = tuple[str, str]
Key = tuple[Node, Op, Node]


@dataclass(frozen=True, slots=True)
class _Order:
    """The columns of a body by numbers; sets of them are bits.

    ``above[a]`` are those that are not less than a, ``below[a]`` those that are not greater, ``far[a]`` those that are
    greater; ``unequal`` are pairs that differ and ``strict`` pairs of which the first is less, as the body says.
    """

    places: dict[Node, int]
    above: list[int]
    below: list[int]
    far: list[int]
    unequal: list[tuple[int, int]]
    strict: list[tuple[int, int]]

    @property
    def is_possible(self) -> bool:
        """Whether rows can satisfy the body."""
        cycle = any(self.far[one] >> one & 1 for one in range(len(self.far)))
        return not cycle and not any(self._within(self.above[a] & self.below[a], [(a, b)]) for a, b in self.unequal)

    @staticmethod
    def _within(nodes: int, pairs: Sequence[tuple[int, int]]) -> bool:
        """Whether both of some pair are among some columns."""
        return any(nodes >> a & 1 and nodes >> b & 1 for a, b in pairs)

    def follows(self, key: Key) -> bool:
        """Whether a predicate holds wherever the (possible) body does."""
        left, op, right = key
        a, b = self.places.get(left), self.places.get(right)
        if a is None or b is None:
            return False
        if op in (Op.GT, Op.GE):
            a, b, op = b, a, op.flipped
        if op is Op.NE:  # were they equal, all between them would be
            between = (self.above[a] | self.above[b]) & (self.below[a] | self.below[b])
            return self._within(between, self.unequal) or self._within(between, self.strict)
        if not self.above[a] >> b & 1:
            return False
        if op is Op.EQ:
            return bool(self.above[b] >> a & 1)
        return op is Op.LE or bool(self.far[a] >> b & 1) or self._within(self.above[a] & self.below[b], self.unequal)


def _key(predicate: Predicate) -> Key:
    assert isinstance(predicate.right, Column)
    assert predicate.left.row == "t"
    return predicate.left.key, predicate.op, predicate.right.key


def _order(keys: Sequence[Key]) -> _Order:
    """The order that a body's predicates make."""
    places: dict[Node, int] = {}
    for left, _, right in keys:
        places.setdefault(left, len(places))
        places.setdefault(right, len(places))
    size = len(places)
    above = [1 << one for one in range(size)]
    unequal, strict = [], []
    for left, op, right in keys:
        a, b = places[left], places[right]
        if op in (Op.GT, Op.GE):
            a, b, op = b, a, op.flipped
        if op is Op.NE:
            unequal.append((a, b))
            continue
        above[a] |= 1 << b
        if op is Op.EQ:
            above[b] |= 1 << a
        if op is Op.LT:
            strict.append((a, b))
    for middle, one in product(range(size), repeat=2):
        if above[one] >> middle & 1:
            above[one] |= above[middle]
    below = [sum(1 << one for one in range(size) if above[one] >> other & 1) for other in range(size)]
    far = [0] * size
    for a, b in strict:
        for one in range(size):
            if above[one] >> a & 1:
                far[one] |= above[b]
    return _Order(places, above, below, far, unequal, strict)


def without_implied(bodies: Sequence[Body]) -> list[Body]:
    """The bodies that rows can satisfy and that no other one implies; of several that imply each other the first.

    A rule implies another one when its body holds, one way round or the other, wherever the other's does.
    """
    orders = [_order([_key(one) for one in body]) for body in bodies]
    bodies = [body for body, order in zip(bodies, orders, strict=True) if order.is_possible]
    orders = [order for order in orders if order.is_possible]
    implied = _implications(bodies, orders)
    kept: set[int] = set()
    for place, stronger in enumerate(implied):
        if not any(one in kept or (one > place and place not in implied[one]) for one in stronger):
            kept.add(place)
    return [bodies[place] for place in sorted(kept)]


def _implications(bodies: Sequence[Body], orders: Sequence[_Order]) -> list[set[int]]:
    """For each body the others that imply it."""
    ways = [[keys := [_key(one) for one in body], [_exchanged(key) for key in keys]] for body in bodies]
    numbers = {key: number for number, key in enumerate({key: 0 for both in ways for way in both for key in way})}
    says = np.zeros((2, len(bodies), len(numbers)), np.float32)
    for place, both in enumerate(ways):
        for side in (0, 1):
            says[side, place, [numbers[key] for key in both[side]]] = 1
    fails = _fails(orders, numbers)
    implied: list[set[int]] = [set() for _ in bodies]
    step = max(1, _PAIRS // max(len(bodies), 1))
    for first in range(0, len(bodies), step):
        some = fails[first : first + step].T
        one, other = np.nonzero((says[0] @ some == 0) | (says[1] @ some == 0))
        for stronger, weaker in zip(one.tolist(), (other + first).tolist(), strict=True):
            if stronger != weaker:
                implied[weaker].add(stronger)
    return implied


def _fails(orders: Sequence[_Order], numbers: dict[Key, int]) -> np.ndarray:
    """1 for each body and predicate that does not follow from it, else 0."""
    pairs: dict[tuple[Node, Node], list[Key]] = defaultdict(list)
    for key in numbers:
        pairs[key[0], key[2]].append(key)
    fails = np.ones((len(orders), len(numbers)), np.float32)
    for place, order in enumerate(orders):
        known = order.places
        near = (key for (left, right), keys in pairs.items() if left in known and right in known for key in keys)
        fails[place, [numbers[key] for key in near if order.follows(key)]] = 0
    return fails


def _exchanged(key: Key) -> Key:
    """The predicate about (s, t) that says what this one says about (t, s), with t on its left again."""
    (_, left), op, (_, right) = key
    return ("t", right), op.flipped, ("s", left)
