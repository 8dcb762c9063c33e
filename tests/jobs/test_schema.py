"""Files without types (CSV, JSON) are read with a ``schema``: every day in the same types, or refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from dc_engine.apply_load import apply_load
from dc_engine.errors import ChangesError, DcError, SchemaError
from dc_engine.maintain import maintain
from dc_engine.verdict import Verdict

pytestmark = pytest.mark.xdist_group("spark")

RULES: dict[str, Any] = {
    "version": 1,
    "table": "orders",
    "key": ["id"],
    "constraints": [{"name": "one_amount", "fd": "customer -> amount"}],
}
SCHEMA = "id BIGINT, customer STRING, amount DECIMAL(10,2)"
GUESSED = {"header": "true", "inferSchema": "true"}
Apply = Callable[..., Verdict]


@pytest.fixture
def given(spark: SparkSession, tmp_path: Path) -> Apply:
    def call(load_id: str, text: str, schema: str | None = SCHEMA, **more: Any) -> Verdict:
        path = tmp_path / f"{load_id}.{more.get('format', 'csv')}"
        path.write_text(text)
        changes = {"path": str(path), "format": "csv", "options": {"header": True}, "schema": schema}
        changes |= {name: more.pop(name) for name in ("format", "options") if name in more}
        request = {"state": str(tmp_path / "state"), "load_id": load_id, "changes": changes, "constraints": RULES}
        return apply_load(spark, request | more)

    return call


def refused(call: Apply, *given: Any, **named: Any) -> DcError:
    with pytest.raises(DcError) as caught:
        call(*given, **named)
    return caught.value


@pytest.mark.parametrize("engine", ["spark", "local"])
def test_a_day_of_whole_numbers_is_counted_as_the_days_before(given: Apply, engine: str) -> None:
    given("monday", "id,customer,amount\n1,a,700.00\n2,b,3.50\n", engine=engine)
    verdict = given("tuesday", "id,customer,amount\n3,a,700\n4,b,4\n", engine=engine)
    assert verdict.columns == {"id": "bigint", "customer": "string", "amount": "decimal(10,2)"}
    assert [one.new_violations for one in verdict.constraints] == [1]


def test_without_a_schema_that_day_is_refused_and_the_hint_names_the_cure(given: Apply) -> None:
    given("monday", "id,customer,amount\n1,a,700.00\n", None, options=GUESSED)
    error = refused(given, "tuesday", "id,customer,amount\n3,a,700\n", None, options=GUESSED)
    assert error.message == "Column 'amount' has type int, and had type double in earlier loads."
    assert "a 'schema' with 'amount double' beside the path" in error.hint


def test_what_does_not_fit_the_schema_is_refused_not_taken_for_null(given: Apply) -> None:
    error = refused(given, "monday", "id,customer,amount\n1,a,much\n")
    assert "monday.csv" in error.message
    assert "Check that the files have the columns of the given 'schema'" in error.hint
    error = refused(given, "monday", "customer,id,amount\na,1,700\n")
    assert "Header: customer, id, amount Schema: id, customer, amount" in error.message
    error = refused(given, "monday", '{"id": 1, "customer": "a", "amount": "much"}', format="json", options={})
    assert isinstance(error, ChangesError)
    lenient = {"header": "true", "Mode": "PERMISSIVE"}
    assert given("monday", "id,customer,amount\n1,a,much\n", options=lenient).decision == "pass"


def test_a_file_without_a_header_takes_its_names_from_the_schema(given: Apply) -> None:
    error = refused(given, "monday", "1,a,700\n", None, options={})
    assert isinstance(error, SchemaError)
    assert "Column id, which the key needs, is not in the changes" in error.message
    assert "add the option header=true; or a schema, if it has none." in error.hint
    assert given("monday", "1,a,700\n", options={}).rows["inserted"] == 1


def test_another_separator_is_recognised(given: Apply) -> None:
    error = refused(given, "monday", "id;customer;amount\n1;a;700\n", None)
    assert error.hint == "There is one column, 'id;customer;amount': add the option sep=;."


def test_a_schema_that_spark_cannot_parse_is_one_sentence(given: Apply) -> None:
    error = refused(given, "monday", "id\n1\n", "id BIGINT, amount DECIMAL(")
    assert error.message.startswith("The schema of the changes (csv at ")
    assert "cannot be understood: [PARSE_SYNTAX_ERROR] Syntax error at or near " in error.message
    assert "id BIGINT, amount DECIMAL(10,2)" in error.hint


def test_the_table_has_a_schema_too(given: Apply, spark: SparkSession, tmp_path: Path) -> None:
    text = "id,customer,amount\n1,a,700\n2,a,7\n"
    given("monday", text)
    table = {"path": str(tmp_path / "monday.csv"), "format": "csv", "options": {"header": "true"}, "schema": SCHEMA}
    request = {"state": str(tmp_path / "state"), "table": table}
    assert maintain(spark, "verify", request)["problems"] == []
    assert maintain(spark, "rebuild", request)["total_violations"] == {"one_amount": 1}
    untyped = {"state": str(tmp_path / "state"), "table": table | {"schema": None}}
    with pytest.raises(SchemaError, match="Column 'id' has type string"):
        maintain(spark, "rebuild", untyped)
