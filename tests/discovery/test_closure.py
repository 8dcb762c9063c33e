"""What is left out because another rule implies it is what the plain definition leaves out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.constraints.contradiction import contradiction
from dc_engine.constraints.model import Body, Column, Op, Predicate
from dc_engine.constraints.normalise import swapped
from dc_engine.discovery.classes import raw_dcs, shown_dcs
from dc_engine.discovery.closure import without_implied
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.terms import INEQUALITIES, SIX, Term, Terms

NAMES = st.sampled_from("abc")
PREDICATES = st.builds(
    lambda left, op, right: Predicate(Column("t", left), op, Column("s", right)), NAMES, st.sampled_from(Op), NAMES
)
BODIES = st.lists(PREDICATES, min_size=1, max_size=5, unique_by=lambda one: (one.left, one.right)).map(tuple)


def plainly(bodies: list[Body]) -> list[Body]:
    """The definition, rule by rule."""
    possible = [body for body in bodies if contradiction(body) is None]
    kept: list[Body] = []
    for place, body in enumerate(possible):
        others = [*kept, *possible[place + 1 :]]
        stronger = [one for one in others if implies(one, body)]
        if not any(one in kept or not implies(body, one) for one in stronger):
            kept.append(body)
    return kept


def implies(one: Body, other: Body) -> bool:
    return any(all(follows(predicate, other) for predicate in way) for way in (one, swapped(one)))


def follows(predicate: Predicate, body: Body) -> bool:
    return contradiction((*body, replace(predicate, op=predicate.op.negated))) is not None


@given(st.lists(BODIES, max_size=12, unique=True))
def test_the_quick_way_is_the_plain_one(bodies):
    assert without_implied(bodies) == plainly(bodies)


def test_the_rules_of_a_table_with_columns_that_compare():
    chance = np.random.default_rng(2)
    table = {name: chance.integers(0, 4, 14) for name in "abc"}
    pairs = [("a", "a"), ("b", "b"), ("c", "c"), ("a", "b"), ("b", "a"), ("b", "c"), ("c", "b")]
    terms = Terms(tuple(Term(one, two, SIX if one == two else INEQUALITIES, True) for one, two in pairs))
    layout = Layout(terms)
    t, s = np.triu_indices(14, 1)
    patterns = layout.pack([table[one][t] for one, _ in pairs], [table[two][s] for _, two in pairs])
    raw = raw_dcs(layout, patterns, max_terms=4).sets
    shown = shown_dcs(terms, raw)
    assert len(raw) > 100
    assert 0 < len(shown) < len(raw) / 2
    own = Terms(terms.terms[:3])
    assert shown == plainly(shown)
    assert all(contradiction(one) is None for one in shown)
    assert shown_dcs(own, []) == []
