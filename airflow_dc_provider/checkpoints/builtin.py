"""Rules that built-in expectations express without loss, as a suite for Great Expectations alone, on the table itself.

Without loss means: on Spark the expectation fails exactly when the table has a violation of the rule. That leaves out
rules with a tolerance (the gate's is about a load, not the table), ``nulls: equal``, bounds of decimals other than
0 (Great Expectations makes them floating-point numbers, and only the sign is then exact), and columns that it cannot
name. Decimals are compared as Spark compares them: it rounds those that together need more than 38 digits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from great_expectations import expectations as gxe
from great_expectations.data_context import AbstractDataContext
from great_expectations.expectations.expectation import Expectation

from airflow_dc_provider.checkpoints.batch import OWN
from airflow_dc_provider.checkpoints.definitions import SEVERITIES, stable_id, suite
from dc_engine.constraints.building import fits
from dc_engine.constraints.files import load_constraints
from dc_engine.constraints.model import Body, Column, Constant, ConstantValue, Constraint, Op, Predicate, Tolerance
from dc_engine.verdict import Verdict

_OF_DOUBLES = ("tinyint", "smallint", "int", "bigint", "float", "double")
"""Types of which a whole number of 53 bits and its double have the same values on either side."""


def export_builtin_suite(context: AbstractDataContext, name: str, verdict: Verdict) -> list[str]:
    """Make or update the suite of the rules that built-in expectations express; returns the names of the others.

    Without any such rule there is no suite: one without expectations would pass.
    """
    found = {one.name: builtin_expectation(one, verdict.columns) for one in constraints_of(verdict)}
    wanted = [
        {**one.configuration.to_json_dict(), "id": stable_id(name, rule)}
        for rule, one in found.items()
        if one is not None
    ]
    known = [one.name for one in context.suites.all()]
    if (wanted or name in known) and not suite(context, name, wanted).expectations:
        context.suites.delete(name)
    return [rule for rule, one in found.items() if one is None]


def constraints_of(verdict: Verdict) -> tuple[Constraint, ...]:
    """The constraints that a verdict is about."""
    entries = []
    for one in verdict.constraints:
        entry: dict[str, Any] = {"name": one.name, "kind": one.kind, "formula": one.formula, "nulls": one.nulls}
        description = {"description": one.description} if one.description else {}
        entries.append({**entry, "severity": one.severity, **one.tolerance.written, **description})
    return load_constraints({"version": 1, "table": verdict.table, "constraints": entries}).constraints


def builtin_expectation(constraint: Constraint, types: Mapping[str, str]) -> Expectation | None:
    """The built-in expectation that holds on a table exactly when the constraint does, if there is one.

    ``types`` has the Spark types of columns, as far as they are known.
    """
    if (
        constraint.nulls != "ignore"
        or _allows_some(constraint.tolerance)
        or not all(map(_can_name, constraint.columns))
    ):
        return None
    about = {
        "severity": SEVERITIES[constraint.severity],
        "meta": {**OWN, "constraint": constraint.name},
        **({"notes": constraint.description} if constraint.description else {}),
    }
    if fits("unique", constraint.bodies):
        return _unique(constraint.columns, about)
    if constraint.rows == 1:
        known = {name.lower(): kind for name, kind in types.items()}
        return _row_rule(constraint.bodies, known, about)
    return None


def _allows_some(tolerance: Tolerance) -> bool:
    return bool(tolerance.max_new_violations or tolerance.max_violating_rows or tolerance.max_violating_share)


def _can_name(column: str) -> bool:
    """Whether every expectation finds the column on Spark; dots and backticks are syntax to some."""
    return column != "*" and not set(column) & {".", "`"}


def _unique(columns: Sequence[str], about: dict[str, Any]) -> Expectation:
    if len(columns) == 1:
        return gxe.ExpectColumnValuesToBeUnique(column=columns[0], **about)
    return gxe.ExpectCompoundColumnsToBeUnique(column_list=list(columns), ignore_row_if="any_value_is_missing", **about)


def _row_rule(bodies: Sequence[Body], types: Mapping[str, str], about: dict[str, Any]) -> Expectation | None:
    predicates = [predicate for body in bodies for predicate in body]
    values = [one.right.value for one in predicates if isinstance(one.right, Constant)]
    if len(values) == len(predicates) and len({one.left.key for one in predicates}) == 1:
        of_doubles = types.get(bodies[0][0].left.name.lower()) in _OF_DOUBLES
        return _set(bodies, values, about) or _between(bodies, about, of_doubles=of_doubles)
    return _of_two_columns(predicates[0], about) if len(predicates) == 1 else None


def _set(bodies: Sequence[Body], values: list[ConstantValue], about: dict[str, Any]) -> Expectation | None:
    """One column in a set, or not in one."""
    column = bodies[0][0].left.name
    ops = {predicate.op for body in bodies for predicate in body}
    if not all(map(_is_exact, values)) or len(set(map(type, values))) > 1:
        return None
    if ops == {Op.NE} and len(bodies) == 1:
        return gxe.ExpectColumnValuesToBeInSet(column=column, value_set=values, **about)
    if ops == {Op.EQ} and len(bodies) == len(values):
        return gxe.ExpectColumnValuesToNotBeInSet(column=column, value_set=values, **about)
    return None


def _between(bodies: Sequence[Body], about: dict[str, Any], *, of_doubles: bool) -> Expectation | None:
    """One column within a bound or two."""
    limits: dict[str, Any] = {}
    for body in bodies:
        predicate, value = body[0], cast(Constant, body[0].right).value
        if len(body) > 1 or predicate.op in (Op.EQ, Op.NE) or type(value) is not int:
            return None
        end = "min" if predicate.op in (Op.LT, Op.LE) else "max"
        if f"{end}_value" in limits or not (value == 0 or (of_doubles and abs(value) < 2**53)):
            return None
        limits |= {f"{end}_value": value, f"strict_{end}": predicate.op in (Op.LE, Op.GE)}
    return gxe.ExpectColumnValuesToBeBetween(column=bodies[0][0].left.name, **limits, **about)


def _of_two_columns(predicate: Predicate, about: dict[str, Any]) -> Expectation | None:
    """Two columns of one row: what is denied, turned round."""
    left, right, op = predicate.left, predicate.right, predicate.op
    if not isinstance(right, Column) or op is Op.EQ:
        return None
    skip = {"ignore_row_if": "either_value_is_missing"}
    if op is Op.NE:
        return gxe.ExpectColumnPairValuesToBeEqual(column_A=left.name, column_B=right.name, **skip, **about)
    large, small = (right, left) if op in (Op.GT, Op.GE) else (left, right)
    return gxe.ExpectColumnPairValuesAToBeGreaterThanB(
        column_A=large.name, column_B=small.name, or_equal=op in (Op.GT, Op.LT), **skip, **about
    )


def _is_exact(value: ConstantValue) -> bool:
    """Whether a constant means the same in a set of Great Expectations: text, booleans, whole numbers of 32 bits."""
    return isinstance(value, str | bool) or (isinstance(value, int) and abs(value) < 2**31)
