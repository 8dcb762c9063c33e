"""From a verdict to a Great Expectations checkpoint run over it, and its page in Data Docs.

``export_checkpoint`` reads top to bottom: write the batch, make or update datasource, suite, validation definition and
checkpoint, drop old runs, run. Nothing that is already right is written again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from great_expectations import Checkpoint
from great_expectations.checkpoint.checkpoint import CheckpointResult
from great_expectations.core.run_identifier import RunIdentifier
from great_expectations.data_context import AbstractDataContext
from great_expectations.data_context.types.resource_identifiers import (
    ExpectationSuiteIdentifier,
    ValidationResultIdentifier,
)

from airflow_dc_provider.checkpoints import definitions, rendering
from airflow_dc_provider.checkpoints.batch import StoredVerdict, is_own, read_lines, safe_name, to_lines
from airflow_dc_provider.checkpoints.builtin import export_builtin_suite
from airflow_dc_provider.checkpoints.contexts import Place, opened
from airflow_dc_provider.checkpoints.guard import PREFIX
from airflow_dc_provider.checkpoints.running import running
from dc_engine.errors import RequestError, StateError
from dc_engine.verdict import Verdict, masked

BUILTIN = "dcgate_builtin."
KEEP_RUNS = 50


@dataclass(frozen=True, slots=True)
class Exported:
    """What became of an export."""

    checkpoint: str
    run: str
    success: bool
    """Whether the checkpoint passed."""
    repeated: bool
    """Whether this verdict had been exported before, and nothing was written."""
    docs: str | None
    """The page of this run; nothing in a context without Data Docs."""
    index: str | None
    """The start page of Data Docs."""
    folder: str
    """The folder of the context, where its configuration is."""
    lines: tuple[str, ...]
    """What was expected and found, as text."""


def export_checkpoint(
    verdict: Verdict | Mapping[str, Any],
    context: AbstractDataContext | str | os.PathLike[str],
    *,
    newest: bool | None = None,
    mask: Iterable[str] = (),
    keep_runs: int | None = KEEP_RUNS,
    keep_days: float | None = None,
    export_builtin: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Exported:
    """Run the checkpoint ``dcgate.<table>`` over a verdict, making or updating what it needs in a context.

    :param verdict: A verdict, or its document.
    :param context: A file context's folder (a path or fsspec URI; made when missing), or an open context.
    :param newest: Whether the load is the last one in the history of its state; without it snapshot numbers decide
        which exported verdict is the latest.
    :param mask: Columns whose values must not be shown, whatever the verdict has.
    :param keep_runs: The most runs of this table to keep.
    :param keep_days: The most days to keep a run.
    :param export_builtin: Write the rules that built-in expectations express without loss as the suite
        ``dcgate_builtin.<table>`` too.
    :param storage_options: What fsspec needs to reach the folder.
    """
    verdict = masked(_checked(verdict), mask)
    _check_limits(keep_runs, keep_days)
    with opened(context, storage_options or {}) as place:
        export = _Export(place, verdict)
        exported = export.earlier()
        export.write_batch(newest=newest)
        if exported is None:
            export.drop_old_runs(keep_runs, keep_days)
            exported = export.run()
        else:
            export.define()
        if export_builtin and export.is_latest:
            left_out = export_builtin_suite(place.context, f"{BUILTIN}{export.table}", verdict)
            lines = [f"No built-in expectation says what {rule} says." for rule in left_out]
            exported = replace(exported, lines=(*exported.lines, *lines))
        return exported


class _Export:
    """One export of one verdict to an open context."""

    def __init__(self, place: Place, verdict: Verdict) -> None:
        self.place, self.context, self.verdict = place, place.context, verdict
        self.table, load = safe_name(verdict.table), safe_name(verdict.load_id)
        self.name = f"{PREFIX}{self.table}"
        self.folder = place.folder / self.table
        self.batch = self.folder / f"{load}{definitions.SUFFIX}"
        self.latest = self.folder / definitions.LATEST
        self.run_name = f"{load}_v{verdict.snapshot}"
        self.data = to_lines(verdict)

    @property
    def is_latest(self) -> bool:
        """Whether the checkpoint runs over this verdict by default."""
        return self.latest.read_bytes() == self.data

    def earlier(self) -> Exported | None:
        """The outcome of an earlier run over the same verdict, if its result and its page are still there."""
        if not self.batch.exists() or self.batch.read_bytes() != self.data:
            return None
        for key in self._runs():
            if key.run_id.run_name == self.run_name and self._page(key):
                try:
                    result = self.context.validation_results_store.get(key)
                except ValueError:  # truncated when a process died: made again
                    return None
                return self._exported(key, result, repeated=True)
        return None

    def write_batch(self, *, newest: bool | None) -> None:
        """Write the verdict as a batch, and as the latest one if it is."""
        self.folder.mkdir(parents=True, exist_ok=True)
        _replace(self.batch, self.data)
        known = read_lines(self.latest.read_bytes()) if self.latest.exists() else StoredVerdict()
        if newest is None:
            newest = self.verdict.snapshot >= known.run.get("snapshot", 0)
        if newest or not known.run or known.problems:
            _replace(self.latest, self.data)

    def define(self) -> None:
        """Make or update guard, suite and checkpoint, with the rules of the latest verdict."""
        self._checkpoint(self.latest.read_bytes())

    def drop_old_runs(self, keep_runs: int | None, keep_days: float | None) -> None:
        """Remove the oldest results, an earlier result of this very run, and batches without results.

        Their pages go when Data Docs are updated.
        """
        runs = sorted(self._runs(), key=lambda key: key.run_id.run_time, reverse=True)
        kept = [key for key in runs if key.run_id.run_name != self.run_name]
        if keep_days is not None:
            oldest = datetime.now(UTC) - timedelta(days=keep_days)
            kept = [key for key in kept if key.run_id.run_time >= oldest]
        if keep_runs is not None:
            kept = kept[: keep_runs - 1]
        for key in runs:
            if key not in kept:
                self.context.validation_results_store.remove_key(key)
        loads = {str(key.run_id.run_name).rpartition("_v")[0] for key in kept}
        needed = {self.batch.name, self.latest.name, *(f"{load}{definitions.SUFFIX}" for load in loads)}
        for file in self.folder.glob(f"*{definitions.SUFFIX}"):
            if file.name not in needed:
                file.unlink()

    def run(self) -> Exported:
        """Run the checkpoint over this verdict, with its rules; the suite stays that of the latest verdict."""
        checkpoint = self._checkpoint(self.data)
        run_id = RunIdentifier(run_name=self.run_name, run_time=datetime.now(UTC))
        try:
            with running(self.context):
                result = checkpoint.run(batch_parameters={"path": self.batch.name}, run_id=run_id)
            key, validated = self._own(result)
            self._check(key, validated)
        except BaseException:
            self._forget()
            raise
        finally:
            if not self.is_latest:
                self.define()
                suite = ExpectationSuiteIdentifier(name=self.name)
                self.context.build_data_docs(resource_identifiers=[suite], build_index=False)
        return self._exported(key, validated, repeated=False)

    def _checkpoint(self, data: bytes) -> Checkpoint:
        """The checkpoint, its suite with the rules of a batch."""
        definitions.register_guard(self.context)
        suite = definitions.suite(self.context, self.name, definitions.expected(self.name, data))
        return definitions.checkpoint(self.context, self.name, self.folder, suite)

    def _own(self, result: CheckpointResult) -> tuple[ValidationResultIdentifier, Any]:
        """The result of our validation definition: people may have added others to the checkpoint."""
        results = result.run_results.items()
        return next((key, one) for key, one in results if key.expectation_suite_identifier.name == self.name)

    def _forget(self) -> None:
        """Remove what a failed run left, so that the next export does not mistake it for done."""
        for key in self._runs():
            if key.run_id.run_name == self.run_name:
                self.context.validation_results_store.remove_key(key)

    def _check(self, key: ValidationResultIdentifier, validated: Any) -> None:
        """Refuse a result that is not the verdict's, and a page that Great Expectations failed to write."""
        ours = [one for one in validated.results if is_own(one.expectation_config)]
        due = definitions.expected(self.name, self.data)
        if len(ours) != len(due):
            raise StateError(
                f"Great Expectations judged {len(ours)} of {len(due)} expectations of checkpoint '{self.name}'.",
                hint="Look in the log for expectations that could not be loaded.",
            )
        if others := [one for one in ours if one.success != self._should_pass(one.expectation_config.kwargs)]:
            raise StateError(
                f"Great Expectations and the verdict of load '{self.verdict.load_id}' disagree: "
                f"{'; '.join(rendering.text_lines(others)) or others[0].expectation_config.type}.",
                hint="Remove the suite from the context and export again; if that does not help, please report it.",
            )
        if self.context.get_docs_sites_urls() and self._page(key) is None:
            raise StateError(
                f"Data Docs have no page for run '{self.run_name}' of checkpoint '{self.name}'.",
                hint="Great Expectations logs why it could not render it.",
            )

    def _should_pass(self, kwargs: Mapping[str, Any]) -> bool:
        """Whether an expectation passes if it judges as the gate did."""
        if "constraint" in kwargs:
            return kwargs["constraint"] not in {one.name for one in self.verdict.broken}
        if "dependency" in kwargs:
            return kwargs["dependency"] not in {one.id for one in self.verdict.dependencies.invalidated}
        outcomes = {one["outcome"] for one in map(json.loads, self.data.splitlines())}
        return outcomes <= set(kwargs["value_set"]) if kwargs.get("column") == "outcome" else True

    def _exported(self, key: ValidationResultIdentifier, validated: Any, *, repeated: bool) -> Exported:
        page, index = self._page(key) or (None, None)
        return Exported(
            checkpoint=self.name,
            run=self.run_name,
            success=bool(validated.success),
            repeated=repeated,
            docs=page,
            index=index,
            folder=self.place.origin or str(self.place.folder.parent),
            lines=tuple(rendering.text_lines(validated.results)),
        )

    def _page(self, key: ValidationResultIdentifier) -> tuple[str | None, str | None] | None:
        """The page of a run on the first site of Data Docs that has it, and the start page of that site."""
        for site in self.context.get_docs_sites_urls(key):
            if site["site_url"]:
                (start,) = self.context.get_docs_sites_urls(site_name=site["site_name"])
                return self.place.address(site["site_url"]), self.place.address(start["site_url"])
        return None

    def _runs(self) -> list[ValidationResultIdentifier]:
        keys = self.context.validation_results_store.list_keys()
        return [key for key in keys if key.expectation_suite_identifier.name == self.name]


def _replace(path: Path, data: bytes) -> None:
    """Write a file whole or not at all, unless it is there already."""
    if path.exists() and path.read_bytes() == data:
        return
    draft = path.with_name(f"{path.name}.draft")
    draft.write_bytes(data)
    draft.replace(path)


def _checked(verdict: Verdict | Mapping[str, Any]) -> Verdict:
    if isinstance(verdict, Verdict):
        return verdict
    try:
        return Verdict.from_dict(dict(verdict))
    except (KeyError, TypeError, ValueError) as error:
        raise RequestError(
            f"This is not a verdict document: {error}.", hint="Give the document that the gate stored or printed."
        ) from error


def _check_limits(keep_runs: int | None, keep_days: float | None) -> None:
    if keep_runs is not None and (not isinstance(keep_runs, int) or keep_runs < 1):
        raise RequestError(f"keep_runs is {keep_runs!r}, and must be a whole number of at least 1, the exported run.")
    if keep_days is not None and (not isinstance(keep_days, int | float) or keep_days < 0):
        raise RequestError(f"keep_days is {keep_days!r}, and must be a number of at least 0.")
