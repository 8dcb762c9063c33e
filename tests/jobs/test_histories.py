"""After any history of loads, every count equals brute force over the rows that survive.

``histories.py`` is the definition; here is what can happen to a table, and what must be so after each step.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from random import Random
from typing import Any, ClassVar
from unittest.mock import patch

import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from dc_engine.apply_load import apply_load
from dc_engine.constraints.files import load_constraints
from dc_engine.constraints.naming import id_of
from dc_engine.detection.dead import is_alive, read_dead
from dc_engine.detection.rows import ROW_ID, read_rows
from dc_engine.detection.runs import ROW_IDS, find_entries
from dc_engine.errors import ChangesError, ConstraintError, DcError, StateError
from dc_engine.maintain import maintain
from dc_engine.maintained.continuity import total_violations
from dc_engine.maintained.everything import plan_of
from dc_engine.sizes import SIZES, other_sizes
from dc_engine.state.files import FileKind
from dc_engine.state.snapshots import Snapshot, read_current
from dc_engine.state.storage import Storage
from dc_engine.verdict import Verdict
from tests.detection.engine import colliding
from tests.inprocess import Session, Source
from tests.jobs.histories import (
    Given,
    Played,
    Refused,
    Row,
    as_text,
    is_unique,
    play,
    some_place,
    violating,
    violations,
)

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
TYPES = {
    "id": ("bigint", pa.int64()),
    "zip": ("string", pa.string()),
    "city": ("string", pa.string()),
    "age": ("int", pa.int32()),
    "pay": ("double", pa.float64()),
    "note": ("string", pa.string()),
    "tags": ("array<string>", pa.list_(pa.string())),
}
RULES = [
    {
        "name": "reads all",
        "deny": "t.zip = s.zip and t.city != s.city and t.age < s.age and t.pay > s.pay and t.id != s.id",
    },
    {"name": "city", "fd": "zip -> city"},
    {"name": "once", "unique": ["zip", "age"], "nulls": "equal"},
    {"name": "order", "deny": "t.age > s.age and t.pay < s.pay"},
    {"name": "across", "deny": "t.age = s.id and t.zip != s.zip"},
    {"name": "alone", "deny": "t.pay <= 1.0"},
    {"name": "sorted", "order": "age -> pay", "within": ["city"]},
]
"""The first one reads all columns but ``note`` and ``tags``: while it is there, any other needs no table."""
SOME_RULES = st.sets(st.sampled_from(range(len(RULES))), max_size=3)
PINNED = [
    {"fd": "zip -> age"},
    {"unique": ["zip", "city"], "nulls": "equal", "severity": "error"},
    {"name": "pinned order", "deny": "t.age > s.age and t.pay < s.pay"},
    {"deny": "t.age = s.id and t.city != s.city", "severity": "error"},
    {"order": "city -> pay"},
]
"""Dependencies that people pin; the third says the same as a constraint."""
SOME_PINNED = st.sets(st.sampled_from(range(len(PINNED))), max_size=3)
WATCH = st.sampled_from(["pinned", "pinned", "all", "none"])

VALUES = {
    "id": st.sampled_from([0, 1, 2, 3, None]),
    "zip": st.sampled_from(["1", "2", None]),
    "city": st.sampled_from(["a", "b", None]),
    "age": st.sampled_from([0, 1, 2, None]),
    "pay": st.sampled_from([-0.0, 0.0, 1.0, 2.0, float("inf"), float("nan"), None]),
    "note": st.sampled_from(["x", None]),
    "tags": st.sampled_from([["x", None], [None, "x"], ["x"], [], None]),
}
COLUMNS = st.one_of(st.just("tags"), st.sampled_from(sorted(VALUES)))
"""One of them: often the nested one, which no rule reads, and by which rows differ nevertheless."""
ROWS = st.fixed_dictionaries(VALUES)
PICKS = st.lists(st.one_of(st.integers(0, 5), st.integers(0, 5), ROWS), max_size=5)
"""Rows of a load: most by their place in the pool of the history, some of their own."""


@st.composite
def pools(draw: st.DrawFn) -> list[Row]:
    """The rows that loads of one history share: few, and most of them like another but for a column or two.

    So loads meet: a delete may find a row of another load once one of them is replaced, and keys come back.
    """
    rows = draw(st.lists(ROWS, min_size=2, max_size=4))
    for _ in range(draw(st.integers(1, 3))):
        names = draw(st.lists(COLUMNS, min_size=1, max_size=2))
        rows.append({**draw(st.sampled_from(rows)), **{name: draw(VALUES[name]) for name in names}})
    return rows


KEYS = st.sampled_from([None, "id", "age"])
MEETINGS = [
    ("deletes", "deletes", "retract"),  # the second finds its row once the first is gone
    ("deletes", "inserts", "retract"),  # the second finds that the row is there
    ("nothing", "deletes", "replace"),  # the second finds the row that the first brings later
    ("nothing", "inserts", "replace"),  # the second meets the row that the first brings later
    ("inserts", "inserts", "retract"),
    ("inserts", "deletes", "replace"),
]
"""What two loads in a row do with one row, and what becomes of the first."""

TINY = {
    "long_value": -1,
    "long_row": -1,
    "merged_bytes": 3_000,
    "merged_entries": 2,
    "merged_piece": 1,
    "scanned_at_once": 2,
    "turn_rows": 2,
    "listed_row_ids": 1,
    "named_rows": 1,
    "run_bytes": 100,
    "row_group": 2,
    "run_group": 2,
    "ordered_group": 2,
    "staged_group": 2,
    "staged_bytes": 1,
    "group_bytes": 40,
    "portion": 300,
    "screened_entries": 0,
    "encoders": 3,
    "probe_bytes": 100,
    "probe_rows": 3,
    "report_constraints": 1,
    "report_rows": 3,
    "report_range": 2,
    "share_bytes": 100,
    "share_entries": 3,
    "unit_bytes": 50,
    "unit_entries": 3,
    "unit_rows": 2,
    "sliced_rows": 2,
    "few_rows": 2,
    "message_bytes": 50,
    "check_tasks": 2,
}
"""Sizes at which work, files and lists are cut. So small, a handful of rows is cut as millions are."""


class Unknown(Exception):
    """A refusal that is right: a rule reads a column that was not kept of all rows, or the key does not fit them."""


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

    sizes: ClassVar[dict[str, int]] = {}
    limits: ClassVar[dict[str, int]] = {}

    @initialize(
        key=KEYS,
        reads_all=st.booleans(),
        deletes=st.sampled_from([True, True, False]),
        rules=SOME_RULES,
        pinned=SOME_PINNED,
        trees=st.booleans(),
        seed=st.integers(0, 2**32),
        data=st.data(),
        pool=pools(),
        first=st.lists(PICKS, max_size=7),
        merged=st.booleans(),
    )
    def begin(
        self,
        key: str | None,
        reads_all: bool,
        deletes: bool,
        rules: set[int],
        pinned: set[int],
        trees: bool,
        seed: int,
        data: st.DataObject,
        pool: list[Row],
        first: list[list[int | Row]],
        merged: bool,
    ) -> None:
        self.random = Random(seed)
        self._stack = ExitStack()
        self.spark = Session(random=self.random)
        # Which files a gate merges and how many loads a snapshot holds depends on sizes: any of them must be right.
        sizes = {
            "recent_loads": self.random.choice([0, 0, 1, 3, 40]),
            "kept_loads": self.random.choice([0, 1, 8]),
            "remembered_bytes": self.random.choice([0, 20_000, 2**27]),
        }
        if trees:  # as if there were too many pairs to look at each
            sizes["scanned_pairs"] = -1
        self._stack.enter_context(other_sizes(**sizes, **self.sizes))
        if not self.random.randrange(3):
            self._stack.enter_context(colliding())
        self.state = self._stack.enter_context(some_place(self.random))
        self.storage = Storage(self.state)
        self.key = self.committed_key = key
        self.reads_all = reads_all
        self.deletes = deletes  # where nobody deletes, a load is taken out in another way
        self.pool = pool
        self.chosen = self._with_first(rules)
        self.pinned, self.watch = sorted(pinned), "pinned"
        self.loads: list[Given] = []
        self.discarded: dict[str, Given] = {}
        self.columns: dict[str, set[str]] = {}  # that were kept of the rows of each load
        self.count = 0
        for picks in first:
            self.apply(data, picks, discard=False)
        if merged and self.loads:
            self.look_after("compact", 1)

    def teardown(self) -> None:
        if hasattr(self, "_stack"):
            self._stack.close()

    # what can happen

    @rule(data=st.data(), picks=PICKS, discard=st.booleans())
    def apply(self, data: st.DataObject, picks: list[int | Row], discard: bool) -> None:
        self.count += 1
        given = self._given(data, f"load {self.count}", picks)
        self._apply(given, discard=discard and data.draw(st.booleans()))

    @precondition(lambda self: self.loads or self.discarded)
    @rule(data=st.data(), picks=PICKS, discard=st.booleans())
    def replace(self, data: st.DataObject, picks: list[int | Row], discard: bool) -> None:
        self._replace(data, self._some_load(data), picks, discard=discard)

    @precondition(lambda self: self.loads or self.discarded)
    @rule(data=st.data())
    def retract(self, data: st.DataObject) -> None:
        self._retract(self._some_load(data))

    @precondition(lambda self: self.loads)
    @rule(
        data=st.data(),
        first=st.sampled_from(["rebuild", "compact", "apply again"]),
        acts=st.lists(st.sampled_from(["empty", "retract", "replace"]), min_size=2, max_size=4),
        picks=PICKS,
    )
    def one_load_again_and_again(
        self, data: st.DataObject, first: str, acts: list[str], picks: list[int | Row]
    ) -> None:
        """What one change leaves behind shows in the next one of the same load."""
        load_id = self._some_load(data)
        if first == "apply again":
            self._apply_again(load_id)
        else:
            self.look_after(first, 1)
        for act in acts:
            if act == "replace":
                self._replace(data, load_id, picks, discard=False)
            elif act == "empty":
                self._apply(Given(load_id, key=self.key), discard=False)
            elif load_id in self.discarded or any(one.load_id == load_id for one in self.loads):
                self._retract(load_id)

    @rule(data=st.data(), scene=st.sampled_from(MEETINGS), between=st.sampled_from(["compact", "key", "nothing"]))
    def two_loads_that_meet(self, data: st.DataObject, scene: tuple[str, str, str], between: str) -> None:
        """Two loads in a row are about the same identity, files or the key change, and the first becomes another."""
        first, met, then = scene
        rows, _ = play(self.loads)
        row = data.draw(st.sampled_from(rows if rows and first == "deletes" else self.pool))
        if self.key and first != "deletes":
            there = {one[self.key] for one in rows}
            row = {**row, self.key: next(value for value in range(9) if value not in there)}
        names = [f"load {self.count + 1}", f"load {self.count + 2}"]
        self.count += 2
        self._meet(data, names[0], **({} if first == "nothing" else {first: [row]}))
        self._meet(data, names[1], **{met: [row]})
        if between == "key":
            self.change_the_key([None, "id", "age"], data, [])
        elif between == "compact":
            self.apply(data, [], discard=False)
            self.look_after("compact", 1)
        if all(one.load_id != names[0] for one in self.loads):
            return
        if then == "retract":
            self._retract(names[0])
        else:
            name = data.draw(COLUMNS)
            self._meet(data, names[0], inserts=[{**row, name: data.draw(VALUES[name])}])

    @rule(data=st.data(), picks=PICKS, writes=st.integers(0, 12))
    def crash(self, data: st.DataObject, picks: list[int | Row], writes: int) -> None:
        given = self._given(data, f"load {self.count + 1}", picks)
        before = read_current(self.storage)
        with killed_after(writes):
            try:
                self._submit(given)
            except (ChangesError, Unknown):
                return
            except ConstraintError:
                assert not is_unique(play(self.loads)[0], self.key)
                return
        after = read_current(self.storage)
        if after != before:  # it died after its commit, or not at all
            assert after is not None
            assert after.loads(self.storage).find(given.load_id)
            self.count += 1
            self.loads.append(given)
            self.committed_key = self.key
            self.columns[given.load_id] = self._columns(self._rule_file)
        self._check()

    @precondition(lambda self: self.loads)
    @rule(action=st.sampled_from(["compact", "rebuild", "vacuum"]), keep=st.integers(1, 3))
    def look_after(self, action: str, keep: int) -> None:
        more = {"keep_snapshots": keep, "grace_hours": 0} if action == "vacuum" else {}
        maintain(self.spark, action, {"state": self.state, **more})
        self._check()

    @rule(rules=SOME_RULES, pinned=st.none() | SOME_PINNED, watch=WATCH, data=st.data(), picks=PICKS)
    def change_the_rules(
        self, rules: set[int], pinned: set[int] | None, watch: str, data: st.DataObject, picks: list[int | Row]
    ) -> None:
        before = self.chosen, self.pinned, self.watch
        if pinned is None:
            self.chosen = self._with_first(rules)
        else:
            self.pinned, self.watch = sorted(pinned), watch
        if not self._is_taken(data, picks):
            self.chosen, self.pinned, self.watch = before

    @rule(keys=st.permutations(["id", "age", None]), data=st.data(), picks=PICKS)
    def change_the_key(self, keys: list[str | None], data: st.DataObject, picks: list[int | Row]) -> None:
        """Another key: one that fits the rows that are there, if any does."""
        rows, _ = play(self.loads)
        before, others = self.key, [key for key in keys if key != self.key]
        self.key = next((key for key in others if is_unique(rows, key)), others[0])
        if not self._is_taken(data, picks):
            self.key = before

    # how it is done, and what must be so

    def _with_first(self, rules: set[int]) -> list[int]:
        return sorted(rules | {0} if self.reads_all else rules)

    def _is_taken(self, data: st.DataObject, picks: list[int | Row]) -> bool:
        """Whether a load is taken as things are now; if not, they are mostly put back, or no other would be."""
        before = read_current(self.storage)
        self.apply(data, picks, discard=False)
        return read_current(self.storage) != before or data.draw(st.integers(0, 3)) == 0

    def _some_load(self, data: st.DataObject) -> str:
        """One that was given: any, and the last one more often."""
        names = [*self.discarded, *(one.load_id for one in self.loads)]
        return names[-1] if data.draw(st.integers(0, 2)) == 0 else data.draw(st.sampled_from(names))

    def _apply_again(self, load_id: str) -> None:
        known = {one.load_id: one for one in self.loads}
        before = read_current(self.storage)
        verdict = self._submit(known.get(load_id) or self.discarded[load_id])
        assert verdict.replayed
        assert read_current(self.storage) == before

    def _replace(self, data: st.DataObject, load_id: str, picks: list[int | Row], *, discard: bool) -> None:
        """Another attempt: anything, or what was given before with a row more, a row less, or a value corrected.

        Or it brings a row that a later load brings or deletes too, or one like it: that load then does something else.
        """
        given = self._given(data, load_id, picks)
        before = next((one for one in self.loads if one.load_id == load_id), None)
        how = data.draw(st.sampled_from(["anew", "altered", "corrected", "met"])) if before else "anew"
        if before and how == "met":
            later = self.loads[self.loads.index(before) + 1 :]
            rows = [row for one in later for row in [*one.inserts, *one.deletes]]
            given.deletes, given.inserts = before.deletes, list(before.inserts)
            if rows:
                name = data.draw(COLUMNS)
                given.inserts.append({**data.draw(st.sampled_from(rows)), name: data.draw(VALUES[name])})
        if before and how == "altered":
            given.deletes = self._altered(data, before.deletes, given.deletes)
            given.inserts = self._altered(data, before.inserts, given.inserts)
        if before and before.inserts and how == "corrected":
            given.deletes, (first, *others) = before.deletes, before.inserts
            name = data.draw(COLUMNS | st.sampled_from([self.key or "id"]))
            given.inserts = [{**first, name: data.draw(VALUES[name])}, *others]
        self._apply(given, discard=discard)

    def _altered(self, data: st.DataObject, rows: list[Row], others: list[Row]) -> list[Row]:
        """Most of some rows, and one of others."""
        left_out = data.draw(st.integers(0, 2 * len(rows)))
        return [*(row for place, row in enumerate(rows) if place != left_out), *others[:1]]

    def _meet(self, data: st.DataObject, load_id: str, **rows: list[Row]) -> None:
        """A load that may not find what it deletes, or may find what it inserts."""
        duplicate = data.draw(st.sampled_from(["error", "replace"])) if self.key else "error"
        given = Given(load_id, missing_deletes="ignore", duplicate_keys=duplicate, key=self.key, **rows)
        self._apply(given, discard=False)

    def _retract(self, load_id: str) -> None:
        load = next((one for one in self.loads if one.load_id == load_id), None)
        left = [one for one in self.loads if one is not load]
        try:
            with self._refusals_change_nothing():
                maintain(self.spark, "retract", {"state": self.state, "load_id": load_id})
        except Unknown:
            return
        except ChangesError:
            assert load is not None
            # the rows that are left may not fit today's key: others than today's brought them
            fits = not self._is_refused(left) and is_unique(play(left)[0], self.committed_key)
            assert not fits or self._keys_differ(load, self.committed_key), (
                f"{load_id} was not taken out, though no later load needs it"
            )
            return
        except StateError:
            assert load is not None
            assert self._keys_differ(load, self.committed_key)
            return
        assert not self._is_refused(left), f"{load_id} was taken out, though a later load needs it"
        self.loads = left
        if load is None:
            del self.discarded[load_id]
        self._check()

    def _rows(self, picks: list[int | Row]) -> list[Row]:
        return [self.pool[one % len(self.pool)] if isinstance(one, int) else one for one in picks]

    def _keys_differ(self, load: Given, key: str | None) -> bool:
        """Whether loads from this one on were applied with another key than this."""
        place = next(n for n, one in enumerate(self.loads) if one.load_id == load.load_id)
        return any(one.key != key for one in self.loads[place:])

    def _given(self, data: st.DataObject, load_id: str, picks: list[int | Row]) -> Given:
        """A load: some of its deletes are of rows that are there, and it can be applied more often than not."""
        names = [one.load_id for one in self.loads]
        rows, _ = play(self.loads[: names.index(load_id)] if load_id in names else self.loads)
        missing = data.draw(st.sampled_from(["error", "ignore"]))
        duplicate = data.draw(st.sampled_from(["error", "replace"])) if self.key else "error"
        deletes, inserts = [], self._rows(picks)
        if self.deletes and rows:
            deletes = data.draw(st.lists(st.sampled_from(rows), unique_by=id, max_size=3))
        if self.deletes and data.draw(st.integers(0, 1 if missing == "ignore" else 7)) == 0:
            deletes = [*deletes, *self._rows(data.draw(PICKS))[:2]]
        if self.deletes and duplicate == "replace" and rows and data.draw(st.booleans()):
            name = data.draw(COLUMNS)
            inserts.append({**data.draw(st.sampled_from(rows)), name: data.draw(VALUES[name])})
        if self.key and data.draw(st.integers(0, 3)):
            taken = {row[self.key] for row in rows if row not in deletes} if duplicate == "error" else set()
            unique = {row[self.key]: row for row in inserts if row[self.key] not in taken}
            inserts = list(unique.values())
        return Given(load_id, inserts, deletes, missing, duplicate, self.key)

    @property
    def _rule_file(self) -> dict[str, Any]:
        key = {"key": [self.key]} if self.key else {}
        watching = {"watch": self.watch, "pinned": [PINNED[n] for n in self.pinned]}
        rules = {"constraints": [RULES[n] for n in self.chosen], "dependencies": watching}
        return {"version": 1, "table": "made_up", **key, **rules}

    def _columns(self, rule_file: Mapping[str, Any]) -> set[str]:
        """The columns that are kept of the rows of a load."""
        read = load_constraints(rule_file)
        return {*read.key, *(name for one in read.rules for name in one.columns)}

    @contextmanager
    def _refusals_change_nothing(
        self, rule_file: Mapping[str, Any] | None = None, *, shows_types: bool = True
    ) -> Iterator[None]:
        """Whatever the job refuses, the state stays as it was; for want of a column only when one is wanting.

        A load without rows does not show the types of today: what was not kept last is then wanting too.
        """
        before = read_current(self.storage)
        try:
            yield
        except DcError as error:
            assert read_current(self.storage) == before
            if "not known" not in error.message:
                raise
            assert before is not None
            needed = self._columns(rule_file or before.constraints)
            kept = [self.columns[one.load_id] for one in self.loads]
            if not any(needed - one for one in (kept if shows_types else [*kept, set(before.schema)])):
                raise
            raise Unknown from error

    def _is_refused(self, history: list[Given]) -> bool:
        try:
            play(history)
        except Refused:
            return True
        return False

    def _submit(self, given: Given, **more: Any) -> Verdict:
        rows = [*given.deletes, *given.inserts]
        columns = {name: pa.array([row[name] for row in rows], arrow) for name, (_, arrow) in TYPES.items()}
        kinds = ["delete"] * len(given.deletes) + ["insert"] * len(given.inserts)
        types = {name: spark for name, (spark, _) in TYPES.items()}
        self.spark.sources[given.load_id] = Source(
            pa.table({**columns, "_change_type": pa.array(kinds, pa.string())}), {**types, "_change_type": "string"}
        )
        request = {
            "state": self.state,
            "load_id": given.load_id,
            "changes": {"path": given.load_id},
            "constraints": self._rule_file,
            "missing_deletes": given.missing_deletes,
            "duplicate_keys": given.duplicate_keys,
        }
        SIZES.runs = self.random.choice([1, 1, 2, 16])
        SIZES.merged_at_once = self.random.choice([2, 2, 3, 1_000])
        with self._refusals_change_nothing(self._rule_file, shows_types=bool(rows)):
            return apply_load(self.spark, request | self.limits | more)

    def _apply(self, given: Given, *, discard: bool) -> None:
        known = next((n for n, one in enumerate(self.loads) if one.load_id == given.load_id), None)
        place = len(self.loads) if known is None else known
        without = [one for one in self.loads if one.load_id != given.load_id]
        history = [*without[:place], given, *without[place:]]
        mixed = known is not None and self._keys_differ(given, self.key)
        try:
            verdict = self._submit(given, rejected_load="discard" if discard else "keep")
        except Unknown:
            return
        except ConstraintError:  # the key is another one, and not unique among the rows that are there
            assert not is_unique(play(self.loads)[0], self.key) or not is_unique(play(without)[0], self.key)
            return
        except StateError:
            assert mixed or (discard and known is not None and self._keys_differ(given, self.committed_key))
            return
        except ChangesError:
            # a failed attempt in the middle of the history goes altogether, which later loads may not allow
            gone = discard and known is not None and (self._is_refused(without) or mixed)
            assert self._is_refused(history) or mixed or gone or not is_unique(play(history)[0], self.key)
            return
        if verdict.replayed:
            before = self.discarded.get(given.load_id) if known is None else self.loads[known]
            assert before is not None
            assert before.is_alike(given), f"other changes than those of {given.load_id} were taken for them"
            return
        assert not self._is_refused(history), f"{given.load_id} was applied, though it cannot be"
        rows, done = play(history)
        played = done[given.load_id]
        assert verdict.rows["inserted"] == len(given.inserts)
        assert verdict.rows["deleted"] == len(played.deleted)
        assert verdict.rows.get("missing_deletes", 0) == played.missing
        self.discarded.pop(given.load_id, None)
        if place == len(without) or self._tells_apart(history, given):
            self._check_change(verdict, rows, played)
        if verdict.discarded:
            self.loads, self.discarded[given.load_id] = without, given
            rows, _ = play(without)
        else:
            assert is_unique(rows, self.key)
            self.loads, self.columns[given.load_id] = history, self._columns(self._rule_file)
            self.committed_key = self.key
        assert verdict.rows["total"] == len(rows)
        rules = load_constraints(self._rule_file)
        totals = {one.name: one.total_violations for one in verdict.constraints}
        assert totals == {one.name: violations(one, rows) for one in rules.constraints}
        lost = {one.id for one in verdict.dependencies.invalidated}
        holding = {id_of(one) for one in rules.dependencies.judged if not violations(one, rows)}
        assert {one.id for one in verdict.dependencies.watched} == holding - lost
        broken = {
            f"Pinned '{one.name}' does not hold" for one in rules.dependencies.judged if id_of(one) not in holding
        }
        notes = {note.rpartition(":")[0] for note in verdict.notes if "does not hold" in note}
        assert notes <= broken
        self._check()

    def _tells_apart(self, history: list[Given], given: Given) -> bool:
        """Whether no other load has rows alike to those of a load: which of them a later delete takes is open."""
        own, others = (
            {as_text(row) for one in history for row in [*one.inserts, *one.deletes] if (one is given) == mine}
            for mine in (True, False)
        )
        return not own & others

    def _check_change(self, verdict: Verdict, after: list[Row], played: Played) -> None:
        """New and removed violations are those of the load's own rows with all others there, as if it came last."""
        alive = {id(row) for row in after}
        new = [row for row in played.inserted if id(row) in alive]
        left = [row for row in after if not any(row is one for one in new)]
        rules = load_constraints(self._rule_file)
        lost = {}
        for one in rules.dependencies.judged:
            now = violations(one, after)
            if now and not violations(one, [*left, *played.deleted]):
                lost[id_of(one)] = now
        assert {one.id: one.violations for one in verdict.dependencies.invalidated} == lost
        assert all(one.example for one in verdict.dependencies.invalidated)
        for one, constraint in zip(verdict.constraints, rules.constraints, strict=True):
            kept = violations(constraint, left)
            removed = violations(constraint, [*left, *played.deleted]) - kept
            found = (one.removed_violations, one.new_violations, one.violating_rows)
            assert found == (removed, violations(constraint, after) - kept, violating(constraint, after, new))

    def _check(self) -> None:
        snapshot = read_current(self.storage)
        if snapshot is None:
            assert not self.loads
            return
        rows, _ = play(self.loads)
        assert snapshot.rows == len(rows)
        rules = load_constraints(snapshot.constraints).rules if snapshot.constraints else ()
        assert total_violations(snapshot) == {one.name: violations(one, rows) for one in rules}
        if self.random.random() < 0.4:
            checked = maintain(self.spark, "verify", {"state": self.state, "totals": self.random.random() < 0.25})
            assert checked["sound"], checked["problems"]
        self._check_indexes(snapshot)
        self._check_history(snapshot)

    def _check_indexes(self, snapshot: Snapshot) -> None:
        """Every index has just the rows that are there, each under its own values."""
        if not snapshot.constraints:
            return
        plan = plan_of(snapshot)
        dead = read_dead(self.storage, snapshot.files_of(FileKind.DEAD))
        rows = []
        for part in read_rows(self.storage, snapshot.files_of(FileKind.ROWS), plan.stored):
            living = part.filter(pa.array(is_alive(part.column(ROW_ID).to_numpy(), dead)))
            if living.num_rows:  # those that went need not have every column
                rows.append(living)
        for index_id, index in plan.indexes.items():
            alive = {
                (one.pop(ROW_ID), repr(one).replace("-0.0", "0.0"))
                for part in rows
                for one in part.select([ROW_ID, *index.columns]).to_pylist()
            }
            files = snapshot.files_of(FileKind.INDEX, index_id)
            entries = find_entries(self.storage, files, [*index.columns, ROW_IDS]).entries
            indexed: Counter[tuple[int, str]] = Counter()
            for one in entries.to_pylist():
                values = repr({name: one[name] for name in index.columns}).replace("-0.0", "0.0")
                for row in one[ROW_IDS]:
                    indexed[row, values] += 1 if one["_dc_rows"] > 0 else -1
            assert {entry for entry, times in indexed.items() if times} == alive
            assert set(indexed.values()) <= {0, 1}

    def _check_history(self, snapshot: Snapshot) -> None:
        loads = snapshot.loads(self.storage)
        assert [one.load_id for one in loads.since() if not one.discarded] == [one.load_id for one in self.loads]
        assert {one.load_id for one in loads.since() if one.discarded} == set(self.discarded)
        for one in loads.since():
            assert loads.find(one.load_id) == one
            assert loads.ids_of([one.number]) == {one.number: one.load_id}
        assert loads.find("no such load") is None


class HistoriesInPieces(Histories):
    """Histories whose work, files and lists are cut as those of millions of rows are. They take longer."""

    sizes = TINY
    limits: ClassVar = {"max_listed": 1, "max_samples": 1}


# Left to itself Hypothesis makes two of three examples by copying parts of the one before. As a backend of its own its
# provider is asked for a new history each time; shrinking is as ever.
AVAILABLE_PROVIDERS["new each time"] = "hypothesis.internal.conjecture.providers.HypothesisProvider"
for machine, histories in ((Histories, 24), (HistoriesInPieces, 12)):
    machine.TestCase.settings = settings(
        backend="new each time",
        max_examples=20 * histories if NIGHTLY else histories,
        stateful_step_count=12,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
TestHistories = Histories.TestCase
TestHistoriesInPieces = HistoriesInPieces.TestCase
