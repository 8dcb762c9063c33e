"""The dependencies of a table of which nothing is kept, and the answer that a discovery gives."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from dc_engine.detection.fetched import Columns, Measured
from dc_engine.discovery.asking import Discovery
from dc_engine.discovery.coded import alike, encoded, useless
from dc_engine.discovery.keeping import found
from dc_engine.discovery.known import COUNTED, Known
from dc_engine.discovery.large import found_afar, nullable_in
from dc_engine.discovery.listing import Dependency, best, listed, viewed
from dc_engine.discovery.ranking import Scales
from dc_engine.discovery.space import Asked, Space, space_of, with_cross
from dc_engine.discovery.terms import Terms
from dc_engine.engines.base import Engine, Left
from dc_engine.engines.work import searchers
from dc_engine.job import Clock
from dc_engine.maintained.continuity import check_mask
from dc_engine.verdict import SCHEMA_VERSION

log = logging.getLogger("airflow_dc_provider.discover")


@dataclass(frozen=True, slots=True)
class InTable:
    """What was found in a table."""

    columns: Columns
    space: Space
    known: Known
    terms: Terms
    scales: Scales
    dependencies: list[Dependency]
    whole: bool = True
    """Whether the columns have all rows; of a large table they have some."""

    def answer(self, asked: Discovery, clock: Clock) -> dict[str, Any]:
        """The document."""
        facts = {
            "space": self.space.to_dict(),
            "nullable": self.known.nullable,
            "mode": self.known.mode,
            "because": self.known.because,
        }
        return answer_of(asked, facts, self.dependencies, self.columns.rows, clock)


Fitting = Callable[[Asked, Mapping[str, str]], Asked]
"""What is asked for, once the columns of the table and their types are known."""


def in_table(engine: Engine, asked: Discovery, clock: Clock, fitting: Fitting | None = None) -> InTable:
    """Read a table and search it."""
    assert asked.table is not None
    with clock.step("read"):
        rows = engine.read(asked.table, "table", mask=asked.mask)
        types = engine.types(rows, asked.table)
        check_mask(asked.mask, types, lacking=f"the table ({asked.table}) does not have")
        wanted = fitting(asked.asked, types) if fitting else asked.asked
        counts = wanted.max_error or wanted.limits.min_support or asked.mode == COUNTED  # over all rows
        get = engine.fetch if counts else engine.leave
        columns = get(rows, comparable_columns(wanted, types), asked.table, mask=asked.mask)
    if isinstance(columns, Left):
        try:
            return _afar(columns, wanted, types, clock)
        finally:
            columns.give_up()
    with clock.step("encode"):
        space = make_space(wanted, types, Measured.of(columns), lambda: columns)
        coded = encoded(space, columns, np.arange(columns.rows))
    with clock.step("search"):
        known = found(space, coded, asked.mode, workers=searchers(engine))
    with clock.step("rank"):
        scales = Scales(coded.table(space, known.nullable), known.keys)
        terms = space.terms(known.nullable)
        dependencies = listed(terms, space.nulls, known.sets, scales, "", known.violations) if columns.rows > 1 else []
    return InTable(columns, space, known, terms, scales, dependencies)


def _afar(left: Left, wanted: Asked, types: Mapping[str, str], clock: Clock) -> InTable:
    """The same for a large table, whose rows stay with the workers; people see a sample of them."""
    names, measured = list(left.measured.values), left.measured
    with clock.step("encode"):
        space = make_space(wanted, types, measured, lambda: Columns.of(left.rows.sample(names)))
    with clock.step("search"):
        certified = found_afar(space, left.rows, nullable_in(space, measured))
        known = certified.known
    with clock.step("rank"):
        terms = space.terms(known.nullable)
        scales = Scales(certified.sample.table(space, known.nullable), known.keys, measured.rows)
        dependencies = listed(terms, space.nulls, known.sets, scales, "") if measured.rows > 1 else []
        sample = left.rows.sample([*space.columns])
        columns = Columns([*space.columns], measured.rows, sample.column)
    return InTable(columns, space, known, terms, scales, dependencies, whole=False)


def comparable_columns(asked: Asked, types: Mapping[str, str]) -> dict[str, str]:
    """The columns that may be looked at, by what is asked for and by their types."""
    space = space_of(asked, types, {})
    return dict(space.columns)


def make_space(
    asked: Asked,
    types: Mapping[str, str],
    measured: Measured,
    columns: Callable[[], Mapping[str, pa.ChunkedArray]],
) -> Space:
    """The space for a table in which there is so much; its columns are read only to see which values are alike."""
    space = space_of(asked, types, useless(types, measured) if asked.columns is None else {})
    if asked.cross in ("one", "both") and measured.rows:  # without rows no values are alike
        space = with_cross(space, alike(space, columns()), both=asked.cross == "both")
    for name, reason in space.left_out.items():
        log.info("column %s is left out: %s", name, reason)
    return space


def answer_of(
    asked: Discovery, facts: Mapping[str, Any], dependencies: Sequence[Dependency], rows: int, clock: Clock
) -> dict[str, Any]:
    """The document that a discovery answers with."""
    space = Space.from_dict(facts["space"])
    every = viewed(space.terms(facts["nullable"]), dependencies, space, asked.view)
    found, because = best(every, facts["because"], space.limits)
    return {
        "schema_version": SCHEMA_VERSION,
        "rows": rows,
        "space": facts["space"],
        "mode": facts["mode"],
        "complete": not because,
        "because": because,
        "dependencies": [one.to_dict() for one in found],
        "seconds": clock.total,
    }
