"""What people decide about a load: kept beside its verdict, bound to its rows, known to whoever maintains a state."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from dc_engine.apply_load import apply_load
from dc_engine.deciding import record_decision
from dc_engine.errors import DcError, RequestError, StateError
from dc_engine.maintain import maintain
from dc_engine.state.storage import Storage
from dc_engine.stored import read_verdict
from dc_engine.verdict import Decided, Verdict
from tests.inprocess import Session, Source

RULES = {"version": 1, "table": "zips", "key": ["id"], "constraints": [{"name": "one_city", "fd": "zip -> city"}]}
APPROVED = Decided("approved", "Ada", "2026-01-03T04:05:06+00:00", "a known typo")
REJECTED = Decided("rejected", "Ada", "2026-01-03T04:00:00+00:00")


@pytest.fixture
def state(tmp_path: Path) -> Storage:
    return Storage(str(tmp_path / "state"))


@pytest.fixture
def apply(state):
    session = Session()

    def load(load_id: str, *rows: tuple[int, str, str], **request) -> Verdict:
        ids, zips, cities = zip(*rows, strict=True)
        table = pa.table({"id": pa.array(ids, pa.int64()), "zip": pa.array(zips), "city": pa.array(cities)})
        session.sources[load_id] = Source(table, {"id": "bigint", "zip": "string", "city": "string"})
        asked = {"state": state.uri, "load_id": load_id, "changes": {"path": load_id}, "constraints": RULES}
        return apply_load(session, {**asked, **request})

    load.session = session
    return load


@pytest.fixture
def broken(apply) -> Verdict:
    """A second load that breaks the rule, and stays in the state."""
    apply("monday", (1, "10115", "Berlin"))
    return apply("tuesday", (2, "10115", "Berln"))


def actions(state: Storage, apply, action: str, **request) -> dict:
    return maintain(apply.session, action, {"state": state.uri, **request})


class TestDecisions:
    def test_is_read_back_with_the_verdict_which_stays_as_it_was(self, state, broken):
        record_decision(state, "tuesday", broken.snapshot, APPROVED)
        verdict = read_verdict(state, "tuesday")
        assert verdict.decided == APPROVED
        assert verdict.approved
        assert (verdict.decision, verdict.constraints) == (broken.decision, broken.constraints)
        assert Verdict.from_dict(json.loads(json.dumps(verdict.to_dict()))) == verdict

    def test_a_replay_has_it_and_other_rows_do_not(self, state, broken, apply):
        record_decision(state, "tuesday", broken.snapshot, APPROVED)
        assert apply("tuesday", (2, "10115", "Berln")).approved
        other = apply("tuesday", (2, "10115", "Brlin"))
        assert other.decided is None
        assert read_verdict(state, "tuesday").decided is None

    def test_the_last_one_counts_and_the_others_are_kept(self, state, broken):
        record_decision(state, "tuesday", broken.snapshot, REJECTED)
        record_decision(state, "tuesday", broken.snapshot, APPROVED)
        assert read_verdict(state, "tuesday").decided == APPROVED
        kept = [json.loads(state.read(f"decisions/{name}")) for name in state.names("decisions")]
        assert sorted(one["answer"] for one in kept) == ["approved", "rejected"]
        assert all((one["load_id"], one["snapshot"]) == ("tuesday", broken.snapshot) for one in kept)

    def test_the_same_again_changes_nothing(self, state, broken):
        record_decision(state, "tuesday", broken.snapshot, APPROVED)
        before = state.files()
        record_decision(state, "tuesday", broken.snapshot, APPROVED)
        assert state.files() == before

    def test_one_about_rows_that_were_replaced_is_refused(self, state, broken, apply):
        apply("tuesday", (2, "10115", "Brlin"))
        with pytest.raises(StateError, match=r"applied again since, with other rows: .* snapshot 2, .* snapshot 3"):
            record_decision(state, "tuesday", broken.snapshot, APPROVED)
        assert not state.names("decisions")

    def test_one_about_an_unknown_load_is_refused(self, state, broken):
        with pytest.raises(StateError, match="no verdict of load 'tuseday'"):
            record_decision(state, "tuseday", broken.snapshot, APPROVED)

    def test_whoever_looks_after_a_state_knows_it(self, state, broken, apply):
        record_decision(state, "tuesday", broken.snapshot, APPROVED)
        assert actions(state, apply, "verify")["sound"]
        for action, more in (("compact", {}), ("rebuild", {}), ("vacuum", {"keep_snapshots": 1, "grace_hours": 0})):
            actions(state, apply, action, **more)
            assert read_verdict(state, "tuesday").decided == APPROVED
        (name,) = state.names("decisions")
        Path(state.locate(f"decisions/{name}")).write_text("{}")
        assert name in actions(state, apply, "verify")["problems"][0]

    def test_goes_with_the_load_that_is_taken_out(self, state, broken, apply):
        record_decision(state, "tuesday", broken.snapshot, APPROVED)
        actions(state, apply, "retract", load_id="tuesday")
        actions(state, apply, "vacuum", keep_snapshots=1, grace_hours=0)
        assert not state.names("decisions")

    def test_does_not_make_taking_the_newest_load_out_dearer_or_wrong(self, state, broken, apply):
        record_decision(state, "tuesday", broken.snapshot, APPROVED)
        assert actions(state, apply, "retract", load_id="tuesday")["rows"] == {"before": 2, "total": 1}
        assert actions(state, apply, "verify")["sound"]


class TestApprovingWhatWasDiscarded:
    @pytest.fixture
    def discarded(self, apply) -> Verdict:
        apply("monday", (1, "10115", "Berlin"))
        return apply("tuesday", (2, "10115", "Berln"), rejected_load="discard")

    @staticmethod
    def approval(verdict: Verdict) -> dict:
        return {"snapshot": verdict.snapshot, "by": APPROVED.by, "at": APPROVED.at, "reason": APPROVED.reason}

    def test_keeps_its_rows_and_says_who_approved_in_one_commit(self, state, discarded, apply):
        again = {"rejected_load": "discard", "approved": self.approval(discarded)}
        verdict = apply("tuesday", (2, "10115", "Berln"), **again)
        assert (verdict.decided, verdict.discarded, verdict.replaced) == (APPROVED, False, False)
        assert verdict.rows["total"] == 2
        assert verdict.constraints[0].new_violations == 1
        assert verdict.snapshot == discarded.snapshot + 1
        assert replace_seconds(read_verdict(state, "tuesday")) == replace_seconds(verdict)
        assert actions(state, apply, "verify")["sound"]
        assert apply("tuesday", (2, "10115", "Berln"), **again).replayed, "a second time there is nothing to do"

    @pytest.mark.parametrize("city", ["Brlin", "Berlin"])
    def test_other_rows_are_not_let_in_by_it_whether_they_would_pass_or_not(self, state, discarded, apply, city):
        before = state.files()
        with pytest.raises(StateError, match="its rows have changed since: they were not let in"):
            apply("tuesday", (2, "10115", city), rejected_load="discard", approved=self.approval(discarded))
        assert state.files() == before

    def test_rules_that_no_longer_fit_are_the_reason_why_it_is_not_let_in(self, state, discarded, apply):
        before = state.files()
        rules = {**RULES, "constraints": [{"name": "one_town", "fd": "zip -> town"}]}
        again = {"rejected_load": "discard", "constraints": rules}
        assert apply("tuesday", (2, "10115", "Berln"), **again).replayed
        with pytest.raises(DcError, match="town"):
            apply("tuesday", (2, "10115", "Berln"), **again, approved=self.approval(discarded))
        assert state.files() == before

    def test_says_nothing_about_another_attempt(self, state, discarded, apply):
        other = {**self.approval(discarded), "snapshot": 1}
        verdict = apply("tuesday", (2, "10115", "Berln"), rejected_load="discard", approved=other)
        assert (verdict.decided, verdict.discarded, verdict.replayed) == (None, True, True)

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ("yes", "not an object"),
            ({"snapshot": 0, "by": "Ada", "at": "now"}, "'snapshot'"),
            ({"snapshot": 1, "by": "", "at": "now"}, "'by'"),
            ({"snapshot": 1, "by": "Ada", "at": "now", "reason": 7}, "'reason'"),
            ({"snapshot": 1, "by": "Ada", "at": "now", "who": "Ada"}, "Unknown key 'who'"),
        ],
    )
    def test_a_wrong_approval_is_refused(self, apply, wrong, message):
        with pytest.raises(RequestError, match=message):
            apply("tuesday", (2, "10115", "Berln"), approved=wrong)


def replace_seconds(verdict: Verdict) -> dict:
    return {**verdict.to_dict(), "seconds": {}}
