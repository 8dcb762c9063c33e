"""What follows from a body by transitivity, and which of many rules are implied by others.

Each body is a small graph of the columns that it mentions: who is at most whom. All predicates that occur anywhere have
a number, and what follows from a body is a row of bits, so that one rule is held against all others at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from dc_engine.constraints.model import Body, Column, Op, Predicate
from dc_engine.constraints.normalise import swapped

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
    implies = _implications(bodies, orders)
    kept = np.zeros(len(bodies), bool)
    for place in range(len(bodies)):
        stronger = implies[:, place].copy()
        stronger[: place + 1] &= kept[: place + 1]
        kept[place] = not (stronger & (kept | ~implies[place])).any()
    return [body for body, stays in zip(bodies, kept.tolist(), strict=True) if stays]


def _implications(bodies: Sequence[Body], orders: Sequence[_Order]) -> np.ndarray:
    """Whether each body (the rows) implies each other one (the columns)."""
    ways = [[[_key(one) for one in way] for way in (body, swapped(body))] for body in bodies]
    numbers = {key: number for number, key in enumerate({key: 0 for both in ways for way in both for key in way})}
    follow = np.array([[order.follows(key) for key in numbers] for order in orders], bool)
    fails = (~follow.reshape(len(bodies), len(numbers))).astype(np.float32)
    result = np.zeros((len(bodies), len(bodies)), bool)
    for side in (0, 1):
        says = np.zeros((len(bodies), len(numbers)), np.float32)
        for place, both in enumerate(ways):
            says[place, [numbers[key] for key in both[side]]] = 1
        result |= says @ fails.T == 0
    return result
