"""What histories of loads taught about the dependencies that a state keeps: each test is one thing that was wrong."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dc_engine.discover import discover
from dc_engine.errors import ChangesError, ConstraintError, RequestError, SchemaError, StateError
from dc_engine.sizes import other_sizes
from dc_engine.stored import read_dependencies
from tests.discovery.tables import Table

MODES = pytest.mark.parametrize("mode", ["counted", "witnessed"])


def test_a_state_whose_rows_are_all_gone_is_asked_for_columns_that_are_alike(tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.apply("1", (1, 1), (2, 2))
    table.apply("2", deletes=[(1, 1), (2, 2)])
    assert table.discover(space={"cross": "both"}) == []
    assert table.told("3", (1, 2), (2, 2)).valid == {"unique": 1, "fd": 1, "dc": 2}


def test_a_rebuild_from_the_table_keeps_no_column_that_a_discovery_left_out(tmp_path: Path) -> None:
    table = Table(tmp_path, "a b c")
    table.rules["constraints"] = [{"name": "one_a", "unique": "a"}]
    table.apply("1", (1, 1, None))
    table.discover(table=table.source("whole", [(1, 1, None)]))  # which leaves out c, as it has nothing but NULL
    table.maintain("rebuild", table=table.source("whole", [(1, 1, None)]))
    assert dict(table.snapshot.schema) == {"a": "int", "b": "int"}
    table.rules["dependencies"]["pinned"] = [{"fd": "c -> a"}]
    with pytest.raises(ConstraintError, match="Column 'c', which pinned 'c -> a' needs, is not known"):
        table.apply("2")


def refused_at_first(folder: Path) -> Table:
    """A table whose state only knows what to discover: its first load was refused."""
    table = Table(folder, "a b", b="string")
    table.rules["constraints"] = [{"name": "x", "deny": "t.a = s.b"}]
    with pytest.raises(SchemaError, match="compares column 'a' of type int with column 'b' of type string"):
        table.discover(table=table.source("first", [(1, "x")]), constraints=table.rules)
    table.rules["constraints"] = [{"name": "u", "unique": ["a"]}]
    return table


def test_after_a_first_load_that_was_refused_columns_are_known_whatever_their_case(tmp_path: Path) -> None:
    table = refused_at_first(tmp_path)
    table.types = {"A": "int", "B": "string"}
    table.apply("1", (1, "x"), (1, "y"), (2, "y"), (2, "y"))
    assert dict(table.snapshot.schema) == {"a": "int", "b": "string"}
    assert table.listed() == []
    with other_sizes(coded_rows=1):
        table.apply("2", (5, "q"))
    assert not table.problems


@pytest.mark.parametrize("action", ["compact", "rebuild", "rebuild from the table", "verify", "describe", "vacuum"])
def test_after_a_first_load_that_was_refused_a_state_is_maintained_like_any_other(tmp_path: Path, action: str) -> None:
    table = refused_at_first(tmp_path)
    name, _, source = action.partition(" from ")
    table.maintain(name, **({"table": table.source("whole", [(1, "x"), (2, "x")])} if source else {}))
    table.apply("1", *([(3, "x")] if source else [(1, "x"), (2, "x")]))
    assert {"unique [a]", "b constant"} <= {one["text"] for one in table.listed()}
    assert not table.problems


@pytest.mark.parametrize("kind", ["string", "timestamp"])
def test_a_column_that_is_discovered_keeps_its_type_also_when_no_row_is_left(tmp_path: Path, kind: str) -> None:
    table = Table(tmp_path, "a b")
    table.discover(table=table.source("first", [(1, 3), (2, 3)]), constraints=table.rules, load_id="1")
    table.maintain("retract", load_id="1")
    table.types["b"] = kind
    with pytest.raises(SchemaError, match=f"'b' has type {kind}, and had type int when the discovery of dependencies"):
        table.apply("2", (1, None), (2, None))
    values = ["1", "01"] if kind == "string" else [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2)]
    rows = [(1, values[0]), (2, values[1])]
    asked = {"state": table.state, "table": table.source("again", rows), "constraints": table.rules, "load_id": "2"}
    assert discover(table.spark, asked)["rows"] == 2
    assert dict(table.snapshot.schema) == {"a": "int", "b": kind}
    assert not table.problems


def test_a_discovery_whose_first_load_was_discarded_before_says_so(tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.rules["constraints"] = [{"name": "u", "unique": ["a"]}]
    table.apply("initial", (1, 1), (1, 2), rejected_load="discard")
    asked = {"state": table.state, "table": table.source("initial", [(1, 1), (1, 2)]), "constraints": table.rules}
    with pytest.raises(StateError, match="Load 'initial' was discarded, so its rows are not in the state"):
        discover(table.spark, asked)


@pytest.mark.parametrize("constraints", [[], 5, ""])
def test_constraints_that_are_none_are_refused(tmp_path: Path, constraints: Any) -> None:
    with pytest.raises(RequestError, match="'constraints' in the request must be the path of a constraint file"):
        Table(tmp_path).discover(constraints=constraints)


def test_columns_of_a_change_data_feed_are_not_looked_at(tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.apply("1", (1, 1))
    asked = {"state": table.state, "table": table.source("whole", [(1, 1)])}
    space = discover(table.spark, asked)["space"]
    assert list(space["columns"]) == ["a", "b"]
    assert space["left_out"] == {"_change_type": "it belongs to the change data feed and not to the table"}


@MODES
def test_a_discovery_in_another_space_takes_the_place_of_the_one_before(tmp_path: Path, mode: str) -> None:
    table = Table(tmp_path, "a b c")
    table.apply("1", (1, 1, 1), (1, 2, 1), (2, 2, 1))
    table.discover(mode)
    since = table.told("2").watched[0].since
    fewer = table.discover(mode, space={"columns": ["a", "c"]}, classes=["fd"])
    assert fewer == ["c constant"]
    assert table.discover(mode, space={"columns": ["c", "b"], "nulls": "equal"}, classes=["fd"]) == ["c constant"]
    assert since == "1"
    assert not table.problems


def test_what_holds_in_both_spaces_holds_since_the_same_load(tmp_path: Path) -> None:
    table = Table(tmp_path, "a b c")
    table.apply("1", (1, 1, 1), (1, 2, 1))
    table.discover()
    table.apply("2", (3, 3, 1))
    table.discover(space={"columns": ["c", "a"]}, classes=["fd"])
    assert [(one.text, one.since) for one in table.told("3").watched] == [("c constant", "1")]


@MODES
def test_rows_that_go_until_one_is_left_break_nothing(tmp_path: Path, mode: str) -> None:
    table = Table(tmp_path)
    table.rules["dependencies"]["severity"] = "error"
    table.apply("1", (1, 1), (2, 1))
    table.discover(mode)
    verdict = table.apply("2", deletes=[(2, 1)])
    assert verdict.decision == "pass"
    assert verdict.dependencies.invalidated == []
    assert table.told("3", (2, 1)).invalidated == []
    assert not table.problems


@MODES
def test_constants_are_said_of_two_rows_and_not_of_one(tmp_path: Path, mode: str) -> None:
    table = Table(tmp_path)
    table.apply("1", (1, 1))
    assert table.discover(mode, classes=["fd"]) == []
    assert table.told("2", (1, 1)).valid == {"fd": 2}
    assert len(table.formulas) == 2
    assert table.told("3", deletes=[(1, 1)]).valid == {"fd": 0}
    assert table.formulas == set()


@MODES
def test_what_holds_instead_is_told_in_its_simplest_class_whatever_class_was_lost(tmp_path: Path, mode: str) -> None:
    table = Table(tmp_path, "a b c")
    table.apply("1", (1, 1, 1), (2, 2, 1), (3, 3, 2))
    table.discover(mode, classes=["unique", "fd", "dc"], space={"ordered": []})
    (lost,) = [one for one in table.told("2", (1, 2, 2)).invalidated if one.text == "a -> b"]
    assert [one["text"] for one in lost.instead] == ["a, c -> b"]
    (lost,) = [one for one in table.told("3", (1, 2, 2)).invalidated if one.text == "unique [a, c]"]
    assert [one["text"] for one in lost.instead] == ["a, c -> b"]


def test_what_fell_and_holds_again_is_watched_once(tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.apply("1", (1, 1), (2, 1))
    table.discover(classes=["fd"])
    assert [one.text for one in table.told("2", (3, 2)).invalidated] == ["b constant"]
    table.apply("3", deletes=[(3, 2)])
    assert [one.text for one in table.told("4", (5, 1)).watched].count("b constant") == 1


def test_a_column_that_should_have_an_order_and_none_is_named(tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.apply("1", (1, 1), (2, 1))
    with pytest.raises(RequestError, match="Column 'b' is both in 'ordered' and in 'unordered'"):
        table.discover(space={"ordered": ["a", "B"], "unordered": ["b"]})


@pytest.mark.parametrize("nulls", ["ignore", "equal"])
def test_texts_that_are_compared_across_columns_by_order_are_in_order(tmp_path: Path, nulls: str) -> None:
    table = Table(tmp_path, a="string", b="string")
    table.apply("1", ("b", "a"), ("a", "c"))
    space = {"cross": [["a", "b", ["<=", ">"]]], "nulls": nulls}
    if nulls == "equal":
        with pytest.raises(RequestError, match="columns have no order"):
            table.discover(space=space)
        return
    table.discover(space=space)
    # b <= c, and a <= a: no pair of two rows has a greater than b
    assert ("dc", "not (t.a > s.b)") in table.formulas
    assert not table.problems


@MODES
def test_a_rule_across_columns_is_said_in_the_direction_that_was_asked_for(tmp_path: Path, mode: str) -> None:
    table = Table(tmp_path, "a b c", a="string", b="string")
    table.apply("1", ("x", "y", 1), ("y", "z", 2), ("z", "x", 2))
    for cross in ([["a", "b"]], [["b", "a"]], [["a", "b", ["="]], ["b", "a", ["!="]]]):
        table.discover(mode, space={"cross": cross})
        for _, formula in table.formulas:
            for left, right in (("a", "b"), ("b", "a")):
                asked = [one for one in cross if one[:2] == [left, right]]
                assert asked or f"t.{left} = s.{right}" not in formula
                assert asked or f"t.{left} != s.{right}" not in formula
        assert not table.problems


def test_columns_that_are_named_twice_are_compared_by_all_operators_that_are_given(tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.apply("1", (2, 1), (3, 1), (4, 2), (3, 3))
    found = [
        table.discover(classes=["dc"], space={"ordered": [], "cross": cross})
        for cross in ([["a", "b", ["<", "="]]], [["a", "b", ["<"]], ["A", "b", ["="]]])
    ]
    assert "not (t.a = s.a and t.a < s.b)" in found[0]
    assert found[0] == found[1]


@MODES
def test_rules_across_columns_in_both_directions_are_all_named(tmp_path: Path, mode: str) -> None:
    table = Table(tmp_path)
    table.apply("1", (1, 2), (2, 2), (1, 1), (3, 2))
    table.discover(mode, space={"cross": "both"})
    assert [(one["left"], one["right"]) for one in table.facts["space"]["cross"]] == [("a", "b"), ("b", "a")]
    assert len(table.formulas) > table.facts["valid"]["dc"] > 5
    assert not table.problems


@MODES
def test_a_column_whose_nulls_have_gone_is_still_counted_as_it_was(tmp_path: Path, mode: str) -> None:
    table = Table(tmp_path)
    table.apply("1", (None, 1), (1, 2), (2, 2))
    table.discover(mode)
    table.apply("2", (3, 3), deletes=[(None, 1)])
    assert not table.problems


def test_rows_that_come_back_show_the_nulls_that_they_had(tmp_path: Path) -> None:
    table = Table(tmp_path)
    nulls = [(None, 1), (None, 2), (1, 2)]
    table.apply("1", *nulls)
    table.apply("2", (5, 5))
    table.discover("witnessed")
    table.apply("3", deletes=nulls)
    table.apply("2", (6, 6), (7, 6))  # between the two attempts there is no row
    assert table.facts["nullable"] == ["a"]
    table.maintain("retract", load_id="3")
    assert not table.problems


@MODES
def test_a_search_that_a_limit_ended_is_said_to_be_incomplete_by_every_load(tmp_path: Path, mode: str) -> None:
    table = Table(tmp_path, "a b c d e f")
    even = [row for row in itertools.product((0, 1), repeat=6) if sum(row) % 2 == 0]
    table.apply("1", *even)  # any five columns are a key, and no four
    table.discover(mode, limits={"max_dependencies": 3}, classes=["unique"])
    assert table.facts["bound"] == 4
    for number in range(2, 5):
        told = table.told(str(number), (number,) * 6)
        assert not told.complete
        assert told.because == "there are more than 3 dependencies of up to 6 comparisons"
    assert not table.problems


@MODES
def test_a_search_that_found_too_much_at_once_knows_nothing_and_says_so(tmp_path: Path, mode: str) -> None:
    table = Table(tmp_path)
    table.apply("1", (1, 1), (2, 3), (3, 2))
    assert table.discover(mode, limits={"max_dependencies": 1}) == []
    told = table.told("2", (2, 1))
    assert (told.complete, told.invalidated, told.added) == (False, [], [])
    assert not table.problems


def test_what_a_limit_leaves_out_is_not_lost(tmp_path: Path) -> None:
    table = Table(tmp_path, "a b c")
    table.apply("1", (1, 1, 1), (1, 1, 1))
    table.discover("counted", limits={"max_dependencies": 7})
    assert table.facts["because"] == ""
    told = table.told("2", (1, 2, 2))
    assert not told.complete
    assert "a constant" not in [one.text for one in told.invalidated]
    assert all(one.violations for one in told.invalidated)


def test_a_load_that_others_need_is_not_taken_out_even_if_no_column_is_kept(tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.rules["constraints"] = []
    table.apply("1", (1, 1))
    table.apply("2", deletes=[(1, 1)])
    with pytest.raises(ChangesError, match="load '2' after it deletes row"):
        table.maintain("retract", load_id="1")


def test_a_row_between_rows_that_were_deleted_before_its_columns_were_kept_is_shown(tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.rules["constraints"] = []
    table.apply("1", (1, 1), (2, 2), (3, 3))
    table.apply("2", deletes=[(1, 1), (3, 3)])
    table.apply("3", (4, 4))
    table.discover(classes=["unique"], table=table.source("whole", [(2, 2), (4, 4)]))
    (lost, _) = table.told("4", (2, 5), (4, 4)).invalidated
    assert lost.text == "unique [a]"
    assert lost.example["t"]["values"] == lost.example["s"]["values"] == {"a": 2}


@MODES
def test_an_error_is_the_share_of_the_pairs_that_are_there(tmp_path: Path, mode: str) -> None:
    table = Table(tmp_path, "a")
    table.apply("1", (1,), (1,), (2,))
    table.discover(mode, classes=["unique"], max_error=0.4)
    for number in range(3, 6):  # one pair of ever more violates it
        table.apply(str(number), (number,))
        (found,) = read_dependencies(table.storage)
        assert found["error"] == pytest.approx(2 / (number * (number + 1)))
        assert not table.problems


@MODES
def test_an_error_that_passes_its_bound_is_shown_by_two_rows_that_are_there(tmp_path: Path, mode: str) -> None:
    table = Table(tmp_path, "a")
    table.apply("1", (1,), (1,), (2,), (3,), (4,), (4,))
    table.discover(mode, classes=["unique"], max_error=0.2)
    table.apply("2", deletes=[(1,), (1,)])
    (lost,) = table.told("3", deletes=[(2,)]).invalidated
    assert (lost.violations, lost.error, lost.error_now) == (1, pytest.approx(1 / 6), pytest.approx(1 / 3))
    assert lost.example["t"]["values"] == lost.example["s"]["values"] == {"a": 4}
    assert lost.example["t"]["row"] != lost.example["s"]["row"]


@MODES
def test_the_error_of_an_order_is_the_share_of_rows_that_have_to_go(tmp_path: Path, mode: str) -> None:
    table = Table(tmp_path, "a b")
    table.apply("1", (1, 1), (2, 2), (3, 3), (4, 4), (5, 0))  # the last one is in the way
    assert "a ~ b" in table.discover(mode, classes=["fd", "od"], max_error=0.2)
    errors = {one["text"]: one["error"] for one in read_dependencies(table.storage)}
    assert errors["a ~ b"] == pytest.approx(1 / 5)
    assert not table.problems
    lost = {one.text: one for one in table.told("2", (6, 0)).invalidated}
    assert (lost["a ~ b"].violations, lost["a ~ b"].error) == (8, pytest.approx(1 / 5))
    assert lost["a ~ b"].error_now == pytest.approx(2 / 6)
    assert not table.problems


def test_a_check_goes_as_far_as_a_limit_let_the_search_go(tmp_path: Path) -> None:
    table = Table(tmp_path, "a b c")
    every = list(itertools.product((0, 1), repeat=3))
    table.apply("1", *every)  # any two columns are nearly a key
    table.discover("counted", classes=["unique"], max_error=0.15, limits={"max_dependencies": 2})
    table.apply("2", deletes=[row for row in every if row not in [(0, 0, 0), (0, 1, 0), (1, 0, 0)]])
    assert table.facts["bound"] == 1  # unique [a, b] is the only one now, but nobody looks for it
    assert not table.problems


def test_rows_that_go_can_bring_more_dependencies_than_a_limit_allows(tmp_path: Path) -> None:
    table = Table(tmp_path, "a b c")
    table.apply("1", (1, 2, 0), (2, 1, 0), (2, 2, 0))
    assert table.discover("witnessed", classes=["fd"], limits={"max_dependencies": 1}) == ["c constant"]
    told = table.told("2", deletes=[(2, 2, 0)])
    assert not told.complete
    assert told.because == "there are more than 1 dependencies of up to 3 comparisons"


@MODES
def test_of_what_a_limit_leaves_out_nothing_is_said_to_hold(tmp_path: Path, mode: str) -> None:
    table = Table(tmp_path, "a b c")
    first = [(1, 1, 1), (2, 1, 1), (3, 2, 1), (1, 1, 2), (3, 2, 2)]
    table.apply("1", *first)
    assert table.discover(mode, classes=["fd"], limits={"max_dependencies": 1}) == ["a -> b"]
    told = table.told("2", (1, 1, 1), (1, 2, 2), (2, 3, 3), deletes=first)  # b and c decide all others
    assert not told.complete
    assert told.watched == []


def test_a_row_that_is_alone_limits_nothing_that_comes_after_it(tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.apply("1", (1, 1))
    table.discover(classes=["fd"], limits={"max_dependencies": 1})  # whatever can be said of one row holds
    assert table.told("2", (1, 2), (2, 1)).complete


def test_a_table_is_the_first_load_of_a_state_that_kept_none(tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.rules["constraints"] = [{"name": "key", "unique": ["a"]}]
    assert table.apply("1", (1, 1), (1, 2), rejected_load="discard").discarded
    rows = table.source("whole", [(1, 1), (2, 1)])
    assert "b constant" in table.discover(table=rows, load_id="2", constraints=table.rules)
    assert table.snapshot.rows == 2
    assert not table.problems


def test_a_state_that_keeps_no_column_needs_the_table(tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.rules["constraints"] = []
    table.apply("1", (1, 1), (2, 2))
    with pytest.raises(RequestError, match="does not have any column of its 2 rows"):
        table.discover()


def test_a_large_table_may_show_no_row_where_it_is_looked_at(tmp_path: Path) -> None:
    """Most of its rows are gone, and those that are left lie elsewhere: of a column without rows no type is known."""
    table = Table(tmp_path, a="timestamp")
    rows = [(datetime(2026, 1, 1 + place, tzinfo=UTC), 1) for place in range(20)]
    with other_sizes(large_cells=0, load_cells=0, staged_group=1):
        table.apply("1", *rows)
        table.apply("2", deletes=[*rows[1:4], *rows[5:]])
        table.discover("witnessed", classes=["fd"])
        lost = table.told("3", (rows[0][0], 2)).invalidated
    assert [one.text for one in lost] == ["b constant"]
    assert not table.problems
