"""What Great Expectations does at every run, and an export does differently.

It draws progress bars, and has no switch for them. For the start page of Data Docs it reads every stored result
whole, some ten milliseconds each, though the page needs only whether it passed. And in the statistics of a run it
counts checks on the verdict itself among the rules: three broken rules of five would be "4 unsuccessful, 60%". All is
restored after the run; if a later version works differently, an export is slower, has progress bars or counts more,
nothing worse.

When it cannot render part of a page, it logs that and goes on. Here that is an error.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from great_expectations.data_context import AbstractDataContext
from great_expectations.render.renderer.site_builder import DefaultSiteIndexBuilder
from great_expectations.validator import v1_validator, validation_graph

from airflow_dc_provider.checkpoints.batch import is_check
from dc_engine.errors import StateError


@contextmanager
def running(context: AbstractDataContext) -> Iterator[None]:
    """A block in which a checkpoint is run; a page that could not be rendered is an error."""
    bar, build, count = validation_graph.tqdm, DefaultSiteIndexBuilder.build, v1_validator.calc_validation_statistics
    store = context.validation_results_store
    whole = store.deserialize

    def without_results(value: Any) -> Any:
        document = value if isinstance(value, dict) else json.loads(value)
        return whole({**document, "results": []})

    def build_from_less(builder: Any, *given: Any, **named: Any) -> Any:
        store.deserialize = without_results
        try:
            return build(builder, *given, **named)
        finally:
            store.deserialize = whole

    def count_rules(results: list[Any]) -> Any:
        rules = [one for one in results if not is_check(one.expectation_config)]
        return count(rules)._replace(success=count(results).success)

    logger, failures = logging.getLogger("great_expectations.render"), _Failures(logging.ERROR)
    logger.addHandler(failures)
    validation_graph.tqdm = lambda **given: bar(**{**given, "disable": True})
    DefaultSiteIndexBuilder.build = build_from_less
    v1_validator.calc_validation_statistics = count_rules
    try:
        yield
    finally:
        validation_graph.tqdm, DefaultSiteIndexBuilder.build = bar, build
        v1_validator.calc_validation_statistics = count
        logger.removeHandler(failures)
    if failures.said:
        raise StateError(
            f"Great Expectations could not render a page of Data Docs: {' '.join(failures.said[0].split())[-500:]}",
            hint="Nothing of this run was kept. The log has the details.",
        )


class _Failures(logging.Handler):
    """Keeps what Great Expectations only logs."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Remember a message."""
        self.said.append(record.getMessage())
