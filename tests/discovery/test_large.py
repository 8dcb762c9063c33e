"""Of a table whose rows stay with the workers the same dependencies are found as by definition."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dc_engine.apply_load import apply_load
from dc_engine.discover import discover
from dc_engine.errors import RequestError
from dc_engine.maintain import maintain
from dc_engine.sizes import other_sizes
from tests.discovery.asked import asked
from tests.discovery.brute import Brute
from tests.discovery.test_keeping import TYPES
from tests.inprocess import Session, Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = ("a", "b", "c")
KINDS = (pa.int64(), pa.int32(), pa.int32(), pa.string())
MADE: list[Callable[[int], int]] = [
    lambda _: 1,
    lambda row: row,
    lambda row: row // 3,
    lambda row: -(row // 7),
    lambda row: row % 5,
    lambda row: row * 7 % 60 // 2,
]


@st.composite
def tables(draw: st.DrawFn) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """Rows that are all different, but for a few: a sample does not show these."""
    kinds = draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=3, max_size=3))
    kinds[1] = draw(st.sampled_from([kinds[0], kinds[1]]))
    types = dict(zip(NAMES, kinds, strict=True))
    cells = [[*TYPES[kind][1], *[None] * draw(st.integers(0, 1))][-draw(st.integers(2, 9)) :] for kind in kinds]
    random = draw(st.randoms(use_true_random=False))
    every = list(itertools.product(*cells))
    rows = random.sample(every, min(len(every), draw(st.integers(0, 60))))
    rows += [random.choice(rows) for _ in range(draw(st.integers(0, 2)) if rows else 0)]
    random.shuffle(rows)
    return types, [dict(zip(NAMES, row, strict=True)) for row in rows]


def sizes(data: st.DataObject) -> dict[str, int]:
    """Few rows are brought to the driver, and work is cut into many pieces or few."""
    return {
        "large_cells": 0,
        "load_cells": 0,
        "few_pairs": 0,
        "sampled_rows": data.draw(st.sampled_from([1, 3])),
        "shown_rows": data.draw(st.sampled_from([1, 100])),
        "probe_rows": data.draw(st.sampled_from([1, 3, 1000])),
        "share_rows": data.draw(st.sampled_from([1, 8, 1000])),
        "staged_group": data.draw(st.sampled_from([1, 7, 1000])),
        "thinned_percent": data.draw(st.sampled_from([0, 50, 100, 100])),
    }


@given(tables(), asked(NAMES), st.integers(0, 2**32), st.data())
@settings(max_examples=60)
def test_the_dependencies_of_a_large_table_are_those_by_definition(
    table: tuple[dict[str, str], list[dict[str, Any]]], request: dict[str, Any], seed: int, data: st.DataObject
) -> None:
    types, rows = table
    arrays = {name: pa.array([row[name] for row in rows], TYPES[kind][0]) for name, kind in types.items()}
    ids = pa.array(range(len(rows)), pa.int64())
    session = Session({"t": Source(pa.table({"id": ids, **arrays}), {"id": "bigint", **types})}, Random(seed))
    request |= data.draw(st.sampled_from([{}, {"classes": ["unique", "fd", "od"]}]))
    request |= {"table": {"path": "t"}, "view": "complete", "mode": "witnessed", "max_error": 0}
    try:
        with other_sizes(**sizes(data)):
            answer = discover(session, request)
    except RequestError:  # no column is left to look at
        return
    if len(rows) < 2:
        assert not answer["dependencies"]
        return
    space = answer["space"]
    bound = space["limits"]["max_terms"]
    nullable = [name for name in NAMES if any(row[name] is None for row in rows)]
    if answer["because"] and bound is None:
        return
    brute = Brute(space, rows, bound, nullable)
    for name in space["classes"]:
        if name == "dc" and space["cross"]:  # of those some are kept that people do not see: see the histories
            continue
        mine = {brute.read(name, one["formula"]) for one in answer["dependencies"] if one["class"] == name}
        assert mine == {rule for rule in brute.seen[name] if rule}


@given(st.data(), st.lists(st.sampled_from(range(len(MADE))), min_size=4, max_size=4), st.integers(0, 2**32))
@settings(max_examples=40)
def test_a_few_cells_among_many_rows_decide_as_in_a_table_that_fits(
    data: st.DataObject, made: list[int], seed: int
) -> None:
    random = Random(seed)
    rows = [[MADE[one](row) for one in made] for row in range(60)]
    for _ in range(data.draw(st.integers(0, 3))):  # what holds everywhere else falls
        random.choice(rows)[random.randrange(4)] = random.choice([None, 1, 20])
    rows += [random.choice(rows) for _ in range(data.draw(st.integers(0, 1)))]
    random.shuffle(rows)
    columns = {name: pa.array([row[place] for row in rows], pa.int32()) for place, name in enumerate("abcd")}
    session = Session({"t": Source(pa.table(columns), dict.fromkeys("abcd", "int"))}, random)
    request = {"table": {"path": "t"}, "view": "complete", "mode": "witnessed", "classes": ["unique", "fd", "od"]}
    request["space"] = {
        "descending": data.draw(st.booleans()),
        "nulls": data.draw(st.sampled_from(["ignore", "equal"])),
    }
    here = discover(session, request)
    with other_sizes(**sizes(data)):
        afar = discover(session, request)
    assert {one["id"] for one in afar["dependencies"]} == {one["id"] for one in here["dependencies"]}
    assert afar["rows"] == here["rows"]


@pytest.mark.xdist_group("spark")
def test_workers_of_spark_find_keep_and_prove_it(spark: SparkSession, tmp_path: Path) -> None:
    rows = [(row, row % 40, -(row // 90), f"n{row % 8}" if row else None) for row in range(800)]
    more = [(5_000, 3, 0, "n4")]  # 3 goes with n3 elsewhere
    for name, some in (("first", rows), ("more", more)):
        columns = [pa.array(cells, kind) for cells, kind in zip(zip(*some, strict=True), KINDS, strict=True)]
        pq.write_table(pa.table(columns, names=list("abcd")), tmp_path / f"{name}.parquet")
    source = {"format": "parquet", "path": str(tmp_path / "first.parquet")}
    request = {"table": source, "classes": ["unique", "fd", "od"], "mode": "witnessed", "engine": "spark"}
    types = dict(zip("abcd", ("bigint", "int", "int", "string"), strict=True))
    session = Session({source["path"]: Source(pq.read_table(source["path"]), types)})
    here = discover(session, request)
    state = str(tmp_path / "state")
    rules = {"version": 1, "table": "first", "constraints": [], "dependencies": {"watch": "all"}}
    with (
        other_sizes(large_cells=0, load_cells=0, sampled_rows=50, probe_rows=500, share_rows=500),
        pytest.MonkeyPatch.context() as m,
    ):
        m.setattr("dc_engine.maintained.reading.united", None)  # codes of all rows are nowhere
        m.setattr("dc_engine.engines.spark.unpacked", None)
        afar = discover(spark, request)
        kept = discover(spark, {**request, "state": state, "constraints": rules})
        changes = {"format": "parquet", "path": str(tmp_path / "more.parquet")}
        load = {"state": state, "load_id": "2", "changes": changes, "constraints": rules, "engine": "spark"}
        verdict = apply_load(spark, load)
        sound = maintain(spark, "verify", {"state": state})
    texts = {one["text"] for one in here["dependencies"]}
    assert texts >= {"unique [a]", "b -> d"}
    assert {one["text"] for one in afar["dependencies"]} == texts == {one["text"] for one in kept["dependencies"]}
    lost = {one.text: one for one in verdict.dependencies.invalidated}
    assert lost["b -> d"].violations == 20
    assert lost["b -> d"].example is not None
    assert (tmp_path / "state" / "index").exists(), "partners were looked up in indexes that workers made"
    assert sound["sound"], sound["problems"]
