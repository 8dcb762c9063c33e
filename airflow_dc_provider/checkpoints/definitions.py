"""What a checkpoint needs in a context: guard, datasource, suite, validation definition, the checkpoint itself.

Each is made when it is missing, a suite changes when the rules do, and everything else is left alone with its id.
What people added themselves (actions of the checkpoint, expectations of the suite) stays.
"""

from __future__ import annotations

import re
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from great_expectations import Checkpoint, ExpectationSuite, ValidationDefinition
from great_expectations.checkpoint import UpdateDataDocsAction
from great_expectations.core.batch_definition import BatchDefinition
from great_expectations.core.partitioners import FileNamePartitionerPath
from great_expectations.data_context import AbstractDataContext, FileDataContext
from great_expectations.exceptions import DataContextError

from airflow_dc_provider.checkpoints import guard
from airflow_dc_provider.checkpoints.batch import COLUMNS, OWN, StoredVerdict, is_own, read_lines
from dc_engine.constraints.model import Tolerance
from dc_engine.errors import StateError

SUFFIX = ".jsonl"
LATEST = f"~latest{SUFFIX}"
"""Sorts after every load's name: what the checkpoint takes when no other batch is asked for."""
SEVERITIES = {"error": "critical", "warn": "warning"}
_IDS = uuid.UUID("5d1b6f0a-3a5e-4a0e-9f0a-0c6d2f1f8f11")
_NOT_ALONE = "A built-in check on top of the others, in case they cannot be loaded."


def register_guard(context: AbstractDataContext) -> None:
    """Make every process that opens the context know the expectations, or fail."""
    if isinstance(context, FileDataContext) and guard.STORE not in context.config.stores:
        context.add_store(guard.STORE, dict(guard.CONFIGURATION))


def suite(context: AbstractDataContext, name: str, expectations: Sequence[Mapping[str, Any]]) -> ExpectationSuite:
    """The suite of this name with these expectations, and those that people added."""
    try:
        found = context.suites.get(name)
    except DataContextError:
        found = context.suites.add(ExpectationSuite(name=name))
    _check_all_known(context, found)
    wanted = ExpectationSuite(name=name, expectations=expectations).expectations
    own = [one for one in found.expectations if is_own(one)]
    if own != wanted:
        found.expectations = [*wanted, *(one for one in found.expectations if not is_own(one))]
        found.save()
    return found


def _check_all_known(context: AbstractDataContext, found: ExpectationSuite) -> None:
    """Refuse a suite from which Great Expectations left some out, because it does not know their class here.

    The checkpoint would pass without them, and saving the suite would lose them.
    """
    store = context.expectations_store
    stored = [one["type"] for one in store.get(store.get_key(name=found.name))["expectations"]]
    if len(stored) != len(found.expectations):
        missing = Counter(stored) - Counter(one.expectation_type for one in found.expectations)
        raise StateError(
            f"Suite '{found.name}' has expectations that cannot be loaded here: {', '.join(sorted(missing))}.",
            hint="Make the modules of those that you added importable where the export runs, or take them out.",
        )


def stable_id(*names: str) -> str:
    """An id that is the same whenever it is asked for."""
    return str(uuid.uuid5(_IDS, "\n".join(names)))


def checkpoint(context: AbstractDataContext, name: str, folder: Path, verdict_suite: ExpectationSuite) -> Checkpoint:
    """The checkpoint of a table over the batches in a folder."""
    data = _batch_definition(context, name, folder)
    try:
        definition = context.validation_definitions.get(name)
    except DataContextError:
        definition = context.validation_definitions.add(ValidationDefinition(name=name, data=data, suite=verdict_suite))
    try:
        found = context.checkpoints.get(name)
    except DataContextError:
        made = Checkpoint(name=name, validation_definitions=[definition], actions=[_data_docs()])
        return context.checkpoints.add(made)
    if not any(isinstance(action, UpdateDataDocsAction) for action in found.actions):
        found.actions.append(_data_docs())
        found.save()
    return found


def expected(name: str, data: bytes) -> list[dict[str, Any]]:
    """The expectations of a verdict's batch, always the same for the same rules, ids included."""
    verdict = read_lines(data)
    rules, found = verdict.constraints, verdict.dependencies
    facts = {"table_name": verdict.run["table"], "rules": len(rules), "dependencies": len(found)}
    wanted = [_expectation(name, "expect_gate_run_to_be_complete", facts, "error")]
    wanted += [
        _expectation(name, "expect_denial_constraint_to_hold", _rule(rule), rule["severity"], rule["name"])
        for rule in rules.values()
    ]
    wanted += [
        _expectation(name, "expect_dependency_to_hold", _dependency(one), one["severity"], one["id"])
        for one in found.values()
    ]
    return [*wanted, *_sentinels(name, verdict)]


def _sentinels(name: str, verdict: StoredVerdict) -> list[dict[str, Any]]:
    """Built-in expectations that fail with the others: on a rule that is broken, on lines that are missing."""
    lines = 1 + len(verdict.constraints) + len(verdict.dependencies)
    names = sorted({verdict.run["table"], *verdict.constraints, *verdict.dependencies})
    of_outcome = "expect_column_values_to_be_in_set"
    checks: list[tuple[str, dict[str, Any], str, str, str]] = [
        (
            "expect_table_row_count_to_equal",
            {"value": lines},
            "error",
            "",
            f"The verdict has {lines} lines: one for the load and one for each rule.",
        ),
        (
            "expect_column_distinct_values_to_equal_set",
            {"column": "name", "value_set": names},
            "error",
            "",
            "The lines are of this table and of its rules.",
        ),
    ]
    for severity, bad, others in (("error", "fail", ["pass", "warn"]), ("warn", "warn", ["pass", "fail"])):
        sentence = f"No line of the verdict says {bad}: no rule of severity {severity} is broken."
        checks.append((of_outcome, {"column": "outcome", "value_set": others}, severity, severity, sentence))
    return [
        _expectation(name, kind, kwargs, severity, key, description=f"{sentence} {_NOT_ALONE}")
        for kind, kwargs, severity, key, sentence in checks
    ]


def _rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    facts = {name: rule[name] for name in ("formula", "kind", "nulls")}
    tolerance = Tolerance.of(rule["max_new_violations"], rule["max_violating_rows"])
    return {"constraint": rule["name"], **facts, "sentence": rule["description"], **tolerance.written}


def _dependency(one: Mapping[str, Any]) -> dict[str, Any]:
    facts = {"dependency": one["id"], "dependency_class": one["kind"], "formula": one["formula"]}
    return {**facts, "sentence": one["text"], "since": one["since"]}


def _expectation(
    suite_name: str,
    kind: str,
    kwargs: Mapping[str, Any],
    severity: str,
    key: str = "",
    *,
    description: str | None = None,
) -> dict[str, Any]:
    return {
        "type": kind,
        "id": stable_id(suite_name, kind, key),
        "kwargs": dict(kwargs),
        "severity": SEVERITIES[severity],
        "meta": dict(OWN),
        "description": description,
    }


def _batch_definition(context: AbstractDataContext, name: str, folder: Path) -> BatchDefinition:
    try:
        datasource = context.data_sources.get(name)
    except KeyError:
        datasource = context.data_sources.add_pandas_filesystem(name, base_directory=folder)
    try:
        asset = datasource.get_asset(folder.name)
    except LookupError:
        types = dict.fromkeys(COLUMNS, "object")
        options = {"orient": "records", "lines": True, "dtype": types, "convert_dates": False}
        asset = datasource.add_json_asset(folder.name, **options)
    datasource._build_data_connector(asset)  # an open context remembers which files there were
    try:
        return asset.get_batch_definition("verdict")
    except KeyError:
        # the asset's own definition for a path would accept no other path when a checkpoint runs
        partitioner = FileNamePartitionerPath(regex=re.compile(rf".*\{SUFFIX}$"), param_names=())
        return asset.add_batch_definition("verdict", partitioner=partitioner)


def _data_docs() -> UpdateDataDocsAction:
    return UpdateDataDocsAction(name="dcgate_data_docs")
