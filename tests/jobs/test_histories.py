"""After any history of loads, every count equals brute force over the rows that survive."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from random import Random
from typing import Any
from unittest.mock import patch

import fsspec
import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from spark_jobs.apply_load import apply_load
from spark_jobs.changing import plan_of
from spark_jobs.constraints.files import load_constraints
from spark_jobs.detection.rows import ROW_ID, read_rows, row_ids
from spark_jobs.detection.runs import ROW_IDS, find_entries
from spark_jobs.errors import ChangesError
from spark_jobs.history import is_newest
from spark_jobs.maintain import maintain
from spark_jobs.state.snapshots import DataFile, Snapshot, read_current
from spark_jobs.state.storage import Storage
from tests.inprocess import Source, without_spark
from tests.jobs.histories import Given, Refused, Row, play, violations

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
TYPES = {
    "id": ("bigint", pa.int64()),
    "zip": ("string", pa.string()),
    "city": ("string", pa.string()),
    "age": ("int", pa.int32()),
    "pay": ("double", pa.float64()),
    "note": ("string", pa.string()),
}
"""Every column but ``note`` is read by the first rule, so that any rule can be added later."""
ALWAYS = {
    "name": "always",
    "deny": "t.zip = s.zip and t.city != s.city and t.age < s.age and t.pay > s.pay and t.id != s.id",
}
RULES = [
    {"name": "city", "fd": "zip -> city"},
    {"name": "once", "unique": ["zip", "age"], "nulls": "equal"},
    {"name": "order", "deny": "t.age > s.age and t.pay < s.pay"},
    {"name": "across", "deny": "t.age = s.id and t.zip != s.zip"},
    {"name": "alone", "deny": "t.pay <= 1.0"},
    {"name": "sorted", "order": "age -> pay", "within": ["city"]},
]

ROWS = st.fixed_dictionaries(
    {
        "id": st.integers(0, 6),
        "zip": st.sampled_from(["1", "2", None]),
        "city": st.sampled_from(["a", "b", None]),
        "age": st.sampled_from([0, 1, 2, None]),
        "pay": st.sampled_from([-0.0, 0.0, 1.0, 2.0, float("inf"), None]),
        "note": st.sampled_from(["x", None]),
    }
)
_numbers = itertools.count()


class Killed(BaseException):
    """In the place of SIGKILL: from here on the process can do nothing."""


@contextmanager
def killed_after(writes: int) -> Iterator[None]:
    """The process dies at a write; nothing that it would still do reaches the disk."""
    left = itertools.count(writes, -1)
    dead = False

    def dying(name: str) -> Any:
        real = getattr(Storage, name)

        def call(self: Storage, *given: Any, **named: Any) -> Any:
            nonlocal dead
            if dead or next(left) <= 0:
                dead = True
                raise Killed
            return real(self, *given, **named)

        return patch.object(Storage, name, call)

    with ExitStack() as stack:
        for name in ("write", "create", "remove"):
            stack.enter_context(dying(name))
        try:
            yield
        except Killed:
            return


class Histories(RuleBasedStateMachine):
    """Random histories of one table."""

    @initialize(keyed=st.booleans(), chosen=st.sets(st.sampled_from(range(len(RULES)))), random=st.randoms())
    def begin(self, keyed: bool, chosen: set[int], random: Random) -> None:
        self.random = random
        self._stack = ExitStack()
        self.spark = self._stack.enter_context(without_spark())
        # Which runs a gate merges depends on their number and sizes, small here: any choice must be right.
        self._stack.enter_context(patch("spark_jobs.changing.small_runs", self.some_runs))
        self.state = f"memory://histories/{next(_numbers)}"
        self.storage = Storage(self.state)
        self.key = "id" if keyed else None
        self.rules = sorted(chosen)
        self.loads: list[Given] = []
        self.discarded: dict[str, Given] = {}
        self.count = 0

    def teardown(self) -> None:
        if hasattr(self, "_stack"):
            self._stack.close()
            filesystem = fsspec.filesystem("memory")
            if filesystem.exists(self.state):
                filesystem.rm(self.state, recursive=True)

    def some_runs(self, files: Sequence[DataFile]) -> list[DataFile]:
        return [file for file in files if self.random.random() < 0.4]

    # what can happen

    @rule(data=st.data(), inserts=st.lists(ROWS, max_size=5), discard=st.booleans())
    def apply(self, data: st.DataObject, inserts: list[Row], discard: bool) -> None:
        self.count += 1
        given = self._given(data, f"load {self.count}", inserts)
        self._apply(given, discard=discard and data.draw(st.booleans()))

    @precondition(lambda self: self.loads)
    @rule(data=st.data())
    def apply_again(self, data: st.DataObject) -> None:
        given = data.draw(st.sampled_from(self.loads))
        before = read_current(self.storage)
        verdict = self._submit(given)
        assert verdict.replayed
        assert read_current(self.storage) == before

    @precondition(lambda self: self.loads or self.discarded)
    @rule(data=st.data(), inserts=st.lists(ROWS, max_size=5), discard=st.booleans())
    def replace(self, data: st.DataObject, inserts: list[Row], discard: bool) -> None:
        names = [one.load_id for one in self.loads] + list(self.discarded)
        given = self._given(data, data.draw(st.sampled_from(names)), inserts)
        self._apply(given, discard=discard)

    @precondition(lambda self: self.loads)
    @rule(data=st.data())
    def retract(self, data: st.DataObject) -> None:
        load = data.draw(st.sampled_from(self.loads))
        left = [one for one in self.loads if one is not load]
        before = read_current(self.storage)
        try:
            play(left, self.key)
        except Refused:
            try:
                maintain(lambda: self.spark, "retract", {"state": self.state, "load_id": load.load_id})
            except ChangesError:
                assert read_current(self.storage) == before
                return
            raise AssertionError(f"{load.load_id} was taken out, though a later load needs it") from None
        maintain(lambda: self.spark, "retract", {"state": self.state, "load_id": load.load_id})
        self.loads = left
        self._check()

    @rule(data=st.data(), inserts=st.lists(ROWS, max_size=5), writes=st.integers(0, 12))
    def crash(self, data: st.DataObject, inserts: list[Row], writes: int) -> None:
        given = self._given(data, f"load {self.count + 1}", inserts)
        before = read_current(self.storage)
        with killed_after(writes):
            try:
                self._submit(given)
            except ChangesError:
                return
        after = read_current(self.storage)
        if after != before:  # it died after its commit, or not at all
            assert after is not None
            assert after.find_load(given.load_id)
            self.count += 1
            self.loads.append(given)
        self._check()

    @precondition(lambda self: self.loads)
    @rule()
    def compact(self) -> None:
        maintain(lambda: self.spark, "compact", {"state": self.state})
        self._check()

    @precondition(lambda self: self.loads)
    @rule(keep=st.integers(1, 3))
    def vacuum(self, keep: int) -> None:
        maintain(lambda: self.spark, "vacuum", {"state": self.state, "keep_snapshots": keep, "grace_hours": 0})
        self._check()

    @precondition(lambda self: self.loads)
    @rule()
    def rebuild(self) -> None:
        maintain(lambda: self.spark, "rebuild", {"state": self.state})
        self._check()

    @rule(chosen=st.sets(st.sampled_from(range(len(RULES)))))
    def change_the_rules(self, chosen: set[int]) -> None:
        self.rules = sorted(chosen)

    # how it is done, and what must be so

    def _given(self, data: st.DataObject, load_id: str, inserts: list[Row]) -> Given:
        """A load: some of its deletes are of rows that are there, and keys are unique more often than not."""
        others = [one for one in self.loads if one.load_id != load_id]
        try:
            rows, _ = play(others, self.key)
        except Refused:
            rows = []
        deletes = data.draw(st.lists(st.sampled_from(rows), unique_by=id, max_size=3)) if rows else []
        if data.draw(st.integers(0, 3)) == 0:
            deletes = [*deletes, data.draw(ROWS)]
        if self.key and data.draw(st.booleans()):
            taken = {row["id"] for row in rows if row not in deletes}
            unique = {row["id"]: row for row in inserts if row["id"] not in taken}
            inserts = list(unique.values())
        return Given(
            load_id,
            inserts,
            deletes,
            data.draw(st.sampled_from(["error", "ignore"])),
            data.draw(st.sampled_from(["error", "replace"])) if self.key else "error",
        )

    @property
    def _rule_file(self) -> dict[str, Any]:
        key = {"key": [self.key]} if self.key else {}
        return {"version": 1, "table": "made_up", **key, "constraints": [ALWAYS, *(RULES[n] for n in self.rules)]}

    def _submit(self, given: Given, **more: Any) -> Any:
        rows = [*given.deletes, *given.inserts]
        columns = {name: pa.array([row[name] for row in rows], arrow) for name, (_, arrow) in TYPES.items()}
        kinds = ["delete"] * len(given.deletes) + ["insert"] * len(given.inserts)
        types = {name: spark for name, (spark, _) in TYPES.items()}
        self.spark.sources[given.load_id] = Source(
            pa.table({**columns, "_change_type": pa.array(kinds, pa.string())}), {**types, "_change_type": "string"}
        )
        return apply_load(
            self.spark,
            {
                "state": self.state,
                "load_id": given.load_id,
                "changes": {"path": given.load_id},
                "constraints": self._rule_file,
                "missing_deletes": given.missing_deletes,
                "duplicate_keys": given.duplicate_keys,
                **more,
            },
        )

    def _apply(self, given: Given, *, discard: bool) -> None:
        known = next((n for n, one in enumerate(self.loads) if one.load_id == given.load_id), None)
        place = len(self.loads) if known is None else known
        without = [one for one in self.loads if one.load_id != given.load_id]
        history = [*without[:place], given, *without[place:]]
        snapshot = read_current(self.storage)
        try:
            rows, done = play(history, self.key)
        except Refused:
            try:
                self._submit(given, rejected_load="discard" if discard else "keep")
            except ChangesError:
                assert read_current(self.storage) == snapshot
                return
            raise AssertionError(f"{given.load_id} was applied, though it cannot be") from None
        try:
            verdict = self._submit(given, rejected_load="discard" if discard else "keep")
        except ChangesError:
            # a failed attempt in the middle of the history goes altogether, which later loads may not allow
            assert discard
            assert known is not None
            return
        if verdict.replayed:
            return
        played = done[given.load_id]
        assert verdict.rows["inserted"] == len(given.inserts)
        assert verdict.rows["deleted"] == len(played.deleted)
        assert verdict.rows.get("missing_deletes", 0) == played.missing
        self.discarded.pop(given.load_id, None)
        if verdict.discarded:
            self.loads, self.discarded[given.load_id] = without, given
            rows, _ = play(without, self.key)
        else:
            self.loads = history
        assert verdict.rows["total"] == len(rows)
        if place == len(without) and not verdict.discarded:
            before, _ = play(without, self.key)
            old = snapshot.find_load(given.load_id) if snapshot and known is not None else None
            apart = old is None or is_newest(snapshot, old)
            self._check_change(verdict, before, rows, played.deleted, apart=apart)
        self._check()

    def _check_change(
        self, verdict: Any, before: list[Row], after: list[Row], deleted: list[Row], *, apart: bool
    ) -> None:
        """New and removed violations of a load at the end of the history.

        Those that an old attempt took part in count as removed too, unless it stood apart.
        """
        left = list(before)
        for row in deleted:
            left.remove(row)
        rules = load_constraints(self._rule_file).constraints
        for one, constraint in zip(verdict.constraints, rules, strict=True):
            kept = violations(constraint, left)
            assert not apart or one.removed_violations == violations(constraint, before) - kept
            assert one.new_violations == violations(constraint, after) - kept

    def _check(self) -> None:
        snapshot = read_current(self.storage)
        if snapshot is None:
            assert not self.loads
            return
        rows, _ = play(self.loads, self.key)
        assert snapshot.rows == len(rows)
        constraints = load_constraints(snapshot.constraints).constraints if snapshot.constraints else ()
        assert snapshot.totals == {one.name: violations(one, rows) for one in constraints}
        checked = maintain(lambda: self.spark, "verify", {"state": self.state})
        assert checked["sound"], checked["problems"]
        self._check_indexes(snapshot)
        self._check_history(snapshot)

    def _check_indexes(self, snapshot: Snapshot) -> None:
        """Every index has just the rows that are there, each under its own values."""
        if not snapshot.constraints:
            return
        plan = plan_of(self.spark, snapshot)
        dead = row_ids(self.storage, [*snapshot.files_of("deletes"), *snapshot.files_of("dead")])
        rows = list(read_rows(self.storage, snapshot.files_of("rows"), plan.stored))
        for index_id, index in plan.indexes.items():
            alive = {
                (one.pop(ROW_ID), repr(one).replace("-0.0", "0.0"))
                for part in rows
                for one in part.select([ROW_ID, *index.columns]).to_pylist()
                if one[ROW_ID] not in dead
            }
            files = snapshot.files_of("index", index_id)
            entries = find_entries(self.storage, files, [*index.columns, ROW_IDS]).entries
            indexed: Counter[tuple[int, str]] = Counter()
            for one in entries.to_pylist():
                values = repr({name: one[name] for name in index.columns}).replace("-0.0", "0.0")
                for row in one[ROW_IDS]:
                    indexed[row, values] += 1 if one["_dc_rows"] > 0 else -1
            assert {entry for entry, times in indexed.items() if times} == alive
            assert set(indexed.values()) <= {0, 1}

    def _check_history(self, snapshot: Snapshot) -> None:
        kept = [one.load_id for one in snapshot.loads if not one.discarded]
        assert kept == [one.load_id for one in self.loads]
        assert {one.load_id for one in snapshot.loads if one.discarded} == set(self.discarded)


Histories.TestCase.settings = settings(
    max_examples=300 if NIGHTLY else 30,
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestHistories = Histories.TestCase
