"""Pairs that come closest to breaking a dependency are rows of the table, and satisfy all but one comparison."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dc_engine.discovery import nearest
from dc_engine.errors import RequestError
from dc_engine.reviewing import closest, known_dependencies
from dc_engine.verdict import MASKED
from tests.discovery.asked import asked
from tests.discovery.brute import Brute
from tests.discovery.oracle import HOLDS, Predicate, Rule
from tests.discovery.tables import Table

VALUES = st.sampled_from([0, 1, 2, None])
ROWS = st.lists(st.tuples(VALUES, VALUES, VALUES), min_size=2, max_size=9)


def made_of(folder: Path, rows: Sequence[tuple[Any, ...]], request: Mapping[str, Any], more: int = 0) -> Table:
    """A table with ids as its key; the last rows come with a second load."""
    made = Table(folder, "id a b c")
    made.rules["key"] = ["id"]
    lines = [(number, *row) for number, row in enumerate(rows)]
    made.apply("first", *lines[: len(lines) - more])
    made.discover(**request)
    if more:
        made.apply("second", *lines[len(lines) - more :])
    return made


def missing(brute: Brute, rule: Rule, t: Mapping[str, Any], s: Mapping[str, Any]) -> set[Predicate]:
    """The comparisons that two rows do not satisfy."""
    mine, other = brute.value_of(t), brute.value_of(s)

    def satisfied(left: str, op: str, right: str) -> bool:
        return mine[left] is not None and other[right] is not None and HOLDS[op](mine[left], other[right])

    return {one for one in rule if not satisfied(*one)}


def tier(lacks: Sequence[Predicate]) -> int:
    """How far a pair is from breaking a rule: an equality is further away than a difference or an order."""
    return min((1 + (op == "=") for _, op, _ in lacks), default=0) if len(lacks) < 2 else 3


@settings(max_examples=25)
@given(rows=ROWS, more=st.integers(0, 3), gone=st.sets(st.integers(0, 8), max_size=3), request=asked(("a", "b", "c")))
def test_they_are_live_rows_that_satisfy_all_but_the_comparison_that_is_named(rows, more, gone, request):
    more = min(more, len(rows) - 2)
    lines = {number: dict(zip("abc", row, strict=True), id=number) for number, row in enumerate(rows)}
    with tempfile.TemporaryDirectory() as folder:
        try:
            made = made_of(Path(folder), rows, request, more)
        except RequestError:
            assume(False)
        dead = [lines.pop(number) for number in gone if number in lines and len(lines) > 1]
        if dead:
            made.apply("third", deletes=[tuple(row[name] for name in made.types) for row in dead])
        facts = made.facts
        brute = Brute(facts["space"], list(lines.values()), facts["bound"], facts["nullable"])
        for one in known_dependencies(made.storage, made.snapshot).holding:
            rule = brute.written(one.kind, one.formula)
            found = closest(made.storage, made.snapshot, one)
            assert bool(found.pairs) != bool(found.why)
            shown = []
            for pair, lacks in found.pairs:
                t, s = (lines[pair[side]["row"]["id"]] for side in ("t", "s"))
                assert all(pair[side]["values"].items() <= row.items() for side, row in (("t", t), ("s", s)))
                assert missing(brute, rule, t, s) == brute.written(one.kind, f"not ({lacks})")
                assert t is not s
                shown.append((frozenset((t["id"], s["id"])), tier(list(missing(brute, rule, t, s)))))
            assert len({ids for ids, _ in shown}) == len(shown) <= nearest.PAIRS
            assert [each for _, each in shown] == sorted(each for _, each in shown)
            if facts["mode"] == "counted" and not dead and (len(rule) > 1 or facts["space"]["max_error"]):
                every = [missing(brute, rule, *pair) for pair in itertools.permutations(lines.values(), 2)]
                best = min((tier(list(some)) for some in every if len(some) < min(len(rule), 2)), default=3)
                assert (shown[0][1] if shown else 3) == best


ALIKE = [(0, 1, 5), (0, 1, 6), (1, 2, 7), (2, 3, 8)]


def test_what_is_masked_is_hidden_in_values_and_keys(tmp_path):
    made = made_of(tmp_path, ALIKE, {"classes": ["fd"]})
    made.apply("masked", (99, 7, 7, 7), mask=["A", "id"])
    one = next(one for one in known_dependencies(made.storage, made.snapshot).holding if one.text == "a -> b")
    for pair, _ in closest(made.storage, made.snapshot, one).pairs:
        for side in pair.values():
            assert side["row"] == {"id": MASKED}
            assert side["values"]["a"] == MASKED
            assert side["values"]["b"] in (1, 2, 3, 7)


def test_the_pair_that_supports_a_functional_dependency_comes_first(tmp_path):
    made = made_of(tmp_path, ALIKE, {"classes": ["fd"], "mode": "counted"})
    one = next(one for one in known_dependencies(made.storage, made.snapshot).holding if one.text == "a -> b")
    (pair, lacks), *_ = closest(made.storage, made.snapshot, one).pairs
    assert {pair[side]["row"]["id"] for side in "ts"} == {0, 1}
    assert lacks == "t.b != s.b"
    assert {pair[side]["load"] for side in "ts"} == {"first"}


def test_reads_are_bounded_and_it_is_said_where_that_is_why_there_is_none(tmp_path, monkeypatch):
    made = made_of(tmp_path, ALIKE, {"classes": ["fd"], "mode": "counted"}, more=1)
    one = next(one for one in known_dependencies(made.storage, made.snapshot).holding if one.text == "a -> b")
    with monkeypatch.context() as patched:
        patched.setattr(nearest, "MOST_LINES", 0)
        why = closest(made.storage, made.snapshot, one).why
        assert why.startswith("Among the first 0 of the ")
    made.apply("gone", deletes=[(2, *ALIKE[2])])
    assert closest(made.storage, made.snapshot, one).pairs
    monkeypatch.setattr(nearest, "MOST_DEAD", 0)
    assert "So many rows were deleted" in closest(made.storage, made.snapshot, one).why


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"classes": ["unique"]}, "a single comparison"),
        ({"classes": ["fd"], "mode": "witnessed", "max_error": 0.3}, "keeps no pairs"),
    ],
)
def test_where_the_state_cannot_tell_it_says_so(tmp_path, request_, said):
    made = made_of(tmp_path, [(0, 1, 0), (1, 1, 1), (2, 2, 2)], request_)
    known = known_dependencies(made.storage, made.snapshot).holding
    assert known
    for one in known:
        assert said in closest(made.storage, made.snapshot, one).why
