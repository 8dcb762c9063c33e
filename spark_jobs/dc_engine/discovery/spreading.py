"""Large work of a search, cut into units that other processes do: how it travels, and what comes back.

A search knows no engine. It has ``Workers``, asks who takes work of some size, and gets the patterns that each unit
met, in the order of the units: the result is the same however the work is cut.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from dc_engine.detection.documents import Met, as_batch, failed
from dc_engine.errors import DcError

_CODEC = "zstd"


class Lines(NamedTuple):
    """Patterns (or other rows of words) with two numbers each, and what a unit looked at for them."""

    patterns: np.ndarray
    one: np.ndarray
    two: np.ndarray
    pairs: int = 0
    """How many pairs of rows, or nodes of a search."""
    stopped: str = ""
    """The limit that the unit reached, if it did."""


class Search(Protocol):
    """What a unit of the work is done with; it travels to every worker."""

    @property
    def nbytes(self) -> int:
        """How many bytes travel."""

    def look(self, unit: Any) -> Lines:
        """Do one unit."""


class Crew(Protocol):
    """Those who take some work."""

    @property
    def units(self) -> int:
        """Into about how many units to cut it."""

    def run(self, what: str, units: Units) -> list[Lines]:
        """What each unit met, in their order. ``what`` is for people."""


Workers = Callable[[float, int], Crew | None]
"""Who takes work that looks at so many pairs of rows, in codes of so many bytes; nobody when it is to be done here."""


def nobody(pairs: float, nbytes: int) -> None:
    """Whatever it is, it is done here."""


@dataclass(frozen=True, slots=True)
class Units:
    """The step that workers run: the input rows say which units are theirs."""

    search: Search
    units: tuple[Any, ...]
    first: int = 0
    """The number of the first of them, where they are some of many."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                try:
                    yield as_batch([document_of(self.first + number, self.search.look(self.units[number]))])
                except DcError as error:
                    yield as_batch([failed(error)])

    def parts(self, number: int) -> list[Units]:
        """The same in several parts of about as many units."""
        edges = pairwise(len(self.units) * part // number for part in range(number + 1))
        return [replace(self, units=self.units[a:b], first=self.first + a) for a, b in edges if a < b]


@dataclass(frozen=True, slots=True)
class Packed:
    """Lines of whole numbers as they travel: each in as few bytes a number as will do, compressed."""

    columns: tuple[tuple[str, bytes], ...]
    size: int
    """How many numbers each has."""

    @staticmethod
    def of(lines: Sequence[np.ndarray]) -> Packed:
        """Lines of one length."""
        small = [np.ascontiguousarray(one, _smallest(one)) for one in lines]
        packed = tuple((one.dtype.str, pa.compress(one, _CODEC, asbytes=True)) for one in small)
        return Packed(packed, len(lines[0]) if lines else 0)

    @property
    def nbytes(self) -> int:
        """How many bytes they take."""
        return sum(len(content) for _, content in self.columns)

    def lines(self) -> list[np.ndarray]:
        """The lines again."""
        return [
            np.frombuffer(pa.decompress(content, self.size * np.dtype(kind).itemsize, _CODEC), kind)
            for kind, content in self.columns
        ]


def _smallest(numbers: np.ndarray) -> np.dtype[Any]:
    """The kind of number that has room for all of them."""
    least, most = int(numbers.min(initial=0)), int(numbers.max(initial=0))
    few = (size for size in (1, 2, 4) if -(1 << 8 * size - 1) <= least and most < 1 << 8 * size - 1)
    return np.dtype(f"i{next(few, 8)}")


def document_of(unit: int, lines: Lines) -> Met:
    """What a unit met, as it travels."""
    columns = [*lines.patterns.T, lines.one, lines.two]
    batch = pa.record_batch([pa.array(one) for one in columns], [str(place) for place in range(len(columns))])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=_CODEC)) as stream:
        stream.write_batch(batch)
    return Met(unit, lines.pairs, lines.stopped, b64encode(sink.getvalue()).decode())


def lines_of(met: Met) -> Lines:
    """The inverse."""
    table = pa.ipc.open_stream(b64decode(met.lines)).read_all()
    *words, one, two = (column.to_numpy() for column in table.columns)
    return Lines(np.stack(words, axis=1), one, two, met.pairs, met.stopped)
