"""Lost dependencies in words."""

from __future__ import annotations

from typing import Any

import pytest

from dc_engine.lost import MAX_INSTEAD, MAX_LOST, MAX_UNWATCHED, dependency_lines, lost_detail_lines, sentence
from dc_engine.verdict import Dependencies, DependencyVerdict, LostDependency, Verdict

EXAMPLE = {
    "t": {"row": {"id": 17}, "values": {"a": 1}, "rows": 1},
    "s": {"row": {"id": 4}, "values": {"a": 2}, "rows": 1},
}
ROWS = "row {id: 17} and row {id: 4}"


def lost(formula: str = "not (t.a = s.a)", **facts: Any) -> LostDependency:
    given = {"id": "x", "kind": "dc", "text": "it", "formula": formula, "violations": 1, "example": EXAMPLE}
    return LostDependency(**{**given, **facts})


def verdict(*invalidated: LostDependency, watched: int = 0) -> Verdict:
    held = [DependencyVerdict(f"w{number}", "fd", "a -> b", "") for number in range(watched)]
    return Verdict("tax", "monday", 1, dependencies=Dependencies(watched=held, invalidated=list(invalidated)))


@pytest.mark.parametrize(
    ("formula", "because"),
    [
        ("not (t.a = s.a)", f"because {ROWS} agree on a (1 violation)"),
        ("not (t.a = s.a and t.b = s.b and t.c = s.c)", f"because {ROWS} agree on a, b and c (1 violation)"),
        ("not (t.a = s.a and t.b != s.b)", f"because {ROWS} agree on a and differ in b (1 violation)"),
        ("not (t.b != s.b)", f"because {ROWS} differ in b (1 violation)"),
        ("not (t.a < s.b)", f"because of {ROWS} (1 violation)"),
        ("a formula of a later version", f"because of {ROWS} (1 violation)"),
    ],
)
def test_a_sentence_says_which_rows_show_it_and_how(formula: str, because: str) -> None:
    assert sentence(lost(formula)) == f"it (warn), {because}"


@pytest.mark.parametrize(
    ("formula", "because"),
    [
        ("not (t.a = s.a and t.b < s.b and t.c > s.c)", "agree on a and come in opposite order by b and c"),
        ("not (t.b < s.b and t.c < s.c)", "come in the same order by b and c"),
        ("not (t.a = s.a and t.c != s.c)", "agree on a and differ in c"),
    ],
)
def test_a_lost_order_is_told_by_how_two_rows_are_ordered(formula: str, because: str) -> None:
    assert sentence(lost(formula, kind="od")) == f"it (warn), because {ROWS} {because} (1 violation)"


def test_without_an_example_there_is_still_a_number() -> None:
    assert sentence(lost(example=None, violations=3)) == "it (warn), because rows violate it (3 violations)"


def test_rows_without_a_key_are_rows_all_the_same() -> None:
    bare = {side: {"row": {}, "values": {"a": 1}, "rows": 1} for side in ("t", "s")}
    assert "because a row and a row agree on a" in sentence(lost(example=bare))


def test_what_holds_instead_is_named_as_far_as_it_fits() -> None:
    instead = [{"id": str(number), "text": f"a, b{number} -> c"} for number in range(MAX_INSTEAD + 2)]
    assert sentence(lost(instead=instead[:2])).endswith("; now holds: a, b0 -> c; a, b1 -> c")
    assert sentence(lost(instead=instead)).endswith("; and 2 more")


def test_the_log_says_that_all_hold() -> None:
    assert dependency_lines(verdict()) == []
    assert dependency_lines(verdict(watched=1)) == ["The watched dependency holds."]
    assert dependency_lines(verdict(watched=3)) == ["All 3 watched dependencies hold."]


def test_several_have_a_line_each_errors_first_and_an_end() -> None:
    many = [lost(id=str(number), text=f"d{number}") for number in range(MAX_LOST + 5)]
    many.append(lost(id="e", text="the worst", severity="error"))
    lines = dependency_lines(verdict(*many, watched=4))
    assert lines[0] == "16 of 20 watched dependencies were lost:"
    assert lines[1].startswith("  the worst (error), because")
    assert (len(lines), lines[-1]) == (1 + MAX_LOST + 1, "  ... and 6 more")
    assert sum(line.startswith("Lost: ") for line in lost_detail_lines(verdict(*many))) == MAX_LOST


def test_those_that_nobody_watches_are_named_in_one_line() -> None:
    some = [lost(id=str(number), text=f"d{number}", watched=False) for number in range(MAX_UNWATCHED + 1)]
    (line,) = dependency_lines(verdict(*some))
    assert line.startswith("No longer holds, and nobody watches it: d0; d1; ")
    assert line.endswith("; and 1 more")
    assert lost_detail_lines(verdict(*some)) == []
