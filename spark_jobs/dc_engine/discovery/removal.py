"""Order dependencies that hold but for a few rows: how few have to go, and which ones.

Within a context a column is constant without all rows that do not have its most frequent value. Two columns go together
without all rows but those of a longest sequence in which, sorted by the first, the second never falls. In a larger
context fewer rows have to go, so the search goes up from small ones, and never beyond one that will do. Nothing else of
what holds for exact dependencies is used.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from dc_engine.discovery.boxes import Box
from dc_engine.discovery.enumerating import Enumerated
from dc_engine.discovery.orders import box_of
from dc_engine.discovery.partitions import Partitions, Question, question_of
from dc_engine.discovery.table import Table
from dc_engine.discovery.terms import Outcome, Terms

_LESS, _GREATER = int(Outcome.LESS), int(Outcome.GREATER)


@dataclass
class Approximate:
    """What holds when a few rows go, with their number: all of up to so many terms."""

    removed: dict[Question, int] = field(default_factory=dict)
    terms: int = 0


def approximate_orders(table: Table, allowed: int, most: int, seconds: float | None) -> Enumerated:
    """The smallest order dependencies of up to so many terms that hold when at most so many rows go."""
    terms = table.layout.terms
    found = Removals(table.left[list(terms.first.values())]).search(terms.descending, allowed, most, seconds)
    removed = {_box(terms, question): number for question, number in found.removed.items()}
    stopped = found.terms < min(most, len(terms.first))
    return Enumerated({"od": list(removed)}, found.terms if stopped else None, "seconds" * stopped, {"od": removed})


def rows_to_remove(table: Table, box: Box) -> np.ndarray:
    """The rows of a table without which an order dependency holds, as few as possible."""
    question = question_of(table.layout.terms, box)
    assert question is not None
    return Removals(table.left).rows(question)


def _box(terms: Terms, question: Question) -> Box:
    one, *other = question.columns
    if not other:
        return box_of(terms, question.context, {one: _LESS | _GREATER})
    return box_of(terms, question.context, {one: _LESS, other[0]: _LESS if question.descending else _GREATER})


class Removals:
    """The fewest rows without which dependencies hold, on rows given by their codes for each term, none of them < 0."""

    def __init__(self, codes: np.ndarray) -> None:
        self._codes = codes
        self._partitions = Partitions(codes, threads=1)
        self._walk = self._partitions.walk()
        self._orders: dict[Question, np.ndarray] = {}

    def rows(self, question: Question) -> np.ndarray:
        """The rows that have to go, as few as possible."""
        return np.sort(self._removed(question, self._codes.shape[1]))

    def _removed(self, question: Question, most: int) -> np.ndarray:
        """The same, if they are not more than so many; else any rows, more than that."""
        from dc_engine.kernels.partitions import spread_classes  # numba
        from dc_engine.kernels.removal import minorities, strays  # numba

        classes = self._walk.to(self._partitions.path(question.context))
        if not len(classes.order):
            return classes.order
        if len(question.columns) == 1:
            codes, values = (some[question.columns[0]] for some in (self._codes, self._partitions.values))
            return minorities(classes.order, classes.starts, codes, values, most)
        by_both, ends = spread_classes(classes.order, classes.starts, self._in_order(question))
        sign = -1 if question.descending else 1
        return strays(by_both, classes.starts, ends, self._codes[question.columns[1]], sign, most)

    def _in_order(self, question: Question) -> np.ndarray:
        """All rows in the order of one column, and where they agree in it in that of the other, up or down."""
        from dc_engine.kernels.partitions import sorted_rows  # numba

        (one, other), values = question.columns, self._partitions.values
        if (target := question._replace(context=frozenset())) not in self._orders:
            rows = np.arange(self._codes.shape[1], dtype=np.int32)
            by_other = sorted_rows(self._codes[other], values[other], rows)
            by_other = by_other[::-1].copy() if question.descending else by_other
            self._orders[target] = sorted_rows(self._codes[one], values[one], by_other)
        return self._orders[target]

    def search(self, descending: bool, allowed: int, max_terms: int | None, seconds: float | None) -> Approximate:
        """All that holds when at most ``allowed`` rows go, and in no smaller context; found from small ones upwards.

        Where a column is constant but for so few rows, all others go together with it: that is not said again. Only
        contexts that leave something undecided are gone beyond.
        """
        columns, end = range(len(self._codes)), math.inf if seconds is None else time.monotonic() + seconds
        most = len(columns) if max_terms is None else min(max_terms, len(columns))
        targets = [(1, Question(frozenset(), (one,))) for one in columns]
        targets += [
            (2, Question(frozenset(), both, down))
            for both in combinations(columns, 2)
            for down in ([False, True] if descending else [False])
        ]
        found, smallest = Approximate(), {target: list[frozenset[int]]() for _, target in targets}
        order = self._partitions.path(columns)
        contexts: Iterable[tuple[int, ...]] = [()]
        for size in range(most):
            level: dict[Question, int] = {}
            undecided: list[tuple[int, ...]] = []
            for context in contexts:
                chosen = frozenset(context)
                for terms, target in targets:
                    if time.monotonic() > end:
                        return found
                    if size + terms > most or not chosen.isdisjoint(target.columns):
                        continue
                    singles = [target._replace(columns=(one,), descending=False) for one in target.columns]
                    if any(one <= chosen for known in (target, *singles) for one in smallest[known]):
                        continue
                    question = target._replace(context=chosen)
                    if (removed := len(self._removed(question, allowed))) <= allowed:
                        level[question] = removed
                        smallest[target].append(chosen)
                    elif undecided[-1:] != [context]:
                        undecided.append(context)
            found = Approximate(found.removed | level, size + 1)
            contexts = _one_more(undecided, order)
        return found


def _one_more(contexts: Sequence[tuple[int, ...]], order: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The contexts with one column more, which comes after theirs in some order; neighbours have most in common."""
    for context in contexts:
        first = order.index(context[-1]) + 1 if context else 0
        yield from ((*context, one) for one in order[first:])
