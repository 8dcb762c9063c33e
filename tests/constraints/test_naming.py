"""What dependencies are called."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.constraints.building import fd, unique
from dc_engine.constraints.files import load_constraints
from dc_engine.constraints.model import Body, Column, Constraint, Op, Predicate
from dc_engine.constraints.naming import class_of, dependency_id, id_of, meaning_in, order_text, text_of
from dc_engine.constraints.normalise import meaning, meaning_of, normalise, swapped
from dc_engine.constraints.parser import parse_formula
from dc_engine.constraints.sugar import pod
from tests.constraints.documents import one
from tests.constraints.strategies import any_body, nulls


def bodies(formula: str) -> tuple[Body, ...]:
    return tuple(map(normalise, parse_formula(formula)))


CLASSES = [
    ("not (t.a = s.a)", "unique", "unique [a]"),
    ("not (t.area_code = s.area_code and t.phone = s.phone)", "unique", "unique [area_code, phone]"),
    ("not (t.zip = s.zip and t.city != s.city)", "fd", "zip -> city"),
    ("not (t.city != s.city and t.zip = s.zip)", "fd", "zip -> city"),
    ("not (t.zip = s.zip and t.`the street` = s.`the street` and t.x != s.x)", "fd", "zip, `the street` -> x"),
    ("not (t.city != s.city)", "fd", "city constant"),
    ("not (t.a = s.a and t.b != s.b and t.c != s.c)", "dc", None),
    ("not (t.a = s.a and t.b < s.b)", "pod", "a = -> b >="),
    ("not (t.x > s.x and t.y > s.y and t.z <= s.z)", "pod", "x >, y > -> z >"),
    ("not (t.x < s.x and t.y < s.y and t.z >= s.z)", "pod", "x >, y > -> z >"),
    ("not (t.x <= s.x and t.a = s.a and t.`b c` < s.`b c`)", "pod", "x <=, a = -> `b c` >="),
    ("not (t.x < s.x and t.b != s.b and t.a = s.a)", "pod", "x >, a = -> b ="),
    ("not (t.a <= s.a)", "pod", None),
    ("not (t.a < s.a and t.a != s.a)", "dc", None),
    ("not (t.a = s.b)", "dc", None),
    ("not (t.a = s.a and t.b = 1)", "dc", None),
    ("not (t.a = s.a and t.b != s.b) and not (t.a < s.a and t.b > s.b)", "dc", None),
]


@pytest.mark.parametrize(("formula", "kind", "text"), CLASSES)
def test_a_rule_has_the_simplest_class_that_fits_and_a_short_text(formula: str, kind: str, text: str | None) -> None:
    assert class_of(bodies(formula)) == kind
    assert text_of(bodies(formula)) == (text or formula)


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        ("not (t.state = s.state and t.rate != s.rate)", "rate constant within [state]"),
        ("not (t.rate != s.rate)", "rate constant"),
        ("not (t.salary < s.salary and t.rate > s.rate)", "salary ~ rate"),
        ("not (t.a = s.a and t.`the b` = s.`the b` and t.c > s.c and t.d < s.d)", "c ~ d within [a, `the b`]"),
        ("not (t.a = s.a and t.c < s.c and t.d < s.d)", "c ~ d descending within [a]"),
    ],
)
def test_an_order_dependency_has_a_text_of_its_own_and_an_id_that_no_reading_of_nulls_changes(
    formula: str, text: str
) -> None:
    (body,) = bodies(formula)
    assert order_text(body) == text
    ids = {dependency_id("od", [body], nulls) for nulls in ("ignore", "equal")}
    assert len(ids) == 1
    assert ids.isdisjoint(dependency_id(kind, [body], "equal") for kind in ("fd", "dc"))
    (meaning_now,) = map(meaning_in, ids)
    assert (meaning_now == meaning_in(dependency_id("fd", [body], "equal"))) is ("constant" in text)
    assert meaning_now != meaning_in(dependency_id("fd", [body], "ignore"))


@given(st.dictionaries(st.sampled_from(["a", "b c", "d", "e"]), st.sampled_from(list(Op)), min_size=1), nulls)
def test_the_text_of_a_pod_can_be_written_as_one(columns: dict[str, Op], way: str) -> None:
    body = tuple(Predicate(Column("t", name), op, Column("s", name)) for name, op in columns.items())
    if class_of([body]) != "pod" or len(columns) == 1:
        return
    ((right, (again,)),) = pod(text_of([body])).items()
    assert meaning_of([again], way) == meaning_of([body], way)
    assert again[-1].left.name == right
    assert again[-1].op in (Op.LT, Op.LE, Op.NE)


def test_an_id_is_the_class_and_twelve_digits_and_never_changes() -> None:
    assert dependency_id("fd", fd(["zip"], "city"), "ignore") == "fd-fe6b290aa8f1"
    assert re.fullmatch(r"unique-[0-9a-f]{12}", dependency_id("unique", unique(["zip"]), "equal"))


def test_an_id_does_not_depend_on_how_a_rule_is_written() -> None:
    ways = [
        {"fd": "zip, street -> city"},
        {"fd": "STREET, Zip -> city"},
        {"deny": "t.city != s.city and s.zip = t.zip and t.street = s.street"},
        {"formula": "not (s.zip = t.zip and s.street = t.street and s.city != t.city)"},
    ]
    assert len({id_of(load_constraints(one(**way)).constraints[0]) for way in ways}) == 1


def test_an_id_depends_on_the_reading_of_null() -> None:
    ignoring, equal = (dependency_id("unique", unique(["a"]), way) for way in ("ignore", "equal"))
    assert ignoring != equal


@given(any_body, any_body, nulls, st.randoms())
def test_two_rules_have_one_id_exactly_when_they_mean_the_same(first: Body, second: Body, way: str, random) -> None:
    rules = [Constraint("x", "deny", (normalise(body),), way) for body in (first, second)]
    assert (id_of(rules[0]) == id_of(rules[1])) == (meaning(rules[0]) == meaning(rules[1]))
    shuffled = list(swapped(rules[0].bodies[0]))
    random.shuffle(shuffled)
    same = tuple(Predicate(_upper(one.left), one.op, _upper(one.right)) for one in shuffled)
    assert dependency_id("dc", (same,), way) == dependency_id("dc", rules[0].bodies, way)


def _upper(side):
    """The name in another case, where it is the same name in lower case."""
    if not isinstance(side, Column) or side.name.upper().lower() != side.name.lower():
        return side
    return Column(side.row, side.name.upper())
