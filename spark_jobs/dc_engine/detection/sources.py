"""The changes of a load as a Spark DataFrame: read from any source, checked, every error in a sentence."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from dc_engine.constraints.reserved import FEED_COLUMNS, is_own
from dc_engine.detection.comparable import is_months
from dc_engine.detection.value_hash import hashable, literal, quoted
from dc_engine.errors import ChangesError, SchemaError, did_you_mean
from dc_engine.masking import told
from dc_engine.request import Changes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

_VARIABLE = re.compile(r"\$\{\S+?\}")
"""What Spark replaces in any SQL text, even within backticks."""
_NO_FORMAT = ("DATA_SOURCE_NOT_FOUND", "Failed to find data source", "Failed to find the data source")
_FORMATS = ("parquet", "csv", "json", "orc", "text", "xml", "avro", "delta", "iceberg", "jdbc")
_TEXT_FORMATS = ("csv", "json", "xml")
_STRICT = {"mode": "FAILFAST", "enforceSchema": "false"}
_UNREAD = "The source was found, but reading its rows failed; the Spark log has the details."
_MISFIT = "Check that the files have the columns of the given 'schema', CSV in its order, and values of its types."
_PLAIN_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FIELD = re.compile(r"`(?:[^`]|``)*`|\w+(?=:)")
"""The name of a field in the text of a type."""


def read_changes(
    spark: SparkSession, changes: Changes, what: str = "changes", *, mask: Collection[str] = ()
) -> DataFrame:
    """The rows of a source; nothing is read yet but what is needed to know the columns."""
    _check_schema(spark, changes, what)
    try:
        frame = _open(spark, changes)
        rows = frame.where(changes.where) if changes.where else frame
        rows.schema  # noqa: B018 (a Connect session finds out only now whether the source is there)
    except spark_errors() as error:
        raise ChangesError(
            f"The {what} ({changes}) cannot be read: {told(error, mask)}",
            hint=_cure(str(error), changes, what),
        ) from (None if mask else error)
    return rows


@contextlib.contextmanager
def reading(source: Changes, what: str = "changes", *, mask: Collection[str] = ()) -> Iterator[None]:
    """Let what Spark raises while it reads the rows of a source be a sentence."""
    from pyspark.errors import PythonException

    try:
        yield
    except PythonException:  # what one of our own steps raised, and Spark only passes on
        raise
    except spark_errors() as error:
        raise ChangesError(
            f"The {what} ({source}) cannot be read: {told(error, mask)}",
            hint=_MISFIT if source.schema else _UNREAD,
        ) from (None if mask else error)


def _cure(text: str, changes: Changes, what: str) -> str:
    """What to do about a source that Spark cannot open."""
    if any(words in text for words in _NO_FORMAT):
        package = f"Spark does not know the format '{changes.format}' by itself: add its package to the session."
        return did_you_mean(changes.format, _FORMATS, otherwise=package) if changes.format not in _FORMATS else package
    return f"Check the path, table or query in '{what}', and that Spark has the package for its format."


def _open(spark: SparkSession, changes: Changes) -> DataFrame:
    if changes.sql is not None:
        return spark.sql(changes.sql)
    if changes.table is not None:
        return spark.table(changes.table)
    reader = spark.read.format(changes.format).options(**_strictness(changes)).options(**changes.options)
    return (reader.schema(changes.schema) if changes.schema else reader).load(changes.path)


def _strictness(changes: Changes) -> dict[str, str]:
    """Options by which a schema is kept to: Spark alone takes columns of CSV by their place, and NULL for a misfit."""
    if changes.schema is None or changes.format.lower() not in _TEXT_FORMATS:
        return {}
    given = {name.lower() for name in changes.options}
    return {name: value for name, value in _STRICT.items() if name.lower() not in given}


def _check_schema(spark: SparkSession, changes: Changes, what: str) -> None:
    """Refuse a schema that Spark cannot parse."""
    if changes.schema is None:
        return
    try:
        spark.createDataFrame([], changes.schema).schema  # noqa: B018 (a Connect session parses it only now)
    except spark_errors() as error:
        raise ChangesError(
            f"The schema of the {what} ({changes}) cannot be understood: {told(error)}",
            hint="Write columns and types as Spark's DDL has them: id BIGINT, amount DECIMAL(10,2), `a name` STRING.",
        ) from error


def column_types(frame: DataFrame, changes: Changes) -> dict[str, str]:
    """The columns of the changes with their Spark types, checked."""
    return checked_types(((field.name, type_text(field.dataType)) for field in frame.schema.fields), changes)


def checked_types(fields: Iterable[tuple[str, str]], changes: Changes) -> dict[str, str]:
    """Columns with their types; two that differ only in case are refused, and names that are not for people."""
    types: dict[str, str] = {}
    seen: dict[str, str] = {}
    for name, spark_type in fields:
        other = seen.setdefault(name.lower(), name)
        if name in types or other != name:
            raise SchemaError(
                f"The changes ({changes}) have columns '{other}' and '{name}', which Spark cannot tell apart.",
                hint="Rename one of them, for instance with 'sql' in 'changes'.",
            )
        if is_own(name):
            raise SchemaError(
                f"The changes ({changes}) have a column '{name}'; names that start with _dc_ are the gate's own.",
                hint="Rename it, for instance with 'sql' in 'changes'.",
            )
        types[name] = spark_type
        if variable := _VARIABLE.search(f"{name} {spark_type}"):
            raise SchemaError(
                f"The changes ({changes}) have a column or field with '{variable[0]}' in its name, which Spark takes "
                "for a variable of the session.",
                hint="Rename it where the changes are made.",
            )
    return types


def type_text(spark_type: DataType) -> str:
    """A type as Spark prints it, but that no two types are alike: names of fields are quoted unless they are words."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(spark_type, ArrayType):
        return f"array<{type_text(spark_type.elementType)}>"
    if isinstance(spark_type, MapType):
        return f"map<{type_text(spark_type.keyType)},{type_text(spark_type.valueType)}>"
    if isinstance(spark_type, StructType):
        fields = (
            f"{field.name if _PLAIN_WORD.fullmatch(field.name) else quoted(field.name)}:{type_text(field.dataType)}"
            for field in spark_type.fields
        )
        return f"struct<{','.join(fields)}>"
    return spark_type.simpleString()


def kept_type(spark_type: str) -> str:
    """The type in which a column travels, as SQL takes it in any session: a word may be reserved there."""
    if is_months(spark_type):
        return "int"
    return _FIELD.sub(lambda name: name[0] if name[0].startswith("`") else quoted(name[0]), spark_type)


def row_hash(frame: DataFrame, salt: str) -> str:
    """A hash of the whole row, except the columns of a change data feed, as SQL.

    A column counts with its name and only where it is not NULL (Spark's hash skips NULLs), so that a column added to
    the table later does not change the hash of any row already there.
    """
    parts = [literal(salt)]
    for field in sorted(frame.schema.fields, key=lambda one: one.name.lower()):
        name = field.name.lower()
        if name not in FEED_COLUMNS:
            parts.append(f"if({quoted(field.name)} is null, null, {literal(name)})")
            parts.append(hashable(field.name, field.dataType))
    return f"xxhash64({', '.join(parts)})"


def kept(frame: DataFrame, columns: Mapping[str, str]) -> list[str]:
    """Some columns (with their types) as SQL, found whatever case the changes write them in, renamed by their places.

    As SQL all of them go to Spark at once, where each by itself would be a dozen calls of the JVM. Spark's Arrow
    functions take a dot in a name for a field of a struct. A column that the changes do not have is NULL: a delete may
    give the key alone.
    """
    fields = {field.name.lower(): field for field in frame.schema.fields}
    chosen = []
    for place, (name, spark_type) in enumerate(columns.items()):
        field = fields.get(name.lower())
        if field is None:
            text = f"cast(null as {kept_type(spark_type)})"
        else:
            actual = quoted(field.name)
            text = f"cast(cast({actual} as interval month) as int)" if is_months(spark_type) else actual
        chosen.append(f"{text} as {kept_name(place)}")
    return chosen


def kept_name(place: int) -> str:
    """What the column at this place is called on its way to the workers."""
    return f"_dc_column_{place}"


def instant_in(spark: SparkSession) -> Callable[[datetime], int]:
    """Which instant a timestamp without a zone stands for in this session, as Spark itself sees it, in microseconds."""

    def instant(value: datetime) -> int:
        return spark.sql(f"select unix_micros(timestamp_ltz '{value.isoformat(sep=' ')}')").collect()[0][0]

    return instant


def spark_errors() -> tuple[type[Exception], ...]:
    """What Spark raises: its own exceptions, and in a session with a JVM those of Java."""
    from pyspark.errors import PySparkException

    try:
        from py4j.protocol import Py4JJavaError
    except ImportError:  # a Spark Connect client has no JVM
        return (PySparkException,)
    return (PySparkException, Py4JJavaError)
