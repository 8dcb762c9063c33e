"""What a dependency is called: its class, an id that never changes, and a short text for people."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal

from dc_engine.constraints.building import is_between
from dc_engine.constraints.model import Body, Constraint, Nulls, Op
from dc_engine.constraints.normalise import meaning_of
from dc_engine.constraints.printer import print_bodies, print_name

DependencyClass = Literal["unique", "fd", "dc"]
_ID_DIGITS = 12


def class_of(bodies: Sequence[Body]) -> DependencyClass:
    """The simplest class that these bodies belong to.

    ``unique`` has nothing but columns that are equal in both rows, an ``fd`` one more that is not; all else is ``dc``.
    """
    if len(bodies) != 1 or not all(map(is_between, bodies[0])):
        return "dc"
    others = [one.op for one in bodies[0] if one.op is not Op.EQ]
    if not others:
        return "unique"
    return "fd" if others == [Op.NE] else "dc"


def dependency_id(kind: str, bodies: Sequence[Body], nulls: Nulls) -> str:
    """The id of a dependency of some class: the same for all that say the same, however they are written.

    The order of predicates, exchanging t and s, and the case of names change nothing.
    """
    digest = hashlib.sha256(meaning_of(bodies, nulls).encode()).hexdigest()
    return f"{kind}-{digest[:_ID_DIGITS]}"


def id_of(rule: Constraint) -> str:
    """The id that a written rule has as a dependency."""
    return dependency_id(class_of(rule.bodies), rule.bodies, rule.nulls)


def text_of(bodies: Sequence[Body]) -> str:
    """Short, for people: ``zip -> city``, ``unique [area_code, phone]``, ``city constant``; else the formula."""
    kind = class_of(bodies)
    if kind == "dc":
        return print_bodies(tuple(bodies))
    equal, unequal = columns_of(bodies)
    left = ", ".join(map(print_name, equal))
    if kind == "unique":
        return f"unique [{left}]"
    return f"{left} -> {print_name(unequal[0])}" if left else f"{print_name(unequal[0])} constant"


def columns_of(bodies: Sequence[Body]) -> tuple[list[str], list[str]]:
    """The columns in which the rows of a violated ``unique`` or ``fd`` agree, and those in which they differ."""
    pairs = [(one.left.name, one.op) for body in bodies for one in body]
    return [name for name, op in pairs if op is Op.EQ], [name for name, op in pairs if op is not Op.EQ]
