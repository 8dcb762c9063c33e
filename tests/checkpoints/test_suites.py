"""Suites as constraint files: what is taken over says the same, and nothing is left out in silence."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from great_expectations import ExpectationSuite
from great_expectations import expectations as gxe
from great_expectations.expectations.expectation import Expectation
from great_expectations.expectations.row_conditions import Column as GxColumn
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from airflow_dc_provider.checkpoints.builtin import builtin_expectation
from airflow_dc_provider.checkpoints.suites import FromSuite, constraints_from_suite
from dc_engine.constraints.files import load_constraints
from dc_engine.constraints.model import Column, Constant, Constraint, Op, Predicate
from dc_engine.constraints.normalise import meaning
from dc_engine.constraints.printer import formula, print_bodies, quote_name
from dc_engine.errors import ConstraintError
from tests.checkpoints.test_builtin import COLUMNS, CONSTRAINTS, SCHEMA, TABLES, TYPES, check, constraint
from tests.constraints.strategies import any_name
from tests.detection.oracle import violations_by_row

pytestmark = pytest.mark.xdist_group("spark")

BETWEEN = gxe.ExpectColumnValuesToBeBetween
IN_SET = gxe.ExpectColumnValuesToBeInSet
NOT_IN_SET = gxe.ExpectColumnValuesToNotBeInSet
UNIQUE = gxe.ExpectColumnValuesToBeUnique
COMPOUND = gxe.ExpectCompoundColumnsToBeUnique
GREATER = gxe.ExpectColumnPairValuesAToBeGreaterThanB
EQUAL = gxe.ExpectColumnPairValuesToBeEqual
NOT_NULL = gxe.ExpectColumnValuesToNotBeNull
AB = {"column_A": "a", "column_B": "b"}
EITHER, BOTH = {"ignore_row_if": "either_value_is_missing"}, {"ignore_row_if": "both_values_are_missing"}

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
SETS = st.one_of(*(st.lists(values, min_size=1, max_size=4, unique=True) for values in (TEXTS, st.integers(-9, 9))))


@st.composite
def exported(draw: st.DrawFn) -> dict[str, Any]:
    """A rule of a kind that built-in expectations express."""
    some_name = any_name.filter(lambda name: name.strip("`"))
    names = draw(st.lists(some_name, min_size=1, max_size=3, unique_by=str.lower))
    first = Column("t", names[0])
    kind = draw(st.sampled_from(["unique", "bound", "pair", "set", "outside"]))
    if kind == "unique":
        return {"unique": list(map(quote_name, names))}
    order = draw(st.sampled_from([Op.LT, Op.LE, Op.GT, Op.GE]))
    values = list(map(Constant, draw(SETS)))
    bodies = {
        "bound": [[Predicate(first, order, Constant(0))]],
        "pair": [[Predicate(first, draw(st.sampled_from([order, Op.NE])), Column("t", names[-1] + "2"))]],
        "set": [[Predicate(first, Op.NE, value) for value in values]],
        "outside": [[Predicate(first, Op.EQ, value)] for value in values],
    }
    return {"formula": print_bodies(tuple(map(tuple, bodies[kind])))}


def taken(*expectations: Expectation, key: tuple[str, ...] = ()) -> FromSuite:
    return constraints_from_suite(ExpectationSuite("rules", list(expectations)), table="tax", key=key)


def entry(expectation: Expectation, *others: Expectation) -> dict[str, Any]:
    """The one constraint of the first expectation."""
    found = taken(expectation, *others).document["constraints"]
    assert len(found) == 1
    return found[0]


def reason(expectation: Expectation) -> str:
    """Why an expectation is left out."""
    found = taken(UNIQUE(column="id"), expectation)
    assert len(found.document["constraints"]) == len(found.left_out) == 1
    return found.left_out[0]


class TestEachKind:
    @pytest.mark.parametrize(
        ("expectation", "wanted"),
        [
            (UNIQUE(column="a"), {"name": "a_is_unique", "unique": ["a"]}),
            (
                COMPOUND(column_list=["a", "b"], ignore_row_if="any_value_is_missing"),
                {"name": "a_b_is_unique", "unique": ["a", "b"]},
            ),
            (
                COMPOUND(column_list=["a", "b"], ignore_row_if="never"),
                {"name": "a_b_is_unique", "unique": ["a", "b"], "nulls": "equal"},
            ),
            (GREATER(**AB, **EITHER), {"name": "a_is_greater_than_b", "deny": "t.a <= t.b"}),
            (GREATER(**AB, **EITHER, or_equal=True), {"name": "a_is_at_least_b", "deny": "t.a < t.b"}),
            (EQUAL(**AB, **EITHER), {"name": "a_equals_b", "deny": "t.a != t.b"}),
            (EQUAL(**AB, **BOTH), {"name": "a_equals_b", "deny": "t.a != t.b", "nulls": "equal"}),
            (BETWEEN(column="a", min_value=5), {"name": "a_is_not_too_small", "deny": "t.a < 5"}),
            (
                BETWEEN(column="a", min_value=5, strict_min=True, strict_max=True),
                {"name": "a_is_not_too_small", "deny": "t.a <= 5"},
            ),
            (BETWEEN(column="a", max_value=-0.5), {"name": "a_is_not_too_large", "deny": "t.a > -0.5"}),
            (
                BETWEEN(column="a", max_value=1e300, strict_max=True),
                {"name": "a_is_not_too_large", "deny": "t.a >= 1E+300"},
            ),
            (
                BETWEEN(column="a", min_value=0, max_value=1, strict_max=True),
                {"name": "a_is_not_too_small_or_too_large", "formula": "not (t.a < 0) and not (t.a >= 1)"},
            ),
            (
                IN_SET(column="a", value_set=["x", "it's"]),
                {"name": "a_is_known", "deny": "t.a != 'x' and t.a != 'it''s'"},
            ),
            (
                IN_SET(column="a", value_set=[1, 1.0, 2.5, Decimal("0.10"), 2**60]),
                {
                    "name": "a_is_known",
                    "deny": f"t.a != 1 and t.a != 2.5 and t.a != 0.10 and t.a != {2**60}",
                },
            ),
            (IN_SET(column="a", value_set=[True]), {"name": "a_is_known", "deny": "t.a != true"}),
            (NOT_IN_SET(column="a", value_set=["x"]), {"name": "a_is_not_forbidden", "deny": "t.a = 'x'"}),
            (
                NOT_IN_SET(column="a", value_set=[1, None, 2]),
                {"name": "a_is_not_forbidden", "formula": "not (t.a = 1) and not (t.a = 2)"},
            ),
        ],
    )
    def test_is_one_constraint(self, expectation, wanted):
        assert entry(expectation) == wanted

    @pytest.mark.parametrize("one", CONSTRAINTS, ids=formula)
    def test_says_what_the_constraint_says_that_it_was_exported_from(self, one):
        (back,) = taken(builtin_expectation(one, TYPES)).constraints.constraints
        assert meaning(back) == meaning(one)

    @given(rule=exported())
    def test_comes_back_whatever_its_columns_and_constants(self, rule):
        one = constraint(rule)
        expectation = builtin_expectation(one, TYPES)
        assume(expectation is not None)
        (back,) = taken(expectation).constraints.constraints
        assert meaning(back) == meaning(one)

    def test_has_severity_and_tolerance_of_its_expectation(self):
        assert entry(UNIQUE(column="a", severity="warning"))["severity"] == "warn"
        assert entry(UNIQUE(column="a", severity="info"))["severity"] == "warn"
        assert "severity" not in entry(UNIQUE(column="a", severity="critical"))
        assert [entry_with(mostly)["max_violating_rows"] for mostly in (0.95, 0.999, 1e-05, 0)] == [
            "5%",
            "0.1%",
            "99.999%",
            "100%",
        ]

    @pytest.mark.parametrize(
        ("about", "description"),
        [
            ({}, None),
            ({"description": " "}, None),
            ({"description": "Why.\nBecause: # 1"}, "Why.\nBecause: # 1"),
            ({"notes": "From the\nledger."}, "From the\nledger."),
            ({"notes": ["From", "the ledger."]}, "From the ledger."),
            ({"notes": "Less.", "description": "More."}, "More."),
        ],
    )
    def test_has_description_or_notes(self, about, description):
        assert entry(UNIQUE(column="a", **about)).get("description") == description


def entry_with(mostly: float) -> dict[str, Any]:
    found = taken(UNIQUE(column="a", mostly=mostly), NOT_NULL(column="a"))
    return found.document["constraints"][0]


class TestNulls:
    @pytest.mark.parametrize("policy", ["both_values_are_missing", "either_value_is_missing", "neither"])
    @pytest.mark.parametrize("kind", [GREATER, EQUAL])
    def test_columns_without_null_compare_under_any_policy(self, kind, policy):
        pair = kind(**AB, ignore_row_if=policy)
        found = taken(pair, NOT_NULL(column="a"), NOT_NULL(column="b")).document["constraints"]
        assert [("nulls" in one, list(one)[1]) for one in found] == [(False, "deny")]

    def test_one_column_without_null_is_enough_for_compound_columns(self):
        columns = COMPOUND(column_list=["a", "b"])
        assert "all_values_are_missing" in reason(columns)
        assert taken(columns, NOT_NULL(column="b")).document["constraints"][0]["nulls"] == "equal"
        both = taken(columns, NOT_NULL(column="a"), NOT_NULL(column="b"))
        assert "nulls" not in both.document["constraints"][0]

    @pytest.mark.parametrize("other", [{"mostly": 0.99}, {"row_condition": GxColumn("a") > 1}])
    def test_a_column_that_may_have_some_null_is_not_enough(self, other):
        found = taken(UNIQUE(column="id"), COMPOUND(column_list=["a", "b"]), NOT_NULL(column="b", **other))
        assert [one["name"] for one in found.document["constraints"]] == ["id_is_unique"]

    @pytest.mark.parametrize(
        "expectation",
        [
            UNIQUE(column="a", mostly=0.9),
            COMPOUND(column_list=["a", "b"], mostly=0.9, ignore_row_if="any_value_is_missing"),
            EQUAL(**AB, **EITHER, mostly=0.9),
            EQUAL(**AB, **BOTH, mostly=0.9),
            BETWEEN(column="a", min_value=0, mostly=0.9),
        ],
    )
    def test_mostly_needs_columns_without_null(self, expectation):
        assert "rows without NULL" in reason(expectation)
        found = taken(expectation, NOT_NULL(column="a"), NOT_NULL(column="b"))
        assert found.document["constraints"][0]["max_violating_rows"] == "10%"

    def test_mostly_of_compound_columns_is_about_all_rows_when_none_is_passed_over(self):
        assert entry(COMPOUND(column_list=["a", "b"], mostly=0.9, ignore_row_if="never"))["max_violating_rows"] == "10%"


class TestWhatIsLeftOut:
    @pytest.mark.parametrize(
        ("expectation", "why"),
        [
            (NOT_NULL(column="a"), "expect_column_values_to_not_be_null of a: the constraint language cannot"),
            (gxe.ExpectTableRowCountToEqual(value=3), "expect_table_row_count_to_equal of the table: the constraint"),
            (UNIQUE(column="a b", row_condition="x > 1", condition_parser="spark"), "of `a b`: it has a row_condition"),
            (UNIQUE(column="a", row_condition=GxColumn("x") > 1), "it has a row_condition"),
            (BETWEEN(column="a", min_value={"$PARAMETER": "low"}), "its min_value is known only when it runs"),
            (BETWEEN(column="a", min_value=0, strict_min={"$PARAMETER": "x"}), "its strict_min is known only"),
            (IN_SET(column="a", value_set={"$PARAMETER": "known"}), "its value_set is known only"),
            (IN_SET(column="a", value_set=[{"$PARAMETER": "one"}]), "is not a constant"),
            (UNIQUE(column="a", mostly={"$PARAMETER": "most"}), "its mostly is known only"),
            (EQUAL(**AB, ignore_row_if={"$PARAMETER": "x"}), "its ignore_row_if is known only"),
            (BETWEEN(column="a", min_value="2026-01-31"), "whether 2026-01-31 is a date or a timestamp"),
            (BETWEEN(column="a", max_value=datetime(2026, 1, 31, 12)), "whether 2026-01-31 12:00:00 is a date"),
            (IN_SET(column="a", value_set=[date(2026, 1, 31)]), "whether 2026-01-31 is a date or a timestamp"),
            (BETWEEN(column="a", min_value=0, max_value=float("inf")), "inf is not a constant"),
            (BETWEEN(column="a", min_value=float("nan")), "nan is not a constant"),
            (BETWEEN(column="a", min_value=2, max_value=1), "its min_value is greater than its max_value"),
            (BETWEEN(column="a", min_value=1, max_value=1, strict_min=True, strict_max=True), "would count twice"),
            (IN_SET(column="a", value_set=[]), "its value_set is empty"),
            (NOT_IN_SET(column="a", value_set=[]), "its value_set is empty"),
            (NOT_IN_SET(column="a", value_set=[None]), "its value_set is empty"),
            (IN_SET(column="a", value_set=["x", None]), "its value_set has None"),
            (IN_SET(column="a", value_set=[1, "1"]), "its value_set has values of several types"),
            (IN_SET(column="a", value_set=[1, True]), "its value_set has values of several types"),
            (IN_SET(column="a", value_set=[Decimal("NaN")]), "is not a constant"),
            (IN_SET(column="a", value_set=[10**200]), "more than 100 digits"),
            (GREATER(**AB), "expect_column_pair_values_a_to_be_greater_than_b of a, b: its ignore_row_if is 'both"),
            (GREATER(**AB, ignore_row_if="neither"), "its ignore_row_if is 'neither'"),
            (EQUAL(**AB, ignore_row_if="neither"), "set ignore_row_if to 'both_values_are_missing'"),
            (COMPOUND(column_list=["a", "b"]), "set ignore_row_if to 'any_value_is_missing'"),
            (COMPOUND(column_list=["a", "A"], ignore_row_if="never"), "named twice"),
            (UNIQUE(column="a", description="\ud800"), "not valid Unicode"),
        ],
    )
    def test_is_named_with_the_reason(self, expectation, why):
        assert why in reason(expectation)

    def test_all_of_it_is_an_error(self):
        with pytest.raises(ConstraintError, match=r"suite 'rules' can be a constraint. .* cannot express it\. Hint: "):
            taken(NOT_NULL(column="a"))
        with pytest.raises(ConstraintError, match=r"No expectation of suite 'rules' can be a constraint\. Hint"):
            taken()

    def test_a_wrong_name_of_the_table_is_an_error_of_its_own(self):
        with pytest.raises(ConstraintError, match="'table' is empty"):
            constraints_from_suite(ExpectationSuite("rules", [UNIQUE(column="a")]), table="")


class TestNames:
    def test_are_free(self):
        found = taken(UNIQUE(column="a"), UNIQUE(column="a", severity="warning"), UNIQUE(column="A"))
        assert [one.name for one in found.constraints.constraints] == ["a_is_unique", "a_is_unique_2", "A_is_unique_3"]

    @pytest.mark.parametrize(
        "name", ["first name", "a.b", "a`b", "`a`", "on", "2024", "é", "a\nb", "it's: #1", "not", "x" * 400, "*", " "]
    )
    def test_of_columns_may_be_odd(self, name):
        found = taken(
            UNIQUE(column=name),
            COMPOUND(column_list=[name, "n"], ignore_row_if="never"),
            BETWEEN(column=name, min_value=0),
            NOT_IN_SET(column=name, value_set=["x"]),
            EQUAL(column_A=name, column_B="n"),
            key=(name,),
        )
        assert found.left_out == ()
        assert {one.columns[0] for one in found.constraints.constraints} == {name}
        assert found.constraints.key == (name,)


def everything() -> list[Expectation]:
    """One expectation of each kind, and some that cannot be taken over."""
    return [
        UNIQUE(column="first name", description="Why.\n\n  Because: # 1", severity="warning"),
        COMPOUND(column_list=["on", "`a`"], ignore_row_if="never", mostly=0.95),
        BETWEEN(column="x", min_value=0.1, max_value=7, strict_max=True, notes=["one", "two"]),
        BETWEEN(column="x", min_value="2026-01-31"),
        IN_SET(column="unit", value_set=["it's", "# 1", "${HOME}", ""]),
        IN_SET(column="price", value_set=[Decimal("0.1"), 2, 1e-7]),
        NOT_IN_SET(column="paid", value_set=[True]),
        GREATER(column_A="x", column_B="y", ignore_row_if="either_value_is_missing", or_equal=True),
        GREATER(column_A="a\x07\nb", column_B="y"),
        EQUAL(column_A="x", column_B="y"),
        EQUAL(column_A="x", column_B="y", row_condition=GxColumn("x") > 1),
        NOT_NULL(column="x"),
    ]


class TestTheFile:
    def test_says_the_same_as_the_constraints(self, tmp_path):
        found = taken(*everything(), key=("id", "on"))
        path = tmp_path / "tax.yml"
        path.write_text(found.to_yaml(), encoding="utf-8")
        assert load_constraints(path) == found.constraints
        assert len(found.constraints.constraints) == 8

    def test_names_what_was_left_out_on_a_line_each(self):
        found = taken(*everything())
        comments = [line for line in found.to_yaml().splitlines() if line.startswith("# ")]
        assert len(comments) == len(found.left_out) == 4
        assert comments[1].startswith("# Left to Great Expectations: expect_column_pair_values_a_to_be_greater_than_b")

    def test_is_the_same_for_a_suite_that_was_stored(self, open_context):
        open_context().suites.add(ExpectationSuite("rules", everything()))
        stored = constraints_from_suite(open_context().suites.get("rules"), table="tax")
        fresh = taken(*everything())
        assert stored.left_out == fresh.left_out
        assert list(map(meaning, stored.constraints.constraints)) == list(map(meaning, fresh.constraints.constraints))
        facts = [(one.name, one.severity, one.tolerance, one.description) for one in stored.constraints.constraints]
        assert facts == [
            (one.name, one.severity, one.tolerance, one.description) for one in fresh.constraints.constraints
        ]


FULL = {"ref": 0, "price": Decimal(0), "cost": Decimal(0)}
"""Columns that the suite below expects to have no NULL, and a value of each."""
EXPECTATIONS = [
    *(UNIQUE(column=name) for name in ("x", "unit", "on")),
    *(UNIQUE(column="ref", mostly=mostly) for mostly in (0.5, 0.75)),
    COMPOUND(column_list=["id", "unit"], ignore_row_if="any_value_is_missing"),
    COMPOUND(column_list=["x", "paid"], ignore_row_if="never"),
    COMPOUND(column_list=["y", "on"], ignore_row_if="never", mostly=0.6),
    COMPOUND(column_list=["part", "ref"]),
    COMPOUND(column_list=["price", "cost"], mostly=0.5),
    *(BETWEEN(column=name, min_value=0) for name in ("id", "x", "price", "part")),
    BETWEEN(column="id", min_value=-1, max_value=1),
    BETWEEN(column="x", min_value=-1.5, max_value=0, strict_min=True),
    BETWEEN(column="price", min_value=0, max_value=1, strict_max=True, mostly=0.67),
    BETWEEN(column="y", max_value=0.5),
    IN_SET(column="unit", value_set=["a", "it's", ""]),
    IN_SET(column="x", value_set=[0, 1.0]),
    IN_SET(column="price", value_set=[0, 1.0, Decimal("7.5")], mostly=0.5),
    IN_SET(column="on", value_set=[True]),
    NOT_IN_SET(column="unit", value_set=["a", "B", None]),
    NOT_IN_SET(column="y", value_set=[-1.5, 1]),
    NOT_IN_SET(column="ref", value_set=[0, 1], mostly=0.34),
    GREATER(column_A="x", column_B="y", **EITHER),
    GREATER(column_A="id", column_B="ref", **EITHER, or_equal=True),
    GREATER(column_A="cost", column_B="price", or_equal=True),
    GREATER(column_A="price", column_B="cost", ignore_row_if="neither", mostly=0.5),
    EQUAL(column_A="unit", column_B="code"),
    EQUAL(column_A="x", column_B="y", **EITHER),
    EQUAL(column_A="id", column_B="ref", mostly=0.5),
    EQUAL(column_A="on", column_B="paid"),
]


def broken(constraint: Constraint, table: list[dict[str, Any]]) -> bool:
    """Whether a table, loaded at once, breaks a constraint."""
    total, by_row = violations_by_row(constraint, [], table)
    return not constraint.tolerance.allows(new_violations=total, violating_rows=len(by_row), load_rows=len(table))


@settings(max_examples=max(10, settings().max_examples // 50))
@given(rows=TABLES, part=st.integers(0, 2))
def test_constraints_are_broken_exactly_when_the_expectations_fail_on_spark(spark, rows, part):
    table = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
    for row in table:
        row.update({name: value for name, value in FULL.items() if row[name] is None})
    found = taken(*(one.copy() for one in EXPECTATIONS), *(NOT_NULL(column=name) for name in FULL))
    assert len(found.left_out) == len(FULL)
    rows = [tuple(row.values()) for row in table]
    held = check(spark, SCHEMA, rows, EXPECTATIONS[part::3], shown="BOOLEAN_ONLY")
    assert held == [not broken(one, table) for one in found.constraints.constraints[part::3]]
