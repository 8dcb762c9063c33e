"""A screen before the counting: which changed rows can violate a rule at all with what an index holds.

A violation of a body needs each of its inequalities. With the entries of a block ordered by the first one, those that
satisfy it for a row come before a place in that order, and the smallest value among them decides the second one. Rows
for which no entry satisfies both are clear, and nothing has to be coded, sorted or counted for their sake. What is made
of the entries for this depends on no row, so a session that keeps it answers the next load with a few look-ups.

The screen may let a row through for nothing, for instance because it looks at the first bytes of a text only. It never
clears a row that violates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from dc_engine.constraints.model import Op
from dc_engine.detection.bodies import BodyPlan, Comparison
from dc_engine.detection.codes import whole
from dc_engine.detection.comparable import Family
from dc_engine.detection.order import order_numbers
from dc_engine.detection.plan import OrderClass
from dc_engine.detection.runs import HASH

_MOST_TESTS = 2
Range = tuple[np.ndarray, np.ndarray]
"""Where something begins and ends, for each of some rows."""


def can_screen(bodies: Sequence[BodyPlan], classes: Sequence[OrderClass]) -> bool:
    """Whether each body has an inequality to screen by; arrays and structs would take longer than counting."""
    families = {column: one.family for one in classes for column in one.columns}
    tests = [body.inequalities[:_MOST_TESTS] for body in bodies]
    plain = set(Family)
    return bool(tests) and all(own and all(families[one.left] in plain for one in own) for own in tests)


@dataclass(frozen=True, slots=True)
class _Numbers:
    """A column as whole numbers in the order of its values."""

    values: np.ndarray
    exact: bool
    """Whether different values have different numbers."""
    present: np.ndarray | None
    """Which values are not NULL; ``None`` if all are."""

    @staticmethod
    def of(table: pa.Table, name: str, family: str) -> _Numbers:
        column = table.column(name)
        values, exact = order_numbers(whole(column), family)
        return _Numbers(values, exact, column.is_valid().to_numpy() if column.null_count else None)

    def turned(self, op: Op) -> np.ndarray:
        """The numbers such that the comparison ``query op entry`` is ``entry < query`` (or ``<=``) between them."""
        return self.values if op in (Op.GT, Op.GE) else ~self.values


@dataclass(frozen=True, slots=True)
class Stairs:
    """Entries before one body: in each block in the order of the first test, with the least of the second so far."""

    hashes: np.ndarray | None
    """Their blocks, in ascending order; ``None`` if all are in one."""
    backwards: bool
    """Whether the following are in the opposite order."""
    first: np.ndarray
    least: np.ndarray | None
    low: int
    """What was subtracted from the numbers of the second test, and how many of the lowest bits then were dropped."""
    dropped: int
    exact: tuple[bool, ...]
    """For each test, whether different values of the entries have different numbers."""

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        return sum(one.nbytes for one in (self.hashes, self.first, self.least) if one is not None)

    def block_of(self, hashes: np.ndarray) -> Range:
        """Where the blocks of these hashes begin and end."""
        assert self.hashes is not None
        size = len(self.first)
        start, end = self.hashes.searchsorted(hashes), self.hashes.searchsorted(hashes, side="right")
        return (size - end, size - start) if self.backwards else (start, end)

    def are_met(self, blocks: Range | None, tests: Sequence[tuple[np.ndarray, bool]]) -> np.ndarray:
        """Which queries satisfy all tests (numbers, and whether strictly) with some entry of their blocks, or any."""
        query, strict = tests[0]
        strict = strict and self.exact[0]
        if blocks is None:
            reach = self.first.searchsorted(query, side="left" if strict else "right")
            met = reach > 0
        else:
            reach = _reach(self.first, *blocks, query, strict=strict)
            met = reach > blocks[0]
        for query, strict in tests[1:]:
            assert self.least is not None
            least = self.least[np.maximum(reach, 1) - 1]
            above = (query.view(np.uint64) - np.uint64(self.low % 2**64)) >> np.uint64(self.dropped)
            known = np.where(query < self.low, -1, np.minimum(above, np.uint64(2**62)).view(np.int64))
            met &= least < known if strict and self.exact[1] and not self.dropped else least <= known
        return met


def _reach(values: np.ndarray, start: np.ndarray, end: np.ndarray, query: np.ndarray, *, strict: bool) -> np.ndarray:
    """In ranges of numbers that grow, how far those below each query (or equal to it, if not strict) reach."""
    side = np.less if strict else np.less_equal
    while (start < end).any():
        middle = (start + end) >> 1
        below = side(values[np.minimum(middle, len(values) - 1)], query) & (start < end)
        start, end = np.where(below, middle + 1, start), np.where(below, end, middle)
    return start


@dataclass(frozen=True, slots=True)
class Questions:
    """What a screen asks of entries: the first inequalities of each body, and the families of their columns."""

    bodies: tuple[tuple[Comparison, ...], ...]
    families: tuple[tuple[str, str], ...]
    in_blocks: bool
    """Whether only rows with the same hash are compared."""

    @staticmethod
    def of(bodies: Sequence[BodyPlan], classes: Sequence[OrderClass], *, in_blocks: bool) -> Questions:
        """Those of some bodies, turned so that a changed row is t."""
        tests = tuple(tuple(body.inequalities[:_MOST_TESTS]) for body in bodies)
        named = {name for own in tests for one in own for name in (one.left, one.right)}
        families = {column: one.family for one in classes for column in one.columns}
        return Questions(tests, tuple((name, families[name]) for name in sorted(named)), in_blocks)

    @property
    def columns(self) -> list[str]:
        """The columns of entries that it looks at."""
        return sorted({one.right for tests in self.bodies for one in tests})

    @property
    def asking(self) -> list[str]:
        """The columns of rows that it looks at."""
        return sorted({one.left for tests in self.bodies for one in tests})

    def numbers(self, table: pa.Table, names: Iterable[str]) -> dict[str, _Numbers]:
        """Some columns as numbers."""
        families = dict(self.families)
        return {name: _Numbers.of(table, name, families[name]) for name in names}

    def made(self, entries: pa.Table) -> list[Stairs]:
        """Some entries, ordered by their hashes, before each body."""
        hashes = whole(entries.column(HASH)).to_numpy() if self.in_blocks else None
        numbers = self.numbers(entries, self.columns)
        return [_stairs(tests, hashes, [numbers[one.right] for one in tests]) for tests in self.bodies]


def _stairs(tests: Sequence[Comparison], hashes: np.ndarray | None, numbers: Sequence[_Numbers]) -> Stairs:
    """Entries before one body. They are stored by the first test: only for other bodies have they to be sorted."""
    there = _present(numbers)
    places = slice(None) if there is None else np.flatnonzero(there)
    hashes = None if hashes is None else hashes[places]
    backwards = tests[0].op in (Op.LT, Op.LE)  # its numbers are turned round: so is the order of the entries
    step = slice(None, None, -1 if backwards else 1)
    first, *others = (one.turned(test.op)[places][step] for one, test in zip(numbers, tests, strict=True))
    block = np.zeros(len(first), np.int64)
    if hashes is not None:
        np.cumsum(hashes[step][1:] != hashes[step][:-1], out=block[1:])
    if not ((first[1:] >= first[:-1]) | (block[1:] > block[:-1])).all():
        order = np.lexsort((first, block))
        first, others = first[order], [one[order] for one in others]
    least, low, dropped = _least(block, others[0]) if others else (None, 0, 0)
    return Stairs(hashes, backwards, first, least, low, dropped, tuple(one.exact for one in numbers))


def _least(block: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, int, int]:
    """The least number so far in each block, above the least of all; if they do not fit, without some lowest bits."""
    if not len(values):
        return values, 0, 0
    low = int(values.min())
    span, blocks = int(values.max()) - low, int(block[-1]) + 1
    dropped = max(0, ((span + 1) * blocks).bit_length() - 62)
    above = ((values.view(np.uint64) - np.uint64(low % 2**64)) >> np.uint64(dropped)).view(np.int64)
    # later blocks have smaller numbers here, so that the least so far is always one of the same block
    base = (blocks - 1 - block) * ((span >> dropped) + 1)
    return np.minimum.accumulate(above + base) - base, low, dropped


def _present(columns: Sequence[Ordered]) -> np.ndarray | None:
    """Where all columns have values; ``None`` if everywhere."""
    present = [one.present for one in columns if one.present is not None]
    return np.logical_and.reduce(present) if present else None


class Ordered(Protocol):
    """The values of a column, as far as their order is known. See ``_Numbers``."""

    @property
    def exact(self) -> bool: ...
    @property
    def present(self) -> np.ndarray | None: ...
    def turned(self, op: Op) -> np.ndarray: ...


class Screen:
    """Changed rows before the entries of an index; ``may_violate`` says which of those it has seen concern them."""

    def __init__(
        self, questions: Questions, numbers: Mapping[str, Ordered], size: int, hashes: np.ndarray | None = None
    ) -> None:
        self.questions, self._numbers, self._hashes = questions, numbers, hashes
        self.may_violate = np.zeros(size, bool)

    @staticmethod
    def of(rows: pa.Table, questions: Questions) -> Screen:
        """That of some rows, in their blocks."""
        numbers = questions.numbers(rows, questions.asking)
        return Screen(questions, numbers, rows.num_rows, whole(rows.column(HASH)).to_numpy())

    def look_at(self, stairs: Sequence[Stairs]) -> None:
        """Let those rows through that satisfy the inequalities of some body with some entry."""
        for tests, one in zip(self.questions.bodies, stairs, strict=True):
            own = [self._numbers[test.left] for test in tests]
            there = _present(own)
            asking = np.flatnonzero(~self.may_violate if there is None else ~self.may_violate & there)
            blocks = None
            if self._hashes is not None and one.hashes is not None:
                start, end = one.block_of(self._hashes[asking])
                near = end > start
                asking, blocks = asking[near], (start[near], end[near])
            if len(asking) and len(one.first):
                queries = [
                    (numbers.turned(test.op)[asking], test.op in (Op.LT, Op.GT) and numbers.exact)
                    for numbers, test in zip(own, tests, strict=True)
                ]
                self.may_violate[asking] = one.are_met(blocks, queries)
