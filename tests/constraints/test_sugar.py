from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.constraints import building
from dc_engine.constraints.building import fits, unique
from dc_engine.constraints.contradiction import check_bodies
from dc_engine.constraints.model import Op
from dc_engine.constraints.printer import print_bodies
from dc_engine.constraints.sugar import fd, order, parse_columns, pod
from dc_engine.errors import ConstraintError
from tests.constraints.evaluate import Row, compare, holds, violates
from tests.constraints.strategies import nulls, small_rows


def same(t: Row, s: Row, names: str, nulls: str) -> bool:
    return all(compare(t[name], Op.EQ, s[name], nulls) for name in names)


def differ(t: Row, s: Row, name: str, nulls: str) -> bool:
    return compare(t[name], Op.NE, s[name], nulls)


class TestMeaning:
    @given(small_rows, nulls)
    def test_unique_means_that_no_two_rows_agree_on_all_columns(self, rows: list[Row], nulls: str) -> None:
        for t, s in combinations(rows, 2):
            assert violates(unique(["a", "b"]), t, s, nulls) == same(t, s, "ab", nulls)

    @given(small_rows, nulls)
    def test_fd_means_that_rows_that_agree_on_the_left_agree_on_the_right(self, rows: list[Row], nulls: str) -> None:
        by_column = fd("a, b -> c, d")
        for t, s in combinations(rows, 2):
            for name in "cd":
                expected = same(t, s, "ab", nulls) and differ(t, s, name, nulls)
                assert violates(by_column[name], t, s, nulls) == expected

    @given(small_rows)
    def test_order_means_that_sorting_by_the_left_sorts_the_right(self, rows: list[Row]) -> None:
        """With no NULLs: every way to sort a group by a leaves b sorted exactly when no pair violates."""
        rows = [row for row in rows if None not in row.values()]
        violated = any(violates(order("a -> b", ["c"])["b"], t, s) for t, s in combinations(rows, 2))
        groups = ([row for row in rows if row["c"] == value] for value in range(4))
        sorted_everywhere = True
        for group in groups:
            rising = [row["b"] for row in sorted(group, key=lambda row: (row["a"], row["b"]))]
            falling = [row["b"] for row in sorted(group, key=lambda row: (row["a"], -row["b"]))]
            sorted_everywhere &= rising == sorted(rising) and falling == sorted(falling)
        assert violated == (not sorted_everywhere)

    @given(small_rows, st.data())
    def test_an_order_of_lists_means_that_sorting_by_one_sorts_by_the_other(self, rows: list[Row], data: Any) -> None:
        """With no NULLs: all parts hold exactly when every way to sort a group by the left leaves the right sorted."""
        rows = [row for row in rows if None not in row.values()]
        left, right = (data.draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True)) for _ in "lr")
        within = data.draw(st.sampled_from([[], ["d"]]))
        try:
            parts = order(f"[{', '.join(left)}] -> [{', '.join(right)}]", within)
        except ConstraintError:
            parts = {}
        if len(left) == len(right) == 1 and left == right:
            return  # that is refused in other words
        violated = any(violates(bodies, t, s) for bodies in parts.values() for t, s in combinations(rows, 2))
        sorted_everywhere = True
        for value in {row["d"] for row in rows} if within else {None}:
            group = [row for row in rows if not within or row["d"] == value]
            for way in (1, -1):  # ties of the left are sorted by the right, and against it
                some = sorted(group, key=lambda row: [way * row[name] for name in right])
                some = sorted(some, key=lambda row: [row[name] for name in left])
                values = [[row[name] for name in right] for row in some]
                sorted_everywhere &= values == sorted(values)
        assert violated == (not sorted_everywhere)

    @given(small_rows, nulls)
    def test_order_is_violated_by_a_split_or_a_swap_and_never_by_both(self, rows: list[Row], nulls: str) -> None:
        split, swap = order("a -> b", ["c"])["b"]
        for t, s in combinations(rows, 2):
            is_split = same(t, s, "ca", nulls) and differ(t, s, "b", nulls)
            is_swap = same(t, s, "c", nulls) and any(
                compare(x["a"], Op.LT, y["a"]) and compare(x["b"], Op.GT, y["b"]) for x, y in ((t, s), (s, t))
            )
            assert violates((split,), t, s, nulls) == is_split
            assert violates((swap,), t, s, nulls) == is_swap
            assert not (is_split and is_swap)
            assert violates((split, swap), t, s, nulls) == (is_split or is_swap)

    @given(small_rows, st.lists(st.sampled_from(list(Op)), min_size=3, max_size=3))
    def test_pod_means_that_the_right_side_holds_whenever_the_left_does(self, rows: list[Row], ops: list[Op]) -> None:
        rows = [row for row in rows if None not in row.values()]
        text = f"a {ops[0].value}, b {ops[1].value} -> c {ops[2].value}"
        bodies = pod(text, ["d"])["c"]
        for pair in combinations(rows, 2):
            expected = any(
                t["d"] == s["d"]
                and compare(t["a"], ops[0], s["a"])
                and compare(t["b"], ops[1], s["b"])
                and not compare(t["c"], ops[2], s["c"])
                for t, s in (pair, pair[::-1])
            )
            assert violates(bodies, *pair) == expected

    @given(small_rows, nulls)
    def test_a_pod_with_a_null_is_not_violated_by_it(self, rows: list[Row], nulls: str) -> None:
        bodies = pod("a > -> c >")["c"]
        for t, s in combinations(rows, 2):
            if None in (t["a"], s["a"], t["c"], s["c"]):
                assert not violates(bodies, t, s, nulls)

    def test_a_duplicate_row_violates_unique(self) -> None:
        row = {"a": 1}
        assert holds(unique(["a"])[0], row, dict(row))


class TestWriting:
    def test_sugar_is_written_out_as_the_design_says(self) -> None:
        assert print_bodies(unique(["area code", "phone"])) == (
            "not (t.`area code` = s.`area code` and t.phone = s.phone)"
        )
        assert {name: print_bodies(bodies) for name, bodies in fd("zip -> city, `the state`").items()} == {
            "city": "not (t.zip = s.zip and t.city != s.city)",
            "the state": "not (t.zip = s.zip and t.`the state` != s.`the state`)",
        }
        assert print_bodies(order("salary->rate", ["state"])["rate"]) == (
            "not (t.state = s.state and t.salary = s.salary and t.rate != s.rate)"
            " and not (t.state = s.state and t.salary < s.salary and t.rate > s.rate)"
        )
        assert {name: print_bodies(bodies) for name, bodies in order("[year, salary] -> [year, bin]").items()} == {
            "bin": "not (t.year = s.year and t.salary = s.salary and t.bin != s.bin)",
            "salary ~ bin": "not (t.year = s.year and t.salary < s.salary and t.bin > s.bin)",
        }
        assert print_bodies(pod("midterm >, final > -> grade >")["grade"]) == (
            "not (t.midterm > s.midterm and t.final > s.final and t.grade <= s.grade)"
        )
        assert list(pod("a >-> b >=, c<>", ["d"])) == ["b", "c"]
        assert print_bodies(pod("a >-> b >=, c<>", ["d"])["c"]) == "not (t.d = s.d and t.a > s.a and t.c = s.c)"

    def test_column_lists_may_quote_names(self) -> None:
        assert parse_columns("a, `b, c` ,2nd, and") == ["a", "b, c", "2nd", "and"]

    def test_its_bodies_are_accepted_and_recognised(self) -> None:
        written = {
            "unique": unique(["a"]),
            "fd": fd("a, b -> c")["c"],
            "order": order("a -> b", ["c"])["b"],
            "pod": pod("a >, b <= -> c =")["c"],
        }
        for kind, bodies in written.items():
            check_bodies(bodies)
            assert fits(kind, bodies)  # type: ignore[arg-type]
        assert not fits("unique", written["fd"])
        assert not fits("fd", written["unique"])
        assert not fits("order", written["unique"])
        assert not fits("order", written["pod"])
        assert not fits("pod", written["order"])


@pytest.mark.parametrize(
    ("expand", "text", "message", "hint"),
    [
        (fd, "zip", "'->' is missing at the end", ""),
        (fd, "zip ->", "a column is missing at the end", ""),
        (fd, "-> city", "expected a column, found '->' at character 1", ""),
        (fd, "zip -> city -> x", "expected ',' or the end, found '->' at character 13", ""),
        (fd, "a, zip -> city, ZIP", "column ZIP is on both sides", "Leave it out"),
        (fd, "zip -> city, City", "column City is named twice", ""),
        (fd, "zip, zip -> city", "column zip is named twice", ""),
        (fd, "first name -> city", "expected '->', found 'name' at character 7", "`first name`"),
        (fd, "t.zip -> s.city", "expected '->', found '.' at character 2", "without t. or s."),
        (fd, "a.b -> c", "found '.'", "backticks"),
        (fd, "zip > -> city", "expected '->', found '>'", "Only a 'pod'"),
        (fd, "`` -> city", "a column without a name", ""),
        (order, "a, b -> A", "sorted by a, b is always sorted by A: the order says nothing", "Leave it out"),
        (order, "[a, b -> c", "expected ',' or ']', found '->' at character 7", ""),
        (order, "a] -> c", "expected '->', found ']' at character 2", ""),
        (order, "a, A -> c", "column A is named twice", ""),
        (order, "a -> b, c, B", "column B is named twice", ""),
        (order, ", ".join(f"c{n}" for n in range(21)) + " -> a", "21 columns on one side; 20 are allowed", ""),
        (order, "a -> A", "column A is on both sides", ""),
        (pod, "a -> b >", "expected an operator (= != < <= > >=) after a, found '->'", "a >"),
        (pod, "a > -> b", "an operator (= != < <= > >=) after b is missing at the end", "b >"),
        (pod, "a > -> b >, B <", "column B is named twice", ""),
        (parse_columns, "", "a column is missing at the end", ""),
        (parse_columns, "a,", "a column is missing at the end", ""),
        (parse_columns, "a, A", "column A is named twice", ""),
    ],
)
def test_sugar_that_is_not_understood_is_refused(expand, text: str, message: str, hint: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ConstraintError) as refusal:
        expand(text)
    assert message in refusal.value.message
    assert hint in refusal.value.hint


@pytest.mark.parametrize(("expand", "text"), [(order, "a -> b"), (pod, "a > -> b >")])
def test_a_column_within_may_not_stand_in_the_rule(expand, text: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ConstraintError, match="column A is in 'within'"):
        expand(text, ["A"])


def test_a_pod_that_is_always_true_can_never_be_violated() -> None:
    with pytest.raises(ConstraintError, match="never be violated"):
        check_bodies(pod("a > -> a >=")["a"])


class TestWithoutText:
    """Rules that a program finds are built from columns; whatever their names are, no text is parsed."""

    @given(st.lists(st.text(min_size=1), min_size=2, max_size=5, unique_by=str.lower))
    def test_what_is_built_is_what_the_text_says(self, names: list[str]) -> None:
        *left, right = names
        quoted = [f"`{name.replace('`', '``')}`" for name in names]
        assert fd(f"{', '.join(quoted[:-1])} -> {quoted[-1]}") == {right: building.fd(left, right)}
        assert order(f"{quoted[0]} -> {quoted[-1]}") == {right: building.order(left[0], right)}
        marked = ", ".join(f"{name} >" for name in quoted[:-1])
        built = building.pod([(name, Op.GT) for name in left], (right, Op.LE))
        assert pod(f"{marked} -> {quoted[-1]} <=") == {right: built}

    def test_an_fd_whose_sides_share_a_column_is_refused(self) -> None:
        with pytest.raises(ConstraintError, match="is on both sides"):
            building.fd(["zip", "City"], "city")
