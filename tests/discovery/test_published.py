"""Examples of the literature, with the numbers that are published for them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import pytest

from dc_engine.constraints.printer import print_bodies
from dc_engine.constraints.sugar import pod
from dc_engine.discovery.coded import Coded
from dc_engine.discovery.ranking import Scales
from dc_engine.discovery.space import Space
from dc_engine.maintained.stored import read_set
from dc_engine.stored import read_agree_sets
from tests.discovery.brute import read_rule
from tests.discovery.judging import is_wider
from tests.discovery.marked import forbidden_by, implies
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
SALARIES = [  # id, yr, posit, bin, sal, perc, tax, grp, subg
    (10, 16, "secr", 1, 5000, 20, 1000, "A", "III"),
    (11, 16, "mngr", 2, 8000, 25, 2000, "C", "II"),
    (12, 16, "direct", 3, 10000, 30, 3000, "D", "I"),
    (10, 15, "secr", 1, 4500, 20, 900, "A", "III"),
    (11, 15, "mngr", 2, 6000, 25, 1500, "C", "I"),
    (12, 15, "direct", 3, 8000, 25, 2000, "C", "II"),
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


PEOPLE = "fname lname day ssn num st zip sal rate txa"
TAXED = [
    ("Ali", "Sadam", 20140410, 719975883, 1448, "CO", 80612, 32000, 124, 3000),
    ("Eser", "Duparc", 20140224, 303975883, 1401, "CO", 80612, 50000, 142, 1500),
    ("Hennie", "Hannen", 20140413, 701178073, 1486, "ND", 58671, 30000, 121, 3400),
    ("Rene", "Beke", 20130403, 801350874, 1386, "UT", 84308, 55000, 204, 1300),
    ("Ali", "Sadam", 20140329, 719975883, 1427, "CO", 80612, 7500, 121, 0),
    ("Hennie", "Hannen", 20130404, 701178073, 1386, "ND", 58671, 6500, 24, 900),
    ("PerOlof", "Motwani", 20150324, 970122634, 1547, "CO", 80209, 95000, 285, 1100),
]
MORE_TAXED = [
    ("Yuichiro", "Uckun", 20130322, 435849162, 1368, "UT", 84308, 40000, 142, 3300),
    ("Hennie", "Hannen", 20140218, 701178073, 1478, "ND", 58671, 33000, 204, 1400),
    ("Rene", "Beke", 20150213, 801350874, 1533, "UT", 84308, 32000, 123, 3200),
]
SIGMA_3 = "txa >, sal < -> rate <"
STAYS = ("zip = -> st =", "ssn = -> fname =", "ssn = -> lname =", "ssn =, day < -> num <")
INSTEAD = ("st =, txa >, sal < -> rate <", "txa >, sal < -> rate <=")


def rule_of(text: str) -> Rule:
    """The rule of a pod."""
    ((body,),) = pod(text).values()
    return read_rule(print_bodies((body,)))


@MODES
def test_taxed_people_lose_the_published_pod_and_what_refines_it_holds_instead(tmp_path: Path, mode: str) -> None:
    table = Table(tmp_path, PEOPLE, fname="string", lname="string", st="string")
    table.rules["dependencies"]["pinned"] = [{"pod": SIGMA_3}]
    table.apply("1", *TAXED)
    table.discover(mode, classes=["pod"], limits={"max_terms": 4})
    assert all(follows(rule_of(text), table) for text in (*STAYS, SIGMA_3, *INSTEAD))
    told = table.told("2", *MORE_TAXED)
    (lost,) = (one for one in told.invalidated if one.text == "txa <, sal > -> rate >")
    assert (lost.kind, lost.violations) == ("pod", 2)
    assert not follows(rule_of(SIGMA_3), table)
    assert all(follows(rule_of(text), table) for text in (*STAYS, *INSTEAD))
    assert not table.problems
    table.maintain("retract", load_id="2")
    assert follows(rule_of(SIGMA_3), table)


def test_taxed_people_have_the_minimal_pods_of_the_example(tmp_path: Path) -> None:
    table = Table(tmp_path, PEOPLE, fname="string", lname="string", st="string")
    table.apply("1", *TAXED)
    asked = {"classes": ["pod"], "space": {"columns": ["st", "sal", "rate", "txa"]}}
    before = {"sal >= -> rate >=", "sal >=, txa <= -> rate >", "st =, sal >= -> rate >"}
    assert {rule_of(text) for text in table.discover(**asked)} == set(map(rule_of, before))
    table.apply("2", *MORE_TAXED)
    after = {"sal >=, txa <= -> rate >=", "sal =, txa <= -> rate >", "st =, sal >= -> rate >"}
    assert {rule_of(text) for text in table.discover(**asked)} == set(map(rule_of, after))


def test_containment_is_as_published() -> None:
    longer, shorter, weaker = (forbidden_by(rule_of(text)) for text in (INSTEAD[0], SIGMA_3, INSTEAD[1]))
    assert implies(shorter, longer)
    assert implies(shorter, weaker)
    assert not implies(longer, shorter)
    assert not implies(weaker, shorter)


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


class Orders:
    """Order dependencies by their texts, and what follows from them."""

    def __init__(self, texts: Collection[str]) -> None:
        found = [re.fullmatch(r"(\w+)(?: constant| ~ (\w+))(?: within \[(.*)\])?", text) for text in texts]
        assert all(found)
        self.known = [(one[1], one[2], set((one[3] or "").split(", ")) - {""}) for one in found if one]

    def constant(self, column: str, *within: str) -> bool:
        return column in within or any(
            one == column and not other and context <= {*within} for one, other, context in self.known
        )

    def together(self, column: str, other: str, *within: str) -> bool:
        if column == other or self.constant(column, *within) or self.constant(other, *within):
            return True
        return any({one, two} == {column, other} and context <= {*within} for one, two, context in self.known)

    def orders(self, left: Sequence[str], right: Sequence[str]) -> bool:
        """Whether what is sorted by the one list is sorted by the other, by the parts of the published theorem."""
        return all(self.constant(one, *left) for one in right) and all(
            self.together(one, other, *left[:i], *right[:j])
            for i, one in enumerate(left)
            for j, other in enumerate(right)
        )


def salaries(folder: Path, mode: str) -> Table:
    texts = dict.fromkeys(("posit", "grp", "subg"), "string")
    table = Table(folder, "id yr posit bin sal perc tax grp subg", **texts)
    table.apply("1", *SALARIES)
    table.discover(mode, classes=["od"])
    return table


@MODES
def test_salaries_have_the_published_order_dependencies(tmp_path: Path, mode: str) -> None:
    table = salaries(tmp_path, mode)
    known = Orders([one.text for one in read_set(table.storage, table.snapshot)])
    assert known.orders(["sal"], ["tax"])
    assert known.orders(["sal"], ["perc"])
    assert known.orders(["sal"], ["tax", "perc"])
    assert known.orders(["sal"], ["grp", "subg"])
    assert not known.orders(["sal"], ["subg", "grp"])
    assert known.orders(["yr", "sal"], ["yr", "bin"])
    assert not known.orders(["posit"], ["posit", "sal"])
    assert known.constant("bin", "posit")
    assert not known.constant("sal", "posit")
    assert known.together("bin", "sal", "yr")
    assert not known.together("bin", "subg", "yr")
    assert not known.together("sal", "subg")
    assert not table.problems


@pytest.mark.parametrize(("within", "interesting"), [(["yr"], 18), (["yr", "grp"], 8)])
def test_an_order_dependency_of_salaries_is_as_interesting_as_published(within: list[str], interesting: int) -> None:
    """That is the sum of the squares of the classes of rows: twice the pairs that agree, and the rows themselves."""
    names = ["id", "yr", "posit", "bin", "sal", "perc", "tax", "grp", "subg"]
    codes = {
        name: np.unique(values, return_inverse=True)[1]
        for name, values in zip(names, zip(*SALARIES, strict=True), strict=True)
    }
    space = Space(dict.fromkeys(names, "int"), classes=("od",))
    scales = Scales(Coded(np.arange(len(SALARIES)), codes).table(space, frozenset()))
    box = tuple(2 if name in within else {"bin": 1, "sal": 4}.get(name, 7) for name in names)
    support = scales.weigh("od", [box])[box].support
    assert support is not None
    assert 2 * support + len(SALARIES) == interesting


@MODES
def test_salaries_of_the_same_positions_split_in_the_published_three_pairs(tmp_path: Path, mode: str) -> None:
    texts = dict.fromkeys(("posit", "grp", "subg"), "string")
    table = Table(tmp_path, "id yr posit bin sal perc tax grp subg", **texts)
    table.apply("1", *SALARIES[:3])
    space = {"columns": ["posit", "bin", "sal", "subg"], "descending": True}
    found = table.discover(mode, classes=["od"], space=space)
    assert {"sal constant within [posit]", "sal ~ subg descending", "bin ~ sal"} <= {*found}
    assert "sal ~ subg" not in found
    told = table.told("2", *SALARIES[3:])
    lost = {one.text: one for one in told.invalidated}
    assert lost["sal constant within [posit]"].violations == 3
    assert lost["sal ~ subg descending"].violations == 2
    assert "bin ~ sal" not in lost
