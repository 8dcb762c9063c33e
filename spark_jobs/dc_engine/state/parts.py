"""Parts of a file: row groups that were read, and the bytes of those that are about to be."""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise

import pyarrow as pa


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


def runs_of(numbers: Sequence[int]) -> Iterator[list[int]]:
    """Consecutive numbers, grouped."""
    run: list[int] = []
    for number in sorted(numbers):
        if run and number != run[-1] + 1:
            yield run
            run = []
        run.append(number)
    if run:
        yield run


class Parts(io.RawIOBase):
    """A file of which only some parts are present, by their offsets."""

    def __init__(self, size: int) -> None:
        self._parts: dict[int, memoryview] = {}
        self._starts: list[int] = []
        self._size, self._place = size, 0

    def hold(self, parts: dict[int, bytes]) -> None:
        """Have these parts from now on."""
        self._parts, self._starts = {start: memoryview(part) for start, part in parts.items()}, sorted(parts)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence != io.SEEK_SET:
            offset += self._place if whence == io.SEEK_CUR else self._size
        self._place = offset
        return offset

    def tell(self) -> int:
        return self._place

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, length: int = -1) -> memoryview:  # Arrow takes any buffer, uncopied
        start = self._starts[bisect_right(self._starts, self._place) - 1]
        first = self._place - start
        found = self._parts[start][first : None if length < 0 else first + length]
        self._place += len(found)
        return found
