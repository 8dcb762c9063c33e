"""A load onto a large table finds the rows that matter in indexes, and reads the table only where none serves."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dc_engine.apply_load import apply_load
from dc_engine.discover import discover
from dc_engine.discovery.afar import Afar
from dc_engine.discovery.boxes import agreeing
from dc_engine.discovery.coded import Coded
from dc_engine.discovery.covering import Estimates
from dc_engine.discovery.covers import Cover, chosen_covers
from dc_engine.discovery.space import Asked, space_of
from dc_engine.maintain import maintain
from dc_engine.maintained.losses import COUNTED
from dc_engine.sizes import other_sizes
from dc_engine.state.files import Action, FileKind
from dc_engine.state.snapshots import Snapshot, advance, commit, read_current
from dc_engine.state.storage import Storage
from dc_engine.stored import read_dependencies
from dc_engine.verdict import Verdict
from tests.discovery.test_large import MADE
from tests.inprocess import Session, Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = tuple("abcd")
LARGE = {"large_cells": 0, "load_cells": 0}
RULES = {"version": 1, "table": "t", "constraints": [], "dependencies": {"watch": "all"}}
Row = tuple[int | None, ...]


class Kept:
    """A table whose rows stay where they are (workers of Spark read them, if it is given), and what a state knows."""

    def __init__(
        self, folder: str, rows: list[Row], request: dict[str, Any], seed: int = 0, spark: SparkSession | None = None
    ) -> None:
        self.here = Session(random=Random(seed))
        self.session, self.state, self.request = spark or self.here, folder, request
        self.loads = {"first": (list(rows), list[Row]())}
        source = {"table": self._source(rows), "load_id": "first", "constraints": RULES}
        discover(self.session, {**request, **source, "state": folder})

    def apply(self, load_id: str, rows: list[Row], deletes: list[Row] | None = None) -> Verdict:
        self.loads[load_id] = (rows, deletes or [])
        changes = self._source(rows, deletes or [])
        request = {"state": self.state, "load_id": load_id, "changes": changes, "constraints": RULES}
        return apply_load(self.session, request)

    def maintain(self, action: str, **more: Any) -> dict[str, Any]:
        return maintain(self.session, action, {"state": self.state, **more})

    def retract(self, load_id: str) -> None:
        del self.loads[load_id]
        self.maintain("retract", load_id=load_id)

    @property
    def snapshot(self) -> Snapshot:
        found = read_current(Storage(self.state))
        assert found is not None
        return found

    @property
    def covers(self) -> list[dict[str, Any]]:
        return list(self.snapshot.facts["dependencies"].get("covers", []))

    @property
    def rows(self) -> list[Row]:
        return self.rows_without("")

    def rows_without(self, load_id: str) -> list[Row]:
        found: list[Row] = []
        for rows, deletes in (load for name, load in self.loads.items() if name != load_id):
            for one in deletes:
                found.remove(one)
            found += rows
        return found

    def check(self) -> None:
        """What the state knows is what a search among all rows in memory finds; and it proves it itself."""
        with other_sizes(large_cells=2**40, load_cells=2**40):
            here = discover(self.here, {**self.request, "table": self._source(self.rows)})
        assert here["rows"] == self.snapshot.rows
        kept = read_dependencies(Storage(self.state), view="complete")
        assert {one["id"] for one in kept} == {one["id"] for one in here["dependencies"]}
        verified = self.maintain("verify")
        assert verified["sound"], verified["problems"]

    def _source(self, rows: list[Row], deletes: list[Row] | None = None) -> dict[str, str]:
        every = [*(deletes or []), *rows]
        columns = {name: pa.array([row[place] for row in every], pa.int32()) for place, name in enumerate(NAMES)}
        types = dict.fromkeys(NAMES, "int")
        if deletes is not None:
            columns["_change_type"] = pa.array(["delete"] * len(deletes) + ["insert"] * len(rows), pa.string())
            types["_change_type"] = "string"
        path = f"{self.state} {len(self.here.sources)}.parquet"
        self.here.sources[path] = Source(pa.table(columns), types)
        if self.session is not self.here:
            pq.write_table(pa.table(columns), path)
        return {"path": path}


def broken(random: Random, rows: list[Row]) -> Row:
    """A row like another but for one value."""
    row = list(random.choice(rows))
    row[random.randrange(4)] = random.choice([None, 1, 2, 3, 20, 70])
    return tuple(row)


def violations(kind: str, text: str, rows: list[Row], *, equal: bool) -> int:
    """How many pairs of rows violate a dependency of class unique, fd or od, by definition."""
    goes_together, arrow = re.fullmatch(r"(\w) (~ (\w)|constant)(?: within \[(.*)\])?", text), text.partition(" -> ")
    if goes_together:
        one, _, other, within = goes_together.groups()
        context = within.split(", ") if within else []
    else:
        context = (arrow[0] if arrow[1] else text[len("unique [") : -1]).split(", ")
        one, other = arrow[2], None
    number = 0
    for left, right in itertools.combinations(rows, 2):
        t, s = dict(zip(NAMES, left, strict=True)), dict(zip(NAMES, right, strict=True))
        first = {name: (value is not None, value or 0) for name, value in t.items()}
        second = {name: (value is not None, value or 0) for name, value in s.items()}
        read = [*filter(None, context), *([one] if one else [])]
        if kind != "od" and not equal and any(None in (t[name], s[name]) for name in read):
            continue
        if any(first[name] != second[name] for name in filter(None, context)):
            continue
        if other:
            number += (first[one] < second[one]) != (first[other] < second[other]) and not (
                first[one] == second[one] or first[other] == second[other]
            )
        else:
            number += not one or first[one] != second[one]
    return number


@given(
    st.data(),
    st.lists(st.sampled_from(range(len(MADE))), min_size=4, max_size=4),
    st.sampled_from([["unique", "fd", "od"], ["unique", "fd", "dc"], ["pod"], ["fd", "od"]]),
    st.integers(0, 2**32),
)
@settings(max_examples=25)
def test_after_any_loads_what_is_known_is_what_holds(
    data: st.DataObject, made: list[int], classes: list[str], seed: int
) -> None:
    random = Random(seed)
    rows: list[Row] = [tuple(MADE[one](row) for one in made) for row in range(40)]
    request = {"classes": classes, "mode": "witnessed", "view": "complete", "limits": {"max_terms": 3}}
    request["space"] = {"nulls": data.draw(st.sampled_from(["ignore", "equal"]))}
    sizes = {
        "few_pairs": data.draw(st.sampled_from([0, 3_000_000])),
        "shown_rows": data.draw(st.sampled_from([1, 20_000])),
        "cover_indexes": data.draw(st.sampled_from([1, 3, 8])),
        "looked_up": data.draw(st.sampled_from([20, 60, 2_000_000])),
        "usual_load": data.draw(st.sampled_from([1, 1_000])),
        "sampled_rows": data.draw(st.sampled_from([10, 200_000])),
        "probe_rows": data.draw(st.sampled_from([1, 524_288])),
        "runs": data.draw(st.sampled_from([1, 16])),
    }
    with other_sizes(**LARGE, **sizes), TemporaryDirectory() as folder:
        kept = Kept(folder, rows, request, seed)
        for number in range(data.draw(st.integers(1, 4))):
            name = f"load {number}"
            step = data.draw(st.sampled_from(["apply", "apply", "apply", "again", "retract", "compact", "rebuild"]))
            given = list(kept.loads)
            if step in ("compact", "rebuild"):
                kept.maintain(step)
            elif step == "retract" and len(given) > 1:
                kept.retract(given[-1])
            else:
                name = given[-1] if step == "again" and len(given) > 1 else name
                others = kept.rows_without(name)
                new = [broken(random, others) for _ in range(data.draw(st.integers(0, 3)))]
                new += [random.choice(others) for _ in range(data.draw(st.integers(0, 1)))]
                gone = random.sample(others, data.draw(st.integers(0, 3)))
                lost = kept.apply(name, new, gone).dependencies.invalidated
                equal = request["space"]["nulls"] == "equal"
                for one in lost[:COUNTED] if "dc" not in classes and "pod" not in classes else ():
                    assert one.violations == violations(one.kind, one.text, kept.rows, equal=equal), one.text
            kept.check()


@pytest.mark.xdist_group("spark")
@given(
    st.lists(st.sampled_from(range(len(MADE))), min_size=4, max_size=4),
    st.sampled_from([["unique", "fd", "od"], ["unique", "fd", "dc"], ["pod"]]),
    st.sampled_from(["ignore", "equal"]),
    st.sampled_from([20, 2_000_000]),
    st.integers(0, 2**32),
)
@settings(max_examples=max(2, settings().max_examples // 50), suppress_health_check=list(HealthCheck))
def test_workers_of_spark_know_it_after_loads_too(
    spark: SparkSession, made: list[int], classes: list[str], nulls: str, looked_up: int, seed: int
) -> None:
    random = Random(seed)
    rows: list[Row] = [tuple(MADE[one](row) for one in made) for row in range(200)]
    request = {"classes": classes, "mode": "witnessed", "view": "complete", "limits": {"max_terms": 3}}
    request |= {"space": {"nulls": nulls}, "engine": "spark"}
    sizes = {"sampled_rows": 50, "probe_rows": 100, "share_rows": 100, "looked_up": looked_up}
    with other_sizes(**LARGE, **sizes), TemporaryDirectory() as folder:
        kept = Kept(f"{folder}/state", rows, request, seed, spark)
        kept.apply("worse", [broken(random, rows) for _ in range(3)], rows[:2])
        lost = kept.apply("other", [broken(random, rows)], [random.choice(rows[100:])]).dependencies.invalidated
        for one in lost[:COUNTED] if "unique" in classes and "dc" not in classes else ():
            assert one.violations == violations(one.kind, one.text, kept.rows, equal=nulls == "equal"), one.text
        kept.check()
        kept.retract("worse")
        kept.check()


ROWS: list[Row] = [(row, row // 3, row % 5, row // 9) for row in range(60)]
REQUEST = {"classes": ["unique", "fd", "od"], "mode": "witnessed", "view": "complete"}


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    """Rows whose dependencies are looked for, in a table that counts as large."""
    with other_sizes(**LARGE, sampled_rows=20):
        yield Kept(str(tmp_path), ROWS, REQUEST)


def never(*_: Any, **__: Any) -> Any:
    raise AssertionError("the table is read")


def index_files(kept: Kept) -> set[str]:
    return {one.path for one in kept.snapshot.files_of(FileKind.INDEX)}


def test_a_load_that_breaks_rules_is_held_against_indexes_alone(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept.covers
    assert not index_files(kept), "the first load makes them"
    kept.check()
    assert not (Path(kept.state) / "index").exists(), "a check writes nothing"
    monkeypatch.setattr(Afar, "violating", never)
    monkeypatch.setattr(Afar, "counts", never)
    verdict = kept.apply("2", [(70, 4, 1, 0), (71, 5, 2, 1)])
    assert index_files(kept)
    lost = {one.text: one for one in verdict.dependencies.invalidated}
    assert {name: one.violations for name, one in lost.items()} == {
        text: violations(one.kind, text, kept.rows, equal=False) for text, one in lost.items()
    }
    assert lost["b -> d"].violations == 3
    again = kept.apply("3", [(80, 4, 3, 0)], deletes=[ROWS[59]])
    assert again.rows["deleted"] == 1
    monkeypatch.undo()
    kept.check()


def test_where_an_index_would_be_read_too_far_the_table_is(kept: Kept, caplog: pytest.LogCaptureFixture) -> None:
    with other_sizes(looked_up=1), caplog.at_level("INFO"):
        verdict = kept.apply("2", [(70, 4, 1, 0)])
    assert "too many of its entries are near" in caplog.text
    assert "without an index: the table is read for them" in caplog.text
    assert "b -> d" in {one.text for one in verdict.dependencies.invalidated}
    kept.check()


def test_more_violating_rows_than_may_be_fetched_are_counted_by_tasks(kept: Kept) -> None:
    with other_sizes(shown_rows=2):
        verdict = kept.apply("2", [(70, 4, 1, 0)])
    for one in verdict.dependencies.invalidated:
        assert one.violations == violations(one.kind, one.text, kept.rows, equal=False)
    kept.check()


def test_violations_are_counted_over_ranges_of_values_too(kept: Kept) -> None:
    with other_sizes(looked_up=1, probe_rows=1):
        verdict = kept.apply("2", [(70, 4, 1, 0), (71, 5, 2, 1)])
    lost = {one.text: one.violations for one in verdict.dependencies.invalidated}
    assert lost.items() >= {"a ~ b": 87, "a ~ d": 93}.items()
    kept.check()


def test_runs_of_these_indexes_are_merged_and_made_anew_like_others(kept: Kept) -> None:
    for number in range(4):
        kept.apply(str(number), [(100 + number, 100 + number, 100 + number, 100 + number)])
    many = index_files(kept)
    kept.maintain("compact")
    assert len(index_files(kept)) < len(many)
    kept.check()
    kept.maintain("rebuild")
    kept.apply("more", [(200, 200, 200, 200)])
    kept.check()


def test_an_index_that_lacks_a_row_is_no_sound_state(kept: Kept) -> None:
    kept.apply("2", [(100, 100, 100, 100)])
    storage, snapshot = Storage(kept.state), kept.snapshot
    run = next(one for one in snapshot.files_of(FileKind.INDEX) if one.load == 0)
    files = [one for one in snapshot.files if one is not run]
    commit(storage, advance(snapshot, replace(snapshot, files=files), Action.COMPACT))
    assert any("index" in problem for problem in kept.maintain("verify")["problems"])


def estimates(rows: int = 1_000_000, **codes: np.ndarray) -> Estimates:
    size = len(next(iter(codes.values())))
    return Estimates(Coded(np.arange(size), codes), pa.table({}), rows)


def test_indexes_are_by_columns_in_which_few_rows_agree_or_have_few_entries() -> None:
    random = np.random.default_rng(7)
    space = space_of(Asked(classes=("unique", "fd")), dict.fromkeys(("many", "two", "three", "some"), "int"), {})
    terms = space.terms(frozenset())
    codes = {
        name: random.integers(0, most, 20_000) for name, most in zip(space.columns, (10**6, 2, 3, 50_000), strict=True)
    }
    known = estimates(**codes)
    assert 4 <= known.distinct(frozenset({"two", "three"})) <= 6
    assert 30_000 < known.distinct(frozenset({"some"})) < 80_000
    boxes = [agreeing(terms, ["many", "two"], "some"), agreeing(terms, ["many"], "two")]
    thin = agreeing(terms, ["two"], "three")
    with other_sizes(looked_up=10_000, usual_load=10):
        assert chosen_covers(terms, [*boxes, thin], known) == [
            Cover((), ("three", "two")),
            Cover(("many",), ("many", "some", "two")),
        ]
        hopeless = agreeing(terms, ["two"], "some")
        assert chosen_covers(terms, [hopeless], known) == []
        there = [Cover(("many", "two"), ("many", "some", "two")), Cover(("some",), ("some",))]
        assert chosen_covers(terms, boxes[:1], known, there) == there[:1], "what serves stays, and nothing else"
        with other_sizes(cover_indexes=1):
            assert len(chosen_covers(terms, [*boxes, thin], known)) == 1
