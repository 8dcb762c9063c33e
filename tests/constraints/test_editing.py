"""Dependencies are added to a constraint file, and everything else in it stays to the letter."""

from __future__ import annotations

import difflib
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from dc_engine.constraints.contradiction import check_bodies
from dc_engine.constraints.editing import pin, promote
from dc_engine.constraints.files import load_constraints, load_text
from dc_engine.constraints.model import Body, Constraint
from dc_engine.constraints.naming import class_of, id_of, text_of
from dc_engine.constraints.normalise import normalise
from dc_engine.constraints.printer import print_bodies
from dc_engine.errors import ConstraintError
from tests.constraints.strategies import any_body, any_name, nulls

TAX = """\
# The rules of the tax table.
version: 1
table:   tax      # spaces stay

constraints:
    - name: zip_decides_city   # why
      fd: zip -> city
      description: >
        A zip code
        lies in one city.

# At the end.
"""
STATE = {"class": "fd", "text": "zip -> state", "formula": "not (t.zip = s.zip and t.state != s.state)"}
PHONE = {"class": "unique", "text": "unique [area_code, phone]"}
RATE = {"class": "dc", "formula": "not (t.salary > s.salary and t.rate < s.rate)", "name": "rate follows"}


ORDER = {"class": "od", "formula": "not (t.state = s.state and t.salary < s.salary and t.rate > s.rate)"}
CONSTANT = {"class": "od", "formula": "not (t.zip = s.zip and t.city != s.city)"}


def added(before: str, after: str) -> str:
    """What is in the second text and not in the first, which it has whole."""
    lines = list(difflib.ndiff(before.splitlines(keepends=True), after.splitlines(keepends=True)))
    assert not [line for line in lines if line.startswith("- ")], "".join(lines)
    return "".join(line[2:] for line in lines if line.startswith("+ "))


class TestPin:
    def test_an_order_dependency_gets_the_reading_of_nulls_that_comes_nearest(self) -> None:
        assert added(TAX, pin(TAX, [ORDER, CONSTANT])) == (
            "dependencies:\n"
            "  pinned:\n"
            "    - pod: state =, salary > -> rate >=\n"
            "      nulls: equal\n"
            "    - fd: zip -> city\n"
            "      nulls: equal\n"
        )

    def test_a_file_without_the_section_gets_one(self) -> None:
        assert added(TAX, pin(TAX, [STATE, PHONE, RATE])) == (
            "dependencies:\n"
            "  pinned:\n"
            "    - fd: zip -> state\n"
            "    - unique: [area_code, phone]\n"
            "    - name: rate follows\n"
            "      pod: salary > -> rate >=\n"
        )

    def test_others_go_behind_those_that_are_there_in_their_layout(self) -> None:
        text = TAX + "dependencies:\n   watch: all # of them\n   pinned:\n   - fd: zip -> a   # first\n   # the end\n"
        assert pin(text, [STATE], "error") == text.replace(
            "# first\n", "# first\n   - fd: zip -> state\n     severity: error\n"
        )

    @pytest.mark.parametrize(
        ("section", "edited"),
        [
            ("dependencies:\n  watch: all", "dependencies:\n  watch: all\n  pinned:\n    - fd: zip -> state\n"),
            ("dependencies: {}  # none\n", "dependencies:  # none\n  pinned:\n    - fd: zip -> state\n"),
            (
                "dependencies:\n  pinned: []\n  watch: all\n",
                "dependencies:\n  pinned:\n    - fd: zip -> state\n  watch: all\n",
            ),
            (
                "dependencies:\n  pinned:\n    [] # none\n",
                'dependencies:\n  pinned:\n    [{"fd": "zip -> state"}] # none\n',
            ),
            (
                "dependencies: {watch: all}\n",
                'dependencies: {watch: all, "pinned": [{"fd": "zip -> state"}]}\n',
            ),
            (
                "dependencies: {pinned: [{fd: a -> b}, # one\n  ]}\n",
                'dependencies: {pinned: [{fd: a -> b}, {"fd": "zip -> state"}, # one\n  ]}\n',
            ),
        ],
    )
    def test_whatever_form_the_section_has(self, section: str, edited: str) -> None:
        assert pin(TAX + section, [STATE]) == TAX + edited

    def test_a_json_file_stays_one(self) -> None:
        document = {"version": 1, "table": "tax", "constraints": [], "dependencies": {"watch": "all"}}
        for text in (json.dumps(document), json.dumps(document, indent=2)):
            edited = json.loads(pin(text, [STATE, PHONE]))
            pinned = [{"fd": "zip -> state"}, {"unique": ["area_code", "phone"]}]
            assert edited == {**document, "dependencies": {"watch": "all", "pinned": pinned}}

    def test_line_ends_and_a_missing_last_one_are_kept(self) -> None:
        text = TAX.replace("\n", "\r\n")
        assert pin(text, [STATE]).count("\r\n") == pin(text, [STATE]).count("\n")
        assert pin("version: 1\ntable: tax\nconstraints: []", [STATE]).startswith("version: 1\ntable: tax\nconstr")

    def test_names_that_yaml_would_mistake_are_quoted(self) -> None:
        rules = load_text(pin(TAX, [{"class": "unique", "formula": "not (t.on = s.on and t.`a, #b` = s.`a, #b`)"}]))
        assert rules.dependencies.pinned[0].columns == ["on", "a, #b"]


class TestPromote:
    def test_it_becomes_a_constraint_with_a_name_to_recognise(self) -> None:
        assert added(TAX, promote(TAX, [STATE, PHONE, RATE], "warn")) == (
            "    - name: zip_decides_state\n      fd: zip -> state\n      severity: warn\n"
            "    - name: area_code_phone_is_unique\n      unique: [area_code, phone]\n      severity: warn\n"
            "    - name: rate follows\n      pod: salary > -> rate >=\n      severity: warn\n"
        )

    def test_a_name_that_is_taken_gets_a_number(self) -> None:
        text = TAX.replace("zip_decides_city ", "Zip_Decides_State ")
        assert "- name: zip_decides_state_2\n" in promote(text, [STATE])

    def test_an_empty_list_is_filled(self) -> None:
        text = "version: 1\ntable: tax\nconstraints: []  # none yet\nkey: [id]\n"
        assert promote(text, [STATE]) == (
            "version: 1\ntable: tax\nconstraints:  # none yet\n"
            "  - name: zip_decides_state\n    fd: zip -> state\nkey: [id]\n"
        )

    def test_one_that_is_pinned_may_become_a_constraint(self) -> None:
        rules = load_text(promote(pin(TAX, [STATE]), [STATE]))
        assert id_of(rules.constraints[-1]) == id_of(rules.dependencies.pinned[0])

    def test_a_rule_without_a_short_text_is_called_by_its_id(self) -> None:
        rules = load_text(promote(TAX, [{"class": "dc", "formula": "not (t.rate != s.rate and t.zip != s.zip)"}]))
        assert rules.constraints[-1].name == id_of(rules.constraints[-1])

    def test_a_pod_may_be_given_by_its_text(self) -> None:
        given = {"class": "pod", "text": "salary >, rate < -> zip ="}
        assert added(TAX, promote(TAX, [given])) == (
            "    - name: zip_follows_salary_rate\n      pod: salary >, rate < -> zip =\n"
        )


class TestRefusals:
    @pytest.mark.parametrize("add", [pin, promote])
    def test_what_is_there_in_other_words_is_refused(self, add: Any) -> None:
        same = {"class": "dc", "formula": "not (t.CITY != s.city and s.zip = t.zip)"}
        with pytest.raises(ConstraintError) as caught:
            add(TAX, [same])
        assert caught.value.message == "'zip -> CITY' is there already, as constraint 'zip_decides_city'."

    def test_what_is_pinned_is_not_pinned_again(self) -> None:
        with pytest.raises(ConstraintError, match="'zip -> state' is there already, as pinned 'zip -> state'"):
            pin(pin(TAX, [STATE]), [STATE])

    @pytest.mark.parametrize("add", [pin, promote])
    def test_what_is_given_twice_is_refused(self, add: Any) -> None:
        with pytest.raises(ConstraintError, match="'ZIP -> state' is given twice"):
            add(TAX, [STATE, {"class": "fd", "text": "ZIP -> state"}])

    @pytest.mark.parametrize(
        ("dependency", "message"),
        [
            ({"class": "od", "text": "rate constant within [state]"}, "has no formula"),
            ({"class": "unique", "text": "a, b"}, "has no formula"),
            ({"class": "fd", "text": "a -> b, c"}, "several columns on the right"),
            ({"class": "fd", "text": "a -> "}, "a column is missing"),
            ({"class": "dc", "formula": "not (t.a <= 0)"}, "it is about one row"),
            ({"class": "dc", "formula": "not (t.a < s.a and t.a > s.a)"}, "can never be violated"),
            ({**STATE, "name": "Zip_decides_CITY"}, "is taken"),
        ],
    )
    @pytest.mark.parametrize("add", [pin, promote])
    def test_what_is_no_dependency_is_refused(self, add: Any, dependency: dict[str, Any], message: str) -> None:
        with pytest.raises(ConstraintError, match=message):
            add(TAX, [dependency])

    def test_nothing_to_add_and_a_bad_file_are_refused(self) -> None:
        with pytest.raises(ConstraintError, match="no dependency to add"):
            pin(TAX, [])
        with pytest.raises(ConstraintError, match="'table' is missing"):
            pin("version: 1\n", [STATE])

    def test_an_odd_layout_is_added_to_or_refused_and_never_broken(self) -> None:
        odd = "? version\n: 1\n? table\n: tax\n? constraints\n: []\n"
        assert len(load_text(promote(odd, [STATE])).constraints) == 1
        anchored = "version: 1\ntable: tax\nconstraints:\n  &a []\n"
        assert load_text(anchored).constraints == ()
        with pytest.raises(ConstraintError):
            promote(anchored, [STATE])


FILES = [
    TAX,
    TAX.replace("\n", "\r\n"),
    "version: 1\ntable: tax\nconstraints: []",
    "--- # begins\nversion: 1\ntable: tax\nconstraints:\n- {name: a, fd: zip -> city} # a\n\n... # ends\n",
    'version: 1\ntable: tax\nconstraints: [{name: "a", unique: [x]}]\ndependencies:\n    pinned: []\n    watch: none\n',
    "  version: 1\n  table: tax\n  dependencies: # why\n    severity: error\n    # in between\n  constraints:\n"
    "  - name: a\n    description: |+\n      kept\n\n    fd: zip -> city\n",
    json.dumps({"version": 1, "table": "tax", "constraints": [{"name": "a", "unique": ["ü"]}]}, indent=1),
]


@example(FILES[2], [], "ignore", False, ["`"])
@given(st.sampled_from(FILES), st.lists(any_body, max_size=3), nulls, st.booleans(), st.lists(any_name, max_size=2))
def test_the_result_means_what_was_there_and_the_new_rules(
    text: str, bodies: list[Body], way: Any, pins: bool, keys: list[str]
) -> None:
    rules: dict[str, Constraint] = {}
    for body in map(normalise, bodies):
        rule = Constraint("", "deny", (body,), way)
        try:
            check_bodies((body,))
        except ConstraintError:
            continue
        if rule.rows == 2:
            rules.setdefault(id_of(rule), rule)
    for name in keys:
        rule = Constraint("", "deny", (normalise(load_constraints(_unique(name)).constraints[0].bodies[0]),), way)
        rules.setdefault(id_of(rule), rule)
    assume(rules)
    given = [
        {"class": class_of(one.bodies), "text": text_of(one.bodies), "formula": print_bodies(one.bodies), "nulls": way}
        for one in rules.values()
    ]
    before, after = load_text(text), load_text((pin if pins else promote)(text, given))
    new = after.dependencies.pinned if pins else after.constraints[len(before.constraints) :]
    assert [(id_of(one), one.nulls) for one in new] == [(one, way) for one in rules]
    if pins:
        assert replace(after, dependencies=replace(after.dependencies, pinned=())) == before
    else:
        assert replace(after, constraints=after.constraints[: len(before.constraints)]) == before


def _unique(name: str) -> dict[str, Any]:
    return {"version": 1, "table": "x", "constraints": [{"name": "x", "unique": [f"`{name.replace('`', '``')}`"]}]}
