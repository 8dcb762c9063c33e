"""The meaning of a violation in Spark SQL: a self-join over all pairs of rows."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

from pyspark.sql import DataFrame

from dc_engine.constraints.model import Body, Column, Constant, Constraint, Op, Predicate


def count_violations(rows: DataFrame, constraint: Constraint) -> int:
    """How many violations a table has. The rows need a column ``row_number`` that tells them apart."""
    spark = rows.sparkSession
    rows.createOrReplaceTempView("oracle_rows")
    if constraint.rows == 1:
        body = " or ".join(_body(one, constraint.nulls) for one in constraint.bodies)
        query = f"select count(*) from oracle_rows t where {body}"
    else:
        both = [_body(one, constraint.nulls, *names) for one in constraint.bodies for names in (("t", "s"), ("s", "t"))]
        query = (
            "select count(*) from oracle_rows t join oracle_rows s on t.row_number < s.row_number "
            f"where {' or '.join(both)}"
        )
    return spark.sql(query).collect()[0][0]


def _body(body: Body, nulls: str, t: str = "t", s: str = "s") -> str:
    names = {"t": t, "s": s}
    return "(" + " and ".join(_predicate(one, nulls, names) for one in body) + ")"


def _predicate(predicate: Predicate, nulls: str, names: dict[str, str]) -> str:
    left, right = _term(predicate.left, names), _term(predicate.right, names)
    if nulls == "equal" and predicate.op in (Op.EQ, Op.NE):
        return f"{left} <=> {right}" if predicate.op is Op.EQ else f"not ({left} <=> {right})"
    return f"coalesce({left} {predicate.op.value} {right}, false)"


def _term(term: Column | Constant, names: dict[str, str]) -> str:
    if isinstance(term, Column):
        return f"{names[term.row]}.`{term.name}`"
    value = term.value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return f"timestamp '{value}'" if value.tzinfo else f"timestamp_ntz '{value}'"
    if isinstance(value, date):
        return f"date '{value}'"
    if isinstance(value, Decimal):
        return f"{value:f}BD"
    return f"'{value}'" if isinstance(value, str) else str(value)
