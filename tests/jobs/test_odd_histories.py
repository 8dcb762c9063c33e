"""Histories that go back on themselves: each of them is small, and easily counted wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dc_engine.apply_load import apply_load
from dc_engine.detection.dead import is_alive, read_dead
from dc_engine.detection.documents import file_of, from_text
from dc_engine.detection.plan import ROW_HASH, IndexPlan, Plan
from dc_engine.detection.rows import ROW_ID, read_rows
from dc_engine.detection.runs import HASH, ROW_IDS, ROWS, find_entries, write_run
from dc_engine.detection.table import WriteRows
from dc_engine.errors import ChangesError, ConstraintError, SchemaError, StateError
from dc_engine.maintain import maintain
from dc_engine.maintained.continuity import total_violations
from dc_engine.request import Changes
from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.snapshots import Snapshot, commit, read_current
from dc_engine.state.storage import Storage
from dc_engine.verdict import Verdict
from tests.inprocess import Session, Source, row_hashes

ARROW = {"bigint": pa.int64(), "int": pa.int32(), "string": pa.string()}
CITY = {"name": "city", "fd": "zip -> city"}
PAY = {"name": "pay", "fd": "zip -> pay"}
READS_ALL = {"name": "reads all", "deny": "t.id = s.id and t.zip = s.zip and t.city != s.city and t.pay < s.pay"}
NEVER = {"name": "never", "deny": "t.zip = 'never'"}
POSITIVE = {"name": "positive", "deny": "t.pay <= 0"}

Row = tuple[Any, ...]
"""id, zip, city and pay."""


class Table:
    """A state on disk, whose rules and types may change from load to load."""

    def __init__(self, spark: Any, folder: Path, *rules: dict[str, str], key: str | None = None) -> None:
        self.spark, self.folder, self.rules = spark, folder, list(rules)
        self.state, self.storage = str(folder / "state"), Storage(str(folder / "state"))
        self.key = key
        self.types = {"id": "bigint", "zip": "string", "city": "string", "pay": "int"}

    def source(self, name: str, rows: list[Row], kinds: list[str] | None = None) -> dict[str, str]:
        """Some rows, in memory or for a real Spark in a file."""
        columns = zip(*rows, strict=True) if rows else [()] * len(self.types)
        arrays = {
            name: pa.array(list(values), ARROW[spark])
            for (name, spark), values in zip(self.types.items(), columns, strict=True)
        }
        change = {} if kinds is None else {"_change_type": pa.array(kinds, pa.string())}
        if isinstance(self.spark, Session):
            self.spark.sources[name] = Source(
                pa.table({**arrays, **change}), self.types | dict.fromkeys(change, "string")
            )
            return {"path": name}
        path = self.folder / f"{name}-{len(list(self.folder.iterdir()))}.parquet"
        pq.write_table(pa.table({**arrays, **change}), path)
        return {"path": str(path)}

    def apply(self, load_id: str, *inserts: Row, deletes: tuple[Row, ...] = (), **more: Any) -> Verdict:
        kinds = ["insert"] * len(inserts) + ["delete"] * len(deletes)
        request = {
            "state": self.state,
            "load_id": load_id,
            "changes": self.source(load_id, [*inserts, *deletes], kinds),
            "constraints": {
                "version": 1,
                "table": "people",
                **({"key": [self.key]} if self.key else {}),
                "constraints": self.rules,
            },
        }
        return apply_load(self.spark, request | more)

    def maintain(self, action: str, **more: Any) -> dict[str, Any]:
        return maintain(self.spark, action, {"state": self.state, **more})

    @property
    def snapshot(self) -> Snapshot:
        current = read_current(self.storage)
        assert current is not None
        return current

    @property
    def counts(self) -> dict[str, int]:
        """How many rows there are, and the violations of each rule, in a state that is sound."""
        assert self.maintain("verify")["problems"] == []
        return {"rows": self.snapshot.rows, **total_violations(self.snapshot)}


@pytest.fixture
def session() -> Session:
    return Session()


def test_a_sample_of_two_rows_with_the_same_values_names_both(session: Session, tmp_path: Path) -> None:
    table = Table(session, tmp_path, {"name": "zips", "unique": "zip"}, key="id")
    (sample,) = table.apply("1", (4, "a", "x", 1), (7, "a", "y", 1), (9, "b", "y", 1)).constraints[0].samples
    assert {side: sample[side]["row"] for side in "ts"} == {"t": {"id": 4}, "s": {"id": 7}}


@pytest.mark.parametrize("missing", ["error", "ignore"])
def test_deletes_without_the_key_column_delete_no_row_that_has_none(
    session: Session, tmp_path: Path, missing: str
) -> None:
    table = Table(session, tmp_path, CITY, key="id")
    table.apply("1", (None, "a", "x", 1), (2, "b", "y", 1))
    given = pa.table({"zip": ["b"], "_change_type": ["delete"]})
    session.sources["no key"] = Source(given, {"zip": "string", "_change_type": "string"})
    with pytest.raises(SchemaError, match="Column id, which the key needs, is not in the changes"):
        table.apply("2", changes={"path": "no key"}, missing_deletes=missing)
    assert table.counts == {"rows": 2, "city": 0}


@pytest.mark.parametrize("zips", [["1", "01"], ["x", "y"]])
def test_a_rebuild_of_a_state_without_rows_takes_the_types_of_the_table(
    session: Session, tmp_path: Path, zips: list[str]
) -> None:
    table = Table(session, tmp_path, {"name": "once", "unique": "zip"}, {"name": "zips", "fd": "id -> zip"})
    table.types["zip"] = "int"
    table.apply("1", (1, 3, "x", 1))
    table.maintain("retract", load_id="1")
    table.types["zip"] = "string"
    table.maintain("rebuild", table=table.source("whole", [(1, one, "x", 1) for one in zips]))
    assert table.counts == {"rows": 2, "once": 0, "zips": 1}
    assert table.apply("2", (1, zips[0], "x", 1)).constraints[0].total_violations == 1


class TestTakingOut:
    def test_a_replaced_load_is_not_the_newest_though_it_was_applied_last(
        self, session: Session, tmp_path: Path
    ) -> None:
        table = Table(session, tmp_path, POSITIVE)  # without any index, in which it could be seen apart
        table.apply("1", (1, "a", "x", 1))
        table.apply("2", (2, "a", "x", -1))
        table.apply("1", (3, "a", "x", -1))
        assert table.counts == {"rows": 2, "positive": 2}
        table.maintain("retract", load_id="1")
        assert table.counts == {"rows": 1, "positive": 1}

    def test_deletes_are_undone_though_no_index_has_an_entry_left(self, session: Session, tmp_path: Path) -> None:
        table = Table(session, tmp_path, CITY)
        rows = ((1, "a", "x", 1), (2, "a", "y", 1))
        table.apply("1", *rows)
        table.apply("2", deletes=rows)
        table.apply("3")
        table.maintain("compact")
        table.apply("2", deletes=(*rows, (9, "z", "z", 1)), missing_deletes="ignore")
        table.maintain("retract", load_id="2")
        assert table.counts == {"rows": 2, "city": 1}
        table.apply("4", (5, "a", "w", 1))
        assert table.counts == {"rows": 3, "city": 3}

    @pytest.mark.parametrize("merged", [False, True])
    def test_a_delete_that_found_nothing_finds_its_row_once_an_earlier_load_leaves_it(
        self, session: Session, tmp_path: Path, merged: bool
    ) -> None:
        table = Table(session, tmp_path, CITY)
        row = (1, "a", "x", 1)
        table.apply("1", row, (2, "a", "y", 1))
        table.apply("2", deletes=(row,))
        table.apply("3", deletes=(row,), missing_deletes="ignore")
        table.apply("4", (3, "b", "x", 1))
        if merged:
            table.maintain("compact")
        table.maintain("retract", load_id="2")
        assert table.counts == {"rows": 2, "city": 0}

    @pytest.mark.parametrize(("load_id", "rows"), [("3", None), ("4", 2), ("5", 1)])
    def test_a_rule_that_came_while_there_were_no_rows_is_no_obstacle(
        self, session: Session, tmp_path: Path, load_id: str, rows: int | None
    ) -> None:
        table = Table(session, tmp_path, CITY, key="id")
        table.apply("1", (1, "a", "x", 1))
        table.apply("2", deletes=((1, "a", "x", 1),))
        table.rules = [CITY, PAY]
        table.apply("3", (2, "a", "y", 2))
        table.apply("4", (3, "a", "y", 3), deletes=((2, "a", "y", 2),))
        table.apply("5", (4, "b", "b", 1))
        if rows is None:
            with pytest.raises(ChangesError, match="load '4' after it deletes row id=2"):
                table.maintain("retract", load_id=load_id)
            return
        table.maintain("retract", load_id=load_id)
        assert table.counts == {"rows": rows, "city": 0, "pay": 0}

    @pytest.mark.parametrize(("new_type", "pay"), [("bigint", 1), ("string", "1")])
    def test_a_column_may_change_its_type_when_no_row_is_left(
        self, session: Session, tmp_path: Path, new_type: str, pay: Any
    ) -> None:
        table = Table(session, tmp_path, PAY)
        table.apply("1", (1, "a", "x", 1))
        table.apply("2")
        table.maintain("retract", load_id="1")
        table.types["pay"] = new_type
        table.apply("3", (2, "a", "x", pay))
        table.apply("4", (3, "a", "x", pay + pay))
        assert table.counts == {"rows": 2, "pay": 1}
        table.maintain("compact")
        assert table.counts == {"rows": 2, "pay": 1}


class TestReplacing:
    def test_a_load_that_was_empty_for_a_while_keeps_its_place(self, session: Session, tmp_path: Path) -> None:
        table = Table(session, tmp_path, CITY, key="id")
        table.apply("1", (1, "a", "x", 1))
        table.apply("2", (2, "a", "y", 1))
        table.apply("1")
        with pytest.raises(ChangesError, match="load '2' after it inserts row id=2"):
            table.apply("1", (2, "a", "q", 1), duplicate_keys="replace")
        assert table.counts == {"rows": 1, "city": 0}
        table.apply("1", (3, "a", "q", 1), duplicate_keys="replace")
        assert [one.load_id for one in table.snapshot.loads(table.storage).since()] == ["1", "2"]
        assert table.counts == {"rows": 2, "city": 1}

    def test_the_verdict_of_a_discarded_attempt_has_the_totals_of_the_state(
        self, session: Session, tmp_path: Path
    ) -> None:
        table = Table(session, tmp_path, CITY)
        table.apply("1", (1, "a", "x", 1), (2, "a", "y", 1))
        table.apply("2", (3, "b", "x", 1))
        verdict = table.apply("1", (4, "b", "z", 1), rejected_load="discard")
        assert verdict.discarded
        assert (verdict.rows["total"], verdict.constraints[0].total_violations) == (1, 0)
        assert table.counts == {"rows": 1, "city": 0}

    @pytest.mark.parametrize(("new_type", "pay"), [("bigint", 1), ("string", "1")])
    def test_a_rule_that_comes_back_to_a_column_of_another_type_is_refused_in_a_sentence(
        self, session: Session, tmp_path: Path, new_type: str, pay: Any
    ) -> None:
        table = Table(session, tmp_path, CITY, PAY)
        table.apply("1", (1, "a", "x", 1))
        table.rules = [CITY]
        table.apply("2")
        table.rules, table.types["pay"] = [CITY, PAY], new_type
        with pytest.raises((SchemaError, ConstraintError), match="pay"):
            table.apply("3", (2, "a", "x", pay))
        assert table.counts == {"rows": 1, "city": 0}

    def test_rows_that_got_a_new_column_from_the_table_are_still_those_of_their_load(
        self, session: Session, tmp_path: Path
    ) -> None:
        table = Table(session, tmp_path, CITY)
        first, second = (1, "a", "x", 1), (2, "a", "y", 2)
        table.apply("1", first)
        table.apply("2", second)
        table.rules = [CITY, PAY]
        session.widens = widen
        table.apply("1", (3, "a", "x", 3), table=table.source("table", [first, second]))
        assert table.counts == {"rows": 2, "city": 1, "pay": 1}
        table.maintain("retract", load_id="1")
        assert table.counts == {"rows": 1, "city": 0, "pay": 0}

    @pytest.mark.xdist_group("spark")
    def test_a_row_of_another_load_that_comes_back_is_not_put_into_quarantine(self, spark: Any, tmp_path: Path) -> None:
        table = Table(Session(), tmp_path, CITY, key="id")
        table.apply("1", (1, "z", "x", 1))
        table.apply("2", deletes=((1, "z", "x", 1),))
        table.apply("3", (2, "z", "y", 1))
        table.spark = spark  # a quarantine is Spark's work
        written = table.apply("2", (9, "q", "q", 1), quarantine=str(tmp_path / "quarantine")).quarantine
        assert written
        assert (written["violating_rows"], written["clean_rows"]) == (0, 1)
        assert table.counts == {"rows": 3, "city": 1}


def widen(spark: Session, storage: Storage, snapshot: Snapshot, plan: Plan, source: Changes) -> list[DataFile]:
    """All rows that count of a state without key, with the columns that the table has: Spark's part."""
    known = spark.sources[source.path or ""].table
    places = {code: place for place, code in enumerate(row_hashes(known).tolist())}
    rows = pa.concat_tables(read_rows(storage, snapshot.files_of(FileKind.ROWS), [ROW_HASH]))
    dead = read_dead(storage, snapshot.files_of(FileKind.DEAD))
    rows = rows.filter(pa.array(is_alive(rows.column(ROW_ID).to_numpy(), dead)))
    found = known.take(pa.array([places[code] for code in rows.column(ROW_HASH).to_pylist()])).select(plan.columns)
    wide = found.add_column(0, ROW_ID, rows.column(ROW_ID)).append_column(ROW_HASH, rows.column(ROW_HASH))
    written = WriteRows(storage, plan.columns)(wide.combine_chunks().to_batches())
    documents = [from_text(text) for batch in written for text in batch.column(0).to_pylist()]
    return [file for file in map(file_of, documents) if file]


class TestColumnsOfTheTable:
    """Rows that were deleted stay what they were when the others get columns of the table."""

    FIRST, SECOND, THIRD = (1, "a", "x", 1), (2, "a", "y", 2), (3, "a", "x", 3)

    @pytest.fixture
    def table(self, session: Session, tmp_path: Path) -> Table:
        """Of two rows alike the older one, of load 1, is deleted by load 3; then the table gives a column."""
        session.widens = widen
        table = Table(session, tmp_path, CITY)
        table.apply("1", self.FIRST)
        table.apply("2", self.FIRST)
        table.apply("3", deletes=(self.FIRST,))
        table.rules = [CITY, PAY]
        table.apply("4", self.SECOND, table=table.source("table", [self.FIRST]))
        assert table.counts == {"rows": 2, "city": 1, "pay": 1}
        return table

    def test_a_load_whose_row_was_deleted_before_is_taken_out(self, table: Table) -> None:
        table.rules = [CITY]
        table.apply("5", self.THIRD)
        table.maintain("retract", load_id="1")  # then the delete takes the row of load 2
        assert table.counts == {"rows": 2, "city": 1}
        table.maintain("rebuild")
        assert table.counts == {"rows": 2, "city": 1}

    def test_and_replaced(self, table: Table) -> None:
        table.rules = [CITY]
        table.apply("5", self.THIRD)
        table.apply("1", (9, "q", "q", 9))
        assert table.counts == {"rows": 3, "city": 1}

    def test_what_deleted_it_cannot_be_taken_out_while_a_rule_needs_a_column_that_it_never_had(
        self, table: Table
    ) -> None:
        before = table.counts
        with pytest.raises(StateError, match="column 'pay' is not known"):
            table.maintain("retract", load_id="3")
        assert table.counts == before
        table.rules = [CITY]
        table.apply("5", self.THIRD)
        table.maintain("retract", load_id="3")
        assert table.counts == {"rows": 4, "city": 3}

    def test_a_second_column_finds_the_dead_rows_again(self, table: Table) -> None:
        table.rules = [CITY, PAY, READS_ALL]
        table.apply("5", self.THIRD, table=table.source("table", [self.FIRST, self.SECOND]))
        table.maintain("compact")
        table.rules = [CITY]
        table.apply("6", (7, "z", "z", 7))
        table.maintain("retract", load_id="1")
        assert table.counts == {"rows": 3, "city": 1}


class TestOtherTypes:
    """A column may have changed its type while there were no rows, or no rule that read it."""

    def test_a_load_without_rows_does_not_tell_todays_type(self, session: Session, tmp_path: Path) -> None:
        table = Table(session, tmp_path, PAY)
        table.apply("1", (1, "a", "x", 1), (2, "a", "y", 1))
        table.rules = [NEVER]
        table.apply("2")
        table.rules, table.types["pay"] = [PAY], "bigint"
        with pytest.raises(ConstraintError, match="Column 'pay', which constraint 'pay' needs, is not known"):
            table.apply("3")
        table.types["pay"] = "int"
        table.apply("3", (3, "a", "z", 2))
        assert table.counts == {"rows": 3, "pay": 2}

    def test_loads_of_before_and_after_are_told_apart(self, session: Session, tmp_path: Path) -> None:
        table = Table(session, tmp_path, PAY, key="id")
        table.apply("1", (1, "a", "x", 1))
        table.apply("2", deletes=((1, "a", "x", 1),))
        table.rules = [NEVER]
        table.apply("3")
        table.rules, table.types["pay"] = [PAY], "string"
        table.apply("4", (3, "a", "x", "p"), (4, "a", "x", "q"))
        table.apply("5", (5, "b", "x", "p"), deletes=((4, "a", "x", "q"),))
        table.apply("6", (6, "a", "x", "r"))
        assert table.counts == {"rows": 3, "pay": 1}
        with pytest.raises(StateError, match=r"column 'pay' has changed its type since \(int32 and string\)"):
            table.maintain("retract", load_id="2")
        table.maintain("retract", load_id="5")
        assert table.counts == {"rows": 3, "pay": 3}

    def test_deletes_that_found_nothing_then_are_no_traceback(self, session: Session, tmp_path: Path) -> None:
        table = Table(session, tmp_path, PAY, key="id")
        table.apply("1", (1, "a", "x", 1))
        table.apply("2", deletes=((1, "a", "x", 1),), missing_deletes="ignore")
        table.maintain("retract", load_id="1")  # then load 2 deletes nothing
        table.types["pay"] = "bigint"
        table.apply("3", (3, "a", "x", 3), (4, "a", "x", 4))
        table.apply("4", deletes=((4, "a", "x", 4),))
        for act in (lambda: table.maintain("retract", load_id="2"), lambda: table.apply("2", (9, "a", "x", 9))):
            with pytest.raises(StateError, match="has changed its type since"):
                act()
        assert table.counts == {"rows": 1, "pay": 0}


class TestKeyChanges:
    """A load's deletes go by the key that it was applied with, for ever: no other key plays them again."""

    FIRST = ((1, "a", "x", 1), (2, "b", "x", 2))

    def refused(self, table: Table, **counts: int) -> None:
        """Neither replacing nor taking out the first load is possible, and nothing is changed by trying."""
        for act in (
            lambda: table.maintain("retract", load_id="1"),
            lambda: table.apply("1", (7, "q", "q", 7)),
        ):
            with pytest.raises(StateError, match="load '2' after it was applied with another key") as refusal:
                act()
            assert "Take out the loads after it first" in refusal.value.hint
            assert table.counts == counts

    def test_deletes_of_whole_rows_are_not_played_again_by_a_key_that_was_added(
        self, session: Session, tmp_path: Path
    ) -> None:
        table = Table(session, tmp_path, CITY, READS_ALL)
        table.apply("1", *self.FIRST)
        table.apply("2", (3, "c", "z", 3), deletes=((1, "a", "x", 1), (2, "b", "other", 2)), missing_deletes="ignore")
        table.key = "id"
        table.apply("3", (4, "d", "z", 3))
        self.refused(table, **{"rows": 3, "city": 0, "reads all": 0})

    @pytest.mark.parametrize("duplicate_keys", ["error", "replace"])
    def test_inserts_are_not_played_again_by_a_key_under_which_they_meet_no_row(
        self, session: Session, tmp_path: Path, duplicate_keys: str
    ) -> None:
        table = Table(session, tmp_path, CITY, READS_ALL, key="id")
        table.apply("0", *self.FIRST)
        table.apply("1", deletes=self.FIRST[:1])
        table.apply("2", (1, "c", "z", 3), duplicate_keys=duplicate_keys)  # the key of the row that is gone
        table.key = "pay"
        table.apply("3")
        self.refused(table, **{"rows": 2, "city": 0, "reads all": 0})

    @pytest.mark.parametrize("again", [(), ((7, "q", "q", 7),)], ids=["taken out", "replaced"])
    def test_rows_that_were_deleted_before_there_was_a_key_do_not_come_back_under_it(
        self, session: Session, tmp_path: Path, again: tuple[Row, ...]
    ) -> None:
        table = Table(session, tmp_path, CITY, READS_ALL)
        rows = ((1, "a", "x", 1), (1, "a", "y", 2))
        table.apply("1", *rows)
        table.apply("2", deletes=rows)
        table.key = "id"
        table.apply("3", (2, "b", "x", 3))
        with pytest.raises(ChangesError, match="would bring back rows that share 1 key, for instance id=1"):
            table.apply("2", *again) if again else table.maintain("retract", load_id="2")
        assert table.counts == {"rows": 1, "city": 0, "reads all": 0}
        table.maintain("rebuild")

    def test_deletes_by_key_are_not_played_again_by_whole_rows(self, session: Session, tmp_path: Path) -> None:
        table = Table(session, tmp_path, CITY, key="id")
        table.apply("1", *self.FIRST)
        table.apply("2", deletes=((1, None, None, None),))
        table.key = None
        table.apply("3", (4, "d", "z", 3))
        self.refused(table, rows=2, city=0)

    def test_deletes_by_one_key_are_not_played_again_by_another(self, session: Session, tmp_path: Path) -> None:
        table = Table(session, tmp_path, CITY, key="id")
        table.apply("1", *self.FIRST)
        table.apply("2", deletes=((9, "a", "x", 1),), missing_deletes="ignore")
        table.key = "zip"
        table.apply("3", (4, "d", "z", 3))
        self.refused(table, rows=3, city=0)

    def test_keys_that_were_replaced_are_not_replaced_by_another_key(self, session: Session, tmp_path: Path) -> None:
        table = Table(session, tmp_path, CITY, key="id")
        table.apply("1", *self.FIRST)
        table.apply("2", (1, "e", "y", 5), duplicate_keys="replace")
        table.key = "zip"
        table.apply("3", (4, "d", "z", 3))
        self.refused(table, rows=3, city=0)

    def test_loads_can_be_taken_out_from_the_newest_back(self, session: Session, tmp_path: Path) -> None:
        table = Table(session, tmp_path, CITY, READS_ALL)
        table.apply("1", *self.FIRST)
        table.apply("2", (3, "c", "z", 3), deletes=((1, "a", "x", 1),))
        table.key = "id"
        table.apply("3", (4, "d", "z", 3), deletes=((2, None, None, None),))
        for load_id, rows in (("3", 2), ("2", 2), ("1", 0)):
            table.maintain("retract", load_id=load_id)
            assert table.counts == {"rows": rows, "city": 0, "reads all": 0}

    def test_a_key_that_was_dropped_still_holds_for_the_loads_that_had_it(
        self, session: Session, tmp_path: Path
    ) -> None:
        table = Table(session, tmp_path, CITY, READS_ALL, key="id")
        table.apply("1", *self.FIRST)
        table.apply("2", deletes=((1, None, None, None),))
        table.apply("3", (1, "z", "z", 9))
        table.key = None
        table.apply("4", (8, "d", "z", 3))
        with pytest.raises(StateError, match="load '3' after it was applied with another key"):
            table.apply("2")  # row 1 would be there when load 3 brings another of that key
        with pytest.raises(StateError, match="was applied with another key"):
            table.apply("1", (1, "q", "q", 7))

    def test_inserts_alone_may_be_replaced_whatever_the_key_was(self, session: Session, tmp_path: Path) -> None:
        table = Table(session, tmp_path, CITY, READS_ALL)
        table.apply("1", *self.FIRST)
        table.apply("2", (3, "a", "z", 3))
        table.key = "id"
        table.apply("3", (4, "b", "z", 3))
        table.apply("1", (1, "a", "y", 1))
        assert table.counts == {"rows": 3, "city": 1, "reads all": 0}
        with pytest.raises(ChangesError, match="inserts 1 key already present"):
            table.apply("1", (4, "a", "y", 1))
        table.maintain("retract", load_id="2")
        assert table.counts == {"rows": 2, "city": 0, "reads all": 0}


class TestVerify:
    """Whatever is wrong in a state whose files are whole."""

    def test_totals_that_are_not_what_the_rows_hold_are_noticed(self, table: Table) -> None:
        now = table.snapshot
        commit(table.storage, replace(now, number=now.number + 1, parent=now.number, facts={"violations": {"city": 2}}))
        assert table.maintain("verify")["problems"] == ["Constraint 'city' has 1 violation, the snapshot says 2."]
        assert table.maintain("verify", totals=False)["sound"]
        table.maintain("rebuild")
        assert table.maintain("verify")["sound"]

    @pytest.fixture
    def table(self, session: Session, tmp_path: Path) -> Table:
        table = Table(session, tmp_path, CITY)
        table.apply("1", (1, "a", "x", 1), (2, "a", "y", 1), (3, "b", "y", 1))
        assert table.counts == {"rows": 3, "city": 1}
        return table

    def problems_with(self, table: Table, *runs: DataFile) -> list[str]:
        """What is wrong when these runs are all there is of the index."""
        now = table.snapshot
        files = [*(file for file in now.files if file.kind != "index"), *runs]
        commit(table.storage, replace(now, number=now.number + 1, parent=now.number, files=files))
        result = table.maintain("verify")
        assert result["sound"] is not bool(result["problems"])
        return result["problems"]

    def test_row_ids_in_the_place_of_others_are_noticed(self, table: Table) -> None:
        (run,) = (file for file in table.snapshot.files if file.kind == "index")
        columns = [HASH, "city", "zip", ROWS, ROW_IDS]
        index = IndexPlan.on(("zip",), ("string",), ("city", "zip"))
        assert index.id == run.owner
        entries = find_entries(table.storage, [run], columns).entries.select(columns)
        assert not self.problems_with(table, write_run(table.storage, index, 1, entries)[0])
        ids = pa.array([[7]] * entries.num_rows, entries.schema.field(ROW_IDS).type)
        wrong = entries.set_column(columns.index(ROW_IDS), ROW_IDS, ids)
        assert self.problems_with(table, write_run(table.storage, index, 1, wrong)[0])

    def test_an_index_that_is_gone_is_noticed(self, table: Table) -> None:
        assert self.problems_with(table)
