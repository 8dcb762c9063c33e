"""Codes of rows from several places in one coding, where most of them were coded before.

Codes that were kept come with the values that they stand for. New values are looked for among those, which takes
nothing from the rows that were coded; where codes are in the order of the values, new ones move the old ones up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dc_engine.detection.codes import NULL, coded, codes_of, comparable, dictionary_coded, pieces_of, sorted_order
from dc_engine.discovery.space import OrderClass, Space
from dc_engine.threads import processors, side_by_side

_AT_ONCE = 4
"""Of so many order classes, at most, the values are in memory at a time."""
_FEW_ROWS = 10_000
"""They are coded one after the other."""

Columns = Mapping[str, pa.ChunkedArray]


@dataclass(frozen=True, slots=True)
class Coding:
    """The codes of each column, in pieces, and of each order class (by its first column) the value of each code.

    Values are read when they are asked for: those of one class need be in memory at a time.
    """

    codes: Mapping[str, Sequence[np.ndarray]]
    values: Callable[[str], pa.Array]

    def chosen(self, rows: np.ndarray) -> Coding:
        """Some of the rows, in the same codes."""
        return Coding({name: [np.concatenate(some)[rows]] for name, some in self.codes.items()}, self.values)


Part = Columns | Coding


def coding_of(space: Space, parts: Sequence[Part]) -> Coding:
    """The codes of all rows of some parts, one after the other."""
    codes: dict[str, Sequence[np.ndarray]] = {}
    values: dict[str, pa.Array] = {}
    known = any(isinstance(part, Coding) for part in parts)
    for one in space.order_classes:
        name, given = one.name, _read(parts, one)
        if known:
            found = _together(parts, given, one)
            codes |= {member: [np.concatenate(some)] for member, some in found.codes.items()}
            values[name] = found.values()
        else:
            mine, some, order = coded(pieces_of(_by_column(given), one.family), ordered=one.ordered)
            codes |= {member: [its] for member, its in _by_member(one, mine.astype(np.int32)).items()}
            values[name] = some if _are_numbers(some) and (order[1:] > order[:-1]).all() else some.take(pa.array(order))
    return Coding(codes, values.__getitem__)


def united(space: Space, parts: Sequence[Part], rows: int) -> dict[str, np.ndarray]:
    """The same without values, as lines of one array. NULL is -1 where it is ignored, and the first code where not.

    Where most rows were coded before, classes are done at the same time, and only reading waits for its turn.
    """
    lines = np.empty((len(space.columns), rows), np.int32)
    named = dict(zip(space.columns, lines, strict=True))
    known, reading = any(isinstance(part, Coding) for part in parts), Lock()

    def fill(one: OrderClass) -> None:
        with reading:
            given = _read(parts, one)
        found = (_together if known else _afresh)(parts, given, one)
        for name, codes in found.codes.items():
            np.concatenate(codes, out=named[name], casting="same_kind")
            if space.nulls == "equal":
                named[name] += 1

    side_by_side(fill, space.order_classes, min(processors(), _AT_ONCE) if known and rows > _FEW_ROWS else 1)
    return named


def placed(
    space: Space,
    known: Callable[[str], pa.Array],
    values: Callable[[str], pa.Array],
    wanted: Mapping[str, np.ndarray] | None,
    find: Callable[[str, pa.Array, pa.Array], np.ndarray],
) -> dict[str, np.ndarray]:
    """Where the values of one coding are among those of another, by column; the last place is that of NULL, -1.

    It is 2c + 1 for the value of code c; for one that no code stands for 2c if it comes just before that of code c, and
    where there is no order 0. Where only some codes are ``wanted``, those of some rows, the others have no place.
    ``find`` finds values among those of a class without order, by its first column: see ``found_among``.
    """
    found: dict[str, np.ndarray] = {}
    for one in space.order_classes:
        name = one.name
        old, some, used = known(name), values(name), None
        places = np.full(len(some) + 1, NULL, np.int32)
        if wanted is not None:
            flags = np.zeros(len(places), bool)
            for member in one.members:
                flags[wanted[member]] = True
            used = np.flatnonzero(flags[:-1])
            some = some.take(pa.array(used))
        mine = _in_order(old, some) if one.ordered else np.maximum(2 * find(name, old, some) + 1, 0)
        places[slice(len(mine)) if used is None else used] = mine
        found |= dict.fromkeys(one.members, places)
    return found


Given = Sequence[Any]
"""What was read of an order class: of each part that has codes their values, of any other the columns."""


def _read(parts: Sequence[Part], one: OrderClass) -> Given:
    name = one.name
    return [
        part.values(name) if isinstance(part, Coding) else [part[member] for member in one.members] for part in parts
    ]


@dataclass(frozen=True, slots=True)
class _Coded:
    """The codes of each member of an order class, in pieces; of known and of new values the codes, and these values."""

    codes: Mapping[str, Sequence[np.ndarray]]
    places: Sequence[np.ndarray] = ()
    arrays: Sequence[pa.Array] = ()

    def values(self) -> pa.Array:
        """The value of each code."""
        return pa.concat_arrays(self.arrays).take(pa.array(np.argsort(np.concatenate(self.places))))


def _afresh(parts: Sequence[Part], given: Given, one: OrderClass) -> _Coded:  # noqa: ARG001
    """The codes of an order class where no part has any."""
    codes = codes_of(_by_column(given), one.family, ordered=one.ordered)
    return _Coded({name: [some] for name, some in zip(one.members, codes, strict=True)})


def _by_column(given: Given) -> list[pa.ChunkedArray]:
    """The columns of an order class, each with its rows of all parts."""
    return [_one_after_the_other(columns) for columns in zip(*given, strict=True)]


def _one_after_the_other(columns: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    return pa.chunked_array([chunk for column in columns for chunk in column.chunks], columns[0].type)


def _by_member(one: OrderClass, codes: np.ndarray) -> dict[str, np.ndarray]:
    return dict(zip(one.members, codes.reshape(len(one.members), -1), strict=True))


def _coded(arrays: Sequence[Sequence[pa.Array]]) -> tuple[list[np.ndarray], pa.Array]:
    """Values of several places, in pieces, as codes in no order, and the value of each code."""
    codes, values = dictionary_coded([piece for pieces in arrays for piece in pieces])
    sizes = [sum(map(len, pieces)) for pieces in arrays]
    return np.split(codes.astype(np.int32), np.cumsum(sizes)[:-1]), values


def _together(parts: Sequence[Part], given: Given, one: OrderClass) -> _Coded:
    """The codes of all members of an order class in all parts: those of the part with the most values stay."""
    values = {place: given[place] for place, part in enumerate(parts) if isinstance(part, Coding)}
    base = max(values, key=lambda place: len(values[place]), default=-1)
    arrays = [
        [some] if place in values else [comparable(chunk, one.family) for column in some for chunk in column.chunks]
        for place, some in enumerate(given)
        if place != base
    ]
    codes, some = _coded(arrays) if arrays else ([], values[base][:0])
    known = values[base] if values else some[:0]
    moved, place_of, fresh = _among(known, some, ordered=one.ordered)
    pieces: dict[str, list[np.ndarray]] = {member: [np.zeros(0, np.int32)] for member in one.members}
    found = iter(codes)
    for place, part in enumerate(parts):
        if isinstance(part, Coding) and place == base:
            mine = {member: [_moved(moved, some) for some in part.codes[member]] for member in one.members}
        elif isinstance(part, Coding):
            places = np.append(place_of[next(found)], np.int32(NULL))
            mine = {member: [places[some] for some in part.codes[member]] for member in one.members}
        else:
            mine = {member: [some] for member, some in _by_member(one, place_of[next(found)]).items()}
        for member, own in mine.items():
            pieces[member] += own
    places = np.arange(len(known)) if moved is None else moved[:-1]
    return _Coded(pieces, (places, place_of[fresh]), (known, some.take(pa.array(fresh))))


def _moved(moved: np.ndarray | None, codes: np.ndarray) -> np.ndarray:
    return codes if moved is None else moved[codes]


def _among(known: pa.Array, some: pa.Array, *, ordered: bool) -> tuple[np.ndarray | None, np.ndarray, np.ndarray]:
    """What the codes of known values become when others join them (nothing if they stay), those of the others, and
    which of these are new. Both have a last code, that of NULL, which is also what -1 picks.
    """
    place_of = np.append(_found_among(known, some, ordered=ordered), np.int32(NULL))
    fresh = np.flatnonzero(place_of[:-1] == NULL)
    if not len(fresh) or not ordered:
        place_of[fresh] = len(known) + np.arange(len(fresh), dtype=np.int32)
        return None, place_of, fresh
    new = some.take(pa.array(fresh))
    if _are_numbers(known):
        old, added, mine = known.to_numpy(), np.sort(new.to_numpy()), new.to_numpy()
        passed = np.bincount(np.searchsorted(old, added), minlength=len(old) + 1)  # few are looked for among many
        moved = np.arange(len(old)) + np.cumsum(passed[:-1])
        place_of[fresh] = np.searchsorted(old, mine) + np.searchsorted(added, mine)
    else:
        order = sorted_order(pa.concat_arrays([known, new]))
        both = np.empty(len(order), np.int64)
        both[order] = np.arange(len(order))
        moved, place_of[fresh] = both[: len(known)], both[len(known) :]
    is_old = np.ones(len(some) + 1, bool)
    is_old[fresh] = is_old[-1] = False
    place_of[is_old] = moved[place_of[is_old]]
    return np.append(moved, NULL).astype(np.int32), place_of, fresh


def _are_numbers(values: pa.Array) -> bool:
    return pa.types.is_integer(values.type) or pa.types.is_floating(values.type)


def _in_order(known: pa.Array, some: pa.Array) -> np.ndarray:
    """The places of values among known ones, which are in order: see ``placed``."""
    if pa.types.is_large_binary(known.type):
        from dc_engine.kernels.texts import places_among  # numba

        return places_among(*bytes_of(known), *bytes_of(some))
    if _are_numbers(known):
        old, mine = known.to_numpy(), some.to_numpy()
        places = np.searchsorted(old, mine)
        return 2 * places + _same(old[np.minimum(places, len(old) - 1)], mine) if len(old) else 2 * places
    found = found_among(known, some)
    fresh = np.flatnonzero(found < 0)
    places, new = 2 * found.astype(np.int64) + 1, some.take(pa.array(fresh))
    order = sorted_order(pa.concat_arrays([known, new]))
    before = np.empty(len(order), np.int64)
    before[order] = np.cumsum(order < len(known))
    places[fresh] = 2 * before[len(known) :]
    return places


def _same(some: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Where two numbers are the same; NaN equals itself."""
    return (some == others) | ((some != some) & (others != others))


def bytes_of(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Where each text begins, and the last one ends, in the bytes of all of them."""
    if not len(texts):
        return np.zeros(1, np.int64), np.zeros(0, np.uint8)
    _, offsets, data = texts.buffers()
    starts = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    return starts, np.frombuffer(data or b"", np.uint8)


def _found_among(known: pa.Array, some: pa.Array, *, ordered: bool) -> np.ndarray:
    """Where values are among known ones, perhaps in order; -1 where they are not."""
    return _found_in_order(known, some) if ordered and _are_numbers(known) else found_among(known, some)


def found_among(known: pa.Array, some: pa.Array) -> np.ndarray:
    """Where values are among known ones; -1 where they are not."""
    places = np.full(len(some), NULL, np.int32)
    found = pc.index_in(known, value_set=some)  # to look for the others among the known would hash all of these
    places[found.drop_null().to_numpy()] = np.flatnonzero(found.is_valid().to_numpy(zero_copy_only=False))
    return places


def _found_in_order(known: pa.Array, some: pa.Array) -> np.ndarray:
    """The same among numbers in order; NaN is above all others, and equals itself."""
    old, mine = known.to_numpy(), some.to_numpy()
    if not len(old):
        return np.full(len(mine), NULL, np.int32)
    places = np.minimum(np.searchsorted(old, mine), len(old) - 1)
    return np.where(_same(old[places], mine), places, NULL).astype(np.int32)
