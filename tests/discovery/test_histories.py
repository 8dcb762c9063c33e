"""After any history a state knows the dependencies of its rows (``brute.py`` says which), and verdicts are right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from dc_engine.apply_load import apply_load
from dc_engine.constraints.files import load_constraints
from dc_engine.constraints.naming import id_of
from dc_engine.discover import discover
from dc_engine.errors import ChangesError, ConstraintError, DcError, RequestError, StateError
from dc_engine.maintain import maintain
from dc_engine.sizes import SIZES, other_sizes
from dc_engine.state.snapshots import read_current
from dc_engine.state.storage import Storage
from dc_engine.verdict import Verdict
from tests.discovery.asked import asked
from tests.discovery.judging import Judge, check_known
from tests.discovery.test_keeping import TYPES
from tests.discovery.widening import widen
from tests.inprocess import Session, Source
from tests.jobs.histories import Given, Refused, Row, as_text, is_unique, play, some_place
from tests.jobs.test_histories import NIGHTLY, killed_after

NAMES = ("a", "b", "c")
KINDS = st.sampled_from(sorted(TYPES))
PICKS = st.lists(st.integers(0, 9), max_size=4)
"""Rows of a load, by their place in the pool of the history."""
RULES = ([], [{"name": "fd", "fd": "a -> b"}], [{"name": "all", "unique": [*NAMES]}], [{"name": "k", "unique": ["a"]}])
PINNED = ([], [{"fd": "b -> a", "severity": "error"}], [{"unique": ["b"]}, {"fd": "a -> b"}])
WATCH = st.sampled_from(["pinned", "all", "all", "top:1", "top:3", "none"])
File = tuple[list[Any], list[Any], str]
FILES = st.tuples(st.sampled_from(RULES), st.sampled_from(PINNED), WATCH)
WAYS = (
    {},
    {"few_pairs": 0, "counted_price": 0},
    {"few_pairs": 0, "counted_price": 1},
    {"few_pairs": 0, "counted_price": 1_000_000},
)


class Histories(RuleBasedStateMachine):
    """Random histories of one table."""

    sizes: Mapping[str, list[int]] = {}
    also: Mapping[str, Any] = {}
    """What else is asked for."""

    @initialize(
        kinds=st.tuples(KINDS, KINDS, KINDS),
        alike=st.booleans(),
        key=st.sampled_from([None, None, "id"]),
        file=FILES,
        ways=st.sampled_from(WAYS),
        seed=st.integers(0, 2**32),
        data=st.data(),
        first=st.lists(PICKS, max_size=3),
    )
    def begin(
        self,
        kinds: tuple[str, str, str],
        alike: bool,
        key: str | None,
        file: File,
        ways: Mapping[str, int],
        seed: int,
        data: st.DataObject,
        first: list[list[int]],
    ) -> None:
        self.random = Random(seed)
        self.kinds = dict(zip(NAMES, (kinds[0], kinds[0], kinds[2]) if alike else kinds, strict=True))
        self._stack = ExitStack()
        choices = {
            "recent_loads": [0, 3, 40],
            "kept_loads": [0, 8],
            "pattern_runs": [1, 8],
            "coded_rows": [1, 3, 100_000],
            "remembered_bytes": [0, 20_000, 2**27],
            "large_cells": [0, 0, 10, 2**30],
            "load_cells": [0, 0, 10, 2**30],
            "sampled_rows": [1, 2, 200_000],
            "share_rows": [1, 3, 2**20],
            "probe_rows": [1, 3, 524_288],
            "thinned_percent": [0, 100],
            "shown_rows": [1, 20_000],
            "cover_indexes": [1, 8, 8],
            "looked_up": [0, 6, 2_000_000, 2_000_000],
            "usual_load": [1, 1_000],
        }
        sizes = {name: self.random.choice(some) for name, some in {**choices, **self.sizes}.items()}
        self._stack.enter_context(other_sizes(**sizes, **ways))
        self.spark = Session(random=self.random, widens=widen)
        self.state = self._stack.enter_context(some_place(self.random))
        self.storage = Storage(self.state)
        self.key, self.file = key, file
        self.pool = self._pool()
        self.loads: list[Given] = []
        self.discarded: dict[str, Given] = {}
        self.count, self.settled = 0, False
        for picks in first:
            self.apply(data, picks, discard=False)
        if self.also:
            self.discover(data, data.draw(asked(NAMES)), table=False)

    def _pool(self) -> list[Row]:
        """Few rows, most of them like another but for one value; those with NULLs come last."""
        values = {name: self.random.sample(TYPES[kind][1], 2) for name, kind in self.kinds.items()}
        rows = [{name: self.random.choice(some) for name, some in values.items()} for _ in range(6)]
        rows += [{**self.random.choice(rows), self.random.choice(NAMES): None} for _ in range(2)]
        rows += [{**self.random.choice(rows), self.random.choice(NAMES): None} for _ in range(2)]
        return [{"id": place % 7, **row} for place, row in enumerate(rows)]

    def teardown(self) -> None:
        if hasattr(self, "_stack"):
            self._stack.close()

    # what can happen

    @rule(data=st.data(), picks=PICKS, discard=st.booleans())
    def apply(self, data: st.DataObject, picks: list[int], discard: bool) -> None:
        self.count += 1
        self._apply(self._given(data, f"load {self.count}", picks), discard=discard)

    @precondition(lambda self: self.loads or self.discarded)
    @rule(data=st.data(), picks=PICKS, discard=st.booleans())
    def replace(self, data: st.DataObject, picks: list[int], discard: bool) -> None:
        self._apply(self._given(data, self._some_load(data), picks), discard=discard)

    @precondition(lambda self: self.loads or self.discarded)
    @rule(data=st.data())
    def retract(self, data: st.DataObject) -> None:
        load_id = self._some_load(data)
        left = [one for one in self.loads if one.load_id != load_id]
        try:
            with self._refusals_change_nothing():
                maintain(self.spark, "retract", {"state": self.state, "load_id": load_id})
        except (ChangesError, StateError):
            return
        assert self._rows_of(left) is not None
        self.loads = left
        self.discarded.pop(load_id, None)
        self._check()

    @rule(
        data=st.data(),
        asked=asked(NAMES),
        table=st.booleans(),
    )
    def discover(self, data: st.DataObject, asked: dict[str, Any], table: bool) -> None:
        before = read_current(self.storage)
        begins = before is None or not self.loads
        rows = self._rows()
        asked = {**asked, **self.also}
        request = {"state": self.state, "view": "complete", **asked}
        given = Given(f"load {self.count + 1}", self._picked(data.draw(PICKS)), key=self.key)
        if begins:
            more = {"load_id": given.load_id, "constraints": self._rule_file}
            request |= {**more, "table": self._source("first", given.inserts)}
        elif table:
            request |= {"table": self._source("whole", rows)}
        try:
            with self._refusals_change_nothing(prepared=begins):
                answer = discover(self.spark, request)
        except (RequestError, ConstraintError, ChangesError):
            return
        if begins:
            self.count, self.loads = self.count + 1, [*self.loads, given]
        assert answer["rows"] == len(self._rows())
        self._check()
        after = read_current(self.storage)
        assert after is not None
        known = after.facts["dependencies"]
        assert (answer["complete"], answer["because"]) == (not known["because"], known["because"])
        classes = set(asked["classes"])
        counts = asked["max_error"] and classes & {"pod", "dc"}
        auto = "witnessed" if classes & {"od", "pod"} and not counts else "counted"
        assert known["mode"] == (auto if asked["mode"] == "auto" else asked["mode"])

    @rule(data=st.data(), picks=PICKS, writes=st.integers(0, 14))
    def crash(self, data: st.DataObject, picks: list[int], writes: int) -> None:
        given = self._given(data, f"load {self.count + 1}", picks)
        before = read_current(self.storage)
        with killed_after(writes):
            try:
                self._submit(given)
            except DcError:
                return
        after = read_current(self.storage)
        if after != before:
            self.count, self.loads = self.count + 1, [*self.loads, given]
        self._check()

    @precondition(lambda self: self.loads)
    @rule(action=st.sampled_from(["compact", "rebuild", "vacuum"]), keep=st.integers(1, 3), table=st.integers(0, 3))
    def look_after(self, action: str, keep: int, table: int) -> None:
        more: dict[str, Any] = {"keep_snapshots": keep, "grace_hours": 0} if action == "vacuum" else {}
        if action == "rebuild" and not table:
            more, self.settled = {"table": self._source("whole", self._rows())}, True
        maintain(self.spark, action, {"state": self.state, **more})
        self._check()

    @rule(file=FILES, data=st.data(), picks=PICKS)
    def change_the_file(self, file: File, data: st.DataObject, picks: list[int]) -> None:
        before, self.file = self.file, file
        snapshot = read_current(self.storage)
        self.apply(data, picks, discard=False)
        if read_current(self.storage) == snapshot:
            self.file = before

    # how it is done, and what must be so

    def _rows(self) -> list[Row]:
        return play(self.loads)[0]

    def _rows_of(self, history: list[Given]) -> list[Row] | None:
        try:
            return play(history)[0]
        except Refused:
            return None

    def _some_load(self, data: st.DataObject) -> str:
        names = [*self.discarded, *(one.load_id for one in self.loads)]
        return data.draw(st.just(names[-1]) | st.sampled_from(names))

    def _picked(self, picks: list[int]) -> list[Row]:
        rows = [self.pool[one] for one in picks]
        return list({row["id"]: row for row in rows}.values()) if self.key else rows

    def _given(self, data: st.DataObject, load_id: str, picks: list[int]) -> Given:
        """A load that leaves at most eight rows, and mostly deletes what is there."""
        names = [one.load_id for one in self.loads]
        rows, _ = play(self.loads[: names.index(load_id)] if load_id in names else self.loads)
        inserts = self._picked(picks)
        least = max(0, len(self._rows()) + len(inserts) - 8)
        deletes = data.draw(st.lists(st.sampled_from(rows), unique_by=id, max_size=max(3, least))) if rows else []
        for row in rows:
            if len(deletes) < least and not any(row is one for one in deletes):
                deletes.append(row)
        duplicate = data.draw(st.sampled_from(["error", "replace"])) if self.key else "error"
        if self.key and duplicate == "error":
            taken = {row["id"] for row in rows if not any(row is one for one in deletes)}
            inserts = [row for row in inserts if row["id"] not in taken]
        return Given(load_id, inserts, deletes, data.draw(st.sampled_from(["error", "ignore"])), duplicate, self.key)

    @property
    def _rule_file(self) -> dict[str, Any]:
        key = {"key": [self.key]} if self.key else {}
        rules, pinned, watch = self.file
        watching = {"watch": watch, "pinned": pinned, "severity": "warn"}
        return {"version": 1, "table": "made_up", **key, "constraints": rules, "dependencies": watching}

    def _source(self, path: str, inserts: list[Row], deletes: list[Row] | None = None) -> dict[str, str]:
        rows = [*(deletes or []), *inserts]
        arrow = {"id": pa.int64(), **{name: TYPES[kind][0] for name, kind in self.kinds.items()}}
        columns = {name: pa.array([row[name] for row in rows], kind) for name, kind in arrow.items()}
        types = {"id": "bigint", **self.kinds}
        if deletes is not None:
            kinds = ["delete"] * len(deletes) + ["insert"] * len(inserts)
            columns["_change_type"], types["_change_type"] = pa.array(kinds, pa.string()), "string"
        self.spark.sources[path] = Source(pa.table(columns), types)
        return {"path": path}

    @contextmanager
    def _refusals_change_nothing(self, *, prepared: bool = False) -> Iterator[None]:
        before = read_current(self.storage)
        try:
            yield
        except DcError:
            assert prepared or read_current(self.storage) == before
            raise

    def _submit(self, given: Given, **more: Any) -> Verdict:
        request = {
            "state": self.state,
            "load_id": given.load_id,
            "changes": self._source(given.load_id, given.inserts, given.deletes),
            "constraints": self._rule_file,
            "missing_deletes": given.missing_deletes,
            "duplicate_keys": given.duplicate_keys,
        }
        SIZES.runs = self.random.choice([1, 2, 16])
        with self._refusals_change_nothing():
            return apply_load(self.spark, request | more)

    def _apply(self, given: Given, *, discard: bool) -> None:
        known = next((n for n, one in enumerate(self.loads) if one.load_id == given.load_id), None)
        place = len(self.loads) if known is None else known
        without = [one for one in self.loads if one.load_id != given.load_id]
        history = [*without[:place], given, *without[place:]]
        judge = Judge(self.storage, read_current(self.storage))
        try:
            verdict = self._submit(given, rejected_load="discard" if discard else "keep")
        except (ChangesError, ConstraintError, StateError):
            return
        if verdict.replayed:
            return
        rows, done = play(history)
        assert is_unique(rows, self.key)
        self.discarded.pop(given.load_id, None)
        stays = rows
        if verdict.discarded:
            self.loads, self.discarded[given.load_id] = without, given
            stays = self._rows()
        else:
            self.loads = history
        self._check()
        if place == len(without) or (self._tells_apart(history, given) and not self.settled):
            alive = {id(row) for row in rows}
            new = [row for row in done[given.load_id].inserted if id(row) in alive]
            left = [row for row in rows if not any(row is one for one in new)]
            own = {id_of(one) for one in load_constraints(self._rule_file).dependencies.judged}
            before = [*left, *done[given.load_id].deleted]
            judge.check(verdict, before, rows, stays, own, self.file[2], exact=known is None)

    def _tells_apart(self, history: list[Given], given: Given) -> bool:
        """Whether no other load has rows alike to those of a load: which of them a later delete takes is open."""
        own, others = (
            {as_text(row) for one in history for row in [*one.inserts, *one.deletes] if (one is given) == mine}
            for mine in (True, False)
        )
        return not own & others

    def _check(self) -> None:
        snapshot = read_current(self.storage)
        if snapshot is None:
            return
        rows = self._rows()
        assert snapshot.rows == len(rows)
        check_known(self.storage, snapshot, rows, self.kinds)
        if NIGHTLY or self.random.random() < 0.4:
            checked = maintain(self.spark, "verify", {"state": self.state})
            assert checked["sound"], checked["problems"]


class LargeHistories(Histories):
    """The same of a table whose rows stay where they are, whatever comes."""

    sizes: Mapping[str, list[int]] = {"large_cells": [0], "load_cells": [0], "sampled_rows": [2, 200_000]}
    also: Mapping[str, Any] = {"mode": "witnessed", "max_error": 0, "limits": {}}


Histories.TestCase.settings = LargeHistories.TestCase.settings = settings(
    backend="new each time",
    max_examples=400 if NIGHTLY else 12,
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestHistories = Histories.TestCase
TestLargeHistories = LargeHistories.TestCase
