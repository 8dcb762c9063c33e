"""Rows that are there, to hold others against: what is made of them to look values and rows up can be remembered.

Codes of rows stay as they are: a value that none of them stands for has a place between two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from dc_engine.discovery.cells import Cells, ends_of, in_cells
from dc_engine.discovery.coding import bytes_of, found_among, placed
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.space import Space
from dc_engine.discovery.table import Table
from dc_engine.state.memory import Shelf

_MANY_TEXTS = 20_000
"""So many are worth a table of their hashes."""
_SAMPLE = 100_000
"""Rows from which it is estimated how many of them share a value, where there are twice as many."""
_FIRST = 50_000
"""Rows among which values of new ones are looked for where there are few, ``_FEW`` combinations at most."""
_FEW = 1 << 22
_MOST_STEPS = 1 << 22
"""So many steps all fronts of a part may have, of 8 bytes each."""
_WORD, _SHORT = 64, 1 << 15


@dataclass(frozen=True)
class Standing:
    """Rows that are there: their codes, the values of these, and where to keep what is made of them."""

    space: Space
    layout: Layout
    rows: int
    codes: Callable[[], Mapping[str, np.ndarray]]
    """Read when something has to be made of them: what was made does without."""
    values: Callable[[str], pa.Array]
    shelf: Shelf

    @cached_property
    def table(self) -> Table:
        """Their codes by term."""
        codes, more = self.codes(), int(self.space.nulls == "equal")
        return Table.of(self.layout, {name: some + more if more else some for name, some in codes.items()})

    def places(self, others: Standing, since: int) -> np.ndarray:
        """Where values of other rows, from one on, are among those of their codes, by term: see ``placed``."""
        terms, equal = self.layout.terms.terms, self.space.nulls == "equal"
        codes = {name: some[since:] for name, some in others.codes().items()}
        found = placed(self.space, self.values, others.values, codes if since else None, self._found)
        places = np.empty((len(terms), others.rows - since), np.int32)
        for line, one in zip(places, terms, strict=True):
            np.take(found[one.left], codes[one.left], out=line, mode="wrap")  # the last place is that of NULL, -1
            if more := 2 * (equal + one.first):
                line += more
        return places

    def own_places(self, since: int) -> np.ndarray:
        """The same of their own rows, from one on."""
        return 2 * self.table.left[:, since:] + 1

    def _found(self, name: str, known: pa.Array, some: pa.Array) -> np.ndarray:
        """The codes of values; among many texts they are found by hashes, if a table of these can be remembered."""
        if self.shelf.key is None or len(known) < _MANY_TEXTS or not pa.types.is_large_binary(known.type):
            return found_among(known, some)
        from dc_engine.kernels.texts import hashed, look_up  # numba

        slots = 2 << len(known).bit_length()
        table = self.shelf.recall(("hashed", name), lambda: hashed(*bytes_of(known), slots), _nbytes)
        return look_up(*bytes_of(known), table, *bytes_of(some))

    @cached_property
    def _some(self) -> np.ndarray | slice:
        """Rows for estimates, by chance: what comes in turns, as debit and credit do, must not be missed."""
        if self.rows < 2 * _SAMPLE:
            return slice(None)
        return np.sort(np.random.default_rng(0).integers(self.rows, size=_SAMPLE))

    def partners(self, term: int) -> float:
        """About how many others have the value of a row in a term."""

        def make() -> float:
            sizes = np.bincount(self.table.left[term][self._some] + 1)[1:]
            sizes = sizes[sizes > 0]
            others = float((sizes * (sizes - 1.0)).sum()) / max(int(sizes.sum()), 1)
            return others * (self.rows / _SAMPLE if self.rows >= 2 * _SAMPLE else 1)

        return self.shelf.recall(("partners", term), make, lambda _: 8)

    def groups(self, terms: tuple[int, ...], mine: np.ndarray) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
        """The rows by their values in some terms, and where each of these begins; the places of others there."""
        from dc_engine.kernels import groups  # numba

        def by_one() -> tuple[np.ndarray, ...]:
            return groups.grouped(self.table.left[terms[0]], int(self.tops[terms[0]]) + 1)

        def by_several() -> tuple[np.ndarray, ...]:
            numbers, *found = groups.numbered(self.table.left[list(terms)])
            return (*groups.grouped(numbers, found[1].shape[1]), *found)

        make = by_one if len(terms) == 1 else by_several
        order, starts, *found = self.shelf.recall(("groups", terms), make, _all_nbytes)
        return (order, starts), groups.placed(mine[list(terms)], *found) if found else mine[terms[0]]

    @cached_property
    def packed(self) -> tuple[np.ndarray, ...]:
        """The codes of each row side by side in few words, so that a row is fetched at once; and where each term is."""
        from dc_engine.kernels.groups import pack  # numba

        def make() -> tuple[np.ndarray, ...]:
            fields, count = _fields([int(top) + 1 for top in self.tops])
            words = np.zeros((self.rows, count), np.uint64)
            pack(self.table.right, *fields[:2], words)
            return words, *fields

        return self.shelf.recall("packed", make, _all_nbytes)

    def cells(self, terms: np.ndarray, *, stay: bool) -> Cells:
        """The rows in cells by some terms. If they stay, their codes lie as the cells do, so that few are far apart."""

        def make() -> Cells:
            lines = [self.table.right[term] for term in terms.tolist()]
            order, starts, cells = in_cells(lines, self.rows)
            ends = ends_of(lines, cells, len(starts) - 1)
            if not stay or self.shelf.key is None:
                return Cells(self.table.right, terms, order, starts, *ends)
            short = all(line.max(initial=0) < _SHORT for line in lines)
            codes = np.empty((len(lines), self.rows), np.int16 if short else np.int32)
            for mine, line in zip(codes, lines, strict=True):
                mine[:] = line[order]
            return Cells(codes, np.arange(len(lines)), np.arange(self.rows, dtype=np.int32), starts, *ends)

        return self.shelf.recall(("cells", tuple(terms.tolist())), make, _all_nbytes) if stay else make()

    @cached_property
    def tops(self) -> np.ndarray:
        """The largest code of each term."""
        return self.shelf.recall("tops", lambda: self.table.right.max(axis=1, initial=0).astype(np.int64), _nbytes)

    def fronts(self, asked: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        """How far the rows reach: see ``build``."""
        from dc_engine.kernels.fronts import build  # numba

        def make() -> tuple[np.ndarray, ...]:
            return build(self.table.right, self.tops, asked, _MOST_STEPS)

        return self.shelf.recall(("fronts", *(one.tobytes() for one in asked)), make, _all_nbytes)

    def combinations(self, terms: tuple[int, ...]) -> tuple[np.ndarray, tuple[int, ...]] | None:
        """Which values some rows have in some terms, as a table with a place for each; nothing if that is too large."""

        def make() -> tuple[np.ndarray, np.ndarray]:
            some = [self.table.left[term, :_FIRST] + 1 for term in terms]
            sizes = np.array([int(one.max(initial=0)) + 1 for one in some])
            if np.prod(sizes.astype(float)) > _FEW:
                return np.zeros(0, bool), sizes
            seen = np.zeros(int(np.prod(sizes)), bool)
            seen[np.ravel_multi_index(some, tuple(sizes))] = True
            return seen, sizes

        seen, sizes = self.shelf.recall(("combinations", terms), make, _all_nbytes)
        return (seen, tuple(sizes.tolist())) if len(seen) else None


def _fields(most: Sequence[int]) -> tuple[tuple[np.ndarray, ...], int]:
    """In which word each of some numbers has its bits, from which bit on and which these are, and how many words."""
    places, shifts, word, used = [], [], 0, 0
    for one in most:
        if used + one.bit_length() > _WORD:
            word, used = word + 1, 0
        places.append(word)
        shifts.append(used)
        used += one.bit_length()
    masks = [(1 << one.bit_length()) - 1 for one in most]
    return (np.array(places), np.array(shifts, np.uint64), np.array(masks, np.uint64)), word + 1


def _nbytes(array: np.ndarray) -> int:
    return array.nbytes


def _all_nbytes(arrays: Sequence[np.ndarray]) -> int:
    return sum(one.nbytes for one in arrays)
