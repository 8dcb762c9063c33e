"""What a state and a verdict say about dependencies, held against the definition."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest

from dc_engine.detection.dead import read_dead
from dc_engine.detection.rows import ROW_ID, read_living
from dc_engine.discovery.listing import Dependency
from dc_engine.maintained.continuity import DEPENDENCIES
from dc_engine.maintained.stored import read_set
from dc_engine.state.files import FileKind
from dc_engine.state.parquet import Reader
from dc_engine.state.snapshots import Snapshot, read_current
from dc_engine.state.storage import Storage
from dc_engine.verdict import DependencyVerdict, LostDependency, Verdict
from tests.discovery.brute import Brute, Row, Situations, read_rule, turned
from tests.discovery.oracle import HOLDS, WEAKER, Rule

_CLASSES = ("unique", "fd", "od", "pod", "dc")
_COUNTED = 20
"""Of so many that were lost a verdict counts the violations."""
_MANY = 1_000
"""More dependencies than there are."""


def check_known(storage: Storage, snapshot: Snapshot, rows: Sequence[Row], types: Mapping[str, str]) -> None:
    """A snapshot knows all dependencies of these rows, each once, and of how many there are."""
    if DEPENDENCIES not in snapshot.facts:
        return
    facts = snapshot.facts[DEPENDENCIES]
    space, brute = facts["space"], Brute(facts["space"], rows, facts["bound"], facts["nullable"])
    assert {name: types[name] for name in space["columns"]} == space["columns"]
    assert set(space["ordered"]) <= set(space["columns"])
    holding = [one for one in read_set(storage, snapshot) if one.until is None]
    for name in space["classes"]:
        mine = [one for one in holding if one.kind == name]
        rules = [brute.read(name, one.formula) for one in mine]
        assert set(rules) == brute.sets[name]
        assert len(rules) == len(set(rules))
        assert facts["valid"][name] == sum(one.shown for one in mine)
        for one in mine:
            assert one.error == pytest.approx(brute.error(brute.read(name, one.formula), name))
    _check_limits(facts, len(brute.ops if "dc" in space["classes"] else brute.names))
    assert len({one.id for one in holding}) == len(holding)
    shown = [one for one in holding if one.shown]
    assert sorted(one.rank or 0 for one in shown) == list(range(1, len(shown) + 1))
    if space["cross"]:
        _check_shown(space, [one for one in holding if one.kind == "dc"])
    else:
        assert {(one.kind, brute.read(one.kind, one.formula)) for one in shown} == {
            (name, rule) for name, some in brute.seen.items() for rule in some if rule
        }


def _check_limits(facts: Mapping[str, Any], terms: int) -> None:
    """A set that is not complete says so, and nothing but its limits makes it so."""
    limits, bound = facts["space"]["limits"], facts["bound"]
    assert bool(facts["because"]) == (bound is not None or "min_support" in limits)
    assert ("with a support of at least" in facts["because"]) == ("min_support" in limits)
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


def _meaning(brute: Brute, kind: str, rule: Rule) -> tuple[Rule, bool]:
    """What is told once, whatever its class: but order dependencies have errors of their own."""
    return rule, kind == "od" and brute.space["max_error"] > 0


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
        seen = {name for row in after for name, value in row.items() if value is None}  # if only a moment
        nullable = seen | set(facts["nullable"])
        old, new = (Brute(space, rows, facts["bound"], nullable) for rows in (before, after))
        lost = [one for one in told.invalidated if one.id not in pinned]
        otherwise = {new.read(one.kind, one.formula) for one in told.invalidated if one.id in pinned}
        self._check_lost(lost, otherwise, old, new, exact=exact)
        for one in lost:
            assert one.example or len(lost) > _COUNTED, one.text
            if one.example and not verdict.discarded:
                self._check_example(snapshot, one, new)
        if not space["cross"]:
            self._check_moves(verdict, old, new)
            if not verdict.discarded:
                self._check_watched(verdict, old, new, watch, pinned)

    def _check_lost(
        self, lost: Sequence[LostDependency], told_otherwise: Collection[Rule], old: Brute, new: Brute, *, exact: bool
    ) -> None:
        rules = [(new.read(one.kind, one.formula), one) for one in lost]
        assert len({_meaning(new, one.kind, rule) for rule, one in rules}) == len(lost), "each once"
        for rule, one in rules:
            assert rule in old.sets[one.kind]
            assert not new.holds(rule, one.kind)
            assert one.error == pytest.approx(old.error(rule, one.kind))
            if one.violations is None:
                assert len(lost) > _COUNTED
                continue
            assert one.violations == new.violations(rule)
            assert one.error_now == pytest.approx(new.error(rule, one.kind))
            alike = [some for name, some in new.seen.items() if (name == "od") == (one.kind == "od")]
            wanted = {other for some in alike for other in some if is_wider(rule, other)}
            instead = [other["id"] for other in one.instead]
            assert len(instead) == len(set(instead))
            if not old.space["cross"]:
                assert len(instead) == min(10, len(wanted))
        every = {(rule, name) for name, some in old.seen.items() for rule in some}
        if exact:
            holding = [one for one in self.known if one.shown and one.until is None]
            every = {(new.read(one.kind, one.formula), one.kind) for one in holding}
        if exact or not old.space["cross"]:
            assert {(rule, one.kind) for rule, one in rules} <= every
            fallen = {_meaning(new, name, rule) for rule, name in every if not new.holds(rule, name)}
            told = {_meaning(new, one.kind, rule) for rule, one in rules}
            assert {one for one in fallen if one[0] not in told_otherwise} <= told, "all that fell"

    def _check_moves(self, verdict: Verdict, old: Brute, new: Brute) -> None:
        told = verdict.dependencies
        invalidated = {new.read(one.kind, one.formula) for one in told.invalidated}
        assert {rule for name, some in old.seen.items() for rule in some if not new.holds(rule, name)} <= invalidated
        gone = {(name, rule) for name, some in old.sets.items() for rule in some - new.sets[name]}
        come = {(name, rule) for name, some in new.sets.items() for rule in some - old.sets[name]}
        added = {
            rule
            for name, rule in come
            if rule in new.seen[name]
            and not any(is_wider(other, rule) and (name == "od") == (kind == "od") for kind, other in gone)
        }
        assert {new.read(one.kind, one.formula) for one in told.added} == added
        still = {(name, rule) for name, rule in gone if rule in old.seen[name] and new.holds(rule, name)}
        now = [(name, rule) for name, some in new.sets.items() for rule in some]
        still = {  # what has too little support is generalised if another class has enough for more
            (name, rule)
            for name, rule in still
            if new.is_supported(rule)
            or any(is_wider(other, rule) and (name == "od") == (kind == "od") for kind, other in now)
        }
        still = still if len(new.rows) > 1 else set()
        assert len(told.generalised) == len(still)

    def _check_watched(self, verdict: Verdict, old: Brute, new: Brute, watch: str, pinned: Collection[str]) -> None:
        told = verdict.dependencies
        found = [one for one in told.watched if one.id not in pinned]
        assert len({one.id for one in told.watched}) == len(told.watched)
        classes = reversed(_CLASSES)
        simplest = {_meaning(old, name, rule): name for name in classes for rule in old.seen.get(name, ())}
        alone = len(new.rows) < 2  # nothing is known to hold, and nothing fell
        still = {one for one, name in simplest.items() if alone or one[0] in new.sets[name]}
        kept = {_meaning(new, one.kind, new.read(one.kind, one.formula)) for one in found}
        counting = [one for one in told.invalidated if one.watched and one.id not in pinned]
        if watch in ("pinned", "none"):
            assert not found
            assert not counting
        elif watch == "all":
            own = {new.read(one.kind, one.formula) for one in told.watched if one.id in pinned}
            assert kept <= still
            assert {one for one in still if one[0] not in own} <= kept
            assert all(one.watched for one in told.invalidated)
        else:
            assert len(found) + len(counting) <= int(watch.removeprefix("top:"))
            assert kept <= still

    def _check_example(self, snapshot: Snapshot, one: DependencyVerdict, brute: Brute) -> None:
        """Two rows that are there violate it, t and s as in the formula."""
        assert isinstance(one, LostDependency)
        assert one.example
        names = brute.names
        if not set(read_names(one.formula)) <= set(names):
            return
        rows = {}
        dead = read_dead(self.storage, snapshot.files_of(FileKind.DEAD))
        columns = [*names, *("id" for name in snapshot.schema if name == "id")]
        for file in snapshot.files_of(FileKind.ROWS):
            reader = Reader(self.storage, file)
            for part in read_living(reader, file, dead, columns, range(len(reader.group_starts) - 1)):
                for row in part.to_pylist():
                    rows[row[ROW_ID]] = row
                    if "id" in row and "_row_id" not in one.example["t"]["row"]:
                        rows["key", row["id"]] = row
        sides = []
        for side in ("t", "s"):
            named = one.example[side]["row"]
            sides.append(rows[named["_row_id"]] if "_row_id" in named else rows["key", named["id"]])
        t, s = map(brute.value_of, sides)
        assert sides[0] is not sides[1]
        for left, op, right in brute.written(one.kind, one.formula):
            assert t[left] is not None
            assert s[right] is not None
            assert HOLDS[op](t[left], s[right])


def read_names(formula: str) -> set[str]:
    """The columns of a formula."""
    return {name for left, _, right in read_rule(formula) for name in (left, right)}
