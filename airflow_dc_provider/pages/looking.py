"""What a page shows: from the state that a task recorded, or, where this server cannot read it, from XCom alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from airflow.providers.common.compat.sdk import AirflowException

from airflow_dc_provider.credentials import state_access
from airflow_dc_provider.pages.access import Recorded
from airflow_dc_provider.pages.patience import in_time
from airflow_dc_provider.pages.plots import Bar, Share, bars, spread_bars
from airflow_dc_provider.pages.shown import Pairs, pairs_of
from dc_engine.constraints.naming import meaning_in
from dc_engine.errors import DcError, did_you_mean
from dc_engine.lost import lost_watched
from dc_engine.reporting import tolerated
from dc_engine.reviewing import (
    Known,
    Line,
    closest,
    known_dependencies,
    listed_of,
    load_ids,
    loads_between,
    marked,
    some_violations,
    spread_over_rows,
)
from dc_engine.state.loads import Load
from dc_engine.state.snapshots import Snapshot
from dc_engine.state.storage import Storage
from dc_engine.stored import current_of, verdict_of
from dc_engine.verdict import ConstraintVerdict, LostDependency, Verdict
from dc_engine.wording import row_name

_BEFORE = 20
"""Of so many loads a rule shows how often it was violated."""
_NEAR = 1_000
"""Among so many loads a name is looked for that is nearly the one that is asked for."""
_SAMPLES = 3
_WORST = 5
_SMALL = (16, 5)
"""The height of a small plot, and the width of a load in it."""
Found = TypeVar("Found")


class UnreadableError(Exception):
    """The state cannot be read, here or at all."""

    def __init__(self, why: str, hint: str = "", *, status: int = 200) -> None:
        super().__init__(why)
        self.why, self.hint, self.status = why, hint, status


@dataclass(frozen=True, slots=True)
class Opened:
    """A state that can be read."""

    storage: Storage
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule, and what a load did to it."""

    found: ConstraintVerdict
    tolerated: str
    before: Sequence[Bar] = ()
    """New violations of the last loads, up to this one."""
    loads: int = 0
    """How many loads these are."""
    samples: Pairs | None = None
    worst: Sequence[tuple[str, int]] = ()
    """The rows of the load with the most violations."""
    explains: bool = False
    """Whether the worst row takes part in most of them."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A load and what became of it."""

    verdict: Verdict
    broken: Sequence[Rule]
    held: Sequence[Rule]
    lost: Sequence[tuple[LostDependency, Pairs | None]]
    """Watched dependencies, each with the pair of rows that shows it."""
    unwatched: Sequence[LostDependency]
    """Those that nobody watches."""
    last: str
    """The newest load of the table."""


@contextmanager
def _told() -> Iterator[None]:
    """What can go wrong on the way to a state, in words."""
    try:
        yield
    except DcError as error:
        raise UnreadableError(error.message, error.hint) from error
    except (AirflowException, ImportError, OSError, ValueError) as error:
        raise UnreadableError(str(error).split("\n")[0], getattr(error, "hint", "")) from error


def look(recorded: Recorded, at: Callable[[Opened], Found]) -> tuple[Opened, Found]:
    """The newest snapshot of the state that a task recorded, and what is found in it; in time, or not at all."""

    def found() -> tuple[Opened, Found]:
        storage = Storage(recorded.state, state_access(recorded.state_conn_id).options)
        storage.refuse_unknown()  # and not any address that someone wrote into XCom
        state = Opened(storage, current_of(storage))
        return state, at(state)

    with _told():
        return in_time(recorded.state, found)


def _find(state: Opened, load_id: str) -> Load:
    load = state.snapshot.loads(state.storage).find(load_id)
    if load is None:
        known = load_ids(state.storage, state.snapshot)[-_NEAR:]
        newest = f"The newest load is '{known[-1]}'." if known else "The state has no loads yet."
        hint = did_you_mean(load_id, known, otherwise=newest)
        raise UnreadableError(f"The state {state.storage.uri} has no load '{load_id}'.", hint, status=404)
    return load


def judged(state: Opened, load_id: str) -> Judged:
    """What a load did, as it is stored now."""
    load = _find(state, load_id)
    verdict = verdict_of(state.storage, load, {*state.snapshot.mask, *load.mask})
    ids = load_ids(state.storage, state.snapshot)
    end = ids.index(load_id) + 1
    lines = loads_between(state.storage, state.snapshot, max(end - _BEFORE, 0), end)
    broken = verdict.broken
    names = {one.name for one in broken}
    held = sorted((one for one in verdict.constraints if one.name not in names), key=lambda one: -one.new_violations)
    lost = lost_watched(verdict)
    return Judged(
        verdict,
        [_rule(one, verdict, lines) for one in broken],
        [_rule(one, verdict, lines) for one in held],
        [(one, pairs_of([one.example], verdict.columns) if one.example else None) for one in lost],
        [one for one in verdict.dependencies.invalidated if not one.watched],
        ids[-1],
    )


def _rule(found: ConstraintVerdict, verdict: Verdict, lines: Sequence[Line]) -> Rule:
    worst = [(row_name(one.get("row")), one["violations"]) for one in found.worst_rows[:_WORST]]
    height, step = _SMALL
    return Rule(
        found,
        tolerated(found.tolerance),
        bars([line.new.get(found.name, 0) for line in lines], height, step, scaled=True),
        len(lines),
        pairs_of(found.samples[:_SAMPLES], verdict.columns),
        worst,
        bool(worst) and found.new_violations > 1 and 2 * worst[0][1] > found.new_violations,
    )


@dataclass(frozen=True, slots=True)
class Listed:
    """Some of the listed violations of a rule by a load."""

    rule: Rule
    verdict: Verdict
    found: Pairs
    listed: int
    number: int
    """Which page of them this is, from 0."""
    last: int
    spread: Sequence[Share]
    places: Sequence[str]
    """Where all are, as Parquet."""


def pairs(state: Opened, load_id: str, constraint: str, number: int, most: int) -> Listed | None:
    """A page of violations, or the last one; None where the load was not judged by such a rule."""
    load = _find(state, load_id)
    verdict = verdict_of(state.storage, load, {*state.snapshot.mask, *load.mask})
    rule = next((one for one in verdict.constraints if one.name == constraint), None)
    if rule is None:
        return None
    last = max(listed_of(load, constraint) - 1, 0) // most
    number = min(number, last)
    found, listed = some_violations(state.storage, state.snapshot, load, constraint, number * most, most)
    spread = spread_over_rows(state.storage, load, constraint)
    shown = pairs_of(found, verdict.columns)
    places = _places(state, load, constraint)
    return Listed(_rule(rule, verdict, ()), verdict, shown, listed, number, last, spread_bars(spread), places)


def _places(state: Opened, load: Load, constraint: str) -> list[str]:
    return [state.storage.locate(one.path) for one in load.files if one.owner == constraint]


def history(state: Opened, number: int, most: int) -> tuple[list[Line], int]:
    """A page of loads, the newest on the first one, or the last page; and how many loads there are."""
    total = len(load_ids(state.storage, state.snapshot))
    end = total - min(number, max(total - 1, 0) // most) * most
    return loads_between(state.storage, state.snapshot, max(end - most, 0), end), total


def dependencies(state: Opened) -> tuple[Known | None, Mapping[str, str], Mapping[str | None, int]]:
    """The dependencies of a table, if they are kept; what people made of them; the places of loads in the history."""
    places: dict[str | None, int] = {one: place for place, one in enumerate(load_ids(state.storage, state.snapshot))}
    return known_dependencies(state.storage, state.snapshot), marked(state.storage, state.snapshot), places


@dataclass(frozen=True, slots=True)
class Kept:
    """A dependency that a state knows."""

    known: Any
    """The dependency itself."""
    mark: str
    """What people made of it."""
    pairs: Sequence[tuple[Pairs, str]] = ()
    """Those that come closest to breaking it, each with the comparison that it does not satisfy."""
    why: str = ""
    """Why there are none."""


def dependency(state: Opened, of_id: str) -> Kept | None:
    """A dependency by its id; None where the state has none of it, holding or lost."""
    known = known_dependencies(state.storage, state.snapshot)
    one = next((one for one in (*known.holding, *known.lost) if one.id == of_id), None) if known else None
    if one is None:
        return None
    mark = marked(state.storage, state.snapshot).get(meaning_in(one.id), "")
    if one.until is not None:
        return Kept(one, mark)
    found = closest(state.storage, state.snapshot, one)
    types = state.snapshot.schema
    return Kept(one, mark, [(pairs_of([pair], types), lacks) for pair, lacks in found.pairs], found.why)


def rules_of(summary: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """The rules in the summary of a verdict, worst first."""
    rules = summary.get("constraints")
    found = [(str(name), facts) for name, facts in rules.items()] if isinstance(rules, Mapping) else []
    found = [(name, facts) for name, facts in found if isinstance(facts, Mapping)]
    return sorted(found, key=lambda one: (bool(one[1].get("passed")), -int(one[1].get("new_violations") or 0)))
