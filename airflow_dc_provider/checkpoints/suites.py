"""The other way round: an existing suite's built-in expectations as a constraint file.

Taken over is what the constraint language says exactly as the expectation does. All else is named with the reason, and
stays with Great Expectations.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import yaml
from great_expectations import ExpectationSuite
from great_expectations.expectations.expectation import Expectation

from spark_jobs.constraints.files import VERSION, load_constraints
from spark_jobs.constraints.model import ConstraintSet
from spark_jobs.constraints.printer import print_name, print_value
from spark_jobs.errors import ConstraintError

_SEVERITIES = {"critical": "error", "warning": "warn", "info": "warn"}


@dataclass(frozen=True, slots=True)
class FromSuite:
    """A constraint file made of a suite, and what is not in it."""

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
        notes = (" ".join(one.split()) for one in self.left_out)
        return text + "".join(f"# Left to Great Expectations: {note}\n" for note in notes)


class _LeftOutError(Exception):
    """An expectation that the constraint language does not express; its text says why."""


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
            for name, rule in _rules(expectation, never_null):
                entry = {"name": _free(name, entries), **rule, **_common(expectation)}
                load_constraints({"version": VERSION, "table": table, "constraints": [entry]})
                entries[entry["name"]] = entry
        except (_LeftOutError, ConstraintError) as error:
            said = error.message if isinstance(error, ConstraintError) else str(error)
            left_out.append(f"{expectation.expectation_type} of {_columns_of(expectation)}: {said}")
    if not entries:
        raise ConstraintError(
            f"No expectation of suite '{suite.name}' can be a constraint. {' '.join(left_out)}".strip(),
            hint="Constraints are rules between rows, bounds, sets and comparisons of two columns.",
        )
    document: dict[str, Any] = {"version": VERSION, "table": table}
    if key:
        document["key"] = list(key)
    return FromSuite({**document, "constraints": list(entries.values())}, tuple(left_out))


def _rules(expectation: Expectation, never_null: set[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The constraints of one expectation: a name and the rule of each."""
    make = _MAKERS.get(expectation.expectation_type)
    if make is None:
        raise _LeftOutError("the constraint language has no word for it.")
    if getattr(expectation, "row_condition", None) is not None:
        raise _LeftOutError("it has a row_condition.")
    parameters = [
        name for name, value in expectation.dict().items() if isinstance(value, dict) and "$PARAMETER" in value
    ]
    if parameters:
        raise _LeftOutError(f"its {parameters[0]} is known only when it runs ($PARAMETER).")
    yield from make(expectation, never_null)


def _unique(expectation: Any, _: set[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield f"{expectation.column}_is_unique", {"unique": [_listed(expectation.column)]}


def _compound(expectation: Any, never_null: set[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    columns = list(expectation.column_list)
    rule: dict[str, Any] = {"unique": [_listed(column) for column in columns]}
    policy = str(getattr(expectation.ignore_row_if, "value", expectation.ignore_row_if))
    if policy == "never" or (policy == "all_values_are_missing" and never_null & set(columns)):
        rule["nulls"] = "equal"
    elif policy == "all_values_are_missing" and not never_null >= set(columns):
        raise _LeftOutError(
            "ignore_row_if is 'all_values_are_missing', and a constraint passes over rows with any NULL, or none. "
            "Expect one of its columns to have no NULL, or set ignore_row_if to 'any_value_is_missing'."
        )
    yield f"{'_'.join(columns)}_is_unique", rule


def _greater(expectation: Any, never_null: set[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    first, second = expectation.column_A, expectation.column_B
    _check_nulls_skipped(expectation, {first, second}, never_null)
    op, word = ("<", "at_least") if expectation.or_equal else ("<=", "greater_than")
    yield f"{first}_is_{word}_{second}", {"deny": f"t.{print_name(first)} {op} t.{print_name(second)}"}


def _equal(expectation: Any, never_null: set[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    first, second = expectation.column_A, expectation.column_B
    _check_nulls_skipped(expectation, {first, second}, never_null)
    yield f"{first}_equals_{second}", {"deny": f"t.{print_name(first)} != t.{print_name(second)}"}


def _between(expectation: Any, _: set[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    column = f"t.{print_name(expectation.column)}"
    low, high = expectation.min_value, expectation.max_value
    bounds = {value: _constant(value, bound=True) for value in (low, high) if value is not None}
    if low is not None:
        op = "<=" if expectation.strict_min else "<"
        yield f"{expectation.column}_is_not_too_small", {"deny": f"{column} {op} {bounds[low]}"}
    if high is not None:
        op = ">=" if expectation.strict_max else ">"
        yield f"{expectation.column}_is_not_too_large", {"deny": f"{column} {op} {bounds[high]}"}


def _in_set(expectation: Any, _: set[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    values = _set(expectation)
    column = f"t.{print_name(expectation.column)}"
    yield f"{expectation.column}_is_known", {"deny": " and ".join(f"{column} != {value}" for value in values)}


def _not_in_set(expectation: Any, _: set[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    values = _set(expectation)
    column = f"t.{print_name(expectation.column)}"
    formula = " and ".join(f"not ({column} = {value})" for value in values)
    yield f"{expectation.column}_is_not_forbidden", {"formula": formula}


_MAKERS: dict[str, Callable[[Any, set[str]], Iterator[tuple[str, dict[str, Any]]]]] = {
    "expect_column_values_to_be_unique": _unique,
    "expect_compound_columns_to_be_unique": _compound,
    "expect_column_pair_values_a_to_be_greater_than_b": _greater,
    "expect_column_pair_values_to_be_equal": _equal,
    "expect_column_values_to_be_between": _between,
    "expect_column_values_to_be_in_set": _in_set,
    "expect_column_values_to_not_be_in_set": _not_in_set,
}


def _common(expectation: Expectation) -> dict[str, Any]:
    """Severity, tolerance and description, where they are not the default."""
    entry: dict[str, Any] = {}
    severity = _SEVERITIES[str(getattr(expectation.severity, "value", expectation.severity))]
    if severity != "error":
        entry["severity"] = severity
    mostly = getattr(expectation, "mostly", None)
    if mostly is not None and mostly != 1:
        entry["max_violating_rows"] = f"{(1 - Decimal(str(mostly))) * 100:f}%"
    notes = expectation.notes if isinstance(expectation.notes, str) else " ".join(expectation.notes or ())
    if text := (expectation.description or notes):
        entry["description"] = text
    return entry


def _never_null(expectations: Sequence[Expectation]) -> set[str]:
    """The columns that the suite expects to have no NULL."""
    return {
        one.column
        for one in expectations
        if one.expectation_type == "expect_column_values_to_not_be_null"
        and one.mostly == 1
        and one.row_condition is None
    }


def _check_nulls_skipped(expectation: Any, columns: set[str], never_null: set[str]) -> None:
    policy = str(getattr(expectation.ignore_row_if, "value", expectation.ignore_row_if))
    if policy != "either_value_is_missing" and not never_null >= columns:
        raise _LeftOutError(
            f"ignore_row_if is '{policy}', and a constraint passes over rows with a NULL. Expect both columns to have "
            "no NULL, or set ignore_row_if to 'either_value_is_missing'."
        )


def _set(expectation: Any) -> list[str]:
    values = expectation.value_set
    if not values:
        raise _LeftOutError("its value_set is empty.")
    return list(dict.fromkeys(_constant(value) for value in values if value is not None))


def _constant(value: Any, *, bound: bool = False) -> str:
    """A value as the constraint language writes it."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _LeftOutError(f"{value} is no constant.")
        return print_value(Decimal(repr(value)))
    if isinstance(value, str) and bound:
        raise _LeftOutError(
            f"its bound {value!r} is text, and may stand for a date. Write the rule yourself, with date '...', "
            "timestamp '...' or '...'."
        )
    if isinstance(value, bool | int | Decimal | str | date | datetime):
        return print_value(value)
    raise _LeftOutError(f"{value!r} is no constant.")


def _listed(column: str) -> str:
    return print_name(column) if column.startswith("`") else column


def _free(name: str, taken: Mapping[str, Any]) -> str:
    """A name that no other constraint has, whatever the case."""
    plain = re.sub(r"[^\w.-]+", "_", name)[:150]
    known = {one.lower() for one in taken}
    number, free = 2, plain
    while free.lower() in known:
        number, free = number + 1, f"{plain}_{number}"
    return free


def _columns_of(expectation: Expectation) -> str:
    names = [getattr(expectation, name, None) for name in ("column", "column_A", "column_B")]
    found = [*(one for one in names if one), *(getattr(expectation, "column_list", None) or ())]
    return ", ".join(found) or "the table"
