"""Verdicts about pinned dependencies, from a gate's real job to a checkpoint and its page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_dc_provider.checkpoints.batch import read_lines, to_lines
from airflow_dc_provider.checkpoints.export import export_checkpoint
from dc_engine.state.storage import Storage
from dc_engine.stored import read_verdict
from dc_engine.verdict import MASKED, Verdict
from tests.jobs.test_pinned import BREAKING, CLEAN, STATE, Gate

ATTACK = "<script>alert('x')</script>"


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path)


def pages(folder: Path) -> str:
    return "".join(path.read_text() for path in folder.rglob("*.html"))


def stored(gate: Gate, load_id: str) -> Verdict:
    """As the exporting task reads it."""
    return read_verdict(Storage(gate.state), load_id)


class TestACheckpoint:
    def test_passes_while_it_holds_and_fails_when_it_is_lost(self, gate: Gate, folder: Path) -> None:
        gate.apply("monday", CLEAN)
        first = export_checkpoint(stored(gate, "monday"), folder)
        assert first.success
        assert "ok   zip -> state: holds" in first.lines
        gate.apply("tuesday", BREAKING)
        second = export_checkpoint(stored(gate, "tuesday"), folder)
        assert not second.success
        assert "FAIL zip -> state: no longer holds: 1 violation" in second.lines

    def test_does_not_expect_it_any_more_once_it_is_lost(self, gate: Gate, folder: Path) -> None:
        for load_id, rows in (("monday", CLEAN), ("tuesday", BREAKING), ("wednesday", [])):
            gate.apply(load_id, rows)
            exported = export_checkpoint(stored(gate, load_id), folder)
        assert exported.success
        assert not [line for line in exported.lines if "zip -> state" in line]

    def test_of_severity_warn_has_a_warning(self, gate: Gate, folder: Path, open_context: Any) -> None:
        gate.pin({"fd": "zip -> state"})
        gate.apply("monday", CLEAN + BREAKING)
        assert not export_checkpoint(stored(gate, "monday"), folder).success
        (one,) = (
            one
            for one in open_context().suites.get("dcgate.people").expectations
            if one.expectation_type == "expect_dependency_to_hold"
        )
        assert one.severity.value == "warning"

    def test_of_a_table_without_constraints_is_complete(self, gate: Gate, folder: Path) -> None:
        gate.rules = {**gate.rules, "constraints": []}
        gate.apply("monday", CLEAN)
        assert export_checkpoint(stored(gate, "monday"), folder, export_builtin=True).success
        gate.pin()
        gate.apply("tuesday", [])
        assert export_checkpoint(stored(gate, "tuesday"), folder, export_builtin=True).success

    @pytest.mark.parametrize("severity", ["error", "warn"])
    def test_derives_the_gates_decision_from_the_lines_of_its_batch(self, gate: Gate, severity: str) -> None:
        gate.pin({**STATE, "severity": severity})
        verdict = gate.apply("monday", CLEAN + BREAKING)
        data = to_lines(verdict)
        assert (read_lines(data).problems, verdict.decision) == ((), {"error": "fail", "warn": "warn"}[severity])
        forged = data.replace(verdict.decision.encode(), b"pass", 1)
        assert read_lines(forged).problems


class TestAPage:
    def test_shows_the_two_rows_and_escapes_their_values(self, gate: Gate, folder: Path) -> None:
        gate.apply("monday", [*CLEAN, (3, "10115", "Berlin", ATTACK)])
        export_checkpoint(stored(gate, "monday"), folder)
        shown = pages(folder)
        assert "no longer holds: 1 violation" in shown
        assert "1 rule, 1 watched dependency, decision fail" in shown
        assert "&lt;script&gt;" in shown
        assert ATTACK not in shown

    def test_shows_no_value_of_a_masked_column(self, gate: Gate, folder: Path) -> None:
        gate.apply("monday", [*CLEAN, (3, "10115", "Berlin", "Secretshire")])
        export_checkpoint(stored(gate, "monday"), folder, mask=["state"])
        assert MASKED in pages(folder)
        assert not [path for path in folder.rglob("*") if path.is_file() and b"Secretshire" in path.read_bytes()]
