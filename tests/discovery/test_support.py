"""Dependencies that enough pairs of rows support are those that hold and have enough, whatever comes and goes."""

from __future__ import annotations

import itertools
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.discovery import classes, enumerating, keeping, limits, orders, support
from dc_engine.discovery.boxes import Box
from dc_engine.discovery.coded import Coded
from dc_engine.discovery.keeping import changed, found
from dc_engine.discovery.known import COUNTED, WITNESSED, Known, Turnover
from dc_engine.discovery.space import CLASSES, Limits, Space
from dc_engine.discovery.terms import Outcome, Terms
from dc_engine.errors import RequestError
from dc_engine.sizes import other_sizes
from dc_engine.stored import read_dependencies
from tests.discovery.tables import Table
from tests.discovery.test_search import WAYS

MODES = pytest.mark.parametrize("mode", [COUNTED, WITNESSED])
CHOSEN = st.sampled_from([CLASSES, CLASSES, ("unique", "fd"), ("od",), ("fd", "od"), ("unique", "pod")])
_EQUAL = int(Outcome.EQUAL)


def pairs_of(terms: Terms, rows: Coded, box: Box) -> int:
    """The pairs of rows that agree on all that a box asks to be equal; where it asks for nothing else, on all but one.

    NULL (-1) equals NULL in class ``od`` alone.
    """
    asked = [place for place, mask in enumerate(box) if mask == _EQUAL and terms.terms[place].own]
    others = [place for place, mask in enumerate(box) if mask not in (_EQUAL, 7)]
    contexts = [asked] if others or not asked else [[one for one in asked if one != out] for out in asked]

    def agree(place: int, t: int, s: int) -> bool:
        codes, null_is_value = rows.codes[terms.terms[place].left], terms.terms[place].first
        return bool(codes[t] == codes[s] and (null_is_value or codes[t] >= 0))

    number = range(len(rows.ids))
    return min(
        sum(all(agree(place, t, s) for place in one) for t, s in itertools.combinations(number, 2)) for one in contexts
    )


@st.composite
def tables(draw: st.DrawFn) -> tuple[Space, Coded]:
    columns, rows = draw(st.integers(1, 5)), draw(st.integers(0, 12))
    values = st.integers(-1 if draw(st.booleans()) else 0, draw(st.integers(0, 3)))
    codes = {
        f"c{one}": np.array(draw(st.lists(values, min_size=rows, max_size=rows)), np.int32) for one in range(columns)
    }
    space = Space(dict.fromkeys(codes, "int"), tuple(codes)[: draw(st.integers(0, columns))], classes=draw(CHOSEN))
    return replace(space, descending="od" in space.classes and draw(st.booleans())), Coded(np.arange(rows), codes)


def sets_of(known: Known) -> dict[str, set[Box]]:
    return {name: set(some) for name, some in known.sets.items()}


@given(tables(), st.integers(1, 20), st.sampled_from([COUNTED, WITNESSED]), WAYS, st.data())
def test_what_has_enough_support_is_found_and_kept(table, least, mode, ways, data):
    space, rows = table
    asked, number = replace(space, limits=Limits(min_support=least)), len(rows.ids)
    there = [np.array(data.draw(st.lists(st.booleans(), min_size=number, max_size=number)), bool) for _ in range(3)]
    searched, none = data.draw(st.booleans()), data.draw(st.booleans())
    with ExitStack() as stack:
        stack.enter_context(other_sizes(**ways))
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for module in (classes, enumerating, keeping, limits, orders) if searched else ():
            patch.setattr(module, "TABLED", 0)  # as if there were many columns
        patch.setattr(support, "_VISITS", 0 if none else 10**9)
        known = found(asked, rows.chosen(there[0]), mode)
        for before, after in [(there[0], there[0]), *itertools.pairwise(there)]:
            if (before != after).any():
                known = changed(asked, known, Turnover(rows, before, after))
            now = rows.chosen(after)
            every = found(space, now, mode, known.nullable)
            terms = space.terms(known.nullable)
            assert sets_of(known) == {
                name: {box for box in some if pairs_of(terms, now, box) >= least}
                for name, some in sets_of(every).items()
            }
            assert known.because == (
                f"only dependencies with a support of at least {least} pair{'s' * (least > 1)} of rows are looked for"
            )


@MODES
def test_what_only_lacks_support_is_not_lost(tmp_path: Path, mode: str) -> None:
    table = Table(tmp_path)
    table.apply("1", (1, 1), (1, 1), (1, 1), (2, 2))
    assert table.discover(mode, classes=["fd"], limits={"min_support": 3}) == ["a -> b", "b -> a"]
    told = table.told("2", deletes=[(1, 1)])
    assert (told.valid, told.invalidated, told.watched) == ({"fd": 0}, [], [])
    assert not told.complete
    assert told.because == "only dependencies with a support of at least 3 pairs of rows are looked for"
    assert not table.problems
    told = table.told("3", (1, 1))
    assert [(one.text, one.since) for one in told.added] == [("a -> b", "3"), ("b -> a", "3")]
    assert not table.problems


@MODES
def test_what_a_load_breaks_is_lost_though_it_takes_the_support_away_too(tmp_path: Path, mode: str) -> None:
    table = Table(tmp_path)
    table.apply("1", (1, 1), (1, 1), (1, 1), (2, 2))
    table.discover(mode, classes=["fd"], limits={"min_support": 3})
    told = table.told("2", (1, 3), deletes=[(1, 1), (1, 1)])
    assert [(one.text, one.violations) for one in told.invalidated] == [("a -> b", 1)]
    assert not table.problems


@MODES
def test_what_lacked_support_has_its_history_back_when_the_load_is_taken_out(tmp_path: Path, mode: str) -> None:
    table = Table(tmp_path)
    table.apply("1", (1, 1), (1, 1), (1, 1), (2, 2))
    table.discover(mode, classes=["fd"], limits={"min_support": 3})
    before = table.listed()
    table.apply("2", deletes=[(1, 1)])
    table.maintain("retract", load_id="2")
    assert table.listed() == before
    assert not table.problems


def test_the_best_alone_are_shown_and_that_is_said_wherever_they_are(tmp_path: Path) -> None:
    table = Table(tmp_path, "a b c")
    table.apply("1", (1, 1, 1), (1, 2, 1), (2, 2, 1), (3, 3, 1))
    every = table.discover(limits={"top": 100})
    assert table.facts["because"] == ""
    assert len(every) > 2
    assert table.discover(limits={"top": 2}) == every[:2]
    assert len(read_dependencies(table.storage, "complete")) == 2
    described = table.maintain("describe")["dependencies"]
    assert len(described["best"]) == 2
    assert not described["complete"]
    assert described["because"].startswith("only the best 2 of ")
    assert described["because"] in table.maintain("describe")["text"]
    told = table.told("2")
    assert sum(told.valid.values()) == len(every)
    assert told.complete  # all are kept, and counted


@pytest.mark.parametrize("limit", ["min_support", "top"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "many", True, [3]])
def test_limits_that_are_no_numbers_are_refused(tmp_path: Path, limit: str, value: Any) -> None:
    table = Table(tmp_path)
    table.apply("1", (1, 1))
    with pytest.raises(RequestError, match=f"'{limit}' in 'limits' must be a whole number of at least 1, not"):
        table.discover(limits={limit: value})
