"""The report of a load's violations: each row's number of violations, the listed pairs, samples for the verdict."""

from __future__ import annotations

import re
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dc_engine.detection.codes import whole
from dc_engine.detection.documents import Document, Listed, ViolatingRows
from dc_engine.detection.listing import first_places, masked, merge_listings
from dc_engine.detection.plan import ConstraintPlan
from dc_engine.detection.shown import json_rows
from dc_engine.state.files import DataFile, FileKind
from dc_engine.state.packing import parquet_bytes
from dc_engine.state.parquet import store_parquet
from dc_engine.state.storage import Storage


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

    def finish(self, constraints: Mapping[int, ConstraintPlan]) -> Iterator[Document]:
        """Write everything, and report what was written; of a pinned dependency there is only an example."""
        for number, listings in sorted(self._listings.items()):
            pinned, name = constraints[number].pinned, constraints[number].name
            most = 0 if pinned else self.max_listed
            bound = 1 if pinned else max(most, self.max_samples)
            # one listing alone is as its probe merged it
            merged = merge_listings(listings, bound) if len(listings) > 1 else listings[0].slice(0, bound)
            found = masked(merged, self.mask)
            listing = found.slice(0, most)
            file = self._write(FileKind.VIOLATIONS, name, listing) if listing.num_rows else None
            yield Listed(number, self._samples(found), file)
        for number, tables in sorted(self._rows.items()):
            rows = _sum_by_row(tables)
            file = self._write(FileKind.VIOLATING_ROWS, constraints[number].name, rows)
            yield ViolatingRows(number, rows.num_rows, rows.slice(0, self.max_samples).to_pylist(), file)

    def _write(self, kind: FileKind, name: str, table: pa.Table) -> DataFile:
        slug = re.sub(r"[^A-Za-z0-9_.-]+", "_", name)[:60]
        path = f"{kind.folder}/{self.load:08d}/{slug}-{uuid.uuid4().hex}.parquet"
        data = parquet_bytes(table)
        return store_parquet(self.storage, path, data, kind=kind, owner=name, load=self.load, rows=table.num_rows)

    def _samples(self, listing: pa.Table) -> list[dict[str, Any]]:
        """The worst rows' pairs: first one for each new projection, then more of them."""
        sides = [side for side in ("t", "s") if side in listing.column_names]
        by_worst = np.lexsort((-listing.column("pairs").to_numpy(), -listing.column("violations").to_numpy()))
        first = first_places(_new_projections(listing, sides)[by_worst])
        chosen = by_worst[np.concatenate([first, np.delete(np.arange(len(by_worst)), first)])][: self.max_samples]
        shown = listing.take(pa.array(chosen, pa.int64()))
        parts = {side: _side(shown, side) for side in sides}
        pairs = [{side: parts[side][place] for side in sides} for place in range(len(chosen))]
        for place, pair in enumerate(pairs):
            if len(pair) == 2 and pair["t"]["row_id"] == pair["s"]["row_id"]:  # of rows with the same values, two
                pair["s"]["row_id"] = shown.column("s_row_ids")[place].as_py()[:2][-1]
        return pairs


def _new_projections(listing: pa.Table, sides: Sequence[str]) -> np.ndarray:
    """For each line the first rows of its new projections, whichever side they are on."""
    ids = [pc.list_element(whole(listing.column(f"{side}_row_ids")), 0).to_numpy() for side in sides]
    new = [listing.column(f"{side}_new").to_numpy() for side in sides]
    found = np.stack([np.where(is_new, own, -1) for is_new, own in zip(new, ids, strict=True)], axis=1)
    if len(sides) == 2:  # a single new one is the first
        found[~new[0]] = found[~new[0], ::-1]
    return found


def _side(listing: pa.Table, side: str) -> list[dict[str, Any]]:
    values = whole(listing.column(side))
    rows = json_rows({field.name: values.field(place) for place, field in enumerate(values.type)})
    ids = pc.list_element(whole(listing.column(f"{side}_row_ids")), 0).to_pylist()
    counts = listing.column(f"{side}_rows").to_pylist()
    return [{"row_id": one, "values": row, "rows": count} for one, row, count in zip(ids, rows, counts, strict=True)]


def _sum_by_row(tables: Sequence[pa.Table]) -> pa.Table:
    """Rows with all their violations, those with the most first."""
    together = pa.concat_tables(tables)
    ids, place = np.unique(together.column("row_id").to_numpy(), return_inverse=True)
    sums = np.zeros(len(ids), np.int64)
    np.add.at(sums, place, together.column("violations").to_numpy())
    order = np.argsort(-sums, kind="stable")
    return pa.table({"row_id": ids[order], "violations": sums[order]})
