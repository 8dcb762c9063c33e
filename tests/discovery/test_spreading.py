"""Large work of a search is done by tasks: the same is found, however it is cut and whoever does it."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark import __version__ as VERSION

from dc_engine.discovery import searching
from dc_engine.discovery.coded import Coded
from dc_engine.discovery.hitting import minimal_hitting_sets
from dc_engine.discovery.keeping import changed, found
from dc_engine.discovery.known import COUNTED, WITNESSED, Known, Turnover
from dc_engine.discovery.scan import scan
from dc_engine.discovery.space import Asked, Limits, Space, space_of
from dc_engine.discovery.spreading import Lines, Packed, Units, nobody
from dc_engine.engines.spark import SparkEngine
from dc_engine.engines.work import searchers
from dc_engine.errors import DcError, RequestError, StateError
from dc_engine.sizes import other_sizes
from tests.discovery.tables import Table
from tests.discovery.test_hitting import plain
from tests.discovery.test_keeping import coded, histories
from tests.discovery.test_scan import cases, codes, layout_of, rows_of
from tests.discovery.test_search import WAYS
from tests.inprocess import Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LAYOUT = layout_of(2, nullable=False, cross=False)
CUTS = st.fixed_dictionaries(
    {"pairs_here": st.just(0), "unit_pairs": st.integers(1, 12), "search_jobs": st.integers(1, 3)}
)
"""Sizes by which a handful of rows is shared out."""


def _sorted(known: Known) -> dict[str, list]:
    return {name: sorted(boxes) for name, boxes in known.sets.items()}


def same(one: Known, other: Known) -> bool:
    """Whether two know the same, down to the rows that show a pattern."""
    arrays = [(getattr(one.store, name), getattr(other.store, name)) for name in ("patterns", "pairs", "t", "s")]
    return all(np.array_equal(*both) for both in arrays) and _sorted(one) == _sorted(other) and one.bound == other.bound


@given(histories(), st.sampled_from([COUNTED, WITNESSED]), WAYS, CUTS, st.integers())
def test_what_tasks_find_is_what_the_driver_finds(history, mode, ways, cuts, seed):
    space, rows, steps = history
    workers, there = searchers(Session(random=Random(seed))), np.zeros(len(rows), bool)
    alone: Known | None = None
    shared: Known | None = None
    for first, last, gone in steps:
        before = there.copy()
        there[first:last] = True
        there[sorted(gone)] = False
        table = coded(space, rows, np.arange(len(rows)) * 7 + 3)
        with other_sizes(**ways):
            if alone is None or shared is None:
                alone = found(space, table.chosen(there), mode)
                with other_sizes(**cuts):
                    shared = found(space, table.chosen(there), mode, workers=workers)
            else:
                turnover = Turnover(table, before, there.copy())
                alone = changed(space, alone, turnover)
                with other_sizes(**cuts):
                    shared = changed(space, shared, turnover, workers=workers)
        assert same(alone, shared)


@st.composite
def longer(draw: st.DrawFn) -> tuple[Space, Coded, np.ndarray, np.ndarray]:
    """So many rows that it pays to look at keys and to count single rules; which were there, and which are."""
    sizes = draw(st.lists(st.sampled_from([2, 5, 20, 60]), min_size=2, max_size=4))
    rows, nulls = draw(st.integers(40, 120)), draw(st.integers(0, 1))
    chance = np.random.default_rng(draw(st.integers(0, 2**32)))
    codes = {f"c{place}": chance.integers(-nulls, size, rows).astype(np.int32) for place, size in enumerate(sizes)}
    codes["c1"] = np.where(chance.random(rows) < 0.9, codes["c0"] // 2, codes["c1"]).astype(np.int32)
    types = dict.fromkeys(codes, draw(st.sampled_from(["int", "string"])))
    classes = draw(st.sampled_from([("unique", "fd", "dc"), ("unique", "fd", "od", "dc"), ("od",)]))
    space = space_of(Asked(classes=classes, limits=Limits(max_terms=3)), types, {})
    shares = (draw(st.sampled_from([0.0, 0.5, 0.97])), draw(st.sampled_from([0.8, 1.0])))
    before, after = (chance.random(rows) < share for share in shares)
    return space, Coded(np.arange(rows), codes), before, after


@settings(max_examples=max(20, settings().max_examples // 8))
@given(longer(), st.sampled_from([1, 4, 1_000]), st.sampled_from([0, 1_000]), CUTS)
def test_keys_and_single_rules_are_looked_at_in_parts(table, counted_price, rows_in_cells, cuts):
    space, rows, before, after = table
    with other_sizes(few_pairs=0, counted_price=counted_price, rows_in_cells=rows_in_cells):
        for workers in (nobody, searchers(Session())):
            with other_sizes(**cuts):
                first = found(space, rows.chosen(before), WITNESSED, workers=workers)
                then = changed(space, first, Turnover(rows, before, after), workers=workers)
            if workers is nobody:
                alone = (first, then)
    assert same(alone[0], first)
    assert same(alone[1], then)
    counted = found(space, rows.chosen(after), COUNTED, then.nullable)
    assert {name: set(some) for name, some in then.sets.items()} == {k: set(v) for k, v in counted.sets.items()}


@given(cases(), CUTS)
def test_all_pairs_are_counted_once_however_they_are_cut(case, cuts):
    layout, columns, new, old = case
    both = [*new, *old]
    rows = rows_of(layout, codes(both, columns))
    for first in (len(new), None):
        alone = scan(layout, rows, first)
        with other_sizes(**cuts):
            shared = scan(layout, rows, first, workers=searchers(Session()))
        for name in ("patterns", "pairs", "t", "s"):
            assert np.array_equal(getattr(alone, name), getattr(shared, name))


@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=3, max_size=3)))
def test_numbers_arrive_as_they_were(lines):
    packed = Packed.of([np.array(one, np.int64) for one in lines])
    assert [one.tolist() for one in packed.lines()] == lines


def test_codes_travel_in_few_bytes():
    chance = np.random.default_rng(3)
    few, many = chance.integers(-1, 100, 10_000), chance.integers(0, 30_000, 10_000)
    assert Packed.of([few, many]).nbytes <= 3 * 10_000 + 1_000
    assert [one.dtype for one in Packed.of([few, many]).lines()] == [np.int8, np.int16]


@dataclass(frozen=True)
class Failing:
    """Work of which one unit cannot be done."""

    error: Exception
    nbytes: int = 1

    def look(self, unit: Any) -> Lines:
        if unit == 5:
            raise self.error
        return Lines(np.zeros((1, 1), np.uint64), np.zeros(1, np.int64), np.zeros(1, np.int64), 1)


@pytest.mark.parametrize("error", [RequestError("Too many.", hint="Fewer."), ZeroDivisionError("of its own")])
def test_a_unit_that_fails_is_an_error(error: Exception) -> None:
    with other_sizes(pairs_here=0, unit_pairs=1):
        crew = searchers(Session())(10, 1)
    assert crew is not None
    with pytest.raises(type(error)) as raised:
        crew.run("looking", Units(Failing(error), tuple(range(10))))
    assert str(raised.value) == str(error)
    if isinstance(error, DcError):
        assert raised.value.hint == "Fewer."


def test_small_work_is_done_where_it_is() -> None:
    """Nobody is asked to do what is done sooner than said."""
    workers = searchers(Session())
    assert workers(1_000_000_000, 1) is None
    assert nobody(1e15, 1) is None
    assert workers(0, 1) is None
    crew = workers(16_000_000_000, 1)
    assert crew is not None
    assert crew.units == 16


@pytest.mark.parametrize("mode", [COUNTED, WITNESSED])
def test_a_state_whose_dependencies_tasks_find_and_keep(tmp_path: Path, mode: str) -> None:
    first, more = [(n, n // 3, n % 4) for n in range(60)], [(n, n // 3 + n % 2, n % 4) for n in range(60, 70)]
    formulas = []
    for name, cuts in (("alone", {}), ("shared", {"pairs_here": 0, "unit_pairs": 100, "few_pairs": 0})):
        table = Table(tmp_path / name, "a b c")
        with other_sizes(**cuts):
            table.apply("one", *first)
            table.discover(mode)
            table.apply("two", *more, deletes=first[:5])
            formulas.append(table.formulas)
            assert table.problems == []
    assert formulas[0] == formulas[1] != set()


def test_a_unit_that_fails_leaves_the_state_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(tmp_path, "a b")
    table.apply("one", *((n, n // 3) for n in range(60)))
    files = table.storage.files()

    for error in (StateError("It cannot be read."), MemoryError("Too much.")):
        monkeypatch.setattr("dc_engine.discovery.scan._counted", Mock(side_effect=error))
        with other_sizes(pairs_here=0, unit_pairs=100), pytest.raises(type(error), match=f"^{error}$"):
            table.discover(COUNTED)
        assert table.storage.files() == files
    assert table.problems == []


def test_the_log_says_what_is_done_and_how_much_of_it(caplog: pytest.LogCaptureFixture) -> None:
    units = Units(Failing(ZeroDivisionError()), (1, 2, 3, 4))
    caplog.set_level("INFO")
    with other_sizes(pairs_here=0, unit_pairs=1, search_jobs=2):
        crew = searchers(Session())(4, 1)
        assert crew is not None
        assert len(crew.run("looking", units)) == 4
        assert caplog.messages[1:] == ["looking: 2 of 4 parts done", "looking: 4 of 4 parts done"]
        caplog.clear()
        with other_sizes(sent_bytes=1):  # codes are not sent twice only to say more
            crew.run("looking", replace(units, search=replace(units.search, nbytes=2)))
    assert caplog.messages[1:] == ["looking: 4 of 4 parts done"]


@dataclass(frozen=True)
class Imports(Failing):
    """Work whose units say whether a worker has imported pandas."""

    def look(self, unit: Any) -> Lines:
        table = rows_of(LAYOUT, codes([(1, 2), (2, 2)], 2))
        assert scan(LAYOUT, table).pairs.tolist() == [1]
        return super().look(unit)._replace(pairs=int("pandas" in sys.modules))


@pytest.mark.xdist_group("spark")
class TestOnSpark:
    """Tasks of Spark do what the driver would do."""

    @pytest.mark.parametrize("mode", [COUNTED, WITNESSED])
    def test_the_same_is_found(self, spark: SparkSession, mode: str, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level("INFO")
        chance = np.random.default_rng(11)
        types = {"a": "int", "b": "string", "c": "int", "d": "string"}
        sizes = {"a": 30, "b": 400, "c": 9, "d": 5}
        columns = {name: chance.integers(-1, size, 900).astype(np.int32) for name, size in sizes.items()}
        columns["d"] = (columns["a"] // 7).astype(np.int32)
        space, rows = space_of(Asked(), types, {}), Coded(np.arange(900) + 100, columns)
        workers = searchers(SparkEngine(lambda: spark, "spark"))
        before, after = np.arange(900) < 880, np.arange(900) >= 7
        with other_sizes(few_pairs=0, unit_pairs=40_000, search_jobs=2):
            for helpers in (workers, nobody):
                first = found(space, rows.chosen(before), mode, workers=helpers)
                then = changed(space, first, Turnover(rows, before, after), workers=helpers)
                if helpers is workers:
                    shared = (first, then)
                    said = " ".join(caplog.messages)
        assert same(shared[0], first)
        assert same(shared[1], then)
        assert set(then.sets["fd"]) != set(), "there is something to find"
        whole = "pairs of rows are compared in 10 parts by Spark's workers"
        assert (whole if mode == COUNTED else "rules checked in") in said

    def test_the_same_rules_are_enumerated(self, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
        chance = np.random.default_rng(5)
        problem = plain((chance.random((400, 16)) < 0.5).tolist())
        monkeypatch.setattr(searching, "_FEW_POINTS", 0)
        monkeypatch.setattr(searching, "_TRIAL", 10)
        alone = minimal_hitting_sets(problem)
        engine = SparkEngine(lambda: spark, "spark")
        asked = Mock(side_effect=searchers(engine))
        with other_sizes(searched_seconds=0, unit_pairs=1_000_000):
            shared = minimal_hitting_sets(problem, workers=asked)
            cut = minimal_hitting_sets(problem, most=len(alone.sets) - 1, workers=asked)
        assert asked.call_count >= 3
        assert shared.sets == alone.sets != []
        assert (cut.complete, cut.stopped) == (False, "sets")

    def test_a_unit_that_fails_is_one_error(self, spark: SparkSession) -> None:
        crew = searchers(SparkEngine(lambda: spark, "spark"))(10, 1)
        assert crew is not None
        with pytest.raises(RequestError, match=r"^Too many\. Hint: Fewer\.$"):
            crew.run("looking", Units(Failing(RequestError("Too many.", hint="Fewer.")), tuple(range(10))))

    def test_a_worker_imports_no_pandas(self, spark: SparkSession) -> None:
        crew = searchers(SparkEngine(lambda: spark, "spark"))(1, 1)
        assert crew is not None
        assert [one.pairs for one in crew.run("looking", Units(Imports(ZeroDivisionError()), (1,)))] == [0]


@pytest.mark.parametrize(
    ("mode", "pairs", "shared"),
    [("auto", 1e9, False), ("auto", 1e11, True), ("local", 1e11, False), ("spark", 1, True), ("spark", 0, False)],
)
def test_the_request_says_who_searches(mode: str, pairs: float, shared: bool) -> None:
    engine = SparkEngine(lambda: SimpleNamespace(version=VERSION, conf={"spark.master": "yarn"}), mode)  # type: ignore[arg-type]
    assert (searchers(engine)(pairs, 1) is not None) == shared


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]"])
def test_workers_with_the_processors_of_the_driver_search_only_when_they_are_told_to(master: str) -> None:
    for mode, shared in (("auto", False), ("spark", True)):
        engine = SparkEngine(lambda: SimpleNamespace(version=VERSION, conf={"spark.master": master}), mode)  # type: ignore[arg-type]
        assert (searchers(engine)(1e11, 1) is not None) == shared


def test_codes_that_are_too_large_for_a_message_stay_where_they_are() -> None:
    class Remote:
        __module__ = "pyspark.sql.connect.session"
        addArtifacts = Mock()
        version = VERSION

    for session, shared in ((lambda: Mock(version=VERSION), True), (Remote, False)):
        workers = searchers(SparkEngine(session, "spark"))  # type: ignore[arg-type]
        assert workers(1e11, 2**20) is not None
        assert (workers(1e11, 200 * 2**20) is not None) == shared
