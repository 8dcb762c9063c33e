"""One way to write a body, and one text for all constraints that mean the same."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from decimal import Decimal
from typing import Literal

from dc_engine.constraints.model import Body, Column, Constant, Constraint, Nulls, Predicate, Row, microseconds
from dc_engine.constraints.printer import print_value, quote_name

_OTHER_ROW: dict[Row, Row] = {"t": "s", "s": "t"}


def normalise(body: Body) -> Body:
    """The same body, each predicate once, with t on the left of every ``t op s``; about t when about one row.

    Predicates keep their reading order.
    """
    if all(column.row == "s" for column in _columns(body)):
        body = _exchange_rows(body)
    once: dict[str, Predicate] = {}
    for predicate in map(_t_on_the_left, body):
        once.setdefault(_key(predicate), predicate)
    return tuple(once.values())


def swapped(body: Body) -> Body:
    """The body that says of (s, t) what this one says of (t, s)."""
    return normalise(_exchange_rows(body))


def meaning(constraint: Constraint) -> str:
    """A text that is the same for constraints that deny the same pairs, however they are written.

    Exchanging t and s, the order of predicates and of bodies, flipped predicates and the case of names change
    nothing. Name, severity, tolerance and description are no part of it.
    """
    return meaning_of(constraint.bodies, constraint.nulls)


def meaning_of(bodies: Iterable[Body], nulls: Nulls | Literal["first"]) -> str:
    """The same for bodies alone."""
    return f"nulls {nulls}: " + " or ".join(sorted(set(map(_body_meaning, bodies))))


def value_key(constant: Constant) -> tuple[str, str]:
    """The type family of a constant and a text that is the same for equal values of it."""
    value = constant.value
    match value:
        case bool():
            return "boolean", print_value(value)
        case int() | Decimal():
            return "number", _number_text(Decimal(value))
        case str():
            return "string", value
        case datetime() if value.tzinfo is not None:
            return "instant", str(microseconds(value))
        case datetime():
            return "timestamp", value.isoformat(" ")
        case date():
            return "date", value.isoformat()


def _body_meaning(body: Body) -> str:
    ways = (normalise(body), swapped(body))
    return min(" and ".join(sorted({_key(predicate) for predicate in way})) for way in ways)


def _columns(body: Body) -> list[Column]:
    return [side for one in body for side in (one.left, one.right) if isinstance(side, Column)]


def _exchange_rows(body: Body) -> Body:
    return tuple(Predicate(_other(one.left), one.op, _exchanged(one.right)) for one in body)


def _other(column: Column) -> Column:
    return Column(_OTHER_ROW[column.row], column.name)


def _exchanged(term: Column | Constant) -> Column | Constant:
    return _other(term) if isinstance(term, Column) else term


def _t_on_the_left(predicate: Predicate) -> Predicate:
    left, right = predicate.left, predicate.right
    if isinstance(right, Column) and left.row == "s" and right.row == "t":
        return Predicate(right, predicate.op.flipped, left)
    return predicate


def _key(predicate: Predicate) -> str:
    """A text that is the same for two normalised predicates that say the same."""
    left, op, right = predicate.left, predicate.op, predicate.right
    if not isinstance(right, Column):
        family, text = value_key(right)
        return f"{_column_text(left)} {op.value} {family} {text!r}"
    if left.row == right.row and right.key < left.key:
        left, op, right = right, op.flipped, left
    return f"{_column_text(left)} {op.value} {_column_text(right)}"


def _column_text(column: Column) -> str:
    row, name = column.key
    return f"{row}.{quote_name(name)}"


def _number_text(number: Decimal) -> str:
    """Digits and exponent without trailing zeros (``Decimal.normalize`` would round to 28 digits)."""
    sign, digits, exponent = number.as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    if not text:
        return "0"
    stripped = text.rstrip("0")
    assert isinstance(exponent, int)  # constants are finite
    return f"{'-' if sign else ''}{stripped}e{exponent + len(text) - len(stripped)}"
