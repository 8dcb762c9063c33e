"""Assets: who gets an event, and what consumers can require of it."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, Asset, AssetAlias
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from airflow.sdk.execution_time.context import InletEventsAccessor

from airflow_dc_provider.assets import gated, missing, require_constraints
from airflow_dc_provider.exceptions import DcViolationError
from airflow_dc_provider.operators.gate import DcGateOperator

TAX = Asset("tax")
NOW = datetime(2026, 1, 3, 12, tzinfo=UTC)
APPROVED = {"answer": "approved", "by": "Ada", "at": "noon", "reason": ""}


class Events:
    """Takes what a task tells of an alias."""

    def __init__(self) -> None:
        self.added: list[tuple[Asset, dict[str, Any]]] = []

    def add(self, asset: Asset, *, extra: dict[str, Any]) -> None:
        self.added.append((asset, extra))


@pytest.fixture
def context(ti) -> dict[str, Any]:
    return {"ti": ti, "outlet_events": defaultdict(Events)}


@pytest.fixture
def events(context) -> Events:
    return context["outlet_events"][gated(TAX)]


class TestEvents:
    def test_a_load_that_passes_tells_of_the_asset_with_its_verdict(self, gate, fake_spark, context, passing, events):
        fake_spark.answers(passing)
        result = gate(asset=TAX).execute(context)
        assert events.added == [(TAX, result)]

    @pytest.mark.parametrize("given", [{"on_violation": "warn"}, {}])
    def test_one_that_breaks_a_rule_does_not_whatever_becomes_of_the_task(
        self, gate, fake_spark, context, failing, events, given
    ):
        fake_spark.answers(failing)
        try:
            gate(asset=TAX, **given).execute(context)
        except DcViolationError:
            assert not given
        assert not events.added

    def test_one_that_was_approved_does(self, gate, fake_spark, context, failing, events):
        fake_spark.answers({**failing, "decided": APPROVED})
        gate(asset=TAX, on_violation="ask").execute(context)
        assert events.added[0][1]["decided"] == APPROVED

    def test_one_that_was_discarded_does_not(self, gate, fake_spark, context, passing, events):
        fake_spark.answers({**passing, "discarded": True})
        gate(asset=TAX, rejected_load="discard").execute(context)
        assert not events.added

    def test_the_alias_is_among_the_outlets_the_asset_is_not(self, gate):
        other = Asset("other")
        assert gate(asset=TAX, outlets=[other]).outlets == [other, AssetAlias("gated tax")]

    def test_a_mapped_gate_has_it_too_once(self, rules):
        with DAG("d", schedule=None):
            mapped = DcGateOperator.partial(task_id="g", constraints=rules, state="/state", asset=TAX).expand(
                changes=[{"path": "/a"}]
            )
        assert mapped.outlets == [AssetAlias("gated tax")]
        assert mapped.unmap({"changes": {"path": "/a"}}).outlets == [AssetAlias("gated tax")]


def event(**rules: tuple[bool, int, int]) -> Any:
    constraints = {
        name: {"passed": passed, "new_violations": new, "total_violations": total}
        for name, (passed, new, total) in rules.items()
    }
    return SimpleNamespace(
        timestamp=NOW - timedelta(hours=2), extra={"table": "tax", "load_id": "one", "constraints": constraints}
    )


class Kept(InletEventsAccessor):
    """The events of an asset, oldest first; whoever asks for more than one would read those of years."""

    def __init__(self, *events: Any) -> None:
        super().__init__(asset_name="tax")
        self._events = events

    @property
    def _asset_events(self) -> list[Any]:
        assert self._limit == 1
        return list(self._events)[:: 1 if self._ascending else -1][:1]


def of_tax(*events: Any) -> dict[Asset, Kept]:
    return {TAX: Kept(*events)}


CLEAN, OLD, BROKEN = (True, 0, 0), (True, 0, 9), (False, 3, 12)


class TestRequiring:
    @pytest.mark.parametrize(
        ("found", "names", "more", "problems"),
        [
            (event(a=CLEAN, b=OLD), (), {}, []),
            (event(a=CLEAN, b=BROKEN), ("a",), {}, []),
            (event(a=CLEAN, b=BROKEN), (), {}, ["Load one broke b: 3 new violations."]),
            (event(a=CLEAN, b=OLD), (), {"in_table": True}, ["The table has 9 violations of b."]),
            (event(a=CLEAN), (), {"max_age": timedelta(hours=3)}, []),
            (
                event(a=CLEAN),
                (),
                {"max_age": timedelta(hours=1)},
                ["Load one passed at 2026-01-03 10:00 UTC, longer ago than 1:00:00."],
            ),
            (
                event(zip_city=CLEAN),
                ("zip_ctiy",),
                {},
                ["Load one was not judged by a rule 'zip_ctiy'. Did you mean 'zip_city'?"],
            ),
            (None, (), {}, ["The asset 'tax' has no event yet: no load has passed its gate."]),
            (
                SimpleNamespace(timestamp=NOW, extra={}),
                (),
                {},
                ["The newest event of the asset 'tax' has no verdict: it does not come from a gate."],
            ),
        ],
    )
    def test_what_is_missing_is_said(self, found, names, more, problems):
        given = {"max_age": None, "in_table": False, **more}
        assert missing(found, "tax", names, now=NOW, **given) == problems

    @pytest.mark.parametrize(("otherwise", "raised"), [("fail", AirflowFailException), ("skip", AirflowSkipException)])
    def test_the_task_fails_or_skips_by_the_newest_event(self, otherwise, raised):
        task = require_constraints(TAX, "b", otherwise=otherwise)
        assert (task.task_id, task.inlets) == ("require_tax", [TAX])
        with pytest.raises(raised, match="Load one broke b"):
            task.execute({"inlet_events": of_tax(event(b=CLEAN), event(b=BROKEN))})
        with pytest.raises(raised, match="no event yet"):
            task.execute({"inlet_events": of_tax()})
        assert task.execute({"inlet_events": of_tax(event(b=BROKEN), event(b=CLEAN))})["load_id"] == "one"

    @pytest.mark.parametrize("wrong", [{"otherwise": "warn"}, {"max_age": 60}])
    def test_a_wrong_argument_is_refused_when_the_dag_is_parsed(self, wrong):
        with pytest.raises(ValueError, match="must be"):
            require_constraints(TAX, **wrong)
        with pytest.raises(ValueError, match="must be names of rules"):
            require_constraints(TAX, ["a", "b"])

    def test_an_asset_that_is_known_by_its_uri_gives_the_task_a_name_too(self):
        assert require_constraints(Asset("s3://lake/tax")).task_id == "require_s3_lake_tax"
