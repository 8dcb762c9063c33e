"""Processes that work on one state at the same time: each has its way wholly or not at all, in some order."""

from __future__ import annotations

import itertools
import random
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dc_engine.engines.base import Tasks
from dc_engine.errors import ConflictError
from dc_engine.maintained.continuity import total_violations
from dc_engine.verdict import Verdict
from tests.faults.states import Gate, at_once, changes, history, made_rows, plain, start, totals
from tests.inprocess import Session, Source
from tests.jobs.histories import Given, play

Deed = tuple[str, Given | None]
"""``apply`` with a load, or an action; ``retract`` takes the load out."""
SEED = 11


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Given]]:
    """A state with some loads, to be copied."""
    folder = tmp_path_factory.mktemp("begun") / "state"
    loads = history(random.Random(SEED))
    gate = Gate(str(folder))
    for one in loads:
        gate.apply(one)
    return folder, loads


def new(load_id: str, number: int, loads: list[Given]) -> Given:
    """A load that deletes a row of an older one, another for each number."""
    chance = random.Random(f"{SEED} {load_id} {number}")
    return changes(load_id, made_rows(chance, 10_000 * number, 8), [loads[0].inserts[number]])


ROUNDS: dict[str, Callable[[list[Given]], list[Deed]]] = {
    "different loads": lambda loads: [("apply", new("a", 1, loads)), ("apply", new("b", 2, loads))],
    "three loads": lambda loads: [("apply", new(name, n, loads)) for n, name in enumerate("abc", 1)],
    "the same load": lambda loads: [("apply", new("a", 1, loads))] * 2,
    "the same load three times": lambda loads: [("apply", new("a", 1, loads))] * 3,
    "other changes of one load": lambda loads: [("apply", new("a", 1, loads)), ("apply", new("a", 2, loads))],
    "a load and a compact": lambda loads: [("apply", new("a", 1, loads)), ("compact", None)],
    "a load and a vacuum": lambda loads: [("apply", new("a", 1, loads)), ("vacuum", None)],
    "a load and a retract": lambda loads: [("apply", new("a", 1, loads)), ("retract", loads[1])],
    "a retract and a vacuum": lambda loads: [("retract", loads[1]), ("vacuum", None)],
    "a load and two others": lambda loads: [("apply", new("a", 1, loads)), ("compact", None), ("vacuum", None)],
}


@pytest.mark.parametrize("turn", [1, 2])
@pytest.mark.parametrize("name", ROUNDS)
def test_of_several_at_once_each_has_its_way_wholly_or_is_told_who_won(
    name: str, turn: int, begun: tuple[Path, list[Given]], tmp_path: Path
) -> None:
    folder, loads = begun
    shutil.copytree(folder, tmp_path / "state")
    gate, deeds = Gate(str(tmp_path / "state")), ROUNDS[name](loads)
    results = at_once([lambda deed=deed: act(gate, deed) for deed in deeds])
    done = [deed for deed, result in zip(deeds, results, strict=True) if not isinstance(result, Exception)]
    for result in results:
        assert isinstance(result, Verdict | dict | ConflictError), repr(result)
    assert done
    history_now, sums = possible(gate, loads, done)
    gate.check(history_now, sums)
    check_verdicts(gate, [one for one in results if isinstance(one, Verdict)])
    gate.check_clean()
    gate.check(history_now, sums)


def act(gate: Gate, deed: Deed) -> Any:
    action, given = deed
    if action == "apply":
        assert given is not None
        return gate.apply(given)
    more = {"load_id": given.load_id} if given else {}
    return gate.maintain(action, **more, **({"keep_snapshots": 1, "grace_hours": 0} if action == "vacuum" else {}))


def possible(gate: Gate, loads: list[Given], done: list[Deed]) -> tuple[list[Given], dict[str, int]]:
    """The history in the order in which the state has it: it must be one that some order of the deeds gives."""
    seen: list[tuple[list[Given], dict[str, int]]] = []
    snapshot = gate.current
    for order in itertools.permutations(done):
        now = list(loads)
        for action, given in order:
            if action == "retract":
                now = [one for one in now if one is not given]
            elif action == "apply" and given is not None:
                place = next((n for n, one in enumerate(now) if one.load_id == given.load_id), len(now))
                now[place : place + 1] = [given]
        sums = totals(play(now, gate.key)[0])
        seen.append((now, sums))
        if [one.load_id for one in gate.loads] == [one.load_id for one in now] and total_violations(snapshot) == sums:
            return now, sums
    raise AssertionError(f"{gate.loads} with {total_violations(snapshot)} is not one of {seen}")


def check_verdicts(gate: Gate, verdicts: list[Verdict]) -> None:
    """Of verdicts on the same load with the same changes, one is new and the others are that one."""
    alike: dict[tuple[str, str], list[Verdict]] = {}
    for one in verdicts:
        facts = plain(one)
        alike.setdefault((one.load_id, repr(facts["rows"]) + repr(facts["snapshot"])), []).append(one)
    for group in alike.values():
        assert [one.replayed for one in group].count(False) == 1
        assert len({repr(plain(one)) for one in group}) == 1


class _Overtaken(dict[str, Source]):
    """Sources of which reading one lets another load be committed before."""

    def __init__(self, rival: Callable[[], Any], path: str) -> None:
        super().__init__()
        self.rival, self.path, self.times = rival, path, 0

    def __getitem__(self, path: str) -> Source:
        if path == self.path:
            self.times += 1
            self.rival()
        return super().__getitem__(path)


def rivals(gate: Gate, loads: list[Given]) -> Callable[[], Any]:
    numbers = itertools.count(1)
    rival = Gate(gate.state)
    return lambda: rival.apply(new(f"rival {(n := next(numbers))}", n, loads), max_wait_seconds=0)  # waits for nobody


def test_a_gate_that_is_overtaken_and_has_no_time_left_names_the_winner_and_commits_nothing(
    begun: tuple[Path, list[Given]], tmp_path: Path
) -> None:
    folder, loads = begun
    shutil.copytree(folder, tmp_path / "state")
    gate = Gate(str(tmp_path / "state"))
    gate.session.sources = _Overtaken(rivals(gate, loads), "late")
    late = new("late", 9, loads)
    with pytest.raises(ConflictError) as caught:
        gate.apply(late, max_wait_seconds=0)
    assert gate.session.sources.times == 1
    number = gate.current.number
    assert f"Load 'late' was not committed: load 'rival 1' was committed to {gate.state}" in caught.value.message
    assert f"as snapshot {number}" in caught.value.message
    assert "max_wait_seconds" in caught.value.hint
    won = [*loads, new("rival 1", 1, loads)]
    gate.check(won)
    gate.check_clean()
    gate.session.sources = dict(gate.session.sources)
    assert gate.apply(late).snapshot == gate.current.number
    gate.check([*won, late])


@pytest.mark.parametrize("action", ["retract", "compact"])
def test_an_action_that_is_overtaken_and_has_no_time_left_names_the_winner_and_commits_nothing(
    action: str, begun: tuple[Path, list[Given]], tmp_path: Path
) -> None:
    folder, loads = begun
    shutil.copytree(folder, tmp_path / "state")
    gate = Gate(str(tmp_path / "state"), session=_Disturbed())
    gate.session.rival = rivals(gate, loads)
    more = {"load_id": loads[1].load_id} if action == "retract" else {}
    with pytest.raises(ConflictError, match=r"was not committed: load 'rival 1' was committed"):
        gate.maintain(action, max_wait_seconds=0, **more)
    won = [*loads, new("rival 1", 1, loads)]
    gate.check(won)
    gate.check_clean()


def test_a_gate_that_is_overtaken_many_times_is_checked_on_top_of_the_others(
    begun: tuple[Path, list[Given]], tmp_path: Path
) -> None:
    folder, loads = begun
    shutil.copytree(folder, tmp_path / "state")
    gate = Gate(str(tmp_path / "state"))
    overtake = rivals(gate, loads)
    times = itertools.count(1)
    gate.session.sources = _Overtaken(lambda: next(times) < 8 and overtake(), "late")
    late = replace(new("late", 9, loads), deletes=[loads[0].inserts[1]])  # which the first rival deletes as well
    verdict = gate.apply(late)
    assert verdict.rows["missing_deletes"] == 1
    gate.check([*loads, *(new(f"rival {n}", n, loads) for n in range(1, 8)), late])


def test_sixteen_loads_at_once_all_get_in(begun: tuple[Path, list[Given]], tmp_path: Path) -> None:
    folder, loads = begun
    shutil.copytree(folder, tmp_path / "state")
    gate = Gate(str(tmp_path / "state"))
    given = [changes(f"day {n}", made_rows(random.Random(n), 10_000 * (n + 1), 8), []) for n in range(16)]
    results = at_once([lambda one=one: gate.apply(one) for one in given])
    assert [one.load_id for one in results if isinstance(one, Verdict)] == [one.load_id for one in given], results
    assert len({one.snapshot for one in results}) == 16
    by_name = {one.load_id: one for one in given}
    gate.check([*loads, *(by_name[one.load_id] for one in gate.loads[len(loads) :])])
    assert gate.storage.names("waiting") == []


class _Slow(dict[str, Source]):
    """Sources that take a while to read, and count how often they are."""

    reads = 0

    def __getitem__(self, path: str) -> Source:
        self.reads += 1
        time.sleep(0.4)
        return super().__getitem__(path)


def test_a_slow_load_among_many_fast_ones_gets_in_before_they_are_through(
    begun: tuple[Path, list[Given]], tmp_path: Path
) -> None:
    folder, loads = begun
    shutil.copytree(folder, tmp_path / "state")
    gate, slow = Gate(str(tmp_path / "state")), Gate(str(tmp_path / "state"), session=Session(_Slow()))
    given = {
        f"{hour} {n}": changes(f"{hour} {n}", made_rows(random.Random(f"{hour} {n}"), 10_000 * n + 100 * hour, 4), [])
        for n in range(1, 3)
        for hour in range(10)
    }
    late = changes("slow", made_rows(random.Random(7), 1_000_000, 4), [])

    def fast(n: int) -> Any:
        return [gate.apply(given[f"{hour} {n}"]) for hour in range(10)][-1]

    def tries() -> Any:
        slow.apply(late)
        return slow.session.sources.reads

    tried, *results = at_once([tries, *(lambda n=n: fast(n) for n in range(1, 3))])
    assert all(isinstance(one, Verdict) for one in results), results
    assert tried <= 3  # it loses to those that were at work when it lost, and to nobody after them
    order = [one.load_id for one in gate.loads[len(loads) :]]
    assert order.index("slow") < len(order) - 1, order
    by_name = {**given, "slow": late}
    gate.check([*loads, *(by_name[name] for name in order)])


class _Disturbed(Session):
    """A session that lets something happen when the workers start, once."""

    rival: Callable[[], Any] | None = None

    def tasks(self, rows: int, size: int) -> Tasks:
        rival, self.rival = self.rival, None
        if rival:
            rival()
        return super().tasks(rows, size)


DISTURBED: dict[str, Callable[[Gate, list[Given]], Any]] = {
    "apply": lambda gate, loads: gate.apply(new("new", 1, loads)),
    "replace": lambda gate, loads: gate.apply(replace(loads[1], inserts=loads[1].inserts[:9])),
    "retract": lambda gate, loads: gate.maintain("retract", load_id=loads[1].load_id),
    "compact": lambda gate, loads: gate.maintain("compact"),
    "rebuild": lambda gate, loads: gate.maintain("rebuild"),
}


@pytest.mark.parametrize("name", DISTURBED)
def test_work_whose_drafts_a_vacuum_takes_away_is_done_again(
    name: str, begun: tuple[Path, list[Given]], tmp_path: Path
) -> None:
    folder, loads = begun
    shutil.copytree(folder, tmp_path / "state")
    gate = Gate(str(tmp_path / "state"), session=_Disturbed())
    gate.session.rival = lambda: Gate(gate.state).maintain("vacuum", keep_snapshots=1, grace_hours=0)
    DISTURBED[name](gate, loads)
    after = {
        "apply": [*loads, new("new", 1, loads)],
        "replace": [loads[0], replace(loads[1], inserts=loads[1].inserts[:9]), *loads[2:]],
        "retract": [loads[0], *loads[2:]],
    }.get(name, loads)
    gate.check(after)
    gate.check_clean()
    gate.check(after)


def test_verify_finds_a_state_sound_whose_files_are_exchanged_meanwhile(
    begun: tuple[Path, list[Given]], tmp_path: Path
) -> None:
    folder, _ = begun
    shutil.copytree(folder, tmp_path / "state")
    gate, calm = Gate(str(tmp_path / "state")), True

    def exchange() -> None:
        gate.maintain("compact")
        for _ in range(2):
            gate.maintain("vacuum", keep_snapshots=1, grace_hours=0)

    def hook(event: str, given: tuple[Any, ...]) -> None:
        nonlocal calm
        if calm and event == "open" and "/rows/" in str(given[0]):
            calm = False
            start(exchange).result()

    def verify() -> Any:
        sys.addaudithook(hook)
        return gate.maintain("verify")

    checked = start(verify).result()
    assert gate.current.number == 6
    assert (checked["sound"], checked["snapshot"]) == (True, 6), checked
