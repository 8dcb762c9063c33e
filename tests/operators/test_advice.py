"""The advice of a red gate, followed to the letter: it leads to where it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dc_engine.apply_load import apply_load
from dc_engine.maintain import maintain
from dc_engine.state.snapshots import read_current
from dc_engine.state.storage import Storage
from dc_engine.verdict import Verdict
from tests.inprocess import Session, Source

TYPES = {"id": "bigint", "zip": "string", "city": "string", "salary": "double"}
BROKEN = {"id": [1, 2], "zip": ["1", "1"], "city": ["Berlin", "Berln"], "salary": [1.0, 2.0]}
MENDED = {**BROKEN, "city": ["Berlin", "Berlin"]}


class Gate:
    """The engine behind a gate, without Spark."""

    def __init__(self, spark: Any, state: Path, rules: dict[str, Any]) -> None:
        self.spark, self.state, self.rules = spark, str(state), rules

    def run(self, rows: dict[str, Any], **arguments: Any) -> Verdict:
        self.spark.sources["rows"] = Source(pa.table(rows), TYPES)
        request = {"state": self.state, "load_id": "one", "changes": {"path": "rows"}, "constraints": self.rules}
        return apply_load(self.spark, {**request, **arguments})

    def take_out(self) -> None:
        maintain(self.spark, "retract", {"state": self.state, "load_id": "one"})

    @property
    def rows(self) -> int:
        snapshot = read_current(Storage(self.state))
        return snapshot.rows if snapshot else 0


@pytest.fixture
def engine(state: Path, rules: dict[str, Any]):
    return Gate(Session(), state, rules)


@pytest.mark.parametrize("rejected_load", ["keep", "discard"])
def test_mended_data_under_the_same_load_id_takes_the_place(engine, rejected_load):
    assert engine.run(BROKEN, rejected_load=rejected_load).decision == "fail"
    assert engine.run(MENDED, rejected_load=rejected_load).decision == "pass"
    assert engine.rows == 2


@pytest.mark.parametrize("rejected_load", ["keep", "discard"])
def test_a_looser_rule_counts_once_the_load_was_taken_out(engine, rejected_load):
    engine.run(BROKEN, rejected_load=rejected_load)
    engine.rules["constraints"][0]["max_new_violations"] = 1
    again = engine.run(BROKEN, rejected_load=rejected_load)
    assert (again.replayed, again.decision) == (True, "fail")
    engine.take_out()
    assert engine.run(BROKEN, rejected_load=rejected_load).decision == "pass"
    assert engine.rows == 2


def test_a_discarded_load_reaches_the_state_once_it_was_taken_out_and_is_kept(engine):
    assert engine.run(BROKEN, rejected_load="discard").discarded
    assert engine.run(BROKEN, rejected_load="keep").discarded, "the stored verdict: it is not enough to run it again"
    assert engine.rows == 0
    engine.take_out()
    assert not engine.run(BROKEN, rejected_load="keep").discarded
    assert engine.rows == 2
