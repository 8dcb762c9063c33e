"""Which Spark types can be compared with which. Types are named as Spark prints them (``decimal(10,2)``)."""

from __future__ import annotations

import enum
import re
from datetime import date, datetime
from decimal import Decimal

from dc_engine.constraints.model import ConstantValue
from dc_engine.errors import SchemaError


class Family(enum.StrEnum):
    """Types whose values compare with each other. Arrays and structs are families of their own, named by their type."""

    INTEGER = "integer"
    DECIMAL = "decimal"
    FLOAT = "float"
    STRING = "string"
    BINARY = "binary"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TIMESTAMP_NTZ = "timestamp_ntz"
    TIME = "time"
    INTERVAL = "interval"
    MONTHS = "months"
    VOID = "void"


_PLAIN = {
    "tinyint": Family.INTEGER,
    "smallint": Family.INTEGER,
    "int": Family.INTEGER,
    "bigint": Family.INTEGER,
    "float": Family.FLOAT,
    "double": Family.FLOAT,
    "string": Family.STRING,
    "binary": Family.BINARY,
    "boolean": Family.BOOLEAN,
    "date": Family.DATE,
    "timestamp": Family.TIMESTAMP,
    "timestamp_ntz": Family.TIMESTAMP_NTZ,
    "void": Family.VOID,
}
_PREFIXES = {"decimal": Family.DECIMAL, "char(": Family.STRING, "varchar(": Family.STRING, "time(": Family.TIME}
_UNORDERED_INSIDE = re.compile(
    r"(:|array<)(map<|variant\b|interval(?! (day|hour|minute|second))|geometry\(|geography\()|struct<>| collate "
)
"""Types that make arrays and structs incomparable, each after the name of a field or as the type of items."""
_QUOTED_NAME = re.compile(r"`(?:[^`]|``)*`")
_CONSTANTS: dict[str, tuple[type, ...]] = {
    Family.INTEGER: (int, Decimal),
    Family.DECIMAL: (int, Decimal),
    Family.FLOAT: (int, Decimal),
    Family.STRING: (str,),
    Family.BOOLEAN: (bool,),
    Family.DATE: (date,),
    Family.TIMESTAMP: (datetime,),
    Family.TIMESTAMP_NTZ: (datetime,),
}


def family(spark_type: str) -> str | None:
    """The family of types that a type compares with; ``None`` when its values have no order.

    Arrays and structs are families of their own, named by their whole type.
    """
    if spark_type in _PLAIN:
        return _PLAIN[spark_type]
    for prefix, name in _PREFIXES.items():
        if spark_type.startswith(prefix):
            return name
    if re.match(r"interval (day|hour|minute|second)", spark_type):
        return Family.INTERVAL
    if is_months(spark_type):
        return Family.MONTHS
    if spark_type.startswith(("array<", "struct<")) and not _UNORDERED_INSIDE.search(_QUOTED_NAME.sub("", spark_type)):
        return spark_type
    return None


def is_months(spark_type: str) -> bool:
    """Whether values are intervals of years and months, unknown to Arrow: they are kept as numbers of months."""
    return bool(re.match(r"interval (year|month)", spark_type))


def common_family(families: set[str]) -> str | None:
    """The family in which all of these compare; ``None`` when they do not."""
    known = families - {Family.VOID}
    if not known:
        return Family.VOID
    if known == {Family.INTEGER, Family.DECIMAL}:
        return Family.DECIMAL
    return known.pop() if len(known) == 1 else None


def check_constant(value: ConstantValue, of_family: str, *, where: str) -> None:
    """Refuse a constant that a column of this family would not be compared with."""
    accepted = _CONSTANTS.get(of_family, ())
    plain = type(value) if not isinstance(value, datetime) else datetime
    if plain not in accepted:
        raise SchemaError(
            f"{where} compares a column of type {of_family} with {_describe(value)}.",
            hint=_CONSTANT_HINTS.get(of_family, "Columns of this type compare with columns only."),
        )
    if plain in (int, Decimal) and of_family != Family.FLOAT and not _fits(Decimal(value)):  # type: ignore[arg-type]
        raise SchemaError(
            f"{where} compares a column with {_describe(value)}, which is out of range for type {of_family}.",
            hint="Numbers have at most 38 digits before and 38 after the decimal point.",
        )


def _fits(value: Decimal) -> bool:
    _, digits, exponent = value.as_tuple()
    return isinstance(exponent, int) and exponent >= -38 and len(digits) + exponent <= 38


_CONSTANT_HINTS: dict[str, str] = {
    Family.INTEGER: "Write a number.",
    Family.DECIMAL: "Write a number.",
    Family.FLOAT: "Write a number.",
    Family.STRING: "Write a text in quotes: 'abc'.",
    Family.BOOLEAN: "Write true or false.",
    Family.DATE: "Write date '2026-01-31'.",
    Family.TIMESTAMP: "Write timestamp '2026-01-31 12:00:00'.",
    Family.TIMESTAMP_NTZ: "Write timestamp '2026-01-31 12:00:00'.",
}


def _describe(value: ConstantValue) -> str:
    names = {
        bool: "a truth value",
        int: "a number",
        Decimal: "a number",
        str: "a text",
        datetime: "a timestamp",
    }
    return f"{names.get(type(value), 'a date')} ({value})"
