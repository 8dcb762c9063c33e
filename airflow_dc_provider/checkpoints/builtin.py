"""Rules that built-in expectations express without loss, as a suite for Great Expectations alone, on the table itself.

Without loss means: on Spark the expectation fails exactly when the table has a violation of the rule. That leaves out
rules with a tolerance (the gate's is about a load, not about the table), ``nulls: equal``, and constants that Great
Expectations would compare as floating-point numbers.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from great_expectations import ExpectationSuite
from great_expectations import expectations as gxe
from great_expectations.data_context import AbstractDataContext
from great_expectations.exceptions import DataContextError
from great_expectations.expectations.expectation import Expectation

from spark_jobs.constraints.files import load_constraints
from spark_jobs.constraints.model import Body, Column, Constant, Constraint, Op, Predicate
from spark_jobs.verdict import Verdict

_SEVERITIES = {"error": "critical", "warn": "warning"}
_IDS = uuid.UUID("0f4c8a53-6a0d-4f0e-8a86-6b1a2d0e8a55")
_EXACT = 2**53


def export_builtin_suite(context: AbstractDataContext, name: str, verdict: Verdict) -> ExpectationSuite:
    """Make or update the suite of the rules that built-in expectations express."""
    wanted = {one.name: builtin_expectation(one) for one in constraints_of(verdict)}
    configurations = [
        {**one.configuration.to_json_dict(), "id": str(uuid.uuid5(_IDS, f"{name}\n{rule}"))}
        for rule, one in wanted.items()
        if one is not None
    ]
    try:
        suite = context.suites.get(name)
    except DataContextError:
        suite = context.suites.add(ExpectationSuite(name=name))
    expectations = ExpectationSuite(name=name, expectations=configurations).expectations
    if suite.expectations != expectations:
        suite.expectations = expectations
        suite.save()
    return suite


def constraints_of(verdict: Verdict) -> tuple[Constraint, ...]:
    """The constraints that a verdict is about."""
    entries = []
    for one in verdict.constraints:
        entry: dict[str, Any] = {"name": one.name, "kind": one.kind, "formula": one.formula, "nulls": one.nulls}
        rows = {"max_violating_rows": one.max_violating_rows}
        tolerance = {"max_new_violations": one.max_new_violations or 0} if one.max_violating_rows is None else rows
        description = {"description": one.description} if one.description else {}
        entries.append({**entry, "severity": one.severity, **tolerance, **description})
    return load_constraints({"version": 1, "table": verdict.table, "constraints": entries}).constraints


def builtin_expectation(constraint: Constraint) -> Expectation | None:
    """The built-in expectation that holds on a table just when the constraint does, if there is one."""
    tolerance = constraint.tolerance
    tolerated = tolerance.max_new_violations or tolerance.max_violating_rows or tolerance.max_violating_share
    if constraint.nulls != "ignore" or tolerated:
        return None
    about = {
        "severity": _SEVERITIES[constraint.severity],
        "meta": {"constraint": constraint.name},
        **({"notes": constraint.description} if constraint.description else {}),
    }
    if constraint.kind == "unique":
        return _unique(constraint.columns, about)
    if constraint.rows == 1:
        return _row_rule(constraint.bodies, about)
    return None


def _unique(columns: Sequence[str], about: dict[str, Any]) -> Expectation:
    if len(columns) == 1:
        return gxe.ExpectColumnValuesToBeUnique(column=columns[0], **about)
    return gxe.ExpectCompoundColumnsToBeUnique(column_list=list(columns), ignore_row_if="any_value_is_missing", **about)


def _row_rule(bodies: Sequence[Body], about: dict[str, Any]) -> Expectation | None:
    columns = {predicate.left.key[1] for body in bodies for predicate in body}
    constants = [one for body in bodies for one in body if isinstance(one.right, Constant) and _is_exact(one.right)]
    if len(columns) == 1 and len(constants) == sum(map(len, bodies)):
        return _of_constants(bodies, about)
    if len(bodies) == len(bodies[0]) == 1:
        return _of_two_columns(bodies[0][0], about)
    return None


def _of_constants(bodies: Sequence[Body], about: dict[str, Any]) -> Expectation | None:
    """One column against constants: a set, what is outside of a set, or a bound."""
    column = bodies[0][0].left.name
    values = [one.right.value for body in bodies for one in body if isinstance(one.right, Constant)]
    ops = {predicate.op for body in bodies for predicate in body}
    alike = len({type(value) for value in values}) == 1
    if ops == {Op.NE} and len(bodies) == 1 and alike:
        return gxe.ExpectColumnValuesToBeInSet(column=column, value_set=values, **about)
    if ops == {Op.EQ} and len(values) == len(bodies) and alike:
        return gxe.ExpectColumnValuesToNotBeInSet(column=column, value_set=values, **about)
    if len(values) == 1 and isinstance(values[0], int):
        (op,) = ops
        bound = {"min_value" if op in (Op.LT, Op.LE) else "max_value": values[0]}
        strict = {"strict_min" if op is Op.LE else "strict_max": True} if op in (Op.LE, Op.GE) else {}
        return gxe.ExpectColumnValuesToBeBetween(column=column, **bound, **strict, **about)
    return None


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


def _is_exact(constant: Constant) -> bool:
    """Whether a constant means the same to Great Expectations: text, and whole numbers of any column."""
    value = constant.value
    return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _EXACT)
