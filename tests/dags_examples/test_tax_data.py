"""The generated tax table: consistent with its rules unless told otherwise, and always the same."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from dags_examples import tax_data
from dags_examples.tax_data import RULES, UNWRITTEN, tax_table
from dc_engine.constraints.files import load_constraints


def broken_rules(table: pd.DataFrame) -> set[str]:
    """Which rules two rows (or one) of the table break, by means of pandas."""
    by_salary = table.sort_values(["state", "salary"])
    highest_before = by_salary.groupby("state").rate.cummax()
    checks = {
        "phone_is_unique": table.duplicated(["area_code", "phone"]).any(),
        "zip_decides_city": (table.groupby("zip").city.nunique() > 1).any(),
        "child_exemption_by_state": (table.groupby(["state", "has_child"]).child_exemp.nunique() > 1).any(),
        "rate_follows_salary": (by_salary.rate < highest_before).any(),
        "salary_is_positive": (table.salary <= 0).any(),
        "single_exemption_by_state": (table.groupby(["state", "marital_status"]).single_exemp.nunique() > 1).any(),
    }
    return {rule for rule, broken in checks.items() if broken}


def test_loads_are_consistent_with_each_other():
    loads = [tax_table(20_000, first_id=1), tax_table(1_000, first_id=20_001)]
    table = pd.concat([load.to_pandas() for load in loads])
    assert len(table.columns) == 16
    assert list(table.id) == list(range(1, 21_001))
    assert broken_rules(table) == set()


@pytest.mark.parametrize("rule", [*RULES, *UNWRITTEN])
def test_one_rule_can_be_broken_without_the_others(rule):
    first = tax_table(20_000).to_pandas()
    second = tax_table(1_000, first_id=20_001, broken={rule: 8}).to_pandas()
    assert broken_rules(pd.concat([first, second])) == {rule}


def test_the_same_arguments_give_the_same_rows():
    assert tax_table(100, seed=1).equals(tax_table(100, seed=1))
    assert not tax_table(100, seed=1).equals(tax_table(100, seed=2))


def test_an_unknown_rule_cannot_be_broken():
    with pytest.raises(ValueError, match="No such rule to break: zip"):
        tax_table(10, broken={"zip": 1})


def test_the_rules_are_those_of_the_constraint_file():
    rules = load_constraints(Path(tax_data.__file__).parent / "constraints" / "tax.yml")
    assert tuple(rule.name for rule in rules.constraints) == RULES
    assert {column for rule in rules.constraints for column in rule.columns} <= set(tax_table(1).column_names)
