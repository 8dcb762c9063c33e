"""Bad input gets one clear error, and the state stays as it was."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from dc_engine.apply_load import apply_load
from dc_engine.errors import ChangesError, ConstraintError, DcError, RequestError, SchemaError, StateError

pytestmark = pytest.mark.xdist_group("spark")

RULES: dict[str, Any] = {
    "version": 1,
    "table": "people",
    "constraints": [{"name": "zip_decides_city", "fd": "zip -> city"}],
}
ROWS = pa.table({"zip": ["1", "2"], "city": ["a", "b"], "age": pa.array([1, 2], pa.int32())})

Refused = Callable[..., DcError]


@pytest.fixture
def refused(spark: SparkSession, tmp_path: Path) -> Refused:
    """Apply a good load, then one that must be refused; its error."""
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    good = {
        "state": str(tmp_path / "state"),
        "load_id": "good",
        "changes": {"path": str(tmp_path / "rows.parquet")},
        "constraints": RULES,
    }
    apply_load(spark, good)

    def call(kind: type[DcError], rows: pa.Table | None = None, **different: Any) -> DcError:
        before = _content(tmp_path / "state")
        if rows is not None:
            pq.write_table(rows, tmp_path / "other.parquet")
            different["changes"] = {"path": str(tmp_path / "other.parquet")}
        with pytest.raises(kind) as caught:
            apply_load(spark, good | {"load_id": "bad"} | different)
        assert _content(tmp_path / "state") == before
        return caught.value

    return call


def _content(folder: Path) -> dict[str, bytes]:
    return {str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()}


def _rules(*constraints: dict[str, Any], **more: Any) -> dict[str, Any]:
    return RULES | {"constraints": [*RULES["constraints"], *constraints]} | more


class TestChanges:
    def test_a_missing_path_is_named(self, refused: Refused) -> None:
        error = refused(ChangesError, changes={"path": "/no/such/folder"})
        assert "parquet at /no/such/folder" in error.message

    def test_an_unknown_table_query_or_format_is_named(self, refused: Refused) -> None:
        assert "table no_such_table" in refused(ChangesError, changes={"table": "no_such_table"}).message
        assert "the given sql" in refused(ChangesError, changes={"sql": "select nothing"}).message
        error = refused(ChangesError, changes={"path": "/tmp", "format": "no_such_format"})
        assert "Failed to find the data source: no_such_format" in error.message
        assert "add its package" in error.hint
        assert refused(ChangesError, changes={"path": "/tmp", "format": "cvs"}).hint == "Did you mean 'csv'?"

    def test_a_file_that_is_not_what_it_says_is_named(self, refused: Refused, tmp_path: Path) -> None:
        (tmp_path / "broken.parquet").write_bytes(b"PAR1 this is no Parquet file PAR1")
        assert "broken.parquet" in refused(ChangesError, changes={"path": str(tmp_path / "broken.parquet")}).message

    def test_a_file_that_turns_out_damaged_while_it_is_read_is_named(self, refused: Refused, tmp_path: Path) -> None:
        rows = pa.table(
            {"zip": [str(i) for i in range(10_000)], "city": ["x"] * 10_000, "age": pa.array([1] * 10_000, pa.int32())}
        )
        pq.write_table(rows, tmp_path / "damaged.parquet", compression="none", use_dictionary=False)
        content = bytearray((tmp_path / "damaged.parquet").read_bytes())
        content[100:30_000] = b"\xff" * 29_900
        (tmp_path / "damaged.parquet").write_bytes(content)
        assert "damaged.parquet" in refused(ChangesError, changes={"path": str(tmp_path / "damaged.parquet")}).message


class TestColumns:
    def test_a_missing_column_is_named_with_the_nearest_one(self, refused: Refused) -> None:
        error = refused(SchemaError, ROWS.rename_columns(["zip", "citty", "age"]))
        assert "zip_decides_city" in error.message
        assert "Column city" in error.message
        assert error.hint == "Did you mean 'citty'?"

    def test_another_type_than_before_names_the_column_and_both_types(self, refused: Refused) -> None:
        error = refused(SchemaError, ROWS.set_column(1, "city", pa.array([1, 2], pa.int64())))
        assert error.message == "Column 'city' has type bigint, and had type string in earlier loads."

    def test_types_that_do_not_compare_name_the_constraint_the_columns_and_both_types(self, refused: Refused) -> None:
        error = refused(SchemaError, constraints=_rules({"name": "odd", "deny": "t.zip = s.age"}), state="memory://a")
        assert error.message == "Constraint 'odd' compares column 'zip' of type string with column 'age' of type int."

    def test_a_type_without_order_is_refused(self, refused: Refused) -> None:
        odd = pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int32()))
        error = refused(SchemaError, ROWS.set_column(1, "city", odd), state="memory://b")
        assert "column 'city' of type map<string,int>" in error.message

    def test_a_constant_of_another_type_says_how_to_write_it(self, refused: Refused) -> None:
        error = refused(SchemaError, constraints=_rules({"name": "odd", "deny": "t.zip = 5"}), state="memory://c")
        assert "'odd'" in error.message
        assert "'abc'" in error.hint

    def test_columns_that_differ_only_by_case_are_refused(self, refused: Refused, spark: SparkSession) -> None:
        spark.conf.set("spark.sql.caseSensitive", "true")
        try:
            assert "'age' and 'AGE'" in refused(SchemaError, changes={"sql": "select 1 age, 2 AGE"}).message
        finally:
            spark.conf.unset("spark.sql.caseSensitive")

    def test_the_engines_own_column_names_are_refused(self, refused: Refused) -> None:
        assert "'_dc_rows'" in refused(SchemaError, ROWS.append_column("_dc_rows", pa.array([1, 2]))).message


class TestRules:
    def test_a_rule_on_a_column_that_was_never_kept_asks_for_the_table(self, refused: Refused) -> None:
        error = refused(ConstraintError, constraints=_rules({"name": "newcomer", "unique": ["age"]}))
        assert "Column 'age', which constraint 'newcomer' needs, is not known for the 2 rows" in error.message
        assert "'table'" in error.hint

    def test_a_key_that_was_never_kept_asks_for_the_table(self, refused: Refused) -> None:
        assert "Column 'age', which the key needs" in refused(ConstraintError, constraints=_rules(key=["age"])).message

    def test_a_key_that_is_not_unique_among_the_rows_is_refused(self, refused: Refused, tmp_path: Path) -> None:
        error = refused(ChangesError, ROWS.slice(0, 1), constraints=_rules(key=["zip"]))
        assert "inserts 1 key already present, for instance zip=1 since load 'good'" in error.message

    def test_duplicate_names_and_unknown_keys_are_refused(self, refused: Refused) -> None:
        assert "zip_decides_city" in refused(ConstraintError, constraints=_rules(*RULES["constraints"])).message
        assert "fdd" in refused(ConstraintError, constraints=_rules({"name": "x", "fdd": "zip -> city"})).message


class TestRequest:
    def test_an_unknown_key_is_named_with_the_nearest_one(self, refused: Refused) -> None:
        error = refused(RequestError, max_sample=3)
        assert (error.message, error.hint) == ("Unknown key 'max_sample' in request.", "Did you mean 'max_samples'?")

    @pytest.mark.parametrize(
        ("different", "expected"),
        [
            ({"load_id": ""}, "'load_id'"),
            ({"changes": {}}, "exactly one of path, table, sql"),
            ({"changes": {"path": "a", "table": "b"}}, "path and table"),
            ({"changes": {"pth": "a"}}, "Unknown key 'pth' in changes"),
            ({"changes": "orders.csv"}, "'changes' is a text"),
            ({"changes": {"table": "a", "schema": "a int"}}, "gives schema for a table; that goes with 'path' only"),
            ({"changes": {"sql": "a", "format": "csv", "options": {"a": 1}}}, "gives format and options for a sql"),
            ({"changes": {"path": "a", "schema": " "}}, "'schema' in changes must be a non-empty text"),
            ({"max_listed": -1}, "'max_listed'"),
            ({"rejected_load": "drop"}, "'rejected_load'"),
            ({"missing_deletes": "skip"}, "'missing_deletes'"),
            ({"duplicate_keys": "merge"}, "'duplicate_keys'"),
            ({"table": {"pth": "a"}}, "Unknown key 'pth' in table"),
            ({"quarantine": ""}, "'quarantine'"),
            ({"dependencies": {"watch": "pinned"}}, "'dependencies'"),
            ({"mask": "zip"}, "'mask'"),
            ({"constraints": None}, "'constraints'"),
        ],
    )
    def test_what_is_wrong_is_named(self, refused: Refused, different: dict[str, Any], expected: str) -> None:
        assert expected in refused(RequestError, **different).message


class TestState:
    def test_a_state_of_another_table_is_named(self, refused: Refused) -> None:
        error = refused(StateError, constraints=RULES | {"table": "others"})
        assert "is for table 'people', the constraints for table 'others'" in error.message

    def test_a_newer_format_is_refused(self, refused: Refused, tmp_path: Path) -> None:
        (path,) = (tmp_path / "state" / "snapshots").glob("*.json")
        path.write_text(json.dumps(json.loads(path.read_text()) | {"format_version": 2}))
        assert "has format 2; this version reads format 1" in refused(StateError).message

    def test_a_folder_that_cannot_be_used_is_named(self, refused: Refused, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("not a folder")
        error = refused(StateError, state=str(tmp_path / "file" / "state"))
        assert f"The state {tmp_path}/file/state cannot be read" in error.message

    def test_a_folder_that_cannot_be_written_is_named(self, refused: Refused, tmp_path: Path) -> None:
        (tmp_path / "no_room").mkdir()
        (tmp_path / "no_room" / "rows").write_text("a file where the folder of rows should be")
        error = refused(StateError, state=str(tmp_path / "no_room"))
        assert f"The state {tmp_path}/no_room cannot be written" in error.message

    def test_an_unknown_filesystem_is_named(self, refused: Refused) -> None:
        assert "nowhere://bucket" in refused(StateError, state="nowhere://bucket/state").message

    def test_a_missing_or_damaged_index_file_is_named(self, refused: Refused, tmp_path: Path) -> None:
        (path,) = (tmp_path / "state" / "index").rglob("*.parquet")
        content = bytearray(path.read_bytes())
        content[20:40] = bytes(20)
        path.write_bytes(content)
        assert path.name in refused(StateError, ROWS).message
        path.unlink()
        assert path.name in refused(StateError, ROWS).message
