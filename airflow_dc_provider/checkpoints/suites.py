"""The other way round: an existing suite's built-in expectations as a constraint file.

It takes over what the constraint language says exactly as the expectation does. Everything else is named with the
reason, and stays with Great Expectations.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

import yaml
from great_expectations import ExpectationSuite
from great_expectations.expectations.expectation import Expectation

from dc_engine.constraints.files import VERSION, load_constraints
from dc_engine.constraints.model import ConstraintSet
from dc_engine.constraints.printer import print_name, print_value
from dc_engine.errors import ConstraintError

_SEVERITIES = {"critical": "error", "warning": "warn", "info": "warn"}
_SKIPPED = {
    "either_value_is_missing": "any",
    "any_value_is_missing": "any",
    "both_values_are_missing": "all",
    "all_values_are_missing": "all",
    "neither": "none",
    "never": "none",
}
"""Which rows an ``ignore_row_if`` skips: those with any NULL in the columns, with nothing but NULL, or none."""

Rule = tuple[str, dict[str, Any]]
"""A name for a constraint, and its entry without what all expectations have."""


@dataclass(frozen=True, slots=True)
class FromSuite:
    """A constraint file made from a suite, and what is not in it."""

    document: Mapping[str, Any]
    """The constraint file as a mapping, as ``DcGateOperator(constraints=...)`` takes it."""
    left_out: tuple[str, ...]
    """The expectations that were not taken over, each with the reason."""

    @property
    def constraints(self) -> ConstraintSet:
        """The constraints themselves."""
        return load_constraints(self.document)

    def to_yaml(self) -> str:
        """The constraint file, with what was left out as comments."""
        text = yaml.safe_dump(dict(self.document), sort_keys=False, allow_unicode=True, width=110)
        return text + "".join(f"# Left to Great Expectations: {_one_line(note)}\n" for note in self.left_out)


def constraints_from_suite(suite: ExpectationSuite, *, table: str, key: Sequence[str] = ()) -> FromSuite:
    """The constraints that say what a suite's built-in expectations say.

    :param suite: The suite, as ``context.suites.get(...)`` gives it.
    :param table: The name of the table, for the constraint file.
    :param key: The columns by which people recognise a row.
    """
    entries: dict[str, dict[str, Any]] = {}
    left_out = []
    never_null = _never_null(suite.expectations)
    for expectation in suite.expectations:
        try:
            name, rule = _rule(expectation, never_null)
            entry = {"name": _free(name, entries), **rule, **_common(expectation)}
            load_constraints({"version": VERSION, "table": "any", "constraints": [entry]})
        except ConstraintError as error:
            left_out.append(f"{expectation.expectation_type} of {_shown(_columns(expectation))}: {error}")
        else:
            entries[entry["name"]] = entry
    if not entries:
        raise ConstraintError(
            f"No expectation of suite '{suite.name}' can be a constraint. {' '.join(left_out)}".strip(),
            hint="Constraints are unique columns, bounds, sets, and comparisons of two columns.",
        )
    document: dict[str, Any] = {"version": VERSION, "table": table}
    if key:
        document["key"] = list(map(_listed, key))
    taken = FromSuite({**document, "constraints": list(entries.values())}, tuple(left_out))
    load_constraints(taken.document)  # the names of table and key may be wrong
    return taken


def _rule(expectation: Expectation, never_null: set[str]) -> Rule:
    """The constraint of an expectation."""
    make = _MAKERS.get(expectation.expectation_type)
    if make is None:
        raise ConstraintError("the constraint language cannot express it.")
    for name, value in expectation.dict().items():
        if isinstance(value, dict) and "$PARAMETER" in value:
            raise ConstraintError(f"its {name} is known only when it runs ($PARAMETER).")
    if expectation.row_condition:
        raise ConstraintError("it has a row_condition, and is only about those rows.")
    skipped = _skipped(expectation, never_null)
    if expectation.mostly != 1 and skipped != "none" and not never_null.issuperset(_columns(expectation)):
        raise ConstraintError(
            "its mostly is a share of the rows without NULL, max_violating_rows a share of all rows.",
            hint="Expect its columns to have no NULL.",
        )
    return make(expectation, skipped)


def _skipped(expectation: Expectation, never_null: set[str]) -> str:
    """Which rows Great Expectations skips, as far as there can be such rows."""
    columns = set(_columns(expectation))
    skipped = _SKIPPED[getattr(expectation, "ignore_row_if", "any_value_is_missing")]
    if never_null >= columns:
        return "any"
    return "none" if skipped == "all" and never_null & columns else skipped


def _unique(expectation: Any, _: str) -> Rule:
    return f"{expectation.column}_is_unique", {"unique": [_listed(expectation.column)]}


def _compound(expectation: Any, skipped: str) -> Rule:
    if skipped == "all":
        raise _other_nulls(expectation, "any_value_is_missing")
    columns = expectation.column_list
    nulls = {"nulls": "equal"} if skipped == "none" else {}
    return f"{'_'.join(columns)}_is_unique", {"unique": list(map(_listed, columns)), **nulls}


def _greater(expectation: Any, skipped: str) -> Rule:
    if skipped != "any":
        raise _other_nulls(expectation, "either_value_is_missing")
    first, second = expectation.column_A, expectation.column_B
    op, word = ("<", "at_least") if expectation.or_equal else ("<=", "greater_than")
    return f"{first}_is_{word}_{second}", _denied(f"{_of_row(first)} {op} {_of_row(second)}")


def _equal(expectation: Any, skipped: str) -> Rule:
    if skipped == "none" and expectation.ignore_row_if == "neither":
        # two NULLs are equal on Spark, and not elsewhere
        raise _other_nulls(expectation, "both_values_are_missing")
    first, second = expectation.column_A, expectation.column_B
    nulls = {} if skipped == "any" else {"nulls": "equal"}
    return f"{first}_equals_{second}", {**_denied(f"{_of_row(first)} != {_of_row(second)}"), **nulls}


def _between(expectation: Any, _: str) -> Rule:
    column, low, high = _of_row(expectation.column), expectation.min_value, expectation.max_value
    bodies = {}
    if low is not None:
        bodies["too_small"] = f"{column} {'<=' if expectation.strict_min else '<'} {_constant(low)}"
    if high is not None:
        bodies["too_large"] = f"{column} {'>=' if expectation.strict_max else '>'} {_constant(high)}"
    if len(bodies) == 2 and low > high:
        raise ConstraintError("its min_value is greater than its max_value.")
    return f"{expectation.column}_is_not_{'_or_'.join(bodies)}", _denied(*bodies.values())


def _in_set(expectation: Any, _: str) -> Rule:
    if None in expectation.value_set:
        raise ConstraintError(
            "its value_set has None, which on Spark puts every value in the set.",
            hint="Take None out: rows with NULL pass anyway.",
        )
    column = _of_row(expectation.column)
    body = " and ".join(f"{column} != {value}" for value in _set(expectation.value_set))
    return f"{expectation.column}_is_known", _denied(body)


def _not_in_set(expectation: Any, _: str) -> Rule:
    column = _of_row(expectation.column)
    bodies = [f"{column} = {value}" for value in _set(expectation.value_set)]
    return f"{expectation.column}_is_not_forbidden", _denied(*bodies)


_MAKERS: dict[str, Callable[[Any, str], Rule]] = {
    "expect_column_values_to_be_unique": _unique,
    "expect_compound_columns_to_be_unique": _compound,
    "expect_column_pair_values_a_to_be_greater_than_b": _greater,
    "expect_column_pair_values_to_be_equal": _equal,
    "expect_column_values_to_be_between": _between,
    "expect_column_values_to_be_in_set": _in_set,
    "expect_column_values_to_not_be_in_set": _not_in_set,
}


def _common(expectation: Any) -> dict[str, Any]:
    """Severity, tolerance and description, where they are not the default."""
    entry: dict[str, Any] = {}
    severity = _SEVERITIES[expectation.severity.value]
    if severity != "error":
        entry["severity"] = severity
    if expectation.mostly != 1:
        percent = (1 - Decimal(str(expectation.mostly))) * 100
        entry["max_violating_rows"] = f"{percent.normalize():f}%"
    notes = expectation.notes if isinstance(expectation.notes, str) else " ".join(expectation.notes or ())
    if text := (expectation.description or notes).strip():
        entry["description"] = text
    return entry


def _never_null(expectations: Iterable[Any]) -> set[str]:
    """The columns that the suite expects to have no NULL."""
    kind = "expect_column_values_to_not_be_null"
    found = [one for one in expectations if one.expectation_type == kind]
    return {one.column for one in found if one.mostly == 1 and not one.row_condition}


def _other_nulls(expectation: Any, better: str) -> ConstraintError:
    return ConstraintError(
        f"its ignore_row_if is '{expectation.ignore_row_if}', and no constraint treats NULL that way.",
        hint=f"Expect its columns to have no NULL, or set ignore_row_if to '{better}'.",
    )


def _denied(*bodies: str) -> dict[str, Any]:
    if len(bodies) == 1:
        return {"deny": bodies[0]}
    return {"formula": " and ".join(f"not ({body})" for body in bodies)}


def _set(values: Sequence[Any]) -> list[str]:
    """The values of a set as constants, each once; NULL is in no set."""
    known = [value for value in values if value is not None]
    if not known:
        raise ConstraintError("its value_set is empty.")
    constants = list(dict.fromkeys(map(_constant, known)))
    if len({type(one) if isinstance(one, str | bool) else float for one in known}) > 1:
        raise ConstraintError("its value_set has values of several types.", hint="A column has one type.")
    return constants


def _constant(value: Any) -> str:
    """A value as the constraint language writes it."""
    if isinstance(value, date):
        hint = "Write the rule yourself, with date '...' or timestamp '...'."
        raise ConstraintError(f"whether {value} is a date or a timestamp depends on the column.", hint=hint)
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return print_value(int(value))
    if isinstance(value, float) and math.isfinite(value):
        return print_value(Decimal(repr(float(value))))
    if isinstance(value, str | int) or (isinstance(value, Decimal) and value.is_finite()):
        return print_value(value)
    raise ConstraintError(f"{value!r} is not a constant.", hint="Constants are numbers, texts, true and false.")


def _of_row(column: str) -> str:
    return f"t.{print_name(column)}"


def _listed(column: str) -> str:
    return print_name(column) if column.startswith("`") else column


def _free(name: str, taken: Iterable[str]) -> str:
    """A name that no other constraint has, ignoring case."""
    plain = re.sub(r"[^\w.-]+", "_", name)[:150]
    known = {one.lower() for one in taken}
    number, free = 2, plain
    while free.lower() in known:
        number, free = number + 1, f"{plain}_{number}"
    return free


def _columns(expectation: Any) -> list[str]:
    names = [getattr(expectation, name, None) for name in ("column", "column_A", "column_B")]
    return [*(one for one in names if one), *(getattr(expectation, "column_list", None) or ())]


def _shown(columns: Sequence[str]) -> str:
    return ", ".join(map(print_name, columns)) or "the table"


def _one_line(text: str) -> str:
    """A text that fits in a comment."""
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))
