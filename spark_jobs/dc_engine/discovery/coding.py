"""Codes of rows from several places in one coding, where most of them were coded before.

Codes that were kept come with the values that they stand for. New values are looked for among those, which takes
nothing from the rows that were coded; where codes are in the order of the values, new ones move the old ones up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dc_engine.detection.codes import NULL, codes_of, comparable, sorted_order, whole
from dc_engine.detection.comparable import common_family, family
from dc_engine.discovery.space import Space

Columns = Mapping[str, pa.ChunkedArray]


@dataclass(frozen=True, slots=True)
class Coding:
    """The codes of each column, in pieces, and of each order class (by its first column) the value of each code."""

    codes: Mapping[str, Sequence[np.ndarray]]
    values: Mapping[str, pa.Array]

    def chosen(self, rows: np.ndarray) -> Coding:
        """Some of the rows, in the same codes."""
        return Coding({name: [np.concatenate(some)[rows]] for name, some in self.codes.items()}, self.values)


Part = Columns | Coding


@dataclass(frozen=True, slots=True)
class _Class:
    """Columns that are compared with each other."""

    members: Sequence[str]
    family: str
    ordered: bool


def _classes(space: Space) -> list[_Class]:
    found = []
    for members in space.order_classes:
        common = common_family({family(space.columns[name]) or "" for name in members})
        assert common is not None, "columns that are compared have one family"
        found.append(_Class(members, common, bool(space.in_order & set(members))))
    return found


def coding_of(space: Space, parts: Sequence[Part]) -> Coding:
    """The codes of all rows of some parts, one after the other."""
    codes: dict[str, Sequence[np.ndarray]] = {}
    values: dict[str, pa.Array] = {}
    for one in _classes(space):
        found = _together(parts, one)
        codes |= {name: [some] for name, some in zip(one.members, found.codes, strict=True)}
        values[one.members[0]] = found.values()
    return Coding(codes, values)


def united(space: Space, parts: Sequence[Part]) -> dict[str, np.ndarray]:
    """The same without the values. NULL is -1 where it is ignored, and the first code where not."""
    codes: dict[str, np.ndarray] = {}
    for one in _classes(space):
        if any(isinstance(part, Coding) for part in parts):
            found = _together(parts, one).codes
        else:
            plain = [part for part in parts if not isinstance(part, Coding)]
            arrays = [pa.chunked_array([whole(part[name]) for part in plain]) for name in one.members]
            found = codes_of(arrays, one.family, ordered=one.ordered)
        found = [some + 1 for some in found] if space.nulls == "equal" else found
        codes |= {name: some.astype(np.int32, copy=False) for name, some in zip(one.members, found, strict=True)}
    return {name: codes[name] for name in space.columns}


@dataclass(frozen=True, slots=True)
class _Coded:
    """The codes of each member of an order class; of known and of new values the codes, and these values."""

    codes: list[np.ndarray]
    places: Sequence[np.ndarray]
    arrays: Sequence[pa.Array]

    def values(self) -> pa.Array:
        """The value of each code."""
        return pa.concat_arrays(self.arrays).take(pa.array(np.argsort(np.concatenate(self.places))))


def _comparable(columns: Columns, one: _Class) -> pa.Array:
    """The values of all members, one after the other."""
    return pa.concat_arrays([comparable(whole(columns[name]), one.family) for name in one.members])


def _by_member(columns: Columns, one: _Class, codes: np.ndarray) -> dict[str, np.ndarray]:
    edges = np.cumsum([len(columns[name]) for name in one.members])[:-1]
    return dict(zip(one.members, np.split(codes, edges), strict=True))


def _coded(arrays: Sequence[pa.Array]) -> tuple[list[np.ndarray], pa.Array]:
    """Arrays as codes, in no order, and the value of each code."""
    encoded = pa.concat_arrays(arrays).dictionary_encode()
    codes = encoded.indices.fill_null(NULL).to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
    return np.split(codes, np.cumsum([len(one) for one in arrays])[:-1]), encoded.dictionary


def _together(parts: Sequence[Part], one: _Class) -> _Coded:
    """The codes of all members of an order class in all parts: those of the part with the most values stay."""
    name = one.members[0]
    kept = [part for part in parts if isinstance(part, Coding)]
    base = max(kept, key=lambda part: len(part.values[name]), default=None)
    others = [part for part in parts if part is not base]
    arrays = [part.values[name] if isinstance(part, Coding) else _comparable(part, one) for part in others]
    codes, some = _coded(arrays) if arrays else ([], base.values[name][:0])  # type: ignore[union-attr]
    known = some[:0] if base is None else base.values[name]
    moved, place_of, fresh = _among(known, some, ordered=one.ordered)
    pieces: dict[str, list[np.ndarray]] = {member: [] for member in one.members}
    found = iter(codes)
    for part in parts:
        if part is base:
            mine = {member: [_moved(moved, some) for some in part.codes[member]] for member in one.members}
        elif isinstance(part, Coding):
            places = np.append(place_of[next(found)], np.int32(NULL))
            mine = {member: [places[some] for some in part.codes[member]] for member in one.members}
        else:
            mine = {member: [some] for member, some in _by_member(part, one, place_of[next(found)]).items()}
        for member, own in mine.items():
            pieces[member] += own
    whole_codes = [np.concatenate([np.zeros(0, np.int32), *pieces[member]]) for member in one.members]
    places = np.arange(len(known)) if moved is None else moved[:-1]
    return _Coded(whole_codes, (places, place_of[fresh]), (known, some.take(pa.array(fresh))))


def _moved(moved: np.ndarray | None, codes: np.ndarray) -> np.ndarray:
    return codes if moved is None else moved[codes]


def _among(known: pa.Array, some: pa.Array, *, ordered: bool) -> tuple[np.ndarray | None, np.ndarray, np.ndarray]:
    """What the codes of known values become when others join them (nothing if they stay), those of the others, and
    which of these are new. Both have a last code, that of NULL, which is also what -1 picks.
    """
    place_of = np.full(len(some) + 1, NULL, np.int32)
    found = pc.index_in(known, value_set=some)  # to look for the others among the known would hash all of these
    places = np.flatnonzero(found.is_valid().to_numpy(zero_copy_only=False))
    place_of[found.drop_null().to_numpy()] = places
    fresh = np.flatnonzero(place_of[:-1] == NULL)
    if not len(fresh) or not ordered:
        place_of[fresh] = len(known) + np.arange(len(fresh), dtype=np.int32)
        return None, place_of, fresh
    new = some.take(pa.array(fresh))
    if pa.types.is_integer(known.type) or pa.types.is_floating(known.type):
        old, added, mine = known.to_numpy(), np.sort(new.to_numpy()), new.to_numpy()
        moved = np.arange(len(old)) + np.searchsorted(added, old)
        place_of[fresh] = np.searchsorted(old, mine) + np.searchsorted(added, mine)
    else:
        order = sorted_order(pa.concat_arrays([known, new]))
        both = np.empty(len(order), np.int64)
        both[order] = np.arange(len(order))
        moved, place_of[fresh] = both[: len(known)], both[len(known) :]
    old_ones = np.setdiff1d(np.arange(len(some)), fresh)
    place_of[old_ones] = moved[place_of[old_ones]]
    return np.append(moved, NULL).astype(np.int32), place_of, fresh
