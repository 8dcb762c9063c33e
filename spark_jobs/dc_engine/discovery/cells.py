"""Which of some rows lie in a box together with another row: looked for in cells of rows with similar values.

Rows are put in order by the terms that the boxes speak of, those with few values first, and cut into cells. From the
smallest and largest value of each term in a cell follows for most cells that they have no partner for a row. Where a
rule holds, values that it compares go together, and what is left are the cells on the border.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np

from dc_engine.discovery.boxes import Box, matrix, turned
from dc_engine.discovery.table import Table
from dc_engine.discovery.terms import ALL
from dc_engine.sizes import SIZES

_MOST_CELLS = 1 << 16
_DIRECT = 1 << 22
"""So many combinations of values have a table with a place for each."""


def partners_of(
    table: Table, boxes: Sequence[Box], rows: np.ndarray, asked: np.ndarray, among: np.ndarray, most: int
) -> np.ndarray | None:
    """For each box and row a partner of the row, with which it lies in the box, either way round; -1 if there is none.

    ``asked`` says for each box and row whether it is to be looked for, ``among`` which others may be the partner. There
    is no result if more than about ``most`` pairs would have to be compared.
    """
    result = np.full(asked.shape, -1, np.int64)
    some = np.flatnonzero(asked.any(axis=1))
    if not len(some) or not len(among):
        return result
    masks = matrix(table.layout.terms, [boxes[one] for one in some.tolist()])
    terms = np.flatnonzero((masks != int(ALL)).any(axis=0))
    masks, asked, found = masks[:, terms], asked[some], result[some]
    left, right = (_taken(side, terms, among) for side in (table.left, table.right))
    order, starts = _in_cells(left)
    cells = _Cells(right, order, starts)
    left_over = cells.find(table.left[terms][:, rows], masks, asked, found, most)
    if table.left is not table.right:
        cells = _Cells(left, order, starts)
    left_over = cells.find(table.right[terms][:, rows], turned(masks), asked, found, left_over)
    if left_over < 0:
        return None
    result[some] = np.where(found >= 0, among[order[found]], -1)
    return result


def _taken(codes: np.ndarray, terms: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The codes of some terms and rows; a range of rows is copied as a whole."""
    first, last = int(rows[0]), int(rows[-1]) + 1
    return codes[terms, first:last] if last - first == len(rows) else codes[terms][:, rows]


class _Cells:
    """The codes of rows in the order of their cells, and the range of each term in each cell."""

    def __init__(self, codes: np.ndarray, order: np.ndarray, starts: np.ndarray) -> None:
        from dc_engine.kernels.cells import take  # numba

        self._starts = starts
        self._codes = np.empty_like(codes)
        self._low, self._high = (np.empty((len(codes), len(starts) - 1), np.int32) for _ in range(2))

        def taken(term: int) -> None:
            take(codes[term], order, starts, self._codes[term], self._low[term], self._high[term])

        with ThreadPoolExecutor(_workers()) as pool:
            list(pool.map(taken, range(len(codes))))

    def find(self, mine: np.ndarray, boxes: np.ndarray, asked: np.ndarray, found: np.ndarray, most: int) -> int:
        """Look for partners of rows, by their codes as one side of the boxes, among the codes of all as the other.

        At most so many pairs are compared; returned is how many might be after that, below 0 if it was stopped.
        """
        from dc_engine.kernels.cells import find_partners  # numba

        mine = np.ascontiguousarray(mine)
        workers = _workers()
        cuts = pairwise(np.linspace(0, mine.shape[1], workers + 1).astype(int).tolist())
        with ThreadPoolExecutor(workers) as pool:
            cells = (self._low, self._high, self._codes, self._starts)
            left = list(
                pool.map(lambda cut: find_partners(mine, *cells, boxes, asked, *cut, found, most // workers), cuts)
            )
        return -1 if min(left) < 0 else sum(left)


def _in_cells(columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows in the order of their cells, and where each cell begins (and the last one ends)."""
    from dc_engine.kernels.cells import count_in, move, sorted_by  # numba

    rows = columns.shape[1]
    wanted = min(max(int(SIZES.cells * math.sqrt(rows)), 1), _MOST_CELLS)
    sizes = [int(codes.max(initial=-1)) + 2 for codes in columns]  # NULL has a place too
    cells, count = np.zeros(rows, np.int64), 1
    for place in np.argsort(sizes, kind="stable").tolist():
        codes, values = columns[place], sizes[place]
        if 2 * count > wanted:
            break
        if count * values <= _DIRECT:
            counts = np.zeros(count * values, np.int64)
            count_in(cells, codes, values, counts)
            used = counts > 0
            if used.sum() <= wanted:
                move(cells, 0, codes, values, np.cumsum(used) - 1)
                count = int(used.sum())
                continue
        before = np.cumsum(np.bincount(codes + 1, minlength=1))
        shares = np.minimum((before - 1) * (wanted // count) // max(rows, 1), wanted // count - 1)
        move(cells, wanted // count, codes, 0, shares)
        count *= wanted // count
    order, starts = sorted_by(cells, count)
    return order, np.unique(starts)


def _workers() -> int:
    return min(os.cpu_count() or 1, 8)
