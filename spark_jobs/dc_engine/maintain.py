"""Maintain a state: take a load out, merge files, remove what nobody needs, check, rebuild, describe.

``maintain(spark, action, request)`` is the function; as an application: ``maintain.py ACTION --state FOLDER``, or
``spark-submit maintain.py ACTION --request request.json``. No action can lose a load that was committed: whatever
changes the state commits a snapshot, just as a load does.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from dc_engine.changing import retracted
from dc_engine.compacting import compacted
from dc_engine.describing import describe
from dc_engine.engines.base import Engine
from dc_engine.engines.spark import engine_of
from dc_engine.errors import ConflictError, RequestError, StateError, counted, did_you_mean
from dc_engine.job import State, run
from dc_engine.maintained.base import Ground
from dc_engine.maintained.continuity import check_mask, total_violations
from dc_engine.maintained.everything import everything_of
from dc_engine.masking import without_values
from dc_engine.rebuilding import rebuilt
from dc_engine.request import MAX_WAIT_SECONDS, Changes, check_load_id, check_number, read_names, read_source
from dc_engine.state.files import Action
from dc_engine.state.snapshots import Snapshot, advance, newest_number, read_current, read_snapshot, snapshot_numbers
from dc_engine.state.storage import Storage
from dc_engine.state.turns import take_turns
from dc_engine.state.vacuuming import vacuum
from dc_engine.verdict import SCHEMA_VERSION
from dc_engine.verifying import verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_AGES = 1_000_000
"""No file is so many hours old."""


@dataclass(frozen=True, slots=True)
class Maintenance:
    """The request of one action."""

    state: str
    load_id: str | None = None
    table: Changes | None = None
    keep_snapshots: int = 10
    grace_hours: float = 24
    totals: bool = True
    max_wait_seconds: float = MAX_WAIT_SECONDS
    """How long to go on trying while others commit first."""
    mask: tuple[str, ...] = ()
    """Columns whose values no error may show, besides those that the newest load of the state masks."""

    @classmethod
    def from_mapping(cls, action: str, document: Mapping[str, Any]) -> Maintenance:
        """Check a request document for an action."""
        if action not in ACTIONS:
            raise RequestError(f"There is no action '{action}'.", hint=did_you_mean(action, ACTIONS))
        if not isinstance(document, Mapping):
            raise RequestError(f"A request is a JSON object, not {type(document).__name__}.")
        facts = {name: value for name, value in document.items() if value is not None}
        known = ("state", "max_wait_seconds", "mask", *ACTIONS[action].takes)
        for name in facts:
            if name not in known:
                raise RequestError(f"Unknown key '{name}' in a request to {action}.", hint=did_you_mean(name, known))
        for name in ("state", "load_id"):
            if name in known and not (isinstance(facts.get(name), str) and facts[name].strip()):
                raise RequestError(f"A request to {action} needs '{name}', a non-empty text.")
        if "load_id" in known:
            check_load_id(facts["load_id"])
        for name, least in (("keep_snapshots", 1), ("grace_hours", 0), ("max_wait_seconds", 0)):
            check_number(name, facts.get(name, least), least)
        if not isinstance(facts.get("totals", True), bool):
            raise RequestError(f"'totals' must be true or false, not {facts['totals']!r}.")
        facts["mask"] = read_names("mask", facts.get("mask", ()))
        if "table" in facts:
            facts["table"] = read_source("table", facts["table"])
        return cls(**facts)


def maintain(
    session: SparkSession | Callable[[], SparkSession] | Engine,
    action: str,
    request: Mapping[str, Any],
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Do one action; ``session`` may be a function that starts Spark, which only some actions need."""
    asked = Maintenance.from_mapping(action, request)
    storage = Storage(asked.state, storage_options)
    engine = engine_of(session)

    def attempt() -> dict[str, Any]:
        current = read_current(storage)
        if current is None:
            raise StateError(
                f"There is no state in {asked.state}: no load was ever committed there.",
                hint="Check the folder; it is the 'state' of the gate.",
            )
        masked = replace(asked, mask=(*current.mask, *asked.mask))
        with without_values(masked.mask):
            _check_mask(engine, current, masked)
            facts = ACTIONS[action].act(engine, storage, current, masked)
        return {"schema_version": SCHEMA_VERSION, "action": action, "table": current.table, **facts}

    return take_turns(
        storage,
        f"{action} {asked.load_id or ''}",
        attempt,
        max_wait_seconds=asked.max_wait_seconds,
        waits=ACTIONS[action].changes,
    )


def _check_mask(engine: Engine, current: Snapshot, asked: Maintenance) -> None:
    """Refuse a mask of columns that neither the state has, nor its newest load masks, nor the given table has."""
    known = [*current.schema, *current.mask]
    lacking = "the state does not have"
    if asked.table is not None and {name.lower() for name in asked.mask} - {name.lower() for name in known}:
        known += engine.types(engine.read(asked.table, "table", mask=asked.mask), asked.table)
        lacking = f"neither the state nor the table ({asked.table}) has"
    check_mask(asked.mask, known, lacking=lacking)


def _overtaken(storage: Storage, current: Snapshot) -> bool:
    return newest_number(storage) != current.number


def _retract(engine: Engine, storage: Storage, current: Snapshot, asked: Maintenance) -> dict[str, Any]:
    load = current.loads(storage).find(asked.load_id or "")
    if load is None:
        done = _taken_out(storage, current, asked.load_id or "")
        if done:
            return done
        raise StateError(
            f"There is no load '{asked.load_id}' in the state {storage.uri}.",
            hint=did_you_mean(asked.load_id or "", [one.load_id for one in current.loads(storage).last(20)]),
        )
    ground = Ground(engine, storage, mask=asked.mask)
    with ground.drafts.removed_on_failure(storage):
        snapshot = retracted(ground, current, load)
        ground.drafts.commit(storage, snapshot)
    before, after = total_violations(current), total_violations(snapshot)
    totals = ", ".join(f"{name} {count:,}" for name, count in after.items())
    rows = f"{current.rows:,} -> {counted(snapshot.rows, 'row')}"
    return {
        "snapshot": snapshot.number,
        "load_id": load.load_id,
        "rows": {"before": current.rows, "total": snapshot.rows},
        "total_violations": after,
        "removed_violations": {name: count - after.get(name, 0) for name, count in before.items()},
        "text": f"Load {load.load_id} was taken out: {rows}; snapshot {snapshot.number}; violations now: {totals}",
    }


def _taken_out(storage: Storage, current: Snapshot, load_id: str) -> dict[str, Any] | None:
    """The same answer again, when taking this load out was the last thing that happened: a retried task."""
    number = current.last_change
    if number not in snapshot_numbers(storage):
        return None
    last = read_snapshot(storage, number)
    if (last.action, last.load_id) != (Action.RETRACT, load_id):
        return None
    return {
        "snapshot": number,
        "load_id": load_id,
        "rows": {"before": current.rows, "total": current.rows},
        "total_violations": total_violations(current),
        "removed_violations": dict.fromkeys(total_violations(current), 0),
        "text": f"Load {load_id} was already taken out, by snapshot {number}: nothing to do",
    }


def _compact(engine: Engine, storage: Storage, current: Snapshot, asked: Maintenance) -> dict[str, Any]:
    ground = Ground(engine, storage, mask=asked.mask)
    with ground.drafts.removed_on_failure(storage):
        merged = compacted(ground, current, everything_of(current), everything=True)
        before, after = (len(one.files) for one in (current, merged))
        number = current.number
        if merged.files != current.files:
            number += 1
            ground.drafts.commit(storage, advance(current, merged, Action.COMPACT, changed=False))
    text = f"{counted(before, 'file')} became {after:,}; snapshot {number}"
    return {"snapshot": number, "files_before": before, "files": after, "text": text}


def _vacuum(_: Engine, storage: Storage, current: Snapshot, asked: Maintenance) -> dict[str, Any]:
    grace = timedelta(hours=min(asked.grace_hours, _AGES))
    done = vacuum(storage, current, keep=int(asked.keep_snapshots), before=datetime.now(UTC) - grace)
    text = (
        f"removed {counted(len(done.files), 'file')} ({counted(done.bytes, 'byte')}), "
        f"{counted(done.snapshots, 'old snapshot')} among them; left {counted(done.young, 'unneeded file')} "
        f"younger than {asked.grace_hours:g} h"
    )
    return {
        "snapshot": done.snapshot,
        "removed_files": len(done.files),
        "removed_bytes": done.bytes,
        "removed_snapshots": done.snapshots,
        "young_files": done.young,
        "text": text,
    }


def _verify(engine: Engine, storage: Storage, current: Snapshot, asked: Maintenance) -> dict[str, Any]:
    checked = verify(engine, storage, current, asked.table, totals=asked.totals, mask=asked.mask)
    if checked.problems and _overtaken(storage, current):
        raise ConflictError(
            f"Snapshot {current.number} of {storage.uri} was followed by another while it was checked, and a vacuum "
            "may have removed its files.",
            hint="Run it again.",
        )
    counts = (counted(checked.files, "file"), counted(checked.bytes, "byte"), counted(checked.checks, "check"))
    lines = [f"Snapshot {current.number}: {', '.join(counts)}"]
    lines += [f"PROBLEM: {problem}" for problem in checked.problems] or ["sound"]
    return {
        "snapshot": current.number,
        "sound": not checked.problems,
        "problems": checked.problems,
        "files": checked.files,
        "bytes": checked.bytes,
        "text": "\n".join(lines),
    }


def _rebuild(engine: Engine, storage: Storage, current: Snapshot, asked: Maintenance) -> dict[str, Any]:
    ground = Ground(engine, storage, mask=asked.mask)
    with ground.drafts.removed_on_failure(storage):
        snapshot = rebuilt(ground, current, asked.table)
        ground.drafts.commit(storage, snapshot)
    source = asked.table or "the rows in the state"
    after = total_violations(snapshot)
    totals = ", ".join(f"{name} {count:,}" for name, count in after.items())
    rows = counted(snapshot.rows, "row")
    text = f"Rebuilt from {source}: {rows}; snapshot {snapshot.number}; violations: {totals}"
    return {
        "snapshot": snapshot.number,
        "rows": {"before": current.rows, "total": snapshot.rows},
        "total_violations": after,
        "text": text,
    }


def _describe(_: Engine, storage: Storage, current: Snapshot, __: Maintenance) -> dict[str, Any]:
    return describe(storage, current, snapshot_numbers(storage))


@dataclass(frozen=True, slots=True)
class Deed:
    """An action, and what it takes besides the state."""

    act: Callable[[Engine, Storage, Snapshot, Maintenance], dict[str, Any]]
    about: str
    takes: tuple[str, ...] = ()
    changes: bool = True
    """Whether it commits, and so waits for its turn."""


ACTIONS: dict[str, Deed] = {
    "retract": Deed(_retract, "take a load out again, as if it had never been there", ("load_id",)),
    "compact": Deed(_compact, "merge the files of indexes, rows and deletes"),
    "vacuum": Deed(_vacuum, "remove files that no kept snapshot needs", ("keep_snapshots", "grace_hours")),
    "verify": Deed(
        _verify,
        "check every file of the current snapshot, and recount its violations",
        ("table", "totals"),
        changes=False,
    ),
    "rebuild": Deed(_rebuild, "rebuild the indexes, from the rows in the state or from the table", ("table",)),
    "describe": Deed(_describe, "show what is in a state", changes=False),
}


def main(arguments: list[str] | None = None) -> int:
    """The application: an action and its request in, what was done (or an error document) out."""
    parser = argparse.ArgumentParser(description="Maintain a state.", formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("action", choices=ACTIONS, help="\n".join(f"{name}: {a.about}" for name, a in ACTIONS.items()))
    parser.add_argument("--request", help="path or URI of the request document, or - for standard input")
    parser.add_argument("--state", help="the folder of the state, instead of a request")
    parser.add_argument("--load-id", help="the load to retract")
    parser.add_argument("--keep-snapshots", type=int, help="how many of the newest snapshots vacuum keeps (10)")
    parser.add_argument("--grace-hours", type=float, help="vacuum leaves files younger than this (24)")
    parser.add_argument("--max-wait-seconds", type=float, help="how long to try while others commit first (3600)")
    parser.add_argument("--table", help="the table as a Parquet folder, for verify and rebuild")
    parser.add_argument("--no-totals", action="store_true", help="verify does not recount the violations")
    parser.add_argument("--json", action="store_true", help="print the whole result as JSON, not as text")

    def act(options: argparse.Namespace, state: State) -> dict[str, Any]:
        if options.request:
            request = state.read(options.request)
        else:
            names = ("state", "load_id", "keep_snapshots", "grace_hours", "max_wait_seconds")
            request = {name: getattr(options, name) for name in names}
            request["table"] = {"path": options.table} if options.table else None
            request["totals"] = False if options.no_totals else None
        return maintain(state.spark(), options.action, request, storage_options=state.options)

    return run("maintain", parser, arguments, act)


if __name__ == "__main__":
    sys.exit(main())
