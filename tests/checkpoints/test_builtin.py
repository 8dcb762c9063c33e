"""Built-in expectations fail on Spark exactly when the rule that they stand for is violated."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import great_expectations as gx
import pytest
from great_expectations import ExpectationSuite
from great_expectations import expectations as gxe
from great_expectations.expectations.expectation import Expectation
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_dc_provider.checkpoints.builtin import builtin_expectation, export_builtin_suite
from dc_engine.constraints.files import load_constraints
from dc_engine.constraints.model import Constraint
from tests.checkpoints.conftest import files_of
from tests.checkpoints.verdicts import RULES, verdict
from tests.detection.oracle import violations_by_row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")

COLUMNS = {
    "id": ("int", st.sampled_from([-1, 0, 1, 2])),
    "ref": ("bigint", st.sampled_from([-1, 0, 1, 2**53, 2**53 + 1])),
    "x": ("double", st.sampled_from([-0.0, 0.0, 1.0, -1.5, float("nan"), float("inf")])),
    "y": ("double", st.sampled_from([-0.0, 0.0, 1.0, -1.5, float("nan")])),
    "part": ("float", st.sampled_from([0.0, 1.0, 0.5])),
    "price": ("decimal(10,2)", st.sampled_from(list(map(Decimal, ("-0.01", "0.00", "1.00", "7.50"))))),
    "cost": ("decimal(38,18)", st.sampled_from(list(map(Decimal, ("0", "1", "1.000000000000000001", "7.5"))))),
    "unit": ("string", st.sampled_from(["", "a", "b", "B", "é", "it's"])),
    "code": ("string", st.sampled_from(["a", "b", "z"])),
    "on": ("boolean", st.booleans()),
    "paid": ("boolean", st.booleans()),
}
TYPES = {name: type_ for name, (type_, _) in COLUMNS.items()}
SCHEMA = ", ".join(f"`{name}` {type_}" for name, type_ in TYPES.items())
TABLES = st.lists(st.tuples(*(st.none() | values for _, values in COLUMNS.values())), max_size=5)

UNIQUE = ["id", "ref", "x", "price", "unit", "on", "id, unit", "x, on", "y, part, price", "cost, paid"]
DENIED = [
    *(f"t.{column} {op} 0" for column, op in (("id", "<"), ("id", ">="), ("ref", "<="), ("x", ">"), ("x", "<="))),
    *(f"t.{column} {op} 0" for column, op in (("part", "<="), ("price", "<"), ("price", ">="), ("cost", ">"))),
    *("t.id > 1", "t.id <= -1", "t.ref > 9007199254740991", "t.ref >= 1", "t.x < -1", "t.x >= 1", "t.part < 1"),
    *(f"t.id {op} t.ref" for op in ("<", "<=", ">", ">=", "!=")),
    *(f"t.x {op} t.y" for op in ("<", "<=", ">", ">=", "!=")),
    *("t.id > t.price", "t.price != t.cost", "t.cost < t.price", "t.part >= t.x", "t.on != t.paid", "t.on > t.paid"),
    *("t.unit < t.code", "t.unit >= t.code", "t.unit != t.code", "t.id <= t.id"),
    *("t.unit != 'a' and t.unit != '' and t.unit != 'it''s'", "t.unit = 'B'", "t.on != true", "t.on = false"),
    *("t.id != 1 and t.id != 2", "t.id = -1", "t.x != 0 and t.x != 1", "t.x = 0", "t.part != 1"),
    *("t.price != 1 and t.price != 0", "t.cost = 1", "t.ref != 0 and t.ref != 1 and t.ref != -1"),
    " and ".join(f"t.x != {number}" for number in range(20)),
]
FORBIDDEN = [
    *("not (t.unit = 'a') and not (t.unit = 'é')", "not (t.x = 0) and not (t.x = 1)"),
    *(
        "not (t.id < 0) and not (t.id > 1)",
        "not (t.x <= -1) and not (t.x >= 1)",
        "not (t.price > 0) and not (t.price < 0)",
    ),
]


def constraint(rule: dict[str, Any]) -> Constraint:
    document = {"version": 1, "table": "any", "constraints": [{"name": "rule", **rule}]}
    return load_constraints(document).constraints[0]


def exported(*, types: Mapping[str, str] = MappingProxyType({}), **rule: Any) -> Expectation | None:
    return builtin_expectation(constraint(rule), types)


def exported_all(constraints: Sequence[Constraint]) -> list[Expectation | None]:
    return [builtin_expectation(one, TYPES) for one in constraints]


CONSTRAINTS = [
    *(constraint({"unique": columns}) for columns in UNIQUE),
    *(constraint({"deny": body}) for body in DENIED),
    *(constraint({"formula": formula}) for formula in FORBIDDEN),
]


def violated(rule: Constraint, rows: Sequence[Any]) -> bool:
    """Whether a table of these columns violates a rule, in plain Python."""
    return violations_by_row(rule, [], [dict(zip(COLUMNS, row, strict=True)) for row in rows])[0] > 0


@functools.cache
def tables_on_spark() -> Any:
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    asset = context.data_sources.add_spark("spark").add_dataframe_asset("table")
    return asset.add_batch_definition_whole_dataframe("all")


def check(
    spark: SparkSession, schema: str, rows: Sequence[Any], expectations: Sequence[Any], shown: str = "SUMMARY"
) -> list[bool]:
    """Whether each expectation holds on a table, as Great Expectations says on Spark; an error in one is an error."""
    table = spark.createDataFrame(list(rows), schema).coalesce(1)  # no shuffles: most of the time goes there
    batch = tables_on_spark().get_batch(batch_parameters={"dataframe": table})
    numbered = [one.copy(update={"id": None, "meta": {"number": number}}) for number, one in enumerate(expectations)]
    held = {}
    for one in batch.validate(ExpectationSuite("all", numbered), result_format=shown).results:
        if one.exception_info.get("raised_exception") is not False:
            raise RuntimeError(str(one.exception_info))
        held[one.expectation_config.meta["number"]] = bool(one.success)
    return [held[number] for number in range(len(expectations))]


def rules_about(name: str) -> list[dict[str, Any]]:
    """Rules that name one column alone, among others, and beside ``n``: an expectation quotes it in each way."""
    return [{"unique": [name, "n"]}, {"deny": f"t.`{name}` > 0"}, {"deny": f"t.`{name}` > t.n"}]


class TestOnSpark:
    @settings(max_examples=max(10, settings().max_examples // 50))
    @given(rows=TABLES, part=st.integers(0, 3))
    def test_an_expectation_fails_exactly_when_its_rule_is_violated(self, spark, rows, part):
        constraints = CONSTRAINTS[part::4]
        held = check(spark, SCHEMA, rows, exported_all(constraints), shown="BOOLEAN_ONLY")
        assert held == [not violated(one, rows) for one in constraints]

    def test_examples_of_violations_change_nothing(self, spark):
        numbers = (-1, -1, float("nan"), 1.0, 0.0, Decimal("-0.01"), Decimal("1.000000000000000001"))
        rows = [(*numbers, "B", "a", True, False)] * 2 + [(None,) * 11]
        held = check(spark, SCHEMA, rows, exported_all(CONSTRAINTS))
        assert held == [not violated(one, rows) for one in CONSTRAINTS]

    def test_columns_of_any_name_that_it_exports(self, spark):
        names = ["first name", "1st", "select", "é's", '"a"', "$HOME", "x[0]", "a,\nb"]
        schema = ", ".join([*(f"`{name}` int" for name in names), "`a.b` int", "`c``d` int", "n int"])
        expectations = [exported(**rule) for name in names for rule in rules_about(name)]

        def held(*rows: tuple[int | None, int | None]) -> dict[str, list[bool]]:
            """What holds of each column, when all of them have the same values."""
            found = check(spark, schema, [(*[one] * len(names), 1, 1, n) for one, n in rows], expectations)
            return {name: found[3 * at : 3 * at + 3] for at, name in enumerate(names)}

        assert held((1, 0), (1, 0), (None, 1)) == {name: [False] * 3 for name in names}
        assert held((0, 0), (None, None)) == {name: [True] * 3 for name in names}

    def test_columns_are_found_whatever_their_case(self, spark):
        expectations = [exported(deny="t.SALARY < 0"), exported(unique="Salary, ID"), exported(deny="t.ID != t.Salary")]
        assert check(spark, "id int, salary int", [(1, -1), (1, -1)], expectations) == [False] * 3

    def test_zero_is_exact_for_decimals_of_any_scale(self, spark):
        expectations = [exported(deny="t.a > 0"), exported(deny="t.a >= 0"), exported(deny="t.a <= 0")]
        assert check(spark, "a decimal(38,38)", [(Decimal("1e-38"),)], expectations) == [False, False, True]

    def test_other_bounds_of_decimals_would_be_rounded(self, spark):
        """Should this fail one day, bounds other than 0 can be exported for columns of any type."""
        bound = gxe.ExpectColumnValuesToBeBetween(column="a", max_value=5)
        assert check(spark, "a decimal(38,18)", [(Decimal("5.000000000000000001"),)], [bound]) == [True]


class TestWhatIsLeftOut:
    @pytest.mark.parametrize(
        "rule",
        [
            {"fd": "zip -> city"},
            {"order": "a -> b"},
            {"pod": "a > -> b >"},
            {"deny": "t.a = s.b"},
            {"deny": "t.a > s.a and t.b = 0"},
            {"deny": "t.a = t.b"},
            {"deny": "t.a > 0 and t.b > 0"},
            {"deny": "t.a < t.b and t.b < t.c"},
            {"deny": "t.a != 'x' and t.b != 'y'"},
            {"deny": "t.a != 'x' and t.a < 'y'"},
            {"formula": "not (t.a < 0 and t.a > -5) and not (t.a > 0)"},
        ],
    )
    def test_rules_that_no_expectation_has_a_word_for(self, rule):
        assert exported(**rule) is None

    @pytest.mark.parametrize(
        "deny",
        [
            *("t.a > 5", "t.a < 1.5", "t.a > 0.0", "t.a < 'x'", "t.a > false", "t.a != 0.5", "t.a = 1e3"),
            *("t.a < date '2026-01-31'", "t.a != date '2026-01-31'", "t.a = timestamp '2026-01-31 12:00:00'"),
            *("t.a != 2147483648", "t.a = -9007199254740993", "t.a != 1 and t.a != 'x'"),
        ],
    )
    def test_constants_that_it_would_round_or_read_otherwise(self, deny):
        assert exported(deny=deny) is None

    def test_bounds_of_columns_whose_values_it_would_round(self):
        for known in ({}, {"a": "decimal(10,2)"}, {"a": "string"}, {"b": "int"}):
            assert exported(deny="t.a > 5", types=known) is None
        assert exported(deny="t.a > 5", types={"A": "int"}) is not None
        assert exported(deny="t.a > 9007199254740992", types={"a": "bigint"}) is None

    @pytest.mark.parametrize(
        "option",
        [{"nulls": "equal"}, {"max_new_violations": 1}, {"max_violating_rows": 1}, {"max_violating_rows": "0.1%"}],
    )
    @pytest.mark.parametrize("rule", [{"unique": "a, b"}, {"deny": "t.a < 0"}, {"deny": "t.a != t.b"}])
    def test_rules_with_a_tolerance_or_other_nulls(self, rule, option):
        assert exported(**rule) is not None
        assert exported(**rule, **option) is None

    @pytest.mark.parametrize("name", ["a.b", "a`b", "`a`", "*"])
    def test_columns_that_it_cannot_name(self, spark, name):
        quoted = "`" + name.replace("`", "``") + "`"
        for rule in ({"unique": [quoted]}, {"unique": ["n", quoted]}, {"deny": f"t.{quoted} < 0"}):
            assert exported(**rule) is None
        with pytest.raises(RuntimeError, match=r"UNRESOLVED_COLUMN|ATTRIBUTE_NAME|WRONG_NUM_ARGS"):
            check(
                spark, f"{quoted} int, n int", [(1, 1)], [gxe.ExpectCompoundColumnsToBeUnique(column_list=[name, "n"])]
            )

    def test_a_tolerance_of_nothing_is_none(self):
        assert exported(unique="a", max_violating_rows=0) is not None
        assert exported(unique="a", max_violating_rows="0.0%") is not None


class TestOneExpectation:
    @pytest.mark.parametrize(
        ("rule", "wanted"),
        [
            ({"unique": "a"}, gxe.ExpectColumnValuesToBeUnique(column="a")),
            ({"deny": "t.a = s.a"}, gxe.ExpectColumnValuesToBeUnique(column="a")),
            (
                {"unique": "a, b"},
                gxe.ExpectCompoundColumnsToBeUnique(column_list=["a", "b"], ignore_row_if="any_value_is_missing"),
            ),
            ({"deny": "t.a < 0"}, gxe.ExpectColumnValuesToBeBetween(column="a", min_value=0)),
            ({"deny": "0 >= t.a"}, gxe.ExpectColumnValuesToBeBetween(column="a", min_value=0, strict_min=True)),
            ({"deny": "t.a > 0"}, gxe.ExpectColumnValuesToBeBetween(column="a", max_value=0)),
            ({"deny": "t.a >= 0"}, gxe.ExpectColumnValuesToBeBetween(column="a", max_value=0, strict_max=True)),
            ({"deny": "t.a != 'x' and t.A != 'y'"}, gxe.ExpectColumnValuesToBeInSet(column="a", value_set=["x", "y"])),
            ({"deny": "t.a = true"}, gxe.ExpectColumnValuesToNotBeInSet(column="a", value_set=[True])),
            (
                {"formula": "not (t.a = 1) and not (t.a = 2)"},
                gxe.ExpectColumnValuesToNotBeInSet(column="a", value_set=[1, 2]),
            ),
            (
                {"deny": "s.shipped < s.ordered"},
                gxe.ExpectColumnPairValuesAToBeGreaterThanB(
                    column_A="shipped", column_B="ordered", or_equal=True, ignore_row_if="either_value_is_missing"
                ),
            ),
            (
                {"deny": "t.a >= t.b"},
                gxe.ExpectColumnPairValuesAToBeGreaterThanB(
                    column_A="b", column_B="a", or_equal=False, ignore_row_if="either_value_is_missing"
                ),
            ),
            (
                {"deny": "t.a != t.b"},
                gxe.ExpectColumnPairValuesToBeEqual(
                    column_A="a", column_B="b", ignore_row_if="either_value_is_missing"
                ),
            ),
        ],
    )
    def test_is_the_one_of_its_rule(self, rule, wanted):
        found = exported(**rule)
        assert found == wanted.copy(update={"meta": found.meta})

    def test_severity_name_and_description_go_along(self):
        found = exported(deny="t.a < 0", severity="warn", description="Never below 0.")
        assert (found.severity.value, found.meta["constraint"], found.notes) == ("warning", "rule", "Never below 0.")
        assert exported(deny="t.a < 0").severity.value == "critical"


class TestTheSuite:
    NAME = "dcgate.tax.builtin"

    def rules_in(self, context: Any) -> dict[str, str]:
        return {one.meta["constraint"]: one.id for one in context.suites.get(self.NAME).expectations}

    def test_has_the_rules_that_can_be_exported(self, open_context):
        rules = [*RULES, {"name": "some", "unique": "a", "max_new_violations": 3}, {"name": "x", "deny": "t.a > 1"}]
        export_builtin_suite(open_context(), self.NAME, verdict(rules=rules))
        assert list(self.rules_in(open_context())) == ["phone_is_unique", "salary_is_positive"]

    def test_is_written_only_when_rules_change(self, folder, open_context):
        rules = [{**one, "description": "Why.\nBecause."} for one in RULES]
        export_builtin_suite(open_context(), self.NAME, verdict(rules=rules))
        before = files_of(folder)
        export_builtin_suite(
            open_context(), self.NAME, verdict("tuesday", 2, rules=rules, broken={RULES[1]["name"]: 1})
        )
        assert files_of(folder) == before

    def test_ids_stay_and_rules_that_went_are_gone(self, open_context):
        export_builtin_suite(open_context(), self.NAME, verdict())
        first, id_ = self.rules_in(open_context()), open_context().suites.get(self.NAME).id
        rules = [RULES[2] | {"severity": "error"}, {"name": "id_is_unique", "unique": "id"}]
        export_builtin_suite(open_context(), self.NAME, verdict(rules=rules))
        second = self.rules_in(open_context())
        assert list(second) == ["salary_is_positive", "id_is_unique"]
        assert second["salary_is_positive"] == first["salary_is_positive"]
        assert open_context().suites.get(self.NAME).id == id_

    def test_there_is_none_without_rules_since_an_empty_one_passes(self, open_context):
        assert export_builtin_suite(open_context(), self.NAME, verdict(rules=RULES[:1])) == ["zip_decides_city"]
        assert not list(open_context().suites.all())
        assert export_builtin_suite(open_context(), self.NAME, verdict()) == ["zip_decides_city"]
        export_builtin_suite(open_context(), self.NAME, verdict(rules=RULES[:1]))
        assert not list(open_context().suites.all())

    def test_has_alike_rules_once_for_each_name(self, open_context):
        rules = [{"name": name, "deny": "t.a < 0"} for name in ("one", "other")]
        export_builtin_suite(open_context(), self.NAME, verdict(rules=rules))
        assert list(self.rules_in(open_context())) == ["one", "other"]

    def test_keeps_what_people_added(self, folder, open_context):
        export_builtin_suite(open_context(), self.NAME, verdict())
        suite = open_context().suites.get(self.NAME)
        suite.add_expectation(gxe.ExpectColumnValuesToNotBeNull(column="id"))
        before = files_of(folder)
        export_builtin_suite(open_context(), self.NAME, verdict("tuesday", 2))
        assert files_of(folder) == before
        export_builtin_suite(open_context(), self.NAME, verdict("tuesday", 2, rules=RULES[2:]))
        kinds = [one.expectation_type for one in open_context().suites.get(self.NAME).expectations]
        assert kinds == ["expect_column_values_to_be_between", "expect_column_values_to_not_be_null"]

    def test_runs_on_spark_after_it_was_stored(self, open_context, spark):
        texts = "t.state != '$HOME' and t.state != '${PATH}' and t.state != 'it''s' and t.state != ''"
        rules = [{"name": "known", "deny": texts}, {"name": "`odd` name", "deny": "t.`$a` >= 0"}]
        export_builtin_suite(open_context(), self.NAME, verdict(rules=rules))
        stored = open_context().suites.get(self.NAME).expectations
        assert check(spark, "state string, `$a` int", [("$HOME", -1), ("${PATH}", -1), ("it's", -1)], stored) == [
            True,
            True,
        ]
        assert check(spark, "state string, `$a` int", [("/root", 0)], stored) == [False, False]
