"""A verdict as the batch that Great Expectations validates: a few lines of JSON, one for the load, one for each rule.

Every value is text, so that no reader guesses at types; the document of a line is JSON again. What comes back is
checked: a file that was truncated, altered or made of two verdicts has problems, and the checkpoint fails on them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from dc_engine.verdict import SCHEMA_VERSION, ConstraintVerdict, DependencyVerdict, Verdict, worst

COLUMNS = ("record", "name", "outcome", "document")
OWN = {"owner": "dcgate"}
"""What marks the expectations that an export makes."""
MAX_EXAMPLES = 5
_SAFE = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_MAX_NAME = 100


@dataclass(frozen=True, slots=True)
class StoredVerdict:
    """What a batch says, and what is wrong with it as a whole."""

    run: Mapping[str, Any] = field(default_factory=dict)
    constraints: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    dependencies: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def to_lines(verdict: Verdict) -> bytes:
    """The batch of a verdict, always the same for the same verdict."""
    records = [_record("constraint", one.name, one.outcome, _constraint(one)) for one in verdict.constraints]
    records += [_record("dependency", one.id, one.outcome, asdict(one)) for one in watched(verdict)]
    run = {
        "schema_version": SCHEMA_VERSION,
        "table": verdict.table,
        "load_id": verdict.load_id,
        "snapshot": verdict.snapshot,
        "decision": verdict.decision,
        "rows": dict(verdict.rows),
        "constraints": len(verdict.constraints),
        "dependencies": len(watched(verdict)),
        "replaced": verdict.replaced,
        "discarded": verdict.discarded,
        "decided": verdict.decided and asdict(verdict.decided),
        "notes": list(verdict.notes),
    }
    run["checksum"] = _checksum(run, records)
    records = [_record("run", verdict.table, verdict.decision, run), *records]
    return "".join(f"{json.dumps(one)}\n" for one in records).encode()


def read_lines(data: bytes) -> StoredVerdict:
    """The verdict that the lines of a batch hold."""
    return read_records(map(_read_line, data.splitlines()))


def read_records(records: Iterable[Mapping[str, Any]]) -> StoredVerdict:
    """The verdict that a batch holds; whatever is wrong with it is reported, never raised."""
    by_record: dict[str, dict[str, Mapping[str, Any]]] = {"run": {}, "constraint": {}, "dependency": {}}
    outcomes: dict[str, Any] = {}
    rest, problems = [], []
    for record in records:
        kind, name = record.get("record"), record.get("name")
        try:
            document = dict(json.loads(record["document"]))
            known = by_record[str(kind)]
        except (KeyError, TypeError, ValueError):
            problems.append(f"A line of the verdict cannot be read: {str(record)[:200]}.")
            continue
        if name in known:
            problems.append(f"The verdict has two lines for the {kind} '{name}'.")
        known[str(name)] = document
        outcomes.setdefault(str(kind), []).append(record.get("outcome"))
        if kind != "run":
            rest.append({column: record.get(column) for column in COLUMNS})
    if len(by_record["run"]) != 1:
        return StoredVerdict(problems=(*problems, "Not a verdict: it must have exactly one line for the load."))
    ((name, run),) = by_record["run"].items()
    constraints, found = by_record["constraint"], by_record["dependency"]
    if run.get("schema_version") != SCHEMA_VERSION:
        problems.append(f"The verdict has schema version {run.get('schema_version')}, not {SCHEMA_VERSION}.")
    if (run.get("constraints"), run.get("dependencies")) != (len(constraints), len(found)):
        problems.append(
            f"The verdict is not complete: it has {len(constraints)} of {run.get('constraints')} rules "
            f"and {len(found)} of {run.get('dependencies')} dependencies."
        )
    elif (
        run.get("checksum") != _checksum(run, rest)
        or (name, outcomes["run"]) != (run["table"], [run["decision"]])
        or run["decision"] != worst([*outcomes.get("constraint", []), *outcomes.get("dependency", [])])
    ):
        problems.append("The verdict was altered after it was stored: its checksum does not match.")
    return StoredVerdict(run, constraints, found, tuple(problems))


def watched(verdict: Verdict) -> list[DependencyVerdict]:
    """The dependencies that count: those that hold, and those that the load invalidated."""
    found = verdict.dependencies
    lost = [one for one in found.invalidated if one.watched]
    return list({one.id: one for one in (*found.watched, *lost)}.values())


def is_own(expectation: Any) -> bool:
    """Whether an expectation, or its configuration in a result, is one that an export makes."""
    return OWN.items() <= (expectation.meta or {}).items()


def is_check(config: Any) -> bool:
    """Whether an expectation is a check on the verdict itself, and not on a rule or a dependency."""
    return is_own(config) and not {"constraint", "dependency"} & config.kwargs.keys()


def safe_name(text: str) -> str:
    """A name that works as a file, a folder and part of a link anywhere; the text itself where possible.

    Different texts never get the same name. Data Docs hide runs with 'profiling' in their name.
    """
    if _SAFE.fullmatch(text) and len(text) <= _MAX_NAME and "profiling" not in text:
        return text
    readable = re.sub(r"[^A-Za-z0-9_-]+", "_", text).replace("profiling", "profil_ing").strip("_")[:_MAX_NAME]
    return f"{readable or 'x'}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _constraint(one: ConstraintVerdict) -> dict[str, Any]:
    return {**asdict(one), "samples": one.samples[:MAX_EXAMPLES]}


def _read_line(line: bytes) -> dict[str, Any]:
    try:
        return dict(json.loads(line))
    except ValueError:
        return {"line": repr(line)}


def _record(record: str, name: str, outcome: str, document: Mapping[str, Any]) -> dict[str, str]:
    text = json.dumps(document, ensure_ascii=False)
    return {"record": record, "name": name, "outcome": outcome, "document": text}


def _checksum(run: Mapping[str, Any], records: Iterable[Mapping[str, Any]]) -> str:
    facts = {name: value for name, value in run.items() if name != "checksum"}
    text = json.dumps([facts, *([one[column] for column in COLUMNS] for one in records)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
