"""Examples of the literature, with the numbers that are published for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dc_engine.stored import read_agree_sets
from tests.discovery.brute import read_rule
from tests.discovery.judging import is_wider
from tests.discovery.oracle import Rule
from tests.discovery.tables import Table

TAX = [  # TXA, SAL, RATE in hundredths, ST, Date
    (3000, 32000, 124, "CO", 20140410),
    (1500, 50000, 142, "CO", 20140224),
    (3400, 30000, 121, "ND", 20140413),
    (1300, 55000, 204, "UT", 20130403),
    (0, 7500, 121, "CO", 20140329),
    (900, 6500, 24, "ND", 20130404),
    (1100, 95000, 285, "CO", 20150324),
]
MORE_TAX = [
    (3300, 40000, 143, "UT", 20130322),
    (1400, 33000, 205, "ND", 20140218),
    (3200, 32000, 123, "UT", 20150213),
]
EMPLOYEES = [
    ("John", "Bond", "Manager", 2500),
    ("Marie", "Miller", "Manager", 3000),
    ("Marie", "Bond", "Employer", 2000),
    ("Tom", "Gray", "Manager", 3000),
]
MODES = pytest.mark.parametrize("mode", ["counted", "witnessed"])
PHI_3 = "t.txa > s.txa and t.sal < s.sal and t.rate > s.rate"


@MODES
def test_tax_data_lose_a_rule_about_rates_by_two_pairs_of_rows_and_two_longer_ones_hold_instead(
    tmp_path: Path, mode: str
) -> None:
    table = Table(tmp_path, "txa sal rate st day", st="string")
    table.rules["dependencies"]["pinned"] = [{"deny": PHI_3}]
    table.apply("1", *TAX)
    table.discover(mode, classes=["dc"])
    longer = [read_rule(f"not ({PHI_3} and t.{name} = s.{name})") for name in ("st", "day")]
    assert follows(read_rule(f"not ({PHI_3})"), table)
    told = table.told("2", *MORE_TAX)
    assert [one.violations for one in told.invalidated if one.formula == f"not ({PHI_3})"] == [2]
    assert not follows(read_rule(f"not ({PHI_3})"), table)
    assert all(follows(rule, table) for rule in longer)
    assert not table.problems


def follows(rule: Rule, table: Table) -> bool:
    """Whether a rule follows from one of those that the state knows."""
    return any(is_wider(read_rule(formula), rule) for _, formula in table.formulas)


@MODES
def test_employees_have_the_published_dependencies(tmp_path: Path, mode: str) -> None:
    table = employees(tmp_path, mode)
    found = {formula for kind, formula in table.formulas if kind == "fd" and "t.fn != s.fn" in formula}
    assert {read_rule(one) for one in found} == {
        read_rule("not (t.ln = s.ln and t.p = s.p and t.fn != s.fn)"),
        read_rule("not (t.ln = s.ln and t.s = s.s and t.fn != s.fn)"),
    }


def test_employees_have_the_published_agree_sets_before_and_after_one_goes_and_two_come(tmp_path: Path) -> None:
    table = employees(tmp_path, "counted")
    assert dict(read_agree_sets(table.storage)) == {
        frozenset({"p"}): 2,  # 1 and 2, 1 and 4
        frozenset({"ln"}): 1,
        frozenset({"fn"}): 1,
        frozenset({"p", "s"}): 1,
        frozenset(): 1,  # 3 and 4
    }
    table.apply("2", ("John", "Miller", "Employee", 2000), ("Anna", "Scott", "Manager", 3000), deletes=[EMPLOYEES[3]])
    assert dict(read_agree_sets(table.storage)) == {
        frozenset({"p"}): 2,  # 1 and 2, 1 and 6
        frozenset({"ln"}): 2,  # 1 and 3, 2 and 5
        frozenset({"fn"}): 2,  # 2 and 3, 1 and 5
        frozenset({"s"}): 1,  # 3 and 5
        frozenset({"p", "s"}): 1,  # 2 and 6
        frozenset(): 2,  # 3 and 6, 5 and 6
    }


def employees(folder: Path, mode: str) -> Table:
    table = Table(folder, "fn ln p s", fn="string", ln="string", p="string")
    table.apply("1", *EMPLOYEES)
    table.discover(mode, classes=["unique", "fd"])
    return table
