"""A history in plain Python: every load as it was given, played through row by row. Obviously right, and slow."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import fsspec

from dc_engine.constraints.model import Constraint
from tests.detection.oracle import compare, pair_violates, row_violates

Row = dict[str, Any]
_numbers = itertools.count()


@contextmanager
def on_disk() -> Iterator[str]:
    """Where a state may be on a disk."""
    with TemporaryDirectory() as folder:
        yield f"{folder}/state"


@contextmanager
def some_place(random: Random) -> Iterator[str]:
    """Where a state may be: in memory, or on a disk, where sessions keep what they read and sync beside the work."""
    if random.random() < 0.5:
        with on_disk() as state:
            yield state
        return
    state, filesystem = f"memory://histories/{next(_numbers)}", fsspec.filesystem("memory")
    try:
        yield state
    finally:
        if filesystem.exists(state):
            filesystem.rm(state, recursive=True)


class Refused(Exception):
    """A load that cannot be played."""


@dataclass
class Given:
    """A load as it was given."""

    load_id: str
    inserts: list[Row] = field(default_factory=list)
    deletes: list[Row] = field(default_factory=list)
    missing_deletes: str = "error"
    duplicate_keys: str = "error"
    key: str | None = None
    """By which its deletes find their rows, and which none of its inserts may share."""

    def is_alike(self, other: Given) -> bool:
        """Whether another one gives the same rows, in any order."""
        mine, theirs = ([Counter(map(as_text, rows)) for rows in (one.inserts, one.deletes)] for one in (self, other))
        return mine == theirs


@dataclass
class Played:
    """What a load did."""

    inserted: list[Row] = field(default_factory=list)
    deleted: list[Row] = field(default_factory=list)
    missing: int = 0


def play(loads: list[Given], every_key: str | None = None) -> tuple[list[Row], dict[str, Played]]:
    """All loads, one after the other: the rows at the end, and what each load did.

    ``every_key`` is the key of all loads that do not say one of their own.
    """
    rows: list[Row] = []
    done: dict[str, Played] = {}
    for load in loads:
        key = load.key or every_key
        played = done[load.load_id] = Played()
        for row in load.deletes:
            place = next((n for n, one in enumerate(rows) if _same(one, row, key)), None)
            if place is not None:
                played.deleted.append(rows.pop(place))
            elif load.missing_deletes == "error":
                raise Refused(f"{load.load_id} deletes {row}")
            else:
                played.missing += 1
        if key:
            if not is_unique(load.inserts, key):
                raise Refused(f"{load.load_id} inserts a key twice")
            for row in load.inserts:
                for place in reversed([n for n, one in enumerate(rows) if one[key] == row[key]]):
                    if load.duplicate_keys == "error":
                        raise Refused(f"{load.load_id} inserts {row}")
                    played.deleted.append(rows.pop(place))
        played.inserted = [dict(row) for row in load.inserts]
        rows += played.inserted
    return rows, done


def as_text(row: Row) -> str:
    """The same for rows of the same identity, and for no others."""
    return repr(sorted((name, 0.0 if value == 0.0 else value) for name, value in row.items()))


def is_unique(rows: list[Row], key: str | None) -> bool:
    """Whether no two rows have the same key."""
    return key is None or max(Counter(row[key] for row in rows).values(), default=0) <= 1


def _same(one: Row, other: Row, key: str | None) -> bool:
    """Whether two rows have the same identity: NULL is a value like any other, NaN is NaN, and -0.0 is 0.0."""
    return all(_alike(one[name], other[name]) for name in ([key] if key else one))


def _alike(one: Any, other: Any) -> bool:
    return one is other if one is None or other is None else compare(one, other) == 0


def violations(constraint: Constraint, rows: list[Row]) -> int:
    """How many violations there are among some rows."""
    if constraint.rows == 1:
        return sum(row_violates(constraint, row) for row in rows)
    return sum(
        pair_violates(constraint, rows[first], rows[second])
        for first in range(len(rows))
        for second in range(first + 1, len(rows))
    )


def violating(constraint: Constraint, rows: list[Row], new: list[Row]) -> int:
    """How many of some of the rows take part in a violation."""
    if constraint.rows == 1:
        return sum(row_violates(constraint, row) for row in new)
    return sum(any(pair_violates(constraint, row, other) for other in rows if other is not row) for row in new)
