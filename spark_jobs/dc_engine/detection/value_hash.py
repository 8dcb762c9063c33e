"""The hash of one value as a Spark SQL expression, different for different values whatever is nested in them.

Spark's own hash of an array, struct or map skips NULLs inside and knows neither places nor lengths: it is the same for
``[1, NULL]``, ``[NULL, 1]`` and ``[1]``. So nested values are hashed level by level here. The result is the same in
every session, and part of the state format (``docs/state-format.md``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dc_engine.errors import SchemaError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_HASHED_HERE = ("array", "struct", "map", "variant", "geometry", "geography")
"""Types (by Spark's short names) that ``xxhash64`` hashes too coarsely, or not at all."""


def hashable(column: str, spark_type: DataType) -> str:
    """A column as ``xxhash64`` should see it: NULL where it is NULL; plain values cost nothing extra."""
    sql = quoted(column)
    if spark_type.typeName() not in _HASHED_HERE:
        return _plain(sql, spark_type)
    return f"if({sql} is null, null, {_hash(column, sql, spark_type, 0)})"


def quoted(name: str) -> str:
    """A column name that Spark takes literally."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """A text in SQL, whatever is in it."""
    return f"decode(X'{text.encode().hex()}', 'utf-8')"


def _plain(sql: str, spark_type: DataType) -> str:
    """A value that is not nested; numbers by value, whatever their width."""
    kind = spark_type.typeName()
    if kind in ("byte", "short", "integer"):
        return f"cast({sql} as bigint)"
    return f"cast({sql} as double)" if kind == "float" else sql


def _hash(column: str, sql: str, spark_type: DataType, depth: int) -> str:
    """The hash of a value inside a column: a number, also of NULL (42, with which ``xxhash64`` begins)."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    one = f"_dc_{depth}"  # no column has this name
    if isinstance(spark_type, ArrayType):
        items = f"transform({sql}, {one} -> {_hash(column, one, spark_type.elementType, depth + 1)})"
        return f"xxhash64({items}, array_size({sql}))"
    if isinstance(spark_type, MapType):
        key = _hash(column, f"{one}.key", spark_type.keyType, depth + 1)
        value = _hash(column, f"{one}.value", spark_type.valueType, depth + 1)
        entries = f"transform(map_entries({sql}), {one} -> xxhash64({key}, {value}))"
        return f"xxhash64(sort_array({entries}), array_size(map_keys({sql})))"  # keys have no order
    if isinstance(spark_type, StructType):
        return _struct_hash(column, sql, spark_type, depth)
    if spark_type.typeName() == "variant":  # its bytes differ by how it was made, its text by the session's zone
        return f"xxhash64(to_json({sql}, map('timeZone', 'UTC')), schema_of_variant({sql}))"
    if spark_type.typeName() in ("geometry", "geography"):
        return f"xxhash64(st_asbinary({sql}), st_srid({sql}))"
    return f"xxhash64({_plain(sql, spark_type)})"


def _struct_hash(column: str, sql: str, spark_type: StructType, depth: int) -> str:
    """Fields count as columns do, with their names and where they are not NULL: adding one changes no hash."""
    parts = [f"if({sql} is null, null, {literal('struct')})"]
    seen: dict[str, str] = {}
    for field in sorted(spark_type.fields, key=lambda one: one.name.lower()):
        name = field.name.lower()
        if name in seen:
            raise SchemaError(
                f"Column '{column}' has fields '{seen[name]}' and '{field.name}', which Spark cannot tell apart.",
                hint="Rename one of them, for instance with 'sql' in 'changes'.",
            )
        seen[name] = field.name
        value = f"{sql}.{quoted(field.name)}"
        hashed = _hash(column, value, field.dataType, depth)
        parts.append(f"if({value} is null, null, struct({literal(name)}, {hashed}))")
    return f"xxhash64({', '.join(parts)})"
