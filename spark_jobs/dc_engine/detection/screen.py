"""A screen before the counting: which changed rows can violate a rule at all with what an index holds.

A violation of a body needs each of its inequalities. With the entries of a block ordered by the first one, those that
satisfy it for a row come before a place in that order, and the smallest value among them decides the second one. Rows
for which no entry satisfies both are clear, and nothing has to be coded, sorted or counted for their sake.

The screen may let a row through for nothing, for instance because it looks at the first bytes of a text only. It never
clears a row that violates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dc_engine.constraints.model import Op
from dc_engine.detection.bodies import BodyPlan, Comparison
from dc_engine.detection.codes import whole
from dc_engine.detection.comparable import Family
from dc_engine.detection.order import order_numbers
from dc_engine.detection.plan import OrderClass
from dc_engine.detection.runs import HASH, rows_of

_MOST_TESTS = 2


def can_screen(bodies: Sequence[BodyPlan], classes: Sequence[OrderClass]) -> bool:
    """Whether each body has an inequality to screen by; arrays and structs would take longer than counting."""
    families = {column: one.family for one in classes for column in one.columns}
    tests = [body.inequalities[:_MOST_TESTS] for body in bodies]
    plain = set(Family)
    return bool(tests) and all(own and all(families[one.left] in plain for one in own) for own in tests)


@dataclass(frozen=True, slots=True)
class _Test:
    """``entry < query`` (or, if not strict, ``<=``) between numbers; those of the entries may be turned round."""

    query: np.ndarray
    entry: np.ndarray
    strict: bool

    def at(self, queries: np.ndarray | slice, entries: np.ndarray | slice) -> _Test:
        return _Test(self.query[queries], self.entry[entries], self.strict)


@dataclass(frozen=True, slots=True)
class _Numbers:
    """A column as whole numbers in the order of its values."""

    values: np.ndarray
    exact: bool
    """Whether different values have different numbers."""
    present: np.ndarray | None
    """Which values are not NULL; ``None`` if all are."""

    def at(self, places: np.ndarray | slice) -> _Numbers:
        """Some of them."""
        return _Numbers(self.values[places], self.exact, None if self.present is None else self.present[places])


class Screen:
    """Changed rows before the entries of an index; ``may_violate`` says which of those that it has seen concern them.

    ``bodies`` are turned so that a changed row is t. ``wanted`` are the sorted hashes of the blocks, or ``None`` if all
    rows are in one block.
    """

    def __init__(
        self, rows: pa.Table, bodies: Sequence[BodyPlan], classes: Sequence[OrderClass], wanted: np.ndarray | None
    ) -> None:
        self._rows, self._wanted = rows, wanted
        self._bodies = [body.inequalities[:_MOST_TESTS] for body in bodies]
        self._families = {column: one.family for one in classes for column in one.columns}
        self._own = {one.left: self._numbers(rows, one.left) for tests in self._bodies for one in tests}
        hashes = whole(rows.column(HASH)).to_numpy()
        self._block = np.zeros(len(hashes), np.int64) if wanted is None else np.searchsorted(wanted, hashes)
        self.may_violate = np.zeros(rows.num_rows, bool)

    @property
    def columns(self) -> list[str]:
        """The columns of entries that it looks at."""
        return sorted({one.right for tests in self._bodies for one in tests})

    def look_at(self, entries: pa.Table) -> None:
        """See some entries, ordered by their hashes."""
        block, places = self._blocks_of(entries)
        if not len(block):
            return
        numbers = {name: self._numbers(entries, name).at(places) for name in self.columns}
        for tests in self._bodies:
            self._apply(tests, block, numbers)

    def _blocks_of(self, entries: pa.Table) -> tuple[np.ndarray, np.ndarray | slice]:
        """The blocks of the entries that lie in one, and the places of these entries."""
        if self._wanted is None:
            return np.zeros(entries.num_rows, np.int64), slice(None)
        block, places = rows_of(whole(entries.column(HASH)).to_numpy(), self._wanted)
        return block, slice(None) if len(places) == entries.num_rows else places

    def _numbers(self, table: pa.Table, name: str) -> _Numbers:
        column = table.column(name)
        values, exact = order_numbers(whole(column), self._families[name])
        return _Numbers(values, exact, column.is_valid().to_numpy() if column.null_count else None)

    def _apply(self, tests: Sequence[Comparison], block: np.ndarray, numbers: Mapping[str, _Numbers]) -> None:
        """Let those rows through that satisfy the inequalities of one body with some entry."""
        asking = _present(~self.may_violate, [self._own[one.left] for one in tests])
        answering = _present(np.ones(len(block), bool), [numbers[one.right] for one in tests])
        own_block, block = self._block[asking], block[answering]
        if not len(own_block) or not len(block):
            return
        pairs = [_test(one, self._own[one.left], numbers[one.right]).at(asking, answering) for one in tests]
        if tests[0].op in (Op.LT, Op.LE):  # its numbers are turned round: so is the order of the entries
            last = max(int(own_block.max()), int(block[-1]))
            own_block, block = last - own_block, last - block[::-1]
            pairs = [one.at(slice(None), slice(None, None, -1)) for one in pairs]
        self.may_violate[asking] = _are_met(own_block, block, pairs)


def _present(among: np.ndarray, columns: Sequence[_Numbers]) -> np.ndarray | slice:
    """Where all columns have values, among some places."""
    for one in columns:
        among = among if one.present is None else among & one.present
    return slice(None) if among.all() else np.flatnonzero(among)


def _test(comparison: Comparison, query: _Numbers, entry: _Numbers) -> _Test:
    strict = comparison.op in (Op.LT, Op.GT) and query.exact and entry.exact
    if comparison.op in (Op.GT, Op.GE):
        return _Test(query.values, entry.values, strict)
    return _Test(~query.values, ~entry.values, strict)


def _are_met(block: np.ndarray, entry_block: np.ndarray, tests: Sequence[_Test]) -> np.ndarray:
    """Which queries satisfy all (one or two) tests with some entry of their block; entries are ordered by block."""
    blocks = max(int(block.max()), int(entry_block[-1])) + 1
    first = _in_blocks(block, entry_block, blocks, tests[0])
    order = None if (first.entry[1:] >= first.entry[:-1]).all() else np.argsort(first.entry, kind="stable")
    placed = first.entry if order is None else first.entry[order]
    start = np.searchsorted(entry_block, block)
    end = np.searchsorted(placed, first.query, side="left" if first.strict else "right")
    met = end > start
    for one in tests[1:]:
        # later blocks have smaller numbers here, so that the smallest so far is always one of the same block
        second = _in_blocks(blocks - 1 - block, blocks - 1 - entry_block, blocks, one)
        least = np.minimum.accumulate(second.entry if order is None else second.entry[order])[np.maximum(end, 1) - 1]
        met &= least < second.query if second.strict else least <= second.query
    return met


def _in_blocks(block: np.ndarray, entry_block: np.ndarray, blocks: int, test: _Test) -> _Test:
    """The test between numbers that are ordered by block first; where they do not fit, the lowest bits are dropped."""
    low = min(int(test.query.min()), int(test.entry.min()))
    span = max(int(test.query.max()), int(test.entry.max())) - low
    dropped = max(0, ((span + 1) * blocks).bit_length() - 62)
    width = (span >> dropped) + 1
    offset, shift = np.uint64(low % 2**64), np.uint64(dropped)
    query, entry = (
        own * width + ((values.view(np.uint64) - offset) >> shift).view(np.int64)
        for own, values in ((block, test.query), (entry_block, test.entry))
    )
    return _Test(query, entry, test.strict and not dropped)
