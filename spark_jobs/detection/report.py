"""The report of a load's violations: each row's number of violations, the listed pairs, samples for the verdict."""

from __future__ import annotations

import math
import re
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.detection.listing import MASKED, masked, merge_listings
from spark_jobs.detection.runs import parquet_bytes
from spark_jobs.state.snapshots import DataFile
from spark_jobs.state.storage import Storage


@dataclass(slots=True)
class Report:
    """What one report task gathers and writes."""

    storage: Storage
    load: int
    max_listed: int
    max_samples: int
    mask: Sequence[str]
    _listings: dict[int, list[pa.Table]] = field(default_factory=lambda: defaultdict(list))
    _rows: dict[int, list[pa.Table]] = field(default_factory=lambda: defaultdict(list))

    def add_listing(self, constraint: int, listing: pa.Table) -> None:
        """Violations that a probe lists."""
        self._listings[constraint].append(listing)

    def add_rows(self, constraint: int, rows: pa.Table) -> None:
        """Rows with violations that a probe counted."""
        self._rows[constraint].append(rows)

    def finish(self, names: Mapping[int, str]) -> Iterator[dict[str, Any]]:
        """Write everything, and say what was written."""
        for number, listings in sorted(self._listings.items()):
            listing = masked(merge_listings(listings, self.max_listed), self.mask)
            file = self._write("violations", names[number], listing, listing.num_rows)
            yield {
                "kind": "listed",
                "constraint": number,
                "file": asdict(file),
                "samples": self._samples(listing),
            }
        for number, tables in sorted(self._rows.items()):
            rows = _sum_by_row(tables)
            file = self._write("violating_rows", names[number], rows, rows.num_rows)
            worst = rows.slice(0, self.max_samples).to_pylist()
            yield {
                "kind": "rows",
                "constraint": number,
                "file": asdict(file),
                "count": rows.num_rows,
                "worst": worst,
            }

    def _write(self, kind: str, name: str, table: pa.Table, rows: int) -> DataFile:
        slug = re.sub(r"[^A-Za-z0-9_.-]+", "_", name)[:60]
        path = f"{kind}/{self.load:08d}/{slug}-{uuid.uuid4().hex}.parquet"
        stored = self.storage.write(path, parquet_bytes(table))
        return DataFile(path, kind, name, self.load, stored.size, stored.sha256, rows)

    def _samples(self, listing: pa.Table) -> list[dict[str, Any]]:
        """The worst rows' pairs: first one for each new projection, then more of them."""
        by_worst = np.lexsort((-listing.column("pairs").to_numpy(), -listing.column("violations").to_numpy()))
        seen: set[tuple[int, ...]] = set()
        first: list[dict[str, Any]] = []
        more: list[dict[str, Any]] = []
        for number in by_worst[: 50 * max(self.max_samples, 1)]:
            pair = listing.slice(int(number), 1).to_pylist()[0]
            new = tuple(pair[f"{side}_row_ids"][0] for side in ("t", "s") if pair.get(f"{side}_new"))
            (more if new in seen else first).append(pair)
            seen.add(new)
            if len(first) == self.max_samples:
                break
        chosen = (first + more)[: self.max_samples]
        return [{side: _side(pair, side) for side in ("t", "s") if side in pair} for pair in chosen]


def _side(pair: Mapping[str, Any], side: str) -> dict[str, Any]:
    values = {name: jsonable(value) for name, value in pair[side].items()}
    return {"row_id": pair[f"{side}_row_ids"][0], "values": values, "rows": pair[f"{side}_rows"]}


def _sum_by_row(tables: Sequence[pa.Table]) -> pa.Table:
    """Rows with all their violations, those with most first."""
    together = pa.concat_tables(tables)
    ids, place = np.unique(together.column("row_id").to_numpy(), return_inverse=True)
    sums = np.zeros(len(ids), np.int64)
    np.add.at(sums, place, together.column("violations").to_numpy())
    order = np.argsort(-sums, kind="stable")
    return pa.table({"row_id": ids[order], "violations": sums[order]})


def jsonable(value: Any) -> Any:
    """A value from the data as JSON can carry it, readable and without loss."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Mapping):
        return {str(name): jsonable(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    return str(value)


__all__ = ["MASKED", "Report", "jsonable"]
