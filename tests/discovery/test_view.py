"""People see a dependency once, in its simplest class, with what it implies; each class stays complete."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.discovery.keeping import found
from dc_engine.discovery.listing import Dependency, listed, viewed
from dc_engine.discovery.ranking import Scales
from dc_engine.discovery.space import CLASSES, Asked, space_of
from dc_engine.stored import read_dependencies
from tests.discovery.brute import Brute, read_rule
from tests.discovery.judging import is_wider
from tests.discovery.tables import Table
from tests.discovery.test_keeping import coded

CELLS = st.sampled_from([0, 1, 2, 3, None])
MODES = pytest.mark.parametrize("mode", ["counted", "witnessed"])


@given(
    st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=2, max_size=7),
    st.sets(st.sampled_from(CLASSES), min_size=1),
    st.sampled_from([(), ("c0",), ("c0", "c1", "c2")]),
    st.booleans(),
)
def test_each_once_in_its_simplest_class_with_what_follows_from_it(rows, classes, ordered, descending):
    chosen = tuple(name for name in CLASSES if name in classes)
    asked = Asked(classes=chosen, ordered=ordered, descending=descending)
    space = space_of(asked, dict.fromkeys(["c0", "c1", "c2"], "int"), {})
    codes = coded(space, rows, np.arange(len(rows)))
    known = found(space, codes)
    terms, scales = space.terms(known.nullable), Scales(codes.table(space, known.nullable), known.keys)
    everything = listed(terms, space.nulls, known.sets, scales, "")
    lines = [dict(zip(space.columns, row, strict=True)) for row in rows]
    brute = Brute(space.to_dict(), lines, nullable=known.nullable)

    def rule(one: Dependency) -> Any:
        return brute.read(one.kind, one.formula)

    complete, merged = (viewed(terms, everything, space, view) for view in ("complete", "merged"))
    assert {(one.kind, rule(one)) for one in complete} == {
        (name, one) for name, some in brute.seen.items() for one in some
    }
    simplest = {one: name for name in reversed(space.classes) for one in brute.seen[name]}
    assert {rule(one): one.kind for one in merged} == simplest
    assert len(merged) == len(simplest)
    assert [one.rank for one in merged] == list(range(1, len(merged) + 1))
    for view in (complete, merged):
        for one in view:
            follow = {other.id for other in view if rule(other) != rule(one) and is_wider(rule(one), rule(other))}
            assert {other.id for other in one.implies} <= follow
            assert len(one.implies) == min(10, len(follow))


@MODES
def test_a_pod_is_told_like_any_other(tmp_path: Path, mode: str) -> None:
    table = Table(tmp_path, "exam_1 exam_2 grade")
    exams = [(m, f, m * f) for m in range(1, 6) for f in range(1, 6)]
    table.apply("1", *exams, *exams)
    text = "exam_1 >, exam_2 >= -> grade >"
    assert text in table.discover(mode, classes=["unique", "fd", "pod", "dc"])
    (shown,) = (one for one in read_dependencies(table.storage) if one["text"] == text)
    assert (shown["class"], shown["formula"]) == (
        "pod",
        "not (t.exam_1 < s.exam_1 and t.exam_2 <= s.exam_2 and t.grade >= s.grade)",
    )
    told = table.told("2", (9, 9, 0))
    (lost,) = (one for one in told.invalidated if one.text == text)
    assert lost.kind == "pod"
    assert lost.violations == 50
    assert lost.watched
    assert lost.example is not None
    assert not [one for one in told.invalidated if one.kind == "dc" and one.formula == lost.formula], "told once"
    assert text not in {one["text"] for one in read_dependencies(table.storage, "complete")}
    assert not table.problems
    table.maintain("retract", load_id="2")
    assert text in {one["text"] for one in read_dependencies(table.storage)}
    assert not table.problems


@MODES
def test_one_that_is_pinned_and_found_as_another_class_is_told_once(tmp_path: Path, mode: str) -> None:
    table = Table(tmp_path, "a b")
    table.rules["dependencies"]["pinned"] = [{"pod": "a > -> b >"}]
    table.apply("1", (1, 1), (2, 2), (3, 3))
    table.discover(mode, classes=["dc"])
    told = table.told("2", (4, 4), (5, 0))
    assert [one.text for one in told.invalidated if one.formula == "not (t.a > s.a and t.b <= s.b)"] == ["a > -> b >"]
    assert len(told.invalidated) == len({read_rule(one.formula) for one in told.invalidated})
