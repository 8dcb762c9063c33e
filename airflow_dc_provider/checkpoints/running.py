"""What Great Expectations does at every run, and an export does differently.

It draws progress bars, and has no switch for them. And for the start page of Data Docs it reads every stored result
whole, some ten milliseconds each, though the page needs only whether it passed. Both are restored after the run;
if a later version works differently, an export is slower or has progress bars, nothing worse.

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
from great_expectations.validator import validation_graph

from dc_engine.errors import StateError


@contextmanager
def running(context: AbstractDataContext) -> Iterator[None]:
    """A block in which a checkpoint is run; a page that could not be rendered is an error."""
    bar, build = validation_graph.tqdm, DefaultSiteIndexBuilder.build
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

    logger, failures = logging.getLogger("great_expectations.render"), _Failures(logging.ERROR)
    logger.addHandler(failures)
    validation_graph.tqdm = lambda **given: bar(**{**given, "disable": True})
    DefaultSiteIndexBuilder.build = build_from_less
    try:
        yield
    finally:
        validation_graph.tqdm, DefaultSiteIndexBuilder.build = bar, build
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
