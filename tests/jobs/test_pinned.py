"""Pinned dependencies: a load that breaks one says so, once, with two rows that show it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dc_engine.apply_load import apply_load
from dc_engine.constraints.naming import dependency_id
from dc_engine.constraints.parser import parse_formula
from dc_engine.errors import ConstraintError, SchemaError
from dc_engine.maintain import maintain
from dc_engine.maintained.continuity import total_violations
from dc_engine.state.files import FileKind
from dc_engine.state.snapshots import Snapshot, read_current
from dc_engine.state.storage import Storage
from dc_engine.verdict import MASKED, Verdict
from tests.inprocess import Session, Source

TYPES = {"id": "bigint", "zip": "string", "city": "string", "state": "string"}
ARROW = (pa.int64(), pa.string(), pa.string(), pa.string())
CITY = {"name": "city", "fd": "zip -> city"}
STATE = {"fd": "zip -> state", "severity": "error"}
PHONE = {"unique": ["zip", "city"]}
FORMULA = "not (t.zip = s.zip and t.state != s.state)"
ID = dependency_id("fd", parse_formula(FORMULA), "ignore")
CLEAN = [(1, "10115", "Berlin", "BE"), (2, "20095", "Hamburg", "HH")]
BREAKING = [(3, "10115", "Berlin", "BB")]
Rows = list[tuple[Any, ...]]


class Gate:
    """One state, and loads of rows as (id, zip, city, state)."""

    def __init__(self, folder: Path) -> None:
        self.session, self.state = Session(), str(folder / "state")
        self.rules: dict[str, Any] = {"version": 1, "table": "people", "key": ["id"], "constraints": [CITY]}
        self.pin(STATE)

    def pin(self, *pinned: dict[str, Any], **section: Any) -> None:
        self.rules = {**self.rules, "dependencies": {"pinned": list(pinned), **section}}

    def apply(self, load_id: str, rows: Rows, kind: str = "insert", **more: Any) -> Verdict:
        columns = [list(values) for values in zip(*rows, strict=True)] or [[] for _ in TYPES]
        arrays = {name: pa.array(v, t) for name, v, t in zip(TYPES, columns, ARROW, strict=True)}
        table = pa.table({**arrays, "_change_type": pa.array([kind] * len(rows), pa.string())})
        self.session.sources["changes"] = Source(table, TYPES | {"_change_type": "string"})
        request = {"state": self.state, "load_id": load_id, "changes": {"path": "changes"}, "constraints": self.rules}
        return apply_load(self.session, request | more)

    @property
    def snapshot(self) -> Snapshot:
        found = read_current(Storage(self.state))
        assert found is not None
        return found


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path)


def texts(verdict: Verdict) -> tuple[list[str], list[str]]:
    """What holds, and what was lost."""
    found = verdict.dependencies
    return [one.text for one in found.watched], [one.text for one in found.invalidated]


def broken(verdict: Verdict) -> list[str]:
    return [note for note in verdict.notes if "does not hold" in note]


class TestOneThatIsLost:
    def test_it_is_lost_by_the_load_that_breaks_it_with_two_rows_that_show_it(self, gate: Gate) -> None:
        assert texts(gate.apply("monday", CLEAN)) == (["zip -> state"], [])
        verdict = gate.apply("tuesday", BREAKING)
        assert (verdict.decision, verdict.dependencies.watched) == ("fail", [])
        document = verdict.to_dict()["dependencies"]["invalidated"]
        assert document == [
            {
                "id": ID,
                "class": "fd",
                "text": "zip -> state",
                "formula": FORMULA,
                "severity": "error",
                "rank": None,
                "error": 0,
                "since": "",
                "watched": True,
                "violations": 1,
                "error_now": None,
                "example": {
                    "t": {"row": {"id": 3}, "values": {"zip": "10115", "state": "BB"}, "rows": 1},
                    "s": {"row": {"id": 1}, "values": {"zip": "10115", "state": "BE"}, "rows": 1},
                },
                "instead": [],
            }
        ]

    def test_it_is_reported_once(self, gate: Gate) -> None:
        gate.apply("monday", CLEAN + BREAKING)
        later = gate.apply("tuesday", [(4, "10115", "Berlin", "HH")])
        assert texts(later) == ([], [])
        assert (later.decision, later.notes) == ("pass", [])

    def test_it_can_hold_again_and_be_lost_again(self, gate: Gate) -> None:
        gate.apply("monday", CLEAN)
        assert texts(gate.apply("tuesday", BREAKING)) == ([], ["zip -> state"])
        assert texts(gate.apply("wednesday", BREAKING, "delete")) == (["zip -> state"], [])
        assert texts(gate.apply("thursday", BREAKING)) == ([], ["zip -> state"])

    def test_the_first_load_loses_what_it_violates(self, gate: Gate) -> None:
        assert texts(gate.apply("monday", CLEAN + BREAKING)) == ([], ["zip -> state"])

    def test_severity_warn_only_warns(self, gate: Gate) -> None:
        gate.pin({"fd": "zip -> state"})
        assert gate.apply("monday", CLEAN + BREAKING).decision == "warn"
        gate.pin({"fd": "zip -> state"}, severity="error")
        assert gate.apply("monday", CLEAN[:1] + BREAKING).decision == "fail"

    def test_it_is_no_violation_of_a_constraint(self, gate: Gate) -> None:
        verdict = gate.apply("monday", CLEAN + BREAKING)
        assert [one.name for one in verdict.constraints] == ["city"]
        assert verdict.constraints[0].passed
        kinds = {file.kind for load in gate.snapshot.recent for file in load.files}
        assert kinds == {FileKind.VERDICT}

    def test_the_same_load_again_gives_the_same_verdict(self, gate: Gate) -> None:
        gate.apply("monday", CLEAN)
        first = gate.apply("tuesday", BREAKING)
        again = gate.apply("tuesday", BREAKING)
        assert again.replayed
        assert again.dependencies == first.dependencies

    def test_values_of_masked_columns_are_not_shown(self, gate: Gate) -> None:
        verdict = gate.apply("monday", CLEAN + BREAKING, mask=["STATE", "id"])
        (lost,) = verdict.dependencies.invalidated
        assert lost.example is not None
        assert [side["values"]["state"] for side in lost.example.values()] == [MASKED, MASKED]
        stored = [path.read_text() for path in Path(gate.state).rglob("*.json")]
        assert not [text for text in stored if '"BB"' in text]

    def test_a_mask_that_came_later_hides_what_was_stored_and_says_so(self, gate: Gate) -> None:
        gate.apply("monday", CLEAN + BREAKING)
        again = gate.apply("monday", CLEAN + BREAKING, mask=["state"])
        assert '"BB"' not in json.dumps(again.to_dict())
        assert "was not masked when this load was applied" in again.notes[-1]

    def test_without_samples_there_is_no_example(self, gate: Gate) -> None:
        (lost,) = gate.apply("monday", CLEAN + BREAKING, max_samples=0).dependencies.invalidated
        assert (lost.violations, lost.example) == (1, None)


class TestOneThatIsPinnedLater:
    def test_one_that_holds_is_watched_from_then_on(self, gate: Gate) -> None:
        gate.pin()
        gate.rules["constraints"] = [{"name": "wide", "deny": "t.zip = s.city and t.state = s.zip"}]
        gate.apply("monday", CLEAN)
        gate.pin(STATE)
        verdict = gate.apply("tuesday", [])
        assert (texts(verdict), verdict.notes) == ((["zip -> state"], []), ["Pinned 'zip -> state' was added."])
        assert texts(gate.apply("wednesday", BREAKING)) == ([], ["zip -> state"])

    def test_one_that_is_violated_already_is_a_note_each_time_the_section_changes(self, gate: Gate) -> None:
        gate.rules["constraints"] = [{"name": "wide", "deny": "t.zip = s.city and t.state = s.zip"}]
        gate.pin()
        gate.apply("monday", CLEAN + BREAKING)
        gate.pin(STATE)
        verdict = gate.apply("tuesday", [(4, "10115", "Berlin", "HH")])
        assert (texts(verdict), verdict.decision) == (([], []), "pass")
        assert broken(verdict) == ["Pinned 'zip -> state' does not hold: 3 violations."]
        assert broken(gate.apply("wednesday", [])) == []
        gate.pin({"fd": "zip -> state"})
        changed = gate.apply("thursday", [])
        assert "Pinned 'zip -> state' has a new severity." in changed.notes
        assert broken(changed) == ["Pinned 'zip -> state' does not hold: 3 violations."]

    def test_one_whose_column_was_never_kept_needs_the_table(self, gate: Gate) -> None:
        gate.pin()
        gate.apply("monday", CLEAN)
        gate.pin(STATE)
        with pytest.raises(ConstraintError, match="Column 'state', which pinned 'zip -> state' needs, is not known"):
            gate.apply("tuesday", BREAKING)

    def test_one_whose_column_is_not_in_the_changes_is_refused(self, gate: Gate) -> None:
        gate.pin({"fd": "zip -> county"})
        with pytest.raises(SchemaError, match="Column county, which pinned 'zip -> county' needs, is not in"):
            gate.apply("monday", CLEAN)

    def test_two_that_say_the_same_only_in_this_sessions_zone_are_refused_before_anything_is_stored(
        self, gate: Gate
    ) -> None:
        bodies = [f"t.zip = s.zip and t.at < timestamp '2026-01-01 00:00:00{zone}'" for zone in ("", "Z")]
        gate.pin(*({"deny": body} for body in bodies))
        table = pa.table({"id": [1], "zip": ["a"], "city": ["b"], "at": pa.array([0], pa.timestamp("us", "UTC"))})
        types = {"id": "bigint", "zip": "string", "city": "string", "at": "timestamp"}
        gate.session.sources["changes"] = Source(table, types)
        request = {"state": gate.state, "load_id": "x", "changes": {"path": "changes"}, "constraints": gate.rules}
        with pytest.raises(ConstraintError, match="says the same as pinned"):
            apply_load(gate.session, request)
        gate.pin({"deny": bodies[0]})
        apply_load(gate.session, request | {"constraints": gate.rules})
        assert maintain(gate.session, "verify", {"state": gate.state})["sound"]

    def test_one_that_becomes_a_constraint_keeps_its_count(self, gate: Gate) -> None:
        gate.apply("monday", CLEAN + BREAKING)
        gate.pin()
        gate.rules["constraints"] = [CITY, {"name": "state", "fd": "zip -> state"}]
        verdict = gate.apply("tuesday", [])
        assert {one.name: one.total_violations for one in verdict.constraints} == {"city": 0, "state": 1}
        assert verdict.notes == ["Constraint 'state' was added.", "Pinned 'zip -> state' was removed."]


class TestOthersThanLoads:
    def test_where_nothing_is_watched_pinned_ones_are_not_judged(self, gate: Gate) -> None:
        gate.pin(STATE, watch="none")
        verdict = gate.apply("monday", CLEAN + BREAKING)
        assert (texts(verdict), verdict.decision, verdict.notes) == (([], []), "pass", [])
        assert total_violations(gate.snapshot) == {"city": 0}

    def test_a_replacement_is_judged_against_the_rows_without_the_load(self, gate: Gate) -> None:
        gate.apply("monday", CLEAN)
        gate.apply("tuesday", BREAKING)
        gate.apply("wednesday", [(5, "80331", "Munich", "BY")])
        verdict = gate.apply("tuesday", [(6, "20095", "Hamburg", "SH")])
        assert (verdict.replaced, texts(verdict)) == (True, ([], ["zip -> state"]))
        assert texts(gate.apply("tuesday", [(7, "50667", "Cologne", "NW")])) == (["zip -> state"], [])

    def test_taking_the_load_out_lets_it_hold_again(self, gate: Gate) -> None:
        gate.apply("monday", CLEAN)
        gate.apply("tuesday", BREAKING)
        maintain(gate.session, "retract", {"state": gate.state, "load_id": "tuesday"})
        assert total_violations(gate.snapshot) == {"city": 0, "zip -> state": 0}
        assert texts(gate.apply("wednesday", [])) == (["zip -> state"], [])

    def test_a_discarded_load_says_what_it_would_have_lost_and_leaves_the_state(self, gate: Gate) -> None:
        gate.pin(STATE, PHONE)
        gate.apply("monday", CLEAN)
        verdict = gate.apply("tuesday", BREAKING, rejected_load="discard")
        assert (verdict.discarded, texts(verdict)) == (True, ([], ["zip -> state", "unique [zip, city]"]))
        assert texts(gate.apply("wednesday", [])) == (["zip -> state", "unique [zip, city]"], [])

    def test_a_discarded_load_that_would_have_mended_one_does_not_count(self, gate: Gate) -> None:
        gate.pin({"fd": "zip -> state"})
        gate.apply("monday", CLEAN + BREAKING)
        gate.pin({"fd": "zip -> state"}, watch="all")
        gate.rules["constraints"] = [CITY, {"name": "none", "deny": "t.id = s.id"}, {"name": "few", "deny": "t.id > 8"}]
        rows = [(3, "50667", "Cologne", "NW"), (9, "80331", "Munich", "BY")]
        verdict = gate.apply("tuesday", rows, duplicate_keys="replace", rejected_load="discard")
        assert (verdict.discarded, texts(verdict)) == (True, ([], []))
        assert broken(verdict) == ["Pinned 'zip -> state' does not hold: 1 violation."]

    def test_a_description_of_the_state_has_them(self, gate: Gate) -> None:
        gate.apply("monday", CLEAN + BREAKING)
        described = maintain(gate.session, "describe", {"state": gate.state})
        assert described["pinned"] == [{"name": "zip -> state", "id": ID, "formula": FORMULA, "total_violations": 1}]
        assert f"         1  zip -> state: {FORMULA}" in described["text"]

    def test_a_check_of_the_state_counts_them_again(self, gate: Gate) -> None:
        gate.apply("monday", CLEAN + BREAKING)
        checked = maintain(gate.session, "verify", {"state": gate.state, "totals": True})
        assert checked["sound"]


class TestATableWithoutConstraints:
    def test_a_load_is_only_indexed(self, gate: Gate) -> None:
        gate.rules = {"version": 1, "table": "people", "key": ["id"], "constraints": []}
        verdict = gate.apply("monday", CLEAN)
        assert (verdict.decision, verdict.constraints, verdict.rows["total"]) == ("pass", [], 2)
        assert gate.apply("tuesday", CLEAN[:1], "delete").rows["total"] == 1

    @pytest.mark.parametrize("more", [{}, {"dependencies": {"watch": "all"}}])
    def test_without_a_key_rows_are_recognised_all_the_same(self, gate: Gate, more: dict[str, Any]) -> None:
        gate.rules = {"version": 1, "table": "people", "constraints": [], **more}
        gate.apply("monday", CLEAN)
        assert gate.apply("tuesday", CLEAN[:1], "delete").rows["total"] == 1
        maintain(gate.session, "retract", {"state": gate.state, "load_id": "tuesday"})
        maintain(gate.session, "retract", {"state": gate.state, "load_id": "monday"})
        assert gate.snapshot.rows == 0
        assert maintain(gate.session, "verify", {"state": gate.state, "totals": True})["sound"]

    def test_pinned_ones_alone_are_judged(self, gate: Gate) -> None:
        gate.rules = {**gate.rules, "constraints": []}
        assert texts(gate.apply("monday", CLEAN)) == (["zip -> state"], [])
        assert gate.apply("tuesday", BREAKING).decision == "fail"
