"""Values of a masked column appear nowhere: not when a verdict is stored, not when it is given, not in errors."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from dc_engine import apply_load as job
from dc_engine.apply_load import apply_load
from dc_engine.detection.staging import StagedLoad
from dc_engine.engines.base import Tasks
from dc_engine.errors import ChangesError, DcError, SchemaError, UnexpectedError
from dc_engine.maintain import maintain
from dc_engine.state.storage import Storage
from dc_engine.stored import read_verdict
from dc_engine.verdict import Verdict
from tests.inprocess import Session, Source

RULES: dict[str, Any] = {
    "version": 1,
    "table": "people",
    "key": ["id"],
    "constraints": [{"name": "city", "fd": "zip -> city"}],
}
TYPES = {"id": "bigint", "zip": "string", "city": "string"}
CHANGE = {"_change_type": "string"}
SECRET = "Berlin-Mitte"
BROKEN = [(1, "10115", SECRET), (2, "10115", "Paris")]


class Gate:
    """One state, and loads of rows as (id, zip, city)."""

    def __init__(self, session: Session, folder: Path) -> None:
        self.session, self.state, self.rules = session, str(folder / "state"), RULES

    def apply(self, load_id: str, rows: list[tuple[Any, ...]], kind: str = "insert", **more: Any) -> Verdict:
        columns = zip(*rows, strict=True)
        arrow = (pa.int64(), pa.string(), pa.string())
        table = pa.table({name: pa.array(list(v), t) for name, v, t in zip(TYPES, columns, arrow, strict=True)})
        kinds = pa.array([kind] * len(rows))
        self.session.sources["changes"] = Source(table.append_column("_change_type", kinds), TYPES | CHANGE)
        request = {"state": self.state, "load_id": load_id, "changes": {"path": "changes"}, "constraints": self.rules}
        return apply_load(self.session, request | more)


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(Session(), tmp_path)


class Failing(Session):
    """An engine that quotes a value when it fails."""

    def stage(self, *_: Any, **__: Any) -> StagedLoad:
        raise RuntimeError(f"the value '{SECRET}' is odd")

    def tasks(self, rows: int, size: int) -> Tasks:
        raise RuntimeError(f"the value '{SECRET}' is odd")


class TestMasksThatNameNothing:
    @pytest.mark.parametrize("action", ["verify", "compact", "describe"])
    def test_so_is_one_that_is_given_to_maintenance(self, gate: Gate, action: str) -> None:
        gate.apply("monday", BROKEN, mask=["_change_type"])
        with pytest.raises(SchemaError, match="'mask' names column 'ciyt', which the state does not have") as caught:
            maintain(gate.session, action, {"state": gate.state, "mask": ["ciyt"]})
        assert "'city'" in str(caught.value)
        maintain(gate.session, action, {"state": gate.state, "mask": ["CITY", "_change_type"]})

    def test_maintenance_may_mask_a_column_that_only_the_table_has(self, gate: Gate) -> None:
        gate.apply("monday", BROKEN)
        rows = pa.table({"id": [1, 2], "zip": ["10115"] * 2, "city": [SECRET, "Paris"], "pay": [5, 6]})
        gate.session.sources["table"] = Source(rows, TYPES | {"pay": "bigint"})
        request = {"state": gate.state, "table": {"path": "table"}}
        maintain(gate.session, "rebuild", {**request, "mask": ["Pay"]})
        with pytest.raises(SchemaError, match=r"neither the state nor the table \(.*\) has") as caught:
            maintain(gate.session, "rebuild", {**request, "mask": ["pya"]})
        assert "'pay'" in str(caught.value)

    @pytest.mark.parametrize("name", ["ciyt", "city ", " city"])
    def test_a_mask_that_names_no_column_is_refused_with_the_nearest_name(self, gate: Gate, name: str) -> None:
        for _ in range(2):  # also when the very same changes were applied before
            with pytest.raises(SchemaError, match=r"which the changes .* do not have") as refusal:
                gate.apply("monday", BROKEN, mask=[name])
            assert (repr(name) in refusal.value.message, refusal.value.hint) == (True, "Did you mean 'city'?")
            gate.apply("monday", BROKEN)

    def test_case_does_not_matter(self, gate: Gate) -> None:
        assert SECRET not in json.dumps(gate.apply("monday", BROKEN, mask=["CITY"]).to_dict())


class TestStoredVerdicts:
    def test_a_load_that_was_applied_unmasked_is_masked_when_it_comes_again_with_a_mask(self, gate: Gate) -> None:
        first = gate.apply("monday", BROKEN)
        assert SECRET in json.dumps(first.to_dict())
        again = gate.apply("monday", BROKEN, mask=["City"])
        assert again.replayed
        assert SECRET not in json.dumps(again.to_dict())
        assert again.constraints[0].new_violations == 1
        (note,) = again.notes
        assert note.startswith("Column 'city' was not masked when this load was applied")

    def test_a_load_that_was_masked_from_the_beginning_has_no_such_note(self, gate: Gate) -> None:
        gate.apply("monday", BROKEN, mask=["city"])
        assert gate.apply("monday", BROKEN, mask=["city"]).notes == []

    def test_who_reads_a_stored_verdict_sees_nothing_that_the_newest_load_masks(self, gate: Gate) -> None:
        gate.apply("monday", BROKEN)
        storage = Storage(gate.state)
        assert SECRET in json.dumps(read_verdict(storage, "monday").to_dict())
        assert SECRET not in json.dumps(read_verdict(storage, "monday", ["city"]).to_dict())
        gate.apply("tuesday", [(3, "1", "x")], mask=["city"])
        assert SECRET not in json.dumps(read_verdict(storage, "monday").to_dict())


class TestErrors:
    def test_an_unexpected_error_says_where_it_happened_and_no_value(self, gate: Gate) -> None:
        gate.session = Failing()
        with pytest.raises(RuntimeError, match=SECRET):
            gate.apply("monday", BROKEN)
        with pytest.raises(UnexpectedError, match=r"RuntimeError \(.*\) at test_masks.py:\d+\.$") as caught:
            gate.apply("monday", BROKEN, mask=["city"])
        assert SECRET not in shown(caught.value)

    def test_the_mask_of_a_rejected_load_that_is_discarded_counts_too(self, gate: Gate) -> None:
        gate.apply("monday", BROKEN)
        gate.apply("tuesday", [(3, "10115", "Rome")], mask=["city"], rejected_load="discard")
        assert SECRET not in json.dumps(read_verdict(Storage(gate.state), "monday").to_dict())

    def test_an_attempt_that_is_discarded_shows_nothing_of_the_loads_after_it(self, gate: Gate) -> None:
        gate.rules = {**RULES, "key": ["city"]}
        gate.apply("monday", [(1, "1", SECRET)])
        gate.apply("tuesday", [(1, "1", SECRET)], kind="delete")
        rows = [(1, "1", SECRET), (2, "2", "Paris"), (3, "2", "Rome")]
        with pytest.raises(ChangesError, match=r"deletes row city=\*\*\*, which would not be there"):
            gate.apply("monday", rows, mask=["city"], rejected_load="discard")

    def test_maintenance_of_a_masked_state_says_no_value_either(self, gate: Gate) -> None:
        gate.apply("monday", BROKEN, mask=["city"])
        with pytest.raises(UnexpectedError) as caught:
            maintain(Failing(), "rebuild", {"state": gate.state})
        assert SECRET not in shown(caught.value)

    @pytest.mark.xdist_group("spark")
    @pytest.mark.parametrize("quarantine", [False, True])
    def test_what_spark_quotes_is_left_out(
        self, spark: SparkSession, tmp_path: Path, pyspark_lines: list[str], quarantine: bool
    ) -> None:
        pq.write_table(pa.table({"zip": ["1", "1"], "city": ["5", SECRET]}), tmp_path / "rows.parquet")
        source = f"parquet.`{tmp_path / 'rows.parquet'}`"
        request = {
            "state": str(tmp_path / "state"),
            "load_id": "monday",
            "changes": {"sql": f"select zip, cast(city as int) as city from {source}"},
            "constraints": {name: value for name, value in RULES.items() if name != "key"},
            **({"quarantine": str(tmp_path / "apart")} if quarantine else {}),
        }
        with pytest.raises(ChangesError, match=SECRET):
            apply_load(spark, request)
        assert SECRET in str(pyspark_lines), "PySpark writes by itself what Spark quotes"
        pyspark_lines.clear()
        with pytest.raises(ChangesError, match=r"CAST_INVALID_INPUT \(its text is left out") as caught:
            apply_load(spark, {**request, "mask": ["city"]})
        assert SECRET not in shown(caught.value)
        path, result = tmp_path / "request.json", tmp_path / "result.json"
        path.write_text(json.dumps({**request, "mask": ["city"]}))
        assert job.main(["--request", str(path), "--result", str(result)]) == 1
        assert SECRET not in result.read_text()
        assert pyspark_lines == []
        with pytest.raises(ChangesError, match=SECRET):
            apply_load(spark, request)
        assert pyspark_lines, "a session that goes on has its lines back"

    @pytest.mark.xdist_group("spark")
    @pytest.mark.parametrize("masked", [False, True])
    def test_what_spark_quotes_of_the_table_is_left_out(
        self, spark: SparkSession, tmp_path: Path, pyspark_lines: list[str], masked: bool
    ) -> None:
        good = "select * from values (1, '1', 'x', 5), (2, '2', 'y', 6) as v(id, zip, city, pay)"
        state, mask = str(tmp_path / "state"), {"mask": ["pay"] if masked else []}
        request = {"state": state, "changes": {"sql": good}, "constraints": RULES, **mask}
        apply_load(spark, {**request, "load_id": "monday"})
        values = f"(1, '1', 'x', '5'), (2, '2', 'y', '{SECRET}') as v(id, zip, city, pay)"
        table = {"sql": f"select id, zip, city, cast(pay as int) as pay from values {values}"}
        where = {**table, "where": "pay > 0"}
        added = {**RULES, "constraints": [*RULES["constraints"], {"name": "pay", "unique": ["pay"]}]}
        again = {**request, "load_id": "tuesday", "changes": {"sql": good + " where id > 2"}, "constraints": added}
        for attempt in (
            lambda: apply_load(spark, {**again, "table": table}),
            lambda: maintain(spark, "verify", {"state": state, "table": where}),
            lambda: maintain(spark, "rebuild", {"state": state, "table": where}),
        ):
            with pytest.raises(ChangesError, match=r"^The table \(the given sql.*\) cannot be read: ") as caught:
                attempt()
            assert (SECRET not in shown(caught.value) + str(pyspark_lines)) == masked

    @pytest.mark.xdist_group("spark")
    def test_maintenance_masks_what_it_is_asked_to_mask(
        self, spark: SparkSession, tmp_path: Path, pyspark_lines: list[str]
    ) -> None:
        request = {"state": str(tmp_path), "changes": {"sql": "select 1 as id, '1' as zip, 'x' as city"}}
        apply_load(spark, {**request, "load_id": "monday", "constraints": RULES})
        table = {"sql": f"select int(id) as id, zip, city from values ('{SECRET}', '1', 'x') as v(id, zip, city)"}
        with pytest.raises(ChangesError, match="its text is left out") as caught:
            maintain(spark, "rebuild", {"state": str(tmp_path), "table": table, "mask": ["ID"]})
        assert SECRET not in shown(caught.value) + str(pyspark_lines)


@pytest.fixture
def pyspark_lines() -> Iterator[list[str]]:
    """What PySpark's own loggers say of errors."""
    lines: list[str] = []

    class Gather(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    handler = Gather()
    loggers = [PySparkLogger.getLogger(f"{kind}QueryContextLogger") for kind in ("SQL", "DataFrame")]
    for one in loggers:
        one.addHandler(handler)
    yield lines
    for one in loggers:
        one.removeHandler(handler)


def shown(error: DcError) -> str:
    """All that a traceback of an error shows."""
    return "".join(traceback.format_exception(error))
