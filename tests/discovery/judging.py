"""What a state and a verdict say about dependencies, held against the definition."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest

from dc_engine.detection.rows import ROW_ID
from dc_engine.discovery.listing import Dependency
from dc_engine.maintained.everything import DEPENDENCIES
from dc_engine.maintained.reading import living_rows
from dc_engine.maintained.stored import read_set
from dc_engine.state.snapshots import Snapshot, read_current
from dc_engine.state.storage import Storage
from dc_engine.verdict import DependencyVerdict, LostDependency, Verdict
from tests.discovery.brute import Brute, Row, Situations, comparable, one_way, read_rule, turned, written_rule
from tests.discovery.oracle import HOLDS, WEAKER, Rule

_CLASSES = ("unique", "fd", "dc")
_COUNTED = 20
"""Of so many that were lost a verdict counts the violations."""
_MANY = 1_000
"""More dependencies than there are."""


def check_known(storage: Storage, snapshot: Snapshot, rows: Sequence[Row], types: Mapping[str, str]) -> None:
    """A snapshot knows all dependencies of these rows, each once, and of how many there are."""
    if DEPENDENCIES not in snapshot.facts:
        return
    facts = snapshot.facts[DEPENDENCIES]
    space, brute = facts["space"], Brute(facts["space"], rows, facts["bound"])
    assert {name: types[name] for name in space["columns"]} == space["columns"]
    assert set(space["ordered"]) <= set(space["columns"])
    holding = [one for one in read_set(storage, snapshot) if one.until is None]
    for name in space["classes"]:
        mine = [one for one in holding if one.kind == name]
        rules = [read_rule(one.formula) for one in mine]
        assert set(rules) == brute.sets[name]
        assert len(rules) == len(set(rules))
        assert facts["valid"][name] == sum(one.shown for one in mine)
        for one in mine:
            assert one.error == pytest.approx(brute.violations(read_rule(one.formula)) / max(brute.pairs, 1))
    _check_limits(facts, len(brute.ops if "dc" in space["classes"] else brute.names))
    assert len({one.id for one in holding}) == len(holding)
    shown = [one for one in holding if one.shown]
    assert sorted(one.rank or 0 for one in shown) == list(range(1, len(shown) + 1))
    if space["cross"]:
        _check_shown(space, [one for one in holding if one.kind == "dc"])
    else:
        assert shown == holding


def _check_limits(facts: Mapping[str, Any], terms: int) -> None:
    """A set that is not complete says so, and nothing but its limits makes it so."""
    limits, bound = facts["space"]["limits"], facts["bound"]
    assert bool(facts["because"]) == (bound is not None)
    if limits["max_dependencies"] > _MANY:
        asked = limits["max_terms"]
        assert bound == (None if asked is None or asked >= terms else asked)


def _check_shown(space: Mapping[str, Any], dcs: Sequence[Dependency]) -> None:
    """All that is not shown holds everywhere or follows from what is shown, of which none follows from another."""
    ways = Situations(space)
    shown = [read_rule(one.formula) for one in dcs if one.shown]
    for one in dcs:
        rule = read_rule(one.formula)
        if one.shown:
            assert not ways.is_empty(rule)
            assert not any(ways.implies(other, rule) for other in shown if other != rule)
        else:
            assert ways.is_empty(rule) or any(ways.implies(other, rule) for other in shown)


def is_wider(one: Rule, other: Rule) -> bool:
    """Whether a rule denies all that another does, comparison by comparison."""
    return any(
        all(any((a, c) == (x, z) and b in WEAKER[y] for x, y, z in other) for a, b, c in way)
        for way in (one, turned(one))
    )


class Judge:
    """Holds the verdict of a load against the state that it met."""

    def __init__(self, storage: Storage, met: Snapshot | None) -> None:
        self.storage = storage
        kept = met is not None and DEPENDENCIES in met.facts
        self.known = read_set(storage, met) if met and kept else []

    def check(
        self,
        verdict: Verdict,
        before: Sequence[Row],
        after: Sequence[Row],
        stays: Sequence[Row],
        pinned: Collection[str],
        watch: str,
        *,
        exact: bool,
    ) -> None:
        """``before`` and ``after`` are the rows without the load and with it, ``stays`` those that are kept.

        ``exact`` says that the state before was that without the load.
        """
        snapshot = read_current(self.storage)
        assert snapshot is not None
        if DEPENDENCIES not in snapshot.facts:
            return
        facts = snapshot.facts[DEPENDENCIES]
        told, space = verdict.dependencies, facts["space"]
        assert told.valid == facts["valid"]
        assert (told.complete, told.because) == (not facts["because"], facts["because"])
        if space["limits"]["max_dependencies"] <= _MANY:  # how far was looked depends on what was there before
            return
        old, new = (Brute(space, rows, facts["bound"]) for rows in (before, after))
        lost = [one for one in told.invalidated if one.id not in pinned]
        otherwise = {read_rule(one.formula) for one in told.invalidated if one.id in pinned}
        self._check_lost(lost, otherwise, old, new, exact=exact)
        for one in lost:
            assert one.example or len(lost) > _COUNTED, one.text
            if one.example and not verdict.discarded:
                self._check_example(snapshot, one, space)
        if not space["cross"]:
            self._check_moves(verdict, old, new)
            if not verdict.discarded:
                self._check_watched(verdict, old, new, watch, pinned)

    def _check_lost(
        self, lost: Sequence[LostDependency], told_otherwise: Collection[Rule], old: Brute, new: Brute, *, exact: bool
    ) -> None:
        rules = {read_rule(one.formula): one for one in lost}
        assert len(rules) == len(lost), "each once"
        for rule, one in rules.items():
            assert rule in old.sets[one.kind]
            violations = new.violations(rule)
            assert violations > new.allowed
            assert one.error == pytest.approx(old.violations(rule) / old.pairs)
            if one.violations is None:
                assert len(lost) > _COUNTED
                continue
            assert one.violations == violations
            assert one.error_now == pytest.approx(violations / new.pairs)
            wanted = {other for other in new.sets[one.kind] if is_wider(rule, other)}
            instead = [other["id"] for other in one.instead]
            assert len(instead) == len(set(instead))
            if not old.space["cross"]:
                assert len(instead) == min(10, len(wanted))
        every = {rule for some in old.sets.values() for rule in some}
        if exact:
            every = {read_rule(one.formula) for one in self.known if one.shown and one.until is None}
        if exact or not old.space["cross"]:
            assert set(rules) <= every
            fallen = {rule for rule in every if not new.holds(rule)}
            assert fallen <= {*rules, *told_otherwise}, "all that fell"

    def _check_moves(self, verdict: Verdict, old: Brute, new: Brute) -> None:
        told = verdict.dependencies
        invalidated = {one_way(read_rule(one.formula)) for one in told.invalidated}
        assert {rule for some in old.sets.values() for rule in some if not new.holds(rule)} <= invalidated
        gone = {(name, rule) for name, some in old.sets.items() for rule in some - new.sets[name]}
        come = {(name, rule) for name, some in new.sets.items() for rule in some - old.sets[name]}
        added = {rule for _, rule in come if not any(is_wider(other, rule) for _, other in gone)}
        assert {read_rule(one.formula) for one in told.added} == added
        still = {(name, rule) for name, rule in gone if new.holds(rule)} if len(new.rows) > 1 else set()
        assert len(told.generalised) == len(still)

    def _check_watched(self, verdict: Verdict, old: Brute, new: Brute, watch: str, pinned: Collection[str]) -> None:
        told = verdict.dependencies
        found = [one for one in told.watched if one.id not in pinned]
        assert len({one.id for one in told.watched}) == len(told.watched)
        simplest = {rule: name for name in reversed(_CLASSES) for rule in old.sets.get(name, ())}
        alone = len(new.rows) < 2  # nothing is known to hold, and nothing fell
        still = {rule for rule, name in simplest.items() if alone or rule in new.sets[name]}
        counting = [one for one in told.invalidated if one.watched and one.id not in pinned]
        if watch in ("pinned", "none"):
            assert not found
            assert not counting
        elif watch == "all":
            own = {read_rule(one.formula) for one in told.watched}
            assert {read_rule(one.formula) for one in found} <= still <= own
            assert all(one.watched for one in told.invalidated)
        else:
            assert len(found) + len(counting) <= int(watch.removeprefix("top:"))
            assert {read_rule(one.formula) for one in found} <= still

    def _check_example(self, snapshot: Snapshot, one: DependencyVerdict, space: Mapping[str, Any]) -> None:
        """Two rows that are there violate it, t and s as in the formula."""
        assert isinstance(one, LostDependency)
        assert one.example
        names = list(space["columns"])
        if not set(read_names(one.formula)) <= set(names):
            return
        rows = {}
        for part in living_rows(self.storage, snapshot, [*names, *("id" for name in snapshot.schema if name == "id")]):
            for row in part.to_pylist():
                rows[row[ROW_ID]] = row
                if "id" in row and "_row_id" not in one.example["t"]["row"]:
                    rows["key", row["id"]] = row
        sides = []
        for side in ("t", "s"):
            named = one.example[side]["row"]
            sides.append(rows[named["_row_id"]] if "_row_id" in named else rows["key", named["id"]])
        t, s = ({name: comparable(row[name], space["nulls"]) for name in names} for row in sides)
        assert sides[0] is not sides[1]
        for left, op, right in written_rule(one.formula):
            assert t[left] is not None
            assert s[right] is not None
            assert HOLDS[op](t[left], s[right])


def read_names(formula: str) -> set[str]:
    """The columns of a formula."""
    return {name for left, _, right in read_rule(formula) for name in (left, right)}
