"""Constraints back to text. What is printed here parses to the same bodies."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

from dc_engine.constraints.model import Body, Column, Constant, ConstantValue, Constraint, Predicate
from dc_engine.constraints.tokens import KEYWORDS


def formula(constraint: Constraint) -> str:
    """``not (...)``, or ``not (...) and not (...)`` for a constraint of several bodies."""
    return print_bodies(constraint.bodies)


def print_bodies(bodies: tuple[Body, ...]) -> str:
    """The formula that denies all of these bodies."""
    return " and ".join(f"not ({print_body(body)})" for body in bodies)


def print_body(body: Body) -> str:
    """The predicates joined with ``and``, as in a ``deny``."""
    return " and ".join(map(print_predicate, body))


def print_predicate(predicate: Predicate) -> str:
    """``t.a < s.b``."""
    return f"{print_term(predicate.left)} {predicate.op.value} {print_term(predicate.right)}"


def print_term(term: Column | Constant) -> str:
    """A column with its row, or a constant."""
    if isinstance(term, Column):
        return f"{term.row}.{print_name(term.name)}"
    return print_value(term.value)


def print_name(name: str) -> str:
    """A column's name, in backticks when it is not a plain word."""
    if name.isidentifier() and name.lower() not in KEYWORDS and _is_word(name):
        return name
    return quote_name(name)


def quote_name(name: str) -> str:
    """A column's name in backticks."""
    return "`" + name.replace("`", "``") + "`"


def print_value(value: ConstantValue) -> str:
    """A constant as the grammar reads it."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case Decimal():
            text = str(value)
            return text if "." in text or "E" in text else f"{text}.0"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case datetime():
            return f"timestamp '{value.isoformat(' ')}'"
        case date():
            return f"date '{value.isoformat()}'"


def _is_word(name: str) -> bool:
    """Python's identifiers may contain marks that the grammar's words may not."""
    return name.isascii() or all(letter.isalnum() or letter == "_" for letter in name)
