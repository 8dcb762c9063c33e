"""The dependencies of a table whose rows stay with the workers.

A few rows are in the driver: a sample, and all that were found to violate something. Everything that holds among them
is known, as for any small table. Whatever is known is then decided on all rows, and rows that violate some of it join
the few, until nothing is violated. What holds among the few is then what holds among all: their patterns occur in the
table, and all that these patterns leave is proven (see ``search``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dc_engine.detection.codes import whole
from dc_engine.detection.fetched import Columns, Measured
from dc_engine.detection.rows import ROW_ID, is_in
from dc_engine.discovery.afar import Afar
from dc_engine.discovery.boxes import Box, canonical
from dc_engine.discovery.coded import Coded, encoded
from dc_engine.discovery.covering import Estimates
from dc_engine.discovery.distant import Distant
from dc_engine.discovery.keeping import found
from dc_engine.discovery.known import COUNTED, WITNESSED, Known, mode_of
from dc_engine.discovery.space import Space
from dc_engine.errors import RequestError, counted

log = logging.getLogger("airflow_dc_provider.discover")

Violating = Callable[[Sequence[Box]], Mapping[Box, np.ndarray]]
"""For each box that is not empty the ids of some rows that lie in it."""


def stays_afar(space: Space, mode: str, rows: int, most_cells: int) -> bool:
    """Whether the rows of a table are left where they are, if it has more than so many cells."""
    if rows * len(space.columns) <= most_cells or space.max_error or space.limits.min_support or mode == COUNTED:
        return False  # errors and support are counted over all rows
    return mode_of(space, rows, mode) == WITNESSED


def nullable_in(space: Space, measured: Measured) -> frozenset[str]:
    """The columns of a space with a NULL that is ignored."""
    some = (name for name in space.columns if measured.values[name] < measured.rows)
    return frozenset(some if space.nulls == "ignore" else ())


@dataclass(frozen=True, slots=True)
class Certified:
    """What is known about a large table, and the sample from which everything else is estimated."""

    known: Known
    estimates: Estimates

    @property
    def sample(self) -> Coded:
        """The rows that it has."""
        return self.estimates.sample


def coded_few(space: Space, rows: pa.Table) -> Coded:
    """A few rows as codes."""
    return encoded(space, Columns.of(rows.select([*space.columns])), whole(rows.column(ROW_ID)).to_numpy())


def found_afar(space: Space, rows: Distant, nullable: frozenset[str]) -> Certified:
    """The dependencies of all rows, from scratch; ``nullable`` are the columns with NULLs."""
    log.info("looking for dependencies of %s, which stay with the workers", counted(rows.rows, "row"))
    columns = [*space.columns]
    few = [rows.sample(columns)]
    estimates = Estimates(coded_few(space, few[0]), few[0], rows.rows)
    prover = Afar(space, nullable, rows, estimates)

    def know() -> Known:
        return found(space, coded_few(space, few[0]), WITNESSED, nullable)

    def join(ids: np.ndarray) -> bool:
        more = rows.taken(ids[~is_in(ids, ids_of(few[0]))], columns)
        few[0] = pa.concat_tables([one for one in (few[0], more) if one.num_rows]) if more.num_rows else few[0]
        return more.num_rows > 0

    return Certified(settled(space, know, prover.violating, join), estimates)


def settled(space: Space, know: Callable[[], Known], violating: Violating, join: Callable[[np.ndarray], bool]) -> Known:
    """What holds among all rows, as soon as what is known of a few rows does; ``join`` adds some to those."""
    proven: set[Box] = set()
    while True:
        known = know()
        terms = space.terms(known.nullable)
        boxes = sorted({canonical(terms, box) for box in known.boxes} - proven)
        log.info("%s, %s to be decided on all rows", counted(len(known.boxes), "rule"), f"{len(boxes):,}")
        found = violating(boxes) if boxes else {}
        if not found:
            return known
        proven |= set(boxes) - set(found)
        if not join(np.unique(np.concatenate(list(found.values())))):
            raise RequestError(
                "The table gives other rows each time it is read, so that nothing can be said about it.",
                hint="Discover with a state: its rows are read once and kept.",
            )


def ids_of(rows: pa.Table) -> np.ndarray:
    """The ids of rows, in order."""
    return np.sort(whole(rows.column(ROW_ID)).to_numpy())
