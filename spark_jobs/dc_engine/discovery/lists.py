"""Orders of lists: whether a table sorted by some columns is sorted by others too, and if not, where it fails.

Such an order holds exactly when all of its parts do: columns that are constant, and pairs of columns that go together,
within a context. NULLs are the first values, as Spark sorts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dc_engine.constraints.building import Part, order_parts
from dc_engine.discovery.partitions import Partitions, Question
from dc_engine.discovery.removal import Removals


@dataclass(frozen=True, slots=True)
class Explained:
    """A part of an order of lists; if it does not hold, two rows (by their places) that violate it."""

    part: Part
    example: tuple[int, int] | None
    removed: np.ndarray
    """The rows without which it holds, as few as possible."""


def explained(
    codes: Mapping[str, np.ndarray], left: Sequence[str], right: Sequence[str], within: Sequence[str] = ()
) -> list[Explained]:
    """What an order of lists takes, with an example where it fails, in rows given by their codes; NULL is -1.

    If there is no example, a table sorted by the left side (where the columns ``within`` are equal) is sorted by the
    right side. Otherwise, the two rows are a split (equal on the left, not on the right) or a swap.
    """
    parts = order_parts(left, right, within)
    names = {name.lower(): place for place, name in enumerate(codes)}

    def places(some: Sequence[str]) -> tuple[int, ...]:
        return tuple(names[name.lower()] for name in some)

    table = np.array([one + 1 for one in codes.values()], np.int32)
    questions = [Question(frozenset(places(one.context)), places(one.columns)) for one in parts]
    removals, found = Removals(table), []
    for part, question, (t, s) in zip(parts, questions, Partitions(table).answers(questions), strict=True):
        fails = len(t) > 0
        removed = removals.rows(question) if fails else np.zeros(0, np.int64)
        found.append(Explained(part, (int(t[0]), int(s[0])) if fails else None, removed))
    return found
