"""Timestamps without a zone in rules: which instant each of them stands for is settled once, by the session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta, timezone

from dc_engine.constraints.model import Constant, Constraint, ConstraintSet, Predicate, microseconds


def with_zones(
    constraint_set: ConstraintSet, schema: Mapping[str, str], instant: Callable[[datetime], int]
) -> ConstraintSet:
    """The same rules, with a zone for each timestamp that has none and is compared with instants.

    ``instant`` gives the instant (in microseconds) that it stands for in the session. From then on the rule means
    the same in every session; a session in another zone gives another rule.
    """
    types = {name.lower(): spark_type for name, spark_type in schema.items()}

    def settled(one: Predicate) -> Predicate:
        value = one.right.value if isinstance(one.right, Constant) else None
        if not isinstance(value, datetime) or value.tzinfo or types.get(one.left.name.lower()) != "timestamp":
            return one
        offset = timedelta(microseconds=microseconds(value) - instant(value))
        return replace(one, right=Constant(value.replace(tzinfo=timezone(offset))))

    def settled_rules(rules: Iterable[Constraint]) -> tuple[Constraint, ...]:
        return tuple(replace(one, bodies=tuple(tuple(map(settled, body)) for body in one.bodies)) for one in rules)

    watching = constraint_set.dependencies
    return replace(
        constraint_set,
        constraints=settled_rules(constraint_set.constraints),
        dependencies=replace(watching, pinned=settled_rules(watching.pinned)),
    )
