"""Reading what a state knows about dependencies: the list of a discovery, agree sets, ``describe``."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from dc_engine.apply_load import apply_load
from dc_engine.discover import discover
from dc_engine.errors import RequestError, StateError, UnexpectedError
from dc_engine.maintain import maintain
from dc_engine.state.storage import Storage
from dc_engine.stored import count_pairs, read_agree_sets, read_dependencies
from tests.inprocess import Session, Source

TYPES = {"id": "bigint", "zip": "string", "city": "string", "pay": "int"}
ARROW = {"id": pa.int64(), "zip": pa.string(), "city": pa.string(), "pay": pa.int32()}


def rows(start: int, number: int, seed: int = 1) -> list[dict[str, Any]]:
    random = Random(seed)
    made = []
    for place in range(start, start + number):
        zip_code = random.choice([None, "1", "2", "3", "4"])
        city = None if zip_code is None else f"city {int(zip_code) // 2}"
        made.append({"id": place, "zip": zip_code, "city": city, "pay": random.choice([None, 1, 2, 3])})
    return made


class Kept:
    """A state whose loads come from lists."""

    def __init__(self, folder: Path) -> None:
        self.session, self.state = Session(), str(folder / "state")
        self.storage = Storage(self.state)
        self.rows: list[dict[str, Any]] = []

    def source(self, listed: list[dict[str, Any]], kinds: list[str] | None = None) -> dict[str, str]:
        table = pa.table({name: pa.array([row[name] for row in listed], kind) for name, kind in ARROW.items()})
        types = dict(TYPES)
        if kinds is not None:
            table, types = table.append_column("_change_type", pa.array(kinds)), {**TYPES, "_change_type": "string"}
        path = f"source {len(self.session.sources)}"
        self.session.sources[path] = Source(table, types)
        return {"path": path}

    def discover(self, **asked: Any) -> dict[str, Any]:
        self.rows = rows(0, 40)
        return discover(self.session, {"table": self.source(self.rows), "state": self.state, **asked})

    def change(self) -> None:
        """Ten rows come, five go."""
        come, gone = rows(100, 10, seed=2), self.rows[:5]
        kinds = ["insert"] * len(come) + ["delete"] * len(gone)
        rules = {"version": 1, "table": "source 0", "constraints": []}
        changes = self.source([*come, *gone], kinds)
        apply_load(self.session, {"state": self.state, "load_id": "2", "changes": changes, "constraints": rules})
        self.rows = [*self.rows[5:], *come]

    def agreeing(self, *, equal: bool) -> Counter[frozenset[str]]:
        """By hand: compare all pairs."""
        return Counter(
            frozenset(name for name in TYPES if one[name] == two[name] and (equal or one[name] is not None))
            for one, two in combinations(self.rows, 2)
        )


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


@pytest.mark.parametrize("mode", ["counted", "witnessed"])
@pytest.mark.parametrize("view", ["merged", "complete"])
def test_the_list_is_that_of_the_discovery(kept, mode, view):
    answer = kept.discover(mode=mode, view=view)
    assert {one["text"] for one in answer["dependencies"]} >= {"unique [id]", "zip -> city"}
    assert read_dependencies(kept.storage, view) == answer["dependencies"]


def test_the_list_follows_the_loads(kept):
    kept.discover()
    kept.change()
    fresh = discover(kept.session, {"table": kept.source(kept.rows)})["dependencies"]
    listed = read_dependencies(kept.storage)
    assert {one["id"] for one in listed} == {one["id"] for one in fresh}


@pytest.mark.parametrize("nulls", ["ignore", "equal"])
def test_agree_sets_are_those_of_all_pairs_of_rows(kept, nulls):
    kept.discover(mode="counted", space={"nulls": nulls})
    for _ in range(2):
        found = read_agree_sets(kept.storage)
        assert dict(found) == kept.agreeing(equal=nulls == "equal")
        assert len(dict(found)) == len(found)
        assert frozenset() in dict(found)
        kept.change()


def test_where_only_orders_are_looked_for_nulls_are_values_of_which_two_agree(kept):
    kept.discover(mode="counted", classes=["od"])
    found = read_agree_sets(kept.storage)
    assert dict(found) == kept.agreeing(equal=True)
    for names in combinations(TYPES, 2):
        agree = [(columns, number) for columns, number in found if names[0] in columns]
        both = sum(number for columns, number in agree if names[1] in columns)
        assert count_pairs(kept.storage, names) == both
        assert count_pairs(kept.storage, names[:1], names[1]) == sum(number for _, number in agree) - both


def test_what_is_not_there_is_said(kept):
    with pytest.raises(StateError, match="No dependencies are kept"):
        read_dependencies(kept.storage)
    kept.discover(mode="witnessed")
    with pytest.raises(StateError, match=r"witnessed in .*, not counted") as caught:
        read_agree_sets(kept.storage)
    assert "mode 'counted'" in caught.value.hint
    with pytest.raises(RequestError, match="'view' is 'all'"):
        read_dependencies(kept.storage, "all")


def test_a_described_state_shows_its_dependencies(kept):
    kept.discover(space={"exclude": ["pay"]})
    facts = maintain(kept.session, "describe", {"state": kept.state})
    told = facts["dependencies"]
    assert told["complete"] is True
    assert told["valid"]["unique"] >= 1
    assert told["best"] == read_dependencies(kept.storage)[:10]
    for line in ("), complete; patterns counted", "zip -> city", "left out: pay: excluded", "NULLs: compare"):
        assert line in facts["text"]


def test_a_state_without_dependencies_says_nothing_about_them(kept):
    rules = {"version": 1, "table": "people", "constraints": [{"name": "a", "fd": "zip -> city"}]}
    request = {"state": kept.state, "load_id": "1", "changes": kept.source(rows(0, 5)), "constraints": rules}
    apply_load(kept.session, request)
    facts = maintain(kept.session, "describe", {"state": kept.state})
    assert facts["dependencies"] is None
    assert "patterns" not in facts["text"]


def test_an_error_quotes_nothing_that_the_newest_load_masks(kept, monkeypatch):
    kept.discover(mask=["city"])

    def fails(*_: Any) -> dict[str, str]:
        raise ValueError("Berlin")

    monkeypatch.setattr(Session, "types", fails)
    with pytest.raises(UnexpectedError) as caught:
        discover(kept.session, {"table": {"path": "source 0"}, "state": kept.state})
    assert "Berlin" not in str(caught.value)


@pytest.mark.parametrize("mode", ["counted", "witnessed"])
@pytest.mark.parametrize("nulls", ["ignore", "equal"])
def test_pairs_that_agree_and_differ_are_counted_exactly(tmp_path: Path, mode: str, nulls: str) -> None:
    kept = Kept(tmp_path)
    kept.discover(mode=mode, space={"nulls": nulls}, classes=["unique", "fd"])
    kept.change()

    def agree(one: Any, other: Any) -> bool:
        return one == other and (one is not None or nulls == "equal")

    def differ(one: Any, other: Any) -> bool:
        return one != other and (None not in (one, other) or nulls == "equal")

    names = list(TYPES)
    for size in range(3):
        for columns in combinations(names, size):
            pairs = [
                (one, other)
                for one, other in combinations(kept.rows, 2)
                if all(agree(one[name], other[name]) for name in columns)
            ]
            assert count_pairs(kept.storage, columns) == len(pairs)
            for right in set(names) - set(columns):
                violating = sum(differ(one[right], other[right]) for one, other in pairs)
                assert count_pairs(kept.storage, [name.upper() for name in columns], right) == violating


def test_pairs_of_a_column_that_nobody_looks_at_are_refused(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.discover()
    with pytest.raises(RequestError, match="Column 'citty' is not among those") as error:
        count_pairs(kept.storage, ["citty"])
    assert "city" in error.value.hint
