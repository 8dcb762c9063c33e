"""States with a history on any filesystem, what brute force says of them, and processes that disturb them."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from typing import Any

import pyarrow as pa

from dc_engine.apply_load import apply_load
from dc_engine.constraints.files import load_constraints
from dc_engine.errors import DcError
from dc_engine.maintain import maintain
from dc_engine.maintained.continuity import total_violations
from dc_engine.state.drafts import needed_files
from dc_engine.state.loads import Load
from dc_engine.state.snapshots import NEWEST, Snapshot, read_current, read_snapshot, snapshot_numbers, snapshot_path
from dc_engine.state.storage import Storage
from dc_engine.verdict import Verdict
from tests.inprocess import Session, Source
from tests.jobs.histories import Given, Row, play, violations

TYPES = {
    "id": ("bigint", pa.int64()),
    "zip": ("string", pa.string()),
    "city": ("string", pa.string()),
    "age": ("int", pa.int32()),
    "pay": ("double", pa.float64()),
}
RULES = [
    {"name": "city", "fd": "zip -> city"},
    {"name": "order", "deny": "t.age > s.age and t.pay < s.pay"},
    {"name": "alone", "deny": "t.pay <= 1.0"},
]


def made_rows(chance: random.Random, first: int, count: int) -> list[Row]:
    """Rows with ids from one on, of which some violate each rule."""
    return [
        {
            "id": number,
            "zip": f"{chance.randrange(12)}",
            "city": chance.choice("aaaaaaab"),
            "age": (age := chance.randrange(30)),
            "pay": float(age + chance.randrange(4)),
        }
        for number in range(first, first + count)
    ]


def changes(load_id: str, inserts: list[Row], deletes: list[Row]) -> Given:
    """A load whose deletes may find nothing, so that any load before it can be taken out."""
    return Given(load_id, inserts, deletes, missing_deletes="ignore")


def updated(row: Row, chance: random.Random) -> Row:
    return {**row, "city": chance.choice("ab"), "pay": row["pay"] + chance.randrange(-3, 4)}


@dataclass
class Gate:
    """One state and the jobs that work on it; a session of its own makes it usable in any process."""

    state: str
    key: str | None = "id"
    options: Mapping[str, Any] | None = None
    session: Session = field(default_factory=Session)
    constraints: list[dict[str, Any]] = field(default_factory=lambda: RULES)

    @property
    def storage(self) -> Storage:
        return Storage(self.state, self.options)

    @property
    def rules(self) -> dict[str, Any]:
        key = {"key": [self.key]} if self.key else {}
        return {"version": 1, "table": "people", **key, "constraints": self.constraints}

    @property
    def current(self) -> Snapshot:
        snapshot = read_current(self.storage)
        assert snapshot is not None
        return snapshot

    @property
    def loads(self) -> list[Load]:
        """The history of its state."""
        return self.current.loads(self.storage).since()

    def request(self, given: Given, **more: Any) -> dict[str, Any]:
        return {
            "state": self.state,
            "load_id": given.load_id,
            "changes": {"path": given.load_id},
            "constraints": self.rules,
            "missing_deletes": given.missing_deletes,
            "duplicate_keys": given.duplicate_keys,
            **more,
        }

    def apply(self, given: Given, **more: Any) -> Verdict:
        self.session.sources[given.load_id] = Source(feed(given), {**spark_types(), "_change_type": "string"})
        return apply_load(self.session, self.request(given, **more), storage_options=self.options)

    def maintain(self, action: str, **more: Any) -> dict[str, Any]:
        return maintain(self.session, action, {"state": self.state, **more}, storage_options=self.options)

    def check(self, loads: list[Given], expected: Mapping[str, int] | None = None) -> None:
        """The state is sound, has just these loads, and as many violations as brute force finds."""
        snapshot = self.current
        rows, _ = play(loads, self.key)
        checked = self.maintain("verify")
        assert checked["sound"], checked["problems"]
        assert [one.load_id for one in self.loads if not one.discarded] == [one.load_id for one in loads]
        assert snapshot.rows == len(rows)
        assert total_violations(snapshot) == (expected or totals(rows, self.constraints))

    def check_clean(self) -> None:
        """Vacuum leaves nothing but what kept snapshots name."""
        self.maintain("vacuum", keep_snapshots=1, grace_hours=0)
        kept = {NEWEST, *(snapshot_path(number) for number in snapshot_numbers(self.storage))}
        for number in snapshot_numbers(self.storage):
            kept |= named_by(self.storage, number)
        assert {file.path for file in self.storage.files()} == kept


def named_by(storage: Storage, number: int) -> set[str]:
    """The paths of all files that a snapshot names."""
    return {file.path for file in needed_files(storage, read_snapshot(storage, number))}


def totals(rows: list[Row], constraints: list[dict[str, Any]] = RULES) -> dict[str, int]:
    """What brute force counts among some rows."""
    rules = load_constraints({"version": 1, "table": "people", "constraints": constraints}).constraints
    return {one.name: violations(one, rows) for one in rules}


def spark_types() -> dict[str, str]:
    return {name: spark for name, (spark, _) in TYPES.items()}


def feed(given: Given) -> pa.Table:
    """A load as a change feed."""
    rows = [*given.deletes, *given.inserts]
    kinds = ["delete"] * len(given.deletes) + ["insert"] * len(given.inserts)
    columns = {name: pa.array([row[name] for row in rows], arrow) for name, (_, arrow) in TYPES.items()}
    return pa.table({**columns, "_change_type": pa.array(kinds, pa.string())})


def history(chance: random.Random, *, loads: int = 3, rows: int = 15) -> list[Given]:
    """Loads of which the later ones delete and update rows of the earlier ones."""
    given: list[Given] = []
    for number in range(loads):
        there, _ = play(given, "id")
        gone = chance.sample(there, min(len(there), rows // 5))
        inserts = [*made_rows(chance, 1000 * number, rows), *(updated(row, chance) for row in gone[::2])]
        given.append(changes(f"load {number}", inserts, gone))
    return given


def plain(facts: Verdict | Mapping[str, Any]) -> dict[str, Any]:
    """What two runs of the same request have in common: all but times, names of files, and which of them was first."""
    document = facts.to_dict() if isinstance(facts, Verdict) else dict(facts)
    text = re.sub(r"[0-9a-f]{32}", "-", json.dumps(document))
    return json.loads(text) | {"seconds": None, "replayed": None}


@dataclass
class Child:
    """A process of its own, and what came out of it."""

    process: ForkProcess
    pipe: Connection

    def result(self) -> Any:
        """What it returned, or the error that it ended with; nothing when it was killed."""
        found = None
        with contextlib.suppress(EOFError):  # it was killed, and sent nothing
            if self.pipe.poll(60):
                found = self.pipe.recv()
        self.process.join(60)
        assert self.process.exitcode is not None, "a process hangs"
        self.process.close()
        self.pipe.close()
        return found


def start(work: Callable[[], Any]) -> Child:
    """Do something in another process."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(work, there), daemon=False)
    process.start()
    there.close()
    return Child(process, here)


def _work(work: Callable[[], Any], pipe: Connection) -> None:
    try:
        pipe.send(work())
    except DcError as error:
        pipe.send(error)


def at_once(works: list[Callable[[], Any]]) -> list[Any]:
    """What comes out when several processes are let go together."""
    barrier = multiprocessing.get_context("fork").Barrier(len(works))

    def wait_and(work: Callable[[], Any]) -> Any:
        barrier.wait(30)
        return work()

    children = [start(lambda work=work: wait_and(work)) for work in works]
    return [child.result() for child in children]
