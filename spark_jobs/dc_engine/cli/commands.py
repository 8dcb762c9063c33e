"""What each command does: the options become a request, a job answers it, and the answer is a document and a text."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dc_engine.errors import ChangesError, ConstraintError, RequestError, SchemaError, counted, did_you_mean, escaped
from dc_engine.table_files import said_in, source_of
from dc_engine.wording import MAX_TEXT, align, plain

if TYPE_CHECKING:
    from dc_engine.cli.session import Sessions
    from dc_engine.constraints.model import ConstraintSet
    from dc_engine.verdict import Verdict

STEPS = {
    "apply": ("read", "stage", "index", "probe", "judge", "commit"),
    "discover": ("read", "encode", "search", "rank"),
}
"""The steps of the jobs that say which of them are done."""
_APPLY = (
    *("load_id", "constraints", "rejected_load", "quarantine", "missing_deletes", "duplicate_keys", "max_listed"),
    *("max_samples", "engine"),
)
_OF_ALL = ("max_wait_seconds", "mask")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command found."""

    document: Mapping[str, Any]
    text: str
    passed: bool = True
    """Whether what was asked for is as it should be: the exit code says so too."""


def run(options: argparse.Namespace, sessions: Sessions) -> Answer:
    """Do what a command line asks for."""
    commands = {"check": _check, "apply": _apply, "show": _show, "discover": _discover}
    return commands.get(options.command, _maintain)(options, sessions)


def _apply(options: argparse.Namespace, sessions: Sessions) -> Answer:
    request = _request(options, _APPLY)
    if options.changes:
        request["changes"] = _source(options.changes, options)
    needed = ("state", "load_id", "changes", "constraints")
    _check_given(request, {name: f"--{name.replace('_', '-')}" for name in needed})
    from dc_engine.apply_load import apply_load
    from dc_engine.constraints.files import load_constraints
    from dc_engine.request import Request

    checked = Request.from_mapping(request)  # and the rules too, before Spark is started
    load_constraints(checked.constraints)
    verdict = apply_load(sessions.spark(), checked, storage_options=_storage_options(options))
    lines = [*_verdict_lines(verdict, checked.state), *_advice(verdict, checked.state)]
    return Answer(verdict.to_dict(), "\n".join(lines), _passed(verdict))


def _show(options: argparse.Namespace, _: Sessions) -> Answer:
    from dc_engine.state.storage import Storage
    from dc_engine.stored import read_verdict

    _check_given({"state": options.state}, {"state": "--state"})
    state = _place(options.state)
    verdict = read_verdict(Storage(state, _storage_options(options)), options.load_id, options.mask or ())
    return Answer(verdict.to_dict(), "\n".join(_verdict_lines(verdict, state)), _passed(verdict))


def _verdict_lines(verdict: Verdict, state: str) -> list[str]:
    """Details first, what matters last: there the eye is when a command has ended."""
    from dc_engine.lost import lost_watched
    from dc_engine.reporting import broke, detail_lines, verdict_lines

    broken = bool(verdict.broken or lost_watched(verdict))
    details = [broke(verdict), *detail_lines(verdict)] if broken else []
    return [*details, *verdict_lines(verdict, state)]


def _passed(verdict: Verdict) -> bool:
    """Whether the rules let a load pass, or else a person."""
    return verdict.decision != "fail" or verdict.approved


def _advice(verdict: Verdict, state: str) -> list[str]:
    """What to do about a load that does not pass."""
    from dc_engine.reporting import retracting

    if _passed(verdict):
        return []
    if verdict.discarded:
        return ["Its rows are not in the state. Mend them, and apply them under the same load id."]
    return [
        "Mend the rows and apply them under the same load id: they replace these. Or take the load out:",
        f"  {retracting(verdict, state)}",
    ]


def _discover(options: argparse.Namespace, sessions: Sessions) -> Answer:
    from dc_engine.discover import discover
    from dc_engine.suggesting import answer_for_people
    from dc_engine.telling import answer_lines

    kept = options.state or options.request
    if not kept and not options.table:
        raise RequestError("discover needs --table, --state or --request.", hint="dcgate discover --help has examples.")
    table = _source(options.table, options) if options.table else None
    if not kept:
        found = answer_for_people(sessions.spark(), options)
        return Answer({name: value for name, value in found.items() if name != "text"}, found["text"])
    if options.suggest:
        raise RequestError("--suggest goes with --table alone, not with a state or a request.")
    request = _request(options, ("constraints", "load_id")) | ({"table": table} if table else {})
    for name, key, said in (("space", "exclude", options.exclude or None), ("limits", "max_terms", options.max_terms)):
        given = request.get(name) or {}
        if said is not None and isinstance(given, Mapping):
            request[name] = {**given, key: said}
    found = discover(sessions.spark(), request, storage_options=_storage_options(options))
    return Answer(found, "\n".join(answer_lines(found)))


def _maintain(options: argparse.Namespace, sessions: Sessions) -> Answer:
    from dc_engine.maintain import maintain

    request = _request(options, ("load_id", "keep_snapshots", "grace_hours"))
    if getattr(options, "table", None):
        request["table"] = _source(options.table, options)
    if getattr(options, "no_totals", False):
        request["totals"] = False
    _check_given(request, {"state": "--state"} | ({"load_id": "LOAD"} if options.command == "retract" else {}))
    found = maintain(sessions.spark(), options.command, request, storage_options=_storage_options(options))
    document = {name: value for name, value in found.items() if name != "text"}
    sound, text = found.get("sound", True), found["text"]
    return Answer(document, text if sound else "\n".join([text, *_cure(request["state"])]), sound)


def _cure(state: str) -> list[str]:
    """What to do about a state that is not sound."""
    return [
        "Restore the files that are named from a copy, if there is one: no file ever changes. Or make the indexes",
        "again, from the rows in the state or, with --table, from the table:",
        f"  {plain(shlex.join(['dcgate', 'rebuild', '--state', state]), MAX_TEXT)}",
    ]


def _check(options: argparse.Namespace, sessions: Sessions) -> Answer:
    """Parse the rules; with a sample, look whether they fit its columns. What is wrong with them is an answer too."""
    from dc_engine.constraints.files import load_constraints
    from dc_engine.request import read_source

    if "://" not in options.rules and (not Path(options.rules).exists() or Path(options.rules).is_dir()):
        load_constraints(options.rules)  # says so, and which file may be meant
    source = read_source("sample", _source(options.sample, options)) if options.sample else None
    types = None
    if source is not None:
        types = _types_by_spark(source, sessions) if options.spark else _types(source)
    try:
        rules = load_constraints(options.rules)
        if types is not None:
            _check_fit(rules, types, str(source))
    except (ConstraintError, SchemaError) as error:
        return Answer({"valid": False, "error": error.to_dict()}, escaped(str(error)), passed=False)
    return Answer(_check_document(rules, types), "\n".join(_check_lines(rules, types, options)))


def _types(source: Any) -> dict[str, str]:
    from dc_engine.cli.sample import sample_types

    return sample_types(source)


def _types_by_spark(source: Any, sessions: Sessions) -> dict[str, str]:
    from dc_engine.detection.sources import column_types, read_changes

    return column_types(read_changes(sessions.start(), source, "sample"), source)


def _check_fit(rules: ConstraintSet, types: Mapping[str, str], sample: str) -> None:
    from dc_engine.constraints.files import check_columns
    from dc_engine.detection.planning import make_plan

    check_columns(rules, types, source=f"the sample ({sample})")
    make_plan(rules, types)


def _check_document(rules: ConstraintSet, types: Mapping[str, str] | None) -> dict[str, Any]:
    from dc_engine.constraints.printer import formula

    constraints = [{"name": one.name, "severity": one.severity, "formula": formula(one)} for one in rules.rules]
    facts = {"valid": True, "table": rules.table, "key": list(rules.key), "constraints": constraints}
    return facts if types is None else {**facts, "columns": dict(types)}


def _check_lines(rules: ConstraintSet, types: Mapping[str, str] | None, options: argparse.Namespace) -> list[str]:
    from dc_engine.constraints.printer import formula

    key = f", key {', '.join(rules.key)}" if rules.key else ""
    cells = [[plain(one.name, 60), one.severity, plain(formula(one), MAX_TEXT)] for one in rules.rules]
    lines = [f"{options.rules}: {counted(len(rules.rules), 'rule')} for table {plain(rules.table)}{key}", *align(cells)]
    if types is None:
        return lines
    used = {name.lower() for name in (*rules.key, *(column for one in rules.rules for column in one.columns))}
    read = ", ".join(f"{plain(name)} {one}" for name, one in types.items() if name.lower() in used)
    return [*lines, f"They fit {options.sample}: {plain(read, MAX_TEXT)}"]


def _request(options: argparse.Namespace, names: tuple[str, ...]) -> dict[str, Any]:
    """The request of ``--request``, with what options say instead or besides."""
    request: dict[str, Any] = {}
    if options.request:
        from dc_engine.job import State

        document = State("dcgate").read(options.request)
        if not isinstance(document, dict):
            raise RequestError(f"The request {options.request} is not a JSON object.")
        request |= document
    given = {name: getattr(options, name, None) for name in (*names, *_OF_ALL)}
    request |= {name: value for name, value in given.items() if value is not None}
    if options.state:
        request["state"] = _place(options.state)
    return request


def _source(path: str, options: argparse.Namespace) -> dict[str, Any]:
    """Where rows are; a file of this machine that is not there is refused at once."""
    local = "://" not in path and not (options.master or options.remote) and not set(path) & set("*?[{,")
    if local and not Path(path).exists():
        near = [one.name for one in Path(path).absolute().parent.glob("*")]
        hint = did_you_mean(Path(path).name, near, otherwise="Check the path.")
        raise ChangesError(f"There is no file {plain(path, MAX_TEXT)}.", hint=hint)
    return source_of(path, said_in(options))


def _check_given(request: Mapping[str, Any], needed: Mapping[str, str]) -> None:
    missing = [option for name, option in needed.items() if not request.get(name)]
    if missing:
        named = " and ".join(filter(None, [", ".join(missing[:-1]), missing[-1]]))
        raise RequestError(f"{named} must be given, on the command line or in a --request.")


def _storage_options(options: argparse.Namespace) -> dict[str, Any]:
    from dc_engine.job import state_options

    return state_options(options.state_options)


def _place(folder: str) -> str:
    """A folder that means the same wherever it is read: in this process, in a verdict, by Spark."""
    return folder if "://" in folder else str(Path(folder).absolute())
