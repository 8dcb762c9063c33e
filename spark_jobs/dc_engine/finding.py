"""The dependencies of a table of which nothing is kept, and the answer that a discovery gives."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from dc_engine.discovery.asking import Discovery
from dc_engine.discovery.coded import alike, encoded, useless
from dc_engine.discovery.keeping import Known, found
from dc_engine.discovery.listing import Dependency, listed, viewed
from dc_engine.discovery.ranking import Scales
from dc_engine.discovery.space import Asked, Space, space_of, with_cross
from dc_engine.discovery.terms import Terms
from dc_engine.engines.base import Engine
from dc_engine.engines.work import searchers
from dc_engine.job import Clock
from dc_engine.maintained.continuity import check_mask
from dc_engine.verdict import SCHEMA_VERSION

log = logging.getLogger("airflow_dc_provider.discover")


@dataclass(frozen=True, slots=True)
class InTable:
    """What was found in a table."""

    table: pa.Table
    space: Space
    known: Known
    terms: Terms
    scales: Scales
    dependencies: list[Dependency]

    def answer(self, asked: Discovery, clock: Clock) -> dict[str, Any]:
        """The document."""
        facts = {"space": self.space.to_dict(), "mode": self.known.mode, "because": self.known.because}
        return answer_of(asked, facts, self.dependencies, self.table.num_rows, clock)


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
        table = engine.fetch(rows, comparable_columns(wanted, types), asked.table, mask=asked.mask)
    with clock.step("encode"):
        columns = {name: table.column(name) for name in table.column_names}
        space = make_space(wanted, types, columns)
        coded = encoded(space, columns, np.arange(table.num_rows))
    with clock.step("search"):
        known = found(space, coded, asked.mode, workers=searchers(engine))
    with clock.step("rank"):
        scales = Scales(coded.table(space, known.nullable), known.keys)
        terms = space.terms(known.nullable)
        dependencies = (
            listed(terms, space.nulls, known.sets, scales, "", known.violations) if table.num_rows > 1 else []
        )
    return InTable(table, space, known, terms, scales, dependencies)


def comparable_columns(asked: Asked, types: Mapping[str, str]) -> dict[str, str]:
    """The columns that may be looked at, by what is asked for and by their types."""
    space = space_of(asked, types, {})
    return dict(space.columns)


def make_space(asked: Asked, types: Mapping[str, str], columns: Mapping[str, pa.ChunkedArray]) -> Space:
    """The space for a table with these values."""
    space = space_of(asked, types, useless(columns) if asked.columns is None else {})
    if asked.cross in ("one", "both") and columns:  # without rows no values are alike
        space = with_cross(space, alike(space, columns), both=asked.cross == "both")
    for name, reason in space.left_out.items():
        log.info("column %s is left out: %s", name, reason)
    return space


def answer_of(
    asked: Discovery, facts: Mapping[str, Any], dependencies: Sequence[Dependency], rows: int, clock: Clock
) -> dict[str, Any]:
    """The document that a discovery answers with."""
    space = facts["space"]
    return {
        "schema_version": SCHEMA_VERSION,
        "rows": rows,
        "space": space,
        "mode": facts["mode"],
        "complete": not facts["because"],
        "because": facts["because"],
        "dependencies": [one.to_dict() for one in viewed(dependencies, space["classes"], asked.view)],
        "seconds": clock.total,
    }
