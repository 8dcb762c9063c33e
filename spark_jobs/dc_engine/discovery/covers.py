"""Which indexes a large table gets, so that a load is held against a few of its rows and not against all.

Two rows that violate something that held agree on its context, and what holds instead has a larger context. So an
index by some columns of the context leads to all rows that can violate it with a new one. It has as many entries as
there are different values in the columns that the boxes read: many boxes share one, and columns with few values make a
small one, which may be read as a whole. Which are chosen is a matter of cost, estimated on a sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

from dc_engine.detection.plan import Group, projections
from dc_engine.discovery.boxes import Box
from dc_engine.discovery.covering import Estimates, columns_of, context_of
from dc_engine.discovery.terms import Terms
from dc_engine.sizes import SIZES

_MOST_NEAR = 0.5

Need = tuple[frozenset[str], frozenset[str]]
"""The context of a box, and all columns that it reads."""


@dataclass(frozen=True, slots=True)
class Cover:
    """An index in which the partners of new rows are looked up."""

    key: tuple[str, ...]
    """The columns by which they are found; without any all entries are looked at."""
    columns: tuple[str, ...]

    @staticmethod
    def of(key: Iterable[str], columns: Iterable[str]) -> Cover:
        return Cover(tuple(sorted(key)), tuple(sorted(columns)))

    @staticmethod
    def from_dict(stored: Mapping[str, Any]) -> Cover:
        return Cover(tuple(stored["key"]), tuple(stored["columns"]))

    def to_dict(self) -> dict[str, Any]:
        """As a snapshot has it."""
        return {"key": list(self.key), "columns": list(self.columns)}

    def serves(self, need: Need) -> bool:
        """Whether all that two rows of such a box have to do with each other is in the index."""
        context, columns = need
        return context.issuperset(self.key) and columns.issubset(self.columns)

    def group(self, types: Mapping[str, str]) -> Group:
        """The index, as detection keeps it."""
        return projections(self.key or self.columns, self.columns, types)


def need_of(terms: Terms, box: Box) -> Need:
    """What an index must have to serve a box."""
    return context_of(terms, box), columns_of(terms, box)


def chosen_covers(terms: Terms, boxes: Iterable[Box], estimates: Estimates, known: Sequence[Cover] = ()) -> list[Cover]:
    """Indexes for some boxes: those that are there already and serve some, and more for what is left."""
    needs: dict[Need, int] = {}
    for box in boxes:
        need = need_of(terms, box)
        needs[need] = needs.get(need, 0) + 1
    covers = [one for one in known if any(map(one.serves, needs))]
    left = {need: number for need, number in needs.items() if not any(one.serves(need) for one in covers)}
    candidates = _candidates(left, estimates)
    added: list[Cover] = []
    while left and len(covers) + len(added) < SIZES.cover_indexes:
        worth = {
            one: (sum(left[need] for need in left if one.serves(need)) / cost.entries, -cost.near, one.key, one.columns)
            for one, cost in candidates.items()
        }
        best = max(worth, key=worth.__getitem__, default=None)
        if best is None or not worth[best][0]:
            break
        added.append(best)
        left = {need: number for need, number in left.items() if not best.serves(need)}
    return [*covers, *_needed(needs, covers, added)]


def _needed(needs: Iterable[Need], covers: Sequence[Cover], added: Sequence[Cover]) -> list[Cover]:
    """Those that were added without such as others, chosen after them, made needless."""
    kept = list(added)
    for one in added:
        others = [*covers, *(other for other in kept if other is not one)]
        if not any(one.serves(need) and not any(other.serves(need) for other in others) for need in needs):
            kept.remove(one)
    return kept


class _Cost(NamedTuple):
    """About how many entries an index has, and how many of them a load looks at."""

    entries: float
    near: float


def _candidates(needs: Iterable[Need], estimates: Estimates) -> dict[Cover, _Cost]:
    """Indexes that serve some of these needs, in which a load looks at few entries.

    A key on which most rows agree with some row of a load leads to all entries anyhow, and would not spread them.
    """
    found: dict[Cover, _Cost] = {}
    every = sorted(needs, key=lambda need: (estimates.distinct(need[1]), sorted(need[0]), sorted(need[1])))
    for context, columns in every:
        keys = {frozenset(some) for size in (1, 2) for some in combinations(sorted(context), size)} | {context}
        for key in (frozenset[str](), *(one for one in keys if one and estimates.near(one) <= _MOST_NEAR)):
            shared = [other for other_context, other in every if key <= other_context]
            for some in (columns, frozenset().union(*shared) if key else _grown(columns, shared, estimates)):
                entries = estimates.distinct(some)
                near = entries * (estimates.near(key) if key else 1.0)
                if near <= SIZES.looked_up / 2:
                    found[Cover.of(key, some)] = _Cost(max(entries, 1.0), near)
    return found


def _grown(columns: frozenset[str], others: Iterable[frozenset[str]], estimates: Estimates) -> frozenset[str]:
    """Columns with those that others read, as long as there are few different values in all of them."""
    for other in others:
        if estimates.distinct(columns | other) <= SIZES.looked_up // SIZES.cover_indexes:
            columns |= other
    return columns
