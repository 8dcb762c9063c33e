"""Whether dependencies hold, decided by classes of rows that agree on some columns: in time linear in the rows.

In each class a column is constant, or it is not; two columns go up and down together, or two rows are found of which
one is ahead in one column and behind in the other. Contexts are gone through in an order in which each is made from the
one before by splitting its classes by one more column, those with many values first: what is left of rows soon is
little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby, takewhile
from typing import NamedTuple

import numpy as np

from dc_engine.discovery.boxes import Box, equalities, said
from dc_engine.discovery.terms import Outcome, Terms
from dc_engine.threads import processors, side_by_side

_SHOWN = 64
"""So many pairs of rows are shown at most that violate a dependency."""
_FEW_ROWS = 8
"""Classes of a table with so many times as many rows are sorted one by one."""
_MANY_ROWS = 10_000
"""More are asked by several threads."""
_PARTS = 2
"""Into how many parts the contexts are cut for each thread."""
_DIFFERENT = int(Outcome.LESS | Outcome.GREATER)
_STRICT = (int(Outcome.LESS), int(Outcome.GREATER))


class Question(NamedTuple):
    """Whether rows that agree on a context agree in a column too, or order two columns alike (or the opposite way).

    Without any column: whether no two rows agree on the context. All are places of terms.
    """

    context: frozenset[int]
    columns: tuple[int, ...] = ()
    descending: bool = False


def question_of(terms: Terms, box: Box) -> Question | None:
    """What a box asks, if it asks for equality but in one column that differs or in two, each either way."""
    context = equalities(box)
    others = tuple(place for place in said(box) if place not in context)
    masks = [box[place] for place in others]
    if not all(terms.terms[place].own for place in (*context, *others)):
        return None
    if masks in ([], [_DIFFERENT]):
        return Question(context, others)
    if len(masks) == 2 and all(mask in _STRICT for mask in masks):
        return Question(context, others, masks[0] == masks[1])
    return None


Pairs = tuple[np.ndarray, np.ndarray]
"""Rows that violate something, and their partners."""


@dataclass(frozen=True, slots=True)
class Classes:
    """Rows that agree, together: see the kernels."""

    order: np.ndarray
    starts: np.ndarray
    sorted_by: dict[int, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    """The rows of each class in the order of a column, the last that was asked for, and where each class ends."""


class Partitions:
    """Answers questions about rows, given by their codes for each term.

    If new rows are given, what is asked is known to hold among the others: only classes with a new row are looked at.
    """

    def __init__(self, codes: np.ndarray, new: np.ndarray | None = None, threads: int | None = None) -> None:
        self._codes = codes
        self._new = new
        self._threads = threads or (processors() if codes.shape[1] > _MANY_ROWS else 1)
        self._orders: dict[int, np.ndarray] = {}

    @cached_property
    def values(self) -> list[int]:
        """How many codes each term has at most."""
        return [int(one.max(initial=-1)) + 1 for one in self._codes]

    def answers(self, questions: Sequence[Question]) -> list[Pairs]:
        """For each question some pairs of rows that answer it with no, of several classes; none if it is yes."""
        asked = sorted((self.path(one.context), number) for number, one in enumerate(questions))
        paths = [(path, [number for _, number in some]) for path, some in groupby(asked, key=lambda one: one[0])]
        size = -(-len(paths) // (self._threads * _PARTS if self._threads > 1 else 1)) or 1
        parts = [paths[first : first + size] for first in range(0, len(paths), size)]
        result: list[Pairs] = [(np.zeros(0, np.int64),) * 2] * len(questions)

        def answer(part: Sequence[tuple[tuple[int, ...], list[int]]]) -> None:
            walk = self.walk()
            for path, numbers in part:
                classes = walk.to(path)
                for number in sorted(numbers, key=lambda one: questions[one].columns):
                    result[number] = self._answer(classes, questions[number])

        side_by_side(answer, parts, self._threads)
        return result

    def groups(self, context: Iterable[int]) -> tuple[np.ndarray, np.ndarray]:
        """Rows that agree with others on a context, by class, new ones last, and where the class of each starts."""
        from dc_engine.kernels.partitions import new_last  # numba

        classes = self.walk().to(self.path(context))
        order, starts = classes.order, classes.starts
        if self._new is not None:
            order = new_last(order, starts, self._new)
        return order, np.repeat(starts[:-1], np.diff(starts)).astype(np.int64)

    def walk(self) -> Walk:
        """A way through contexts, to be taken in the order of their paths."""
        return Walk(self._whole(), self._split)

    def path(self, context: Iterable[int]) -> tuple[int, ...]:
        """The places of a context, those with many values first."""
        return tuple(sorted(context, key=lambda place: (-self.values[place], place)))

    def _whole(self) -> Classes:
        rows = self._codes.shape[1]
        exists = rows > 1 and (self._new is None or bool(self._new.any()))
        return Classes(np.arange(rows if exists else 0, dtype=np.int32), _edges(rows if exists else 0))

    def _is_whole(self, classes: Classes) -> bool:
        return len(classes.starts) == 2 and len(classes.order) == self._codes.shape[1]

    def _split(self, classes: Classes, place: int) -> Classes:
        """The classes of rows that agree in one more column too."""
        from dc_engine.kernels.partitions import split, touched  # numba

        codes, values, order, starts = self._codes[place], self.values[place], classes.order, classes.starts
        if not len(order):
            return classes
        if self._new is None:
            return Classes(*split(order, starts, codes, values))
        if self._is_whole(classes):  # rows that have no new one's value are not even put into classes
            order = np.flatnonzero(shared(codes, codes[self._new])).astype(np.int32)
            return Classes(*split(order, _edges(len(order)), codes, values))
        return Classes(*touched(*split(order, starts, codes, values), self._new))

    def _answer(self, classes: Classes, question: Question) -> Pairs:
        from dc_engine.kernels.partitions import differing, swapped  # numba

        order, starts = classes.order, classes.starts
        if not len(order):
            pairs = np.zeros((0, 2), np.int64)
        elif not question.columns:
            first = starts[:-1][:_SHOWN].astype(np.int64)
            pairs = np.stack([order[first], order[first + 1]], axis=1)
        elif len(question.columns) == 1:
            pairs = differing(order, starts, self._codes[question.columns[0]], _SHOWN)
        else:
            one, other = (self._codes[place] for place in question.columns)
            if question.columns[0] not in classes.sorted_by:
                classes.sorted_by.clear()
                classes.sorted_by[question.columns[0]] = self._sorted(classes, question.columns[0])
            by_one, ends = classes.sorted_by[question.columns[0]]
            pairs = swapped(by_one, starts, ends, one, other, -1 if question.descending else 1, _SHOWN)
        return pairs[:, 0].astype(np.int64), pairs[:, 1].astype(np.int64)

    def _sorted(self, classes: Classes, place: int) -> tuple[np.ndarray, np.ndarray]:
        """The rows of each class in the order of a column, and where each class ends."""
        from dc_engine.kernels.partitions import sorted_classes, spread_classes  # numba

        order, starts = classes.order, classes.starts
        if self._is_whole(classes):
            by_code = self._in_order(place)
            return by_code, _edges(len(by_code))[1:]
        if len(order) * _FEW_ROWS < self._codes.shape[1]:
            return sorted_classes(order, starts, self._codes[place]), starts[1:]
        return spread_classes(order, starts, self._in_order(place))

    def _in_order(self, place: int) -> np.ndarray:
        """All rows in the order of a column; two threads that need it at the same time both make it."""
        from dc_engine.kernels.partitions import sorted_rows  # numba

        if place not in self._orders:
            rows = np.arange(self._codes.shape[1], dtype=np.int32)
            self._orders[place] = sorted_rows(self._codes[place], self.values[place], rows)
        return self._orders[place]


def shared(codes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Which codes are among others; NULL, which is -1, agrees with nothing."""
    wanted = np.zeros(max(int(codes.max(initial=0)), int(others.max(initial=0))) + 2, bool)
    wanted[others] = True
    wanted[-1] = False
    return wanted[codes]


def _edges(rows: int) -> np.ndarray:
    """Where one class of so many rows begins and ends; no class without rows."""
    return np.array([0, rows] if rows else [0], np.int32)


class Walk:
    """Goes from context to context, and splits again only what the next one does not share with the last."""

    def __init__(self, whole: Classes, split: Callable[[Classes, int], Classes]) -> None:
        self._split = split
        self._steps = [whole]
        self._path: tuple[int, ...] = ()

    def to(self, path: tuple[int, ...]) -> Classes:
        """The classes of rows that agree on all columns of a path."""
        shared = sum(1 for _ in takewhile(lambda both: both[0] == both[1], zip(self._path, path, strict=False)))
        del self._steps[shared + 1 :]
        for place in path[shared:]:
            self._steps.append(self._split(self._steps[-1], place))
        self._path = path
        return self._steps[-1]
