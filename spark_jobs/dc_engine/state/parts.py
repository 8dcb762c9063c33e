"""Parts of a file: row groups that were read; and several files read at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise
from typing import TypeVar

import pyarrow as pa

from dc_engine.threads import side_by_side

Given = TypeVar("Given")
Made = TypeVar("Made")


class Held:
    """Some row groups of a file, in their order, as one table."""

    def __init__(self, groups: Sequence[int], sizes: Iterable[int], table: pa.Table) -> None:
        self.table = table
        self.spans = dict(zip(groups, pairwise(accumulate(sizes, initial=0)), strict=True))
        """Where each of them begins and ends in the table."""

    def at(self, groups: Sequence[int]) -> pa.Table:
        """Some of them: slices, not copies."""
        if len(groups) == len(self.spans):
            return self.table
        parts: list[tuple[int, int]] = []
        for start, end in (self.spans[group] for group in groups):
            first = parts.pop()[0] if parts and parts[-1][1] == start else start
            parts.append((first, end))
        return pa.concat_tables([self.table.slice(start, end - start) for start, end in parts])

    def with_more(self, other: Held) -> Held:
        """Those of both, copied, so that nothing is kept but them."""
        tables = {group: one.at([group]) for one in (self, other) for group in one.spans}
        groups = sorted(tables)
        sizes = [tables[group].num_rows for group in groups]
        return Held(groups, sizes, pa.concat_tables([tables[group] for group in groups]).combine_chunks())


def made_of_each(make: Callable[[Given], Made], files: Iterable[Given], *, threads: bool) -> list[Made]:
    """What is made of each of some files. A process that works alone may read several at the same time."""
    return side_by_side(make, files, None if threads else 1)
