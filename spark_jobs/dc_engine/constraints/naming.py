"""What a dependency is called: its class, an id that never changes, and a short text for people."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal

from dc_engine.constraints.building import is_between
from dc_engine.constraints.model import Body, Constraint, Nulls, Op
from dc_engine.constraints.normalise import meaning_of
from dc_engine.constraints.printer import print_bodies, print_name

DependencyClass = Literal["unique", "fd", "pod", "dc"]
_ID_DIGITS = 12


def class_of(bodies: Sequence[Body]) -> DependencyClass:
    """The simplest class that these bodies belong to.

    ``unique`` has nothing but columns that are equal in both rows, an ``fd`` one more that is not, a ``pod`` others
    whose order counts, each column once; all else is ``dc``.
    """
    if len(bodies) != 1 or not all(map(is_between, bodies[0])):
        return "dc"
    others = [one.op for one in bodies[0] if one.op is not Op.EQ]
    if not others:
        return "unique"
    if others == [Op.NE]:
        return "fd"
    once = len({one.left.key for one in bodies[0]}) == len(bodies[0])
    return "pod" if once and others.count(Op.NE) <= 1 else "dc"


def dependency_id(kind: str, bodies: Sequence[Body], nulls: Nulls) -> str:
    """The id of a dependency of some class: the same for all that say the same, however they are written.

    The order of predicates, exchanging t and s, and the case of names change nothing. In class ``od`` NULLs are the
    first values of a column, whatever ``nulls`` says; where nothing is compared by order, that is ``equal``.
    """
    reading: Nulls | Literal["first"] = nulls
    if kind == "od":
        ordered = any(one.op not in (Op.EQ, Op.NE) for body in bodies for one in body)
        reading = "first" if ordered else "equal"
    digest = hashlib.sha256(meaning_of(bodies, reading).encode()).hexdigest()
    return f"{kind}-{digest[:_ID_DIGITS]}"


def meaning_in(id_: str) -> str:
    """What is the same in the ids of a rule, whatever class it was found or written as."""
    return id_.rpartition("-")[2]


def id_of(rule: Constraint) -> str:
    """The id that a written rule has as a dependency."""
    return dependency_id(class_of(rule.bodies), rule.bodies, rule.nulls)


def text_of(bodies: Sequence[Body]) -> str:
    """Short, for people: ``zip -> city``, ``unique [a, b]``, ``city constant``, ``a > -> b >``; else the formula."""
    kind = class_of(bodies)
    if kind == "pod":
        return pod_text(bodies[0]) or print_bodies(tuple(bodies))
    if kind == "dc":
        return print_bodies(tuple(bodies))
    equal, unequal = columns_of(bodies)
    left = ", ".join(map(print_name, equal))
    if kind == "unique":
        return f"unique [{left}]"
    return f"{left} -> {print_name(unequal[0])}" if left else f"{print_name(unequal[0])} constant"


def order_text(body: Body) -> str:
    """The same in class ``od``: ``rate constant within [state]``, ``salary ~ rate descending within [state]``."""
    equal, others = columns_of([body])
    within = f" within [{', '.join(map(print_name, equal))}]" if equal else ""
    one, *rest = map(print_name, others)
    if not rest:
        return f"{one} constant{within}"
    same = len({predicate.op for predicate in body if predicate.op is not Op.EQ}) == 1
    return f"{one} ~ {rest[0]}{' descending' if same else ''}{within}"


def pod_text(body: Body) -> str:
    """``midterm >, final > -> grade >``; nothing if there is no left side.

    The right side is the column with ``!=`` if there is one, else the last whose order counts. Of the two ways to say
    it, t above s and s above t, it is the one that people begin with: what is higher.
    """
    left, right = pod_sides(body)
    marks = ", ".join(f"{print_name(name)} {op.value}" for name, op in left)
    return f"{marks} -> {print_name(right[0])} {right[1].value}" if left else ""


def pod_sides(body: Body) -> tuple[list[tuple[str, Op]], tuple[str, Op]]:
    """The columns on the left side of a ``pod`` and the one on its right side, with their operators."""
    orders = [one for one in body if one.op not in (Op.EQ, Op.NE)]
    right = next((one for one in body if one.op is Op.NE), None) or orders[-1]
    deciding = right.op.negated if right.op is not Op.NE else orders[0].op if orders else Op.EQ
    marks = {one.left: one.op.flipped if deciding in (Op.LT, Op.LE) else one.op for one in body}
    last = marks.pop(right.left)
    return [(column.name, op) for column, op in marks.items()], (right.left.name, last.negated)


def columns_of(bodies: Sequence[Body]) -> tuple[list[str], list[str]]:
    """The columns in which the rows of a violated ``unique`` or ``fd`` agree, and those in which they differ."""
    pairs = [(one.left.name, one.op) for body in bodies for one in body]
    return [name for name, op in pairs if op is Op.EQ], [name for name, op in pairs if op is not Op.EQ]
