"""Dependencies as people see them: named, ranked, with their history; and what a change did to them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dc_engine.constraints.model import Nulls
from dc_engine.constraints.naming import class_of, dependency_id, order_text, pod_text, text_of
from dc_engine.constraints.normalise import swapped
from dc_engine.constraints.printer import print_bodies
from dc_engine.discovery.boxes import Box, body_of, canonical, literals_of, matrix, mirrored, said
from dc_engine.discovery.classes import shown_dcs
from dc_engine.discovery.enumerating import Sets, Violations
from dc_engine.discovery.pointwise import is_pod
from dc_engine.discovery.ranking import Scales, Worth, spread
from dc_engine.discovery.space import CLASSES, Limits, Space
from dc_engine.discovery.terms import Terms

_MOST_PARENTS = 10
_IMPLYING, _MOST_IMPLIED = 200, 10
"""Of so many of the best it is said what they imply, so many each."""
_SIMPLEST = {name: place for place, name in enumerate(CLASSES)}


@dataclass(frozen=True, slots=True)
class Dependency:
    """A dependency that holds, or (with ``until``) that did."""

    id: str
    kind: str
    text: str
    formula: str
    box: Box
    shown: bool = True
    """Whether people see it: of several that say the same, or that others imply, some are kept for the search alone."""
    error: float = 0.0
    """The share of all pairs of rows that violate it; of an order dependency the share of rows that have to go."""
    support: int | None = None
    rank: int | None = None
    since: str = ""
    """The load since which it holds, as far as it is known."""
    origin: str = "found"
    """``found``, ``refined`` from others that fell, or ``generalised`` from others that follow from it."""
    parents: tuple[str, ...] = ()
    """Those others, by their ids."""
    until: str | None = None
    """The load that invalidated it."""
    implies: tuple[Dependency, ...] = ()
    """Others of a view that follow from it; not kept."""

    def to_dict(self) -> dict[str, Any]:
        """How an answer lists it."""
        names = ("id", "text", "formula", "error", "support", "rank", "since")
        implied = [{"id": one.id, "text": one.text} for one in self.implies]
        return {"class": self.kind, **{name: getattr(self, name) for name in names}, "implies": implied}


@dataclass(frozen=True, slots=True)
class Moves:
    """What a change did to the dependencies that people see."""

    lost: list[Dependency] = field(default_factory=list)
    instead: Mapping[str, list[Dependency]] = field(default_factory=dict)
    """What holds in the place of each that was lost, by its id."""
    added: list[Dependency] = field(default_factory=list)
    generalised: list[tuple[Dependency, Dependency]] = field(default_factory=list)
    """Those that still hold but follow from a new one, with that one."""
    faded: list[Dependency] = field(default_factory=list)
    """Those that still hold but have too little support, which is asked for."""


def listed(
    terms: Terms,
    nulls: Nulls,
    sets: Sets,
    scales: Scales,
    since: str,
    violations: Violations | None = None,
    before: Iterable[Dependency] = (),
) -> list[Dependency]:
    """All dependencies of all classes, best first; those that are not shown last. Mirror images are one.

    ``violations`` are there where a few are allowed. Those that were there ``before``, in these terms, keep names.
    """
    found, names = [], {(one.kind, one.box): (one.id, one.text, one.formula) for one in before}
    for kind, boxes in sets.items():
        each = sorted({canonical(terms, box) for box in boxes})
        shown = _shown(terms, kind, each)
        worth = scales.weigh(kind, shown)
        known = set(shown)
        for box in each:
            id_, text, formula = names.get((kind, box)) or _named(terms, nulls, kind, box)
            one = Dependency(id_, kind, text, formula, box, since=since)
            found.append((one, worth.get(box, Worth(None, 0.0)), box in known))
    scores: dict[Box, float] = {}
    for one, its, is_shown in found:
        if is_shown:
            scores[one.box] = max(scores.get(one.box, 0.0), its.score)
    places = {box: place for place, box in enumerate(spread(scores))}
    found.sort(key=lambda one: (not one[2], places.get(one[0].box, 0), -one[1].score, one[0].id))
    return [
        replace(
            one,
            shown=shown,
            support=worth.support,
            rank=place if shown else None,
            error=(violations or {}).get(one.kind, {}).get(one.box, 0) / max(cases(one.kind, scales.rows), 1),
        )
        for place, (one, worth, shown) in enumerate(found, 1)
    ]


def cases(kind: str, rows: int) -> int:
    """What errors of a class are shares of: all pairs of rows, or all rows."""
    return rows if kind == "od" else rows * (rows - 1) // 2


def _named(terms: Terms, nulls: Nulls, kind: str, box: Box) -> tuple[str, str, str]:
    """The id of a dependency, its text, and its formula."""
    bodies = (body_of(terms, box),)
    if kind == "od":
        text = order_text(bodies[0])
    elif class_of(bodies) == kind:
        text = text_of(bodies)
    else:
        text = pod_text(bodies[0]) if kind == "pod" and is_pod(box) else ""
    formula = print_bodies(bodies)
    return dependency_id(kind, bodies, nulls), text or formula, formula


def _shown(terms: Terms, kind: str, boxes: Sequence[Box]) -> list[Box]:
    """Those that people see: no empty rule; across columns none that holds everywhere or follows from others."""
    rules = [box for box in boxes if (is_pod(box) if kind == "pod" else said(box))]
    if kind != "dc" or all(term.own for term in terms.terms):
        return rules
    by_body = {frozenset(way): box for box in rules for body in [body_of(terms, box)] for way in (body, swapped(body))}
    return [by_body[frozenset(body)] for body in shown_dcs(terms, (literals_of(terms, box) for box in rules))]


def viewed(terms: Terms, dependencies: Iterable[Dependency], space: Space, view: str) -> list[Dependency]:
    """Those that hold, as people asked to see them: ``merged``, or ``complete``; the best with what they imply."""
    holding = [one for one in dependencies if one.shown and one.until is None]
    chosen = merged_view(holding, space) if view == "merged" else holding
    inside = _Within(terms, chosen)
    best = [replace(one, implies=tuple(inside.smaller(one)[:_MOST_IMPLIED])) for one in chosen[:_IMPLYING]]
    return [*best, *chosen[_IMPLYING:]]


def best(found: Sequence[Dependency], because: str, limits: Limits) -> tuple[Sequence[Dependency], str]:
    """The best of what a view has, if only some are to be shown; and why they are not all."""
    if limits.top is None or len(found) <= limits.top:
        return found, because
    cut = f"only the best {limits.top:,} of {len(found):,} are shown"
    return found[: limits.top], "; ".join(filter(None, (because, cut)))


def merged_view(found: Iterable[Dependency], space: Space) -> list[Dependency]:
    """Each dependency once, in the simplest of the classes that were asked for, and ranked anew."""
    return [replace(one, rank=place) for place, one in enumerate(merged(found, space), 1)]


def merged(found: Iterable[Dependency], space: Space) -> list[Dependency]:
    """The same with the ranks that they have among all."""
    return sorted((one for one in once(found, space) if one.kind in space.classes), key=lambda one: one.rank or 0)


def once(found: Iterable[Dependency], space: Space) -> list[Dependency]:
    """Of those that are shown, each that is in several classes in the simplest of them.

    Where errors are allowed an order dependency is one of its own: its error is another, and it may fall alone.
    """
    simplest: dict[tuple[Box, bool], Dependency] = {}
    for one in found:
        key = one.box, one.kind == "od" and space.max_error > 0
        if one.shown and (key not in simplest or _SIMPLEST[one.kind] < _SIMPLEST[simplest[key].kind]):
            simplest[key] = one
    return list(simplest.values())


def moved(
    terms: Terms, before: Sequence[Dependency], after: Sequence[Dependency], load_id: str, bound: int | None = None
) -> tuple[list[Dependency], Moves]:
    """The dependencies after a change with their histories, and what became of those before.

    With a bound, longer ones are no longer known: nothing can be said about them.
    """
    before = [one for one in before if bound is None or len(said(one.box)) <= bound]
    old = {one.id: one for one in before}
    now = {one.id: one for one in after}
    gone = [one for one in before if one.id not in now]
    come = [one for one in after if one.id not in old]
    after_boxes, gone_boxes = _Within(terms, after), _Within(terms, gone)
    refined = {one.id: gone_boxes.wider(one) for one in come}
    general = {one.id: after_boxes.wider(one) for one in gone}
    parents_of = {one.id: ("refined", refined[one.id]) for one in come if refined[one.id]}
    for one in gone:
        for other in general[one.id]:
            if other.id not in old:
                parents_of.setdefault(other.id, ("generalised", []))[1].append(one)
    result = []
    for one in after:
        if one.id in old:
            result.append(continued(one, old[one.id]))
        else:
            origin, parents = parents_of.get(one.id, ("found", []))
            result.append(
                replace(one, since=load_id, origin=origin, parents=tuple(p.id for p in parents[:_MOST_PARENTS]))
            )
    return result, _moves(terms, gone, come, result, general, parents_of)


def restored(
    after: Sequence[Dependency], past: Sequence[Dependency], held: Collection[str], gone: str
) -> tuple[list[Dependency], list[Dependency]]:
    """Those that a load broke have their history back when the load is taken out; ``held`` are ids of the others."""
    last = {one.id: one for one in reversed(past)}
    back = {
        one.id: last[one.id] for one in after if one.id in last and one.id not in held and last[one.id].until == gone
    }
    now = [continued(one, back.get(one.id)) for one in after]
    return now, [one for one in past if one is not back.get(one.id)]


def continued(one: Dependency, before: Dependency | None) -> Dependency:
    """A dependency with the history that it had before, if it is known."""
    return replace(one, since=before.since, origin=before.origin, parents=before.parents) if before else one


def _moves(
    terms: Terms,
    gone: Sequence[Dependency],
    come: Sequence[Dependency],
    after: Sequence[Dependency],
    general: Mapping[str, list[Dependency]],
    parents_of: Mapping[str, tuple[str, list[Dependency]]],
) -> Moves:
    lost = [one for one in gone if one.shown and not general[one.id]]
    shown = {one.id: one for one in after if one.shown}
    inside = _Within(terms, [one for one in after if one.shown])
    return Moves(
        lost,
        {one.id: inside.narrower(one) for one in lost},
        [shown[one.id] for one in come if one.id in shown and parents_of.get(one.id, ("",))[0] != "refined"],
        [(one, general[one.id][0]) for one in gone if one.shown and general[one.id]],
    )


def _alike(one: Dependency, other: Dependency) -> bool:
    """Whether one may follow from the other: order dependencies read NULLs, and have errors, in their own way."""
    return (one.kind == "od") == (other.kind == "od")


def _place(one: Dependency, other: Dependency) -> tuple[bool, int, str]:
    """Where another stands among those that are told beside one: its own class comes first, then the best."""
    return other.kind != one.kind, other.rank or 1 << 30, other.id


class _Within:
    """Dependencies by the boxes that they forbid, to find those with larger and with smaller ones."""

    def __init__(self, terms: Terms, dependencies: Sequence[Dependency]) -> None:
        self._terms = terms
        self._all = list(dependencies)
        self._matrix = matrix(terms, [one.box for one in self._all])

    def wider(self, one: Dependency) -> list[Dependency]:
        """Those from which one follows, of its own class first."""
        found = self._chosen(one, lambda box: ~(box & ~self._matrix).any(axis=1))
        return [other for other in found if _alike(one, other)]

    def narrower(self, one: Dependency) -> list[Dependency]:
        """Those that follow from it, either way round, each in its simplest class; those of its own class first."""
        simplest: dict[Box, Dependency] = {}
        for other in self._inside(one):
            known = simplest.get(other.box, other)
            if _alike(one, other) and _SIMPLEST[other.kind] <= _SIMPLEST[known.kind]:
                simplest[other.box] = other
        return sorted(simplest.values(), key=lambda other: _place(one, other))

    def smaller(self, one: Dependency) -> list[Dependency]:
        """Those of any class that follow from it, and say less; what no pair violates is a rule in every class."""
        same = {one.box, mirrored(self._terms, one.box)}
        inside = [other for other in self._inside(one) if other.box not in same]
        return [other for other in inside if not one.error or _alike(one, other)]

    def _inside(self, one: Dependency) -> list[Dependency]:
        return self._chosen(one, lambda box: ~(self._matrix & ~box).any(axis=1))

    def _chosen(self, one: Dependency, test: Any) -> list[Dependency]:
        places = np.zeros(len(self._all), bool)
        for box in {one.box, mirrored(self._terms, one.box)}:
            places |= test(np.array(box, np.uint8))
        found = [self._all[place] for place in np.flatnonzero(places)]
        return sorted(found, key=lambda other: _place(one, other))
