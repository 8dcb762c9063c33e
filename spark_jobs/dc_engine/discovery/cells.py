"""Which of some rows lie in a box together with another row: looked for in cells of rows with similar values.

Rows are put in order by the terms that the boxes speak of, those with few values first, and cut into cells. From the
smallest and largest value of each term in a cell follows for most cells that they have no partner for a row. Where a
rule holds, values that it compares go together, and what is left are the cells on the border.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from dc_engine.discovery.boxes import Box, matrix, turned
from dc_engine.discovery.table import Table
from dc_engine.discovery.terms import ALL
from dc_engine.sizes import SIZES
from dc_engine.threads import processors, side_by_side

_MOST_CELLS = 1 << 16
_ANSWERS = 1 << 22
"""So many partners, one for each box and row, are looked for at a time."""
_DIRECT = 1 << 22
"""So many combinations of values have a table with a place for each."""


class Partners(NamedTuple):
    """Rows that lie in a box with another: the numbers of boxes, in order, places among the rows, and the others."""

    boxes: np.ndarray
    rows: np.ndarray
    partners: np.ndarray


def partners_of(
    table: Table,
    boxes: Sequence[Box],
    rows: np.ndarray,
    asked: Callable[[int], np.ndarray],
    among: np.ndarray,
    most: int,
) -> Partners | None:
    """For each box and row a partner of the row, with which it lies in the box, either way round, if there is one.

    ``asked`` says of a box, by its number, for which rows one is looked for, ``among`` which others it may be. There is
    no result if more than about ``most`` pairs would have to be compared.
    """
    none = np.zeros(0, np.int32)
    found = [Partners(none, none, none)]
    if not len(boxes) or not len(among):
        return found[0]
    masks = matrix(table.layout.terms, boxes)
    terms = np.flatnonzero((masks != int(ALL)).any(axis=0))
    masks = masks[:, terms]
    order, starts, cells = in_cells(_lines(table.left, terms, among), len(among))
    order = order if len(among) == table.rows else among[order]
    sides: list[tuple[np.ndarray, Cells, np.ndarray]] = []
    for mine, others, ways in ((table.left, table.right, masks), (table.right, table.left, turned(masks))):
        same = sides and table.left is table.right
        known = sides[0][1] if same else _cells(others, terms, among, order, starts, cells)
        sides.append((2 * mine[terms][:, rows] + 1, known, ways))
    step = max(1, _ANSWERS // max(len(rows), 1))
    for first in range(0, len(boxes), step):
        wanted = np.array([asked(number) for number in range(first, min(first + step, len(boxes)))])
        partners = np.full(wanted.shape, -1, np.int64)
        for places, known, ways in sides:
            some = ways[first : first + step]
            most = find(places, np.full(len(rows), -1), known, some, wanted, partners, most)
        if most < 0:
            return None
        box, row = np.nonzero(partners >= 0)
        found.append(Partners(*(one.astype(np.int32) for one in (first + box, row, partners[box, row]))))
    return Partners(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def _cells(
    codes: np.ndarray, terms: np.ndarray, among: np.ndarray, order: np.ndarray, starts: np.ndarray, cells: np.ndarray
) -> Cells:
    """Rows that are in cells, by their codes on one side of the boxes."""
    return Cells(codes, terms, order, starts, *ends_of(_lines(codes, terms, among), cells, len(starts) - 1))


def _lines(codes: np.ndarray, terms: np.ndarray, rows: np.ndarray) -> list[np.ndarray]:
    """The codes of each of some terms in some rows; a range of rows is not copied."""
    first, last = int(rows[0]), int(rows[-1]) + 1
    chosen = slice(first, last) if last - first == len(rows) else rows
    return [codes[term, chosen] for term in terms.tolist()]


class Cells(NamedTuple):
    """All codes of a table, the terms that matter, its rows in the order of cells, where these begin, what each has.

    What a cell, or a block of them, has are its smallest and largest places.
    """

    codes: np.ndarray
    terms: np.ndarray
    order: np.ndarray
    starts: np.ndarray
    low: np.ndarray
    high: np.ndarray
    least: np.ndarray
    greatest: np.ndarray


def ends_of(lines: Sequence[np.ndarray], cells: np.ndarray, count: int) -> tuple[np.ndarray, ...]:
    """The smallest and the largest code of each term in each cell, and in each block of cells: 2c + 1 for code c."""
    from dc_engine.kernels.cells import BLOCK, find_ends  # numba

    low, high = (np.full((len(lines), count), end, np.int32) for end in (np.iinfo(np.int32).max, -1))
    side_by_side(lambda one: find_ends(one[0], cells, *one[1:]), zip(lines, low, high, strict=True))
    low, high = np.where(high < 0, low, 2 * low + 1), 2 * high + 1
    blocks = np.arange(0, count, BLOCK)
    return low, high, np.minimum.reduceat(low, blocks, axis=1), np.maximum.reduceat(high, blocks, axis=1)


def find(
    mine: np.ndarray, own: np.ndarray, cells: Cells, boxes: np.ndarray, asked: np.ndarray, found: np.ndarray, most: int
) -> int:
    """Look for partners of rows, by the places of their values as one side of the boxes, among all as the other.

    ``own`` says which of these a row is itself, or -1.

    At most so many pairs are compared; returned is how many might be after that, below 0 if it was stopped.
    """
    from dc_engine.kernels.cells import find_partners  # numba

    if most < 0:
        return most
    mine, count = np.ascontiguousarray(mine), processors()
    cuts = pairwise(np.linspace(0, mine.shape[1], count + 1).astype(int).tolist())
    left = side_by_side(lambda cut: find_partners(mine, own, cells, boxes, asked, *cut, found, most // count), cuts)
    return -1 if min(left) < 0 else sum(left)


def in_cells(columns: Sequence[np.ndarray], rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rows in the order of their cells, where each begins (and the last one ends), and the cell of each row."""
    from dc_engine.kernels.cells import count_in, move, sorted_by  # numba

    wanted = min(max(int(SIZES.cells * math.sqrt(rows)), 1), _MOST_CELLS)
    sizes = [int(codes.max(initial=-1)) + 2 for codes in columns]  # NULL has a place too
    cells, count = np.zeros(rows, np.int32), 1
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
    return order, starts, cells
